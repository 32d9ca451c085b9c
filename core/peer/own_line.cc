#include "core/peer/own_line.h"

#include <algorithm>
#include <cstddef>

#include "core/base/mutant.h"
#include "core/peer/line_window.h"
#include "core/wire/limits.h"

namespace lockstep::peer {
namespace {

// Of all links together, beyond those that each link has anyway: descriptors, and work at each heartbeat.
constexpr std::ptrdiff_t kMostStreams = 512;

}  // namespace

OwnLine::OwnLine(const PeerOptions& options)
    : first_stripes_(options.stripes),
      largest_stripes_(options.largest_stripes()),
      first_bytes_(options.direct.rate_bytes()),
      bytes_per_second_(options.sending.bytes_per_second),
      rate_(options.direct.rate_window, options.direct.rate_bytes()),
      stream_count_(options.stripes, options.largest_stripes(), options.direct.rate_window,
                    options.direct.by_rate_bytes / 2) {}

bool OwnLine::written(const io::Written& all, std::uint64_t bytes, Instant now) {
  rate_.written(all, bytes, now);
  const std::uint16_t before = stream_count_.wanted();
  stream_count_.written(all, bytes, now);
  return stream_count_.wanted() != before;
}

std::uint16_t OwnLine::most_stripes(const Links& links) const {
  const auto neighbours = std::count_if(
      links.begin(), links.end(), [](const auto& entry) { return entry.second.relation == Relation::kNeighbour; });
  const auto each =
      static_cast<std::uint16_t>(kMostStreams / std::max<std::ptrdiff_t>(neighbours, kMostStreams / kMaxStripes));
  const std::uint16_t most = mutant(Mutant::kStreamsUnlimited) ? kMaxStripes : largest_stripes_;
  return std::clamp(each, first_stripes_, most);
}

std::uint16_t OwnLine::wanted_stripes(const Links& links) const {
  const std::uint16_t wanted = stream_count_.wanted();
  return wanted == first_stripes_ ? wanted : std::min(wanted, most_stripes(links));
}

ring::Rate OwnLine::capped(ring::Rate measured) const {
  if (bytes_per_second_ == 0) return measured;
  const auto most = static_cast<ring::Rate>(std::clamp<std::uint64_t>(bytes_per_second_ / 1024, 1, UINT32_MAX));
  return measured == 0 ? most : std::min(measured, most);
}

std::optional<ring::UnderWay> OwnLine::under_way(const Links& links) const {
  Duration farthest;
  for (const auto& [peer, link] : links) farthest = std::max(farthest, link.round_trip);
  if (farthest == Duration{}) return std::nullopt;
  return that_fills(capped(rate_.best()), farthest, {wanted_stripes(links), stream_count_.on_trial()}, first_bytes_);
}

}  // namespace lockstep::peer

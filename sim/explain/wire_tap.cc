#include "sim/explain/wire_tap.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "core/base/assert.h"

namespace lockstep::sim {

std::size_t WireTap::wanted() const {
  switch (part_) {
    case Part::kPreamble: return wire::kPreambleBytes;
    case Part::kHeader: return wire::kHeaderBytes;
    case Part::kBody: return header_.length;
    case Part::kTrailer: return wire::kTrailerBytes;
    case Part::kPayload:
    case Part::kNoise: return 0;
  }
  LOCKSTEP_UNREACHABLE();
}

void WireTap::hear(std::span<const std::byte> bytes, std::size_t size, std::vector<Heard>& out) {
  while (size > 0 && part_ != Part::kNoise) {
    std::size_t n = 0;
    if (part_ == Part::kPayload) {
      n = std::min<std::uint64_t>(size, payload_left_);
      payload_left_ -= n;
      if (payload_left_ == 0) part_ = Part::kTrailer;
    } else if (bytes.empty()) {
      part_ = Part::kNoise;  // payload where none belongs
      return;
    } else {
      n = std::min(size, wanted() - pending_.size());
      pending_.insert(pending_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
    }
    carried_ += n;
    size -= n;
    if (!bytes.empty()) bytes = bytes.subspan(n);
    while (part_ != Part::kPayload && part_ != Part::kNoise && pending_.size() == wanted()) part_is_whole(out);
  }
}

void WireTap::part_is_whole(std::vector<Heard>& out) {
  const std::span<const std::byte> bytes = pending_;
  Part next = Part::kNoise;
  switch (part_) {
    case Part::kPreamble: next = Part::kHeader; break;
    case Part::kHeader:
      if (auto header = wire::decode_header(bytes.first<wire::kHeaderBytes>())) {
        header_ = *header;
        next = Part::kBody;
      }
      break;
    case Part::kBody: {
      Result<wire::Message> message = wire::decode_body(header_, bytes);
      if (!message) break;
      if (const auto* segment = std::get_if<wire::Segment>(&*message)) {
        segment_ = *segment;
        payload_left_ = segment_.length;
        next = payload_left_ > 0 ? Part::kPayload : Part::kTrailer;
      } else {
        out.push_back({*std::move(message), carried_});
        next = Part::kHeader;
      }
      break;
    }
    case Part::kTrailer:
      out.push_back({segment_, carried_});
      next = Part::kHeader;
      break;
    case Part::kPayload:
    case Part::kNoise: LOCKSTEP_UNREACHABLE();
  }
  part_ = next;
  pending_.clear();
}

}  // namespace lockstep::sim

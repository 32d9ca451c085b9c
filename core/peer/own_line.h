// This peer's own line: what it carries (rule 58 of docs/protocol.md), with how many streams to each neighbour
// (rule 60), and how many contributions fill it (rule 61). A line carries no more than the program lets its peer send
// (rule 62). Opens no stream and sends nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "core/base/time.h"
#include "core/io/stream.h"
#include "core/peer/line_rate.h"
#include "core/peer/mesh_links.h"
#include "core/peer/options.h"
#include "core/peer/stream_count.h"
#include "core/ring/shares.h"
#include "core/ring/under_way.h"

namespace lockstep::peer {

// Beyond so many stripes to a neighbour each of them is slow.
inline constexpr std::uint16_t kFewStripes = 4;

class OwnLine {
 public:
  explicit OwnLine(const PeerOptions& options);

  // See BusyWindow::written(). True if another number of stripes is wanted now.
  bool written(const io::Written& all, std::uint64_t bytes, Instant now);

  // The report on this line that the others get when a call begins.
  [[nodiscard]] ring::LineReport report() { return {capped(rate_.of_last_calls()), has_slow_streams()}; }
  // Whether more streams fill the line than the caller left it with: it loses packets.
  [[nodiscard]] bool has_slow_streams() const { return stream_count_.wanted() > std::max(first_stripes_, kFewStripes); }
  // How many contributions fill the line. Empty while no round trip is known.
  [[nodiscard]] std::optional<ring::UnderWay> under_way(const Links& links) const;
  // Stripes of each link to a neighbour.
  [[nodiscard]] std::uint16_t wanted_stripes(const Links& links) const;
  // The most that such a link may have: all links together have a limit.
  [[nodiscard]] std::uint16_t most_stripes(const Links& links) const;

  // Left out: first_stripes_, largest_stripes_, first_bytes_ and bytes_per_second_, which follow from the options.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(rate_, stream_count_);
  }

 private:
  [[nodiscard]] ring::Rate capped(ring::Rate measured) const;

  std::uint16_t first_stripes_;
  std::uint16_t largest_stripes_;
  std::uint64_t first_bytes_;       // under way before the rate is known
  std::uint64_t bytes_per_second_;  // that the program allows; 0: no limit
  LineRate rate_;
  StreamCount stream_count_;
};

}  // namespace lockstep::peer

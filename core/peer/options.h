// What a peer is told once, at its birth.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/io/stream.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

// Of the direct algorithm; must be equal on all peers.
struct DirectOptions {
  std::uint32_t turns = 0;  // see ring::Segmenting
  // Far all-reduces of so many bytes for each rank: ranks own what their lines carry (rule 58). A line is measured over
  // four times as many bytes, and so long.
  std::uint32_t by_rate_bytes = 512U << 10U;
  Duration rate_window = lockstep::milliseconds(300);

  [[nodiscard]] std::uint64_t rate_bytes() const { return std::uint64_t{4} * by_rate_bytes; }
};

// The most that a peer sends in a second, to all others together (rule 62). 0 stands for no limit.
struct SendingLimits {
  std::uint64_t bytes_per_second = 0;        // segments of all kinds
  std::uint64_t state_bytes_per_second = 0;  // of those, shared states
};

struct PeerOptions {
  PeerId id;               // random, from the driver's entropy
  std::uint64_t seed = 0;  // for jitter; from the driver's entropy
  std::string name;        // for people
  GroupId group;
  GangId gang;  // 0: none
  std::uint32_t gang_size = 1;
  std::uint32_t founders = 1;    // an empty run is founded once this many peers wait
  bool auto_admit = false;       // admit waiting peers at round boundaries
  io::Address advertised;        // family kNone: the address the coordinator sees; port 0: the port it listens on
  std::uint16_t first_port = 0;  // listen on the first free port of this range; 0: any port
  std::uint16_t last_port = 0;
  std::uint16_t stripes = 2;        // parallel streams to each neighbour
  std::uint16_t most_stripes = 0;   // the most, where lines lose packets (rule 60); up to `stripes`: always as many
  std::uint32_t segment_bytes = 0;  // 0: chosen from the size of the tensors; must be equal on all peers
  std::uint32_t eager_segments = kMaxEagerSegments;  // most small segments that a neighbour gets before it asks
  std::uint32_t window = kRoundWindow;               // rounds in flight that begin in launch order (rule 43)
  std::uint32_t queued_calls = kMaxQueuedCalls;      // calls that wait for a place in the window
  DirectOptions direct;
  std::uint32_t strangers = kMaxStrangers;  // streams that have not said the key of the run
  SendingLimits sending;
  // Where counters that wrap around begin: those of a peer that has run for months, in a test.
  std::uint64_t first_serial = 0;  // of operations
  std::uint32_t first_use = 0;     // of a tag in a cohort; must be equal on all peers

  Duration dial_timeout = lockstep::seconds(5);  // one attempt to open a stream and be greeted
  Duration link_heartbeat = lockstep::milliseconds(500);
  Duration link_silence = lockstep::seconds(4);  // a stripe without a byte for so long is reset
  Duration link_timeout = lockstep::seconds(8);  // a link without a stripe for so long is reported as broken
  Duration abort_grace = lockstep::seconds(10);  // from a call's time-out, or news after it, to `outcome unknown`

  // The most streams that a link may ever have.
  [[nodiscard]] std::uint16_t largest_stripes() const { return std::max(stripes, most_stripes); }
};

// Why no peer can have these options; empty: they are valid. The text begins with the name of an option.
std::string validate_options(const PeerOptions& options);

}  // namespace lockstep::peer

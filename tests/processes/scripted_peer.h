// A peer in a process of its own that does what the test says, one order after the other. Orders are sent without
// waiting, so that several peers can be told before the first has ended; ended() collects the answers in the same
// order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/base/data_type.h"
#include "core/base/status.h"
#include "core/base/time.h"
#include "tests/processes/shared_journal.h"
#include "tests/support/process.h"

namespace lockstep::testing {

struct ScriptedPeerOptions {
  std::string name;
  std::uint32_t founders = 1;
  std::uint16_t port = 0;             // to listen on
  std::uint16_t advertised_port = 0;  // told to the others
  Duration link_heartbeat{0};         // 0: the default
  Duration link_silence{0};
  Duration link_timeout{0};
  std::uint32_t segment_bytes = 0;
};

// How an order ended.
struct Ended {
  bool came = false;  // an answer; else the peer is gone, or takes too long
  Status status = Status::kInternal;
  std::uint32_t world = 0;
  std::uint32_t retries = 0;
  bool intact = false;  // the input holds the bits it had
  double first = 0;     // element of the result
  std::string text;
};

struct ReduceOrder {
  std::uint64_t count = 1000;
  DataType type = DataType::kF32;  // kF32 or kF64
  bool retry = true;
  bool in_place = false;
  Duration timeout{0};
  std::uint32_t times = 1;  // ends with the first that fails
};

class ScriptedPeer {
 public:
  explicit ScriptedPeer(const ScriptedPeerOptions& options);

  void connect(const std::string& coordinator, Duration timeout = {0});
  void admit(std::uint32_t at_least);
  void leave();
  // Every peer brings ones.
  void all_reduce(const ReduceOrder& order = {});
  // Waits until the collective is launched: what happens from then on happens to it.
  bool is_launched() { return heard("launched"); }
  // Waits until the first of several rounds is over; the others follow by themselves.
  bool is_going() { return heard("going"); }
  // The answer to the oldest order that has none yet.
  Ended ended(Duration within = seconds(30));

  const SharedJournal journal;  // what the process saw
  Process process;

 private:
  bool heard(const std::string& news);
};

}  // namespace lockstep::testing

// A peer in a separate process that carries out the test's orders one by one. Orders are sent without waiting, so that
// several peers can receive orders before the first one has ended. ended() returns the answers in the same order.
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
  std::uint16_t port = 0;             // port to listen on
  std::uint16_t advertised_port = 0;  // port that other peers are told
  Duration link_heartbeat{0};         // 0: the default
  Duration link_silence{0};
  Duration link_timeout{0};
  std::uint32_t segment_bytes = 0;
};

// The end of an order.
struct Ended {
  bool came = false;  // false: the peer has died, or takes too long
  Status status = Status::kInternal;
  std::uint32_t world = 0;
  std::uint32_t retries = 0;
  bool intact = false;  // the input is unchanged
  double first = 0;     // first element of the result
  std::string text;
};

struct ReduceOrder {
  std::uint64_t count = 1000;
  DataType type = DataType::kF32;  // kF32 or kF64
  bool retry = true;
  bool in_place = false;
  Duration timeout{0};
  std::uint32_t times = 1;  // ends with the first failure
};

class ScriptedPeer {
 public:
  explicit ScriptedPeer(const ScriptedPeerOptions& options);

  void connect(const std::string& coordinator, Duration timeout = {0});
  void admit(std::uint32_t at_least);
  void leave();
  // Every peer contributes ones.
  void all_reduce(const ReduceOrder& order = {});
  // Waits until the collective is launched: later events affect it.
  bool is_launched() { return heard("launched"); }
  // Waits until the first of several rounds is over; the others follow automatically.
  bool is_going() { return heard("going"); }
  // The answer to the oldest order without an answer.
  Ended ended(Duration within = seconds(30));

  const SharedJournal journal;  // the observations of the process
  Process process;

 private:
  bool heard(const std::string& news);
};

}  // namespace lockstep::testing

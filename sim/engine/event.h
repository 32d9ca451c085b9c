// Events and the queue that orders them: by integer nanoseconds, ties by a keyed hash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/time.h"
#include "sim/engine/dice.h"
#include "sim/engine/queue_witness.h"

namespace lockstep::sim {

enum class What : std::uint8_t {
  // on the wire; nobody is woken up to see them
  kArrive,       // a: end that receives
  kSyn,          // a: connection; a dial reaches the other host
  kDialExpires,  // a: connection
  // in a process; held back while it is stopped
  kLand,      // a: end, b: loan; bytes move from the kernel into the lent memory
  kTold,      // a: end, b: loan; ReadDone
  kTake,      // a: end, b: loan
  kTaken,     // a: end, b: loan; WriteDone
  kRevoked,   // a: end, b: direction
  kClosed,    // a: end, b: reason
  kOpened,    // a: end
  kAccepted,  // a: end
  kTimer,
  kJobRuns,  // a: job
  kJobDone,  // a: job
  kResolved,
  kListening,
  kApp,  // a: what the application wanted to do
  // the nemesis
  kWake,
  kEntry,  // a: plan entry, b: 0 begins, 1 ends
  kHeal,
  kGiveUp,
  // flow fidelity
  kFlow,  // a: serial; a message has left, or a rate changes
  // guests
  kGuest,  // a: host, b: what its program is woken up for
};
inline constexpr std::size_t kWhatCount = 23;
std::string_view name_of(What what);

inline constexpr std::uint32_t kNoProcess = 0xffffffff;

struct Event {
  std::int64_t at = 0;
  std::uint64_t tie = 0;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::uint32_t process = kNoProcess;  // the process of the event
  What what = What::kTimer;
};

// A heap of small values, with four children to a node: half as deep as a binary one.
class EventHeap {
 public:
  EventHeap() { events_.reserve(256); }
  void push(const Event& event);
  Event pop();
  [[nodiscard]] bool empty() const { return events_.empty(); }
  [[nodiscard]] const Event& top() const { return events_.front(); }

 private:
  std::vector<Event> events_;
};

// Immediate events come first. Far events wait in a heap of their own, so that the heap of near events stays small.
class EventQueue {
 public:
  explicit EventQueue(Dice dice) : ties_(dice.bits(Purpose::kTie, 0)) { at_once_.reserve(64); }
  void watch(QueueWitness* witness) { witness_ = witness; }  // may be null

  void push(Instant at, What what, std::uint32_t process, std::uint64_t a = 0, std::uint64_t b = 0);
  // Before everything else that waits, in the order in which it is asked for.
  void push_at_once(Instant now, What what, std::uint32_t process, std::uint64_t a = 0, std::uint64_t b = 0);
  // Even before that.
  void push_next(Instant now, What what, std::uint32_t process, std::uint64_t a = 0, std::uint64_t b = 0);
  [[nodiscard]] bool empty() const { return at_once_.empty() && near_.empty() && far_.empty(); }
  [[nodiscard]] const Event& top() const {
    return at_once_.empty() ? (far_is_next() ? far_ : near_).top() : at_once_[first_];
  }
  Event pop();

 private:
  std::uint64_t ties_;
  std::uint64_t pushed_ = 0;
  std::uint64_t at_once_pushed_ = 0;  // their ties order nothing, but tell them apart
  QueueWitness* witness_ = nullptr;
  [[nodiscard]] bool far_is_next() const;

  std::int64_t now_ = 0;  // time of the last popped event
  EventHeap near_;
  EventHeap far_;
  std::vector<Event> at_once_;  // from first_ on; empty when nothing is left
  std::size_t first_ = 0;
};

}  // namespace lockstep::sim

// The history of one run, as data: the life of each process, every moment at which a machine acted, and its causes. A
// Historian makes it; the causal slice, the listing and the pictures read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "sim/plan/report.h"

namespace lockstep::sim {

using MomentId = std::uint32_t;
inline constexpr MomentId kNoMoment = 0xffffffff;
inline constexpr std::uint32_t kNoLane = 0xffffffff;

// The life of one process.
struct Lane {
  std::string name;  // "coordinator", "h3", and "h3.2" for its second process
  std::uint32_t host = 0;
  PeerId peer;
  std::int64_t began_ns = 0;
  std::int64_t ended_ns = -1;  // -1: it lived to the end
  bool killed = false;         // the process was killed
};

// The beginning of a moment.
enum class Spark : std::uint8_t { kStart, kEnd, kCall, kMessage, kTimer, kKernel, kStream, kFault, kFailure };
std::string_view name_of(Spark spark);

// Why one moment is among the causes of another, the strongest reason first.
enum class Because : std::uint8_t {
  kFault,    // a fault is the cause, or the reason for silence
  kMessage,  // it was sent there
  kKernel,   // the work was begun there
  kProgram,  // the application went on from there
  kState,    // the same process, the same subject (a round, a change of membership), earlier
  kStream,   // the stream was opened, ended or reset there
  kTimer,    // the timer was set there
  kView,     // the membership in which it happens was installed there
};
std::string_view name_of(Because because);

struct Cause {
  MomentId moment = kNoMoment;
  Because because = Because::kState;
};

// The state of a process for people: names and values.
using State = std::vector<std::pair<std::string, std::string>>;

struct Moment {
  std::int64_t at_ns = 0;
  std::uint64_t event = 0;       // how many events had happened, this one included
  std::uint32_t lane = kNoLane;  // kNoLane: it happened to no single process
  Spark spark = Spark::kTimer;
  bool quiet = false;             // nothing but signs of life
  std::vector<std::string> ins;   // what came to it
  std::vector<std::string> outs;  // what it did, messages apart
  std::vector<Cause> causes;
  std::vector<std::uint32_t> subjects;  // into History::subjects
  std::uint32_t before = 0;             // into History::states
  std::uint32_t after = 0;
};

struct Sent {
  std::string type;
  std::string text;
  MomentId from = kNoMoment;
  MomentId to = kNoMoment;  // kNoMoment: it never arrived, or nobody read it
  std::uint32_t from_lane = kNoLane;
  std::uint32_t to_lane = kNoLane;
  std::int64_t sent_ns = 0;
  std::int64_t received_ns = -1;
};

// One call of an application, from when it is made until it completes.
struct Bar {
  std::uint32_t lane = 0;
  std::uint64_t call = 0;
  std::string what;               // "all-reduce 3 i32 sum tag 7"
  std::optional<Tag> tag;         // collectives
  std::string round;              // as far as it is known
  std::string status;             // empty: it has not ended
  std::string outcome;            // status and text
  std::vector<std::string> with;  // contributors of a committed round
  MomentId made = kNoMoment;
  MomentId ended = kNoMoment;
};

struct Installed {
  std::uint32_t lane = 0;
  MomentId moment = kNoMoment;
  std::uint64_t number = 0;
  std::uint64_t cohort = 0;
  std::vector<std::string> members;
};

struct FaultSpan {
  std::string name;  // "cut"
  std::string text;  // "cut h1 -> h2 for 200 ms"
  std::uint64_t entry = 0;
  std::vector<std::uint32_t> hosts;
  bool lossy = false;  // a member or a message may be lost by it
  MomentId moment = kNoMoment;
  std::int64_t began_ns = 0;
  std::int64_t ended_ns = -1;  // -1: it lasted until the end
};

struct History {
  std::uint64_t seed = 0;
  std::vector<Lane> lanes;
  std::vector<Moment> moments;  // as they happened
  std::vector<Sent> messages;   // as they were sent
  std::vector<Bar> calls;
  std::vector<Installed> views;
  std::vector<FaultSpan> faults;
  std::vector<std::string> subjects;
  std::vector<State> states;
  std::optional<Failure> failure;
  MomentId failed = kNoMoment;  // the moment of the failure
  std::int64_t healed_ns = -1;
  std::int64_t ended_ns = 0;
};

}  // namespace lockstep::sim

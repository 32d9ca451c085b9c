// One run, spelled out: the world, the program that applications run, and every fault with its moment. A seed expands to a
// plan; a plan is written to a file and read back (plan_file.h), and gives the same run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/wire/limits.h"
#include "sim/expect.h"
#include "sim/memory.h"
#include "sim/network.h"
#include "sim/work.h"

namespace lockstep::sim {

// Host 0 is the coordinator's; peers live on hosts 1..peers.
enum class Fault : std::uint8_t {
  kCrash,    // a: its process dies and resets its streams; starts again after `length` (0: when the network heals)
  kVanish,   // a: its machine dies, in silence; likewise; `number` 1: for good, even when the network heals
  kStall,    // a: stopped for `length`, then wakes with old state
  kCut,      // a -> b: nothing gets through for `length`
  kCutBoth,  // a <-> b
  kReset,  // a, b: streams between them are reset, `number` times, one `length` apart; b = a: those with all other peers
  kSilence,   // a, b: streams between them go silent for ever; new ones work
  kSlow,      // a, b: bandwidth falls by `number` for `length`
  kKernels,   // a: kernels take `number` times as long for `length`
  kJoin,      // a: starts, when it does not run
  kLeave,     // a: leaves politely; starts again after `length`
  kStop,      // a: aborts its oldest call
  kTimeout,   // a: its next collective gets a time-out of `length`
  kMismatch,  // a: its next collective has another count or operation than the others'
  kSkip,      // a: does not launch its next collective
  kSpoil,     // a: for `length`, about half of the pieces of state that it sends are not what it digested
  kDrift,     // a: until its next sync, one byte or one value of the state that its program watches is another one
  kAbandon,   // a: its program gives the run up, whatever it waits for; starts again soon
  kMute,  // a: for `length`, no process there answers a proposal, but for the first `number` on each stream; it lives
  kStrangers,   // a, b: `number` strangers on host b keep a's port busy for `length` (strangers.h)
  kFlip,        // a -> b: a bit flips in each of the next `number` payloads or frames (0: one) that go this way
  kMiscompute,  // a: a bit flips in what its kernels make of the next `number` segments (0: one)
};
inline constexpr std::uint8_t kFaultCount = 22;
std::string_view name_of(Fault fault);

bool is_of_pair(Fault fault);  // what happens between hosts a and b

// Whether this can be the cause of a lost member, and of a round that does not commit.
bool may_lose_members(Fault fault);

struct Entry {
  Fault fault = Fault::kCrash;
  // When: `after`, counted from the start, or from one of these, the n-th of the run (1, 2, ...): the launch of a collective,
  // the first news that one was committed, the first news of a view, an event, a piece of a state that has come somewhere.
  Duration after{};
  std::uint64_t launch = 0;
  std::uint64_t commit = 0;
  std::uint64_t view = 0;
  std::uint64_t event = 0;
  std::uint64_t piece = 0;
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  Duration length{};
  std::uint64_t number = 0;

  bool operator==(const Entry&) const = default;
};

inline constexpr Duration kLongestTime = lockstep::seconds(1'000'000);  // of all that a plan says

struct Plan {
  std::uint64_t seed = 0;
  Mode mode = Mode::kToken;
  std::uint32_t peers = 4;     // hosts that may run one
  std::uint32_t founders = 3;  // start at once; the others by kJoin, or when the network heals
  bool all_start = true;       // false: who is no founder and is named by no kJoin never starts
  std::uint32_t gang_size = 1;
  bool namesakes = false;  // the last gang has the name of the first: of the two, one waits until the other is gone
  std::uint32_t groups = 1;
  bool auto_admit = false;
  bool share_state = false;        // after an admission peers sync their state; otherwise one broadcasts a few numbers
  std::uint32_t state_pieces = 0;  // of its largest tensor; 0: drawn, kStatePieces at most
  bool all_vote = true;            // in those syncs; false: at times some only send, or only receive
  std::uint32_t staged_permille = 500;  // of those syncs; the others take the state over in place
  bool publish = false;                 // and publish it; who waits fetches it in advance
  bool watch = false;                   // and watch it beside every collective
  std::uint32_t minimum_world = 1;
  bool small_changes = false;       // a step changes few pieces of the state
  std::uint32_t torn_permille = 0;  // of processes: memory holds parts of two states at first; some of them know it
  bool fresh_tags = false;          // of each step: no tag is used twice
  bool aged = false;                // counters stand where those of peers stand that have run for months

  NetworkOptions network;
  Duration kernel_delay = microseconds(20);  // of one kernel, at most
  std::int64_t kernel_ns_per_kib = 200;
  Duration timer_delay = microseconds(100);  // how late timers come, at most

  Duration heartbeat = milliseconds(200);  // coordinator and links; the other times follow from it
  std::uint32_t stripes = 2;
  std::uint32_t segment_bytes = 0;
  std::uint32_t unasked = kMaxUnasked;  // small tensors that go to a neighbour before it asks
  std::uint32_t turns = 0;  // direct: pieces of an owner on their way at once; 0: as many as there is room for

  Duration coordinator_after{};  // it starts so late; until then its machine refuses connections

  // The program.
  std::uint32_t steps_per_admit = 2;
  // In flight at once in each step; none: 1..ops_per_step of up to max_count elements are drawn for each.
  std::vector<Work> work;
  std::uint32_t ops_per_step = 2;
  std::uint64_t max_count = 4096;
  Duration think = milliseconds(100);  // between steps, about
  Duration call_timeout{};             // of every collective; 0: none

  Duration safety = lockstep::seconds(5);  // then faults stop and the network heals;
  Duration heal_after{};                   // or so long after the last fault is over; 0: not before
  std::uint32_t commits_after = 3;         // that every peer must see before the run may end
  std::vector<Entry> entries;

  Expectations expect;  // of the whole run

  bool operator==(const Plan&) const = default;
};

struct PlanOptions {
  std::uint32_t peers = 0;  // 0: drawn, 2..max_peers
  std::uint32_t max_peers = 32;
  enum class Payload : std::uint8_t { kDrawn, kToken, kBytes } payload = Payload::kDrawn;
  bool calm = false;  // no faults
};

// "h3"; "coordinator".
std::string host_words(std::uint32_t host);
// "cut h2 -> h3 for 5 s", "crash h3, back after 2 s".
std::string words_of(const Entry& entry, std::string (*name_of_host)(std::uint32_t) = host_words);
// "12.5 s", "launch 12 + 3 ms".
std::string when_of(const Entry& entry);

// Where the uses of tags begin to be counted, if it is aged.
std::uint32_t first_use_of(const Plan& plan);
inline constexpr std::uint32_t kLastCount = UINT32_MAX;

// The gang of the peer that runs on this host; 0: none.
GangId gang_of(const Plan& plan, std::uint32_t host);

// Whether a process ever runs on this host: it is a founder, joins, or starts when the network heals; a gang comes whole.
bool takes_part(const Plan& plan, std::uint32_t host);

// Streams whose greeting is not over, on each port: few where the plan has strangers, so that they are soon too many.
std::uint32_t most_strangers(const Plan& plan);

// Whether `after` counts from the start of the run.
bool counts_from_start(const Entry& entry);

// What makes a plan, or one of its entries, impossible to run; empty: nothing does.
std::string flaw_of(const Plan& plan);
std::string flaw_of(const Plan& plan, const Entry& entry);

Plan plan_of(std::uint64_t seed, const PlanOptions& options = {});

}  // namespace lockstep::sim

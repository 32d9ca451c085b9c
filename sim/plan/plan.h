// One run, spelled out: the world, the program that applications run, and every fault with its moment. A seed expands
// to a plan; a plan is written to a file and read back (plan_file.h), and gives the same run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/wire/limits.h"
#include "sim/engine/memory.h"
#include "sim/network/network_options.h"
#include "sim/plan/expect.h"
#include "sim/plan/work.h"

namespace lockstep::sim {

// Host 0 is the coordinator's; peers live on hosts 1..peers.
enum class Fault : std::uint8_t {
  kCrash,     // a: its process dies and resets its streams; starts again after `length` (0: when the network heals)
  kVanish,    // a: its machine dies, in silence; likewise; `number` 1: for good, even when the network heals
  kStall,     // a: stopped for `length`, then wakes with old state
  kCut,       // a -> b: nothing gets through for `length`
  kCutBoth,   // a <-> b
  kReset,     // a, b: streams between them are reset, `number` times, one `length` apart; b = a: all streams of a
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
  kAbandon,   // a: its program gives the run up, whatever it waits for; starts again soon. `number` 1: it does not, but
              // its run token is revoked, and its host gets another one; 2: an administrator evicts it; 3, 4, 5: an
              // observer, a member, a stranger that names an administrator's token asks for that; 6: it
              // starts again with a run token of another coordinator, and then with its own; 7: it starts again with a
              // run token of two addresses, and another coordinator listens at the first
  kMute,  // a: for `length`, no process there answers a proposal, but for the first `number` on each stream; it lives
  kStrangers,   // a, b: `number` strangers on host b keep a's port busy for `length` (strangers.h)
  kFlip,        // a -> b: a bit flips in each of the next `number` payloads or frames (0: one) that go this way
  kMiscompute,  // a: a bit flips in what its kernels make of the next `number` segments (0: one)
  kRefuse,      // a: its own side refuses its next collective
  kDrip,        // a -> b: each stream passes `number` bytes a second (0: one) for `length`
  kLie,         // a: for `length`, one in `number` of its messages (0: in eight) is a lie (liar.h); then it dies
  kShut,        // a: for `length`, no other host can dial it: dials hang (`number` 1: are refused), or reach host b, if
                // that is not 0; streams that are open stay
};
inline constexpr std::uint8_t kFaultCount = 26;

// Entry::number of kAbandon.
inline constexpr std::uint64_t kTokenRevoked = 1;
inline constexpr std::uint64_t kAdminEvicts = 2;
inline constexpr std::uint64_t kStrangerEvicts = 5;
inline constexpr std::uint64_t kOtherKey = 6;
inline constexpr std::uint64_t kOtherKeyFirst = 7;

std::string_view name_of(Fault fault);

bool is_of_pair(Fault fault);  // a fault between hosts a and b

// Whether the fault can cause the loss of a member, and of a round that does not commit.
bool may_lose_members(Fault fault);

struct Entry {
  Fault fault = Fault::kCrash;
  // When: `after`, counted from the start, or from one of these, the n-th of the run (1, 2, ...): the launch of a
  // collective, the first news that one was committed, the first news of a view, an event, a piece of a state that has
  // come somewhere.
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

// kLie: one message in so many; with ProgramPlan::stops_at_once, one call in so many.
constexpr std::uint64_t lies_one_in(const Entry& entry) { return entry.number == 0 ? 8 : entry.number; }

inline constexpr Duration kLongestTime = lockstep::seconds(1'000'000);  // limit of every time in a plan

// The gangs of a plan, and the groups that take turns over its hosts.
struct GangPlan {
  std::uint32_t size = 1;
  bool namesakes = false;  // the last gang has the name of the first: one of the two waits until the other is gone
  std::uint32_t groups = 1;

  bool operator==(const GangPlan&) const = default;
};

// The state that programs share.
struct StatePlan {
  bool shared = false;       // peers sync their state after an admission; otherwise one broadcasts a few numbers
  std::uint32_t pieces = 0;  // of the largest tensor; 0: drawn, kStatePieces at most
  bool all_vote = true;      // in each sync; false: in some syncs some peers only send or only receive
  std::uint32_t staged_permille = 500;   // share of the syncs that are staged; the others write to the state in place
  bool publish = false;                  // peers publish the state, and waiting newcomers prefetch it
  std::uint32_t republish_permille = 0;  // share of the steps after which a peer publishes it again, with publish
  bool watch = false;                    // peers watch the state beside every collective
  bool small_changes = false;            // a step changes few pieces of the state
  std::uint32_t ahead_permille = 0;      // share of the processes that come with progress which the run may not have
  std::uint32_t stray_permille = 0;      // share of the syncs to which a peer brings another state than it should have
  std::uint32_t torn_permille = 0;  // share of the processes whose memory holds parts of two states at first; some know

  bool operator==(const StatePlan&) const = default;
};

// The speed of drivers.
struct DelayPlan {
  Duration kernel = microseconds(20);  // longest delay of a kernel
  std::int64_t kernel_ns_per_kib = 200;
  Duration timer = microseconds(100);  // longest delay of a timer

  bool operator==(const DelayPlan&) const = default;
};

// Options of the links between peers.
struct LinkPlan {
  std::uint32_t stripes = 2;
  std::uint32_t most_stripes = 0;  // where lines lose packets (rule 60); up to `stripes`: always as many
  std::uint32_t segment_bytes = 0;
  std::uint32_t eager_segments = kMaxEagerSegments;  // small tensors that go to a neighbour before it asks
  std::uint32_t window = kRoundWindow;               // rounds in flight that begin in launch order; further calls wait
  std::uint32_t turns = 0;  // direct: pieces of an owner on their way at once; 0: as many as there is room for
  std::uint32_t by_rate_bytes = 524'288;     // direct: from so many for each rank on, ranks own by rate
  Duration rate_window = milliseconds(300);  // in which a line is measured
  std::uint64_t bytes_per_second = 0;        // that a peer sends, at most (rule 62); 0: no limit
  bool dials_back = false;                   // the coordinator finds out which peers can be dialled (rule 70)

  bool operator==(const LinkPlan&) const = default;
};

// The program of the peers.
struct ProgramPlan {
  std::uint32_t steps_per_admit = 2;
  // Collectives of each step, in flight at once. If empty, 1..ops_per_step of up to max_count elements are drawn.
  std::vector<Work> work;
  std::uint32_t ops_per_step = 2;
  std::uint64_t max_count = 4096;
  bool reduces = false;    // half of the broadcasts that are drawn are reduces
  bool exchanges = false;  // half of the reduce-scatters and all-gathers that are drawn are exchanges
  bool transfers = false;  // point-to-point transfers beside the collectives, drawn
  // Half of the all-reduces that ask for the direct algorithm, and a quarter of the other calls that can, ask for a
  // grid.
  bool grids = false;
  // Small tensors that each member sends to the next one in each step, all at once; the step waits for them.
  std::uint32_t sends_to_next = 0;
  Duration think = milliseconds(100);  // approximate pause between steps
  Duration call_timeout{};             // of every collective; 0: none
  // The rounds that one peer may stop at once (rule 67); 0: as many as every coordinator allows. Otherwise kLie means
  // that programs stop their calls; all messages are true.
  std::uint32_t stops_at_once = 0;

  bool operator==(const ProgramPlan&) const = default;
};

// The time when faults stop and the network heals.
struct EndPlan {
  Duration safety = lockstep::seconds(5);  // since the start; or earlier:
  Duration heal_after{};                   // since the end of the last fault; 0: not before `safety`
  std::uint32_t commits_after = 3;         // commits that every peer must see before the run may end

  bool operator==(const EndPlan&) const = default;
};

// Invariant: the defaults of a plan and of its parts are a part of the file format, and never change. A file leaves out
// each field that has its default. The file has no groups: each field of a part is a key of its own (plan_file.cc).
struct Plan {
  std::uint64_t seed = 0;
  Mode mode = Mode::kToken;
  std::uint32_t peers = 4;     // hosts that may run a peer
  std::uint32_t founders = 3;  // start at once; the others by kJoin, or when the network heals
  bool all_start = true;       // false: a host that is no founder and is named by no kJoin never starts
  bool auto_admit = false;
  std::uint32_t minimum_world = 1;
  bool fresh_tags = false;                 // each step has new tags: no tag is used twice
  bool aged = false;                       // counters begin where the counters of a peer stand after months
  Duration heartbeat = milliseconds(200);  // of the coordinator and of links; other times follow from it
  Duration coordinator_after{};            // the start of the coordinator; until then its machine refuses connections

  GangPlan gangs;
  StatePlan state;
  NetworkOptions network;
  DelayPlan delays;
  LinkPlan links;
  ProgramPlan program;
  EndPlan end;
  std::vector<Entry> entries;
  Expectations expect;  // of the whole run

  bool operator==(const Plan&) const = default;
};

inline constexpr std::uint32_t kMaxDrawnPeers = 60;  // in a plan whose number of peers follows from the seed

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

// The first use of each tag, in an aged plan.
std::uint32_t first_use_of(const Plan& plan);
inline constexpr std::uint32_t kLastCount = UINT32_MAX;

// The gang of the peer that runs on this host; 0: none.
GangId gang_of(const Plan& plan, std::uint32_t host);

// Whether a process ever runs on this host: it is a founder, joins, or starts when the network heals; a gang comes
// whole.
bool takes_part(const Plan& plan, std::uint32_t host);

// Streams whose greeting is not over, on each port: few where the plan has strangers, so that they are soon too many.
std::uint32_t most_strangers(const Plan& plan);

// Whether `after` counts from the start of the run.
bool counts_from_start(const Entry& entry);

// Whether calls may wait for ever for a peer that calls something else, or nothing: such a program needs a time-out. A
// peer that skips one call tells the others by its next admit; its other calls end before, if all find a place at once
// (rule 43), in one group, with no second peer that skips another call.
bool needs_time_out(const Plan& plan);

// Why a plan, or an entry of the plan, cannot run; empty: it can.
std::string validate_plan(const Plan& plan);
std::string validate_entry(const Plan& plan, const Entry& entry);

Plan plan_of(std::uint64_t seed, const PlanOptions& options = {});

}  // namespace lockstep::sim

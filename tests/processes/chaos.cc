// Real processes train through random kills, stops and joins, and every report of a step is compared with the others.
//
// The driver forks a coordinator and peers, and at random moments kills a peer (SIGKILL), stops one for longer than the silence
// time-out and lets it go on (it must learn that it was evicted, and come back as a newcomer), or starts one. Which fault comes
// next, and after how long, is drawn from --seed; what it hits depends on the machine. Ends with 1 if two reports of one step
// differ, a process ends otherwise than it was made to, a peer that nobody touched loses the run, or nothing moves any more.
#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/rng.h"
#include "core/kernels/checksum.h"
#include "core/wire/describe.h"
#include "core/wire/limits.h"
#include "tests/processes/coordinator_process.h"
#include "transport/communicator.h"
#include "transport/status_client.h"

namespace lockstep::testing {
namespace {

using transport::Communicator;
using transport::CommunicatorOptions;
using transport::LaunchArgs;
using transport::Outcome;
using transport::Work;

struct Settings {
  std::uint64_t steps = 1000;
  std::uint64_t seed = 1;
  std::uint64_t peers = 4;
  std::uint64_t mean_fault_ms = 1000;
  std::uint64_t compute_ms = 100;  // what a step's own work would take
  std::uint64_t max_count = 300'000;
  std::uint64_t silence_ms = 2000;
  std::uint64_t stuck_s = 30;  // without a step for so long: a hang
  bool verbose = false;
};

constexpr std::size_t kLeastAlive = 2;
constexpr std::size_t kMostAlive = 6;
constexpr std::uint32_t kNeverFounds = kMaxMembers;  // newcomers wait for the run; they never start one of their own

// A fraction of a millisecond each: peers share the machine's cores.
constexpr std::uint64_t kLoopsPerMs = 50'000;

enum Purpose : std::uint64_t { kInput = 1, kShape, kLocal, kFault, kFaultTime, kVictim };

std::span<const std::byte> bytes_of(const auto& vector) { return std::as_bytes(std::span(vector)); }

// ---- a peer ----

struct State {
  bool known = false;
  std::uint64_t step = 0;
  std::vector<std::uint64_t> weights = std::vector<std::uint64_t>(509, 1);
};

// One gradient: its shape follows from the step, so that all peers agree on it.
struct Gradient {
  DataType type;
  ReduceOp op;
  std::uint64_t count;
  Tag tag;
  bool in_place;  // everybody for himself
  std::vector<std::byte> input;
  std::vector<std::byte> output;
  Work work;
};

std::uint64_t element_bits(PeerId peer, std::uint64_t step, Tag tag, std::uint64_t index) {
  return mix64(draw(peer.low, kInput, step, tag.value) + index);
}

template <typename T>
T fold(ReduceOp op, T a, T b) {
  using U = std::make_unsigned_t<T>;
  using Wide = std::common_type_t<U, unsigned>;  // small types would be promoted to int, which must not overflow
  const auto wide = [](T v) { return static_cast<Wide>(static_cast<U>(v)); };
  switch (op) {
    case ReduceOp::kSum: return static_cast<T>(static_cast<U>(wide(a) + wide(b)));
    case ReduceOp::kProd: return static_cast<T>(static_cast<U>(wide(a) * wide(b)));
    case ReduceOp::kMin: return std::min(a, b);
    case ReduceOp::kMax: return std::max(a, b);
    case ReduceOp::kAvg: break;
  }
  LOCKSTEP_UNREACHABLE();
}

// Whether the result is the fold of exactly the contributors' inputs, at places all over it. Integers, whose order is free.
template <typename T>
bool folds_exactly(const Gradient& gradient, std::uint64_t step, const std::vector<PeerId>& contributors) {
  const std::uint64_t stride = std::max<std::uint64_t>(1, gradient.count / 61);
  for (std::uint64_t i = 0; i < gradient.count; i += stride) {
    T expected = static_cast<T>(element_bits(contributors.front(), step, gradient.tag, i));
    for (std::size_t c = 1; c < contributors.size(); ++c) {
      expected = fold(gradient.op, expected, static_cast<T>(element_bits(contributors[c], step, gradient.tag, i)));
    }
    T actual;
    std::memcpy(&actual, gradient.output.data() + i * sizeof(T), sizeof(T));
    if (actual != expected) return false;
  }
  return true;
}

bool is_exact(const Gradient& gradient, std::uint64_t step, const std::vector<PeerId>& contributors) {
  if (gradient.op == ReduceOp::kAvg) return true;
  switch (gradient.type) {
    case DataType::kU8: return folds_exactly<std::uint8_t>(gradient, step, contributors);
    case DataType::kI8: return folds_exactly<std::int8_t>(gradient, step, contributors);
    case DataType::kU16: return folds_exactly<std::uint16_t>(gradient, step, contributors);
    case DataType::kI16: return folds_exactly<std::int16_t>(gradient, step, contributors);
    case DataType::kU32: return folds_exactly<std::uint32_t>(gradient, step, contributors);
    case DataType::kI32: return folds_exactly<std::int32_t>(gradient, step, contributors);
    case DataType::kU64: return folds_exactly<std::uint64_t>(gradient, step, contributors);
    case DataType::kI64: return folds_exactly<std::int64_t>(gradient, step, contributors);
    case DataType::kF16:
    case DataType::kBF16:
    case DataType::kF32:
    case DataType::kF64: return true;
  }
  LOCKSTEP_UNREACHABLE();
}

class Trainer {
 public:
  Trainer(Parent& parent, const Settings& settings, std::string address, std::string name, std::uint32_t founders)
      : parent_(parent), settings_(settings), address_(std::move(address)), name_(std::move(name)) {
    founders_ = founders;
    state_.known = founders != kNeverFounds;
  }

  // Lives until all steps are done or something is wrong.
  int run() {
    for (;;) {
      switch (live()) {
        case End::kDone: return 0;
        case End::kWrong: return 1;
        case End::kRunLost: break;
      }
      state_ = State{};
      founders_ = kNeverFounds;
    }
  }

 private:
  enum class End { kDone, kRunLost, kWrong };
  enum class Next { kGoOn, kAgain, kRunLost, kWrong };

  End live() {
    CommunicatorOptions options;
    options.name = name_;
    options.listen_host = "127.0.0.1";
    options.founders = founders_;
    options.log = [this](std::string_view line) { parent_.say("L " + std::string(line)); };
    auto made = Communicator::create(std::move(options));
    if (!made.ok()) {
      parent_.say("E create: " + made.error().text);
      return End::kWrong;
    }
    comm_ = std::move(*made);
    Next next = call("connect", comm_->connect(address_));
    if (next == Next::kGoOn) {
      parent_.say("J");
      if (!state_.known) {  // the others are in the middle of a step, behind their admit
        next = synchronize();
        if (next == Next::kGoOn) next = compute_and_reduce();
      }
    }
    while (next == Next::kGoOn && state_.step < settings_.steps) next = step();
    if (next == Next::kGoOn) next = call("leave", comm_->leave());
    comm_.reset();
    if (next == Next::kGoOn) parent_.say("D");
    return next == Next::kGoOn ? End::kDone : next == Next::kRunLost ? End::kRunLost : End::kWrong;
  }

  Next step() {
    std::uint8_t somebody_waits = comm_->pending() > 0 ? 1 : 0;
    LaunchArgs flag = collective(wire::Collective::kAllReduce, DataType::kU8, Tag{1});
    flag.op = ReduceOp::kMax;
    flag.tensors.push_back({&somebody_waits, &somebody_waits, 1, 0});
    Next next = call("flag", comm_->launch(flag));
    if (next == Next::kGoOn && somebody_waits != 0) {
      next = call("admit", comm_->admit());
      if (next == Next::kGoOn) next = synchronize();
    }
    return next == Next::kGoOn ? compute_and_reduce() : next;
  }

  Next compute_and_reduce() {
    // The work of a training step, of another length on every peer.
    const std::uint64_t loops =
        below(draw(comm_->self().low, kLocal, state_.step), 1 + kLoopsPerMs * settings_.compute_ms);
    for (std::uint64_t i = 0; i < loops; ++i) computed_ = mix64(computed_ + i);
    return reduce_gradients();
  }

  Next reduce_gradients() {
    std::vector<Gradient> gradients = make_gradients();
    // In another order on every peer.
    const std::size_t first = below(draw(comm_->self().low, kLocal, state_.step, 1), gradients.size());
    for (std::size_t i = 0; i < gradients.size(); ++i) launch(gradients[(first + i) % gradients.size()]);
    for (const Gradient& gradient : gradients) {
      if (gradient.work) gradient.work.wait();  // however the first ends: the memory of all is lent
    }
    std::uint64_t world = 0;
    std::uint64_t retries = 0;
    std::uint64_t results = 0;
    std::uint64_t contributors = 0;
    for (Gradient& gradient : gradients) {
      if (const Next next = call("gradient", gradient.work); next != Next::kGoOn) return next;
      const Outcome& outcome = gradient.work.outcome();
      if (!is_exact(gradient, state_.step, *outcome.contributors)) {
        parent_.say("E step " + std::to_string(state_.step) + ": " + std::string(name_of(gradient.type)) + " " +
                    std::string(name_of(gradient.op)) + " of " + std::to_string(gradient.count) +
                    " elements is not the fold of its contributors");
        return Next::kWrong;
      }
      world = outcome.world;
      retries += outcome.retries;
      results = mix64(results ^ outcome.hash) ^ checksum(gradient.output);
      contributors = mix64(contributors ^ checksum(bytes_of(*outcome.contributors)));
    }
    ++state_.step;
    for (std::size_t i = 0; i < state_.weights.size(); ++i)
      state_.weights[i] = mix64(state_.weights[i] ^ (results + i));
    const std::uint64_t state = checksum(bytes_of(state_.weights));
    std::ostringstream line;
    line << "S " << state_.step << ' ' << std::hex << state << ' ' << contributors << ' ' << results << std::dec << ' '
         << comm_->view()->number.value << ' ' << world << ' ' << retries;
    parent_.say(line.str());
    return Next::kGoOn;
  }

  std::vector<Gradient> make_gradients() const {
    constexpr std::array<std::uint64_t, 16> kCounts = {0,  1,  2,    3,    4,      5,      6,       7,
                                                       13, 97, 1009, 4096, 10'007, 65'537, 262'144, 1'000'003};
    const std::uint64_t step = state_.step;
    std::vector<Gradient> gradients(step % 3 == 2 ? 4 : 1);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      Gradient& g = gradients[i];
      g.type = static_cast<DataType>((step + i) % kDataTypeCount);
      g.op = static_cast<ReduceOp>((step / kDataTypeCount + i) % kReduceOpCount);
      g.count = std::min(settings_.max_count, kCounts[below(draw(settings_.seed, kShape, step, i), kCounts.size())]);
      g.tag = Tag{10 + i};
      g.in_place = below(draw(comm_->self().low, kLocal, step, 2, i), 2) == 0;
      g.input.resize(g.count * size_of(g.type));
      g.output.resize(g.in_place ? 0 : g.input.size());
      for (std::uint64_t e = 0; e < g.count; ++e) {
        const std::uint64_t bits = element_bits(comm_->self(), step, g.tag, e);  // floats: anything, NaN too
        std::memcpy(g.input.data() + e * size_of(g.type), &bits, size_of(g.type));
      }
      if (g.in_place) g.output.swap(g.input);
    }
    return gradients;
  }

  void launch(Gradient& gradient) {
    LaunchArgs args = collective(wire::Collective::kAllReduce, gradient.type, gradient.tag);
    args.op = gradient.op;
    args.tensors.push_back({gradient.in_place ? gradient.output.data() : gradient.input.data(), gradient.output.data(),
                            gradient.count, 0});
    auto work = comm_->launch(args);
    if (work.ok())
      gradient.work = *work;
    else
      parent_.say("E launch: " + work.error().text);
  }

  // Everybody gets the state of one who has it: the first, in ring order, of those that are furthest.
  Next synchronize() {
    for (;;) {
      Next next = gather_and_broadcast();
      if (next != Next::kAgain) return next;
    }
  }

  Next gather_and_broadcast() {
    const std::uint64_t mine = state_.known ? state_.step + 1 : 0;
    std::vector<std::uint64_t> all(kMostAlive + 16);
    LaunchArgs gather = collective(wire::Collective::kAllGather, DataType::kU64, Tag{2});
    gather.tensors.push_back({&mine, all.data(), 1, all.size() * 8});
    const auto gathering = comm_->launch(gather);
    if (const Next next = call("gather", gathering); next != Next::kGoOn) return next;
    const std::vector<PeerId>& members = *gathering->outcome().contributors;
    const auto furthest = std::max_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(members.size()));
    if (*furthest == 0) {
      parent_.say("E nobody has the state");
      return Next::kWrong;
    }
    std::vector<std::uint64_t> state = state_.weights;
    state.push_back(state_.step);
    LaunchArgs broadcast = collective(wire::Collective::kBroadcast, DataType::kU64, Tag{3});
    broadcast.root = members[static_cast<std::size_t>(furthest - all.begin())];
    broadcast.tensors.push_back({nullptr, state.data(), state.size(), 0});
    if (const Next next = call("broadcast", comm_->launch(broadcast)); next != Next::kGoOn) return next;
    if (state_.known && state_.step != state.back()) {
      parent_.say("E members of one cohort stand at different steps");
      return Next::kWrong;
    }
    state_.known = true;
    state_.step = state.back();
    state.pop_back();
    state_.weights = std::move(state);
    return Next::kGoOn;
  }

  static LaunchArgs collective(wire::Collective what, DataType type, Tag tag) {
    LaunchArgs args;
    args.collective = what;
    args.type = type;
    args.tag = tag;
    return args;
  }

  Next call(const char* what, const Result<Work>& work) {
    if (work.ok()) return call(what, *work);
    parent_.say("E " + std::string(what) + ": " + work.error().text);
    return Next::kWrong;
  }

  Next call(const char* what, const Work& work) {
    if (!work) return Next::kWrong;
    parent_.say("P step " + std::to_string(state_.step) + " " + what);
    work.wait();
    const Outcome& outcome = work.outcome();
    const std::string words = std::string(what) + ": " + std::string(status_name(outcome.status)) + ": " + outcome.text;
    switch (outcome.status) {
      case Status::kOk: return Next::kGoOn;
      case Status::kPeerLost:
      case Status::kWorldChanged:
        if (std::string_view(what) == "gather" || std::string_view(what) == "broadcast") return Next::kAgain;
        break;
      case Status::kOutcomeUnknown:
      case Status::kEvicted:
      case Status::kNotConnected: parent_.say("R " + words); return Next::kRunLost;
      default: break;
    }
    parent_.say("E " + words);
    return Next::kWrong;
  }

  Parent& parent_;
  std::uint64_t computed_ = 0;
  const Settings settings_;
  const std::string address_;
  const std::string name_;
  std::uint32_t founders_;
  State state_;
  std::unique_ptr<Communicator> comm_;
};

// ---- the driver ----

struct Actor {
  Actor(std::string its_name, const Process::Main& main) : name(std::move(its_name)), process(main) {}
  std::string name;
  Process process;
  bool has_state = false;  // has reported a step in its present life
  bool stopped = false;
  bool was_stopped = false;  // in its present life
  bool killed = false;
  bool done = false;
  bool over = false;  // exited
  Instant resume_at;
  std::string phase = "starting";
  std::deque<std::string> log;
};

struct StepReport {
  std::string hashes;  // state, contributors, results
  std::string first;   // who reported it first
  std::size_t reports = 0;
};

class Driver {
 public:
  explicit Driver(const Settings& settings) : settings_(settings), coordinator_(machine_options(settings), true) {}

  int run() {
    if (coordinator_.address.empty()) return complain("the coordinator did not start"), 1;
    started_ = last_step_at_ = monotonic_now();
    for (std::uint64_t i = 0; i < settings_.peers; ++i) start_peer(static_cast<std::uint32_t>(settings_.peers));
    next_fault_ = started_ + until_next_fault();
    while (!failed_ && !all_over()) {
      wait_for_news();
      for (auto& actor : actors_) hear(*actor);
      hear_coordinator();
      wake_the_stopped();
      if (ending_)
        finish();
      else if (monotonic_now() >= next_fault_)
        fault();
      if (monotonic_now() - last_step_at_ > seconds(static_cast<std::int64_t>(settings_.stuck_s))) {
        complain("no step for " + std::to_string(settings_.stuck_s) + " s");
      }
    }
    if (!failed_) check_the_end();
    if (failed_) dump();
    summarize();
    return failed_ ? 1 : 0;
  }

 private:
  static coordinator::Options machine_options(const Settings& settings) {
    coordinator::Options options;
    options.silence = milliseconds(static_cast<std::int64_t>(settings.silence_ms));
    options.heartbeat = options.silence / 6;  // as in the defaults
    return options;
  }

  void complain(const std::string& what) {
    std::printf("FAILED at %.3f s: %s\n", (monotonic_now() - started_).seconds(), what.c_str());
    failed_ = true;
  }

  void tell(const std::string& what) const {
    if (settings_.verbose) std::printf("%8.3f s  %s\n", (monotonic_now() - started_).seconds(), what.c_str());
  }

  void start_peer(std::uint32_t founders) {
    std::string name = "p" + std::to_string(born_++);
    const Settings settings = settings_;
    const std::string address = coordinator_.address;
    actors_.push_back(std::make_unique<Actor>(
        name, [=](Parent& parent) { return Trainer(parent, settings, address, name, founders).run(); }));
  }

  // ---- news ----

  void wait_for_news() {
    std::vector<pollfd> files{{coordinator_.process.file(), POLLIN, 0}};
    for (const auto& actor : actors_) {
      if (!actor->over) files.push_back({actor->process.file(), POLLIN, 0});
    }
    ::poll(files.data(), files.size(), 20);  // faults and hangs are looked at this often
  }

  void hear_coordinator() {
    coordinator_.process.take_in();
    while (const auto line = coordinator_.process.next_line()) remember(coordinator_log_, *line);
    if (coordinator_.process.ended()) {
      complain("the coordinator ended: " + exit_words(coordinator_.process.exit_status(seconds(5)).value_or(0)));
    }
  }

  void remember(std::deque<std::string>& log, const std::string& line) const {
    char at[32];
    std::snprintf(at, sizeof at, "%.3f ", (monotonic_now() - started_).seconds());
    log.push_back(at + line.substr(2));
    if (log.size() > 60) log.pop_front();
  }

  void hear(Actor& actor) {
    if (actor.over) return;
    actor.process.take_in();
    while (const auto line = actor.process.next_line()) take_line(actor, *line);
    if (actor.process.ended()) on_exit(actor);
  }

  void take_line(Actor& actor, const std::string& line) {
    const std::string rest = line.size() > 2 ? line.substr(2) : "";
    switch (line[0]) {
      case 'P': actor.phase = rest; return;
      case 'L': remember(actor.log, line); return;
      case 'J': tell(actor.name + " is in"); return;
      case 'E': complain(actor.name + ": " + rest); return;
      case 'D':
        actor.done = true;
        ending_ = true;
        return;
      case 'R':
        tell(actor.name + " lost the run: " + rest);
        if (!actor.was_stopped) complain(actor.name + " lost the run although nobody touched it: " + rest);
        ++(actor.has_state ? evicted_members_ : evicted_waiting_);
        actor.was_stopped = actor.stopped;
        actor.has_state = false;
        return;
      case 'S': on_step(actor, rest); return;
      default: complain(actor.name + " says " + line);
    }
  }

  void on_step(Actor& actor, const std::string& report) {
    std::istringstream words(report);
    std::uint64_t step = 0;
    std::uint64_t view = 0;
    std::uint64_t world = 0;
    std::uint64_t retries = 0;
    std::string state, contributors, results;
    words >> step >> state >> contributors >> results >> view >> world >> retries;
    if (!words) return complain(actor.name + " reports " + report);
    actor.has_state = true;
    views_ = std::max(views_, view);
    retries_ += retries;
    ++worlds_[world];
    StepReport& seen = steps_[step];
    const std::string hashes = state + " " + contributors + " " + results;
    if (seen.reports++ == 0) {
      seen.hashes = hashes;
      seen.first = actor.name;
      last_step_at_ = monotonic_now();
      tell("step " + std::to_string(step) + " view " + std::to_string(view) + " world " + std::to_string(world));
    } else if (seen.hashes != hashes) {
      complain("step " + std::to_string(step) + ": " + seen.first + " has " + seen.hashes + ", " + actor.name +
               " has " + hashes + " (state, contributors, results)");
    }
  }

  void on_exit(Actor& actor) {
    const auto status = actor.process.exit_status(seconds(10));
    actor.over = true;
    const bool as_told = actor.killed && status && WIFSIGNALED(*status) && WTERMSIG(*status) == SIGKILL;
    const bool finished = actor.done && status && *status == 0;
    if (!as_told && !finished) {
      complain(actor.name + " ended by itself: " + (status ? exit_words(*status) : "it closed its pipe"));
    }
  }

  // ---- faults ----

  [[nodiscard]] Duration until_next_fault() const {
    // From a quarter to seven quarters of the mean.
    const std::uint64_t mean_us = settings_.mean_fault_ms * 1000;
    return microseconds(
        static_cast<std::int64_t>(mean_us / 4 + below(draw(settings_.seed, kFaultTime, faults_), 1 + mean_us * 3 / 2)));
  }

  void fault() {
    const std::uint64_t dice = below(draw(settings_.seed, kFault, faults_), 100);
    const std::uint64_t victim = draw(settings_.seed, kVictim, faults_);
    next_fault_ = monotonic_now() + until_next_fault();
    ++faults_;
    std::vector<Actor*> standing;  // could be hit: those that run, as long as enough of those with the state go on
    std::size_t alive = 0;
    std::size_t keepers = 0;
    for (auto& actor : actors_) {
      if (actor->over || actor->killed) continue;
      ++alive;
      if (actor->stopped) continue;
      standing.push_back(actor.get());
      if (actor->has_state) ++keepers;
    }
    if (dice >= 60 && alive < kMostAlive) return ++joins_, start_peer(kNeverFounds);
    std::erase_if(standing, [&](const Actor* a) { return a->has_state && keepers <= kLeastAlive; });
    if (steps_.empty() || standing.empty()) return;
    Actor& actor = *standing[below(victim, standing.size())];
    if (dice >= 40 && dice < 60) {
      tell("stop " + actor.name);
      ++stops_;
      actor.stopped = actor.was_stopped = true;
      actor.resume_at = monotonic_now() + milliseconds(static_cast<std::int64_t>(settings_.silence_ms * 3 / 2));
      actor.process.signal(SIGSTOP);
    } else {
      tell("kill " + actor.name);
      ++kills_;
      actor.killed = true;
      actor.process.signal(SIGKILL);
    }
  }

  void wake_the_stopped() {
    for (auto& actor : actors_) {
      if (!actor->stopped || actor->killed || monotonic_now() < actor->resume_at) continue;
      tell("wake " + actor->name);
      actor->stopped = false;
      actor->process.signal(SIGCONT);
    }
  }

  // The first has finished: those with the state finish too, the others have nobody left to join.
  void finish() {
    for (auto& actor : actors_) {
      if (actor->over || actor->killed || (actor->has_state && !actor->stopped)) continue;
      actor->killed = true;
      actor->process.signal(SIGKILL);
    }
  }

  // ---- the end ----

  [[nodiscard]] bool all_over() const {
    return std::all_of(actors_.begin(), actors_.end(), [](const auto& actor) { return actor->over; });
  }

  void check_the_end() {
    if (steps_.size() != settings_.steps || steps_.rbegin()->first != settings_.steps) {
      complain("steps are missing: " + std::to_string(steps_.size()) + " of " + std::to_string(settings_.steps));
    }
    const auto status = transport::query_status(coordinator_.address, seconds(10));
    if (!status.ok()) return complain("the coordinator does not answer: " + status.error().text);
    if (!status->rounds.empty() || status->proposal_open) complain("the coordinator still has work to do");
    for (const wire::Member& member : status->view.members) complain(member.name + " is still a member");
  }

  void dump() {
    std::printf("---- the coordinator says\n");
    const auto status = transport::query_status(coordinator_.address, seconds(5));
    std::printf("%s\n", status.ok() ? wire::describe(wire::Message(*status)).c_str() : status.error().text.c_str());
    for (const std::string& line : coordinator_log_) std::printf("    %s\n", line.c_str());
    for (const auto& actor : actors_) {
      if (actor->over && actor->killed) continue;
      std::printf("---- %s: in %s%s%s\n", actor->name.c_str(), actor->phase.c_str(), actor->stopped ? ", stopped" : "",
                  actor->over ? ", over" : "");
      for (const std::string& line : actor->log) std::printf("    %s\n", line.c_str());
    }
  }

  void summarize() const {
    std::size_t reports = 0;
    for (const auto& [step, seen] : steps_) reports += seen.reports;
    std::printf("chaos: %s: %zu steps in %.1f s (seed %" PRIu64 "): %zu reports, %" PRIu64 " kills, %" PRIu64
                " stops, %" PRIu64 " joins, %" PRIu64 " evicted and back (%" PRIu64
                " of them while they waited), %" PRIu64 " views, %" PRIu64 " retries; world sizes",
                failed_ ? "FAILED" : "ok", steps_.size(), (monotonic_now() - started_).seconds(), settings_.seed,
                reports, kills_, stops_, joins_, evicted_members_ + evicted_waiting_, evicted_waiting_, views_,
                retries_);
    for (const auto& [world, count] : worlds_) std::printf(" %" PRIu64 ":%" PRIu64, world, count);
    std::printf("\n");
  }

  const Settings settings_;
  CoordinatorProcess coordinator_;
  std::vector<std::unique_ptr<Actor>> actors_;
  std::deque<std::string> coordinator_log_;
  std::map<std::uint64_t, StepReport> steps_;
  std::map<std::uint64_t, std::uint64_t> worlds_;  // reports by world size
  Instant started_;
  Instant last_step_at_;
  Instant next_fault_;
  std::uint64_t born_ = 0;
  std::uint64_t faults_ = 0;
  std::uint64_t kills_ = 0;
  std::uint64_t stops_ = 0;
  std::uint64_t joins_ = 0;
  std::uint64_t evicted_members_ = 0;
  std::uint64_t evicted_waiting_ = 0;
  std::uint64_t views_ = 0;
  std::uint64_t retries_ = 0;
  bool ending_ = false;
  bool failed_ = false;
};

}  // namespace
}  // namespace lockstep::testing

int main(int argc, char** argv) {
  lockstep::testing::Settings settings;
  const std::map<std::string, std::uint64_t*> numbers = {
      {"--steps", &settings.steps},           {"--seed", &settings.seed},
      {"--peers", &settings.peers},           {"--mean-fault-ms", &settings.mean_fault_ms},
      {"--compute-ms", &settings.compute_ms}, {"--max-count", &settings.max_count},
      {"--silence-ms", &settings.silence_ms}, {"--stuck-s", &settings.stuck_s},
  };
  for (int i = 1; i < argc; ++i) {
    const auto number = numbers.find(argv[i]);
    if (std::strcmp(argv[i], "--verbose") == 0) {
      settings.verbose = true;
    } else if (number != numbers.end() && i + 1 < argc) {
      *number->second = std::strtoull(argv[++i], nullptr, 10);
    } else {
      std::fprintf(stderr, "usage: lockstep_chaos [--verbose] [NAME NUMBER]...; names and defaults:\n");
      for (const auto& [name, value] : numbers) {
        std::fprintf(stderr, "  %-16s %llu\n", name.c_str(), static_cast<unsigned long long>(*value));
      }
      return 2;
    }
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return lockstep::testing::Driver(settings).run();
}

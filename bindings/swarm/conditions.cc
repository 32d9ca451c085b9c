#include "bindings/swarm/conditions.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/coordinator/coordinator.h"
#include "sim/engine/dice.h"
#include "sim/plan/plan.h"
#include "sim/plan/plan_file.h"
#include "sim/scenario/hosts.h"
#include "sim/scenario/keys.h"
#include "sim/scenario/scenario.h"
#include "sim/words/units.h"

namespace lockstep::swarm {
namespace {

using sim::Dice;
using sim::Entry;
using sim::Fault;
using sim::Plan;
using sim::Purpose;

Error invalid(std::string text) { return {Status::kInvalidArgument, std::move(text)}; }

// The default heartbeat of the library. All other times that are not stated follow from the heartbeat.
constexpr Duration kHeartbeat = coordinator::CoordinatorOptions{}.heartbeat;

// Faults that only the simulator's own program can have.
bool is_of_own_program(Fault fault) {
  return fault == Fault::kTimeout || fault == Fault::kMismatch || fault == Fault::kSkip || fault == Fault::kDrift;
}

// The keys of a scenario that describe the simulator's own program, and whether the plan uses them.
std::vector<std::pair<std::string, bool>> keys_of_own_program(const Plan& plan) {
  const Plan plain;
  return {{"work", !plan.program.work.empty()},
          {"share_state", plan.state.shared != plain.state.shared},
          {"publish", plan.state.publish != plain.state.publish},
          {"watch", plan.state.watch != plain.state.watch},
          {"groups", plan.gangs.groups != plain.gangs.groups},
          {"gang_size", plan.gangs.size != plain.gangs.size},
          {"auto_admit", plan.auto_admit != plain.auto_admit},
          {"minimum_world", plan.minimum_world != plain.minimum_world},
          {"expect", !plan.expect.empty()}};
}

// Why a swarm cannot run this plan: the plan describes actions of the simulator's own program.
std::optional<Error> validate_conditions(const Plan& plan) {
  for (const auto& [key, said] : keys_of_own_program(plan)) {
    if (said) {
      return invalid(
          key +
          " applies to the simulator's own program only: in a swarm, set it in the calls and options of your program");
    }
  }
  for (const Entry& entry : plan.entries) {
    if (!is_of_own_program(entry.fault)) continue;
    return invalid(std::string(sim::name_of(entry.fault)) +
                   " is a fault of the simulator's own program: a swarm runs your program instead");
  }
  return std::nullopt;
}

Plan for_swarm(Plan plan) {
  plan.mode = sim::Mode::kBytes;
  plan.network.mode = sim::Mode::kBytes;
  return plan;
}

// One drawn fault. Each fault draws its own numbers, so that no fault changes another.
class Draw {
 public:
  Draw(const Plan& plan, Fault fault, std::uint64_t n)
      : dice_(plan.seed), which_(kFirst + static_cast<std::uint64_t>(fault) * kMost + n) {}

  std::uint64_t range(std::uint64_t lo, std::uint64_t hi) {
    return dice_.range(lo, hi, Purpose::kFault, which_, draws_++);
  }
  Duration time(Duration lo, Duration hi) {
    const auto ms = [](Duration time) { return static_cast<std::uint64_t>(time.ns / 1'000'000); };
    return milliseconds(static_cast<std::int64_t>(range(ms(lo), ms(hi))));
  }

 private:
  static constexpr std::uint64_t kFirst = 1'000'000;  // larger than the indices of faults in sim/plan/plan.cc
  static constexpr std::uint64_t kMost = 10'000;
  Dice dice_;
  std::uint64_t which_;
  std::uint64_t draws_ = 0;
};

constexpr Duration kBackSoonest = milliseconds(500);
constexpr Duration kBackLatest = seconds(5);
constexpr Duration kLongestFault = seconds(3);

}  // namespace

Conditions::Conditions(const Plan& plan) : plan_(std::make_unique<Plan>(plan)) {}
Conditions::Conditions(const Conditions& other) : Conditions(*other.plan_) {}
Conditions& Conditions::operator=(const Conditions& other) {
  *plan_ = *other.plan_;
  return *this;
}
Conditions::Conditions(Conditions&&) noexcept = default;
Conditions& Conditions::operator=(Conditions&&) noexcept = default;
Conditions::~Conditions() = default;

Result<Conditions> Conditions::from_scenario(std::string_view toml, std::uint64_t seed) {
  const Result<sim::Scenario> scenario = sim::scenario_from_text(toml);
  if (!scenario) return scenario.error();
  Plan plan = for_swarm(sim::plan_of(*scenario, seed));
  if (!scenario->says_heartbeat) plan.heartbeat = kHeartbeat;
  if (auto flaw = validate_conditions(plan)) return *std::move(flaw);
  return Conditions(plan);
}

std::map<std::string, std::vector<std::string>> Conditions::keys() {
  auto keys = sim::keys_that_are_read();
  std::vector<std::string> own;
  for (const auto& [key, said] : keys_of_own_program(Plan{})) own.push_back(key);
  for (std::uint8_t f = 0; f < sim::kFaultCount; ++f) {
    if (is_of_own_program(static_cast<Fault>(f))) own.emplace_back(sim::name_of(static_cast<Fault>(f)));
  }
  for (auto& [section, names] : keys) {
    std::erase_if(names, [&](const std::string& name) { return std::ranges::find(own, name) != own.end(); });
  }
  keys["own"] = std::move(own);
  return keys;
}

Result<Conditions> Conditions::from_text(std::string_view toml) {
  const Result<Plan> plan = sim::plan_from_text(toml);
  if (!plan) return plan.error();
  if (auto flaw = validate_conditions(*plan)) return *std::move(flaw);
  return Conditions(for_swarm(*plan));
}

std::optional<Error> Conditions::add(const Churn& churn) {
  Plan& plan = *plan_;
  const std::uint32_t ends = churn.crashes + churn.vanishes + churn.leaves;
  if (ends > 0 && plan.founders < 2)
    return invalid("churn: one founder never crashes, vanishes or leaves, so these faults need at least two founders");
  const bool of_pairs = churn.cuts + churn.resets > 0;
  if (of_pairs && plan.founders < 2) return invalid("churn: cuts and resets need at least two founders");
  for (const std::uint32_t count :
       {churn.crashes, churn.vanishes, churn.leaves, churn.stalls, churn.cuts, churn.resets}) {
    if (count > 1000)
      return invalid("churn: " + std::to_string(count) + " faults of one kind; at most 1000 are allowed");
  }
  if (churn.joins > sim::kMaxPeers - std::min(sim::kMaxPeers, plan.peers)) {
    return invalid("churn: " + std::to_string(churn.joins) + " joins and " + std::to_string(plan.peers) +
                   " hosts; at most " + std::to_string(sim::kMaxPeers) + " hosts are allowed");
  }
  if (churn.until.ns < 1 || churn.until > sim::kLongestTime) return invalid("churn: until must be longer than 0");

  const Dice dice(plan.seed);
  const auto spared = static_cast<std::uint32_t>(dice.range(1, plan.founders, Purpose::kFault, 999'999));
  const std::uint32_t first_joiner = plan.peers + 1;
  plan.peers += churn.joins;
  plan.all_start = false;
  const auto add = [&](Fault fault, std::uint32_t count, auto&& fill) {
    for (std::uint32_t n = 0; n < count; ++n) {
      Draw draw(plan, fault, n);
      Entry entry;
      entry.fault = fault;
      entry.after = draw.time(nanoseconds(0), churn.until);
      fill(entry, draw, n);
      plan.entries.push_back(entry);
    }
  };
  const auto any_but_spared = [&](Draw& draw) {
    const auto host = static_cast<std::uint32_t>(draw.range(1, plan.peers - 1));
    return host + (host >= spared ? 1 : 0);
  };
  const auto ended = [&](Entry& entry, Draw& draw, std::uint32_t) {
    entry.a = any_but_spared(draw);
    entry.length = draw.time(kBackSoonest, kBackLatest);
  };
  add(Fault::kJoin, churn.joins, [&](Entry& entry, Draw&, std::uint32_t n) { entry.a = first_joiner + n; });
  add(Fault::kCrash, churn.crashes, ended);
  add(Fault::kVanish, churn.vanishes, ended);
  add(Fault::kLeave, churn.leaves, ended);
  add(Fault::kStall, churn.stalls, [&](Entry& entry, Draw& draw, std::uint32_t) {
    entry.a = static_cast<std::uint32_t>(draw.range(1, plan.peers));
    entry.length = draw.time(milliseconds(10), kLongestFault);
  });
  const auto of_pair = [&](Entry& entry, Draw& draw) {
    entry.a = static_cast<std::uint32_t>(draw.range(1, plan.peers));
    entry.b = static_cast<std::uint32_t>(draw.range(1, plan.peers - 1));
    if (entry.b >= entry.a) entry.b += 1;
  };
  add(Fault::kCut, churn.cuts, [&](Entry& entry, Draw& draw, std::uint32_t) {
    of_pair(entry, draw);
    if (draw.range(0, 1) == 0) entry.fault = Fault::kCutBoth;
    entry.length = draw.time(milliseconds(10), kLongestFault);
  });
  add(Fault::kReset, churn.resets, [&](Entry& entry, Draw& draw, std::uint32_t) { of_pair(entry, draw); });
  plan.end.safety = std::max(plan.end.safety, churn.until + kBackLatest);
  return std::nullopt;
}

std::uint64_t Conditions::seed() const { return plan_->seed; }
std::uint32_t Conditions::founders() const { return plan_->founders; }

std::uint32_t Conditions::hosts() const {
  std::uint32_t count = 0;
  for (std::uint32_t host = 1; host <= plan_->peers; ++host) count += sim::takes_part(*plan_, host) ? 1 : 0;
  return count;
}

std::size_t Conditions::faults() const { return plan_->entries.size(); }

std::string Conditions::fault(std::size_t index) const {
  const Entry& entry = plan_->entries.at(index);
  const std::string when = (sim::counts_from_start(entry) ? "at " : "after ") + sim::when_of(entry);
  return when + ": " + sim::words_of(entry, host_name);
}

Conditions Conditions::with_faults(std::span<const std::size_t> kept) const {
  Conditions fewer(*this);
  fewer.plan_->entries.clear();
  for (const std::size_t index : kept) fewer.plan_->entries.push_back(plan_->entries.at(index));
  return fewer;
}

std::string Conditions::to_text() const { return sim::to_text(*plan_); }

std::string host_name(std::uint32_t host) { return sim::letter_of(host); }

}  // namespace lockstep::swarm

#include "sim/flight/incident.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <variant>

#include "core/base/text.h"
#include "core/trace/event.h"
#include "sim/flight/frames.h"
#include "sim/flight/player.h"
#include "sim/plan/plan_file.h"

namespace lockstep::sim {
namespace {

constexpr std::size_t kMostKindsOfWork = 8;
constexpr std::size_t kMostFaults = 1000;

Work work_of(const wire::Descriptor& what) {
  const std::uint64_t count = wire::has_blocks(what.collective) ? 16 : what.count;
  return {what.collective, count, what.type, what.op};
}

// The peers that a recording mentions. Host n of the plan is the n-th of them.
class Participants {
 public:
  std::uint32_t host_of(PeerId peer, const std::string& name = {}) {
    const auto known =
        std::find_if(hosts_.begin(), hosts_.end(), [&](const auto& host) { return host.second == peer; });
    if (known != hosts_.end()) return static_cast<std::uint32_t>(known - hosts_.begin()) + 1;
    hosts_.emplace_back(name, peer);
    return static_cast<std::uint32_t>(hosts_.size());
  }
  void belongs_to(GroupId group) { groups_.insert(group); }
  void comes_in_gang_of(std::uint32_t size) { gang_size_ = std::max(gang_size_, size); }
  // The peers so far are the founders.
  void found() { founders_ = std::max<std::size_t>(hosts_.size(), 1); }

  [[nodiscard]] const std::vector<std::pair<std::string, PeerId>>& hosts() const { return hosts_; }
  [[nodiscard]] std::uint32_t gang_size() const { return gang_size_; }
  [[nodiscard]] std::size_t groups() const { return groups_.size(); }

  void write_to(Plan& plan) const {
    plan.gangs.size = gang_size_;
    plan.peers = round_up(hosts_.size());
    plan.founders = round_up(founders_);
    plan.gangs.groups = std::min(static_cast<std::uint32_t>(std::max<std::size_t>(groups_.size(), 1)), plan.peers);
  }

 private:
  // Gangs come and go whole.
  [[nodiscard]] std::uint32_t round_up(std::size_t peers) const {
    return (static_cast<std::uint32_t>(peers) + gang_size_ - 1) / gang_size_ * gang_size_;
  }

  std::vector<std::pair<std::string, PeerId>> hosts_;
  std::size_t founders_ = 1;
  std::set<GroupId> groups_;
  std::uint32_t gang_size_ = 1;
};

// The rounds that a recording mentions, as the work of the plan's program.
class Rounds {
 public:
  void done(const wire::Done& done) {
    if (done.what.collective == wire::Collective::kSync) return;
    watches_ = watches_ || done.state_fingerprint != 0;
    if (!rounds_.insert(done.key).second) return;
    minimum_world_ = std::max(minimum_world_, done.what.minimum_world);
    gathers_ = gathers_ || wire::has_blocks(done.what.collective);
    const Work work = work_of(done.what);
    if (std::find(kinds_.begin(), kinds_.end(), work) == kinds_.end()) kinds_.push_back(work);
  }
  void claimed() { shares_state_ = true; }

  [[nodiscard]] std::size_t count() const { return rounds_.size(); }
  [[nodiscard]] std::size_t kinds() const { return kinds_.size(); }
  [[nodiscard]] bool gathers() const { return gathers_; }
  [[nodiscard]] bool shares_state() const { return shares_state_; }

  // `views`: installed in `length`.
  void write_to(Plan& plan, std::uint64_t views, Duration length) const {
    plan.minimum_world = std::min(minimum_world_, plan.peers);
    plan.program.work = kinds_;
    plan.state.shared = shares_state_ && !plan.auto_admit;
    plan.state.watch = watches_ && plan.state.shared;
    if (plan.program.work.size() > kMostKindsOfWork) plan.program.work.resize(kMostKindsOfWork);
    const std::uint64_t in_a_step = std::max<std::size_t>(plan.program.work.size(), 1);
    const std::uint64_t steps = std::max<std::uint64_t>(rounds_.size() / in_a_step, 1);
    plan.program.ops_per_step = static_cast<std::uint32_t>(in_a_step);
    plan.program.think = std::min(length / static_cast<std::int64_t>(steps), lockstep::seconds(10));
    plan.program.steps_per_admit = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(steps / (views + 1), 1, 1000));
  }

 private:
  std::set<RoundKey> rounds_;
  std::vector<Work> kinds_;
  std::uint32_t minimum_world_ = 1;
  bool shares_state_ = false;
  bool watches_ = false;
  bool gathers_ = false;
};

// Watches the replay of a recording, and collects the contents of a plan.
class Investigator final : public PlayWitness {
 public:
  explicit Investigator(const flight::Recording& recording)
      : options_(std::get<coordinator::CoordinatorOptions>(recording.options)), from_birth_(recording.before == 0) {}

  void begins(const coordinator::Coordinator& machine, Instant now) override {
    const wire::StatusReply then = machine.snapshot(now);
    for (const wire::Member& member : then.view.members) {
      peers_.host_of(member.id, member.name);
      peers_.belongs_to(member.group);
    }
    founded_ = !then.view.members.empty();
    if (founded_) peers_.found();
    for (const wire::Member& waiting : then.waiting) joins(waiting.id, waiting.name, Duration{});
  }

  void given(std::uint64_t, Duration at, const flight::Record<coordinator::Input>& record) override {
    if (!began_) began_ = at;
    at_ = at;
    timer_ = std::holds_alternative<coordinator::Timer>(record.input);
    if (const auto* closed = std::get_if<io::Closed>(&record.input)) pending_.erase(closed->stream);
    if (const auto* read = std::get_if<io::ReadDone>(&record.input)) came(read->stream, record.landed);
    if (const auto* revoked = std::get_if<io::Revoked>(&record.input)) came(revoked->stream, record.landed);
  }

  void answered(const coordinator::Effects& effects) override {
    bool lost = false;  // a gang is lost with the first of it
    for (const auto& effect : effects) {
      const auto* event = std::get_if<trace::Event>(&effect);
      if (event == nullptr) continue;
      if (event->kind == trace::Kind::kPeerLost) {
        if (!lost || peers_.gang_size() == 1) loses(*event);
        lost = true;
      } else if (event->kind == trace::Kind::kPeerLeaving) {
        add({.fault = Fault::kLeave, .after = since_founding(), .a = peers_.host_of(event->peer)});
      } else if (event->kind == trace::Kind::kInstalled && !founded_ && event->number > 0) {
        found();
      } else if (event->kind == trace::Kind::kInstalled) {
        ++views_;
      }
    }
  }

  Result<Incident> incident() {
    if (!founded_)
      return Error{Status::kInvalidArgument, "no run began while this was recorded: there is no plan to make of it"};
    if (peers_.hosts().size() > kMaxPeers) {
      return Error{Status::kInvalidArgument,
                   fmt::format("{} peers were seen; a plan has at most {} hosts", peers_.hosts().size(), kMaxPeers)};
    }
    Incident result;
    Plan& plan = result.plan;
    plan.seed = 1;
    plan.heartbeat = options_.heartbeat;
    plan.auto_admit = auto_admit_;
    plan.all_start = false;
    plan.end.safety = since_founding() + plan.heartbeat * 2;
    peers_.write_to(plan);
    rounds_.write_to(plan, views_, since_founding());
    std::stable_sort(entries_.begin(), entries_.end(),
                     [](const Entry& a, const Entry& b) { return a.after < b.after; });
    plan.entries = std::move(entries_);
    for (const auto& [name, id] : peers_.hosts()) result.hosts.push_back(trace::short_name(id, plain(name)));
    if (const std::string flaw = validate_plan(plan); !flaw.empty()) {
      return Error{Status::kInvalidArgument, "the recording cannot be made into a plan: " + flaw};
    }
    tell(result);
    return result;
  }

 private:
  [[nodiscard]] Duration since_founding() const { return std::max(at_ - began_.value_or(Duration{}), Duration{}); }

  void add(const Entry& entry) {
    if (founded_ && entries_.size() < kMostFaults) entries_.push_back(entry);
  }

  void joins(PeerId peer, const std::string& name, Duration at) {
    const std::uint32_t host = peers_.host_of(peer, name);
    if (founded_) add({.fault = Fault::kJoin, .after = at, .a = host});
  }

  // The peers that had joined by then are the founders. The clock of the plan begins here.
  void found() {
    founded_ = true;
    peers_.found();
    began_ = at_;
  }

  // Messages come in pieces. A stream that was open before the recording began may begin inside a message; bytes that
  // form no message are dropped.
  void came(StreamId stream, std::span<const std::byte> bytes) {
    std::vector<std::byte>& pending = pending_[stream];
    pending.insert(pending.end(), bytes.begin(), bytes.end());
    std::span<const std::byte> rest(pending);
    take_preamble(rest);
    while (const auto message = take_frame(rest)) heard(*message);
    const bool nonsense = rest.size() >= wire::kHeaderBytes && !wire::decode_header(rest.first<wire::kHeaderBytes>());
    if (nonsense || rest.size() > kMaxBodyBytes) rest = {};
    pending.assign(rest.begin(), rest.end());
  }

  void heard(const wire::Message& message) {
    if (const auto* join = std::get_if<wire::Join>(&message)) {
      joins(join->peer, join->name, since_founding());
      peers_.comes_in_gang_of(join->gang_size);
      peers_.belongs_to(join->group);
      auto_admit_ = auto_admit_ || join->auto_admit;
    } else if (std::holds_alternative<wire::Claim>(message)) {
      rounds_.claimed();
    } else if (const auto* done = std::get_if<wire::Done>(&message)) {
      rounds_.done(*done);
    } else if (std::holds_alternative<wire::LinkBroken>(message)) {
      ++left_out_.broken;
    } else if (std::holds_alternative<wire::StopRound>(message)) {
      ++left_out_.stops;
    }
  }

  // A stream that ended: a process that died. Silence: a machine that vanished.
  void loses(const trace::Event& event) {
    Entry entry{.fault = Fault::kCrash, .after = since_founding(), .a = peers_.host_of(event.peer)};
    if (timer_) {
      entry.fault = Fault::kVanish;
      entry.after = std::max(entry.after - options_.silence, Duration{});
      entry.number = 1;
      ++left_out_.silent;
    } else if (event.status != Status::kPeerLost) {
      ++left_out_.evicted;
    }
    add(entry);
  }

  void tell(Incident& result) const {
    const auto note = [&](std::string text) { result.notes.push_back(std::move(text)); };
    note("the network between hosts is the simulator's own: a coordinator does not see it");
    note(fmt::format("the program: {} were finished, of {}; all of a step are launched at once, with {} ms of thought",
                     rounds_.count() == 1 ? "1 round" : fmt::format("{} rounds", rounds_.count()),
                     rounds_.kinds() == 1 ? "1 kind" : fmt::format("{} kinds", rounds_.kinds()),
                     result.plan.program.think.ns / 1'000'000));
    note("a process that came back is another host; a lost process may start again when the network heals");
    if (!from_birth_) note("the beginning was overwritten: the members at that time are the founders");
    if (rounds_.kinds() > kMostKindsOfWork)
      note(fmt::format("only the first {} kinds of collectives", kMostKindsOfWork));
    if (rounds_.gathers()) note("blocks of all-gathers have about 16 elements: a coordinator is not told their size");
    if (rounds_.shares_state()) note("the shared state has a few pieces: a coordinator is not told how many");
    if (left_out_.silent > 0)
      note("a peer that fell silent is a machine that vanished here; the peer may have been stopped, or cut off");
    if (left_out_.evicted > 0)
      note("a peer that was evicted for another reason than silence is a process that crashed here");
    if (left_out_.broken > 0) note(fmt::format("{} reports of broken links are left out", left_out_.broken));
    if (left_out_.stops > 0)
      note(fmt::format("{} calls that were aborted, timed out or did not match are left out", left_out_.stops));
    if (peers_.gang_size() > 1 || peers_.groups() > 1) note("groups and gangs take turns over the hosts");
    if (entries_.size() >= kMostFaults) note(fmt::format("only the first {} events", kMostFaults));
  }

  // Numbers of events that the plan does not have, or has in another form.
  struct LeftOut {
    std::uint64_t broken = 0;   // reports of broken links
    std::uint64_t stops = 0;    // calls that ended early
    std::uint64_t silent = 0;   // peers that fell silent: the plan lets their machine vanish
    std::uint64_t evicted = 0;  // peers that were evicted for another reason: the plan lets them crash
  };

  const coordinator::CoordinatorOptions& options_;
  bool from_birth_;
  bool founded_ = false;
  std::optional<Duration> began_;
  Duration at_;
  bool timer_ = false;                                  // the present input is a timer
  std::map<StreamId, std::vector<std::byte>> pending_;  // of messages that have not come whole
  Participants peers_;
  bool auto_admit_ = false;
  std::uint64_t views_ = 0;
  Rounds rounds_;
  LeftOut left_out_;
  std::vector<Entry> entries_;
};

}  // namespace

Result<Incident> incident_of(const flight::Recording& recording) {
  if (recording.of_peer()) {
    return Error{Status::kInvalidArgument,
                 "a plan is made of a coordinator's recording: a peer sees too little of its run"};
  }
  Investigator investigator(recording);
  PlayOptions options;
  options.witness = &investigator;
  if (recording.cut) options.until = recording.before + recording.inputs - 1;
  const auto played = play(recording, options);
  if (!played) return played.error();
  if (played->difference) {
    return Error{Status::kInvalidArgument,
                 "this core does not do what the recorded one did: replay it without --plan to see where"};
  }
  return investigator.incident();
}

std::string to_text(const Incident& incident) {
  std::string out = "# Made of a coordinator's flight recording. What it does not tell:\n";
  for (const std::string& note : incident.notes) out += "# - " + note + "\n";
  out += "# Hosts:";
  for (std::size_t i = 0; i < incident.hosts.size(); ++i) {
    out += fmt::format("{} h{} {}", i == 0 ? "" : ",", i + 1, incident.hosts[i]);
  }
  return out + "\n\n" + to_text(incident.plan);
}

}  // namespace lockstep::sim

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
#include "sim/plan_file.h"

namespace lockstep::sim {
namespace {

constexpr std::size_t kMostKindsOfWork = 8;
constexpr std::size_t kMostFaults = 1000;

Work work_of(const wire::Descriptor& what) {
  const std::uint64_t count = what.collective == wire::Collective::kAllGather ? 16 : what.count;
  return {what.collective, count, what.type, what.op};
}

// Looks on while the recording is played, and takes down what a plan needs.
class Investigator final : public PlayWitness {
 public:
  explicit Investigator(const flight::Recording& recording)
      : options_(std::get<coordinator::Options>(recording.options)), from_birth_(recording.before == 0) {}

  void begins(const coordinator::Coordinator& machine, Instant now) override {
    const wire::StatusReply then = machine.snapshot(now);
    for (const wire::Member& member : then.view.members) {
      host_of(member.id, member.name);
      groups_.insert(member.group);
    }
    founded_ = !then.view.members.empty();
    if (founded_) founders_ = hosts_.size();
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
        if (!lost || gang_size_ == 1) loses(*event);
        lost = true;
      } else if (event->kind == trace::Kind::kPeerLeaving) {
        add({.fault = Fault::kLeave, .after = since_founding(), .a = host_of(event->peer)});
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
    if (hosts_.size() > 60) {
      return Error{Status::kInvalidArgument,
                   fmt::format("{} peers were seen; a plan has at most 60 hosts", hosts_.size())};
    }
    Incident result;
    Plan& plan = result.plan;
    plan.seed = 1;
    plan.heartbeat = options_.heartbeat;
    plan.gang_size = gang_size_;
    plan.groups = static_cast<std::uint32_t>(std::max<std::size_t>(groups_.size(), 1));
    plan.auto_admit = auto_admit_;
    plan.minimum_world = minimum_world_;
    plan.peers = round_up(static_cast<std::uint32_t>(hosts_.size()));
    plan.founders = round_up(static_cast<std::uint32_t>(founders_));
    plan.all_start = false;
    plan.safety = since_founding() + plan.heartbeat * 2;
    work(plan);
    plan.entries = std::move(entries_);
    plan.groups = std::min(plan.groups, plan.peers);
    plan.minimum_world = std::min(plan.minimum_world, plan.peers);
    for (const auto& [name, id] : hosts_) result.hosts.push_back(trace::short_name(id, plain(name)));
    if (const std::string flaw = flaw_of(plan); !flaw.empty()) {
      return Error{Status::kInvalidArgument, "what was recorded makes no plan: " + flaw};
    }
    tell(result);
    return result;
  }

 private:
  // Gangs come and go whole.
  [[nodiscard]] std::uint32_t round_up(std::uint32_t peers) const {
    return (peers + gang_size_ - 1) / gang_size_ * gang_size_;
  }
  [[nodiscard]] Duration since_founding() const { return std::max(at_ - began_.value_or(Duration{}), Duration{}); }

  std::uint32_t host_of(PeerId peer, const std::string& name = {}) {
    const auto known =
        std::find_if(hosts_.begin(), hosts_.end(), [&](const auto& host) { return host.second == peer; });
    if (known != hosts_.end()) return static_cast<std::uint32_t>(known - hosts_.begin()) + 1;
    hosts_.emplace_back(name, peer);
    return static_cast<std::uint32_t>(hosts_.size());
  }

  void add(const Entry& entry) {
    if (founded_ && entries_.size() < kMostFaults) entries_.push_back(entry);
  }

  void joins(PeerId peer, const std::string& name, Duration at) {
    const std::uint32_t host = host_of(peer, name);
    if (founded_) add({.fault = Fault::kJoin, .after = at, .a = host});
  }

  // Who had joined by then are the founders; the clock of the plan begins here.
  void found() {
    founded_ = true;
    founders_ = std::max<std::size_t>(hosts_.size(), 1);
    began_ = at_;
  }

  // Messages come in pieces. A stream that was open before the beginning may begin inside of one: what makes no sense is dropped.
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
      gang_size_ = std::max(gang_size_, join->gang_size);
      groups_.insert(join->group);
      auto_admit_ = auto_admit_ || join->auto_admit;
    } else if (std::holds_alternative<wire::Claim>(message)) {
      shares_ = true;
    } else if (const auto* done = std::get_if<wire::Done>(&message)) {
      if (done->what.collective == wire::Collective::kSync) return;
      watches_ = watches_ || done->parity != 0;
      if (!rounds_.insert(done->key).second) return;
      minimum_world_ = std::max(minimum_world_, done->what.minimum_world);
      gathered_ = gathered_ || done->what.collective == wire::Collective::kAllGather;
      const Work one = work_of(done->what);
      if (std::find(work_.begin(), work_.end(), one) == work_.end()) work_.push_back(one);
    } else if (const auto* broken = std::get_if<wire::LinkBroken>(&message)) {
      broken_.emplace_back(since_founding(), broken->other);
    } else if (std::holds_alternative<wire::StopRound>(message)) {
      ++stops_;
    }
  }

  // A stream that ended: a process that died. Silence: a machine that vanished.
  void loses(const trace::Event& event) {
    Entry entry{.fault = Fault::kCrash, .after = since_founding(), .a = host_of(event.peer)};
    if (timer_) {
      entry.fault = Fault::kVanish;
      entry.after = std::max(entry.after - options_.silence, Duration{});
      entry.number = 1;
      ++silent_;
    } else if (event.status != Status::kPeerLost) {
      ++evicted_;
    }
    add(entry);
  }

  void work(Plan& plan) {
    std::stable_sort(entries_.begin(), entries_.end(),
                     [](const Entry& a, const Entry& b) { return a.after < b.after; });
    plan.work = work_;
    plan.share_state = shares_ && !plan.auto_admit;
    plan.watch = watches_ && plan.share_state;
    if (plan.work.size() > kMostKindsOfWork) plan.work.resize(kMostKindsOfWork);
    const std::uint64_t in_a_step = std::max<std::size_t>(plan.work.size(), 1);
    const std::uint64_t steps = std::max<std::uint64_t>(rounds_.size() / in_a_step, 1);
    plan.ops_per_step = static_cast<std::uint32_t>(in_a_step);
    plan.think = std::min(since_founding() / static_cast<std::int64_t>(steps), lockstep::seconds(10));
    plan.steps_per_admit = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(steps / (views_ + 1), 1, 1000));
  }

  void tell(Incident& result) const {
    const auto note = [&](std::string text) { result.notes.push_back(std::move(text)); };
    note("the network between hosts is the simulator's own: a coordinator does not see it");
    note(fmt::format("the program: {} were finished, of {}; all of a step are launched at once, with {} ms of thought",
                     rounds_.size() == 1 ? "1 round" : fmt::format("{} rounds", rounds_.size()),
                     work_.size() == 1 ? "1 kind" : fmt::format("{} kinds", work_.size()),
                     result.plan.think.ns / 1'000'000));
    note("a process that came back is another host; who is lost may start again when the network heals");
    if (!from_birth_) note("the beginning had been overwritten: those who were in then are the founders");
    if (work_.size() > kMostKindsOfWork) note(fmt::format("only the first {} kinds of collectives", kMostKindsOfWork));
    if (gathered_) note("blocks of all-gathers have about 16 elements: a coordinator is not told their size");
    if (shares_) note("the shared state has a few pieces: a coordinator is not told how many");
    if (silent_ > 0) note("who fell silent is taken for a machine that vanished; it may have been stopped, or cut off");
    if (evicted_ > 0) note("who was evicted for another reason than silence is taken for one that crashed");
    if (!broken_.empty()) note(fmt::format("{} reports of broken links are left out", broken_.size()));
    if (stops_ > 0) note(fmt::format("{} calls that were aborted, timed out or did not match are left out", stops_));
    if (gang_size_ > 1 || groups_.size() > 1) note("groups and gangs take turns over the hosts");
    if (entries_.size() >= kMostFaults) note(fmt::format("only the first {} events", kMostFaults));
  }

  const coordinator::Options& options_;
  bool from_birth_;
  bool founded_ = false;
  std::optional<Duration> began_;
  Duration at_;
  bool timer_ = false;                                  // what is answered came of time alone
  std::map<StreamId, std::vector<std::byte>> pending_;  // of messages that have not come whole
  std::vector<std::pair<std::string, PeerId>> hosts_;
  std::size_t founders_ = 1;
  std::set<GroupId> groups_;
  std::uint32_t gang_size_ = 1;
  bool auto_admit_ = false;
  std::uint32_t minimum_world_ = 1;
  std::uint64_t views_ = 0;
  std::set<RoundKey> rounds_;
  std::vector<Work> work_;
  bool shares_ = false;
  bool watches_ = false;
  bool gathered_ = false;
  std::vector<std::pair<Duration, PeerId>> broken_;
  std::uint64_t stops_ = 0;
  std::uint64_t silent_ = 0;
  std::uint64_t evicted_ = 0;
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

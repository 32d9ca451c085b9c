#include "sim/explain/historian.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "core/base/overloaded.h"
#include "core/peer/peer.h"
#include "sim/explain/phrases.h"
#include "sim/workload/program.h"
#include "sim/workload/text.h"

namespace lockstep::sim {
Historian::Historian(const Plan& plan, std::uint64_t see) : see_(see) {
  history_.seed = plan.seed;
  history_.states.emplace_back();
  state_index_.emplace(State{}, 0);
}

// ---- the queue ----

void Historian::queued(const Event& event) {
  Origin origin = origin_;
  if (step_ && step_->id != kNoMoment) {
    origin = {step_->id, kNoMoment};
  } else if (nemesis_ != kNoMoment) {
    origin = {nemesis_, kNoMoment};
    const auto held = held_.find({event.process, event.what, event.a, event.b});
    if (held != held_.end()) {
      origin = {held->second, nemesis_};
      held_.erase(held);
    }
  }
  if (origin.moment != kNoMoment) origins_[event.tie] = origin;
}

void Historian::happens(const Event& event, Instant now) {
  events_ += 1;
  now_ = now;
  nemesis_ = kNoMoment;
  step_.reset();
  origin_ = {};
  const auto origin = origins_.find(event.tie);
  if (origin != origins_.end()) {
    origin_ = origin->second;
    origins_.erase(origin);
  }
  if (see_ != 0 && events_ >= see_) throw SeenEnough{};
}

void Historian::held_back(const Event& event) {
  const auto origin = origins_.find(event.tie);
  if (origin == origins_.end()) return;
  held_[{event.process, event.what, event.a, event.b}] = origin->second.moment;
  origins_.erase(origin);
}

// ---- moments ----

std::uint32_t Historian::index_of(const std::string& subject) {
  const auto [it, fresh] = subject_index_.emplace(subject, static_cast<std::uint32_t>(history_.subjects.size()));
  if (fresh) history_.subjects.push_back(subject);
  return it->second;
}

std::uint32_t Historian::state_index(State state) {
  const auto [it, fresh] = state_index_.emplace(state, static_cast<std::uint32_t>(history_.states.size()));
  if (fresh) history_.states.push_back(std::move(state));
  return it->second;
}

MomentId Historian::add(Moment moment) {
  moment.at_ns = now_.ns;
  moment.event = events_;
  history_.moments.push_back(std::move(moment));
  return static_cast<MomentId>(history_.moments.size() - 1);
}

MomentId Historian::tell() {
  if (step_->id != kNoMoment) return step_->id;
  Process& process = processes_[step_->process];
  step_->moment.lane = step_->process;
  step_->moment.before = step_->moment.after = process.state;
  step_->id = add(std::move(step_->moment));
  process.latest = step_->id;
  for (const std::uint32_t subject : history_.moments[step_->id].subjects) process.last[subject] = step_->id;
  return step_->id;
}

void Historian::begin(std::uint32_t process, Spark spark, const char* in_short) {
  step_ = Step{};
  step_->in_short = in_short;
  step_->process = process;
  step_->moment.spark = spark;
}

void Historian::because(MomentId moment, Because why) {
  if (moment == kNoMoment || moment == step_->id) return;
  Moment& now = step_->id == kNoMoment ? step_->moment : history_.moments[step_->id];
  const bool known =
      std::any_of(now.causes.begin(), now.causes.end(), [&](const Cause& cause) { return cause.moment == moment; });
  if (!known) now.causes.push_back({moment, why});
}

void Historian::because_queued(Because why) {
  because(origin_.woken_by, Because::kFault);
  const bool fault = origin_.moment != kNoMoment && history_.moments[origin_.moment].spark == Spark::kFault;
  because(origin_.moment, fault ? Because::kFault : why);
}

void Historian::about(const std::string& subject) {
  Process& process = processes_[step_->process];
  const std::uint32_t index = index_of(subject);
  Moment& now = step_->id == kNoMoment ? step_->moment : history_.moments[step_->id];
  if (std::find(now.subjects.begin(), now.subjects.end(), index) != now.subjects.end()) return;
  now.subjects.push_back(index);
  const auto last = process.last.find(index);
  if (last != process.last.end()) {
    because(last->second, last->second == process.view ? Because::kView : Because::kState);
  }
  if (step_->id != kNoMoment) process.last[index] = step_->id;
  if (last == process.last.end() && subject != kMembershipSubject) because(process.view, Because::kView);
}

void Historian::about(const Subjects& subjects) {
  for (const std::string& subject : subjects) about(subject);
}

// ---- processes ----

void Historian::started(std::uint32_t index, std::uint32_t host, PeerId peer) {
  if (processes_.size() <= index) processes_.resize(index + 1);
  if (history_.lanes.size() <= index) history_.lanes.resize(index + 1);
  Lane& lane = history_.lanes[index];
  lane.name = names_.started(index, host, peer);
  lane.host = host;
  lane.peer = peer;
  lane.began_ns = now_.ns;
  lane_of_[peer] = index;
  Moment moment;
  moment.lane = index;
  moment.spark = Spark::kStart;
  moment.ins.emplace_back("starts");
  if (nemesis_ != kNoMoment) moment.causes.push_back({nemesis_, Because::kFault});
  processes_[index].latest = add(std::move(moment));
  processes_[index].last[index_of(kMembershipSubject)] = processes_[index].latest;
}

void Historian::stopped(std::uint32_t index, Death death) {
  history_.lanes[index].ended_ns = now_.ns;
  const bool killed = nemesis_ != kNoMoment;
  history_.lanes[index].killed = killed;
  Moment moment;
  moment.lane = index;
  moment.spark = Spark::kEnd;
  moment.ins.emplace_back(death == Death::kSilence ? "vanishes in silence"
                          : killed                 ? "dies; its streams are reset"
                                                   : "is at rest, and ends");
  moment.before = moment.after = processes_[index].state;
  const MomentId cause = killed ? nemesis_ : processes_[index].latest;
  if (cause != kNoMoment) moment.causes.push_back({cause, killed ? Because::kFault : Because::kState});
  const MomentId ended = add(std::move(moment));
  processes_[index].latest = ended;
  nemesis_ = ended;  // the end of the process causes what its streams do now
}

void Historian::steps(std::uint32_t process, const peer::Input& input) {
  const auto call = [&](CallId id, const std::string& subject) {
    begin(process, Spark::kCall);
    because_queued(Because::kProgram);
    about(subject);
    made(process, id);
  };
  std::visit(overloaded{
                 [&](const peer::Connect& in) { call(in.call, kMembershipSubject); },
                 [&](const peer::Launch& in) {
                   const auto bar = processes_[process].bars.find(in.call.value);
                   const bool known = bar != processes_[process].bars.end();
                   call(in.call, known ? history_.calls[bar->second].round : "");
                 },
                 [&](const peer::Publish& in) { call(in.call, kMembershipSubject); },
                 [&](const peer::Prefetch& in) { call(in.call, kMembershipSubject); },
                 [&](const peer::Send& in) { call(in.call, ""); },
                 [&](const peer::Receive& in) { call(in.call, ""); },
                 [&](const peer::Admit& in) { call(in.call, kMembershipSubject); },
                 [&](const peer::Leave& in) { call(in.call, kMembershipSubject); },
                 [&](const peer::Stop& in) {
                   begin(process, Spark::kCall);
                   because_queued(Because::kProgram);
                   const auto bar = processes_[process].bars.find(in.call.value);
                   if (bar != processes_[process].bars.end()) about(history_.calls[bar->second].round);
                   step_->moment.ins.push_back("stops call " + std::to_string(in.call.value) + ": " + in.why);
                   tell();
                 },
                 [&](const peer::Abandon& in) {
                   begin(process, Spark::kCall);
                   because_queued(Because::kProgram);
                   about(kMembershipSubject);
                   step_->moment.ins.push_back("gives the run up: " + in.why);
                   tell();
                 },
                 [&](const peer::Resolved&) {
                   begin(process, Spark::kStream);
                   because_queued(Because::kState);
                   step_->moment.ins.emplace_back("knows the coordinator's address");
                   tell();
                 },
                 [&](const peer::Listening& in) {
                   begin(process, Spark::kStream);
                   because_queued(Because::kState);
                   step_->moment.ins.push_back("listens on port " + std::to_string(in.port ? *in.port : 0));
                   tell();
                 },
                 [&](const peer::JobDone& in) { worked(process, in); },
                 [&](const peer::Timer&) {
                   begin(process, Spark::kTimer, "its timer");
                   because_queued(Because::kTimer);
                 },
                 [&](const auto& io) { came(io::Input{io}, process); },
             },
             input);
}

void Historian::steps(std::uint32_t process, const coordinator::Input& input) {
  std::visit(overloaded{
                 [&](const coordinator::Timer&) {
                   begin(process, Spark::kTimer, "its timer");
                   because_queued(Because::kTimer);
                 },
                 [&](const coordinator::ChangeGrants& in) {
                   begin(process, Spark::kCall, "its run tokens change");
                   step_->moment.ins.push_back("knows " + std::to_string(in.grants.size()) + " run tokens now");
                   tell();
                 },
                 [&](const auto& io) { came(io::Input{io}, process); },
             },
             input);
}

void Historian::worked(std::uint32_t process, const peer::JobDone& done) {
  begin(process, Spark::kKernel, "a kernel is done");
  const auto known = processes_[process].jobs.find(done.token.value);
  if (known == processes_[process].jobs.end()) return;
  const Work work = std::move(known->second);
  processes_[process].jobs.erase(known);
  because(work.begun, Because::kKernel);
  const std::vector<std::uint32_t> subjects = history_.moments[work.begun].subjects;
  for (const std::uint32_t subject : subjects) about(history_.subjects[subject]);
  step_->moment.ins.push_back("a kernel has " + work.text + (done.result.intact ? "" : " and found a wrong checksum"));
  tell();
}

void Historian::came(const io::Input& input, std::uint32_t process) {
  const auto stream = [&](const char* what, const std::string& with) {
    begin(process, Spark::kStream);
    because_queued(Because::kStream);
    step_->moment.ins.push_back(what + with);
    tell();
  };
  const auto other = [&](StreamId id) {
    const auto end = end_of_.find({process, id});
    if (end == end_of_.end()) return std::string("somebody");
    const std::uint32_t peer = (end->second ^ 1U) < sides_.size() ? sides_[end->second ^ 1U].process : kNoProcess;
    return peer == kNoProcess ? std::string("somebody") : history_.lanes[peer].name;
  };
  std::visit(overloaded{
                 [&](const io::Opened& in) { stream("opened a stream to ", other(in.stream)); },
                 [&](const io::Accepted& in) { stream("accepts a stream from ", other(in.stream)); },
                 [&](const io::Closed& in) {
                   if (in.reason == io::CloseReason::kAsked) {
                     begin(process, Spark::kStream, "a stream that it closed is gone");
                     because_queued(Because::kStream);
                   } else {
                     stream("its stream ends: ", other(in.stream) + ", " + in.text);
                     const auto end = end_of_.find({process, in.stream});
                     if (end != end_of_.end() && (end->second ^ 1U) < sides_.size()) {
                       const std::uint32_t peer = sides_[end->second ^ 1U].process;
                       if (peer == 0 || process == 0) about(std::string(kMembershipSubject));
                     }
                   }
                 },
                 [&](const io::ReadDone& in) {
                   begin(process, Spark::kMessage, "reads a part of a message");
                   arrived(process, in.stream, in.bytes);
                 },
                 [&](const io::Revoked& in) {
                   begin(process, Spark::kStream, "memory that was lent is back");
                   because_queued(Because::kState);
                   if (in.direction == io::Direction::kRead) arrived(process, in.stream, in.bytes);
                 },
                 [&](const io::WriteDone&) {
                   begin(process, Spark::kStream, "bytes are on their way");
                   because_queued(Because::kStream);
                   step_->only_writes = true;
                 },
             },
             input);
}

// The messages whose last byte is among the next `bytes` of this stream.
void Historian::arrived(std::uint32_t process, StreamId stream, std::size_t bytes) {
  const auto end = end_of_.find({process, stream});
  if (end == end_of_.end()) return;
  Pipe& pipe = sides_[end->second].in;
  pipe.read += bytes;
  while (!pipe.way.empty() && pipe.way.front().end <= pipe.read) {
    const Pipe::Under under = std::move(pipe.way.front());
    pipe.way.pop_front();
    Sent& message = history_.messages[under.message];
    because(message.from, Because::kMessage);
    because(origin_.woken_by, Because::kFault);
    about(under.subjects);
    message.to = tell();
    message.received_ns = now_.ns;
    message.to_lane = process;
    history_.moments[message.to].ins.push_back("gets " + message.text + " from " +
                                               history_.lanes[message.from_lane].name);
  }
}

void Historian::asks(std::uint32_t process, const peer::Effect& effect) {
  if (!step_) return;
  std::visit(overloaded{
                 [&](const peer::Complete& complete) { completed(process, complete); },
                 [&](const peer::Installed& view) { installed(process, *view.view); },
                 [&](const peer::PendingChanged& pending) { processes_[process].pending = pending.count; },
                 [&](const peer::Progress&) {},
                 [&](const peer::RunOver& over) {
                   about(std::string(kMembershipSubject));
                   blame_faults(history_.lanes[process].host, 0);
                   history_.moments[tell()].outs.push_back("loses the run: " + std::string(status_name(over.status)) +
                                                           " (" + names_.plain(over.text) + ")");
                 },
                 [&](const KernelJob& job) {
                   const std::string text = std::string(name_of(job.work)) + " " +
                                            std::to_string(memory_of(job.work).from.length) + " bytes";
                   processes_[process].jobs[job.token.value] = {tell(), text};
                 },
                 [&](const trace::Event& event) { noted(process, event); },
                 [&](const peer::Resolve&) {},
                 [&](const peer::Listen&) {},
                 [&](const auto& io) { asked(io::Effect{io}, process); },
             },
             effect);
}

void Historian::asks(std::uint32_t process, const coordinator::Effect& effect) {
  if (!step_) return;
  std::visit(overloaded{
                 [&](const trace::Event& event) { noted(process, event); },
                 [&](const coordinator::TokenUsed&) {},
                 [&](const auto& io) { asked(io::Effect{io}, process); },
             },
             effect);
}

void Historian::asked(const io::Effect& effect, std::uint32_t process) {
  std::visit(overloaded{
                 [&](const io::Dial& io) {
                   history_.moments[tell()].outs.push_back("dials " + host_name(Network::host_at(io.to)));
                 },
                 [&](const io::Write& io) {
                   if (!step_->only_writes) tell();
                   const auto end = end_of_.find({process, io.stream});
                   if (end != end_of_.end()) sides_[end->second].written = step_->id;
                 },
                 [&](const auto&) {},
             },
             effect);
}

void Historian::stepped(std::uint32_t process, const peer::Peer& peer, const Program& program) {
  if (!step_ || step_->id == kNoMoment) {
    step_.reset();
    return;
  }
  const peer::Peer::Footprint f = peer.footprint();
  const Process& p = processes_[process];
  end_step({{"application", std::string(name_of(program.phase())) + ", step " + std::to_string(program.step())},
            {"view", p.number == 0 ? "none"
                                   : std::to_string(p.number) + ", cohort " + std::to_string(p.cohort) + ", " +
                                         std::to_string(p.members) + " members"},
            {"waiting for admission", std::to_string(p.pending)},
            {"calls", std::to_string(f.calls)},
            {"rounds", std::to_string(f.rounds)},
            {"remembered outcomes", std::to_string(f.remembered)},
            {"streams", std::to_string(f.streams)},
            {"queued bytes", std::to_string(f.queued_bytes)}});
}

void Historian::stepped(std::uint32_t, const coordinator::Coordinator& coordinator) {
  if (!step_ || step_->id == kNoMoment) {
    step_.reset();
    return;
  }
  const wire::StatusReply now = coordinator.snapshot(now_);
  std::string rounds;
  for (const wire::RoundStatus& round : now.rounds) {
    rounds += (rounds.empty() ? "" : "; ") + text_of(round.key) + " " + std::to_string(round.done) + "/" +
              std::to_string(round.members) + " done";
  }
  std::string members;
  for (const wire::Member& member : now.view.members) members += (members.empty() ? "" : " ") + who(member.id);
  std::string waiting;
  for (const wire::Member& member : now.waiting) waiting += (waiting.empty() ? "" : " ") + who(member.id);
  end_step({{"view", now.view.number.value == 0 ? "none"
                                                : std::to_string(now.view.number.value) + ", cohort " +
                                                      std::to_string(now.view.cohort.value) + " {" + members + "}"},
            {"proposal", now.proposal_open ? "open" : "none"},
            {"waiting", waiting.empty() ? "nobody" : waiting},
            {"rounds", rounds.empty() ? "none" : rounds},
            {"committed, aborted", std::to_string(now.commits) + ", " + std::to_string(now.aborts)},
            {"streams", std::to_string(coordinator.footprint().streams)}});
}

void Historian::end_step(State state) {
  Process& process = processes_[step_->process];
  Moment& moment = history_.moments[step_->id];
  if (moment.ins.empty() && moment.outs.empty() && *step_->in_short != '\0') moment.ins.emplace_back(step_->in_short);
  if (moment.causes.empty()) because_queued(Because::kStream);
  process.state = state_index(std::move(state));
  moment.after = process.state;
}

// ---- what a machine tells ----

void Historian::completed(std::uint32_t process, const peer::Complete& complete) {
  const peer::Outcome& outcome = complete.outcome;
  const auto known = processes_[process].bars.find(complete.call.value);
  if (outcome.round != RoundKey{}) about(subject_of(outcome.round));
  if (known != processes_[process].bars.end()) {
    const Bar& bar = history_.calls[known->second];
    about(bar.tag ? bar.round : std::string(kMembershipSubject));
    because(bar.made, Because::kState);
  }
  const MomentId id = tell();
  std::string text = "call " + std::to_string(complete.call.value) + " ends: " + names_.plain(text_of(outcome));
  if (known != processes_[process].bars.end()) {
    Bar& bar = history_.calls[known->second];
    bar.status = status_name(outcome.status);
    bar.outcome = names_.plain(text_of(outcome));
    bar.ended = id;
    if (outcome.round != RoundKey{}) bar.round = text_of(outcome.round);
    if (outcome.contributors) {
      for (const PeerId& peer : *outcome.contributors) bar.with.push_back(who(peer));
      text += " of " + peers_text(bar.with);
    }
    text += " (" + bar.what + ")";
  }
  history_.moments[id].outs.push_back(std::move(text));
}

void Historian::installed(std::uint32_t process, const wire::View& view) {
  about(std::string(kMembershipSubject));
  Process& p = processes_[process];
  p.number = view.number.value;
  p.cohort = view.cohort.value;
  p.members = view.members.size();
  Installed installed{process, tell(), view.number.value, view.cohort.value, {}};
  for (const wire::Member& member : view.members) installed.members.push_back(who(member.id));
  history_.moments[step_->id].outs.push_back("installs view " + std::to_string(view.number.value) + ", cohort " +
                                             std::to_string(view.cohort.value) + " " + peers_text(installed.members));
  p.view = step_->id;
  history_.views.push_back(std::move(installed));
}

void Historian::noted(std::uint32_t process, const trace::Event& event) {
  about(subjects_of(event));
  const MomentId id = tell();
  switch (event.kind) {
    case trace::Kind::kPeerLost:
    case trace::Kind::kLinkLost:
    case trace::Kind::kLinkReported:
    case trace::Kind::kRunLost: {
      const auto lane = lane_of_.find(event.peer);
      blame_faults(history_.lanes[process].host, lane == lane_of_.end() ? 0 : history_.lanes[lane->second].host);
      break;
    }
    case trace::Kind::kInstalled: processes_[process].view = id; break;
    default: break;
  }
  history_.moments[id].outs.push_back("notes " + names_.plain(trace::to_line(event)));
}

std::string Historian::peers_text(const std::vector<std::string>& peers) const {
  std::string out = "{";
  for (const std::string& peer : peers) out += (out.size() > 1 ? " " : "") + peer;
  return out + "}";
}

// ---- calls ----

Bar& Historian::bar_of(const Call& call) {
  auto& bars = processes_[call.process].bars;
  const auto [it, fresh] = bars.emplace(call.id.value, history_.calls.size());
  if (fresh) history_.calls.emplace_back();
  Bar& bar = history_.calls[it->second];
  bar.lane = call.process;
  bar.call = call.id.value;
  return bar;
}

void Historian::called(const Call& call) { bar_of(call).what = name_of(call.kind); }

void Historian::launched(const Call& call) {
  Bar& bar = bar_of(call);
  bar.what = text_of(call.request);
  bar.tag = call.request.tag;
  bar.round = text_of(RoundKey{call.launch.cohort, call.group, call.request.tag, call.launch.use});
}

void Historian::made(std::uint32_t process, CallId call) {
  const MomentId id = tell();
  const auto known = processes_[process].bars.find(call.value);
  if (known == processes_[process].bars.end()) return;
  Bar& bar = history_.calls[known->second];
  bar.made = id;
  if (const auto misused = misused_.find(history_.lanes[process].host); bar.tag && misused != misused_.end()) {
    because(misused->second, Because::kFault);
    misused_.erase(misused);
  }
  history_.moments[id].ins.push_back("call " + std::to_string(call.value) + ": " + bar.what +
                                     (bar.round.empty() ? "" : " (" + bar.round + ")"));
}

// ---- the wire ----

void Historian::opens(std::uint32_t end, std::uint32_t process, StreamId stream) {
  while (sides_.size() <= end) sides_.emplace_back();
  sides_[end].process = process;
  sides_[end].stream = stream;
  end_of_[{process, stream}] = end;
}

MomentId Historian::sender_of(const Side& side, const Subjects& subjects) {
  if (side.written != kNoMoment) return side.written;
  const Process& process = processes_[side.process];
  for (const std::string& subject : subjects) {
    const auto last = process.last.find(index_of(subject));
    if (last != process.last.end()) return last->second;
  }
  return process.latest;
}

void Historian::sends(std::uint32_t end, std::span<const std::byte> bytes, std::size_t size) {
  const std::uint32_t to = end ^ 1U;
  while (sides_.size() <= std::max(end, to)) sides_.emplace_back();
  heard_.clear();
  sides_[to].in.tap.hear(bytes, size, heard_);
  for (const WireTap::Heard& heard : heard_) {
    Subjects subjects = subjects_of(heard.message);
    Sent sent;
    sent.type = wire::name_of_type(wire::type_of(heard.message));
    sent.text = names_.plain(text_of(heard.message));
    sent.from = sender_of(sides_[end], subjects);
    sent.from_lane = sides_[end].process;
    sent.to_lane = sides_[to].process;
    sent.sent_ns = now_.ns;
    sides_[to].in.way.push_back({heard.end, history_.messages.size(), std::move(subjects)});
    history_.messages.push_back(std::move(sent));
  }
}

}  // namespace lockstep::sim

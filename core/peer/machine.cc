#include "core/peer/machine.h"

#include <algorithm>
#include <utility>

#include "core/base/mutant.h"
#include "core/base/overloaded.h"
#include "core/base/text.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

Peer::Machine::Machine(const Options& options, Instant now) : context_(options, now, *this, *this) {
  LOCKSTEP_ASSERT(flaw_of(options).empty());
}

void Peer::Machine::step(Input& input, Instant now, Effects& out) {
  LOCKSTEP_ASSERT(now >= context_.now);  // drivers never run time backwards
  context_.now = now;
  context_.effects = &out;
  std::visit(overloaded{
                 [&](const Connect& in) { admission_.connect(in); },
                 [&](Launch& in) { on_launch(std::move(in)); },
                 [&](Publish& in) { on_publish(std::move(in)); },
                 [&](Prefetch& in) { on_prefetch(std::move(in)); },
                 [&](Admit& in) { on_admit(in); },
                 [&](Leave& in) { on_leave(in); },
                 [&](Stop& in) { on_stop(in); },
                 [&](const Abandon& in) { on_abandon(in); },
                 [&](Resolved& in) { context_.session.on_resolved(std::move(in), now, out); },
                 [&](Listening& in) { context_.session.on_listening(in, now, out); },
                 [&](JobDone& in) { on_job_done(in); },
                 [&](Timer&) { on_timer(); },
                 [&](io::Opened& in) {
                   context_.session.owns(in.stream) ? context_.session.on_opened(in, now)
                                                    : context_.mesh.on_opened(in, now);
                 },
                 [&](io::Accepted& in) { context_.mesh.on_accepted(in, now, out); },
                 [&](io::ReadDone& in) {
                   context_.session.owns(in.stream) ? context_.session.on_read_done(in.bytes, now, out)
                                                    : context_.mesh.on_read_done(in, now, out);
                 },
                 [&](io::WriteDone& in) {
                   context_.session.owns(in.stream) ? context_.session.on_write_done(in.bytes)
                                                    : context_.mesh.on_write_done(in);
                 },
                 [&](io::Revoked& in) {
                   context_.session.owns(in.stream) ? context_.session.on_revoked(in.direction, in.bytes, now, out)
                                                    : context_.mesh.on_revoked(in, now, out);
                 },
                 [&](io::Closed& in) {
                   context_.session.owns(in.stream) ? context_.session.on_closed(in, now, out)
                                                    : context_.mesh.on_closed(in, now, out);
                 },
             },
             input);
  context_.mesh.set_term(context_.session.term());
  drive_ends();
  drive_syncs();
  drive_transfers();
  try_leave();
  if (std::exchange(relinks_, false)) update_links();
  context_.mesh.pump(out);  // first: the next peer waits for the segment, the coordinator for everybody
  context_.session.pump(out);
  context_.effects = nullptr;
}

Instant Peer::Machine::deadline() const {
  Instant next = std::min(context_.session.deadline(), context_.mesh.deadline());
  next = std::min(next, admission_.deadline());
  next = std::min(next, transfers_.deadline());
  bool has_pieces = transfers_.has_pieces();  // to send, of states
  for (const auto& [order, round] : rounds_) {
    next = std::min(next, round.deadline);
    if (!round.sync) continue;
    next = std::min(next, round.sync->deadline());
    has_pieces = has_pieces || (round.attempted() && round.sync->has_next());
  }
  if (has_pieces && !states_.may_send(context_.now)) next = std::min(next, states_.may_send_at());
  return next;
}

Peer::Footprint Peer::Machine::footprint() const {
  Footprint footprint;
  footprint.streams = context_.mesh.streams() + context_.session.streams();
  footprint.strangers = context_.mesh.strangers();
  footprint.rounds = rounds_.size();
  const auto told =
      std::count_if(rounds_.begin(), rounds_.end(), [](const auto& entry) { return entry.second.completed_early; });
  footprint.calls = rounds_.size() - static_cast<std::size_t>(told) + admission_.calls() + transfers_.size();
  footprint.queued_bytes = context_.mesh.queued_bytes() + context_.session.queued_bytes();
  footprint.remembered = views_.remembered() + announcements_.size() + reported_.size();
  return footprint;
}

bool Peer::Machine::is_quiet() const {
  return admission_.is_member() && rounds_.empty() && transfers_.empty() && !views_.proposal() &&
         !admission_.admits() && !admission_.leaves() && context_.session.is_quiet() && context_.mesh.is_quiet();
}

void Peer::Machine::on_admit(const Admit& in) {
  if (admission_.admit(in, launches_)) say_admit();
}

void Peer::Machine::admit_by_itself() {
  if (admission_.begin_automatic()) say_admit();
}

void Peer::Machine::say_admit() {
  if (admission_.must_say_admit(views_.proposal().has_value())) admission_.say_admit(open_rounds());
}

void Peer::Machine::on_leave(const Leave& in) {
  if (!admission_.leave(in)) return;
  transfers_.finish_publications(Status::kOk, {});
  transfers_.finish_prefetches(Status::kAborted, "left before being admitted");
}

void Peer::Machine::try_leave() {
  switch (admission_.farewell(views_.proposal().has_value())) {
    case Admission::Farewell::kNone: return;
    case Admission::Farewell::kSay: return admission_.say_leave(open_rounds());
    case Admission::Farewell::kUnseen: return end_left();
  }
}

void Peer::Machine::carry_out(const Admission::Decision& decision) {
  if (const auto* run = std::get_if<Admission::RunEnds>(&decision)) return end_run(run->status, run->text);
  if (const auto* admit = std::get_if<Admission::AdmitEnds>(&decision))
    return give_up_admit(admit->status, admit->text);
}

void Peer::Machine::on_stop(const Stop& in) {
  const std::string why(cut(in.why, kMaxTextBytes));
  if (const auto decision = admission_.stop(in.call, why)) return carry_out(*decision);
  if (transfers_.stop(in.call, why)) return;
  for (auto& [order, round] : rounds_) {
    if (round.call == in.call) {
      return ask_to_stop(round, Status::kAborted, "aborted by " + context_.name_of(context_.options.id) + ": " + why);
    }
  }
}

// Nobody is to be told: whoever gives up waits for the end of its calls, and not for a coordinator that hears no more.
void Peer::Machine::on_abandon(const Abandon& in) {
  if (admission_.is_over()) return;
  context_.session.hang_up(context_.out());
  end_run(Status::kNotConnected, std::string(cut(in.why, kMaxTextBytes)));
}

void Peer::Machine::on_timer() {
  context_.session.on_timer(context_.now, context_.out());
  context_.mesh.on_timer(context_.now, context_.out());
  const Admission::Decision decision = admission_.on_timer();
  carry_out(decision);
  if (std::holds_alternative<Admission::RunEnds>(decision)) return;
  transfers_.on_timer();
  std::vector<std::uint64_t> due;
  for (const auto& [order, round] : rounds_) {
    if (round.sync && context_.now >= round.sync->deadline()) round.sync->on_timer(context_.now);
    if (context_.now >= round.deadline) due.push_back(order);
  }
  for (const std::uint64_t order : due) {
    const auto at = rounds_.find(order);
    if (at == rounds_.end()) continue;
    Round& round = at->second;
    if (round.stop) {
      return end_run(Status::kOutcomeUnknown, "no verdict on tag " + std::to_string(round.request.tag.value) +
                                                  " within " +
                                                  std::to_string(context_.options.abort_grace.ns / 1'000'000) +
                                                  " ms of asking to stop it; left the run");
    }
    ask_to_stop(round, Status::kTimedOut,
                context_.name_of(context_.options.id) + " timed out after " +
                    std::to_string(round.request.timeout.ns / 1'000'000) + " ms in tag " +
                    std::to_string(round.request.tag.value));
  }
}

void Peer::Machine::on_publish(Publish in) {
  if (!admission_.is_member()) {
    const Error why = admission_.refusal("this peer is leaving: no more calls");
    return context_.fail(in.call, why.status, why.text);
  }
  transfers_.publish(in.call, std::move(in.request));
}

void Peer::Machine::on_prefetch(Prefetch in) {
  if (admission_.is_member()) {  // just now: the next sync fetches the state
    Outcome outcome;
    outcome.state_defined = in.request.state == nullptr || states_.is_defined(in.request);
    return context_.complete(in.call, std::move(outcome));
  }
  if (admission_.life() != Life::kJoining) {
    const Error why = admission_.refusal("this peer is leaving: no more calls");
    return context_.fail(in.call, why.status, why.text);
  }
  transfers_.prefetch(in.call, std::move(in.request));
}

void Peer::Machine::drive_transfers() {
  using Place = StateTransfers::Place;
  if (transfers_.empty()) return;
  const bool waits = admission_.life() == Life::kJoining && !views_.proposal();
  const bool member = admission_.is_member();
  if (transfers_.drive(waits ? Place::kWaits : member ? Place::kMember : Place::kOther)) update_links();
  if (!transfers_.serves()) {
    context_.mesh.dismiss_visitors([](PeerId) { return true; }, context_.now, context_.out());
  }
}

std::optional<std::string> Peer::Machine::refusal_of_visitor(PeerId peer) const {
  if (!transfers_.serves()) return "nothing is published here";
  const bool is_member = Views::has_member(*context_.view, peer) ||
                         (views_.proposal() && Views::has_member(views_.proposal()->view, peer));
  if (is_member) return "a member does not visit";
  return std::nullopt;
}

}  // namespace lockstep::peer

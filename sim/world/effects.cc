// World, second part: the effects that core asks its driver for.
#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>

#include "core/base/assert.h"
#include "core/base/overloaded.h"
#include "core/trace/event.h"
#include "sim/checkers/l1_l4_ends.h"
#include "sim/checkers/oracle_chunks.h"
#include "sim/checkers/p1_bytes.h"
#include "sim/checkers/p2_time.h"
#include "sim/checkers/s10_arguments.h"
#include "sim/checkers/s10_mismatch.h"
#include "sim/checkers/s2_exact_fold.h"
#include "sim/checkers/s3_restored.h"
#include "sim/checkers/s4_hands_off.h"
#include "sim/checkers/s8_once.h"
#include "sim/workload/text.h"
#include "sim/world/world.h"

namespace lockstep::sim {

template <typename Io>
void World::carry_out_io(SimProcess& process, const Io& io) {
  if (options_.trace_streams && options_.trace) tell_io(process, io);
  const std::uint32_t index = process.index;
  if constexpr (std::is_same_v<Io, io::Dial>) {
    network_.dial(index, io, now_);
  } else if constexpr (std::is_same_v<Io, io::Read>) {
    network_.read(index, io, now_);
  } else if constexpr (std::is_same_v<Io, io::Write>) {
    if (plan_.links.bytes_per_second != 0) {
      std::uint64_t control = 0;
      std::uint64_t largest = 0;
      for (const io::Slice& slice : io.slices.all()) {
        control += slice.bytes.size();
        if (slice.bytes.empty()) largest = std::max<std::uint64_t>(largest, slice.size());
      }
      process.sent.lent(io.stream, control, largest, now_);
    }
    network_.write(index, io, now_);
  } else if constexpr (std::is_same_v<Io, io::Revoke>) {
    network_.revoke(index, io, now_);
  } else if constexpr (std::is_same_v<Io, io::Close>) {
    network_.close(index, io, now_);
  } else {
    network_.place(index, io);
  }
}

// S9: the bytes of a write are known when its loan ends.
void World::check_sent(SimProcess& process, const io::Input& input) {
  const LinkPlan& links = plan_.links;
  if (!process.peer || links.bytes_per_second == 0) return;
  const auto written = [&](StreamId stream, std::uint64_t bytes) {
    chronicle_.check("S9", process.sent.written(stream, bytes, links.bytes_per_second, links.segment_bytes, now_));
  };
  if (const auto* const done = std::get_if<io::WriteDone>(&input)) written(done->stream, done->bytes);
  const auto* const revoked = std::get_if<io::Revoked>(&input);
  if (revoked != nullptr && revoked->direction == io::Direction::kWrite) written(revoked->stream, revoked->bytes);
}

void World::stranger_asks(std::uint32_t process, const io::Effect& effect) {
  std::visit([&](const auto& io) { carry_out_io(cast_.processes[process], io); }, effect);
}

void World::carry_out(SimProcess& process, peer::Effect& effect) {
  std::visit(overloaded{
                 [&](const peer::Resolve&) {
                   queue_.push(now_ + nanoseconds(draw_delay(dice_, process, milliseconds(2), Purpose::kResolveDelay)),
                               What::kResolved, process.index);
                 },
                 [&](const peer::Listen&) {
                   queue_.push(now_ + nanoseconds(draw_delay(dice_, process, milliseconds(1), Purpose::kResolveDelay)),
                               What::kListening, process.index);
                 },
                 [&](peer::Complete& complete) { completed(process, complete); },
                 [&](const peer::Installed& installed) {
                   chronicle_.mix(11, process.index, installed.view->number.value, installed.view->members.size());
                   if (options_.trace) chronicle_.say(process, "installs " + text_of(*installed.view));
                   if (options_.observe) {
                     std::vector<PeerId> members;
                     for (const wire::Member& member : installed.view->members) members.push_back(member.id);
                     chronicle_.observe(process, "view " + std::to_string(installed.view->number.value) + " cohort " +
                                                     std::to_string(installed.view->cohort.value) + " " +
                                                     cast_.letters_of(members));
                   }
                   chronicle_.check("S6", checkers_.membership.installed(process.id, installed.view));
                   chronicle_.check("A1", checkers_.admitted.installed(*installed.view));
                   chronicle_.check("T1", checkers_.reach.installed(*installed.view));
                   chronicle_.check("S5", checkers_.one_state.installed(*installed.view));
                   checkers_.admissions.installed(process.host, installed.view->number, now_);
                   while (news_.views < installed.view->number.value) nemesis_.begin_at(&Entry::view, ++news_.views);
                   news_.newest_cohort = std::max(news_.newest_cohort, installed.view->cohort);
                   checkers_.causes.installed(process.index, installed.view);
                   process.connected = true;
                   process.known.members = installed.view->members.size();
                   if (process.known.cohort != installed.view->cohort) process.known.cohort_since = now_;
                   process.known.cohort = installed.view->cohort;
                   look_if_it_waits(process, process.known.members);
                   process.caller.program->on_view(installed.view);
                   if (options_.guests != nullptr) process.caller.uses.on_view(*installed.view);
                 },
                 [&](const peer::PendingChanged& pending) {
                   chronicle_.mix(12, process.index, pending.count, 0);
                   if (process.known.pending != pending.count)
                     chronicle_.observe(process, "pending " + std::to_string(pending.count));
                   process.known.pending = pending.count;
                   process.caller.program->on_pending(pending);
                 },
                 [&](const peer::Progress& progress) {
                   nemesis_.begin_at(&Entry::piece, ++news_.pieces);
                   const std::uint64_t index = progress.call.value - 1;
                   const bool goes_on = index < process.caller.calls.size() && !process.caller.calls[index].outcome;
                   if (goes_on && progress.bytes <= progress.of) return process.caller.program->on_progress(progress);
                   chronicle_.check("S8", "progress of call " + std::to_string(progress.call.value) + ", " +
                                              std::to_string(progress.bytes) + " of " + std::to_string(progress.of) +
                                              " bytes: it is over, or this is beyond its end");
                 },
                 [&](const peer::RunOver& over) { run_over(process, over); },
                 [&](const KernelJob& job) { kernels_.start(process, job); },
                 [&](const trace::Event& event) {
                   chronicle_.mix(13, process.index, static_cast<std::uint64_t>(event.kind), event.number);
                   if (options_.trace) chronicle_.say(process, "| " + trace::to_line(event));
                   process.caller.program->on_trace(event);
                   if (event.kind == trace::Kind::kStateHeld) {
                     chronicle_.check("S5", checkers_.one_state.holds(process.id, event.number));
                   }
                   checkers_.flips.noted(process.id, event, now_);
                   if (event.kind == trace::Kind::kLinkReported) checkers_.reach.reported();
                   const Complaint wrong = checkers_.causes.noted(process.index, event);
                   const bool lied = wrong && is_lied_about(process.id, event);
                   // A lie uses up no flipped bit: a bit that flipped, too, may still be seen.
                   const bool flipped =
                       wrong && !lied && Causes::is_breach(event) && checkers_.flips.explains(process.id, event, now_);
                   if (!flipped && !lied) chronicle_.check("L2", wrong);
                 },
                 [&](const io::Dial& io) { carry_out_io(process, io); },
                 [&](const io::Read& io) { carry_out_io(process, io); },
                 [&](const io::Write& io) { carry_out_io(process, io); },
                 [&](const io::Revoke& io) { carry_out_io(process, io); },
                 [&](const io::Close& io) { carry_out_io(process, io); },
                 [&](const io::CopyBytes& io) { carry_out_io(process, io); },
             },
             effect);
}

void World::carry_out(SimProcess& process, coordinator::Effect& effect) {
  std::visit(overloaded{
                 [&](const trace::Event& event) {
                   chronicle_.mix(14, static_cast<std::uint64_t>(event.kind), event.view.value, event.number);
                   if (options_.trace) chronicle_.say(process, "| " + trace::to_line(event));
                   chronicle_.check("A5", checkers_.evictions.noted(event));
                   const Complaint wrong = checkers_.causes.noted(0, event);
                   if (wrong && !is_lied_about({}, event)) chronicle_.check("L2", wrong);
                   const auto name_of = [&](PeerId peer) -> std::string_view {
                     return checkers_.causes.excuses().life(cast_.by_id.at(peer)).name;
                   };
                   chronicle_.check("L5", checkers_.progress.noted(event, name_of));
                   chronicle_.check("A4", checkers_.excluded.noted(event, now_));
                   chronicle_.check("S9", checkers_.stops.noted(event, now_));
                   if (event.kind == trace::Kind::kCallWaits && !checkers_.liars.any()) on_told_wait(event);
                   if (event.kind == trace::Kind::kPeerLost) checkers_.one_state.lost(event.peer);
                   if (event.kind == trace::Kind::kStateHeld) checkers_.one_state.told_to_hold(event.peer);
                   if (event.kind == trace::Kind::kProposed) checkers_.one_state.proposed(event.view);
                 },
                 [&](const coordinator::TokenUsed&) {},  // tokens of a simulated run have no limits
                 [&](const io::Dial& io) { carry_out_io(process, io); },
                 [&](const io::Read& io) { carry_out_io(process, io); },
                 [&](const io::Write& io) { carry_out_io(process, io); },
                 [&](const io::Revoke& io) { carry_out_io(process, io); },
                 [&](const io::Close& io) { carry_out_io(process, io); },
             },
             effect);
}

bool World::is_lied_about(PeerId by, const trace::Event& event) const {
  return checkers_.liars.explain(by, event, [&](PeerId peer) { return cast_.by_id.contains(peer); });
}

void World::on_told_wait(const trace::Event& event) {
  const wire::View view = cast_.processes[0].coordinator->snapshot(now_).view;
  if (event.round.cohort != view.cohort) return;  // admit, or a round that members still have from an older cohort
  const auto called = std::ranges::count_if(view.members, [&](const wire::Member& member) {
    const Call* const call = cast_.contribution(member.id, event.round);
    return call != nullptr && call->made < checkers_.waits.surely_known(now_);
  });
  chronicle_.check("L6", checkers_.waits.told(event, static_cast<std::size_t>(called), view.members.size()));
}

void World::tell_io(const SimProcess& process, const io::Effect& effect) {
  const auto id = [](const auto& io) { return "  stream " + std::to_string(io.stream.value); };
  std::visit(
      overloaded{
          [&](const io::Dial& io) { chronicle_.say(process, id(io) + " dial " + io.to.text()); },
          [&](const io::Read& io) {
            chronicle_.say(process, id(io) + " lend for reading: buffer " + std::to_string(io.place.id.value) + " +" +
                                        std::to_string(io.place.length) + ", tail " + std::to_string(io.tail.size()));
          },
          [&](const io::Write& io) {
            chronicle_.say(process, id(io) + " lend for writing " + std::to_string(io.slices.bytes()));
          },
          [&](const io::Revoke& io) {
            chronicle_.say(process, id(io) + (io.direction == io::Direction::kRead ? " revoke read" : " revoke write"));
          },
          [&](const io::Close& io) { chronicle_.say(process, id(io) + (io.flush_first ? " end" : " close")); },
          [&](const io::CopyBytes&) {},
      },
      effect);
}

// ---- kernels ----

void World::flipped(std::uint32_t from, std::uint32_t to) {
  if (options_.trace) chronicle_.tell("a bit flips from " + host_words(from) + " to " + host_words(to));
  checkers_.flips.on_the_way(from);
  checkers_.recovery.flipped(now_);
  checkers_.causes.began({.fault = Fault::kFlip, .a = from, .b = to});
}

// ---- calls ----

void World::completed(SimProcess& process, peer::Complete& complete) {
  const std::uint64_t index = complete.call.value - 1;
  Call* call = index < process.caller.calls.size() ? &process.caller.calls[index] : nullptr;
  chronicle_.judging(call);
  chronicle_.check("S8", check_once(call, process.id, complete.call, complete.outcome));
  if (chronicle_.over()) return;
  call->outcome = std::move(complete.outcome);
  call->ended = now_;
  if (call->kind == CallKind::kAdmit) process.known.wanted = 0;
  if (call->kind == CallKind::kConnect) {
    chronicle_.check("L3", checkers_.searches.ended(process.index, call->outcome->status, call->outcome->text));
  }
  std::erase(process.caller.open_calls, static_cast<std::uint32_t>(index));
  tell_end(process, *call);
  const peer::Outcome& outcome = *call->outcome;
  if (outcome.status == Status::kOutcomeUnknown) chronicle_.report.unknown += 1;
  judge_.check_loans_of(process, *call);
  const bool lied = judge_.is_among_liars(*call);
  if (!lied) chronicle_.check("L4", judge_.check_time_out_of(*call));
  if (call->kind == CallKind::kAdmit && !lied && !ending_.healed())
    chronicle_.check("L2", judge_.check_admission(*call));
  if (call->kind == CallKind::kPrefetch) {
    chronicle_.check(
        "S5", checkers_.one_state.ended(*call, *process.memory, [](PeerId, const RoundKey&) { return nullptr; }));
  }
  if (call->kind == CallKind::kCollective) {
    const bool news = count_round(*call);
    if (outcome.status == Status::kOk) {
      chronicle_.check("A1", checkers_.admitted.committed(cast_.tokens.of(process.index, process.host), now_));
    }
    judge_.judge_collective(process, *call, ending_.healed(), news);
  }
  if ((call->kind == CallKind::kSend || call->kind == CallKind::kReceive) && !call->of_guest) {
    if (outcome.status != Status::kOk) chronicle_.report.failed_transfers += 1;
    if (outcome.status == Status::kOk && call->kind == CallKind::kReceive) chronicle_.report.received += 1;
    Complaint wrong = checkers_.transfers.ended(*call, *process.memory, [this](PeerId peer) { return is_gone(peer); });
    if (!lied) chronicle_.check(outcome.status == Status::kOk ? "S2" : "L2", std::move(wrong));
  }
  if (call->of_guest) return end_call_of_guest(process, *call);
  keep_results(process, *call);
  chronicle_.check("S10", check_arguments_kept(*call, process.known.members));
  chronicle_.judging(nullptr);
  const bool in_vain = call->kind == CallKind::kConnect && outcome.status != Status::kOk;
  if (in_vain && !process.over && !process.caller.program->leaving()) {
    process.over = true;
    process.over_at = now_;
    queue_.push(now_ + plan_.heartbeat, What::kGiveUp, process.index, 1);
  }
  process.caller.program->on_complete(*call);
}

void World::tell_end(const SimProcess& process, const Call& call) {
  const peer::Outcome& outcome = *call.outcome;
  chronicle_.mix(10 | call.id.value << 8U, static_cast<std::uint64_t>(outcome.status), outcome.hash,
                 outcome.view.value);
  if (options_.trace) {
    chronicle_.say(process, "call " + std::to_string(call.id.value) + " ends: " + text_of(outcome) +
                                (call.kind == CallKind::kCollective ? ", " + text_of(outcome.round) : "") +
                                (outcome.contributors ? " of " + text_of(*outcome.contributors) : ""));
  }
  if (!options_.observe) return;
  chronicle_.observe(process, text_of(call) + ": " + text_of(outcome) +
                                  (outcome.contributors ? " of " + cast_.letters_of(*outcome.contributors) : "") +
                                  (outcome.retries > 0 ? ", retried " + std::to_string(outcome.retries) + "x" : "") +
                                  (call.request.state ? ", now revision " + std::to_string(outcome.revision) + ", " +
                                                            std::to_string(outcome.bytes_received) + " bytes"
                                                      : ""));
}

// Counts the round of the call when its verdict is news, after the promises that hold for every verdict. True: the news
// is that it has committed.
bool World::count_round(const Call& call) {
  const peer::Outcome& outcome = *call.outcome;
  if (!checkers_.liars.include(call.peer)) {
    Complaint differs = checkers_.one_outcome.ended(call, checkers_.membership.founding(outcome.round.cohort));
    if (differs && judge_.is_untold(call)) differs = {};
    chronicle_.check("S1", differs);
  }
  chronicle_.check("S6", checkers_.membership.ended(call));
  if (outcome.retries > 0) chronicle_.report.retries += 1;
  if (outcome.round == RoundKey{} || is_out(outcome.status)) return false;
  const bool committed = outcome.status == Status::kOk;
  const bool news = news_.rounds.emplace(outcome.round, committed).second;
  if (news && committed) nemesis_.begin_at(&Entry::commit, ++news_.commits);
  return news && committed;
}

// Takes back the memory of a call, stores its fingerprints, and releases it later. The memory of a prefetch stays for
// the next sync.
void World::keep_results(SimProcess& process, Call& call) {
  for (const BufferId buffer : call.buffers) {
    call.prints.at_end.push_back(process.memory->fingerprint(buffer));
    process.memory->take_back(buffer);
  }
  if (call.buffers.empty() || call.kind == CallKind::kPrefetch) return;
  queue_.push(now_ + plan_.heartbeat * 4, What::kApp, process.index, call.id.value - 1, 1);
}

void World::release(SimProcess& process, std::uint64_t index) {
  Call& call = process.caller.calls[index];
  chronicle_.judging(&call);
  chronicle_.check("S4", check_untouched(call, *process.memory));
  chronicle_.judging(nullptr);
  for (const BufferId buffer : std::exchange(call.buffers, {})) process.memory->release(buffer);
}

// Rule 48: a leave ends after the transfers of its caller.
void World::look_for_transfers(const SimProcess& process) {
  for (const std::uint32_t open : process.caller.open_calls) {
    const Call& call = process.caller.calls[open];
    if (call.of_guest || (call.kind != CallKind::kSend && call.kind != CallKind::kReceive)) continue;
    chronicle_.check("L2", Transfers::left_behind(call));
  }
}

// The members of each round that the process has reported as committed and the coordinator has not committed.
std::vector<std::vector<PeerId>> World::untold_rounds(const SimProcess& process) const {
  std::vector<std::vector<PeerId>> rounds;
  for (const Call& call : process.caller.calls) {
    const bool reported = call.kind == CallKind::kCollective && call.outcome && call.outcome->status == Status::kOk &&
                          call.outcome->contributors != nullptr;
    if (reported && !checkers_.causes.has_committed(call.outcome->round)) rounds.push_back(*call.outcome->contributors);
  }
  return rounds;
}

void World::run_over(SimProcess& process, const peer::RunOver& over) {
  chronicle_.mix(15, process.index, static_cast<std::uint64_t>(over.status), 0);
  chronicle_.say(process, over.left
                              ? "has left"
                              : "loses the run: " + std::string(status_name(over.status)) + " (" + over.text + ")");
  chronicle_.observe(process, "run over: " + std::string(status_name(over.status)) + " (" + over.text + ")");
  if (process.over) {
    chronicle_.fail("S8", text_of(process.id) + " is told twice that the run is over");
    return;
  }
  process.over = true;
  process.over_at = now_;
  if (over.left) look_for_transfers(process);
  if (!process.caller.program->leaving()) {
    chronicle_.report.lost_runs += 1;
    // A guest may have set a time-out for its connect, or have stopped it.
    const bool gave_up =
        options_.guests != nullptr && (over.status == Status::kTimedOut || over.status == Status::kAborted);
    const bool lied = checkers_.liars.cost_the_run(process.id, over.text, untold_rounds(process));
    chronicle_.check("L3", checkers_.searches.ended(process.index, over.status, over.text));
    const bool in_vain = checkers_.searches.in_vain(process.index);
    if (!options_.scripted && !gave_up && !lied && !in_vain)
      chronicle_.check("L2", checkers_.causes.lost(process.index, over.status, over.text));
  }
  checkers_.causes.over(process.index);
  process.caller.program->on_over(over);
  queue_.push(now_ + plan_.heartbeat, What::kGiveUp, process.index, 1);
}

}  // namespace lockstep::sim

#include "sim/checkers/l2_causes.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <utility>

#include "core/base/assert.h"
#include "sim/checkers/oracle_chunks.h"

namespace lockstep::sim {
namespace {

// The text between `before` and `after`. Returns nothing if the text does not hold both.
std::optional<std::string_view> between(std::string_view text, std::string_view before, std::string_view after) {
  const std::size_t at = text.find(before);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + before.size());
  const std::size_t end = text.find(after);
  if (end == std::string_view::npos) return std::nullopt;
  return text.substr(0, end);
}

// The same, of a text that begins with `before`.
std::optional<std::string_view> first(std::string_view text, std::string_view before, std::string_view after) {
  return text.starts_with(before) ? between(text, before, after) : std::nullopt;
}

std::uint64_t integer_of(std::string_view text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

Duration millis(std::string_view text) { return milliseconds(static_cast<std::int64_t>(integer_of(text))); }

bool is_member(const wire::View& view, PeerId peer) {
  return std::any_of(view.members.begin(), view.members.end(),
                     [&](const wire::Member& member) { return member.id == peer; });
}

GroupId group_of(const wire::View& view, PeerId peer) {
  const auto at = std::find_if(view.members.begin(), view.members.end(),
                               [&](const wire::Member& member) { return member.id == peer; });
  return at == view.members.end() ? GroupId{} : at->group;
}

bool does_not_vote(const Call& call) {
  if (call.request.state == nullptr) return false;
  const state::Strategy strategy = call.request.state->strategy;
  return strategy == state::Strategy::kSendOnly || strategy == state::Strategy::kReceiveOnly;
}

}  // namespace

// A call, and the calls of the other members for the same round.
struct Causes::JudgedRound {
  const Call& call;
  const peer::Outcome& outcome;
  const wire::View* founding;  // may be null
  bool leaving;
  std::vector<const Call*> calls;      // calls of all members, including the caller's
  std::vector<std::uint32_t> members;  // processes of the cohort's first view

  // It was in, to one who called it.
  [[nodiscard]] bool held(PeerId peer) const {
    return founding != nullptr && is_member(*founding, peer) &&
           std::any_of(calls.begin(), calls.end(), [&](const Call* other) {
             return other->view == nullptr || other->view->number < founding->number || is_member(*other->view, peer);
           });
  }
  [[nodiscard]] bool any_member(const std::function<bool(std::uint32_t)>& is) const {
    return std::any_of(members.begin(), members.end(), is);
  }
  [[nodiscard]] bool any_call(const std::function<bool(const Call&)>& is) const {
    return std::any_of(calls.begin(), calls.end(), [&](const Call* other) { return is(*other); });
  }
  [[nodiscard]] const Call* call_of(std::uint32_t process) const;
  // The time of the first call.
  [[nodiscard]] Instant since() const {
    Instant since = call.made;
    for (const Call* other : calls) since = std::min(since, other->made);
    return since;
  }
};

// Strangers have answered at a member's address (rule 65).
bool Causes::names_another_key(const trace::Event& event) {
  return event.text.find("another key than the member's") != std::string::npos;
}

void Causes::began(const Entry& entry) {
  excuses_.began(entry);
  only_flips_ = only_flips_ && (entry.fault == Fault::kFlip || entry.fault == Fault::kMiscompute);
  has_strangers_ = has_strangers_ || entry.fault == Fault::kStrangers;
  others_answer_ = others_answer_ || has_strangers_ || (entry.fault == Fault::kShut && entry.b != 0);
  has_deviated_ = has_deviated_ || entry.fault == Fault::kMismatch || entry.fault == Fault::kSkip;
}

void Causes::called(const Call& call) {
  Life& life = excuses_.life(call.process);
  if (call.kind == CallKind::kLeave && !life.leaves) life.leaves = now_;
  if (call.kind == CallKind::kAdmit && life.view) life.admits = life.view->cohort;
}

void Causes::launched(const Call& call, bool misuses) {
  if (misuses) excuses_.launches(call.process, call.id, call.launch.cohort);
  if (call.kind == CallKind::kCollective && call.request.collective == wire::Collective::kSync) {
    syncs_.insert({call.launch.cohort, call.group, call.request.tag, call.launch.use});
  }
}

// Whether each name of a list with commas belongs to a process for which `is` holds. Programs from outside choose their
// names: a name that no process has does not count then.
bool Causes::names_some(std::string_view list, const std::function<bool(std::uint32_t)>& is) const {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(", "), list.size());
    const auto named = excuses_.named(list.substr(0, end));
    const bool any = std::any_of(named.begin(), named.end(), is);
    if (!any && !(has_guests_ && named.empty())) return false;
    list.remove_prefix(std::min(end + 2, list.size()));
  }
  return true;
}

// ---- what the coordinator decides ----

// Judges the reason that the coordinator gives. An unknown reason is no cause.
bool Causes::may_be_lost(std::uint32_t process, std::string_view why) const {
  const Life& life = excuses_.life(process);
  const LossTimes& times = excuses_.times;
  const auto of_its_gang = [&](std::uint32_t mate) {
    return mate != process && excuses_.life(mate).gang == life.gang && life.gang.value != 0;
  };
  if (why.starts_with("its stream to the coordinator ended")) {
    if (life.died || life.over || excuses_.broken(process, 0, times.until_told())) return true;
    // A newcomer whose greeting is not answered in time tries again on another stream; the coordinator may read the
    // greeting, and see the end of the first stream, only when it wakes.
    const Duration tries = times.dial + times.beat * 2 + times.news;
    return !life.view &&
           (excuses_.quiet(0, process, tries) > times.dial / 2 || excuses_.quiet(process, 0, tries) > times.dial / 2);
  }
  if (const auto limit = first(why, "silent for ", " ms")) {
    const Duration silence = millis(*limit);
    return excuses_.quiet(process, 0, silence + times.beat * 2 + times.news) >= times.least_quiet(silence);
  }
  const bool taken_out = why.ends_with(" was revoked") || why.ends_with(" has evicted this peer");
  if (taken_out && !why.starts_with("its gang lost ")) return life.revoked;
  if (why.starts_with("its stream to the coordinator is nearly dead")) return is_nearly_dead(process, 0);
  if (const auto limit = first(why, "did not answer a proposal within ", " ms")) {
    const Duration patience = millis(*limit);
    const Duration look = patience + times.beat * 2 + times.news;
    return excuses_.quiet(process, 0, look) >= times.least_quiet(patience) ||
           excuses_.lately(Fault::kMute, process, look);
  }
  if (why.starts_with("does not read what it is told")) return excuses_.quiet(process, 0, times.silence) > times.beat;
  if (const auto other = first(why, "it and ", " cannot reach each other")) {
    return names_some(*other, [&](std::uint32_t end) { return is_reported(process, end); });
  }
  if (const auto other = first(why, "left, and cannot reach ", " to finish")) {
    return names_some(*other, [&](std::uint32_t end) { return is_reported(process, end); });
  }
  if (const auto mate = first(why, "its gang lost ", ": ")) {
    return names_some(*mate,
                      [&](std::uint32_t other) { return of_its_gang(other) && excuses_.life(other).lost == now_; });
  }
  if (const auto mate = between(why, "", " of its gang has left, and it did not follow in time")) {
    return names_some(*mate, [&](std::uint32_t other) {
      const auto leaves = excuses_.life(other).leaves;
      return of_its_gang(other) && leaves && now_ - *leaves >= times.gang_leave;
    });
  }
  return false;
}

// An end of the link reported it, and the report was judged; the coordinator still remembers the report.
bool Causes::is_reported(std::uint32_t process, std::uint32_t other) const {
  const PeerId a = excuses_.life(process).id;
  const PeerId b = excuses_.life(other).id;
  return std::any_of(reports_.begin(), reports_.end(), [&](const Report& report) {
    const bool theirs = (report.by == a && report.of == b) || (report.by == b && report.of == a);
    return theirs && excuses_.seen_until(report.at, excuses_.times.until_forgotten(), process, other) >= now_;
  });
}

// A link lost its stream: the other end is gone, or a fault hit the link.
bool Causes::may_report(std::uint32_t process, PeerId other, bool is_slow) const {
  const auto end = excuses_.process_of(other);
  if (!end) return false;
  const Life& life = excuses_.life(*end);
  if (life.gone() || life.leaves || excuses_.hurt(process, *end, excuses_.times.until_reported())) return true;
  if (excuses_.is_shut_off(process, *end, excuses_.times.until_reported())) return true;
  // The coordinator has given it up, or does not reach one of the two: the other is in a view that this one does not
  // know of.
  const auto cut_off = [&](std::uint32_t one) { return excuses_.hurt(one, 0, excuses_.times.until_reported()); };
  if (excuses_.life(process).lost || cut_off(process) || cut_off(*end)) return true;
  // A way that has become slow, to one of a few that are better, costs no member the run.
  return is_slow && (excuses_.lately(Fault::kSlow, process, *end, excuses_.times.until_reported()) ||
                     excuses_.lately(Fault::kSlow, *end, process, excuses_.times.until_reported()));
}

// A message stood still in its middle: its way drips, or the sender does, in the middle of a write.
bool Causes::is_nearly_dead(std::uint32_t sender, std::uint32_t hearer) const {
  const LossTimes& times = excuses_.times;
  return excuses_.quiet(sender, hearer, times.silence + times.beat * 2 + times.news) >= times.beat;
}

Complaint Causes::noted(std::uint32_t process, const trace::Event& event) {
  const std::string who = process == 0 ? "the coordinator" : text_of(excuses_.life(process).id);
  const auto about = excuses_.process_of(event.peer);
  if (is_breach(event)) {
    if (has_strangers_ && event.peer.is_nobody()) return {};
    if (others_answer_ && names_another_key(event)) return {};
    const bool lied =
        event.text.starts_with("a piece of the state") && about && excuses_.has_begun(Fault::kSpoil, *about);
    if (lied) return {};
    return who + " sees a breach of the protocol: " + trace::to_line(event);
  }
  if (process == 0 && event.kind == trace::Kind::kCommitted) {
    committed_.insert(event.round);
    for (const Life& life : excuses_.lives()) {
      if (life.view == nullptr || life.view->cohort < event.round.cohort) continue;
      may_have_contributed_.add(life.id, syncs_.contains(event.round));
    }
  }
  if (process == 0 && event.kind == trace::Kind::kPeerLost && about) {
    Life& life = excuses_.life(*about);
    const bool known = life.lost || life.leaves;  // a leaver may be out of the run before it hears so
    life.lost = now_;  // a newcomer that was lost asks again, and may be lost as a member later
    if (ends_alone(event.status)) misfits_.insert(event.peer);  // a leaver, too, ends its calls with this status
    if (has_strangers_ && known) return {};                     // strangers use the names of peers that are out
    std::string_view why = event.text;
    if (why.starts_with(life.name)) why.remove_prefix(std::min(life.name.size() + 2, why.size()));
    if (event.status == Status::kProtocolError) {
      if (is_for_stops(event.text)) {
        has_excluded_ = true;
        return {};
      }
      return text_of(life.id) + " lost the run by a breach of the protocol: " + event.text;
    }
    if (event.status == Status::kMismatch) {  // rule 52
      if (contributors_.full.contains(event.peer)) {
        return text_of(life.id) + " is taken out of the run for its arguments (" + event.text +
               "), and has taken part in a round that was no sync";
      }
      if (has_deviated_ || has_guests_) return {};
    }
    if (event.status == Status::kStateConflict) {  // rule 53; excuse() judges how the call of this peer ends
      contributors_.erase(event.peer);
      return {};
    }
    contributors_.erase(event.peer);
    if (is_scripted_ || may_be_lost(*about, why)) return {};
    return text_of(life.id) + " is taken out of the run (" + event.text + ") without a cause";
  }
  if (process == 0 && event.kind == trace::Kind::kPeerRefused) {
    const auto number = between(event.text, "gang ", " is whole already");
    if (!number || is_scripted_ || may_seem_whole(GangId{integer_of(*number)})) return {};
    return "the coordinator refuses a peer (" + event.text + ") without a cause";
  }
  if (process != 0 && event.kind == trace::Kind::kLinkReported) {
    reports_.push_back({excuses_.life(process).id, event.peer, now_});
    if (others_answer_ && names_another_key(event)) return {};
    if (is_scripted_ || may_report(process, event.peer, event.text.starts_with("slow: "))) return {};
    return who + " reports that it cannot reach " + text_of(event.peer) + " (" + event.text +
           "), and no fault had hurt the way between them";
  }
  return {};
}

// The coordinator refuses a member of a gang because enough others wait. Either another gang of the same name waits, or
// a member of the gang is gone, and the coordinator has not noticed it.
bool Causes::may_seem_whole(GangId gang) const {
  const auto& lives = excuses_.lives();
  const auto waiting = std::ranges::count_if(
      lives, [&](const Life& life) { return life.gang == gang && !life.view && !life.died && !life.over; });
  return std::ranges::any_of(lives, [&](const Life& life) {
    if (life.gang != gang) return false;
    const bool unnoticed = !life.lost || *life.lost + excuses_.times.until_told() >= now_;
    return waiting > life.gang_size || ((life.died || life.over) && unnoticed);
  });
}

// ---- what a process learns ----

bool Causes::may_lose_run(std::uint32_t process, Status status, std::string_view text) const {
  const Life& life = excuses_.life(process);
  const LossTimes& times = excuses_.times;
  if (life.abandons) return status == Status::kNotConnected;
  if (life.revoked && text.find("is not one of this run") != std::string_view::npos) return true;
  if (text.starts_with("evicted by the coordinator")) return life.lost.has_value();
  if (has_excluded_ && text.find(" admits nobody for another ") != std::string_view::npos) return true;  // rule 66
  if (text.starts_with("lost the coordinator at")) {
    return life.lost || excuses_.broken(process, 0, times.until_told()) ||
           excuses_.quiet(0, process, times.silence) > times.beat;
  }
  const Duration look = times.silence + times.beat * 2 + times.news;
  if (text.find("is nearly dead") != std::string_view::npos) return life.lost || is_nearly_dead(0, process);
  if (text.find("was silent for") != std::string_view::npos) {
    return life.lost || excuses_.quiet(0, process, look) >= times.least_quiet(times.silence);
  }
  if (text.find(" is whole already") != std::string_view::npos) return true;  // judged when the coordinator refused
  // The process has asked to stop a call and gets no answer: the coordinator and the process cannot hear each other; or
  // the coordinator waits for one silent member after the other, two silences for each, and each time the grace period
  // begins again.
  if (status == Status::kOutcomeUnknown) {
    const Duration waits = times.grace + times.silence * 2 + times.news;
    for (std::uint32_t other = 0; other < excuses_.lives().size(); ++other) {
      if (excuses_.quiet(other, other == 0 ? process : 0, waits) >= times.beat) return true;
      if (excuses_.lately(Fault::kMute, other, waits)) return true;
    }
  }
  return false;
}

Complaint Causes::lost(std::uint32_t process, Status status, const std::string& text) const {
  const std::string who = text_of(excuses_.life(process).id);
  if (status == Status::kProtocolError && is_for_stops(text)) return {};
  if (status == Status::kProtocolError) return who + " lost the run by a breach of the protocol: " + text;
  if (may_lose_run(process, status, text)) return {};
  return who + " lost the run (" + text + ") without a cause";
}

// ---- calls ----

// The call of a process in the round. Null: no such call is known.
const Call* Causes::JudgedRound::call_of(std::uint32_t process) const {
  const auto at =
      std::find_if(calls.begin(), calls.end(), [&](const Call* other) { return other->process == process; });
  return at == calls.end() ? nullptr : *at;
}

// True if the next cohort has taken over its own call of the round, or another call of the same cohort was skipped or
// made with other arguments: the programs are out of step until the cohort ends.
bool Causes::is_out_of_step(const JudgedRound& round, std::uint32_t process) const {
  const Call* const theirs = round.call_of(process);
  return excuses_.is_out_of_step(process, round.outcome.round.cohort, theirs == nullptr ? CallId{} : theirs->id);
}

// The process was lost while a caller had the round open.
bool Causes::is_lost(const JudgedRound& round, std::uint32_t process) const {
  const Life& life = excuses_.life(process);
  return life.lost && round.held(life.id);
}

bool Causes::has_left(const JudgedRound& round, std::uint32_t process) const {
  const Life& life = excuses_.life(process);
  return life.leaves && round.held(life.id);
}

bool Causes::is_gone_or_leaves(std::uint32_t process) const {
  const Life& life = excuses_.life(process);
  return life.gone() || life.leaves;
}

// The call of the process ended in the same way before it had a round.
bool Causes::was_told_alone(const JudgedRound& round, std::uint32_t process) const {
  return std::any_of(told_alone_.begin(), told_alone_.end(), [&](const ToldAlone& told) {
    return told.process == process && told.tag == round.call.request.tag && told.status == round.outcome.status;
  });
}

// A member reported a broken link. Each report was judged. Members may have been lost before the ring was laid.
bool Causes::was_relaid(const JudgedRound& round) const {
  const Instant since = round.since() - excuses_.times.silence * 2;
  return std::any_of(reports_.begin(), reports_.end(), [&](const Report& report) {
    return report.at >= since && round.founding != nullptr && is_member(*round.founding, report.by);
  });
}

bool Causes::excuses_abort(const JudgedRound& round) const {
  if (round.call.stopped) return true;
  if (const auto who = first(round.outcome.text, "aborted by ", ": ")) {
    return names_some(*who, [&](std::uint32_t process) {
      const Call* const theirs = round.call_of(process);
      return (theirs != nullptr && theirs->stopped) || was_told_alone(round, process);
    });
  }
  // A sync also fails on a member that gets false pieces from every source, or that reaches no source.
  const auto cut_off = [&](std::uint32_t process) {
    return is_lost(round, process) || excuses_.has_begun(Fault::kSpoil, process) || has_left(round, process) ||
           round.any_member(
               [&](std::uint32_t other) { return excuses_.hurt(process, other, excuses_.times.until_reported()); });
  };
  return round.call.request.state != nullptr && round.any_member(cut_off);
}

bool Causes::excuses_time_out(const JudgedRound& round) const {
  if (round.call.request.timeout.ns > 0) return true;
  const auto who = between(round.outcome.text, "", " timed out after ");
  return who && names_some(*who, [&](std::uint32_t process) {
           const Call* const theirs = round.call_of(process);
           return (theirs != nullptr && theirs->request.timeout.ns > 0) || was_told_alone(round, process);
         });
}

// The programs of members differ: one program skipped a call, or learned of a loss before it made the call; or it could
// not launch the call, because the world was below the minimum or the root was missing. The programs of two connected
// groups do not know each other: once a call fails in one group and both groups make another call, they stay out of
// step. The named process is a member.
bool Causes::excuses_closed_cohort(const JudgedRound& round) const {
  const auto is_in = [&](std::uint32_t process) {
    return round.founding != nullptr && is_member(*round.founding, excuses_.life(process).id);
  };
  const auto who = between(round.outcome.text, "", " did not launch tag ");
  if (who && !names_some(*who, is_in)) return false;
  const auto of_another_group = [&](std::uint32_t process) {
    return group_of(*round.founding, excuses_.life(process).id) != round.call.group;
  };
  if (who && has_aborted_ && names_some(*who, of_another_group)) return true;
  return round.leaving || waits_for_more_ ||
         round.any_member([&](std::uint32_t process) { return is_out_of_step(round, process); }) ||
         round.any_member([&](std::uint32_t process) { return is_gone_or_leaves(process); });
}

// A caller waits for more members than its group has left.
bool Causes::excuses_below_minimum(const JudgedRound& round) const {
  return round.any_call([&](const Call& other) {
    if (round.founding == nullptr) return 0 < other.request.minimum_world;
    const auto& members = round.founding->members;
    const auto there = std::count_if(members.begin(), members.end(), [&](const wire::Member& member) {
      const auto process = excuses_.process_of(member.id);
      if (member.group != other.group || !process) return false;
      const Life& life = excuses_.life(*process);
      return !life.lost && !life.leaves;
    });
    return there < other.request.minimum_world;
  });
}

bool Causes::excuses_unknown_outcome(const JudgedRound& round) const {
  if (excuses_.life(round.call.process).over) return true;
  if (!round.leaving) return false;
  const std::string_view text = round.outcome.text;
  if (text.starts_with("a member was lost")) {
    return round.any_member([&](std::uint32_t process) { return is_lost(round, process); });
  }
  if (text.starts_with("another member left")) {
    return round.any_member(
        [&](std::uint32_t process) { return process != round.call.process && has_left(round, process); });
  }
  return was_relaid(round);
}

// Also true if connected groups are out of step with each other.
bool Causes::excuses_undefined_state(const JudgedRound& round) const {
  const std::string_view text = round.outcome.text;
  if (text.starts_with("groups that have gangs in common") && has_aborted_) return true;
  // A newcomer has prefetched a part of the state from members that are gone; it shares no cohort with them.
  const auto is_gone = [](const Life& other) { return other.gone() || other.leaves; };
  if (text.find("the state was being taken over") != std::string_view::npos &&
      std::any_of(excuses_.lives().begin() + 1, excuses_.lives().end(), is_gone)) {
    return true;
  }
  return round.any_member([&](std::uint32_t process) { return is_gone_or_leaves(process); }) ||
         round.any_call(does_not_vote) ||
         round.any_member([&](std::uint32_t process) { return is_out_of_step(round, process); });
}

// Two members can only call out, and a call of the round goes beside the ring (rule 70). Each simulated host is a
// network of its own.
bool Causes::excuses_unreachable(const JudgedRound& round) {
  using wire::Algorithm;
  using wire::Collective;
  if (round.founding == nullptr) return false;
  const auto goes_beside = [](const Call& call) {
    const Collective collective = call.request.collective;
    const Algorithm asked = oracle::asked(call.request);
    return collective == Collective::kGather || collective == Collective::kScatter ||
           collective == Collective::kAllToAll || asked == Algorithm::kDirect || asked == Algorithm::kGrid;
  };
  return round.any_call(goes_beside) && std::ranges::count_if(round.founding->members, &wire::Member::calls_out) >= 2;
}

// Rule 53: the state of this peer is ahead of that of another one, and may not be overwritten.

bool Causes::excuses_conflict(const JudgedRound& round) const {
  const state::Statement* own = round.call.request.state.get();
  if (own == nullptr || own->blank || !misfits_.contains(round.call.peer)) return false;
  if (own->strategy != state::Strategy::kPopular && own->strategy != state::Strategy::kNewest) return false;
  // An earlier attempt may have brought this peer a newer state, whose other holders were lost.
  std::uint64_t held = own->revision;
  for (const Call* other : round.calls) {
    if (round.outcome.retries > 0 && other->request.state != nullptr)
      held = std::max(held, other->request.state->revision);
  }
  return round.any_call(
      [&](const Call& other) { return other.request.state != nullptr && other.request.state->revision < held; });
}

bool Causes::excuses_lost_peer(const JudgedRound& round) const {
  const auto lost = [&](std::uint32_t process) { return is_lost(round, process); };
  const auto gone = [&](std::uint32_t process) { return is_lost(round, process) || has_left(round, process); };
  const auto who = first(round.outcome.text, "lost ", " during ");
  return round.any_member(lost) && (!who || names_some(*who, gone));
}

bool Causes::excuses_changed_world(const JudgedRound& round) const {
  const std::string_view text = round.outcome.text;
  if (text.find("laid around a broken link") != std::string_view::npos) return was_relaid(round);
  const auto left = [&](std::uint32_t process) { return has_left(round, process); };
  const auto who = between(text, "", " left before ");
  return round.any_member(left) && (!who || names_some(*who, left));
}

// A member refused its own call; or a root, or the receiver of a block, is lost: each group has its own root.
bool Causes::excuses_invalid_argument(const JudgedRound& round) const {
  if (round.call.refused) return true;
  if (const auto who = between(round.outcome.text, "", " refused its ")) {
    return names_some(*who, [&](std::uint32_t process) {
      const Call* const theirs = round.call_of(process);
      return (theirs != nullptr && theirs->refused) || was_told_alone(round, process);
    });
  }
  return round.any_call([&](const Call& other) {
    const auto is_no_member = [&](PeerId peer) {
      const auto process = excuses_.process_of(peer);
      return !process || is_gone_or_leaves(*process);
    };
    return (!other.request.root.is_nobody() && is_no_member(other.request.root)) ||
           std::ranges::any_of(other.request.blocks, is_no_member, &ring::Block::to);
  });
}

// The arguments of a member differ. Rule 52: if it is the only newcomer, it ends alone, with all of its calls.
bool Causes::excuses_mismatch(const JudgedRound& round) const {
  if (misfits_.contains(round.call.peer) || round.any_call(does_not_vote)) return true;
  std::vector<std::uint32_t> odd;
  std::ranges::copy_if(round.members, std::back_inserter(odd),
                       [&](std::uint32_t process) { return is_out_of_step(round, process); });
  if (odd.size() != 1 || odd.front() == round.call.process) return !odd.empty();
  const int standing = may_have_contributed_.standing(excuses_.life(odd.front()).id);
  return round.any_member([&](std::uint32_t process) {
    return process != odd.front() && contributors_.standing(excuses_.life(process).id) <= standing;
  });
}

// Whether a known cause explains this outcome.
bool Causes::excuse(const JudgedRound& round) const {
  const auto out_of_step = [&](std::uint32_t process) { return is_out_of_step(round, process); };
  switch (round.outcome.status) {
    case Status::kOk: return true;
    case Status::kMismatch: return excuses_mismatch(round);
    case Status::kAborted: return excuses_abort(round);
    case Status::kTimedOut: return excuses_time_out(round);
    case Status::kCohortClosed: return excuses_closed_cohort(round);
    case Status::kBelowMinimum: return excuses_below_minimum(round);
    case Status::kBufferTooSmall:  // a member that is out of step brings a block of another size than was made room for
      return oracle::has_blocks(round.call.request.collective) && round.any_member(out_of_step);
    case Status::kOutcomeUnknown: return excuses_unknown_outcome(round);
    case Status::kEvicted:
    case Status::kNotConnected: return excuses_.life(round.call.process).over || round.leaving;
    case Status::kStateUndefined: return excuses_undefined_state(round);
    case Status::kStateConflict: return excuses_conflict(round);
    case Status::kPeerLost: return excuses_lost_peer(round);
    case Status::kWorldChanged: return excuses_changed_world(round);
    case Status::kInvalidArgument: return excuses_invalid_argument(round);
    case Status::kUnreachable: return excuses_unreachable(round);
    case Status::kRefused:
    case Status::kTooManyInFlight:
    case Status::kOutOfMemory:
    case Status::kInternal: return false;
    case Status::kProtocolError:  // rule 67: with the run of its caller; lost() has judged that
      return excuses_.life(round.call.process).lost.has_value() && is_for_stops(round.outcome.text);
  }
  LOCKSTEP_UNREACHABLE();
}

Complaint Causes::aborted(const Call& call, const wire::View* founding, const FindCall& find, bool leaving, bool odd) {
  const peer::Outcome& outcome = *call.outcome;
  if (call.kind != CallKind::kCollective) return {};
  if (outcome.status == Status::kOk) {
    // Members may commit among themselves before the coordinator knows (rule 14): until then it counts no newcomer's.
    if (committed_.contains(outcome.round)) {
      const bool sync = call.request.collective == wire::Collective::kSync;
      for (const PeerId peer : *outcome.contributors) contributors_.add(peer, sync);
    }
    return {};
  }
  const bool alone = outcome.round == RoundKey{};
  if (alone && (call.refused || outcome.status == Status::kTimedOut || outcome.status == Status::kAborted)) {
    told_alone_.push_back({call.process, call.request.tag, outcome.status});
  }
  JudgedRound round{call, outcome, alone ? nullptr : founding, leaving, {&call}, {}};
  if (round.founding != nullptr) {
    for (const wire::Member& member : founding->members) {
      const auto process = excuses_.process_of(member.id);
      if (process) round.members.push_back(*process);
      if (member.id == call.peer) continue;
      // Gangs connect groups: a round of one group has the same fate as the round of every connected group.
      RoundKey key = outcome.round;
      if (member.gang.value != 0) key.group = member.group;
      const Call* const theirs = find(member.id, key);
      if (theirs != nullptr) round.calls.push_back(theirs);
    }
  }
  const bool excused = excuse(round);
  has_aborted_ = true;
  if (excused || odd) return {};
  return text_of(call.request) + " of " + text_of(call.peer) + " ended with " + text_of(outcome) + " without a cause";
}

std::uint64_t Causes::disturbances(const Call& call, const wire::View* founding, const FindCall& find) const {
  if (founding == nullptr) return 0;
  std::vector<std::uint32_t> members;
  Instant since = call.made;
  std::uint64_t let_go = 0;
  for (const wire::Member& member : founding->members) {
    const auto process = excuses_.process_of(member.id);
    const Call* const theirs = find(member.id, call.outcome->round);
    if (theirs != nullptr) since = std::min(since, theirs->made);
    if (!process) continue;
    members.push_back(*process);
    // A member that has not launched the round lets links go that it does not need, and bytes may be on their way.
    let_go += excuses_.links_let_go(call.process, *process, call.made, theirs == nullptr ? now_ : theirs->made);
  }
  return excuses_.disturbances(members, since) + let_go;
}

}  // namespace lockstep::sim

#include "sim/checkers/l2_causes.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "core/base/assert.h"

namespace lockstep::sim {
namespace {

// What stands between two pieces of a text; nothing: it is not such a text.
std::optional<std::string_view> between(std::string_view text, std::string_view before, std::string_view after) {
  const std::size_t at = text.find(before);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + before.size());
  const std::size_t end = text.find(after);
  if (end == std::string_view::npos) return std::nullopt;
  return text.substr(0, end);
}

// The same, of a text that begins so.
std::optional<std::string_view> first(std::string_view text, std::string_view before, std::string_view after) {
  return text.starts_with(before) ? between(text, before, after) : std::nullopt;
}

Duration millis(std::string_view text) {
  std::int64_t ms = 0;
  std::from_chars(text.data(), text.data() + text.size(), ms);
  return milliseconds(ms);
}

bool is_member(const wire::View& view, PeerId peer) {
  return std::any_of(view.members.begin(), view.members.end(),
                     [&](const wire::Member& member) { return member.id == peer; });
}

GroupId group_of(const wire::View& view, PeerId peer) {
  const auto at = std::find_if(view.members.begin(), view.members.end(),
                               [&](const wire::Member& member) { return member.id == peer; });
  return at == view.members.end() ? GroupId{} : at->group;
}

}  // namespace

// A call, and those of the others for the same round.
struct Causes::Round {
  const Call& call;
  const peer::Outcome& outcome;
  const wire::View* founding;  // may be null
  bool leaving;
  std::vector<const Call*> calls;      // of all members, the caller's among them
  std::vector<std::uint32_t> members;  // processes that the cohort began with

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
  // When the first of them was made.
  [[nodiscard]] Instant since() const {
    Instant since = call.made;
    for (const Call* other : calls) since = std::min(since, other->made);
    return since;
  }
};

void Causes::began(const Entry& entry) {
  excuses_.began(entry);
  only_flips_ = only_flips_ && (entry.fault == Fault::kFlip || entry.fault == Fault::kMiscompute);
  has_strangers_ = has_strangers_ || entry.fault == Fault::kStrangers;
}

void Causes::called(const Call& call) {
  Life& life = excuses_.life(call.process);
  if (call.kind == CallKind::kLeave && !life.leaves) life.leaves = now_;
  if (call.kind == CallKind::kAdmit && life.view) life.admits = life.view->cohort;
}

void Causes::launched(const Call& call, bool misuses) {
  if (misuses) excuses_.launches(call.process, call.id, call.cohort);
}

// Whether one of those who are named, with commas between them, is so; of each name, if programs from outside give them.
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

// By the coordinator's own words. A reason that is not known here is none.
bool Causes::may_be_lost(std::uint32_t process, std::string_view why) const {
  const Life& life = excuses_.life(process);
  const LossTimes& times = excuses_.times;
  const auto of_its_gang = [&](std::uint32_t mate) {
    return mate != process && excuses_.life(mate).gang == life.gang && life.gang.value != 0;
  };
  if (why.starts_with("its stream to the coordinator ended")) {
    if (life.died || life.over || excuses_.broken(process, 0, times.until_told())) return true;
    // A newcomer whose greeting is not answered in time tries again on another stream; the coordinator may read the greeting, and see
    // the end of the first stream, only when it wakes.
    const Duration tries = times.dial + times.beat * 2 + times.news;
    return !life.view &&
           (excuses_.quiet(0, process, tries) > times.dial / 2 || excuses_.quiet(process, 0, tries) > times.dial / 2);
  }
  if (const auto limit = first(why, "silent for ", " ms")) {
    const Duration silence = millis(*limit);
    return excuses_.quiet(process, 0, silence + times.beat * 2 + times.news) >= times.least_quiet(silence);
  }
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

// By one of its ends, which was judged then; and the coordinator remembers it still.
bool Causes::is_reported(std::uint32_t process, std::uint32_t other) const {
  const PeerId a = excuses_.life(process).id;
  const PeerId b = excuses_.life(other).id;
  return std::any_of(reports_.begin(), reports_.end(), [&](const Report& report) {
    const bool theirs = (report.by == a && report.of == b) || (report.by == b && report.of == a);
    return theirs && excuses_.seen_until(report.at, excuses_.times.until_forgotten(), process, other) >= now_;
  });
}

// A link without a stream: whose other end is gone, or that was hurt.
bool Causes::may_report(std::uint32_t process, PeerId other) const {
  const auto end = excuses_.process_of(other);
  if (!end) return false;
  const Life& life = excuses_.life(*end);
  return life.gone() || life.leaves || excuses_.hurt(process, *end, excuses_.times.until_reported());
}

Complaint Causes::noted(std::uint32_t process, const trace::Event& event) {
  const std::string who = process == 0 ? "the coordinator" : text_of(excuses_.life(process).id);
  const auto about = excuses_.process_of(event.peer);
  if (is_breach(event)) {
    if (has_strangers_ && event.peer.is_nobody()) return {};
    const bool lied =
        event.text.starts_with("a piece of the state") && about && excuses_.has_begun(Fault::kSpoil, *about);
    if (lied) return {};
    return who + " sees a breach of the protocol: " + trace::to_line(event);
  }
  if (process == 0 && event.kind == trace::Kind::kPeerLost && about) {
    Life& life = excuses_.life(*about);
    const bool known = life.lost || life.leaves;  // a leaver may be out of the run before it hears so
    life.lost = now_;                        // a newcomer that was lost asks again, and may be lost as a member later
    if (has_strangers_ && known) return {};  // strangers use the names of peers that are out
    std::string_view why = event.text;
    if (why.starts_with(life.name)) why.remove_prefix(std::min(life.name.size() + 2, why.size()));
    if (event.status == Status::kProtocolError) {
      return text_of(life.id) + " lost the run by a breach of the protocol: " + event.text;
    }
    if (is_scripted_ || may_be_lost(*about, why)) return {};
    return text_of(life.id) + " is taken out of the run (" + event.text +
           "), and nothing had happened to it that is a cause";
  }
  if (process != 0 && event.kind == trace::Kind::kLinkReported) {
    reports_.push_back({excuses_.life(process).id, event.peer, now_});
    if (is_scripted_ || may_report(process, event.peer)) return {};
    return who + " reports that it cannot reach " + text_of(event.peer) + " (" + event.text +
           "), and nothing had happened between them";
  }
  return {};
}

// ---- what a process learns ----

bool Causes::may_lose_run(std::uint32_t process, Status status, std::string_view text) const {
  const Life& life = excuses_.life(process);
  const LossTimes& times = excuses_.times;
  if (life.abandons) return status == Status::kNotConnected;
  if (text.starts_with("evicted by the coordinator")) return life.lost.has_value();
  if (text.starts_with("lost the coordinator at")) {
    return life.lost || excuses_.broken(process, 0, times.until_told()) ||
           excuses_.quiet(0, process, times.silence) > times.beat;
  }
  const Duration look = times.silence + times.beat * 2 + times.news;
  if (text.find("was silent for") != std::string_view::npos) {
    return life.lost || excuses_.quiet(0, process, look) >= times.least_quiet(times.silence);
  }
  // One of its gang is gone, and the coordinator has not noticed, or not yet when it refused: the gang seems whole with it. Or
  // another gang of that name waits.
  if (text.find(" is whole already") != std::string_view::npos) {
    const auto others = std::count_if(excuses_.lives().begin(), excuses_.lives().end(), [&](const Life& other) {
      return other.gang == life.gang && &other != &life && !other.view && !other.died && !other.over;
    });
    if (others >= life.gang_size) return true;
    return std::any_of(excuses_.lives().begin(), excuses_.lives().end(), [&](const Life& mate) {
      const bool unnoticed = !mate.lost || *mate.lost + times.until_told() >= now_;
      return mate.gang == life.gang && &mate != &life && (mate.died || mate.over) && unnoticed;
    });
  }
  // It has asked for the end of a call, and hears nothing: the coordinator cannot hear it, or be heard; or it waits in turn for
  // members that do not answer, each for two silences, and each time the grace begins anew.
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
  if (status == Status::kProtocolError) return who + " lost the run by a breach of the protocol: " + text;
  if (may_lose_run(process, status, text)) return {};
  return who + " lost the run (" + text + "), and nothing had happened to it";
}

// ---- calls ----

// Whether something is the cause of this outcome.
bool Causes::excuse(const Round& round) const {
  const Call& call = round.call;
  const peer::Outcome& outcome = round.outcome;
  const std::string_view text = outcome.text;
  const Life& caller = excuses_.life(call.process);
  const auto life = [&](std::uint32_t process) -> const Life& { return excuses_.life(process); };
  const CohortId cohort = outcome.round.cohort;
  const auto call_of = [&](std::uint32_t process) {
    const auto at = std::find_if(round.calls.begin(), round.calls.end(),
                                 [&](const Call* other) { return other->process == process; });
    return at == round.calls.end() ? nullptr : *at;
  };
  // The call itself, if the next cohort has taken it over; or another of the same cohort: the programs are out of step until its end.
  const auto misused = [&](std::uint32_t process) {
    const Call* const theirs = call_of(process);
    return excuses_.is_out_of_step(process, cohort, theirs == nullptr ? CallId{} : theirs->id);
  };
  // While the round was open to somebody.
  const auto is_lost = [&](std::uint32_t process) { return life(process).lost && round.held(life(process).id); };
  const auto has_left = [&](std::uint32_t process) { return life(process).leaves && round.held(life(process).id); };
  const auto another_leaves = [&](std::uint32_t process) { return process != call.process && has_left(process); };
  const auto was_relaid = [&] {  // each report was judged; members may have been lost before the ring was laid
    const Instant since = round.since() - excuses_.times.silence * 2;
    return std::any_of(reports_.begin(), reports_.end(), [&](const Report& report) {
      return report.at >= since && round.founding != nullptr && is_member(*round.founding, report.by);
    });
  };
  const auto gone_or_leaves = [&](std::uint32_t process) { return life(process).gone() || life(process).leaves; };
  const auto some_do_not_vote = [](const Call& other) {
    return other.request.state != nullptr && other.request.state->strategy != state::Strategy::kPopular;
  };
  const auto told_alone = [&](std::uint32_t process) {
    return std::any_of(told_alone_.begin(), told_alone_.end(), [&](const ToldAlone& told) {
      return told.process == process && told.tag == call.request.tag && told.status == outcome.status;
    });
  };
  switch (outcome.status) {
    case Status::kOk: return true;
    case Status::kMismatch:  // out of step with each other
      return round.any_member(misused) || round.any_call(some_do_not_vote);
    case Status::kAborted: {
      if (call.stopped) return true;
      if (const auto who = first(text, "aborted by ", ": ")) {
        return names_some(*who, [&](std::uint32_t process) {
          const Call* const theirs = call_of(process);
          return (theirs != nullptr && theirs->stopped) || told_alone(process);
        });
      }
      // By who is lied to by all who have the state, or reaches none of them.
      const auto cut_off = [&](std::uint32_t process) {
        return is_lost(process) || excuses_.has_begun(Fault::kSpoil, process) || has_left(process) ||
               round.any_member(
                   [&](std::uint32_t other) { return excuses_.hurt(process, other, excuses_.times.until_reported()); });
      };
      return call.request.state != nullptr && round.any_member(cut_off);
    }
    case Status::kTimedOut: {
      if (call.request.timeout.ns > 0) return true;
      const auto who = between(text, "", " timed out after ");
      return who && names_some(*who, [&](std::uint32_t process) {
               const Call* const theirs = call_of(process);
               return (theirs != nullptr && theirs->request.timeout.ns > 0) || told_alone(process);
             });
    }
    case Status::kCohortClosed: {
      // Members' programs differ: one has skipped a call, or heard of a loss before it made it; or it could not launch it, alone
      // below a minimum, or without the root. The programs of two groups that are bound know nothing of each other: from the first
      // call on that ends for one and is followed by another in each, they are out of step for good. Who is named is a member.
      const auto is_in = [&](std::uint32_t process) {
        return round.founding != nullptr && is_member(*round.founding, life(process).id);
      };
      const auto who = between(text, "", " did not launch tag ");
      if (who && !names_some(*who, is_in)) return false;
      const auto of_another_group = [&](std::uint32_t process) {
        return group_of(*round.founding, life(process).id) != call.group;
      };
      if (who && has_aborted_ && names_some(*who, of_another_group)) return true;
      return round.leaving || waits_for_more_ || round.any_member(misused) || round.any_member(gone_or_leaves);
    }
    case Status::kBelowMinimum:  // one of them wants more than are left of its group
      return round.any_call([&](const Call& other) {
        const auto there =
            round.founding == nullptr
                ? 0
                : std::count_if(
                      round.founding->members.begin(), round.founding->members.end(), [&](const wire::Member& member) {
                        const auto process = excuses_.process_of(member.id);
                        return member.group == other.group && process && !life(*process).lost && !life(*process).leaves;
                      });
        return there < other.request.minimum_world;
      });
    case Status::kBufferTooSmall:  // one that is out of step brings a block of another size than was made room for
      return call.request.collective == peer::Collective::kAllGather && round.any_member(misused);
    case Status::kOutcomeUnknown:
      if (caller.over) return true;
      if (!round.leaving) return false;
      if (text.starts_with("a member was lost")) return round.any_member(is_lost);
      if (text.starts_with("another member left")) return round.any_member(another_leaves);
      return was_relaid();
    case Status::kEvicted:
    case Status::kNotConnected: return caller.over || round.leaving;
    case Status::kStateUndefined:  // also when groups that are bound are out of step with each other
      if (text.starts_with("groups that have gangs in common") && has_aborted_) return true;
      // A newcomer has fetched a part of it in advance, from members that are gone: they are of no cohort that it was in.
      if (text.find("the state was being taken over") != std::string_view::npos &&
          std::any_of(excuses_.lives().begin() + 1, excuses_.lives().end(),
                      [](const Life& other) { return other.gone() || other.leaves; })) {
        return true;
      }
      return round.any_member(gone_or_leaves) || round.any_call(some_do_not_vote) || round.any_member(misused);
    case Status::kPeerLost: {
      const auto who = first(text, "lost ", " during ");
      const auto gone = [&](std::uint32_t process) { return is_lost(process) || has_left(process); };
      return round.any_member(is_lost) && (!who || names_some(*who, gone));
    }
    case Status::kWorldChanged: {
      if (text.find("laid around a broken link") != std::string_view::npos) return was_relaid();
      const auto who = between(text, "", " left before ");
      return round.any_member(has_left) && (!who || names_some(*who, has_left));
    }
    case Status::kInvalidArgument:  // a broadcast whose root is lost; each group has its own
      return round.any_call([&](const Call& other) {
        if (other.request.collective != peer::Collective::kBroadcast) return false;
        const auto root = excuses_.process_of(other.request.root);
        return !root || gone_or_leaves(*root);
      });
    case Status::kUnreachable:
    case Status::kRefused:
    case Status::kTooManyInFlight:
    case Status::kOutOfMemory:
    case Status::kProtocolError:
    case Status::kInternal: return false;
  }
  LOCKSTEP_UNREACHABLE();
}

Complaint Causes::aborted(const Call& call, const wire::View* founding, const FindCall& find, bool leaving, bool odd) {
  const peer::Outcome& outcome = *call.outcome;
  if (call.kind != CallKind::kCollective || outcome.status == Status::kOk) return {};
  const bool alone = outcome.round == RoundKey{};
  if (alone && (outcome.status == Status::kTimedOut || outcome.status == Status::kAborted)) {
    told_alone_.push_back({call.process, call.request.tag, outcome.status});
  }
  Round round{call, outcome, alone ? nullptr : founding, leaving, {&call}, {}};
  if (round.founding != nullptr) {
    for (const wire::Member& member : founding->members) {
      const auto process = excuses_.process_of(member.id);
      if (process) round.members.push_back(*process);
      if (member.id == call.peer) continue;
      // Gangs bind groups to each other: what becomes of this round in one is what becomes of it in all.
      RoundKey key = outcome.round;
      if (member.gang.value != 0) key.group = member.group;
      const Call* const theirs = find(member.id, key);
      if (theirs != nullptr) round.calls.push_back(theirs);
    }
  }
  const bool excused = excuse(round);
  has_aborted_ = true;
  if (excused || odd) return {};
  return text_of(call.request) + " of " + text_of(call.peer) + " ended with " + text_of(outcome) +
         ", and nothing had happened that is a cause of it";
}

std::uint64_t Causes::disturbances(const Call& call, const wire::View* founding, const FindCall& find) const {
  if (founding == nullptr) return 0;
  std::vector<std::uint32_t> members;
  Instant since = call.made;
  for (const wire::Member& member : founding->members) {
    if (const auto process = excuses_.process_of(member.id)) members.push_back(*process);
    const Call* const theirs = find(member.id, call.outcome->round);
    if (theirs != nullptr) since = std::min(since, theirs->made);
  }
  return excuses_.disturbances(members, since);
}

}  // namespace lockstep::sim

// What the coordinator decides: commits, and proposals that change the membership or settle rounds. One proposal is open at a
// time; a new loss replaces it; nothing that it aborts is reported before everybody has acknowledged it.
#include <algorithm>
#include <utility>

#include "core/base/mutant.h"
#include "core/base/text.h"
#include "core/coordinator/machine.h"
#include "core/wire/limits.h"

namespace lockstep::coordinator {

namespace {

constexpr std::size_t kMostOfComplaint = 200;  // bytes of what a peer says of a broken link, for the texts of others

// Whether two lists decide the same. Texts may differ: they name who waits for whom at the moment of asking.
bool same_decisions(const std::vector<wire::Verdict>& a, const std::vector<wire::Verdict>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const wire::Verdict& x, const wire::Verdict& y) {
    return x.key == y.key && x.attempt == y.attempt && x.status == y.status && x.hash == y.hash;
  });
}

void drop(std::vector<wire::OpenRound>& open, const RoundKey& key) {
  std::erase_if(open, [&](const wire::OpenRound& round) { return round.key == key; });
}

}  // namespace

void Coordinator::Machine::on_done(PeerId from, Rounds::DoneResult result) {
  if (!result.violation.empty()) return lose(from, Status::kProtocolError, result.violation, true);
  carry_out(std::move(result));
}

void Coordinator::Machine::carry_out(Rounds::DoneResult result) {
  for (const wire::Elected& elected : result.elected) {
    for (const wire::Member& member : rounds_.contributors(elected)) say(member.id, elected);
  }
  for (const auto& [to, question] : result.questions) say(to, question);
  if (result.compares_watched) {
    compared_since_ = now_;
    next_look_ = std::min(next_look_, now_ + options_.silence);
  }
  changed_ = changed_ || result.stop.has_value();
  for (Rounds::Committed& committed : result.committed) announce_commit(std::move(committed));
  if (!result.committed.empty() && !mutant(Mutant::kLeaverIsNotReleased)) release_leavers();
}

void Coordinator::Machine::announce_commit(Rounds::Committed committed) {
  committed.commit.admit_here = membership_.auto_admit() && committed.commit.key.cohort == membership_.view().cohort &&
                                !membership_.admissible().empty() && !mutant(Mutant::kWaitingForgotten);
  for (const wire::Member& member : committed.members) say(member.id, committed.commit);
  count_commit(committed);
}

void Coordinator::Machine::count_commit(const Rounds::Committed& committed) {
  ++counters_.commits;
  counters_.bytes_reduced += committed.bytes;
  note({.kind = trace::Kind::kCommitted,
        .view = ViewNumber{committed.commit.attempt.value},
        .peer = {},
        .round = committed.commit.key,
        .number = committed.members.size(),
        .text = committed.commit.parity});
  for (auto& [peer, seat] : seats_) {
    if (seat.admit) drop(seat.admit->open, committed.commit.key);
    if (seat.leave) drop(seat.leave->open, committed.commit.key);
  }
  if (proposal_) {
    for (auto& [peer, open] : proposal_->change.admits) drop(open, committed.commit.key);
    proposal_->change.kept.erase(committed.commit.key);
  }
}

void Coordinator::Machine::on_admit(PeerId from, wire::Admit in) {
  Seat& seat = seats_.at(from);
  if (!is_member(from) || seat.admit || seat.leave || in.cohort != membership_.view().cohort) {
    return lose(from, Status::kProtocolError, "called admit out of turn", true);
  }
  if (in.at_least > kMaxMembers) {
    return lose(from, Status::kProtocolError, "waits for more members than a run can have", true);
  }
  if (in.by_itself && !membership_.auto_admit()) {
    return lose(from, Status::kProtocolError, "admits by itself in a run without auto_admit", true);
  }
  rounds_.drop_not_open(from, in.open);
  if (!mutant(Mutant::kAdmitToldToNobody)) {
    tell_others(from, wire::Admitting{from, in.cohort, in.at_least, in.by_itself, in.open});
  }
  seat.admit = std::move(in);
}

// Those whose calls wait for this peer: the members, and leavers whose rounds are kept.
void Coordinator::Machine::tell_others(PeerId peer, const wire::Admitting& news) {
  for (const wire::Member& member : membership_.view().members) {
    if (member.id != peer) say(member.id, news);
  }
  for (const auto& [id, seat] : seats_) {
    if (seat.cut) say(id, news);
  }
}

void Coordinator::Machine::on_admit_cancel(PeerId from, const wire::AdmitCancel& in) {
  Seat& seat = seats_.at(from);
  if (!seat.admit) return;
  seat.admit_cancelled = in.status;
  admit_cancelled_ = true;
}

void Coordinator::Machine::answer_cancelled_admits() {
  if (!std::exchange(admit_cancelled_, false)) return;
  for (auto& [peer, seat] : seats_) {
    if (!seat.admit_cancelled) continue;
    std::string waits;
    for (const wire::Member& member : membership_.view().members) {
      const auto other = seats_.find(member.id);
      if (other == seats_.end() || other->second.admit || waits.size() > kMaxTextBytes / 2) continue;
      waits += (waits.empty() ? "" : ", ") + name_of(member.id);
    }
    const std::size_t members = membership_.view().members.size();
    const std::size_t admissible = membership_.admissible().size();
    // The numbers first: those who wait for as many may have given up a moment before.
    std::string text = waits.empty() || members + admissible < seat.admit->at_least
                           ? "only " + std::to_string(members) + " members and " + std::to_string(admissible) +
                                 " that could be admitted, of " + std::to_string(seat.admit->at_least) + " wanted"
                           : "admit waited for " + waits + ": all members must call it";
    say(peer, wire::AdmitEnded{*seat.admit_cancelled, std::move(text)});
    tell_others(peer, wire::Admitting{.peer = peer, .cohort = CohortId{}, .at_least = 0, .open = {}});
    seat.admit.reset();
    seat.admit_cancelled.reset();
  }
}

bool Coordinator::Machine::closed_by_admit(const RoundKey& key) const {
  return std::any_of(seats_.begin(), seats_.end(), [&](const auto& entry) {
    const std::optional<wire::Admit>& admit = entry.second.admit;
    return admit && admit->cohort == key.cohort &&
           std::none_of(admit->open.begin(), admit->open.end(), [&](const wire::OpenRound& round) {
             return round.key.tag == key.tag && round.key.use == key.use;
           });
  });
}

void Coordinator::Machine::on_leave(PeerId from, wire::Leave in) {
  Seat& seat = seats_.at(from);
  if (seat.leave) return lose(from, Status::kProtocolError, "left twice", true);
  if (!is_member(from)) return let_go(from);  // never admitted: nothing to finish
  rounds_.drop_not_open(from, in.open);
  seat.leave = std::move(in);
  seat.leave_since = now_;
  changed_ = true;
  next_look_ = std::min(next_look_, now_ + options_.gang_leave);
  note({.kind = trace::Kind::kPeerLeaving, .view = membership_.view().number, .peer = from, .round = {}, .text = {}});
}

void Coordinator::Machine::on_link_broken(PeerId from, const wire::LinkBroken& in) {
  if (from == in.other) return lose(from, Status::kProtocolError, "reported that it cannot reach itself", true);
  const auto in_run = [&](PeerId peer) { return is_member(peer) || (seats_.contains(peer) && seats_.at(peer).cut); };
  if (!in_run(from) || !in_run(in.other)) return;  // a newcomer, or one that is gone already
  if (is_member(from) && is_member(in.other) && membership_.find(from)->group != membership_.find(in.other)->group) {
    return lose(from, Status::kProtocolError, "reported a link to a member of another group", true);
  }
  for (const PeerId leaver : {from, in.other}) {
    const auto seat = seats_.find(leaver);
    if (seat == seats_.end() || !seat->second.cut) continue;
    const PeerId neighbour = leaver == from ? in.other : from;
    return lose(leaver, Status::kEvicted, "left, and cannot reach " + name_of(neighbour) + " to finish its last rounds",
                true);
  }
  if (!is_member(from) || !is_member(in.other)) return;
  seats_.at(from).complaint = cut(in.text, kMostOfComplaint);
  const Instant since = membership_.mark_broken(pair_of(from, in.other), now_);
  if (since != now_) {
    // Both ends report it. But when it still hurts after the rings were laid around it, an old cohort's ring needs it.
    if (now_ - since < options_.link_patience) return;
    const Instant then = broken_from();
    const bool from_goes = membership_.broken_links_of(from, then) > membership_.broken_links_of(in.other, then);
    const PeerId victim = from_goes ? from : in.other;
    const PeerId other = victim == from ? in.other : from;
    return lose(victim, Status::kEvicted, cannot_reach(victim, other, "a ring still needs that link"), true);
  }
  note({.kind = trace::Kind::kLinkReported,
        .view = membership_.view().number,
        .peer = in.other,
        .round = {},
        .text = name_of(from) + " cannot reach " + name_of(in.other) + ": " + in.text});
  relink_.insert(membership_.find(from)->group);
  changed_ = true;
}

// With what the two have said themselves: one that is out of descriptors knows it.
std::string Coordinator::Machine::cannot_reach(PeerId victim, PeerId other, const std::string& so) const {
  std::string text = "it and " + name_of(other) + " cannot reach each other, and " + so;
  for (const PeerId peer : {victim, other}) {
    const auto seat = seats_.find(peer);
    if (seat == seats_.end() || seat->second.complaint.empty()) continue;
    text += "; " + (peer == victim ? "it" : name_of(other)) + " says: " + seat->second.complaint;
  }
  return text;
}

void Coordinator::Machine::on_flush(PeerId from, wire::Flush in) {
  if (in.proposal > last_proposal_) {
    return lose(from, Status::kProtocolError, "answered a proposal that was never made", true);
  }
  if (!proposal_ || in.proposal != proposal_->message.number) return on_late_answer(from, in.proposal);
  if (proposal_->awaited.erase(from) == 0) {
    return lose(from, Status::kProtocolError, "answered a proposal twice, or one that it has no part in", true);
  }
  proposal_->change.flushed[from] = std::move(in.open);
  if (!membership_.candidates().contains(from)) proposal_->slowest = now_ - proposal_->since;
  look_for_newcomers();
}

void Coordinator::Machine::lose(PeerId peer, Status status, const std::string& why, bool tell) {
  const std::vector<PeerId> gang = membership_.gang_of(peer);
  const std::string why_mates = "its gang lost " + name_of(peer) + ": " + why;
  lose_one(peer, status, why, tell);
  for (const PeerId mate : gang) {
    if (mate == peer || mutant(Mutant::kGangLosesOne)) continue;
    lose_one(mate, Status::kEvicted, why_mates, true);
  }
}

void Coordinator::Machine::lose_one(PeerId peer, Status status, const std::string& why, bool tell) {
  const auto seat = seats_.find(peer);
  if (seat == seats_.end()) return;
  if (tell) {
    say(peer, wire::Evicted{status == Status::kPeerLost ? Status::kEvicted : status, why.substr(0, kMaxTextBytes)});
  }
  const auto party = parties_.find(seat->second.stream);
  if (party != parties_.end()) break_off(party->second);
  note({.kind = trace::Kind::kPeerLost,
        .view = membership_.view().number,
        .peer = peer,
        .round = {},
        .status = status,
        .text = name_of(peer) + ": " + why});
  const bool in_view = is_member(peer);
  if (in_view || seat->second.cut) {
    lost_.insert(peer);
    changed_ = true;
    if (in_view) ++counters_.lost;
  }
  unseat(peer);
}

void Coordinator::Machine::let_go(PeerId peer) {
  say(peer, wire::Left{});
  break_off(parties_.at(seats_.at(peer).stream));
  rounds_.let_go(peer);
  unseat(peer);
}

void Coordinator::Machine::unseat(PeerId peer) {
  membership_.remove_candidate(peer);
  publications_.gone(peer);
  seats_.erase(peer);
}

bool Coordinator::Machine::stale(const Proposal& proposal) const {
  const bool new_loss =
      std::any_of(lost_.begin(), lost_.end(), [&](PeerId peer) { return !proposal.change.lost.contains(peer); });
  const bool gone = std::any_of(proposal.added.begin(), proposal.added.end(),
                                [&](PeerId peer) { return !seats_.contains(peer) || silent_newcomer(peer); });
  return (new_loss && !mutant(Mutant::kNewLossWaits)) || gone;
}

void Coordinator::Machine::decide() {
  std::set<PeerId> held_up;
  for (;;) {
    if (proposal_ && stale(*proposal_)) {
      relink_.merge(proposal_->change.relinked);  // the next one lays these rings, too
      held_up.merge(proposal_->participants);
      if (proposal_->admission) last_admissible_ = std::min(last_admissible_, proposal_->arrivals);
      proposal_.reset();
      changed_ = true;
    }
    if (proposal_) {
      if (!proposal_->awaited.empty()) break;
      settle();
      continue;
    }
    answer_cancelled_admits();
    std::optional<Proposal> next = change_proposal();
    if (!next) next = admission_proposal();
    if (!next) next = empty_proposal(held_up);
    if (!next) break;
    propose(*std::move(next));
  }
  put_off_newcomers(held_up);
  announce_pending();
}

// Losses, leaves, broken links and rounds to be stopped.
std::optional<Coordinator::Machine::Proposal> Coordinator::Machine::change_proposal() {
  if (!std::exchange(changed_, false)) return std::nullopt;  // as nearly always: do not draft a view at every step
  Proposal proposal;
  for (;;) {
    ++drafts_;
    proposal = {};
    proposal.change.lost = lost_;
    std::map<PeerId, std::vector<wire::OpenRound>> leavers;
    for (const wire::Member& member : membership_.view().members) {
      const auto gang = membership_.gang_of(member.id);
      const bool whole_gang_leaves = std::all_of(gang.begin(), gang.end(), [&](PeerId mate) {
        const auto seat = seats_.find(mate);
        return lost_.contains(mate) || (seat != seats_.end() && seat->second.leave.has_value());
      });
      if (!whole_gang_leaves || lost_.contains(member.id)) continue;
      proposal.change.left.insert(member.id);
      leavers[member.id] = seats_.at(member.id).leave->open;
    }
    proposal.change.kept = rounds_.kept_for(leavers);
    std::set<PeerId> gone = proposal.change.lost;
    if (!mutant(Mutant::kLeaverStaysInRing)) gone.insert(proposal.change.left.begin(), proposal.change.left.end());
    proposal.message.view.members = membership_.next_members(gone, {});
    if (!evict_for_broken_links(proposal.message.view.members)) break;
  }
  proposal.change.relinked = std::exchange(relink_, {});
  if (proposal.change.lost.empty() && proposal.change.left.empty() && proposal.change.relinked.empty() &&
      !rounds_.has_stops()) {
    return std::nullopt;
  }
  wire::View& view = proposal.message.view;
  const bool same =
      proposal.change.relinked.empty() && view.members == membership_.view().members && proposal.change.lost.empty();
  view.term = options_.term;
  view.number = same ? membership_.view().number : last_view_.next();
  view.cohort = membership_.view().cohort;
  return proposal;
}

// Members that no ring can contain must go: of each pair, the one with more broken links, else the later one. But a link that nobody
// has needed for a while may be whole again: it is tried before it costs anybody the run. If it is not, its ends say so again.
bool Coordinator::Machine::evict_for_broken_links(const std::vector<wire::Member>& members) {
  std::vector<Pair> pairs = membership_.unavoidable(members);
  const Instant then = broken_from();
  std::erase_if(pairs, [&](const Pair& pair) {
    if (membership_.said_since(pair, then) || mutant(Mutant::kBrokenForEver)) return false;
    membership_.forget_broken(pair);
    return true;
  });
  if (pairs.empty()) return false;
  const Pair pair = pairs.front();
  const auto [a, b] = pair;
  const auto place = [&](PeerId peer) {
    return std::find_if(members.begin(), members.end(), [&](const wire::Member& m) { return m.id == peer; }) -
           members.begin();
  };
  const std::size_t links_a = membership_.broken_links_of(a, then);
  const std::size_t links_b = membership_.broken_links_of(b, then);
  const PeerId victim = links_a != links_b ? (links_a > links_b ? a : b) : (place(a) > place(b) ? a : b);
  const std::string why = cannot_reach(victim, victim == a ? b : a, "no ring avoids that link");
  const auto third = std::find_if(members.begin(), members.end(), [&](const wire::Member& m) {
    return m.id != pair.first && m.id != pair.second && mutant(Mutant::kThirdPays);
  });
  lose(third != members.end() ? third->id : victim, Status::kEvicted, why, true);
  return true;
}

std::optional<Coordinator::Machine::Proposal> Coordinator::Machine::admission_proposal() {
  const auto& members = membership_.view().members;
  std::size_t wanted = 1;
  bool by_itself = false;
  for (const wire::Member& member : members) {
    const Seat& seat = seats_.at(member.id);
    if (!seat.admit && member.id != members.front().id && mutant(Mutant::kAdmitWithoutAll)) continue;
    if (!seat.admit) {
      last_admissible_ = UINT64_MAX;
      return std::nullopt;
    }
    wanted = std::max<std::size_t>(wanted, seat.admit->at_least);
    by_itself = by_itself || seat.admit->by_itself;
  }
  std::vector<Candidate> admissible = admissible_of_this_admission();
  if (members.size() + admissible.size() < wanted) admissible = membership_.admissible();
  if (members.empty() && admissible.empty()) return std::nullopt;
  // Of those who launch nothing until it holds, some have called nothing that may wait; who wants more members says so again.
  const bool waits = members.size() + admissible.size() < wanted && !by_itself;
  if (waits && !mutant(Mutant::kWorldIgnored)) return std::nullopt;
  Proposal proposal;
  for (const wire::Member& member : members) {
    const Seat& seat = seats_.at(member.id);
    if (seat.admit) proposal.change.admits[member.id] = seat.admit->open;
  }
  proposal.admission = true;
  proposal.arrivals = std::min(arrivals_, last_admissible_);
  proposal.change.closes = membership_.view().cohort;
  for (const Candidate& candidate : admissible) proposal.added.push_back(candidate.member.id);
  wire::View& view = proposal.message.view;
  view.term = options_.term;
  view.number = last_view_.next();
  view.cohort = CohortId{view.number.value};
  view.members = membership_.next_members({}, admissible);
  return proposal;
}

// Whole gangs only, as always.
std::vector<Candidate> Coordinator::Machine::admissible_of_this_admission() const {
  std::vector<Candidate> admissible = membership_.admissible();
  if (membership_.view().members.empty()) return admissible;
  std::set<GangId> late_gangs;
  for (const Candidate& candidate : admissible) {
    if (candidate.arrival > last_admissible_ && candidate.member.gang.value != 0)
      late_gangs.insert(candidate.member.gang);
  }
  std::erase_if(admissible, [&](const Candidate& candidate) {
    return candidate.arrival > last_admissible_ || late_gangs.contains(candidate.member.gang);
  });
  return admissible;
}

// A proposal holds up what it would touch until the next one is installed. When it is withdrawn, because a newcomer is gone, and
// there is nothing else to propose (admit was called for more members than are left, or has been given up), members install one
// that changes nothing.
std::optional<Coordinator::Machine::Proposal> Coordinator::Machine::empty_proposal(
    const std::set<PeerId>& held_up) const {
  const bool needed =
      !mutant(Mutant::kWithdrawnUnsaid) && std::any_of(held_up.begin(), held_up.end(), [&](PeerId peer) {
        const auto seat = seats_.find(peer);
        return seat != seats_.end() && (is_member(peer) || seat->second.cut);
      });
  if (!needed) return std::nullopt;
  Proposal proposal;
  proposal.message.view = membership_.view();
  return proposal;
}

// Those who would have been admitted with a newcomer that is gone, and are not in the next proposal: they wait again.
void Coordinator::Machine::put_off_newcomers(const std::set<PeerId>& held_up) {
  for (const PeerId peer : held_up) {
    const auto candidate = membership_.candidates().find(peer);
    if (candidate == membership_.candidates().end() || (proposal_ && proposal_->participants.contains(peer))) continue;
    say(peer, wire::Waiting{candidate->second.member.address, options_.heartbeat, options_.silence});
  }
}

void Coordinator::Machine::propose(Proposal proposal) {
  wire::Propose& message = proposal.message;
  if (message.number.value == 0) {  // a new one; else one that was changed after its first answers
    message.lost.assign(proposal.change.lost.begin(), proposal.change.lost.end());
    message.left.assign(proposal.change.left.begin(), proposal.change.left.end());
    message.relinked.assign(proposal.change.relinked.begin(), proposal.change.relinked.end());
    message.kept.assign(proposal.change.kept.begin(), proposal.change.kept.end());
    message.verdicts = rounds_.verdicts(proposal.change, message.view);
    for (const auto& [peer, seat] : seats_) {
      const bool added = std::find(proposal.added.begin(), proposal.added.end(), peer) != proposal.added.end();
      if (is_member(peer) || seat.cut || added) proposal.participants.insert(peer);
    }
  }
  last_proposal_ = last_proposal_.next();
  message.number = last_proposal_;
  message.link_key = options_.link_key;
  proposal.awaited = proposal.participants;
  proposal.since = now_;
  proposal.slowest = {};
  next_look_ = std::min(next_look_, now_ + options_.silence);
  proposal.change.flushed.clear();
  for (const PeerId peer : proposal.participants) {
    say(peer, message);
    if (Candidate* newcomer = membership_.candidate(peer)) newcomer->ask(message.number, now_);
  }
  note({.kind = trace::Kind::kProposed,
        .view = message.view.number,
        .peer = {},
        .round = {},
        .number = message.number.value,
        .text = {}});
  proposal_ = std::move(proposal);
  look_for_newcomers();
}

// Everybody has answered: install it, or propose it again when the answers change a verdict.
void Coordinator::Machine::settle() {
  Proposal& proposal = *proposal_;
  std::vector<wire::Verdict> verdicts = rounds_.verdicts(proposal.change, proposal.message.view);
  const bool first = !std::exchange(proposal.settled_once, true);
  const bool holds =
      first ? verdicts == proposal.message.verdicts : same_decisions(verdicts, proposal.message.verdicts);
  if (holds || mutant(Mutant::kFirstVerdictStands)) return install();
  proposal.message.verdicts = std::move(verdicts);
  propose(*std::exchange(proposal_, std::nullopt));
}

void Coordinator::Machine::install() {
  const Proposal proposal = *std::exchange(proposal_, std::nullopt);
  const wire::View& view = proposal.message.view;
  last_view_ = view.number;
  changed_ = true;

  auto admits = proposal.change.admits;
  for (const wire::Verdict& verdict : proposal.message.verdicts) {
    for (auto& [peer, open] : admits) drop(open, verdict.key);
    for (auto& [peer, seat] : seats_) {
      if (seat.admit) drop(seat.admit->open, verdict.key);
      if (seat.leave) drop(seat.leave->open, verdict.key);
    }
    if (verdict.status == Status::kOk) continue;
    ++counters_.aborts;
    note({.kind = trace::Kind::kRoundEnded,
          .view = view.number,
          .peer = {},
          .round = verdict.key,
          .status = verdict.status,
          .text = verdict.text});
  }
  for (const Rounds::Committed& committed : rounds_.install(proposal.change, view, proposal.message.verdicts)) {
    count_commit(committed);
  }
  if (proposal.admission) {
    last_admissible_ = UINT64_MAX;
    rounds_.admit(view, admits);
    for (auto& [peer, seat] : seats_) {
      seat.admit.reset();
      seat.admit_cancelled.reset();
    }
    counters_.admitted += proposal.added.size();
    for (const PeerId peer : proposal.added) {
      parties_.at(seats_.at(peer).stream).channel.reader.set_max_body_bytes(kMaxBodyBytes);
      publications_.admitted(peer);
    }
    pending_told_ = {};  // an admission starts everybody's count anew
  }
  const bool founds = membership_.view().members.empty() && !view.members.empty();
  membership_.install(view);
  if (founds) ask_remaining_candidates();
  for (const PeerId peer : proposal.change.lost) lost_.erase(peer);
  for (const PeerId peer : proposal.change.left) {
    const auto seat = seats_.find(peer);
    if (seat == seats_.end()) continue;
    seat->second.cut = true;
    ++counters_.left;
  }
  for (const PeerId peer : proposal.participants) say(peer, wire::Install{proposal.message.number});
  note({.kind = trace::Kind::kInstalled,
        .view = view.number,
        .peer = {},
        .round = {},
        .number = view.members.size(),
        .text = {}});
  release_leavers();
}

// Leavers whose last rounds are decided may go.
void Coordinator::Machine::release_leavers() {
  for (auto at = seats_.begin(); at != seats_.end();) {
    const auto& [peer, seat] = *at++;
    const bool finishes = rounds_.keeps(peer) && !mutant(Mutant::kLeaverGoesAtOnce);
    if (!seat.cut || finishes || (proposal_ && proposal_->participants.contains(peer))) continue;
    let_go(peer);
  }
}

// What comes too late means nothing: who is being admitted, or leaves, may not know it yet.
void Coordinator::Machine::on_publish(PeerId from, const wire::Publish& in) {
  if (membership_.candidates().contains(from)) {
    return lose(from, Status::kProtocolError, "publishes a state before it is a member", true);
  }
  const wire::Member* member = membership_.find(from);
  if (member == nullptr) return;
  const std::string fault = publications_.publish(*member, in);
  if (!fault.empty()) lose(from, Status::kProtocolError, fault, true);
}

void Coordinator::Machine::on_want(PeerId from, const wire::WantState& in) {
  const auto candidate = membership_.candidates().find(from);
  if (candidate == membership_.candidates().end()) return;
  const std::string fault = publications_.want(from, candidate->second.member.group, in);
  if (!fault.empty()) lose(from, Status::kProtocolError, fault, true);
}

void Coordinator::Machine::announce_published() {
  for (const auto& [peer, published] : publications_.take_news(options_.link_key)) say(peer, published);
}

void Coordinator::Machine::announce_pending() {
  wire::Pending pending;
  if (!membership_.view().members.empty()) {
    pending = {static_cast<std::uint32_t>(membership_.admissible().size()), publications_.fetching()};
  }
  if (pending == pending_told_) return;
  pending_told_ = pending;
  for (const wire::Member& member : membership_.view().members) say(member.id, pending);
}

}  // namespace lockstep::coordinator

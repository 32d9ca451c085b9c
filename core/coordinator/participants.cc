#include "core/coordinator/participants.h"

#include <utility>

#include "core/base/mutant.h"
#include "core/trace/event.h"
#include "core/wire/limits.h"

namespace lockstep::coordinator {

namespace {

Eviction violation(PeerId peer, std::string why) { return {peer, Status::kProtocolError, std::move(why)}; }

}  // namespace

const Participant* Participants::find(PeerId peer) const {
  const auto at = all_.find(peer);
  return at == all_.end() ? nullptr : &at->second;
}

bool Participants::is_in_run(PeerId peer) const {
  const Participant* participant = find(peer);
  return membership_.contains(peer) || (participant != nullptr && participant->cut);
}

bool Participants::is_cut(PeerId peer) const {
  const Participant* participant = find(peer);
  return participant != nullptr && participant->cut;
}

std::string Participants::name_of(PeerId peer) const {
  const Participant* participant = find(peer);
  return trace::short_name(peer, participant == nullptr ? std::string_view{} : std::string_view{participant->name});
}

void Participants::add(PeerId peer, const std::string& name, const io::Address& network) {
  LOCKSTEP_ASSERT(!all_.contains(peer));
  Participant& participant = all_[peer];
  participant.name = name;
  participant.network = network;
}

bool Participants::use_stop(PeerId peer) {
  const auto at = all_.find(peer);
  if (at == all_.end() || mutant(Mutant::kStopsUnlimited)) return true;
  return at->second.stops.use(context_.now, {context_.options.stops_at_once, context_.options.stops_per_second});
}

// ---- admit ----

std::optional<Eviction> Participants::admit(PeerId from, wire::Admit in) {
  Participant& participant = all_.at(from);
  if (!membership_.contains(from) || participant.admit || participant.leave || in.cohort != membership_.view().cohort) {
    return violation(from, "called admit out of turn");
  }
  if (in.at_least > kMaxMembers) return violation(from, "waits for more members than a run can have");
  if (in.automatic && !membership_.auto_admit()) {
    return violation(from, "admits by itself in a run without auto_admit");
  }
  rounds_.drop_not_open(from, in.open);
  if (!mutant(Mutant::kAdmitToldToNobody)) {
    tell_others(from, wire::Admitting{from, in.cohort, in.at_least, in.automatic, in.open});
  }
  participant.admit = std::move(in);
  participant.admit_since = context_.now;
  return std::nullopt;
}

void Participants::tell_others(PeerId peer, const wire::Admitting& news) {
  for (const wire::Member& member : membership_.view().members) {
    if (member.id != peer) connections_.say(member.id, news);
  }
  for (const auto& [id, participant] : all_) {
    if (participant.cut) connections_.say(id, news);
  }
}

void Participants::cancel_admit(PeerId from, const wire::AdmitCancel& in) {
  Participant& participant = all_.at(from);
  if (!participant.admit) return;
  participant.admit_cancelled = in.status;
  admit_cancelled_ = true;
}

void Participants::answer_cancelled_admits() {
  if (!std::exchange(admit_cancelled_, false)) return;
  for (auto& [peer, participant] : all_) {
    if (!participant.admit_cancelled) continue;
    connections_.say(peer, wire::AdmitEnded{*participant.admit_cancelled, why_not_admitted(participant)});
    tell_others(peer, wire::Admitting{.peer = peer, .cohort = CohortId{}, .at_least = 0, .open = {}});
    participant.admit.reset();
    participant.admit_cancelled.reset();
  }
}

// The text names the members that have not called admit. Too few members come first: peers that wait for the same
// number of members may have given up a moment before.
std::string Participants::why_not_admitted(const Participant& participant) const {
  std::string waits;
  for (const wire::Member& member : membership_.view().members) {
    const Participant* other = find(member.id);
    if (other == nullptr || other->admit || waits.size() > kMaxTextBytes / 2) continue;
    waits += (waits.empty() ? "" : ", ") + name_of(member.id);
  }
  const std::size_t members = membership_.view().members.size();
  const std::size_t admissible = membership_.admissible().size();
  if (!waits.empty() && members + admissible >= participant.admit->at_least) {
    return "admit waited for " + waits + ": all members must call it";
  }
  return "only " + std::to_string(members) + " members and " + std::to_string(admissible) +
         " that could be admitted, of " + std::to_string(participant.admit->at_least) + " wanted";
}

bool Participants::closed_by_admit(const RoundKey& key) const {
  return any([&](const Participant& participant) {
    const std::optional<wire::Admit>& admit = participant.admit;
    return admit && admit->cohort == key.cohort &&
           std::none_of(admit->open.begin(), admit->open.end(), [&](const wire::OpenRound& round) {
             return round.key.tag == key.tag && round.key.use == key.use;
           });
  });
}

void Participants::end_admits() {
  for (auto& [peer, participant] : all_) {
    participant.admit.reset();
    participant.admit_cancelled.reset();
  }
}

// ---- leave ----

std::optional<Eviction> Participants::leave(PeerId from, wire::Leave in) {
  Participant& participant = all_.at(from);
  if (participant.leave) return violation(from, "left twice");
  LOCKSTEP_ASSERT(membership_.contains(from));
  rounds_.drop_not_open(from, in.open);
  participant.leave = std::move(in);
  participant.leave_since = context_.now;
  context_.wake_at(context_.now + context_.options.gang_leave);
  context_.note(
      {.kind = trace::Kind::kPeerLeaving, .view = membership_.view().number, .peer = from, .round = {}, .text = {}});
  return std::nullopt;
}

Participants::OpenRounds Participants::leavers(const std::set<PeerId>& lost) const {
  OpenRounds leavers;
  for (const wire::Member& member : membership_.view().members) {
    const auto gang = membership_.gang_of(member.id);
    const bool whole_gang_leaves = std::all_of(gang.begin(), gang.end(), [&](PeerId mate) {
      const Participant* participant = find(mate);
      return lost.contains(mate) || (participant != nullptr && participant->leave.has_value());
    });
    if (whole_gang_leaves && !lost.contains(member.id)) leavers[member.id] = all_.at(member.id).leave->open;
  }
  return leavers;
}

bool Participants::cut(PeerId leaver) {
  const auto at = all_.find(leaver);
  if (at == all_.end()) return false;
  LOCKSTEP_ASSERT(at->second.leave.has_value());
  at->second.cut = true;
  return true;
}

std::vector<Eviction> Participants::late_mates() {
  std::map<PeerId, std::string> late;
  for (const auto& [peer, participant] : all_) {
    if (!participant.leave || participant.cut) continue;
    const Instant limit = participant.leave_since + context_.options.gang_leave;
    if (context_.now < limit) {
      context_.wake_at(limit);
      continue;
    }
    for (const PeerId mate : membership_.gang_of(peer)) {
      const Participant* other = find(mate);
      if (other != nullptr && !other->leave) late.emplace(mate, participant.name);
    }
  }
  std::vector<Eviction> evictions;
  evictions.reserve(late.size());
  for (const auto& [mate, leaver] : late) {
    evictions.push_back({mate, Status::kEvicted, leaver + " of its gang has left, and it did not follow in time"});
  }
  return evictions;
}

void Participants::drop_round(const RoundKey& key) {
  for (auto& [peer, participant] : all_) {
    if (participant.admit) remove_round(participant.admit->open, key);
    if (participant.leave) remove_round(participant.leave->open, key);
  }
}

}  // namespace lockstep::coordinator

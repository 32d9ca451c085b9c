#include "core/coordinator/newcomers.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "core/base/mutant.h"
#include "core/wire/limits.h"
#include "core/wire/message.h"

namespace lockstep::coordinator {

namespace {

constexpr std::int64_t kRoundTrips = 4;     // patience with a newcomer, in round trips
constexpr std::int64_t kLeastPatience = 5;  // at least this fraction of a heartbeat: a program may be busy for so long
constexpr std::int64_t kLeastOfSuspect = 50;  // the same, for a newcomer of a suspect host
constexpr std::int64_t kMostUnproven = 2;  // heartbeats; the most patience for a newcomer that never missed a proposal
constexpr std::int64_t kSuspectedFor = 200;  // silences

io::Address host_of(io::Address address) {
  address.port = 0;
  return address;
}

}  // namespace

void Newcomers::add(Candidate candidate) {
  candidate.arrival = ++arrivals_;
  ask(candidate);
  membership_.add_candidate(std::move(candidate));
}

// The question is an empty proposal. A newcomer answers it at once, as it answers every proposal. Founders are not
// asked: a run that has no members keeps nobody waiting.
void Newcomers::ask(Candidate& candidate) {
  if (membership_.view().members.empty() || mutant(Mutant::kNewcomerNotAsked)) return;
  wire::Propose question;
  question.number = context_.take_proposal_number();
  candidate.answers = false;
  candidate.ask(question.number, context_.now);
  connections_.say(candidate.member.id, question);
  context_.wake_at(context_.now + context_.options.silence);
}

void Newcomers::ask_remaining() {
  for (const auto& [peer, waiting] : membership_.candidates()) {
    if (waiting.asked.value == 0) ask(*membership_.candidate(peer));
  }
}

bool Newcomers::is_silent(PeerId peer) const {
  const auto at = membership_.candidates().find(peer);
  return at != membership_.candidates().end() && !at->second.answers;
}

bool Newcomers::waits_for_holder() const {
  const auto& candidates = membership_.candidates();
  return membership_.view().members.empty() && !mutant(Mutant::kHolderNotAwaited) &&
         std::any_of(candidates.begin(), candidates.end(), [](const auto& entry) {
           const Candidate& newcomer = entry.second;
           return newcomer.holds && !(newcomer.answers && newcomer.dialled_back);
         });
}

// A full list forgets the host whose time ends first.
void Newcomers::suspect(const io::Address& host) {
  std::erase_if(suspects_, [&](const auto& entry) { return context_.now >= entry.second; });
  if (suspects_.size() >= kMaxSuspects && !suspects_.contains(host_of(host))) {
    suspects_.erase(std::min_element(suspects_.begin(), suspects_.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; }));
  }
  suspects_[host_of(host)] = context_.now + context_.options.silence * kSuspectedFor;
}

bool Newcomers::is_suspect(const io::Address& host) const {
  const auto known = suspects_.find(host_of(host));
  return known != suspects_.end() && context_.now < known->second && !mutant(Mutant::kSuspectWaitedFor);
}

// The slowest member shows how slow lines are. A newcomer that has answered late before gets four times the time that
// its answer took.
Duration Newcomers::patience_with(const Candidate& candidate, Duration slowest) const {
  if (mutant(Mutant::kMuteNewcomerWaitedFor)) return context_.options.silence;
  const bool founds = membership_.view().members.empty();
  if (founds && candidate.holds && !mutant(Mutant::kHolderNotAwaited)) return context_.options.silence;
  const Duration line = candidate.took.ns != 0 ? candidate.took : candidate.member.round_trip;
  const Duration most = candidate.missed ? context_.options.silence : context_.options.heartbeat * kMostUnproven;
  const std::int64_t least = is_suspect(candidate.member.address) ? kLeastOfSuspect : kLeastPatience;
  const Duration patience = std::max(
      {nanoseconds(context_.options.heartbeat.ns / least), std::min(line * kRoundTrips, most), slowest * kRoundTrips});
  return std::min(context_.options.silence, patience);
}

void Newcomers::miss(Candidate& newcomer) {
  newcomer.answers = false;
  newcomer.missed = true;
  suspect(newcomer.member.address);
}

std::vector<Eviction> Newcomers::late(bool slept) {
  std::vector<Eviction> late;
  for (const auto& [peer, waiting] : membership_.candidates()) {
    if (waiting.answers) continue;
    if (slept) membership_.candidate(peer)->asked_at = context_.now;
    const Instant limit = waiting.asked_at + context_.options.silence;
    if (context_.now < limit) {
      context_.wake_at(limit);
      continue;
    }
    const std::string ms = std::to_string(context_.options.silence.ns / 1'000'000);
    late.push_back({peer, Status::kEvicted, "did not answer a proposal within " + ms + " ms"});
  }
  return late;
}

void Newcomers::on_late_answer(PeerId from, ProposalNumber proposal) {
  Candidate* newcomer = membership_.candidate(from);
  if (newcomer == nullptr || newcomer->answers || newcomer->asked != proposal) return;
  if (mutant(Mutant::kAnswerUncounted)) {
    newcomer->asked_at = context_.now;
    return;
  }
  newcomer->answers = true;
  newcomer->took = context_.now - newcomer->asked_at;
  newcomer->arrival = ++arrivals_;
}

std::vector<Candidate> Newcomers::admissible() const {
  std::vector<Candidate> admissible = membership_.admissible();
  if (membership_.view().members.empty()) return admissible;
  std::set<GangId> late_gangs;
  for (const Candidate& candidate : admissible) {
    if (candidate.arrival > last_admissible_ && candidate.member.gang.value != 0) {
      late_gangs.insert(candidate.member.gang);
    }
  }
  std::erase_if(admissible, [&](const Candidate& candidate) {
    return candidate.arrival > last_admissible_ || late_gangs.contains(candidate.member.gang);
  });
  return admissible;
}

}  // namespace lockstep::coordinator

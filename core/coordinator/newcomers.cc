// Peers that wait, and do not answer. Members wait for nobody who has not shown that it answers but for a few round trips.
#include <algorithm>

#include "core/base/mutant.h"
#include "core/coordinator/machine.h"
#include "core/wire/limits.h"

namespace lockstep::coordinator {

namespace {

constexpr std::int64_t kRoundTrips = 4;      // that a newcomer has to answer in
constexpr std::int64_t kLeastPatience = 5;   // but a fifth of a heartbeat: a program may stand still for so long
constexpr std::int64_t kMostUnproven = 2;    // and two heartbeats if all that is known is what it says of itself
constexpr std::int64_t kSuspectedFor = 200;  // silences

io::Address host_of(io::Address address) {
  address.port = 0;
  return address;
}

}  // namespace

// A proposal of nothing, to one that is in nothing: it answers at once, as any other.
void Coordinator::Machine::ask_if_suspect(Candidate& candidate) {
  const auto known = suspects_.find(host_of(candidate.member.address));
  if (known == suspects_.end() || mutant(Mutant::kSuspectNotAsked)) return;
  if (now_ >= known->second) {
    suspects_.erase(known);
    return;
  }
  last_proposal_ = last_proposal_.next();
  candidate.answers = false;
  candidate.asked = last_proposal_;
  candidate.asked_at = now_;
  wire::Propose question;
  question.number = last_proposal_;
  say(candidate.member.id, question);
  next_look_ = std::min(next_look_, now_ + options_.silence);
}

// Of hosts that are forgotten the one whose time is up first.
void Coordinator::Machine::suspect(const io::Address& host) {
  if (suspects_.size() >= kMaxSuspects && !suspects_.contains(host_of(host))) {
    suspects_.erase(std::min_element(suspects_.begin(), suspects_.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; }));
  }
  suspects_[host_of(host)] = now_ + options_.silence * kSuspectedFor;
}

// From when a proposal was sent. A slow member shows how slow the lines are. What a newcomer says of its own line counts only
// so far; what it took for the answer to a proposal, in full.
Duration Coordinator::Machine::patience_with(const Candidate& candidate) const {
  const Duration said = std::min(candidate.member.round_trip * kRoundTrips, options_.heartbeat * kMostUnproven);
  const Duration shown = std::max(proposal_->slowest, candidate.took) * kRoundTrips;
  const Duration least = nanoseconds(options_.heartbeat.ns / kLeastPatience);
  if (mutant(Mutant::kMuteNewcomerWaitedFor)) return options_.silence;
  return std::min(options_.silence, std::max({least, said, shown}));
}

bool Coordinator::Machine::waits_for_newcomers() const {
  return proposal_ && !proposal_->awaited.empty() &&
         std::all_of(proposal_->awaited.begin(), proposal_->awaited.end(),
                     [&](PeerId peer) { return membership_.candidates().contains(peer); });
}

void Coordinator::Machine::look_for_newcomers() {
  if (!waits_for_newcomers()) return;
  for (const PeerId peer : proposal_->awaited) {
    next_look_ = std::min(next_look_, proposal_->since + patience_with(membership_.candidates().at(peer)));
  }
}

void Coordinator::Machine::hurry_newcomers(Instant now, bool slept) {
  if (waits_for_newcomers()) {
    for (const PeerId peer : proposal_->awaited) {
      Candidate& newcomer = *membership_.candidate(peer);
      if (now < proposal_->since + patience_with(newcomer)) continue;
      newcomer.answers = false;
      newcomer.took = now - proposal_->since;
      newcomer.arrival = ++arrivals_;
      suspect(newcomer.member.address);
    }
    look_for_newcomers();
  }
  std::vector<PeerId> late;
  for (const auto& [peer, waiting] : membership_.candidates()) {
    if (waiting.answers) continue;
    if (slept) membership_.candidate(peer)->asked_at = now;
    const Instant limit = waiting.asked_at + options_.silence;
    if (now >= limit) {
      late.push_back(peer);
    } else {
      next_look_ = std::min(next_look_, limit);
    }
  }
  for (const PeerId peer : late) {
    const std::string limit = std::to_string(options_.silence.ns / 1'000'000);
    lose(peer, Status::kEvicted, "did not answer a proposal within " + limit + " ms", true);
  }
}

// To one that was replaced; or to a question. Of a newcomer it says that it answers, and in what time.
void Coordinator::Machine::on_late_answer(PeerId from, ProposalNumber proposal) {
  Candidate* newcomer = membership_.candidate(from);
  if (newcomer == nullptr || newcomer->answers || newcomer->asked != proposal) return;
  if (mutant(Mutant::kAnswerUncounted)) {
    newcomer->asked_at = now_;
    return;
  }
  newcomer->answers = true;
  if (newcomer->took.ns != 0) newcomer->took = now_ - newcomer->asked_at;
}

}  // namespace lockstep::coordinator

// Newcomers prove that they answer before members wait for them (rule 19 of docs/protocol.md).
#include <algorithm>

#include "core/base/mutant.h"
#include "core/coordinator/machine.h"
#include "core/wire/limits.h"

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

// The question is an empty proposal. A newcomer answers it at once, as it answers every proposal. Founders are not
// asked: a run that has no members keeps nobody waiting.
void Coordinator::Machine::ask_newcomer(Candidate& candidate) {
  if (membership_.view().members.empty() || mutant(Mutant::kNewcomerNotAsked)) return;
  last_proposal_ = last_proposal_.next();
  candidate.answers = false;
  candidate.ask(last_proposal_, now_);
  wire::Propose question;
  question.number = last_proposal_;
  say(candidate.member.id, question);
  next_look_ = std::min(next_look_, now_ + options_.silence);
}

// The run has been founded. Peers that came too late to be founders, or whose gang is not whole, wait on as newcomers.
void Coordinator::Machine::ask_remaining_candidates() {
  for (const auto& [peer, waiting] : membership_.candidates()) {
    if (waiting.asked.value == 0) ask_newcomer(*membership_.candidate(peer));
  }
}

// A full list forgets the host whose time ends first.
void Coordinator::Machine::suspect(const io::Address& host) {
  std::erase_if(suspects_, [&](const auto& entry) { return now_ >= entry.second; });
  if (suspects_.size() >= kMaxSuspects && !suspects_.contains(host_of(host))) {
    suspects_.erase(std::min_element(suspects_.begin(), suspects_.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; }));
  }
  suspects_[host_of(host)] = now_ + options_.silence * kSuspectedFor;
}

bool Coordinator::Machine::is_suspect(const io::Address& host) const {
  const auto known = suspects_.find(host_of(host));
  return known != suspects_.end() && now_ < known->second && !mutant(Mutant::kSuspectWaitedFor);
}

// How long members wait for a newcomer's answer, from the moment at which the proposal was sent. The slowest member
// shows how slow lines are. A newcomer that has answered late before gets four times what its answer took.
Duration Coordinator::Machine::patience_with(const Candidate& candidate) const {
  if (mutant(Mutant::kMuteNewcomerWaitedFor)) return options_.silence;
  const Duration line = candidate.took.ns != 0 ? candidate.took : candidate.member.round_trip;
  const Duration most = candidate.missed ? options_.silence : options_.heartbeat * kMostUnproven;
  const std::int64_t least = is_suspect(candidate.member.address) ? kLeastOfSuspect : kLeastPatience;
  const Duration patience = std::max({nanoseconds(options_.heartbeat.ns / least), std::min(line * kRoundTrips, most),
                                      proposal_->slowest * kRoundTrips});
  return std::min(options_.silence, patience);
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
      newcomer.missed = true;
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

// The answer to a question, or to a proposal that went on without the newcomer. The newcomer counts from now on, behind
// all newcomers that counted before.
void Coordinator::Machine::on_late_answer(PeerId from, ProposalNumber proposal) {
  Candidate* newcomer = membership_.candidate(from);
  if (newcomer == nullptr || newcomer->answers || newcomer->asked != proposal) return;
  if (mutant(Mutant::kAnswerUncounted)) {
    newcomer->asked_at = now_;
    return;
  }
  newcomer->answers = true;
  newcomer->took = now_ - newcomer->asked_at;
  newcomer->arrival = ++arrivals_;
}

}  // namespace lockstep::coordinator

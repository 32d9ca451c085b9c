#include "core/coordinator/waits.h"

#include <algorithm>
#include <utility>

#include "core/base/mutant.h"
#include "core/base/text.h"
#include "core/trace/event.h"
#include "core/wire/describe.h"

namespace lockstep::coordinator {

namespace {

constexpr Duration kTellAgain = seconds(60);

std::vector<PeerId> first_of(std::vector<PeerId> peers) {
  if (peers.size() > kMaxNamedInWait) peers.resize(kMaxNamedInWait);
  return peers;
}

std::vector<PeerId> first_of(const std::set<PeerId>& peers) {
  return first_of(std::vector<PeerId>(peers.begin(), peers.end()));
}

std::string have_called(std::size_t count) { return count == 1 ? " has called it" : " have called it"; }

}  // namespace

template <typename Visit>
void Waits::for_members(const RoundKey& bundle, const Call& call, Visit visit) const {
  for (const RoundKey& key : rounds_.bound_with(bundle)) {
    for (const wire::Member& member : rounds_.contributors(key, call.attempt)) visit(key, member.id);
  }
}

std::vector<PeerId> Waits::missing(const RoundKey& bundle, const Call& call) const {
  std::vector<PeerId> missing;
  for_members(bundle, call, [&](const RoundKey&, PeerId peer) {
    if (!call.come.contains(peer)) missing.push_back(peer);
  });
  return missing;
}

// A message about a round that is decided, or an attempt that is given up, may have been on its way.
void Waits::on_call(PeerId from, const wire::CallWaits& in) {
  if (!Rounds::has_member(rounds_.contributors(in.key, in.attempt), from)) return;
  const RoundKey bundle = bundle_of(in.key);
  auto at = calls_.find(bundle);
  if (in.stage == wire::CallStage::kOver) {
    if (at != calls_.end()) calls_.erase(at);
    return;
  }
  if (at == calls_.end() || at->second.attempt != in.attempt) {
    if (in.stage != wire::CallStage::kCalled) return;
    if (at == calls_.end() && calls_.size() >= kMaxAwaitedRounds) return;
    Call call{.attempt = in.attempt, .collective = in.collective, .since = context_.now, .come = {}, .busy = {}};
    at = calls_.insert_or_assign(bundle, std::move(call)).first;
    at->second.come.insert(from);
    grow_older(at->second, in.age);
    ask(bundle, at->second);
    return;
  }
  Call& call = at->second;
  if (in.stage == wire::CallStage::kCalled) {
    grow_older(call, in.age);
    call.busy.erase(from);
    if (call.come.insert(from).second && !call.asked) {
      call.due = std::min(call.due, context_.now + context_.options.heartbeat);
      context_.wake_at(call.due);
    }
  } else if (!call.come.contains(from)) {
    call.busy[from] = in.busy;
  }
  const bool all_answered = call.asked && missing(bundle, call).size() == call.busy.size();
  if (all_answered) tell(bundle, call);
}

void Waits::grow_older(Call& call, Duration age) const {
  call.since = std::min(call.since, context_.now - std::min(age, context_.now - context_.born));
}

// Members that have called it are asked, too: the round may be over for them, and this account does not know.
void Waits::ask(const RoundKey& bundle, Call& call) {
  call.asked = !mutant(Mutant::kWaitNotAsked);
  call.busy.clear();
  call.due = context_.now + context_.options.silence;  // by then all that live have answered
  context_.wake_at(call.due);
  if (!call.asked) return tell(bundle, call);
  for_members(bundle, call, [&](const RoundKey& key, PeerId peer) {
    connections_.say(peer, wire::CallAwaited{key, call.attempt, call.collective, 0, {}});
  });
}

void Waits::tell(const RoundKey& bundle, Call& call) {
  call.asked = false;
  call.due = context_.now + kTellAgain;
  context_.wake_at(call.due);
  const auto count = static_cast<std::uint32_t>(missing(bundle, call).size());
  if (count == 0 || mutant(Mutant::kWaitUntold)) return;
  const std::string text(cut(describe(bundle, call, context_.now), kMaxTextBytes));
  note(bundle, count, text);
  for_members(bundle, call, [&](const RoundKey& key, PeerId peer) {
    connections_.say(peer, wire::CallAwaited{key, call.attempt, call.collective, count, text});
  });
}

void Waits::note(const RoundKey& round, std::uint32_t missing, const std::string& text) const {
  context_.note({.kind = trace::Kind::kCallWaits,
                 .view = membership_.view().number,
                 .peer = {},
                 .round = round,
                 .number = missing,
                 .text = text});
}

void Waits::on_transfers(PeerId from, const wire::TransfersWait& in) {
  if (in.transfers.empty()) {
    transfers_.erase(from);
    return;
  }
  std::vector<Transfer>& transfers = transfers_[from];
  transfers.clear();
  for (const wire::TransferWait& what : in.transfers) {
    transfers.push_back({what, context_.now - std::min(what.age, context_.now - context_.born)});
  }
}

void Waits::on_timer() {
  for (auto& [bundle, call] : calls_) {
    if (context_.now < call.due) {
      context_.wake_at(call.due);
    } else if (call.asked) {
      tell(bundle, call);
    } else {
      ask(bundle, call);
    }
  }
  tell_admits();
}

void Waits::drop_stale() {
  std::erase_if(calls_,
                [&](const auto& entry) { return rounds_.contributors(entry.first, entry.second.attempt).empty(); });
}

// ---- admit ----

Waits::Admits Waits::admits() const {
  Admits admits;
  for (const wire::Member& member : membership_.view().members) {
    const Participant* const participant = participants_.find(member.id);
    if (participant == nullptr || participant->leave) continue;
    if (!participant->admit) {
      admits.missing.push_back(member.id);
    } else if (!participant->admit->automatic) {
      admits.come.push_back(member.id);
      admits.at_least = std::max(admits.at_least, participant->admit->at_least);
      admits.since = std::min(admits.since, participant->admit_since);
    }
  }
  return admits;
}

void Waits::tell_admits() {
  const Admits waiting = admits();
  if (waiting.come.empty() || waiting.missing.empty()) return;
  const Instant due = std::max(waiting.since + patience(), admit_told_);
  if (context_.now < due) return context_.wake_at(due);
  admit_told_ = context_.now + kTellAgain;
  context_.wake_at(admit_told_);
  const std::string text = describe(waiting, context_.now);
  const auto count = static_cast<std::uint32_t>(waiting.missing.size());
  note({}, count, text);
  for (const wire::Member& member : membership_.view().members) {
    connections_.say(member.id, wire::CallAwaited{{}, {}, wire::Collective::kBarrier, count, text});
  }
}

// ---- in words ----

// "a", "a and b", "a, b, c and 3 others"; each with what `of` says of it.
std::string Waits::names(const std::vector<PeerId>& peers, const Words& of) const {
  constexpr std::size_t kMostNamed = 4;
  const std::size_t named = peers.size() <= kMostNamed ? peers.size() : kMostNamed - 1;
  std::string text;
  for (std::size_t i = 0; i < named; ++i) {
    const bool last = i + 1 == peers.size();
    text += (i == 0 ? "" : last ? " and " : ", ") + participants_.name_of(peers[i]) + (of ? of(peers[i]) : "");
  }
  if (named < peers.size()) text += " and " + std::to_string(peers.size() - named) + " others";
  return text;
}

std::string Waits::describe(const RoundKey& bundle, const Call& call, Instant now) const {
  std::string text = wire::has_waited(wire::name_of(call.collective), bundle.tag, now - call.since);
  const std::vector<PeerId> peers = missing(bundle, call);
  const std::vector<PeerId> come(call.come.begin(), call.come.end());
  if (peers.empty()) return text + ": all " + std::to_string(come.size()) + " members have called it";
  const auto what_it_does = [&](PeerId peer) {
    const auto busy = call.busy.find(peer);
    return " (" + (busy == call.busy.end() ? std::string("no answer") : busy->second) + ")";
  };
  text += " for " + names(peers, what_it_does);
  return text + "; " + names(come, {}) + have_called(come.size());
}

std::string Waits::describe(const Admits& admits, Instant now) const {
  std::string text = wire::has_waited("admit", std::nullopt, now - admits.since) + " for ";
  if (!admits.missing.empty()) {
    text += names(admits.missing, {});
  } else {
    text += std::to_string(admits.at_least) + " members: there are " +
            std::to_string(membership_.view().members.size()) + ", and " +
            std::to_string(membership_.admissible().size()) + " that could be admitted";
  }
  return text + "; " + names(admits.come, {}) + have_called(admits.come.size());
}

std::vector<wire::WaitStatus> Waits::status(Instant now) const {
  std::vector<wire::WaitStatus> waits;
  for (const auto& [bundle, call] : calls_) {
    waits.push_back({std::string(wire::name_of(call.collective)), bundle, now - call.since, first_of(call.come),
                     first_of(missing(bundle, call)), describe(bundle, call, now)});
  }
  const Admits waiting = admits();
  if (!waiting.come.empty() && now >= waiting.since + patience()) {
    waits.push_back(
        {"admit", {}, now - waiting.since, first_of(waiting.come), first_of(waiting.missing), describe(waiting, now)});
  }
  for (const auto& [peer, transfers] : transfers_) {
    for (const Transfer& transfer : transfers) {
      const auto& [other, tag, receives, told_age] = transfer.what;
      const Duration age = now - transfer.since;
      std::string call = receives ? "recv" : "send";
      std::string words = call;
      words.append(receives ? " from " : " to ")
          .append(other.is_nobody() ? "any member" : participants_.name_of(other));
      std::string text = participants_.name_of(peer);
      text.append(": ").append(wire::has_waited(words, tag, age));
      std::vector<PeerId> missing;
      if (!other.is_nobody()) missing.push_back(other);
      waits.push_back({std::move(call), {CohortId{}, GroupId{}, tag, 0}, age, {peer}, missing, std::move(text)});
    }
  }
  std::stable_sort(waits.begin(), waits.end(), [](const auto& a, const auto& b) { return a.age > b.age; });
  if (waits.size() > kMaxWaitsInStatus) waits.resize(kMaxWaitsInStatus);
  for (wire::WaitStatus& wait : waits) wait.text = std::string(cut(wait.text, kMaxTextBytes));
  return waits;
}

}  // namespace lockstep::coordinator

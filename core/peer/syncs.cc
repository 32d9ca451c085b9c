// Shared state: a sync is a round whose members claim a state each; those who do not have the one that is elected take
// it over from those who do. What is asked and sent is state::Sync's.
#include <utility>

#include "core/base/overloaded.h"
#include "core/peer/machine.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

Round* Peer::Machine::claimed(const RoundKey& key, Generation attempt, const std::string& said) {
  Round* round = find(key);
  if (round == nullptr || round->generation != attempt || round->state == Round::State::kEnding) return nullptr;
  if (round->state == Round::State::kClaimed) return round;
  violation(said + " a state in a round that this peer has claimed none in");
  return nullptr;
}

const state::Sync* Peer::Machine::compared(const RoundKey& key, Generation attempt, const std::string& said) {
  const Round* watching = find(key);
  const state::Sync* watched = watching == nullptr ? nullptr : RoundSyncs::watched(*watching, attempt);
  if (watched != nullptr) return watched;
  const Round* round = claimed(key, attempt, said);
  return round == nullptr ? nullptr : round->sync.get();
}

void Peer::Machine::on_ask_outline(const wire::AskOutline& ask) {
  const state::Sync* state = compared(ask.key, ask.attempt, "asked what is in");
  if (state == nullptr) return;
  const auto outline = state->outline(ask);
  if (!outline) return violation("asked what is in a state that is undefined");
  context_.session.say(*outline);
}

void Peer::Machine::on_ask_entry(const wire::AskEntry& ask) {
  const state::Sync* state = compared(ask.key, ask.attempt, "asked for an entry of");
  if (state == nullptr) return;
  const auto entry = state->entry(ask);
  if (!entry) return violation("asked for an entry that a state does not have");
  context_.session.say(*entry);
}

void Peer::Machine::on_elected(const wire::Elected& elected) {
  Round* round = claimed(elected.key, elected.attempt, "elected");
  if (round == nullptr) return;
  if (const std::string wrong = syncs_.elect(*round, elected); !wrong.empty()) return violation(wrong);
  update_links();
}

// After every step: what can be asked is asked, and what is complete is said.
void Peer::Machine::drive_syncs() {
  std::optional<std::set<PeerId>> linked;
  for (auto& [order, round] : rounds_) {
    if (!round.sync || !round.attempted() || round.sync->partners().empty()) continue;
    if (!linked) linked = context_.mesh.linked();
    syncs_.ask(round, *linked);
    if (auto why = syncs_.stranded(round)) ask_to_stop(round, Status::kAborted, std::move(*why));
    syncs_.done_if_complete(round);
  }
}

// The round in which a neighbour shares a state; null: its attempt does not run here.
Round* Peer::Machine::syncing(const RoundKey& key, Generation attempt) {
  Round* round = find(key);
  return round != nullptr && round->sync && round->runs(key, attempt) ? round : nullptr;
}

void Peer::Machine::on_state_message(PeerId from, StreamId stream, const wire::Message& message) {
  const auto key_of = overloaded{[](const wire::AskDigests& in) { return std::pair(in.key, in.attempt); },
                                 [](const wire::PieceDigests& in) { return std::pair(in.key, in.attempt); },
                                 [](const wire::AskPieces& in) { return std::pair(in.key, in.attempt); },
                                 [](const wire::HavePieces& in) { return std::pair(in.key, in.attempt); },
                                 [](const auto&) { return std::pair(RoundKey{}, Generation{}); }};
  const auto [key, attempt] = std::visit(key_of, message);
  if (Round* round = syncing(key, attempt)) syncs_.on_message(*round, from, stream, message);  // else it asks again
}

}  // namespace lockstep::peer

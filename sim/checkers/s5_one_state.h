// S5: one state per revision. Whoever ends a sync with success holds the bytes, the values and the revision that one contributor
// came with, and never a mixture; what may differ is its own still, and who only sends was not written to. However it ends: who is told
// that its state is one holds the bytes that all hold who are told the same root.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/call.h"
#include "sim/checkers/complaint.h"
#include "sim/checkers/s2_exact_fold.h"
#include "sim/memory.h"
#include "sim/text.h"

namespace lockstep::sim {

// Whether all tensors in the caller's memory are those that `source` came with.
inline bool holds_state_of(const Call& source, const Call& call, const Memory& memory) {
  const state::Statement& state = *call.request.state;
  for (std::size_t t = 0; t < call.inputs.size(); ++t) {
    const Call& of = state.manifest.tensors[t].may_differ ? call : source;
    if (memory.fingerprint(input_of(call.request, call.request.tensors[t])) != of.inputs[t]) return false;
  }
  return true;
}

class OneState {
 public:
  Complaint ended(const Call& call, const Memory& memory, const FindCall& find) {
    if (call.kind != CallKind::kCollective || call.request.collective != peer::Collective::kSync) return {};
    const peer::Outcome& outcome = *call.outcome;
    const bool ok = outcome.status == Status::kOk;
    if (!outcome.state_defined || (outcome.root == Digest{} && !ok)) return {};  // or it was not looked at yet
    const std::string who = text_of(outcome.round) + " of " + text_of(call.peer) + ", a " + text_of(call.request) +
                            ", ended with " + text_of(outcome);
    if (const auto bytes = compared(call, memory); bytes_.try_emplace(outcome.root, bytes).first->second != bytes) {
      return who + ": others hold other bytes under the same root";
    }
    if (!ok) return {};
    const auto votes = [&](const PeerId& peer) {
      const Call* claimed = find(peer, outcome.round);
      return claimed != nullptr && claimed->request.state->strategy == state::Strategy::kPopular;
    };
    const auto is_source = [&](const PeerId& peer) {
      const Call* source = find(peer, outcome.round);
      if (source == nullptr) return false;
      const state::Statement& state = *source->request.state;
      return state.revision == outcome.revision && state.values == outcome.values &&
             holds_state_of(*source, call, memory);
    };
    const std::vector<PeerId>& all = *outcome.contributors;
    const std::string state = " with the state of revision " + std::to_string(outcome.revision);
    if (std::none_of(all.begin(), all.end(), is_source))
      return who + state + ", which none of the contributors came with";
    Agreed& agreed = agreed_[{outcome.round.group, outcome.round.tag}];
    if (agreed.round != outcome.round) agreed = {outcome.round, std::exchange(agreed.now, {}), {}};
    agreed.now.insert(all.begin(), all.end());
    std::vector<PeerId> electorate;
    for (const PeerId& peer : all) {
      if (agreed.before.contains(peer) && votes(peer)) electorate.push_back(peer);
    }
    const bool undisturbed = outcome.retries == 0;  // otherwise some of those may have lost theirs
    if (undisturbed && !electorate.empty() && std::none_of(electorate.begin(), electorate.end(), is_source)) {
      return who + state + ", which a newcomer came with: those who agreed last are here";
    }
    const bool only_sends = call.request.state->strategy == state::Strategy::kSendOnly;
    if (only_sends && !holds_state_of(call, call, memory)) return who + ": it only sends, and was written to";
    return {};
  }

 private:
  // Fingerprints of what is compared, tensor by tensor.
  static std::vector<std::uint64_t> compared(const Call& call, const Memory& memory) {
    std::vector<std::uint64_t> fingerprints;
    for (std::size_t t = 0; t < call.inputs.size(); ++t) {
      if (call.request.state->manifest.tensors[t].may_differ) continue;
      fingerprints.push_back(memory.fingerprint(input_of(call.request, call.request.tensors[t])));
    }
    return fingerprints;
  }

  // The contributors of the last round, and of the one before.
  struct Agreed {
    RoundKey round;
    std::set<PeerId> before;
    std::set<PeerId> now;
  };

  std::map<Digest, std::vector<std::uint64_t>> bytes_;  // by root
  std::map<std::pair<GroupId, Tag>, Agreed> agreed_;
};

}  // namespace lockstep::sim

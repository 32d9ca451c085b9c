// S5: one state per revision. Whoever ends a sync with success holds the bytes, the values and the revision that one contributor
// came with, and never a mixture; what may differ is its own still. Who only receives is never followed; who only sends is, and
// however it ends, was not written to. The revision is the highest of those who agreed last and vote, in all groups that are bound:
// it goes back if all of them do. Who was left with a part of a state counts for none until it has one again. However a sync ends:
// who is told that its state is one holds the bytes that all hold who are told the same root. And who ends another round with
// success is told of a difference exactly if what contributors watched at their calls differs: who from whom, and in what.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
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
  void launched(const Call& call) {
    if (call.request.state == nullptr) return;
    const auto name = std::pair(call.peer, call.request.tag);
    if (call.request.state->restored) torn_.erase(name);
    if (torn_.contains(name)) without_.emplace(call.peer, call.id);
    if (!brings(call)) return;
    revisions_[{call.cohort, call.request.tag, call.use}][call.group].insert(call.request.state->revision);
    brought_.insert(content_of(
        call, [&](std::size_t t) { return call.inputs[t]; }, *call.request.state));
  }

  Complaint ended(const Call& call, const Memory& memory, const FindCall& find) {
    const peer::Outcome& outcome = *call.outcome;
    if (call.request.state != nullptr && call.kind != CallKind::kPublish) {
      const auto name = std::pair(call.peer, call.request.tag);
      if (outcome.state_defined) {
        torn_.erase(name);
      } else {
        torn_.insert(name);
      }
    }
    const auto fingerprint = [&](std::size_t t) {
      return memory.fingerprint(input_of(call.request, call.request.tensors[t]));
    };
    if (call.kind == CallKind::kPrefetch && outcome.status == Status::kOk && outcome.state_defined) {
      const auto bytes = content_of(call, fingerprint, outcome).bytes;
      if (bytes_.try_emplace(outcome.root, bytes).first->second == bytes) return {};
      return text_of(call) + " of " + text_of(call.peer) +
             " left other bytes than those that others hold under its root";
    }
    if (call.kind != CallKind::kCollective || call.request.collective != peer::Collective::kSync) return {};
    const bool ok = outcome.status == Status::kOk;
    const auto strategy_of = [](const Call& of) { return of.request.state->strategy; };
    if (strategy_of(call) == state::Strategy::kSendOnly && !holds_state_of(call, call, memory)) {
      return text_of(call.peer) + " only sends in " + text_of(outcome.round) + ", and was written to";
    }
    if (!outcome.state_defined) return {};
    if (outcome.root == Digest{} && !ok) {  // it was not looked at yet
      if (holds_state_of(call, call, memory) || call.request.state->blank) return {};
      return text_of(call.peer) + " ended " + text_of(outcome.round) + " with its own state, and that was written to";
    }
    const std::string who = text_of(outcome.round) + " of " + text_of(call.peer) + ", a " + text_of(call.request) +
                            ", ended with " + text_of(outcome);
    const Content content = content_of(call, fingerprint, outcome);
    if (const auto& bytes = content.bytes; bytes_.try_emplace(outcome.root, bytes).first->second != bytes) {
      return who + ": others hold other bytes under the same root";
    }
    // Also where the sync has failed: what it holds then was brought by somebody, under this revision and these values.
    const bool own = outcome.revision == call.request.state->revision && holds_state_of(call, call, memory);
    if (!ok && !own && !brought_.contains(content)) return who + ", with what nobody came with who may send";
    if (!ok) return {};
    const auto votes = [&](const PeerId& peer) {
      const Call* claimed = find(peer, outcome.round);
      return claimed != nullptr && strategy_of(*claimed) == state::Strategy::kPopular && brings(*claimed);
    };
    const auto is_source = [&](const PeerId& peer) {
      const Call* source = find(peer, outcome.round);
      if (source == nullptr || !brings(*source)) return false;
      const state::Statement& state = *source->request.state;
      return state.revision == outcome.revision && state.values == outcome.values &&
             holds_state_of(*source, call, memory);
    };
    const std::vector<PeerId>& all = *outcome.contributors;
    const std::string state = " with the state of revision " + std::to_string(outcome.revision);
    // After a loss it may be that of one who is gone: the others have taken it over before.
    const bool came = outcome.retries > 0 ? brought_.contains(content) : std::any_of(all.begin(), all.end(), is_source);
    if (!came) return who + state + ", which none of the contributors came with who may send";
    const auto only_sends = [&](const PeerId& peer) {
      const Call* claimed = find(peer, outcome.round);
      return claimed != nullptr && strategy_of(*claimed) == state::Strategy::kSendOnly;
    };
    const auto sender = std::find_if(all.begin(), all.end(), only_sends);
    if (sender != all.end() && !is_source(*sender)) {
      return who + state + ", which is not that of " + text_of(*sender) + ", who only sends";
    }
    Agreed& agreed = agreed_[{outcome.round.group, outcome.round.tag}];
    if (is_earlier(outcome.round, agreed.round)) return {};  // told late: others have agreed anew since
    if (agreed.round != outcome.round) agreed = {outcome.round, std::exchange(agreed.now, {}), {}};
    agreed.now.insert(all.begin(), all.end());
    std::vector<PeerId> electorate;
    for (const PeerId& peer : all) {
      if (agreed.before.contains(peer) && votes(peer)) electorate.push_back(peer);
    }
    // Otherwise some of those may have lost theirs, or follow who only sends.
    const bool undisturbed = outcome.retries == 0 && sender == all.end();
    if (undisturbed && !electorate.empty() && std::none_of(electorate.begin(), electorate.end(), is_source)) {
      return who + state + ", which a newcomer came with: those who agreed last are here";
    }
    const auto is_ahead = [&](const PeerId& peer) {
      const std::uint64_t revision = find(peer, outcome.round)->request.state->revision;
      return revision > outcome.revision && in_all_groups(outcome.round, revision);
    };
    const auto ahead = std::find_if(electorate.begin(), electorate.end(), is_ahead);
    if (undisturbed && ahead != electorate.end()) {
      return who + state + ", which goes back behind that of " + text_of(*ahead) + ", who agreed last and votes";
    }
    return {};
  }

  // What somebody held who is lost may not have counted.
  void lost(PeerId peer) { lost_.insert(peer); }

  // `name_of`: the peer that made a call.
  Complaint watched(const Call& call, const FindCall& find, const std::function<std::string(const Call&)>& name_of) {
    const peer::Outcome& outcome = *call.outcome;
    if (outcome.status != Status::kOk || call.request.collective == peer::Collective::kSync) return {};
    const std::string who = text_of(outcome.round) + " of " + text_of(call.peer);
    const std::string& told = outcome.parity;
    if (const auto& others = told_.try_emplace(outcome.round, told).first->second; others != told) {
      return who + " is told '" + told + "' of what is watched, others '" + others + "'";
    }
    std::vector<const Call*> watching;
    std::map<Watch, std::size_t> votes;
    bool all = true;  // count
    for (const PeerId& peer : *outcome.contributors) {
      const Call* theirs = find(peer, outcome.round);
      if (theirs == nullptr) return {};  // S2 says so
      all = all && !lost_.contains(peer);
      if (theirs->request.watch == nullptr) continue;
      watching.push_back(theirs);
      ++votes[watch_of(*theirs)];
    }
    if (votes.size() < 2) return told.empty() ? Complaint{} : who + " is told that " + told + ", and nobody's does";
    if (told.empty() && all) return who + " is not told that what its contributors watch differs";
    if (!all) return {};
    const Call& popular = **std::max_element(watching.begin(), watching.end(), [&](const Call* a, const Call* b) {
      return votes[watch_of(*a)] < votes[watch_of(*b)];  // the first of them
    });
    const Call& other = **std::find_if(watching.begin(), watching.end(),
                                       [&](const Call* of) { return watch_of(*of) != watch_of(popular); });
    const std::string names = "the state of " + name_of(other) + " differs from that of " + name_of(popular) + " (" +
                              std::to_string(votes[watch_of(popular)]) + " of " + std::to_string(watching.size()) +
                              " watch the same) in tag " + std::to_string(outcome.round.tag.value);
    const std::string first = names + ": first in " + first_difference(popular, other);
    if (told == names || told.starts_with(first)) return {};
    return who + " is told that " + told + ", and not that " + first;
  }

 private:
  // Of the rounds of one group and tag; uses wrap around.
  static bool is_earlier(const RoundKey& a, const RoundKey& b) {
    return a.cohort != b.cohort ? a.cohort < b.cohort : static_cast<std::int32_t>(a.use - b.use) < 0;
  }
  // What is watched: the bytes of its tensors, its values, its revision.
  using Watch = std::tuple<std::vector<std::uint64_t>, std::vector<std::uint64_t>, std::uint64_t>;
  static Watch watch_of(const Call& call) {
    const state::Statement& state = *call.request.watch->state;
    return {call.watched, state.values, state.revision};
  }
  // "tensor 2"
  static std::string first_difference(const Call& a, const Call& b) {
    const auto first = [](const auto& x, const auto& y) {
      return static_cast<std::size_t>(std::mismatch(x.begin(), x.end(), y.begin()).first - x.begin());
    };
    if (a.watched != b.watched) return "tensor " + std::to_string(first(a.watched, b.watched));
    const auto& [x, y] = std::tie(a.request.watch->state->values, b.request.watch->state->values);
    return x == y ? "the revision" : "value " + std::to_string(first(x, y));
  }

  // A state that others may take over: not a part of one, which a failed sync left there.
  [[nodiscard]] bool brings(const Call& call) const {
    const state::Statement& state = *call.request.state;
    return state.strategy != state::Strategy::kReceiveOnly && !state.blank && !without_.contains({call.peer, call.id});
  }

  struct Content {
    std::uint64_t revision = 0;
    std::vector<std::uint64_t> values;
    std::vector<std::uint64_t> bytes;  // fingerprints of what is compared, tensor by tensor
    auto operator<=>(const Content&) const = default;
  };
  // `of`: who says its revision and values.
  static Content content_of(const Call& call, auto&& fingerprint, const auto& of) {
    Content content{of.revision, of.values, {}};
    for (std::size_t t = 0; t < call.inputs.size(); ++t) {
      if (!call.request.state->manifest.tensors[t].may_differ) content.bytes.push_back(fingerprint(t));
    }
    return content;
  }

  // Groups that are bound go on with what all of them have.
  [[nodiscard]] bool in_all_groups(const RoundKey& round, std::uint64_t revision) const {
    const auto known = revisions_.find({round.cohort, round.tag, round.use});
    if (known == revisions_.end()) return false;  // launched in an older cohort
    const auto& groups = known->second;
    return std::all_of(groups.begin(), groups.end(),
                       [&](const auto& group) { return group.second.contains(revision); });
  }

  // The contributors of the last round, and of the one before.
  struct Agreed {
    RoundKey round;
    std::set<PeerId> before;
    std::set<PeerId> now;
  };

  std::map<Digest, std::vector<std::uint64_t>> bytes_;  // by root
  std::set<Content> brought_;                           // of all who may send
  std::map<std::tuple<CohortId, Tag, std::uint32_t>, std::map<GroupId, std::set<std::uint64_t>>>
      revisions_;  // likewise
  std::map<std::pair<GroupId, Tag>, Agreed> agreed_;
  std::map<RoundKey, std::string> told_;
  std::set<PeerId> lost_;
  std::set<std::pair<PeerId, Tag>> torn_;        // by its last sync
  std::set<std::pair<PeerId, CallId>> without_;  // calls that came with no state
};

}  // namespace lockstep::sim

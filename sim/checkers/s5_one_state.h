// S5: one state per revision.
// - A peer whose sync succeeds holds the bytes, the values and the revision of one contributor, and never a mixture;
// tensors that may differ stay its own.
// - Peers that only receive are never a source. A peer that only sends is a source, and no sync writes to its memory.
// - The revision is the highest of the voters that took part in the last successful sync, in all connected groups; it
// goes back only if all of them go back.
// - The state of a newcomer that is ahead of the run is not overwritten, unless a strategy says so (rule 53). One that
// votes for the newest revision wins.
// - Peers that agree on a state name one lineage: that of a source, or a new one if no source had one.
// - A peer that is left with a part of a state does not count until it has a whole state again.
// - However a sync ends, peers that report the same root hold the same bytes.
// - A newcomer that holds a published state holds it until its admission, and no older one. When all members are lost,
// the founding waits for each newcomer that is known to hold a state, and the highest revision that one of them brings
// wins.
// - A sync that overwrites the state of a member of the last agreed revision, at its revision or behind it, says so, to
// all alike: whose state, of which revision, and the first tensor that differed. It says so of no newcomer (rule 55).
// - Another round that succeeds reports a difference exactly if the watched states of its contributors differ, and
// names the peers and the difference.
#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/checkers/complaint.h"
#include "sim/checkers/s2_exact_fold.h"
#include "sim/engine/memory.h"
#include "sim/workload/call.h"
#include "sim/workload/text.h"

namespace lockstep::sim {

// Whether the caller's memory holds the tensors that `source` brought.
inline bool holds_state_of(const Call& source, const Call& call, const Memory& memory) {
  const state::Statement& state = *call.request.state;
  for (std::size_t t = 0; t < call.prints.inputs.size(); ++t) {
    const Call& of = state.manifest.tensors[t].may_differ ? call : source;
    if (memory.fingerprint(input_of(call.request, call.request.tensors[t])) != of.prints.inputs[t]) return false;
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
    if (strategy_of(call) == state::Strategy::kSendOnly)
      sent_.insert({call.launch.cohort, call.request.tag, call.launch.use});
    groups_[{call.launch.cohort, call.request.tag, call.launch.use}].insert(call.group);
    if (!brings(call)) return;
    revisions_[{call.launch.cohort, call.request.tag, call.launch.use}][call.group].insert(
        call.request.state->revision);
    brought_.insert(brought(call));
  }

  Complaint ended(const Call& call, const Memory& memory, const FindCall& find) {
    const peer::Outcome& outcome = *call.outcome;
    note_if_torn(call);
    if (call.kind == CallKind::kPrefetch && outcome.status == Status::kOk && outcome.state_defined) {
      return check_prefetched(call, memory);
    }
    if (call.kind == CallKind::kPrefetch && held_.contains(call.peer) && !outcome.state_defined) {
      return text_of(call) + " of " + text_of(call.peer) + " leaves a part of a state, and held a whole one";
    }
    if (call.kind != CallKind::kCollective || call.request.collective != wire::Collective::kSync) return {};
    if (call.request.state == nullptr) return {};  // the library has refused its arguments
    if (strategy_of(call) == state::Strategy::kSendOnly && !holds_state_of(call, call, memory)) {
      return text_of(call.peer) + " only sends in " + text_of(outcome.round) + ", and was written to";
    }
    if (outcome.status == Status::kStateUndefined && outcome.retries == 0 && has_vote(call)) {
      return words_of(call) + ": nobody has a state, but this peer came with one and votes";
    }
    if (!outcome.state_defined) return {};
    const bool ok = outcome.status == Status::kOk;
    if (outcome.root == Digest{} && !ok) {  // the state was not examined yet
      if (holds_state_of(call, call, memory) || call.request.state->blank) return {};
      return text_of(call.peer) + " ended " + text_of(outcome.round) + " with its own state, and that was written to";
    }
    const Content content = content_in(memory, call, outcome);
    if (Complaint complaint = check_content(call, memory, content)) return complaint;
    if (!ok) return {};
    if (Complaint complaint = check_source(call, memory, content, find)) return complaint;
    if (Complaint complaint = check_lineage(call, memory, find)) return complaint;
    return check_electorate(call, memory, find);
  }

  // Whether no member of a group comes to this round with a state that others may take over. `founding`: the first view
  // of the cohort. Groups that share gangs end the round alike.
  [[nodiscard]] bool nobody_brings(const Call& call, const wire::View& founding, const FindCall& find) const {
    std::map<GroupId, bool> brought;
    for (const wire::Member& member : founding.members) {
      if (member.group != call.group && member.gang.value == 0) continue;
      RoundKey key = call.outcome->round;
      key.group = member.group;
      const Call* const theirs = member.id == call.peer ? &call : find(member.id, key);
      const bool may_bring = theirs == nullptr || theirs->request.state == nullptr || brings(*theirs);
      bool& any = brought[member.group];
      any = any || may_bring;
    }
    return std::ranges::any_of(brought, [](const auto& group) { return !group.second; });
  }

  // A peer is lost. The fingerprints that it reported may not count in the verdict of a round.
  void lost(PeerId peer) {
    lost_.insert(peer);
    for (auto& [view, holders] : holders_of_) holders.erase(peer);
    holders_.erase(peer);
  }

  // ---- newcomers that hold a state (rule 49) ----

  // The newcomer holds a whole state of this revision.
  Complaint holds(PeerId peer, std::uint64_t revision) {
    const auto [at, first] = held_.try_emplace(peer, revision);
    const std::uint64_t before = std::exchange(at->second, revision);
    if (first || before <= revision) return {};
    return text_of(peer) + " holds a state of revision " + std::to_string(revision) + " instead of revision " +
           std::to_string(before);
  }
  // The coordinator knows that this newcomer holds a state.
  void told_to_hold(PeerId peer) { holders_.insert(peer); }
  // The coordinator proposes a view with this number.
  void proposed(ViewNumber view) { holders_of_[view] = holders_; }
  Complaint installed(const wire::View& view) {
    if (view.number <= newest_) return {};
    newest_ = view.number;
    std::set<PeerId> members;
    for (const wire::Member& member : view.members) members.insert(member.id);
    const bool founds = std::none_of(members.begin(), members.end(), [&](PeerId id) { return members_.contains(id); });
    members_ = members;
    const std::set<PeerId> holders = std::exchange(holders_of_[view.number], {});
    holders_of_.erase(holders_of_.begin(), holders_of_.upper_bound(view.number));
    for (const PeerId member : members) holders_.erase(member);
    if (!founds) return {};
    for (const PeerId holder : holders) {
      if (!members.contains(holder)) {
        return "view " + std::to_string(view.number.value) + " founds the run anew without " + text_of(holder) +
               ", which holds a state";
      }
    }
    return {};
  }

  // `name_of`: the peer that made a call.
  Complaint watched(const Call& call, const FindCall& find, const std::function<std::string(const Call&)>& name_of) {
    const peer::Outcome& outcome = *call.outcome;
    if (outcome.status != Status::kOk || call.request.collective == wire::Collective::kSync) return {};
    const std::string who = text_of(outcome.round) + " of " + text_of(call.peer);
    const std::string& told = outcome.state_difference;
    if (const auto& others = told_.try_emplace(outcome.round, told).first->second; others != told) {
      return who + " is told '" + told + "' about the watched state, others are told '" + others + "'";
    }
    std::vector<const Call*> watching;
    std::map<Watch, std::size_t> votes;
    bool all = true;  // count
    for (const PeerId& peer : *outcome.contributors) {
      const Call* theirs = find(peer, outcome.round);
      if (theirs == nullptr) return {};  // S2 reports that
      all = all && !lost_.contains(peer);
      if (theirs->request.watch == nullptr) continue;
      watching.push_back(theirs);
      ++votes[watch_of(*theirs)];
    }
    if (votes.size() < 2)
      return told.empty() ? Complaint{} : who + " is told that " + told + ", and all watched states are equal";
    if (told.empty() && all) return who + " is not told that the watched states of its contributors differ";
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

  // A sync has succeeded, and ended() was told. `name_of`: the peer that made a call.
  Complaint repaired(const Call& call, const FindCall& find, const std::function<std::string(const Call&)>& name_of) {
    const peer::Outcome& outcome = *call.outcome;
    if (outcome.status != Status::kOk || call.request.collective != wire::Collective::kSync) return {};
    const std::string& told = outcome.state_difference;
    const std::string who = words_of(call) + words_of_state(outcome);
    if (const auto& others = told_.try_emplace(outcome.round, told).first->second; others != told) {
      return who + " is told that it repaired '" + told + "', others are told '" + others + "'";
    }
    const Agreed& agreed = agreed_[{outcome.round.group, outcome.round.tag}];
    if (agreed.round != outcome.round) return {};  // a late report
    if (agreed.before.empty()) return told.empty() ? Complaint{} : who + ", the first, is told that " + told;
    if (outcome.retries != 0) return {};  // an earlier attempt may have overwritten the state of a member that is lost
    const std::vector<const Call*> strayed = strayed_in(call, agreed.before, find);
    const auto repair_from = [&](const Call& of) {
      return repair_of(of, outcome, name_of(of), *holder_in(call, agreed.before, find));
    };
    const bool all_named = strayed.size() <= kMostNamed;
    const auto untold = std::ranges::find_if(strayed, [&](const Call* const of) {
      return all_named && !lost_.contains(of->peer) && told.find(repair_from(*of)) == std::string::npos;
    });
    if (untold != strayed.end()) return who + " is told '" + told + "', and not that " + repair_from(**untold);
    if (!strayed.empty() || told.empty()) return {};
    return who + " is told that " + told + ", and no member of the last agreed revision came with another state";
  }

 private:
  static constexpr std::size_t kMostNamed = 3;
  struct Content {
    std::uint64_t revision = 0;
    std::vector<std::uint64_t> values;
    std::vector<std::uint64_t> bytes;  // fingerprints of what is compared, tensor by tensor
    auto operator<=>(const Content&) const = default;
  };

  static state::Strategy strategy_of(const Call& call) { return call.request.state->strategy; }
  static bool may_lead(state::Strategy strategy) {
    return strategy == state::Strategy::kPopular || strategy == state::Strategy::kNewest;
  }
  static std::string words_of(const Call& call) {
    return text_of(call.outcome->round) + " of " + text_of(call.peer) + ", a " + text_of(call.request) +
           ", ended with " + text_of(*call.outcome);
  }
  static std::string words_of_state(const peer::Outcome& outcome) {
    return " with the state of revision " + std::to_string(outcome.revision);
  }
  // The state in the caller's memory. `of`: the source of its revision and values.
  static Content content_in(const Memory& memory, const Call& call, const auto& of) {
    return content_of(
        call, [&](std::size_t t) { return memory.fingerprint(input_of(call.request, call.request.tensors[t])); }, of);
  }

  // After a call that ends without a defined state the memory holds no state, until a call ends with a defined one.
  void note_if_torn(const Call& call) {
    if (call.request.state == nullptr || call.kind == CallKind::kPublish) return;
    const auto name = std::pair(call.peer, call.request.tag);
    if (call.outcome->state_defined) {
      torn_.erase(name);
    } else {
      torn_.insert(name);
    }
  }

  Complaint check_prefetched(const Call& call, const Memory& memory) {
    const peer::Outcome& outcome = *call.outcome;
    const auto held = held_.find(call.peer);
    if (held != held_.end() && outcome.revision < held->second) {
      return text_of(call) + " of " + text_of(call.peer) + " ends with revision " + std::to_string(outcome.revision) +
             ", and held " + std::to_string(held->second);
    }
    const auto bytes = content_in(memory, call, outcome).bytes;
    if (bytes_.try_emplace(outcome.root, bytes).first->second == bytes) return {};
    return text_of(call) + " of " + text_of(call.peer) + " left other bytes than those that others hold under its root";
  }

  // All peers hold the same bytes under one root. A sync that fails leaves the caller's own state, or one that a sender
  // brought.
  Complaint check_content(const Call& call, const Memory& memory, const Content& content) {
    const peer::Outcome& outcome = *call.outcome;
    if (const auto& bytes = content.bytes; bytes_.try_emplace(outcome.root, bytes).first->second != bytes) {
      return words_of(call) + ": others hold other bytes under the same root";
    }
    const bool own = outcome.revision == call.request.state->revision && holds_state_of(call, call, memory);
    if (outcome.status == Status::kOk || own || brought_.contains(content)) return {};
    return words_of(call) + ", with a state that no sender brought";
  }

  // Whether the peer came to the round of `call` with the state that is now in the caller's memory.
  [[nodiscard]] bool is_source(const Call& call, const Memory& memory, const FindCall& find, PeerId peer) const {
    const peer::Outcome& outcome = *call.outcome;
    const Call* source = find(peer, outcome.round);
    if (source == nullptr || !brings(*source)) return false;
    const state::Statement& state = *source->request.state;
    return state.revision == outcome.revision && state.values == outcome.values &&
           holds_state_of(*source, call, memory);
  }

  // The first contributor that only sends; the end of the list: there is none.
  static auto sender_of(const peer::Outcome& outcome, const FindCall& find) {
    return std::find_if(outcome.contributors->begin(), outcome.contributors->end(), [&](const PeerId& peer) {
      const Call* claimed = find(peer, outcome.round);
      return claimed != nullptr && strategy_of(*claimed) == state::Strategy::kSendOnly;
    });
  }

  // A contributor came with the state of a successful sync; a contributor that only sends is followed.
  [[nodiscard]] Complaint check_source(const Call& call, const Memory& memory, const Content& content,
                                       const FindCall& find) const {
    const peer::Outcome& outcome = *call.outcome;
    const std::vector<PeerId>& all = *outcome.contributors;
    const auto source = [&](PeerId peer) { return is_source(call, memory, find, peer); };
    // After a loss the state may be that of a peer that is gone: the others have taken it over before.
    const bool came = outcome.retries > 0 ? brought_.contains(content) : std::any_of(all.begin(), all.end(), source);
    if (!came) {
      return words_of(call) + words_of_state(outcome) + ", which no contributor brought as a sender";
    }
    const auto sender = sender_of(outcome, find);
    if (sender == all.end() || source(*sender)) return {};
    return words_of(call) + words_of_state(outcome) + ", which is not that of " + text_of(*sender) +
           ", a send-only peer";
  }

  [[nodiscard]] Complaint check_lineage(const Call& call, const Memory& memory, const FindCall& find) {
    const peer::Outcome& outcome = *call.outcome;
    const Lineage told = outcome.lineage;
    const Lineage first = lineages_.try_emplace(outcome.round, told).first->second;
    if (told == Lineage{}) return words_of(call) + ": its state has no lineage";
    if (first != told) return words_of(call) + ": its state has another lineage than that of others";
    if (outcome.retries > 0) return {};
    bool known = false;
    for (const PeerId peer : *outcome.contributors) {
      if (!is_source(call, memory, find, peer)) continue;
      const Lineage came = find(peer, outcome.round)->request.state->lineage;
      if (came == told) return {};
      known = known || came != Lineage{};
    }
    return known ? words_of(call) + ": its state has a lineage that no source had" : Complaint{};
  }

  // Members that agreed last and vote are followed, in their highest revision. A newcomer that is ahead of them wins if
  // it votes for the newest revision; otherwise it does not take part.
  Complaint check_electorate(const Call& call, const Memory& memory, const FindCall& find) {
    const peer::Outcome& outcome = *call.outcome;
    const std::vector<PeerId>& all = *outcome.contributors;
    Agreed& agreed = agreed_[{outcome.round.group, outcome.round.tag}];
    if (is_earlier(outcome.round, agreed.round)) return {};  // a late report: others have completed a newer sync since
    if (agreed.round != outcome.round) agreed = {outcome.round, std::exchange(agreed.now, {}), {}};
    agreed.now.insert(all.begin(), all.end());
    // After a retry some of the voters may have lost their state; a peer that only sends is followed instead of them.
    if (outcome.retries != 0 || sender_of(outcome, find) != all.end()) return {};
    const auto votes = [&](const PeerId& peer) {
      const Call* claimed = find(peer, outcome.round);
      return claimed != nullptr && may_lead(strategy_of(*claimed)) && brings(*claimed);
    };
    std::vector<PeerId> electorate;
    for (const PeerId& peer : all) {
      if (agreed.before.contains(peer) && votes(peer)) electorate.push_back(peer);
    }
    const bool all_vote = electorate.empty();
    if (all_vote) {
      std::copy_if(all.begin(), all.end(), std::back_inserter(electorate), votes);
    } else {
      for (const PeerId& peer : all) {
        if (agreed.before.contains(peer) || !votes(peer)) continue;
        const state::Statement& came = *find(peer, outcome.round)->request.state;
        if (came.revision > outcome.revision) {
          return words_of(call) + words_of_state(outcome) + ", and " + text_of(peer) +
                 ", a newcomer, came with revision " + std::to_string(came.revision) + ", which is lost";
        }
        const auto is_behind = [&](const PeerId& member) {
          return find(member, outcome.round)->request.state->revision < came.revision;
        };
        const bool wins = came.strategy == state::Strategy::kNewest && came.revision == outcome.revision &&
                          std::all_of(electorate.begin(), electorate.end(), is_behind);
        if (wins) return {};
      }
    }
    const auto source = [&](PeerId peer) { return is_source(call, memory, find, peer); };
    if (!all_vote && std::none_of(electorate.begin(), electorate.end(), source)) {
      return words_of(call) + words_of_state(outcome) +
             ", which a newcomer brought although members of the last agreed revision are here";
    }
    const auto is_ahead = [&](const PeerId& peer) {
      const std::uint64_t revision = find(peer, outcome.round)->request.state->revision;
      return revision > outcome.revision && in_all_groups(outcome.round, revision);
    };
    const auto ahead = std::find_if(electorate.begin(), electorate.end(), is_ahead);
    if (ahead == electorate.end()) return {};
    return words_of(call) + words_of_state(outcome) + ", which goes back behind that of " + text_of(*ahead) +
           (all_vote ? ", a founder that votes" : ", a voter of the last agreed revision");
  }

  // Returns the call of a member that votes and came with the state of the sync that has ended. Returns null if no
  // member did.
  [[nodiscard]] const Call* holder_in(const Call& call, const std::set<PeerId>& members, const FindCall& find) const {
    for (const PeerId peer : *call.outcome->contributors) {
      const Call* came = members.contains(peer) ? find(peer, call.outcome->round) : nullptr;
      if (came != nullptr && brings(*came) && brings_result_of(call, *came)) return came;
    }
    return nullptr;
  }
  // Returns the members that came with another state that is not newer. The list is empty if a member only sends, or if
  // no member held the state of the sync.
  [[nodiscard]] std::vector<const Call*> strayed_in(const Call& call, const std::set<PeerId>& members,
                                                    const FindCall& find) const {
    const peer::Outcome& outcome = *call.outcome;
    std::vector<const Call*> strayed;
    if (sender_of(outcome, find) != outcome.contributors->end()) return strayed;
    const Call* const holder = holder_in(call, members, find);
    if (holder == nullptr) return strayed;
    for (const PeerId peer : *outcome.contributors) {
      const Call* came = members.contains(peer) ? find(peer, outcome.round) : nullptr;
      if (came == nullptr || !brings(*came) || came->request.state->revision > outcome.revision) continue;
      if (brought(*came) != brought(*holder)) strayed.push_back(came);
    }
    return strayed;
  }
  static Content brought(const Call& call) {
    return content_of(
        call, [&](std::size_t t) { return call.prints.inputs[t]; }, *call.request.state);
  }
  // Whether `came` brought the state with which `call` has ended. Roots are equal where contents are (check_content()).
  [[nodiscard]] bool brings_result_of(const Call& call, const Call& came) const {
    const Content content = brought(came);
    const auto bytes = bytes_.find(call.outcome->root);
    return content.revision == call.outcome->revision && content.values == call.outcome->values &&
           bytes != bytes_.end() && bytes->second == content.bytes;
  }
  // How the text about a state that has strayed begins.
  static std::string repair_of(const Call& of, const peer::Outcome& outcome, const std::string& name,
                               const Call& holder) {
    const state::Statement& state = *of.request.state;
    const std::string revision = "state of revision " + std::to_string(state.revision);
    std::string where;
    for (std::size_t t = 0; t < of.prints.inputs.size() && where.empty(); ++t) {
      const state::TensorSpec& tensor = state.manifest.tensors[t];
      if (!tensor.may_differ && of.prints.inputs[t] != holder.prints.inputs[t]) where = "in '" + tensor.name + "'";
    }
    if (where.empty() && state.values != holder.request.state->values) where = "in its values";
    if (state.revision == outcome.revision) return revision + " differed on " + name + " " + where;
    return revision + " on " + name + " was behind revision " + std::to_string(outcome.revision) +
           (where.empty() ? "" : ", differed " + where);
  }

  // Orders rounds of one group and tag; uses wrap around.
  static bool is_earlier(const RoundKey& a, const RoundKey& b) {
    return a.cohort != b.cohort ? a.cohort < b.cohort : static_cast<std::int32_t>(a.use - b.use) < 0;
  }
  // A watched state: fingerprints of its tensors, its values, its revision.
  using Watch = std::tuple<std::vector<std::uint64_t>, std::vector<std::uint64_t>, std::uint64_t>;
  static Watch watch_of(const Call& call) {
    const state::Statement& state = *call.request.watch->state;
    return {call.prints.watched, state.values, state.revision};
  }
  // "tensor 2"
  static std::string first_difference(const Call& a, const Call& b) {
    const auto first = [](const auto& x, const auto& y) {
      return static_cast<std::size_t>(std::mismatch(x.begin(), x.end(), y.begin()).first - x.begin());
    };
    if (a.prints.watched != b.prints.watched)
      return "tensor " + std::to_string(first(a.prints.watched, b.prints.watched));
    const auto& [x, y] = std::tie(a.request.watch->state->values, b.request.watch->state->values);
    return x == y ? "the revision" : "value " + std::to_string(first(x, y));
  }

  // A state that others may take over: not a part of one, which a failed sync left there.
  [[nodiscard]] bool brings(const Call& call) const {
    const state::Statement& state = *call.request.state;
    return state.strategy != state::Strategy::kReceiveOnly && !state.blank && !without_.contains({call.peer, call.id});
  }

  // Whether a sync elects the state of this peer, or another one: no peer only sends, and no other group must agree.
  [[nodiscard]] bool has_vote(const Call& call) const {
    const Name name{call.launch.cohort, call.request.tag, call.launch.use};
    const auto groups = groups_.find(name);
    return brings(call) && !sent_.contains(name) && groups != groups_.end() && groups->second.size() == 1;
  }

  // `of`: the source of its revision and values.
  static Content content_of(const Call& call, auto&& fingerprint, const auto& of) {
    Content content{of.revision, of.values, {}};
    for (std::size_t t = 0; t < call.prints.inputs.size(); ++t) {
      if (!call.request.state->manifest.tensors[t].may_differ) content.bytes.push_back(fingerprint(t));
    }
    return content;
  }

  // Connected groups continue with the revision that all of them have.
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

  std::map<Digest, std::vector<std::uint64_t>> bytes_;                    // by root
  std::set<Content> brought_;                                             // contents of all peers that may send
  using Name = std::tuple<CohortId, Tag, std::uint32_t>;                  // of a round, in all groups
  std::map<Name, std::map<GroupId, std::set<std::uint64_t>>> revisions_;  // likewise
  std::map<Name, std::set<GroupId>> groups_;                              // that have launched it
  std::set<Name> sent_;                                                   // rounds in which a peer only sends
  std::map<std::pair<GroupId, Tag>, Agreed> agreed_;
  std::map<RoundKey, std::string> told_;
  std::map<RoundKey, Lineage> lineages_;  // of states that members agreed on
  std::set<PeerId> lost_;
  std::set<std::pair<PeerId, Tag>> torn_;        // by its last sync
  std::set<std::pair<PeerId, CallId>> without_;  // calls that came with no state
  std::map<PeerId, std::uint64_t> held_;         // revisions that newcomers hold
  std::set<PeerId> holders_;                     // newcomers of which the coordinator knows that they hold a state
  std::map<ViewNumber, std::set<PeerId>> holders_of_;  // when the view was proposed last
  ViewNumber newest_;                                  // that was installed
  std::set<PeerId> members_;                           // of it
};

}  // namespace lockstep::sim

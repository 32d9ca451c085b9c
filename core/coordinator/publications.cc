#include "core/coordinator/publications.h"

#include <algorithm>

#include "core/state/election.h"
#include "core/trace/event.h"
#include "core/wire/describe.h"
#include "core/wire/limits.h"
#include "core/wire/link_key.h"

namespace lockstep::coordinator {

namespace {

bool same(const wire::Published& a, const wire::Published& b) {
  return a.revision == b.revision && a.root == b.root && a.lineage == b.lineage && a.sources == b.sources &&
         a.text == b.text;
}

}  // namespace

template <typename Entries>
void Publications::forget(Entries& entries, Tally& tally, PeerId peer) {
  if (tally.of(peer) == 0) return;
  std::erase_if(entries, [&](const auto& entry) {
    const Name& name = entry.first;
    if (name.peer != peer) return false;
    changed_.emplace(name.group, name.tag);
    tally.remove(peer);
    return true;
  });
}

std::string Publications::publish(const wire::Member& from, const wire::Publish& in) {
  const Name name{from.group, in.tag, from.id};
  if (in.what.collective != wire::Collective::kSync) return "publishes what is no state";
  if (in.ends) {
    if (published_.erase(name) == 0) return "takes back a state that it has not published";
    publishes_.remove(from.id);
  } else {
    if (!published_.contains(name)) {
      if (publishes_.of(from.id) >= kMaxShares) return "publishes more states than one peer may";
      publishes_.add(from.id);
    }
    published_.insert_or_assign(name, Publication{in, from.name, from.address, from.key, from.calls_out});
  }
  changed_.emplace(from.group, in.tag);
  return {};
}

std::string Publications::want(PeerId from, GroupId group, const wire::WantState& in) {
  const Name name{group, in.tag, from};
  if (in.what.collective != wire::Collective::kSync) return "wants what is no state";
  const auto known = wanted_.find(name);
  const bool fetched = known != wanted_.end() && !known->second.holds;
  if (in.ends) {
    if (known == wanted_.end()) return "gives up a state that it has not wanted";
    note_fetch(from, fetched, false);
    wanted_.erase(known);
    wants_.remove(from);
    return {};
  }
  if (known == wanted_.end()) {
    if (wants_.of(from) >= kMaxShares) return "wants more states than one peer may";
    wants_.add(from);
  }
  note_fetch(from, fetched, !in.holds);
  if (known != wanted_.end() && known->second.told && known->second.what == in.what) {
    known->second.holds = in.holds;
    return {};  // it knows
  }
  wanted_.insert_or_assign(name, Wish{in.what, std::nullopt, in.holds});
  changed_.emplace(group, in.tag);
  return {};
}

void Publications::note_fetch(PeerId peer, bool before, bool now) {
  if (before && !now) fetches_.remove(peer);
  if (now && !before) fetches_.add(peer);
}

void Publications::forget_wishes(PeerId peer) {
  while (fetches_.of(peer) > 0) fetches_.remove(peer);
  forget(wanted_, wants_, peer);
}

void Publications::gone(PeerId peer) {
  forget(published_, publishes_, peer);
  forget_wishes(peer);
}

void Publications::admitted(PeerId peer) { forget_wishes(peer); }

// The newest revision; of its roots the one that most publish, of equally popular ones the smallest.
wire::Published Publications::answer(GroupId group, Tag tag, const wire::Descriptor& what) const {
  wire::Published answer;
  answer.tag = tag;
  const auto begin = published_.lower_bound(Name{group, tag, PeerId{}});
  const auto end = std::find_if(
      begin, published_.end(), [&](const auto& entry) { return entry.first.group != group || entry.first.tag != tag; });
  std::map<Digest, std::size_t> popularity;
  const std::pair<const Name, Publication>* other = nullptr;  // of another layout
  for (auto at = begin; at != end; ++at) {
    const wire::Publish& said = at->second.said;
    if (at->second.calls_out) continue;  // newcomers dial their sources
    if (said.what.layout != what.layout) {
      if (other == nullptr) other = &*at;
      continue;
    }
    if (popularity.empty() || said.revision > answer.revision) {
      answer.revision = said.revision;
      popularity.clear();
    }
    if (said.revision == answer.revision) ++popularity[said.root];
  }
  if (popularity.empty()) {
    if (other == nullptr) return answer;
    const wire::Descriptor& theirs = other->second.said.what;
    const bool same_size = theirs.count == what.count && theirs.tensors == what.tensors;
    answer.text = "states differ in tag " + std::to_string(tag.value) + ": " +
                  trace::short_name(other->first.peer, other->second.name) + " publishes " +
                  wire::describe_size(theirs) +
                  (same_size ? ", as this peer wants, but with other names, types, sizes, order or values"
                             : "; this peer wants " + wire::describe_size(what)) +
                  ": state the same tensors and values on both sides";
    return answer;
  }
  answer.root = std::max_element(popularity.begin(), popularity.end(), [](const auto& a, const auto& b) {
                  return a.second < b.second;
                })->first;
  for (auto at = begin; at != end && answer.sources.size() < kMaxSources; ++at) {
    const wire::Publish& said = at->second.said;
    const bool fits = said.what.layout == what.layout && said.revision == answer.revision && said.root == answer.root &&
                      !at->second.calls_out;
    if (!fits) continue;
    if (answer.sources.empty()) answer.lineage = said.lineage;
    answer.sources.push_back({at->first.peer, at->second.address, at->second.key});
  }
  return answer;
}

std::vector<std::pair<PeerId, wire::Published>> Publications::take_news(const LinkKey& run) {
  std::vector<std::pair<PeerId, wire::Published>> news;
  for (const auto& [group, tag] : std::exchange(changed_, {})) {
    std::map<wire::Descriptor, wire::Published> answers;
    for (auto at = wanted_.lower_bound(Name{group, tag, PeerId{}}); at != wanted_.end(); ++at) {
      const auto& [name, wish] = *at;
      if (name.group != group || name.tag != tag) break;
      auto known = answers.find(wish.what);
      if (known == answers.end()) known = answers.emplace(wish.what, answer(group, tag, wish.what)).first;
      wire::Published now = known->second;
      if (wish.told && same(*wish.told, now)) continue;
      now.link_key = wire::prefetcher_key(run, name.peer);
      at->second.told = now;
      news.emplace_back(name.peer, std::move(now));
    }
  }
  return news;
}

}  // namespace lockstep::coordinator

#include "core/coordinator/broken_links.h"

#include <algorithm>
#include <cstdint>

#include "core/base/mutant.h"
#include "core/base/text.h"
#include "core/trace/event.h"
#include "core/wire/reach.h"

namespace lockstep::coordinator {

namespace {

constexpr std::size_t kMostOfComplaint = 200;  // bytes of a peer's text about a broken link, for the texts of others

}  // namespace

BrokenLinks::Answer BrokenLinks::report(PeerId from, const wire::LinkBroken& in) {
  const auto violation = [&](std::string why) { return Eviction{from, Status::kProtocolError, std::move(why)}; };
  if (from == in.other) return violation("reported that it cannot reach itself");
  // A newcomer, or a peer that is out of the run already.
  for (const PeerId peer : {from, in.other}) {
    if (!participants_.contains(peer) || !participants_.is_in_run(peer)) return Ignored{};
  }
  const wire::Member* member = membership_.find(from);
  const wire::Member* other_member = membership_.find(in.other);
  if (member != nullptr && other_member != nullptr && member->group != other_member->group) {
    return violation("reported a link to a member of another group");
  }
  for (const PeerId leaver : {from, in.other}) {
    if (!participants_.is_cut(leaver)) continue;
    const PeerId neighbour = leaver == from ? in.other : from;
    return Eviction{leaver, Status::kEvicted,
                    "left, and cannot reach " + participants_.name_of(neighbour) + " to finish its last rounds"};
  }
  LOCKSTEP_ASSERT(member != nullptr && other_member != nullptr);
  if (in.avoid) return report_to_avoid(from, in, *member);
  participants_.complain(from, std::string(lockstep::cut(in.text, kMostOfComplaint)));
  const Pair pair = pair_of(from, in.other);
  const bool was_laid_around = membership_.is_only_avoided(pair) && is_laid_around(pair);
  const Instant since = membership_.mark_broken(pair, context_.now);
  // A report after the rings were laid around the link means that a direct call, or the ring of an older cohort, needs
  // it. Another ring would not help.
  if (was_laid_around || context_.now - since >= context_.options.link_patience) {
    return give_up(from, in.other, "a call still needs that link");
  }
  if (since != context_.now) return Ignored{};  // both ends report the link
  note(from, in);
  return relay(from, in.other, member->group);
}

// Rings were laid around the link so long ago that all members have installed them.
bool BrokenLinks::is_laid_around(const Pair& pair) const {
  return context_.now - membership_.broken_since(pair, context_.now) >= context_.options.heartbeat * 2;
}

Eviction BrokenLinks::give_up(PeerId from, PeerId to, const std::string& why) const {
  const bool from_goes = links_of(from) > links_of(to);
  const PeerId victim = from_goes ? from : to;
  return Eviction{victim, Status::kEvicted, describe(victim, from_goes ? to : from, why)};
}

// Rule 51. A member that is not heard at all may stand still, and no ring helps. When all lines get slow at once, one
// ring is as good as another: one is laid, and not one after the other.
BrokenLinks::Answer BrokenLinks::report_to_avoid(PeerId from, const wire::LinkBroken& in, const wire::Member& member) {
  const Pair pair = pair_of(from, in.other);
  if (connections_.heard_since(from) == kNever || connections_.heard_since(in.other) == kNever) return Ignored{};
  if (membership_.is_marked(pair)) {
    // A call needs it all the same: one with the direct algorithm.
    const bool needed = !membership_.is_only_avoided(pair) && is_laid_around(pair) &&
                        membership_.said_since(pair, context_.now - context_.options.link_patience);
    if (!needed) return Ignored{};
    return give_up(from, in.other, "a call still needs that link");
  }
  const auto avoided = avoided_.find(member.group);
  if (avoided != avoided_.end() && context_.now - avoided->second < context_.options.link_patience) return Ignored{};
  note(from, in);
  avoided_[member.group] = context_.now;
  if (!membership_.can_avoid(pair)) return Ignored{};
  membership_.mark_broken(pair, context_.now, true);
  return relay(from, in.other, member.group);
}

BrokenLinks::Relaid BrokenLinks::relay(PeerId a, PeerId b, GroupId group) {
  around_ = participants_.name_of(a) + " and " + participants_.name_of(b);
  groups_.insert(group);
  return Relaid{};
}

void BrokenLinks::note(PeerId from, const wire::LinkBroken& in) {
  const std::string text = participants_.name_of(from) + (in.avoid ? " had better not send to " : " cannot reach ") +
                           participants_.name_of(in.other) + ": " +
                           (can_link(from, in.other) ? in.text : in.text + "; " + std::string(wire::kNobodyDials));
  context_.note({.kind = trace::Kind::kLinkReported,
                 .view = membership_.view().number,
                 .peer = in.other,
                 .round = {},
                 .text = text});
  context_.trouble(from, in.other, text);
}

bool BrokenLinks::can_link(PeerId a, PeerId b) const {
  const wire::Member* const member = membership_.find(a);
  const wire::Member* const other = membership_.find(b);
  return member == nullptr || other == nullptr || wire::can_link(*member, *other);
}

// With both peers' own words: a peer that has no file descriptors left says so.
std::string BrokenLinks::describe(PeerId victim, PeerId other, const std::string& consequence) const {
  const std::string name = participants_.name_of(other);
  std::string text = "it and " + name + " cannot reach each other, and " + consequence;
  if (!can_link(victim, other)) text += ": " + std::string(wire::kNobodyDials);
  for (const PeerId peer : {victim, other}) {
    const Participant* participant = participants_.find(peer);
    if (participant == nullptr || participant->complaint.empty()) continue;
    text += "; " + (peer == victim ? "it" : name) + " says: " + participant->complaint;
  }
  return text;
}

bool BrokenLinks::has_others(const std::vector<wire::Member>& members, const Pair& pair) const {
  const wire::Member* const member = membership_.find(pair.first);
  return std::count_if(members.begin(), members.end(), [&](const wire::Member& other) {
           return member != nullptr && other.group == member->group;
         }) > 2;
}

BrokenLinks::Links BrokenLinks::links_of(PeerId peer) const {
  return {membership_.broken_links_of(peer, counts_from()), membership_.ever_broken_links_of(peer)};
}

// Of each pair, the member with more broken links must go, else the later one. A link that no ring has needed for a
// while may work again: the ring tries the link before it costs a member the run. If the link is still broken, its ends
// report it again.
std::optional<Eviction> BrokenLinks::unavoidable(const std::vector<wire::Member>& members) {
  std::vector<Pair> pairs = membership_.unavoidable(members);
  const Instant then = counts_from();
  std::erase_if(pairs, [&](const Pair& pair) {
    const bool counts = membership_.said_since(pair, then) && !membership_.is_only_avoided(pair);
    if (counts || mutant(Mutant::kBrokenForEver)) return false;
    membership_.forget_broken(pair);
    return true;
  });
  settles_at_ = kNever;
  if (pairs.empty()) return std::nullopt;
  const Pair pair = pairs.front();
  const auto [a, b] = pair;
  const auto place = [&](PeerId peer) {
    return std::find_if(members.begin(), members.end(), [&](const wire::Member& m) { return m.id == peer; }) -
           members.begin();
  };
  const Links links_a = links_of(a);
  const Links links_b = links_of(b);
  // What hurts one link of a member often hurts its others, and their other ends report it in a moment.
  const Instant settled = membership_.broken_since(pair, context_.now) + context_.options.heartbeat / 2;
  if (links_a.lately == links_b.lately && context_.now < settled && has_others(members, pair)) {
    settles_at_ = settled;
    context_.wake_at(settled);
    return std::nullopt;
  }
  const bool fewer = mutant(Mutant::kFewerLinksPay);
  const PeerId victim = links_a != links_b ? ((links_a > links_b) != fewer ? a : b) : (place(a) > place(b) ? a : b);
  std::string why = describe(victim, victim == a ? b : a, "no ring avoids that link");
  const auto third = std::find_if(members.begin(), members.end(), [&](const wire::Member& m) {
    return m.id != pair.first && m.id != pair.second && mutant(Mutant::kThirdPays);
  });
  return Eviction{third != members.end() ? third->id : victim, Status::kEvicted, std::move(why)};
}

}  // namespace lockstep::coordinator

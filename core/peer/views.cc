#include "core/peer/views.h"

#include <set>
#include <utility>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/trace/event.h"
#include "core/wire/limits.h"
#include "core/wire/reach.h"

namespace lockstep::peer {

namespace {

template <typename T>
std::string number(const T& n) {
  return std::to_string(n.value);
}

}  // namespace

bool Views::are_neighbours(const Cohort::Roster& roster, PeerId a, PeerId b) {
  const std::vector<PeerId>& ring = *roster.ring;
  const auto at = std::find(ring.begin(), ring.end(), a);
  if (at == ring.end()) return false;
  const PeerId next = at + 1 == ring.end() ? ring.front() : *(at + 1);
  const PeerId before = at == ring.begin() ? ring.back() : *(at - 1);
  return a != b && (next == b || before == b);
}

bool Views::has_member(const wire::View& view, PeerId peer) {
  return std::any_of(view.members.begin(), view.members.end(),
                     [&](const wire::Member& member) { return member.id == peer; });
}

// ---- proposals ----

bool Views::is_question(const wire::Propose& proposal) const {
  const wire::View& view = *context_.view;
  return view.number.value == 0 && !proposal_ && proposal.view == view && proposal.lost.empty() &&
         proposal.left.empty() && proposal.relinked.empty() && proposal.kept.empty() && proposal.verdicts.empty();
}

// Rule 28.
std::optional<std::string> Views::validate(const wire::Propose& proposal, bool leaves) const {
  if (proposal.number <= last_proposal_) {
    return "made proposal " + number(proposal.number) + " after " + number(last_proposal_);
  }
  if (is_question(proposal)) return std::nullopt;
  const std::optional<LinkKey>& key = context_.mesh.key();
  if (key && *key != proposal.link_key) return "changed the key of the run";
  if (auto flaw = validate_members(proposal.view)) return flaw;
  if (auto flaw = validate_numbers(proposal)) return flaw;

  // Only a peer that leaves gets views without itself.
  const auto names_me = [&](const std::vector<PeerId>& list) {
    return std::find(list.begin(), list.end(), context_.options.id) != list.end();
  };
  const bool cut = context_.view->number.value != 0 && !is_in(*context_.view);
  const bool is_let_go = cut || (leaves && names_me(proposal.left));
  if (names_me(proposal.lost) || (names_me(proposal.left) && !is_let_go) || is_in(proposal.view) == is_let_go) {
    return std::string(is_let_go ? "proposed to keep this peer, which has left" : "proposed a view without this peer");
  }
  return std::nullopt;
}

std::optional<std::string> Views::validate_members(const wire::View& view) const {
  const auto by_group = [](const wire::Member& a, const wire::Member& b) { return a.group < b.group; };
  if (!std::is_sorted(view.members.begin(), view.members.end(), by_group)) {
    return "proposed a view whose groups are mixed up";
  }
  std::set<PeerId> ids;
  for (const wire::Member& member : view.members) {
    const std::string name = trace::short_name(member.id, member.name);
    if (member.id.is_nobody()) return "proposed a view with a member that has no id";
    if (!ids.insert(member.id).second) return "proposed a view with " + name + " in it twice";
    if (member.address.family == io::Address::Family::kNone || member.address.port == 0) {
      return "proposed a view in which " + name + " listens nowhere";
    }
    if (const Contact* known = find_contact(member.id); known != nullptr && known->key != member.key) {
      return "gave " + name + " another key";
    }
    if (member.id == context_.options.id && member.group != context_.options.group) {
      return "put this peer into another group";
    }
  }
  return std::nullopt;
}

std::optional<std::string> Views::validate_numbers(const wire::Propose& proposal) const {
  const wire::View& now = *context_.view;
  const wire::View& next = proposal.view;
  const bool admits = next.cohort != now.cohort;
  const bool changes = admits || !proposal.lost.empty() || !proposal.left.empty() || !proposal.relinked.empty();
  if (changes ? next.number <= now.number : next.number != now.number) {
    return "proposed view " + number(next.number) + " after " + number(now.number);
  }
  if (next.cohort < now.cohort) return "proposed cohort " + number(next.cohort) + " after " + number(now.cohort);
  if (std::ranges::adjacent_find(next.unmeshed, std::ranges::greater_equal{}) != next.unmeshed.end())
    return "proposed a view whose unmeshed groups are mixed up";
  if (!changes && (next.members != now.members || next.unmeshed != now.unmeshed))
    return "proposed other members under the same number";
  const auto is_new = [&](const wire::Member& member) { return !has_member(now, member.id); };
  if (!admits && std::any_of(next.members.begin(), next.members.end(), is_new)) {
    return "proposed a new member without an admission";
  }
  return std::nullopt;
}

// Rule 4: of several proposals, the newest counts.
void Views::propose(wire::Propose proposal) {
  LOCKSTEP_ASSERT(proposal.number > last_proposal_);
  last_proposal_ = proposal.number;
  if (is_question(proposal)) return;
  proposal_ = std::move(proposal);
  std::vector<wire::Member>& members = proposal_->view.members;
  if (mutant(Mutant::kRingFromMyself)) {
    std::stable_partition(members.begin(), members.end(),
                          [&](const wire::Member& member) { return member.id == context_.options.id; });
  }
  const auto is_own = [&](const wire::Member& member) { return member.id == context_.options.id; };
  const auto own = std::ranges::find_if(members, is_own);
  if (own != members.end()) own_ = *own;
  for (const wire::Member& member : members) {
    const bool dials = mutant(Mutant::kSmallerIdDials) ? own_.id < member.id : wire::dials(own_, member);
    contacts_[member.id] = {wire::addresses_for(own_, member), member.key, dials, member.calls_out,
                            wire::can_link(own_, member)};
  }
}

wire::Propose Views::take_proposal() {
  LOCKSTEP_ASSERT(proposal_.has_value());
  return *std::exchange(proposal_, std::nullopt);
}

// Rule 5.
bool Views::freezes(const RoundKey& key, Generation attempt) const {
  if (!proposal_ || mutant(Mutant::kDoneAfterFlush)) return false;
  const Cohort* cohort = cohort_of(key);
  if (cohort == nullptr) return false;
  if (cohort->touched(key, attempt, *proposal_)) return true;
  return std::any_of(proposal_->verdicts.begin(), proposal_->verdicts.end(),
                     [&](const wire::Verdict& verdict) { return verdict.key == key; });
}

// ---- cohorts ----

Cohort* Views::cohort_of(const RoundKey& key) {
  const auto at = cohorts_.find(key.cohort);
  return at == cohorts_.end() ? nullptr : &at->second;
}

const Cohort* Views::cohort_of(const RoundKey& key) const {
  const auto at = cohorts_.find(key.cohort);
  return at == cohorts_.end() ? nullptr : &at->second;
}

Cohort* Views::newest() {
  const auto at = cohorts_.find(context_.view->cohort);
  return at == cohorts_.end() ? nullptr : &at->second;
}

void Views::found(const wire::View& view) {
  cohorts_.insert_or_assign(view.cohort, Cohort::founded(view, context_.options.group, context_.options.first_use));
}

bool Views::forget_admits() {
  Cohort* cohort = newest();
  if (cohort == nullptr) return false;
  const auto gone = [&](const auto& entry) { return !has_member(*context_.view, entry.first); };
  const bool any = std::erase_if(cohort->pending_admits, gone) > 0;
  if (any) cohort->admits_changed({});
  return any;
}

// Rule 9.
void Views::remember(const wire::Verdict& verdict) {
  Cohort* cohort = newest();
  if (cohort == nullptr || verdict.key.cohort != cohort->id || verdict.status == Status::kOk) return;
  if (is_earlier_use(verdict.key.use, cohort->uses.next(verdict.key.tag)) || mutant(Mutant::kUsedUpForgotten)) return;
  cohort->remember(verdict);
}

void Views::forget_outcomes() {
  for (auto& [id, cohort] : cohorts_) cohort.forget_remembered();
}

bool Views::is_to_come(const RoundKey& key, Generation attempt, bool launched) const {
  const Cohort* cohort = cohort_of(key);
  if (cohort == nullptr) return key.cohort > context_.view->cohort;
  if (attempt < cohort->attempt_of(key)) return false;
  if (launched) return true;
  if (key.cohort < context_.view->cohort || cohort->early_verdicts.contains(key))
    return false;  // never to be begun here
  return !is_earlier_use(key.use, cohort->uses.next(key.tag));
}

// Rule 31.
bool Views::is_stale(const RoundKey& key, Generation attempt, bool launched) const {
  const Cohort* cohort = cohort_of(key);
  if (cohort == nullptr) return key.cohort <= context_.view->cohort;
  if (key.cohort < context_.view->cohort && !launched) return true;
  return attempt < cohort->attempt_of(key);
}

std::size_t Views::remembered() const {
  std::size_t remembered = 0;
  for (const auto& [id, cohort] : cohorts_) remembered += cohort.early_verdicts.size();
  return remembered;
}

void Views::assert_invariants() const {
  LOCKSTEP_ASSERT(!proposal_ || proposal_->number == last_proposal_);
  for (const auto& [id, cohort] : cohorts_) {
    LOCKSTEP_ASSERT(id == cohort.id && id <= context_.view->cohort);
    cohort.assert_invariants();
  }
}

// ---- links ----

void Views::add_ring(const Cohort::Roster& roster, bool direct, bool needed, Links& links) const {
  const std::vector<PeerId>& ring = *roster.ring;
  const PeerId own = context_.options.id;
  const auto me = std::find(ring.begin(), ring.end(), own);
  if (me == ring.end() || ring.size() < 2) return;
  const auto at = static_cast<std::size_t>(me - ring.begin());
  for (const PeerId peer : {ring[(at + 1) % ring.size()], ring[(at + ring.size() - 1) % ring.size()]}) {
    const auto before = links.find(peer);
    links[peer] = {contacts_.at(peer), needed || (before != links.end() && before->second.needed)};
  }
  const bool all = roster.peer_commit || roster.reach == ring::Reach::kAll || direct;
  if (!all && roster.reach != ring::Reach::kGrid) return;
  const ring::Grid grid = ring::Grid::square(static_cast<std::uint32_t>(ring.size()));
  for (std::uint32_t rank = 0; rank < ring.size(); ++rank) {  // peer commits (rule 14), or rounds beside the ring
    if (rank == at || (!all && !grid.are_linked(static_cast<std::uint32_t>(at), rank))) continue;
    links.try_emplace(ring[rank], Mesh::Wanted{contacts_.at(ring[rank]), false, std::nullopt,
                                               direct ? wire::LinkUse::kDirect : wire::LinkUse::kRing});
  }
}

void Views::add_rings(bool direct, Links& links) const {
  for (const auto& [id, cohort] : cohorts_) {
    const bool newest = id == context_.view->cohort;
    if (newest) add_ring(cohort.now(), direct, true, links);
    if (proposal_) add_ring(cohort.roster_in(proposal_->view, &cohort.now()), direct, newest, links);
    for (const auto& [key, generation] : cohort.retained_for_leavers)
      add_ring(cohort.generations.at(generation), direct, false, links);
  }
}

void Views::add_proposed_ring(bool direct, Links& links) const {
  if (proposal_) add_ring(Cohort::founded(proposal_->view, context_.options.group).now(), direct, true, links);
}

void Views::forget_contacts() {
  std::set<PeerId> needed;
  for (const auto& [id, cohort] : cohorts_) {
    for (const auto& [number, generation] : cohort.generations) {
      needed.insert(generation.ring->begin(), generation.ring->end());
    }
  }
  for (const wire::Member& member : context_.view->members) needed.insert(member.id);
  if (proposal_) {
    for (const wire::Member& member : proposal_->view.members) needed.insert(member.id);
  }
  std::erase_if(contacts_, [&](const auto& entry) { return !needed.contains(entry.first); });
}

}  // namespace lockstep::peer

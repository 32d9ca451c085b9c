#include "core/peer/round_links.h"

#include <algorithm>

namespace lockstep::peer {

// A round of an earlier generation, or cohort, needs the links of its own ring. So does a round that is retained for a
// leaver and that this peer is still to launch.
bool RoundLinks::needs_link(PeerId to) const {
  if (std::any_of(rounds_.begin(), rounds_.end(), [&](const auto& entry) { return needs_link(entry.second, to); })) {
    return true;
  }
  const PeerId own = context_.options.id;
  return std::ranges::any_of(views_.cohorts(), [&](const auto& entry) {
    const Cohort& cohort = entry.second;
    return std::ranges::any_of(cohort.retained_for_leavers, [&](const auto& retained) {
      return rounds_.find(retained.first) == nullptr &&
             Views::are_neighbours(cohort.generations.at(retained.second), own, to);
    });
  });
}

// A member that has the Done of all ends its round, and lets links go that no other round needs (rule 14). A member
// that is done needs no data, and a neighbour that needs some reports the link by itself. A link across the ring is
// reported by the peer that dials, until it knows that the other peer is done: the other peer may have launched, and
// wait, while the peer that dials has not.
bool RoundLinks::needs_link(const Round& round, PeerId to) const {
  const PeerId own = context_.options.id;
  const Contact* const contact = views_.find_contact(to);
  const bool dials = contact != nullptr && contact->dials;
  if (round.attempted() && round.attempt->direct && dials && round.attempt->receiver(to)) {
    const bool over = round.is<stage::Done>() && round.commits_among_peers() && round.attempt->agrees(to);
    if (!over) return true;
  }
  if (!round.open() || round.is<stage::Done>()) return false;
  const Cohort* const cohort = views_.cohort_of(*round.key);
  if (cohort == nullptr) return false;
  const bool is_now = cohort->id == context_.view->cohort && round.generation == cohort->current;
  const auto among = cohort->generations.find(round.generation);
  return !is_now && among != cohort->generations.end() && Views::are_neighbours(among->second, own, to);
}

// A link that is up has found a way.
const PeerId* RoundLinks::find_beyond_reach(const Attempt& attempt) const {
  if (!attempt.direct) return nullptr;
  const auto other = std::ranges::find_if(*attempt.ring, [&](PeerId peer) {
    const Contact* const contact = views_.find_contact(peer);
    const bool no_way = contact != nullptr && !contact->can_link && attempt.receiver(peer);
    return no_way && !context_.mesh.first_stream(peer);
  });
  return other == attempt.ring->end() ? nullptr : &*other;
}

// A leaver is in no current ring, but in the generation of the rounds that were retained for it (rule 22). A member
// that has installed the next view may call before this peer installs it.
void RoundLinks::on_direct_caller(PeerId from) {
  if (views_.proposal() && Views::has_member(views_.proposal()->view, from)) return go_direct();
  for (const auto& [id, cohort] : views_.cohorts()) {
    for (const auto& [generation, roster] : cohort.generations) {
      if (std::find(roster.ring->begin(), roster.ring->end(), from) != roster.ring->end()) return go_direct();
    }
  }
}

void RoundLinks::add(Views::Links& links) const {
  for (const auto& [order, round] : rounds_) {
    if (!round.open()) continue;
    if (round.sync && round.attempted()) {
      for (const PeerId peer : round.sync->partners()) {
        links.try_emplace(peer, Mesh::Wanted{views_.contact_of(peer), false});
      }
    }
    const Cohort* cohort = views_.cohort_of(*round.key);
    if (cohort == nullptr) continue;
    const auto among = cohort->generations.find(round.generation);
    if (among != cohort->generations.end()) views_.add_ring(among->second, direct_, false, links);
  }
}

}  // namespace lockstep::peer

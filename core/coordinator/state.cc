// All that a coordinator holds, named for recordings; as peer/state.cc.
#include "core/wire/state.h"
#include "core/coordinator/machine.h"
#include "core/flight/archive.h"
#include "core/flight/census.h"
#include "core/flight/fields.h"

namespace lockstep::coordinator {

// Left out: options_, that it is made of, and pumped_, which is empty between two steps.
template <typename Archive>
void Coordinator::Machine::state(Archive& a) {
  LOCKSTEP_ASSERT(out_ == nullptr);  // between two steps
  a.all(born_, now_, lobby_, seats_, dirty_, arrivals_, last_admissible_, next_heartbeat_, next_look_, membership_,
        rounds_, publications_, lost_, suspects_, relink_, admit_cancelled_, changed_, drafts_, proposal_,
        compared_since_, last_proposal_, last_view_, pending_told_, counters_.commits, counters_.aborts,
        counters_.admitted, counters_.lost, counters_.left, counters_.bytes_reduced);
  if constexpr (Archive::kLoads) {
    parties_.clear();
    a.entries(parties_, [this](StreamId stream) -> Party& {
      return parties_.try_emplace(stream, stream, Instant{}, io::Address{}).first->second;
    });
  } else {
    a.all(parties_);
  }
}

Holdings Coordinator::Machine::holdings() {
  flight::Census census;
  state(census);
  for (const auto& [stream, party] : parties_) census.kept(party.channel.memory());
  census.kept((dirty_.capacity() + pumped_.capacity()) * sizeof(StreamId));
  Holdings held{census.entries(), census.bytes()};
  held.members = membership_.view().members.size();
  held.streams = parties_.size();
  held.waiting = membership_.candidates().size();
  held.strangers = parties_.size() - std::min(parties_.size(), seats_.size());
  held.broken = membership_.broken_pairs();
  held.tags = rounds_.agreed_entries();
  held.digests = publications_.entries();
  held.spare = lobby_.entries();
  return held;
}

Holdings Coordinator::holdings() const { return machine_->holdings(); }

void Coordinator::save(std::vector<std::byte>& out) const {
  flight::Saver saver(out);
  machine_->state(saver);
}

bool Coordinator::load(std::span<const std::byte> state, Effects& lent) {
  flight::Loader loader(state);
  machine_->state(loader);
  if (loader.failed() || !loader.rest().empty()) return false;
  machine_->lend_again(lent);
  return true;
}

}  // namespace lockstep::coordinator

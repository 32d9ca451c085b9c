// All that a coordinator holds, named for recordings; as peer/archive.cc.
#include "core/archive/archive.h"
#include "core/archive/census.h"
#include "core/coordinator/fields.h"
#include "core/coordinator/machine.h"
#include "core/wire/state.h"

namespace lockstep::coordinator {

// Left out: context_, which is saved before it, and pumped_, which is empty between two steps.
template <typename Archive>
void Connections::archive(Archive& a) {
  a.all(stream_of_, lobby_, dirty_, next_heartbeat_);
  if constexpr (Archive::kLoads) {
    connections_.clear();
    a.entries(connections_, [this](StreamId stream) -> Connection& {
      return connections_.try_emplace(stream, stream, Instant{}, io::Address{}, io::Identity{}).first->second;
    });
  } else {
    a.all(connections_);
  }
}

// Left out: context_, which is saved before it, and answers_, which is empty between two steps.
template <typename Archive>
void DialBack::archive(Archive& a) {
  a.all(names_);
  if constexpr (Archive::kLoads) {
    attempts_.clear();
    a.entries(attempts_, [this](StreamId stream) -> Attempt& {
      return attempts_.try_emplace(stream, stream, Instant{}, PeerId{}, io::KeyDigest{}).first->second;
    });
  } else {
    a.all(attempts_);
  }
}

template <typename Archive>
void Coordinator::Machine::archive(Archive& a) {
  LOCKSTEP_ASSERT(context_.effects == nullptr);  // between two steps
  a.all(context_, connections_, dial_back_, grants_, exclusions_, membership_, rounds_, participants_, newcomers_,
        broken_links_, proposals_, publications_, waits_, lost_, changed_, compared_since_, announced_, counters_);
}

Holdings Coordinator::Machine::holdings() {
  archive::Census census;
  archive(census);
  census.kept(connections_.memory() + dial_back_.memory());
  Holdings held{census.entries(), census.bytes()};
  held.members = membership_.view().members.size();
  held.streams = connections_.size() + dial_back_.size();
  held.waiting = membership_.candidates().size();
  held.strangers = connections_.size() - std::min(connections_.size(), participants_.size());
  held.broken = membership_.broken_entries();
  held.tags = rounds_.agreed_entries();
  held.digests = publications_.entries();
  held.spare = connections_.lobby_entries() + context_.troubles.size() + broken_links_.avoided_groups() +
               grants_.entries() + exclusions_.entries();
  return held;
}

Holdings Coordinator::holdings() const { return machine_->holdings(); }

void Coordinator::save(std::vector<std::byte>& out) const {
  archive::Saver saver(out);
  machine_->archive(saver);
}

bool Coordinator::load(std::span<const std::byte> state, Effects& lent) {
  archive::Loader loader(state);
  machine_->archive(loader);
  if (loader.failed() || !loader.rest().empty()) return false;
  machine_->lend_again(lent);
  return true;
}

}  // namespace lockstep::coordinator

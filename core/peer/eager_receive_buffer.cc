#include "core/peer/eager_receive_buffer.h"

#include <algorithm>

#include "core/base/assert.h"
#include "core/buffers/buffer_ref.h"
#include "core/ring/schedule.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

namespace {

static_assert(ring::kWholeBytes <= kEarlySlotBytes);

// Of each neighbour: as many rounds as it can run ahead of us, of this attempt and of one that was given up.
constexpr std::size_t kMaxEntries = std::size_t{2} * kMaxRoundsInFlight;

bool is_of(const std::tuple<RoundKey, Generation, PeerId>& name, const RoundKey& key, Generation attempt) {
  return std::get<RoundKey>(name) == key && std::get<Generation>(name) == attempt;
}

}  // namespace

bool EagerReceiveBuffer::expect(PeerId from, const wire::Offer& offer) {
  const Name name{offer.key, offer.attempt, from};
  if (const auto known = entries_.find(name); known != entries_.end()) {
    known->second.follows = known->second.follows || offer.follows;
    return true;
  }
  const auto is_its = [&](const auto& entry) { return std::get<PeerId>(entry.first) == from; };
  if (entries_.size() >= kMaxEntries &&
      static_cast<std::size_t>(std::count_if(entries_.begin(), entries_.end(), is_its)) >= kMaxEntries) {
    return false;
  }
  entries_.emplace(name, Entry{offer.what, offer.follows, {}});
  return true;
}

ring::Operation::SegmentPlace EagerReceiveBuffer::begin(PeerId from, StreamId stream, const wire::Segment& segment) {
  using Landing = ring::Operation::Landing;
  stream_closed(stream);
  const Name name{segment.key, generation_of(segment.attempt), from};
  const auto at = entries_.find(name);
  const bool wanted = at != entries_.end() && !at->second.early.contains(segment.index);
  if (!wanted || is_filling(name, segment.index)) return {Landing::kSink, {}};
  if (segment.phase != wire::Phase::kReduceScatter) return {Landing::kSink, {}};  // of a round that was given up here
  if (segment.length > kEarlySlotBytes) return {Landing::kNonsense, {}};
  const std::optional<BufferRef> slot = take_slot(from, segment.length);
  if (!slot) return {Landing::kNonsense, {}};  // more than it may have under way
  fillings_.emplace(stream, Filling{name, segment.index, *slot});
  return {Landing::kPlace, *slot};
}

EagerReceiveBuffer::Entry* EagerReceiveBuffer::landed(StreamId stream, const wire::SegmentEnded& segment) {
  const auto filling = fillings_.find(stream);
  LOCKSTEP_ASSERT(filling != fillings_.end() && filling->second.slot == segment.into);
  const auto at = entries_.find(filling->second.name);
  fillings_.erase(filling);
  const bool wanted = at != entries_.end() && !at->second.early.contains(segment.segment.index);
  if (!wanted || segment.taken_back) {
    free_slot(segment.into);
    return nullptr;
  }
  at->second.early.emplace(segment.segment.index, Early{segment, stream, false});
  return &at->second;
}

void EagerReceiveBuffer::stream_closed(StreamId stream) {
  const auto filling = fillings_.find(stream);
  if (filling == fillings_.end()) return;
  free_slot(filling->second.slot);
  fillings_.erase(filling);
}

EagerReceiveBuffer::Entry* EagerReceiveBuffer::find(PeerId from, const RoundKey& key, Generation attempt) {
  const auto at = entries_.find({key, attempt, from});
  return at == entries_.end() ? nullptr : &at->second;
}

std::vector<PeerId> EagerReceiveBuffer::offering(const RoundKey& key, Generation attempt) const {
  std::vector<PeerId> from;
  for (auto at = entries_.lower_bound({key, attempt, {}}); at != entries_.end() && is_of(at->first, key, attempt); ++at)
    from.push_back(std::get<PeerId>(at->first));
  return from;
}

// The entry stays as long as more of its segments may come.
void EagerReceiveBuffer::used(PeerId from, const RoundKey& key, Generation attempt, SegmentIndex index) {
  const auto at = entries_.find({key, attempt, from});
  LOCKSTEP_ASSERT(at != entries_.end());
  const auto early = at->second.early.find(index);
  LOCKSTEP_ASSERT(early != at->second.early.end() && early->second.taken);
  free_slot(early->second.segment.into);
  at->second.early.erase(early);
  if (at->second.early.empty() && !is_filling(at->first, std::nullopt)) entries_.erase(at);
}

void EagerReceiveBuffer::drop(const RoundKey& key, Generation attempt) {
  for (auto at = entries_.lower_bound({key, attempt, {}}); at != entries_.end() && is_of(at->first, key, attempt);)
    at = erase(at);
  std::erase_if(fillings_, [&](const auto& filling) {
    if (!is_of(filling.second.name, key, attempt)) return false;
    free_slot(filling.second.slot);
    return true;
  });
}

EagerReceiveBuffer::Entries::iterator EagerReceiveBuffer::erase(Entries::iterator at) {
  for (const auto& [index, early] : at->second.early) free_slot(early.segment.into);
  return entries_.erase(at);
}

bool EagerReceiveBuffer::is_filling(const Name& name, std::optional<SegmentIndex> index) const {
  return std::any_of(fillings_.begin(), fillings_.end(), [&](const auto& entry) {
    return entry.second.name == name && (!index || entry.second.index == *index);
  });
}

std::size_t EagerReceiveBuffer::slots_of(PeerId from) const {
  std::size_t filled = 0;
  for (const auto& [name, entry] : entries_) filled += std::get<PeerId>(name) == from ? entry.early.size() : 0;
  const auto filling = std::count_if(fillings_.begin(), fillings_.end(),
                                     [&](const auto& entry) { return std::get<PeerId>(entry.second.name) == from; });
  return filled + static_cast<std::size_t>(filling);
}

std::optional<BufferRef> EagerReceiveBuffer::take_slot(PeerId from, std::uint32_t length) {
  if (used_ - free_.size() >= kEarlySlotsEach && slots_of(from) >= kEarlySlotsEach) return std::nullopt;
  std::uint32_t slot = used_;
  if (!free_.empty()) {
    slot = free_.back();
    free_.pop_back();
  } else if (used_ == kEarlySlots) {
    return std::nullopt;
  } else {
    ++used_;
  }
  return BufferRef{kEarlyBuffer, slot * kEarlySlotBytes, length};
}

void EagerReceiveBuffer::free_slot(const BufferRef& slot) {
  free_.push_back(static_cast<std::uint32_t>(slot.offset / kEarlySlotBytes));
}

}  // namespace lockstep::peer

// Small segments that neighbours send before this peer has launched the round (rule 10 of docs/protocol.md). Keeps the
// arguments of each offer, and the slots that its segments lie in. Does nothing with the bytes.
//
// The slots are places in kEarlyBuffer, one segment each. A slot belongs to the stream that fills it, then to its
// entry. Invariant: an offer of one neighbour changes no entry of another, and no neighbour can take the slots of all.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "core/base/ids.h"
#include "core/ring/operation.h"
#include "core/wire/link_reader.h"
#include "core/wire/message.h"

namespace lockstep::peer {

class EagerReceiveBuffer {
 public:
  // A segment that has come, whole.
  struct Early {
    wire::SegmentEnded segment;  // `into` is the slot
    StreamId stream;             // that brought it
    bool taken = false;          // an operation reads the slot
    template <typename Archive>
    void archive(Archive& a) {
      a.all(segment, stream, taken);
    }
  };
  struct Entry {
    wire::Descriptor what;
    bool follows = false;                 // segments come without a Ready, or have come
    std::map<SegmentIndex, Early> early;  // that have come
    [[nodiscard]] bool taken() const {
      return std::any_of(early.begin(), early.end(), [](const auto& one) { return one.second.taken; });
    }
    template <typename Archive>
    void archive(Archive& a) {
      a.all(what, follows, early);
    }
  };

  // The neighbour offers segments of its round. An offer that is repeated keeps the segments that have come. False:
  // more rounds than the neighbour can have in flight.
  [[nodiscard]] bool expect(PeerId from, const wire::Offer& offer);
  // A segment begins that no operation has a place for. It gets a slot, or goes to the sink when it was not offered,
  // is here or is on its way. If the segment that filled a slot from this stream before did not land there, it went to
  // the sink.
  ring::Operation::SegmentPlace begin(PeerId from, StreamId stream, const wire::Segment& segment);
  // A segment in a slot has ended. Returns its entry, if that is still wanted.
  Entry* landed(StreamId stream, const wire::SegmentEnded& segment);
  void stream_closed(StreamId stream);

  [[nodiscard]] Entry* find(PeerId from, const RoundKey& key, Generation attempt);
  // The operation has read the slot.
  void used(PeerId from, const RoundKey& key, Generation attempt, SegmentIndex index);
  // This attempt is over, and no stream holds its memory (rule 16).
  void drop(const RoundKey& key, Generation attempt);
  // Forgets entries for which `stale(key, attempt, from)` holds, except those that an operation reads.
  template <typename Stale>
  void drop_if(Stale stale) {
    for (auto at = entries_.begin(); at != entries_.end();) {
      const auto& [key, attempt, from] = at->first;
      at = !at->second.taken() && stale(key, attempt, from) ? erase(at) : std::next(at);
    }
  }

  // Whether some neighbour offers this round, in any attempt.
  [[nodiscard]] bool has(const RoundKey& key) const {
    const auto at = entries_.lower_bound({key, Generation{}, PeerId{}});
    return at != entries_.end() && std::get<RoundKey>(at->first) == key;
  }
  // The rounds that are offered: `visit(key, attempt)`.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (const auto& [name, entry] : entries_) visit(std::get<RoundKey>(name), std::get<Generation>(name));
  }
  // The neighbours that have offered this attempt.
  [[nodiscard]] std::vector<PeerId> offering(const RoundKey& key, Generation attempt) const;
  // Entries, and slots that are being filled.
  [[nodiscard]] std::size_t size() const { return entries_.size() + fillings_.size(); }

  // Entries, slots that are being filled and slots that are taken, of rounds for which `is(key, attempt)`.
  template <typename Is>
  [[nodiscard]] std::size_t count_if(Is is) const {
    std::size_t count = 0;
    for (const auto& [name, entry] : entries_) {
      if (is(std::get<RoundKey>(name), std::get<Generation>(name))) count += 1 + 2 * entry.early.size();
    }
    for (const auto& [stream, filling] : fillings_) {
      if (is(std::get<RoundKey>(filling.name), std::get<Generation>(filling.name))) count += 2;
    }
    return count;
  }
  [[nodiscard]] std::size_t free_slots() const { return free_.size(); }
  [[nodiscard]] std::size_t taken_slots() const { return used_ - free_.size(); }

  template <typename Archive>
  void archive(Archive& a) {
    a.all(entries_, fillings_, free_, used_);
  }

 private:
  using Name = std::tuple<RoundKey, Generation, PeerId>;
  using Entries = std::map<Name, Entry>;
  struct Filling {
    Name name;
    SegmentIndex index;
    BufferRef slot;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(name, index, slot);
    }
  };

  Entries::iterator erase(Entries::iterator at);
  // A slot of this entry, or the slot of this segment.
  [[nodiscard]] bool is_filling(const Name& name, std::optional<SegmentIndex> index) const;
  [[nodiscard]] std::size_t slots_of(PeerId from) const;
  std::optional<BufferRef> take_slot(PeerId from, std::uint32_t length);
  void free_slot(const BufferRef& slot);

  Entries entries_;
  std::map<StreamId, Filling> fillings_;
  std::vector<std::uint32_t> free_;  // slots that were used before; the last one is warm
  std::uint32_t used_ = 0;           // slots that ever were
};

}  // namespace lockstep::peer

// What upstream neighbours send of rounds that this peer has not launched yet: small tensors come without having been asked for.
// Knows their arguments and where their bytes lie meanwhile; nothing of what is done with them.
//
// The slots are places in kEarlyBuffer, one segment each. A slot belongs to the stream that fills it, then to its entry. What one
// neighbour says of a round touches nothing that another has said, and none can take the slots of all.
#pragma once

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

class Early {
 public:
  struct Entry {
    wire::Descriptor what;
    bool follows = false;                       // its segment comes by itself, or has come
    bool taken = false;                         // an operation reads the slot
    std::optional<wire::SegmentEnded> segment;  // whole; `into` is the slot
    StreamId stream;                            // that it came on
    template <typename Archive>
    void state(Archive& a) {
      a.all(what, follows, taken, segment, stream);
    }
  };

  // The neighbour says that its round is on. Said again after a stream was lost: what has come stays. False: more rounds than it
  // can have in flight.
  [[nodiscard]] bool expect(PeerId from, const wire::Offer& offer);
  // A segment that nobody here has a place for: a slot, or the sink when it is not expected, is here or comes twice. What the
  // stream filled before and did not land went to the sink.
  ring::Operation::Place begin(PeerId from, StreamId stream, const wire::Segment& segment);
  // A segment in a slot has ended. Its entry, if it is still wanted.
  Entry* landed(StreamId stream, const wire::SegmentEnded& segment);
  void stream_closed(StreamId stream);

  [[nodiscard]] Entry* find(PeerId from, const RoundKey& key, Generation attempt);
  // Nobody reads the slot any more; its stream has long ended there.
  void used(PeerId from, const RoundKey& key, Generation attempt);
  // This attempt is over, and no stream holds its memory.
  void drop(const RoundKey& key, Generation attempt);
  // Nobody wants these any more. `stale(key, attempt, from)`; what an operation reads stays.
  template <typename Stale>
  void drop_if(Stale stale) {
    for (auto at = entries_.begin(); at != entries_.end();) {
      const auto& [key, attempt, from] = at->first;
      at = !at->second.taken && stale(key, attempt, from) ? erase(at) : std::next(at);
    }
  }

  // Entries, and slots that are being filled.
  [[nodiscard]] std::size_t size() const { return entries_.size() + fillings_.size(); }

  // Entries, slots that are being filled and slots that are taken, of rounds for which `is(key, attempt)`.
  template <typename Is>
  [[nodiscard]] std::size_t count_if(Is is) const {
    std::size_t count = 0;
    for (const auto& [name, entry] : entries_) {
      if (is(std::get<RoundKey>(name), std::get<Generation>(name))) count += entry.segment ? 2 : 1;
    }
    for (const auto& [stream, filling] : fillings_) {
      if (is(std::get<RoundKey>(filling.name), std::get<Generation>(filling.name))) count += 2;
    }
    return count;
  }
  [[nodiscard]] std::size_t free_slots() const { return free_.size(); }
  [[nodiscard]] std::size_t taken_slots() const { return used_ - free_.size(); }

  template <typename Archive>
  void state(Archive& a) {
    a.all(entries_, fillings_, free_, used_);
  }

 private:
  using Name = std::tuple<RoundKey, Generation, PeerId>;
  using Entries = std::map<Name, Entry>;
  struct Filling {
    Name name;
    BufferRef slot;
    template <typename Archive>
    void state(Archive& a) {
      a.all(name, slot);
    }
  };

  Entries::iterator erase(Entries::iterator at);
  [[nodiscard]] bool is_filling(const Name& name) const;
  [[nodiscard]] std::size_t slots_of(PeerId from) const;
  std::optional<BufferRef> take_slot(PeerId from, std::uint32_t length);
  void free_slot(const BufferRef& slot);

  Entries entries_;
  std::map<StreamId, Filling> fillings_;
  std::vector<std::uint32_t> free_;  // slots that were used before; the last one is warm
  std::uint32_t used_ = 0;           // slots that ever were
};

}  // namespace lockstep::peer

#include "core/peer/eager_receive_buffer.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "core/buffers/buffer_ref.h"
#include "core/wire/limits.h"

namespace lockstep::peer {
namespace {

using Landing = ring::Operation::Landing;

constexpr PeerId kAnn{1, 1};
constexpr PeerId kBob{2, 2};
constexpr StreamId kOne{1};
constexpr StreamId kTwo{2};
constexpr Generation kAttempt{3};

// The tag identifies a round.
struct Rounds {
  static RoundKey round(std::uint64_t tag) { return {CohortId{1}, {}, Tag{tag}, 0}; }
  static wire::Offer offer(std::uint64_t tag, bool follows = true) { return {round(tag), kAttempt, {}, follows}; }
  static wire::Segment segment(std::uint64_t tag, std::uint32_t length = 100, std::uint32_t index = 0) {
    return {round(tag), attempt_id(kAttempt), wire::Phase::kReduceScatter, SegmentIndex{index}, length};
  }

  Landing begin(std::uint64_t tag, PeerId from = kAnn, StreamId stream = kOne, std::uint32_t index = 0) {
    place = early.begin(from, stream, segment(tag, 100, index));
    return place.landing;
  }
  EagerReceiveBuffer::Entry* land(std::uint64_t tag, StreamId stream = kOne, bool taken_back = false,
                                  std::uint32_t index = 0) {
    return early.landed(stream, {segment(tag, 100, index), place.into, false, taken_back, tag});
  }
  void bring(std::uint64_t tag, PeerId from = kAnn, StreamId stream = kOne, std::uint32_t index = 0) {
    EXPECT_TRUE(early.expect(from, offer(tag)));
    EXPECT_EQ(begin(tag, from, stream, index), Landing::kPlace);
    EXPECT_NE(land(tag, stream, false, index), nullptr);
  }
  EagerReceiveBuffer::Entry* find(std::uint64_t tag, PeerId from = kAnn) {
    return early.find(from, round(tag), kAttempt);
  }
  // The segment of a round, once it is here; else null.
  EagerReceiveBuffer::Early* here(std::uint64_t tag, std::uint32_t index = 0) {
    EagerReceiveBuffer::Entry* const entry = find(tag);
    if (entry == nullptr) return nullptr;
    const auto at = entry->early.find(SegmentIndex{index});
    return at == entry->early.end() ? nullptr : &at->second;
  }
  // An operation takes the segment, and reads it.
  void use(std::uint64_t tag, std::uint32_t index = 0) {
    ASSERT_NE(here(tag, index), nullptr);
    here(tag, index)->taken = true;
    early.used(kAnn, round(tag), kAttempt, SegmentIndex{index});
  }
  // The number of slots that new neighbours can get.
  std::size_t room(std::uint64_t from_tag = 1'000'000) {
    std::size_t slots = 0;
    for (std::uint64_t n = 1000; n < 1000 + kEarlySlots; ++n) {
      const PeerId from{n, n};
      const std::size_t before = slots;
      while (early.expect(from, offer(from_tag + slots)) && begin(from_tag + slots, from, kTwo) == Landing::kPlace) {
        EXPECT_NE(land(from_tag + slots, kTwo), nullptr);
        ++slots;
      }
      EXPECT_LE(slots - before, kEarlySlotsEach);
      if (slots == before) break;
    }
    early.drop_if([&](const RoundKey& key, Generation, PeerId) { return key.tag.value >= from_tag; });
    return slots;
  }

  EagerReceiveBuffer early;
  ring::Operation::SegmentPlace place;  // of the last begin()
};

TEST(EagerReceiveBuffer, FindsASegmentThatWasOfferedAndReceived) {
  Rounds r;
  EXPECT_EQ(r.find(7), nullptr);
  ASSERT_TRUE(r.early.expect(kAnn, r.offer(7)));
  ASSERT_NE(r.find(7), nullptr);
  EXPECT_TRUE(r.find(7)->follows);
  EXPECT_TRUE(r.find(7)->early.empty());
  EXPECT_EQ(r.find(7, kBob), nullptr);
  EXPECT_EQ(r.early.find(kAnn, r.round(7), Generation{4}), nullptr);
  EXPECT_EQ(r.begin(7), Landing::kPlace);
  EXPECT_EQ(r.place.into.id, kEarlyBuffer);
  EXPECT_EQ(r.place.into.length, 100U);
  EXPECT_EQ(r.early.size(), 2U);  // the entry, and the slot that a segment fills
  const EagerReceiveBuffer::Entry* entry = r.land(7);
  EXPECT_EQ(entry, r.find(7));
  EXPECT_EQ(r.early.size(), 1U);
  ASSERT_EQ(entry->early.size(), 1U);
  const EagerReceiveBuffer::Early* const early = r.here(7);
  ASSERT_NE(early, nullptr);
  EXPECT_EQ(early->segment.into, r.place.into);
  EXPECT_EQ(early->segment.checksum, 7U);
  EXPECT_EQ(early->stream, kOne);
  EXPECT_FALSE(early->taken);
  EXPECT_FALSE(entry->taken());
}

TEST(EagerReceiveBuffer, ARepeatedOfferKeepsTheReceivedSegment) {
  Rounds r;
  ASSERT_TRUE(r.early.expect(kAnn, r.offer(7, false)));
  EXPECT_FALSE(r.find(7)->follows);
  r.bring(7);
  EXPECT_TRUE(r.find(7)->follows);
  ASSERT_TRUE(r.early.expect(kAnn, r.offer(7, false)));
  EXPECT_TRUE(r.find(7)->follows);
  EXPECT_NE(r.here(7), nullptr);
}

// ---- several segments of one offer ----

TEST(EagerReceiveBuffer, KeepsSeveralSegmentsOfAnOfferInSlotsOfTheirOwn) {
  Rounds r;
  std::set<std::uint64_t> offsets;
  for (const std::uint32_t index : {5U, 0U, 3U}) {  // in any order
    r.bring(7, kAnn, kOne, index);                  // an offer goes before each of them
    EXPECT_TRUE(offsets.insert(r.place.into.offset).second);
  }
  ASSERT_EQ(r.find(7)->early.size(), 3U);
  for (const std::uint32_t index : {5U, 0U, 3U}) {
    ASSERT_NE(r.here(7, index), nullptr);
    EXPECT_EQ(r.here(7, index)->segment.segment.index, SegmentIndex{index});
    EXPECT_EQ(r.begin(7, kAnn, kOne, index), Landing::kSink);  // it is here
  }
  EXPECT_EQ(r.early.size(), 1U);
  EXPECT_EQ(r.early.taken_slots(), 3U);
}

TEST(EagerReceiveBuffer, SegmentsOfAnOfferArriveOnTwoStreamsAtOnce) {
  Rounds r;
  ASSERT_TRUE(r.early.expect(kAnn, r.offer(7)));
  EXPECT_EQ(r.begin(7, kAnn, kOne, 0), Landing::kPlace);
  const auto first = r.place;
  EXPECT_EQ(r.begin(7, kAnn, kTwo, 1), Landing::kPlace);
  EXPECT_NE(r.place.into, first.into);
  EXPECT_NE(r.land(7, kTwo, false, 1), nullptr);
  EXPECT_EQ(r.here(7, 0), nullptr);
  r.place = first;
  EXPECT_NE(r.land(7, kOne, false, 0), nullptr);
  EXPECT_EQ(r.find(7)->early.size(), 2U);
}

TEST(EagerReceiveBuffer, AUsedSegmentFreesItsSlotAndTheOthersStay) {
  Rounds r;
  for (const std::uint32_t index : {0U, 1U, 2U}) r.bring(7, kAnn, kOne, index);
  const BufferRef slot = r.here(7, 1)->segment.into;
  r.use(7, 1);
  ASSERT_NE(r.find(7), nullptr);
  EXPECT_EQ(r.here(7, 1), nullptr);
  EXPECT_NE(r.here(7, 0), nullptr);
  EXPECT_NE(r.here(7, 2), nullptr);
  EXPECT_FALSE(r.find(7)->taken());
  r.bring(8);
  EXPECT_EQ(r.place.into, slot);
  r.use(7, 0);
  EXPECT_NE(r.find(7), nullptr);
  r.use(7, 2);
  EXPECT_EQ(r.find(7), nullptr);
  EXPECT_EQ(r.early.taken_slots(), 1U);
}

TEST(EagerReceiveBuffer, ASegmentIsUsedWhileAnotherFillsItsSlot) {
  Rounds r;
  r.bring(7, kAnn, kOne, 0);
  EXPECT_EQ(r.begin(7, kAnn, kTwo, 1), Landing::kPlace);
  r.use(7, 0);
  ASSERT_NE(r.find(7), nullptr) << "the entry awaits the other segment";
  EXPECT_TRUE(r.find(7)->early.empty());
  EXPECT_NE(r.land(7, kTwo, false, 1), nullptr);
  EXPECT_NE(r.here(7, 1), nullptr);
  r.use(7, 1);
  EXPECT_EQ(r.find(7), nullptr);
  EXPECT_EQ(r.early.size(), 0U);
  EXPECT_EQ(r.early.taken_slots(), 0U);
}

TEST(EagerReceiveBuffer, KeepsAllSegmentsWhileAnOperationReadsOne) {
  Rounds r;
  for (const std::uint32_t index : {0U, 1U}) r.bring(7, kAnn, kOne, index);
  r.here(7, 1)->taken = true;
  EXPECT_TRUE(r.find(7)->taken());
  r.early.drop_if([](const RoundKey&, Generation, PeerId) { return true; });
  EXPECT_NE(r.here(7, 0), nullptr);
  EXPECT_NE(r.here(7, 1), nullptr);
  r.early.drop(r.round(7), kAttempt);
  EXPECT_EQ(r.find(7), nullptr);
  EXPECT_EQ(r.early.taken_slots(), 0U);
}

TEST(EagerReceiveBuffer, CountsAnEntryOnceAndEachSegmentWithItsSlot) {
  Rounds r;
  const auto is_seven = [](const RoundKey& key, Generation) { return key == Rounds::round(7); };
  EXPECT_EQ(r.early.count_if(is_seven), 0U);
  r.bring(8);
  for (const std::uint32_t index : {0U, 1U}) r.bring(7, kAnn, kOne, index);
  EXPECT_EQ(r.early.count_if(is_seven), 1U + 2U * 2U);
  EXPECT_EQ(r.begin(7, kAnn, kTwo, 2), Landing::kPlace);
  EXPECT_EQ(r.early.count_if(is_seven), 1U + 2U * 2U + 2U) << "one slot is being filled";
}

TEST(EagerReceiveBuffer, NamesTheNeighboursThatOfferAnAttempt) {
  Rounds r;
  EXPECT_TRUE(r.early.offering(r.round(7), kAttempt).empty());
  ASSERT_TRUE(r.early.expect(kBob, r.offer(7, false)));
  r.bring(7);
  ASSERT_TRUE(r.early.expect(kAnn, r.offer(6)));
  ASSERT_TRUE(r.early.expect(PeerId{3, 3}, r.offer(8)));
  wire::Offer next = r.offer(7);
  next.attempt = Generation{kAttempt.value + 1};
  ASSERT_TRUE(r.early.expect(PeerId{4, 4}, next));
  EXPECT_EQ(r.early.offering(r.round(7), kAttempt), (std::vector<PeerId>{kAnn, kBob}));
  EXPECT_EQ(r.early.offering(r.round(7), next.attempt), (std::vector<PeerId>{PeerId{4, 4}}));
  EXPECT_TRUE(r.early.offering(r.round(9), kAttempt).empty());
  r.use(7);
  EXPECT_EQ(r.early.offering(r.round(7), kAttempt), (std::vector<PeerId>{kBob}));
}

// ---- what is not kept ----

TEST(EagerReceiveBuffer, SinksSegmentsThatWereNotOffered) {
  Rounds r;
  EXPECT_EQ(r.begin(7), Landing::kSink);
  ASSERT_TRUE(r.early.expect(kAnn, r.offer(7)));
  EXPECT_EQ(r.begin(7, kBob), Landing::kSink);
  wire::Segment other = r.segment(7);
  other.attempt.value += 1;
  EXPECT_EQ(r.early.begin(kAnn, kOne, other).landing, Landing::kSink);
  EXPECT_EQ(r.early.size(), 1U);
}

TEST(EagerReceiveBuffer, SinksASegmentThatArrivesTwice) {
  Rounds r;
  ASSERT_TRUE(r.early.expect(kAnn, r.offer(7)));
  EXPECT_EQ(r.begin(7), Landing::kPlace);
  EXPECT_EQ(r.early.begin(kAnn, kTwo, r.segment(7)).landing, Landing::kSink);  // while the first copy arrives
  EXPECT_NE(r.land(7), nullptr);
  EXPECT_EQ(r.early.begin(kAnn, kTwo, r.segment(7)).landing, Landing::kSink);
  EXPECT_EQ(r.early.begin(kAnn, kOne, r.segment(7)).landing, Landing::kSink);
  EXPECT_EQ(r.early.size(), 1U);
}

// Seed 566486: the offer arrived before the launch, the segment afterwards; then the round was abandoned.
TEST(EagerReceiveBuffer, SinksFinals) {
  Rounds r;
  ASSERT_TRUE(r.early.expect(kAnn, r.offer(7)));
  wire::Segment final = r.segment(7);
  final.phase = wire::Phase::kAllGather;
  EXPECT_EQ(r.early.begin(kAnn, kOne, final).landing, Landing::kSink);
  EXPECT_EQ(r.early.size(), 1U);
}

TEST(EagerReceiveBuffer, RefusesASegmentLargerThanASlot) {
  Rounds r;
  ASSERT_TRUE(r.early.expect(kAnn, r.offer(7)));
  EXPECT_EQ(r.early.begin(kAnn, kOne, r.segment(7, kEarlySlotBytes + 1)).landing, Landing::kNonsense);
  EXPECT_EQ(r.early.size(), 1U);
  EXPECT_EQ(r.early.begin(kAnn, kOne, r.segment(7, kEarlySlotBytes)).landing, Landing::kPlace);
}

TEST(EagerReceiveBuffer, LimitsTheEntriesOfANeighbour) {
  Rounds r;
  for (std::uint64_t tag = 0; tag < std::uint64_t{2} * kMaxRoundsInFlight; ++tag)
    ASSERT_TRUE(r.early.expect(kAnn, r.offer(tag)));
  EXPECT_FALSE(r.early.expect(kAnn, r.offer(100'000)));
  EXPECT_TRUE(r.early.expect(kAnn, r.offer(0)));  // a repeated offer
  EXPECT_TRUE(r.early.expect(kBob, r.offer(0)));
  r.early.drop(r.round(5), kAttempt);
  EXPECT_TRUE(r.early.expect(kAnn, r.offer(100'000)));
  EXPECT_FALSE(r.early.expect(kAnn, r.offer(100'001)));
}

TEST(EagerReceiveBuffer, LimitsTheSlotsOfANeighbourAndNeverSharesOne) {
  Rounds r;
  std::set<std::uint64_t> offsets;
  for (std::uint64_t tag = 0; tag < kEarlySlotsEach; ++tag) {
    r.bring(tag);
    EXPECT_EQ(r.place.into.offset % kEarlySlotBytes, 0U);
    EXPECT_LE(r.place.into.offset + kEarlySlotBytes, kEarlySlots * kEarlySlotBytes);
    EXPECT_TRUE(offsets.insert(r.place.into.offset).second);
  }
  ASSERT_TRUE(r.early.expect(kAnn, r.offer(1000)));
  EXPECT_EQ(r.begin(1000), Landing::kNonsense);
  EXPECT_EQ(r.begin(0, kAnn, kOne, 1), Landing::kNonsense);  // of an offer that has segments here
  EXPECT_EQ(r.room(), kEarlySlots - kEarlySlotsEach);
  r.early.drop(r.round(5), kAttempt);
  EXPECT_EQ(r.begin(1000), Landing::kPlace);  // a slot is free again
  EXPECT_NE(r.land(1000), nullptr);
  ASSERT_TRUE(r.early.expect(kAnn, r.offer(1001)));
  EXPECT_EQ(r.begin(1001), Landing::kNonsense);
}

TEST(EagerReceiveBuffer, AllSlotsCanBeTaken) {
  Rounds r;
  for (std::uint64_t n = 1; n <= kEarlySlots / kEarlySlotsEach; ++n) {
    for (std::uint64_t tag = 0; tag < kEarlySlotsEach; ++tag) r.bring(tag, PeerId{n + 10, n});
  }
  EXPECT_EQ(r.room(), 0U);
}

// A slot becomes free again, however its segment ends.
TEST(EagerReceiveBuffer, NoSlotIsLost) {
  Rounds r;
  const auto everything = [](const RoundKey&, Generation, PeerId) { return true; };
  for (std::uint64_t i = 0; i < std::uint64_t{3} * kEarlySlots; ++i) {
    ASSERT_TRUE(r.early.expect(kAnn, r.offer(i)));
    ASSERT_EQ(r.begin(i), Landing::kPlace) << i;
    switch (i % 8) {
      case 0: r.early.stream_closed(kOne); break;
      case 1: EXPECT_EQ(r.land(i, kOne, true), nullptr); break;  // withdrawn by the sender
      case 2:                                                    // its round is over when it lands
        r.early.drop_if(everything);
        EXPECT_EQ(r.early.size(), 1U);
        EXPECT_EQ(r.land(i), nullptr);
        break;
      case 3: r.early.drop(r.round(i), kAttempt); break;  // while it arrives
      case 4:
        EXPECT_NE(r.land(i), nullptr);
        r.early.drop(r.round(i), kAttempt);
        break;
      case 5:
        EXPECT_NE(r.land(i), nullptr);
        r.early.drop_if(everything);
        break;
      case 6:
        EXPECT_NE(r.land(i), nullptr);
        r.use(i);
        break;
      case 7:
        EXPECT_EQ(r.begin(i + 1'000'000), Landing::kSink);
        break;  // the stream continues: the segment went to the sink
      default: break;
    }
    r.early.drop_if(everything);
    EXPECT_EQ(r.early.size(), 0U) << i;
  }
  for (std::uint64_t tag = 0; tag < kEarlySlotsEach; ++tag) r.bring(tag);
  EXPECT_EQ(r.room(), kEarlySlots - kEarlySlotsEach);
}

TEST(EagerReceiveBuffer, TheNextSegmentOfAStreamReusesTheSlotThatItLeft) {
  Rounds r;
  for (const std::uint64_t tag : {7U, 8U}) ASSERT_TRUE(r.early.expect(kAnn, r.offer(tag)));
  EXPECT_EQ(r.begin(7), Landing::kPlace);
  const BufferRef slot = r.place.into;
  EXPECT_EQ(r.begin(8), Landing::kPlace);
  EXPECT_EQ(r.place.into, slot);
  EXPECT_NE(r.land(8), nullptr);
  EXPECT_EQ(r.here(7), nullptr);
  EXPECT_EQ(r.begin(7), Landing::kPlace);  // repeated: it is missing
}

TEST(EagerReceiveBuffer, KeepsASlotThatAnOperationReadsUntilTheRoundIsOver) {
  Rounds r;
  r.bring(7);
  const BufferRef slot = r.place.into;
  r.here(7)->taken = true;
  r.early.drop_if([](const RoundKey&, Generation, PeerId) { return true; });
  ASSERT_NE(r.find(7), nullptr);
  ASSERT_TRUE(r.early.expect(kBob, r.offer(7)));  // offers of other neighbours make no difference
  r.bring(8);
  EXPECT_NE(r.place.into, slot);
  EXPECT_EQ(r.here(7)->segment.into, slot);
  r.early.drop(r.round(7), kAttempt);
  EXPECT_EQ(r.find(7), nullptr);
  EXPECT_EQ(r.find(7, kBob), nullptr);
  r.bring(9);
  EXPECT_EQ(r.place.into, slot);
}

TEST(EagerReceiveBuffer, DropsByRoundAttemptAndNeighbour) {
  Rounds r;
  for (const std::uint64_t tag : {7U, 8U}) r.bring(tag);
  r.bring(7, kBob, kTwo);
  r.early.drop_if([](const RoundKey& key, Generation attempt, PeerId from) {
    return key == Rounds::round(7) && attempt == kAttempt && from == kAnn;
  });
  EXPECT_EQ(r.find(7), nullptr);
  EXPECT_NE(r.find(7, kBob), nullptr);
  EXPECT_NE(r.find(8), nullptr);
  r.early.drop(r.round(8), Generation{4});  // a different attempt
  EXPECT_NE(r.find(8), nullptr);
}

TEST(EagerReceiveBuffer, AClosedStreamFreesOnlyTheSlotThatItWasFilling) {
  Rounds r;
  r.bring(7);
  ASSERT_TRUE(r.early.expect(kAnn, r.offer(8)));
  EXPECT_EQ(r.begin(8), Landing::kPlace);
  r.early.stream_closed(kTwo);
  EXPECT_EQ(r.early.size(), 3U);
  r.early.stream_closed(kOne);
  EXPECT_EQ(r.early.size(), 2U);
  EXPECT_NE(r.here(7), nullptr);
  EXPECT_EQ(r.begin(8, kAnn, kTwo), Landing::kPlace);  // it is repeated on another stream
}

}  // namespace
}  // namespace lockstep::peer

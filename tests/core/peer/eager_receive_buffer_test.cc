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
  static wire::Segment segment(std::uint64_t tag, std::uint32_t length = 100) {
    return {round(tag), attempt_id(kAttempt), wire::Phase::kReduceScatter, SegmentIndex{0}, length};
  }

  Landing begin(std::uint64_t tag, PeerId from = kAnn, StreamId stream = kOne) {
    place = early.begin(from, stream, segment(tag));
    return place.landing;
  }
  EagerReceiveBuffer::Entry* land(std::uint64_t tag, StreamId stream = kOne, bool taken_back = false) {
    return early.landed(stream, {segment(tag), place.into, false, taken_back, tag});
  }
  void bring(std::uint64_t tag, PeerId from = kAnn, StreamId stream = kOne) {
    EXPECT_TRUE(early.expect(from, offer(tag)));
    EXPECT_EQ(begin(tag, from, stream), Landing::kPlace);
    EXPECT_NE(land(tag, stream), nullptr);
  }
  EagerReceiveBuffer::Entry* find(std::uint64_t tag, PeerId from = kAnn) {
    return early.find(from, round(tag), kAttempt);
  }
  // The number of slots that a new neighbour can get.
  std::size_t room(std::uint64_t from_tag = 1'000'000) {
    std::size_t slots = 0;
    while (early.expect(kBob, offer(from_tag + slots)) && begin(from_tag + slots, kBob, kTwo) == Landing::kPlace) {
      EXPECT_NE(land(from_tag + slots, kTwo), nullptr);
      ++slots;
    }
    early.drop_if([&](const RoundKey& key, Generation, PeerId) { return key.tag.value >= from_tag; });
    return slots;
  }

  EagerReceiveBuffer early;
  ring::Operation::Place place;  // of the last begin()
};

TEST(EagerReceiveBuffer, FindsASegmentThatWasOfferedAndReceived) {
  Rounds r;
  EXPECT_EQ(r.find(7), nullptr);
  ASSERT_TRUE(r.early.expect(kAnn, r.offer(7)));
  ASSERT_NE(r.find(7), nullptr);
  EXPECT_TRUE(r.find(7)->follows);
  EXPECT_FALSE(r.find(7)->segment);
  EXPECT_EQ(r.find(7, kBob), nullptr);
  EXPECT_EQ(r.early.find(kAnn, r.round(7), Generation{4}), nullptr);
  EXPECT_EQ(r.begin(7), Landing::kPlace);
  EXPECT_EQ(r.place.into.id, kEarlyBuffer);
  EXPECT_EQ(r.place.into.length, 100U);
  EXPECT_EQ(r.early.size(), 2U);  // the entry, and the slot that a segment fills
  const EagerReceiveBuffer::Entry* entry = r.land(7);
  EXPECT_EQ(entry, r.find(7));
  EXPECT_EQ(r.early.size(), 1U);
  ASSERT_TRUE(entry->segment);
  EXPECT_EQ(entry->segment->into, r.place.into);
  EXPECT_EQ(entry->segment->checksum, 7U);
  EXPECT_EQ(entry->stream, kOne);
  EXPECT_FALSE(entry->taken);
}

TEST(EagerReceiveBuffer, ARepeatedOfferKeepsTheReceivedSegment) {
  Rounds r;
  ASSERT_TRUE(r.early.expect(kAnn, r.offer(7, false)));
  EXPECT_FALSE(r.find(7)->follows);
  r.bring(7);
  EXPECT_TRUE(r.find(7)->follows);
  ASSERT_TRUE(r.early.expect(kAnn, r.offer(7, false)));
  EXPECT_TRUE(r.find(7)->follows);
  EXPECT_TRUE(r.find(7)->segment);
}

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
        r.land(i)->taken = true;
        r.early.used(kAnn, r.round(i), kAttempt);
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
  EXPECT_FALSE(r.find(7)->segment);
  EXPECT_EQ(r.begin(7), Landing::kPlace);  // repeated: it is missing
}

TEST(EagerReceiveBuffer, KeepsASlotThatAnOperationReadsUntilTheRoundIsOver) {
  Rounds r;
  r.bring(7);
  const BufferRef slot = r.place.into;
  r.find(7)->taken = true;
  r.early.drop_if([](const RoundKey&, Generation, PeerId) { return true; });
  ASSERT_NE(r.find(7), nullptr);
  ASSERT_TRUE(r.early.expect(kBob, r.offer(7)));  // offers of other neighbours make no difference
  r.bring(8);
  EXPECT_NE(r.place.into, slot);
  EXPECT_EQ(r.find(7)->segment->into, slot);
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
  EXPECT_TRUE(r.find(7)->segment);
  EXPECT_EQ(r.begin(8, kAnn, kTwo), Landing::kPlace);  // it is repeated on another stream
}

}  // namespace
}  // namespace lockstep::peer

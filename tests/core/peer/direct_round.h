// Rank 1 of three in a meshed group, whose all-reduces go direct (rule 57). The test plays both neighbours.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "core/kernels/checksum.h"
#include "tests/core/peer/peer3.h"
#include "tests/core/peer/small.h"

namespace lockstep::peer {

using wire::Phase;

inline constexpr std::uint32_t kChunkBytes = 16;  // bytes, because the type is kU8
inline constexpr std::uint64_t kThreeChunks = std::uint64_t{3} * kChunkBytes;
inline constexpr std::byte kOfLow{7};  // contributions of the neighbours: each byte
inline constexpr std::byte kOfHigh{9};

inline std::uint64_t checksum_of_all(std::byte filling, std::uint32_t length = kChunkBytes) {
  return checksum(std::vector<std::byte>(length, filling));
}

// Rank 1 of {low, me, high}. Each rank owns the piece of its number.
struct DirectRound : Peer3 {
  explicit DirectRound(const PeerOptions& options = peer::options(), Duration round_trip = kFar, bool meshed = true)
      : Peer3(options, {kLow, kMe, kHigh}, true, round_trip, meshed) {}

  static wire::Descriptor arguments(std::uint64_t count = kThreeChunks, std::uint32_t segment_bytes = 1024) {
    wire::Descriptor what = peer::arguments(count);
    what.algorithm = wire::Algorithm::kAuto;
    what.segment_bytes = segment_bytes;
    return what;
  }
  static wire::Offer offer(std::uint64_t tag = 7) { return {key(tag), Generation{1}, arguments(), true}; }
  static wire::Ready ready(std::uint64_t tag = 7, std::vector<std::uint64_t> have = {}) {
    return {key(tag), Generation{1}, arguments(), true, std::move(have)};
  }
  static wire::Segment segment(Phase phase, std::uint32_t index, std::uint64_t tag = 7) {
    return {key(tag), AttemptId{1}, phase, SegmentIndex{index}, kChunkBytes};
  }

  CallId call(std::uint64_t tag = 7, bool in_place = false, std::uint64_t count = kThreeChunks) {
    Request request;
    request.collective = wire::Collective::kAllReduce;
    request.type = DataType::kU8;
    request.tag = Tag{tag};
    const CallId id = me.launch(request, count, 0, in_place);
    input.assign(me.sent(id).begin(), me.sent(id).end());
    me.run();
    return id;
  }
  // The contribution of a neighbour to our piece, before it knows that we have launched.
  void contribute(FarEnd& from, std::byte filling, std::uint64_t tag = 7) {
    from.say(offer(tag));
    from.say_segment(segment(Phase::kReduceScatter, 1, tag), filling, checksum_of_all(filling));
    me.run();
  }
  void both_contribute(std::uint64_t tag = 7) {
    contribute(*low, kOfLow, tag);
    contribute(*high, kOfHigh, tag);
  }
  // Both neighbours send the results of their pieces.
  void finals_come() {
    for (auto [end, index] : {std::pair(low, 0U), std::pair(high, 2U)}) {
      end->say_segment(segment(Phase::kAllGather, index), std::byte{1}, checksum_of_all(std::byte{1}));
    }
    me.run();
  }
  [[nodiscard]] std::vector<std::byte> own(std::uint32_t piece) const {
    const auto part = std::span(input).subspan(std::size_t{piece} * kChunkBytes, kChunkBytes);
    return {part.begin(), part.end()};
  }
  // Of our piece.
  [[nodiscard]] std::vector<std::byte> sum() const {
    std::vector<std::byte> sum = own(1);
    for (std::byte& byte : sum) byte = static_cast<std::byte>(std::to_integer<int>(byte) + 7 + 9);
    return sum;
  }
  static void expect_sent(const FarEnd& to, Phase phase, std::uint32_t index, const std::vector<std::byte>& payload) {
    ASSERT_TRUE(to.last_segment());
    EXPECT_EQ(to.last_segment()->segment.segment.phase, phase);
    EXPECT_EQ(to.last_segment()->segment.segment.index, SegmentIndex{index});
    EXPECT_EQ(to.last_segment()->payload, payload);
    EXPECT_EQ(to.last_segment()->segment.checksum, checksum(payload));
  }
  void expect_final_sent() const {
    for (const FarEnd* end : {low, high}) expect_sent(*end, Phase::kAllGather, 1, sum());
  }
  void commit() {
    const auto* done = coordinator->last<wire::Done>();
    ASSERT_NE(done, nullptr);
    coordinator->say(wire::Commit{done->key, done->attempt, done->hash, false, {}});
    me.run();
  }
  void low_comes_again() {
    low->hang_up();
    me.run();
    low = &dial_in(kLow);
  }
  void high_comes_again() {
    high->hang_up();
    me.run();
    me.pass(milliseconds(20));  // longer than the first back-off
    me.run();
    high = welcome(kHigh);
    ASSERT_NE(high, nullptr);
  }
  [[nodiscard]] bool has_heard_of(const std::string& reason) const {
    return std::ranges::any_of(me.events,
                               [&](const trace::Event& event) { return event.text.find(reason) != std::string::npos; });
  }

  std::vector<std::byte> input;  // of the last call
};

}  // namespace lockstep::peer

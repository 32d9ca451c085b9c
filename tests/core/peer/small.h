// A peer in a ring of three that all-reduces tensors of a few bytes around the ring. They are sent eagerly.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "core/kernels/checksum.h"
#include "tests/core/peer/peer3.h"

namespace lockstep::peer {

// `low` is upstream and `high` downstream for every rank of the peer. Rank 0 owns the tensor; partial sums start at
// rank 1.
inline const std::vector<PeerId> kOwner = {kMe, kHigh, kLow};
inline const std::vector<PeerId> kStarter = {kLow, kMe, kHigh};
inline const std::vector<PeerId> kMiddle = {kHigh, kLow, kMe};

inline constexpr std::uint32_t kCount = 16;  // bytes, because the type is kU8
inline constexpr std::byte kFilling{7};      // of the payloads of `low`

inline PeerOptions small_options() {
  PeerOptions small = options();
  small.segment_bytes = 0;  // automatic: a small tensor is one segment
  return small;
}

// The descriptor of the round.
inline wire::Descriptor arguments(std::uint64_t count = kCount) {
  wire::Descriptor what;
  what.collective = wire::Collective::kAllReduce;
  what.type = DataType::kU8;
  what.tensors = 1;
  what.count = count;
  what.layout = checksum(std::as_bytes(std::span(&count, 1)));
  return what;
}

inline std::vector<std::byte> plus(std::span<const std::byte> own, std::byte filling = kFilling) {
  std::vector<std::byte> sum(own.begin(), own.end());
  for (std::byte& byte : sum) byte = static_cast<std::byte>(std::to_integer<int>(byte) + std::to_integer<int>(filling));
  return sum;
}

struct Small : Peer3 {
  explicit Small(const std::vector<PeerId>& ring, Duration round_trip = kFar, bool meshed = true)
      : Peer3(small_options(), ring, true, round_trip, meshed) {}

  static wire::Offer offer(std::uint64_t tag = 7, bool follows = true, std::uint64_t count = kCount) {
    return {key(tag), Generation{1}, arguments(count), follows};
  }
  static wire::Segment partial(std::uint64_t tag = 7, std::uint32_t length = kCount) {
    return {key(tag), AttemptId{1}, wire::Phase::kReduceScatter, SegmentIndex{0}, length};
  }
  static std::uint64_t right(std::uint32_t length = kCount) {
    return checksum(std::vector<std::byte>(length, kFilling));
  }

  void offered(std::uint64_t tag = 7) {
    low->say(offer(tag));
    low->say_segment(partial(tag), kFilling, right());
    me.run();
  }
  // The frame of the partial sum of `low`, for tests that send a part of it.
  static std::vector<std::byte> frame(std::uint64_t tag = 7) {
    std::vector<std::byte> bytes;
    wire::encode(wire::Message(partial(tag)), Term{1}, bytes);
    bytes.insert(bytes.end(), kCount, kFilling);
    bytes.resize(bytes.size() + wire::kTrailerBytes);
    wire::encode(wire::Trailer{right(), false}, std::span(bytes).last<wire::kTrailerBytes>());
    return bytes;
  }
  CallId call(std::uint64_t tag = 7, bool in_place = false, std::uint64_t count = kCount) {
    Request request;
    request.collective = wire::Collective::kAllReduce;
    request.type = DataType::kU8;
    request.tag = Tag{tag};
    request.watch = watched;
    request.algorithm = wire::Algorithm::kRing;
    const CallId id = me.launch(request, count, 0, in_place);
    input.assign(me.sent(id).begin(), me.sent(id).end());
    me.run();
    return id;
  }
  void low_comes_again() {
    low->hang_up();
    me.run();
    low = &dial_in(kLow);
  }
  void high_hangs_up() {
    high->hang_up();
    me.run();
  }
  void high_comes_again() {
    me.pass(milliseconds(20));  // longer than the first back-off
    me.run();
    high = me.streams.dialling().front();
    me.streams.open(*high);
    high->greet();
    high->say(wire::LinkWelcome{});
    me.run();
  }
  void expect_sent(const std::vector<std::byte>& payload) {
    ASSERT_TRUE(high->last_segment());
    EXPECT_EQ(high->last_segment()->payload, payload);
    EXPECT_EQ(high->last_segment()->segment.checksum, checksum(payload));
    EXPECT_FALSE(high->last_segment()->segment.taken_back);
  }
  [[nodiscard]] bool has_heard_of(const std::string& reason) const {
    return std::any_of(me.events.begin(), me.events.end(),
                       [&](const trace::Event& event) { return event.text.find(reason) != std::string::npos; });
  }

  std::vector<std::byte> input;  // of the last call
};

}  // namespace lockstep::peer

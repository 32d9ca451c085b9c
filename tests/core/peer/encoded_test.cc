// Rounds with a wire format or weights, on a peer whose neighbours may lie.
#include <bit>

#include "core/kernels/formats/codec.h"
#include "tests/core/peer/small.h"

namespace lockstep::peer {
namespace {

constexpr std::uint64_t kElements = 300;

struct Encoded : Small {
  explicit Encoded(Formats formats_now, std::optional<float> weight_now = {})
      : Small(kMiddle), formats(formats_now), weight(weight_now) {}

  CallId begin() {
    Request request;
    request.collective = wire::Collective::kAllReduce;
    request.type = DataType::kF32;
    request.op = weight ? ReduceOp::kAvg : ReduceOp::kSum;
    request.tag = Tag{7};
    request.formats = formats;
    request.algorithm = wire::Algorithm::kRing;
    request.weight = weight;
    const CallId id = me.launch(request, kElements);
    me.run();
    return id;
  }
  [[nodiscard]] wire::Descriptor what() const {
    wire::Descriptor what = arguments(kElements);
    what.type = DataType::kF32;
    what.op = weight ? ReduceOp::kAvg : ReduceOp::kSum;
    what.formats = formats;
    what.weighted = weight.has_value();
    return what;
  }
  // The partial sum of `low`, with any bytes.
  void say_partial(std::span<const std::byte> payload) {
    low->say(wire::Offer{key(), Generation{1}, what(), true});
    std::vector<std::byte> bytes;
    const auto length = static_cast<std::uint32_t>(payload.size());
    wire::encode(
        wire::Message(wire::Segment{key(), AttemptId{1}, wire::Phase::kReduceScatter, SegmentIndex{0}, length}),
        Term{1}, bytes);
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    bytes.resize(bytes.size() + wire::kTrailerBytes);
    wire::encode(wire::Trailer{checksum(payload), false}, std::span(bytes).last<wire::kTrailerBytes>());
    low->say_bytes(bytes);
    me.run();
  }
  void say_rank_parameter(std::uint64_t value, std::uint32_t rank = 1) {
    low->say(wire::RankParameter{key(), Generation{1}, Rank{rank}, value});
    me.run();
  }

  Formats formats;
  std::optional<float> weight;
};

std::vector<std::byte> encoded(WireFormat format, float value) {
  const std::vector<float> values(kElements, value);
  std::vector<std::byte> bytes(encoded_size(format, kElements));
  EXPECT_FALSE(encode(format, bytes, std::as_bytes(std::span(values))));
  return bytes;
}

TEST(EncodedRounds, ForwardASumInItsWireFormat) {
  Encoded run({WireFormat::kBF16, WireFormat::kInt8});
  run.begin();
  run.say_partial(encoded(WireFormat::kBF16, 0));
  ASSERT_TRUE(run.high->last_segment());
  EXPECT_EQ(run.high->last_segment()->payload.size(), encoded_size(WireFormat::kBF16, kElements));
  EXPECT_EQ(run.coordinator->last<wire::StopRound>(), nullptr);
  EXPECT_FALSE(run.low->shown_out());
}

// The link is not at fault: the sender sent these bytes and would send them again.
TEST(EncodedRounds, AreStoppedByAnInvalidEncoding) {
  Encoded run({WireFormat::kInt8, WireFormat::kInt8});
  const CallId call = run.begin();
  run.say_partial(std::vector<std::byte>(encoded_size(WireFormat::kInt8, kElements), std::byte{0xff}));
  const auto* stop = run.coordinator->last<wire::StopRound>();
  ASSERT_NE(stop, nullptr);
  EXPECT_EQ(stop->status, Status::kProtocolError);
  EXPECT_NE(stop->text.find("not a valid encoding in int8"), std::string::npos) << stop->text;
  EXPECT_FALSE(run.high->last_segment());
  run.stopped({7});
  ASSERT_TRUE(run.me.outcome(call));
  run.expect_alive();
}

TEST(EncodedRounds, AreStoppedBySumsBeyondF32) {
  Encoded run({WireFormat::kNative, WireFormat::kInt8});
  run.begin();
  std::vector<float> huge(kElements, 0.0F);
  huge[17] = std::numeric_limits<float>::infinity();  // no encoder writes an infinity
  run.say_partial(std::as_bytes(std::span(huge)));
  ASSERT_NE(run.coordinator->last<wire::StopRound>(), nullptr);
  EXPECT_NE(run.coordinator->last<wire::StopRound>()->text.find("not a valid encoding in native"), std::string::npos);
}

TEST(EncodedRounds, DifferInTheirArgumentsIfFormatsDiffer) {
  Encoded run({WireFormat::kInt8, WireFormat::kInt8});
  run.begin();
  run.formats.down = WireFormat::kE3M0;
  run.say_partial(encoded(WireFormat::kInt8, 0));
  const auto* stop = run.coordinator->last<wire::StopRound>();
  ASSERT_NE(stop, nullptr);
  EXPECT_EQ(stop->status, Status::kMismatch);
  EXPECT_NE(stop->text.find(": down "), std::string::npos) << stop->text;
}

TEST(EncodedRounds, AreStoppedByAnInvalidWeight) {
  for (const std::uint64_t bits : {std::uint64_t{0x7f80'0000}, std::uint64_t{0x7fc0'0000}, std::uint64_t{0xbf80'0000},
                                   std::uint64_t{0x8000'0000}, std::uint64_t{1} << 40U}) {
    SCOPED_TRACE(bits);
    Encoded run({}, 2.0F);
    run.begin();
    run.say_rank_parameter(bits);
    const auto* stop = run.coordinator->last<wire::StopRound>();
    ASSERT_NE(stop, nullptr);
    EXPECT_EQ(stop->status, Status::kProtocolError);
    EXPECT_NE(stop->text.find("states a weight for rank 1 that is none"), std::string::npos) << stop->text;
    run.stopped({7});
    EXPECT_TRUE(run.me.all_calls_over());
    run.expect_alive();
  }
}

// Every member finds the same error before any segment moves.
TEST(EncodedRounds, AreStoppedByWeightsThatAddUpToZero) {
  Encoded run({}, 0.0F);
  run.begin();
  run.say_rank_parameter(0, 1);
  EXPECT_EQ(run.coordinator->last<wire::StopRound>(), nullptr);
  run.say_rank_parameter(0, 0);
  const auto* stop = run.coordinator->last<wire::StopRound>();
  ASSERT_NE(stop, nullptr);
  EXPECT_EQ(stop->status, Status::kInvalidArgument);
  EXPECT_NE(stop->text.find("all contributions have weight 0"), std::string::npos) << stop->text;
}

TEST(EncodedRounds, AreStoppedByWeightsBeyondF32) {
  Encoded run({}, std::numeric_limits<float>::max());
  run.begin();
  run.say_rank_parameter(std::bit_cast<std::uint32_t>(std::numeric_limits<float>::max()), 1);
  run.say_rank_parameter(std::bit_cast<std::uint32_t>(std::numeric_limits<float>::max()), 0);
  ASSERT_NE(run.coordinator->last<wire::StopRound>(), nullptr);
  EXPECT_NE(run.coordinator->last<wire::StopRound>()->text.find("add up to more than an f32 holds"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::peer

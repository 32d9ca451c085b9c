#include "core/wire/codec.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/wire/describe.h"
#include "core/wire/limits.h"
#include "tests/support/sample_messages.h"
#include "tests/support/write_stream.h"

namespace lockstep::wire {
namespace {

using test::Bytes;
using test::bytes_of;
using test::sample_messages;

struct Frame {
  FrameHeader header;
  Bytes body;
};

Frame frame_of(const Message& message) {
  Bytes bytes;
  encode(message, Term{7}, bytes);
  auto header = decode_header(std::span(bytes).first<kHeaderBytes>());
  return {*header, Bytes(bytes.begin() + kHeaderBytes, bytes.end())};
}

// Decodes a frame that a remote host could have sent: its checksum is correct.
Result<Message> decode_sealed(Frame frame) {
  frame.header.length = static_cast<std::uint32_t>(frame.body.size());
  frame.header.checksum = frame_checksum(frame.header, frame.body);
  return decode_body(frame.header, frame.body);
}

std::string error_of(const Frame& frame) {
  const auto message = decode_sealed(frame);
  if (message) return "none";
  EXPECT_EQ(message.error().status, Status::kProtocolError);
  return message.error().text;
}

void put_u32(Bytes& bytes, std::size_t at, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) bytes.at(at + i) = static_cast<std::byte>(value >> (8 * i));
}

// Bit by bit, of the first 16 bytes of a header without bytes 2 and 3.
std::uint32_t crc_16_ccitt_false(std::span<const std::byte> header) {
  std::uint32_t crc = 0xffff;
  for (std::size_t at = 0; at < 16; ++at) {
    if (at == 2 || at == 3) continue;
    crc ^= std::to_integer<std::uint32_t>(header[at]) << 8U;
    for (int bit = 0; bit < 8; ++bit) crc = ((crc << 1U) ^ ((crc & 0x8000U) != 0 ? 0x1021U : 0U)) & 0xffffU;
  }
  return crc;
}

TEST(Codec, AHeaderHoldsItsCrcAndTheChecksumOfItsFrame) {
  for (const std::uint64_t term : {0x0ULL, 0x7ULL, 0x0123'4567'89ab'cdefULL, 0xffff'ffff'ffff'ffffULL}) {
    for (const Message& message : sample_messages()) {
      Bytes bytes;
      encode(message, Term{term}, bytes);
      const auto crc = std::to_integer<std::uint32_t>(bytes[2]) | std::to_integer<std::uint32_t>(bytes[3]) << 8U;
      EXPECT_EQ(crc, crc_16_ccitt_false(bytes)) << describe(message);
      const auto header = decode_header(std::span(bytes).first<kHeaderBytes>());
      ASSERT_TRUE(header) << header.error().text;
      EXPECT_EQ(header->checksum, frame_checksum(*header, std::span(bytes).subspan(kHeaderBytes)));
    }
  }
}

TEST(Codec, EveryMessageSurvivesARoundTrip) {
  for (const Message& message : sample_messages()) {
    const Frame frame = frame_of(message);
    EXPECT_EQ(frame.header.type, type_of(message));
    EXPECT_EQ(frame.header.term, Term{7});
    const auto back = decode_body(frame.header, frame.body);
    ASSERT_TRUE(back) << back.error().text;
    EXPECT_EQ(describe(*back), describe(message));
    EXPECT_EQ(frame_of(*back).body, frame.body);
  }
}

TEST(Codec, AMessageThatEndsEarlyIsAnError) {
  for (const Message& message : sample_messages()) {
    Frame frame = frame_of(message);
    while (!frame.body.empty()) {
      frame.body.pop_back();
      EXPECT_FALSE(decode_sealed(frame)) << describe(message) << " cut to " << frame.body.size();
    }
  }
}

TEST(Codec, BytesAfterTheLastFieldAreAnError) {
  for (const Message& message : sample_messages()) {
    Frame frame = frame_of(message);
    frame.body.resize(frame.body.size() + 2);
    EXPECT_EQ(error_of(frame), std::string(name_of_type(type_of(message))) + ": 2 extra bytes after the last field");
  }
}

TEST(Codec, AFrameWithAnotherChecksumIsAnError) {
  Frame frame = frame_of(Pending{5});
  frame.header.term = Term{8};
  const auto message = decode_body(frame.header, frame.body);
  ASSERT_FALSE(message);
  EXPECT_EQ(message.error().text, "Pending: the checksum of header and body is wrong");
}

TEST(Codec, ACountOverItsLimitIsRefusedBeforeAllocation) {
  Frame frame = frame_of(Flush{ProposalNumber{1}, {}});
  put_u32(frame.body, 8, 4'000'000'000U);
  EXPECT_EQ(error_of(frame), "Flush.open: 4000000000 entries, at most 832 allowed");
}

TEST(Codec, ACountOverTheRemainingBytesIsRefusedBeforeAllocation) {
  Frame frame = frame_of(Flush{ProposalNumber{1}, {}});
  put_u32(frame.body, 8, 200);
  EXPECT_EQ(error_of(frame), "Flush.open: needs 8600 bytes, the message has 0 left");
}

TEST(Codec, AnErrorNamesThePathOfItsField) {
  Propose propose;
  propose.view.members.resize(1);
  Frame frame = frame_of(propose);
  // number, view.term, view.number, view.cohort, count of members, id, group, gang: then the address's family
  frame.body.at(4 * 8 + 4 + 16 + 4 + 8) = std::byte{5};
  EXPECT_EQ(error_of(frame), "Propose.view.members.address.family: 5 is not a known value");
}

TEST(Codec, ABoolIsZeroOrOne) {
  Frame frame = frame_of(WantState{});
  frame.body.back() = std::byte{2};
  EXPECT_EQ(error_of(frame), "WantState.holds: 2 is not a bool (0 or 1)");
}

TEST(Codec, AnEnumHasAKnownValue) {
  Frame frame = frame_of(AdmitCancel{});
  frame.body.front() = std::byte{kStatusCount};
  EXPECT_EQ(error_of(frame), "AdmitCancel.status: 21 is not a known value");
}

TEST(Codec, ADurationIsNeitherNegativeNorEndless) {
  Frame frame = frame_of(Waiting{});
  frame.body.back() = std::byte{0xff};
  EXPECT_EQ(error_of(frame), "Waiting.silence: 18374686479671623680 ns, at most 1000000000000000000 allowed");
}

TEST(Codec, ASegmentFitsItsLimits) {
  Segment segment;
  segment.index = {kMaxStatePieces - 1};  // of the largest state
  segment.length = kMaxSegmentBytes;
  Frame frame = frame_of(segment);
  EXPECT_EQ(error_of(frame), "none");
  put_u32(frame.body, 37, kMaxSegmentBytes + 1);
  EXPECT_EQ(error_of(frame), "Segment.length: 1048577, at most 1048576 allowed");
  put_u32(frame.body, 33, kMaxStatePieces);
  EXPECT_EQ(error_of(frame), "Segment.index: 4259840, at most 4259839 allowed");
}

TEST(Codec, OnlyCollectivesWithARootNameOne) {
  Done done;
  done.what.collective = Collective::kBroadcast;
  done.what.root = PeerId{1, 2};
  Frame frame = frame_of(done);
  EXPECT_EQ(error_of(frame), "none");
  frame.body.at(24 + 8) = static_cast<std::byte>(Collective::kBarrier);
  EXPECT_EQ(error_of(frame), "Done.what: only a broadcast, a reduce, a gather and a scatter have a root");
}

TEST(Codec, OnlyAnAllReduceAsksForAnyAlgorithm) {
  constexpr std::size_t kCollective = 24 + 8;
  constexpr std::size_t kAlgorithm = kCollective + 46;
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kDirect, Algorithm::kGrid, Algorithm::kAuto}) {
    const bool asked = has_owners(algorithm);
    Done done;
    done.what.collective = Collective::kAllReduce;
    done.what.algorithm = algorithm;
    Frame frame = frame_of(done);
    EXPECT_EQ(frame.body.at(kAlgorithm), static_cast<std::byte>(algorithm));
    EXPECT_EQ(error_of(frame), "none");
    const std::string refusal = "Done.what: only an all-reduce can ask for this algorithm";
    for (const Collective other : {Collective::kReduceScatter, Collective::kBroadcast}) {
      frame.body.at(kCollective) = static_cast<std::byte>(other);
      const bool refused = asked && !(algorithm == Algorithm::kGrid);
      EXPECT_EQ(error_of(frame), refused ? refusal : "none");
    }
    frame.body.at(kCollective) = static_cast<std::byte>(Collective::kBarrier);
    EXPECT_EQ(error_of(frame), algorithm == Algorithm::kRing ? "none"
                               : asked                       ? refusal
                                                             : "Done.what: there is no algorithm to choose");
    frame.body.at(kAlgorithm) = std::byte{4};
    EXPECT_EQ(error_of(frame), "Done.what.algorithm: 4 is not a known value");
  }
}

TEST(Codec, AGridHasNoWireFormatsAndNoWeights) {
  Done done;
  done.what.collective = Collective::kAllReduce;
  done.what.type = DataType::kF32;
  done.what.algorithm = Algorithm::kGrid;
  EXPECT_EQ(error_of(frame_of(done)), "none");
  for (const bool weighted : {false, true}) {
    done.what.algorithm = Algorithm::kDirect;
    done.what.weighted = weighted;
    done.what.formats.up = weighted ? WireFormat::kNative : WireFormat::kInt8;
    Frame frame = frame_of(done);
    frame.body.at(24 + 8 + 46) = static_cast<std::byte>(Algorithm::kGrid);
    EXPECT_EQ(error_of(frame), "Done.what: a grid has no wire formats and no weights");
  }
}

TEST(Codec, AStripeIsOneOfTheStripes) {
  Frame frame = frame_of(Link{{}, {}, StripeIndex{1}, 2, {}});
  frame.body.at(32) = std::byte{2};
  EXPECT_EQ(error_of(frame), "Link: the stripe must be below the number of stripes");
}

TEST(Codec, ALongTextIsCutBetweenCharacters) {
  std::string text(kMaxTextBytes - 1, 'x');
  const auto message = decode_sealed(frame_of(Refused{Status::kRefused, text + "\xc3\xa9"}));  // "é": does not fit
  ASSERT_TRUE(message);
  EXPECT_EQ(std::get<Refused>(*message).text, text);
}

TEST(Codec, ATextOverItsLimitIsRefused) {
  Frame frame = frame_of(Refused{Status::kRefused, std::string(kMaxTextBytes, 'x')});
  frame.body.at(1) = std::byte{1};  // the size's low byte, was 0
  frame.body.push_back(std::byte{'x'});
  EXPECT_EQ(error_of(frame), "Refused.text: 1025 bytes, at most 1024 allowed");
}

// A name is written to logs, terminals and JSON unchanged.
TEST(Codec, TextIsMadePlainBeforeSendingAndRefusedOtherwise) {
  Frame frame = frame_of(Refused{Status::kRefused, "two\nlines"});
  const auto message = decode_sealed(frame);
  ASSERT_TRUE(message);
  EXPECT_EQ(std::get<Refused>(*message).text, "two?lines");
  constexpr const char* kNotPlain = "Refused.text: must be UTF-8 without control and invisible characters";
  frame.body.at(6) = std::byte{0xff};
  EXPECT_EQ(error_of(frame), kNotPlain);
  Frame turned = frame_of(Refused{Status::kRefused, "\u202etxet"});  // text would be read from right to left
  EXPECT_EQ(std::get<Refused>(*decode_sealed(turned)).text, "???txet");
  const std::string mark = "\u202e";
  for (std::size_t i = 0; i < mark.size(); ++i) turned.body.at(3 + i) = static_cast<std::byte>(mark[i]);
  EXPECT_EQ(error_of(turned), kNotPlain);
}

TEST(Codec, AMessageThatEndsSomethingHasAnErrorStatus) {
  for (const Message& message :
       {Message(Refused{}), Message(AdmitCancel{}), Message(AdmitEnded{}), Message(Evicted{})}) {
    Frame frame = frame_of(message);
    frame.body.at(0) = std::byte{0};
    EXPECT_EQ(error_of(frame), std::string(name_of_type(type_of(message))) + ": the status must not be ok");
  }
  Frame stop = frame_of(StopRound{});
  stop.body.at(32) = std::byte{0};
  EXPECT_EQ(error_of(stop), "StopRound: the status must not be ok");
}

// Found by reading: a second Ready in the middle of a round of more than 65536 segments aborted the process.
TEST(Codec, AReadyHasRoomForABitPerSegmentAndPhase) {
  Ready ready;
  ready.have.resize(std::size_t{2} * kMaxSegments / 64);
  EXPECT_TRUE(decode_sealed(frame_of(ready)));
}

TEST(Codec, AHeaderNamesAKnownTypeAndNoFlags) {
  Bytes bytes;
  encode(Heartbeat{}, Term{}, bytes);
  const auto error_with = [&](std::size_t at, std::uint8_t value) {
    Bytes changed = bytes;
    changed.at(at) = std::byte{value};
    const auto header = decode_header(std::span(changed).first<kHeaderBytes>());
    return header ? "none" : header.error().text;
  };
  EXPECT_EQ(error_with(0, 0), "header.type: 0 is not a known message (1 to 50)");
  EXPECT_EQ(error_with(0, 51), "header.type: 51 is not a known message (1 to 50)");
  EXPECT_EQ(error_with(1, 1), "header.flags: 1, must be 0");
  EXPECT_EQ(error_with(2, 1), "Heartbeat: the CRC of the header is wrong");
}

// A reader would wait forever for a body whose stated length is larger than what was sent.
TEST(Codec, AFlippedBitInAHeaderIsDetectedBeforeTheBody) {
  Bytes bytes;
  encode(AdmitCancel{}, Term{3}, bytes);
  for (std::size_t bit = 0; bit < std::size_t{16} * 8; ++bit) {
    Bytes changed = bytes;
    changed[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_FALSE(decode_header(std::span(changed).first<kHeaderBytes>())) << bit;
  }
}

TEST(Codec, AFlippedBitInATrailerWithdrawsNoSegment) {
  std::array<std::byte, kTrailerBytes> bytes{};
  for (const bool taken_back : {false, true}) {
    for (std::size_t bit = 64; bit < 128; ++bit) {
      encode(Trailer{77, taken_back}, bytes);
      bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      EXPECT_FALSE(decode_trailer(bytes)) << bit;
    }
  }
}

TEST(Codec, APreambleNeedsTheMagicNumber) {
  Bytes bytes;
  encode(Preamble{}, bytes);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), 8), "LOCKSTEP");
  const Bytes http = bytes_of("GET / HTTP/1.1\r\nHost: a.b\r\n");
  const auto preamble = decode_preamble(std::span(http).first<kPreambleBytes>());
  ASSERT_FALSE(preamble);
  EXPECT_EQ(preamble.error().status, Status::kProtocolError);
  EXPECT_EQ(preamble.error().text, "not a Lockstep stream: first bytes 47 45 54 20 ('GET ')");
}

TEST(Codec, AnotherVersionIsNotAnError) {
  Bytes bytes;
  encode(Preamble{kVersion + 1, 0xff}, bytes);
  bytes.at(12) = std::byte{9};  // reserved to us, perhaps not to them
  const auto preamble = decode_preamble(std::span(bytes).first<kPreambleBytes>());
  ASSERT_TRUE(preamble);
  EXPECT_EQ(preamble->version, kVersion + 1);
  EXPECT_EQ(preamble->features, 0xffU);
}

TEST(Codec, ATrailerIsCompleteOrWithdrawn) {
  std::array<std::byte, kTrailerBytes> bytes{};
  for (const bool taken_back : {false, true}) {
    encode(Trailer{77, taken_back}, bytes);
    const auto trailer = decode_trailer(bytes);
    ASSERT_TRUE(trailer);
    EXPECT_EQ(trailer->checksum, 77U);
    EXPECT_EQ(trailer->taken_back, taken_back);
  }
  encode(Trailer{77, false}, bytes);
  bytes.at(8) = std::byte{2};
  EXPECT_EQ(decode_trailer(bytes).error().text, "trailer.status: 2, must be 0 or all ones");
}

// A run has kMaxMembers members and waiting peers together.
TEST(Codec, TheLargestStatusIsAMessage) {
  StatusReply status;
  Member member;
  member.name.assign(kMaxNameBytes, 'n');
  status.view.members.assign(kMaxMembers / 2, member);
  status.waiting.assign(kMaxMembers - status.view.members.size(), member);
  status.view.unmeshed.assign(kMaxMembers / 2, GroupId{1});
  status.rounds.resize(kMaxVerdicts);
  status.troubles.assign(kMaxTroubles, {{}, {}, {}, std::string(kMaxTextBytes, 't')});
  const std::vector<PeerId> named(kMaxNamedInWait);
  const WaitStatus wait{std::string(kMaxNameBytes, 'c'), {}, {}, named, named, std::string(kMaxTextBytes, 'w')};
  status.waits.assign(kMaxWaitsInStatus, wait);
  status.proofs.assign(kMaxMembers, {{1, 2}, std::string(kMaxIdentityBytes, 'p')});
  Bytes bytes;
  encode(status, Term{}, bytes);
  EXPECT_LE(bytes.size(), kHeaderBytes + kMaxBodyBytes);
}

}  // namespace
}  // namespace lockstep::wire

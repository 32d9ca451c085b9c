#include "core/wire/link_reader.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/wire/link_writer.h"
#include "fuzz/read_stream.h"
#include "tests/support/sample_messages.h"
#include "tests/support/write_stream.h"

namespace lockstep::wire {
namespace {

using fuzz::StreamDriver;
using test::append;
using test::Bytes;
using test::bytes_of;

constexpr BufferId kBuffer{20};

Bytes preamble() {
  Bytes out;
  encode(Preamble{}, out);
  return out;
}

Segment segment_of(std::uint32_t length) {
  Segment segment;
  segment.length = length;
  return segment;
}

// A complete segment: header, a payload of 'a's, trailer.
Bytes segment_bytes(std::uint32_t length, bool taken_back = false) {
  Bytes out;
  encode(Message(segment_of(length)), Term{1}, out);
  out.resize(out.size() + length, std::byte{'a'});
  std::array<std::byte, kTrailerBytes> trailer{};
  encode(Trailer{42, taken_back}, trailer);
  append(out, trailer);
  return out;
}

// Copies bytes to where the window points, all of them in the reader's own buffer.
void land(LinkReader& reader, std::span<const std::byte> bytes) {
  const auto window = reader.window();
  ASSERT_EQ(window.place.length, 0U);
  ASSERT_LE(bytes.size(), window.tail.size());
  std::ranges::copy(bytes, window.tail.begin());
  reader.landed(bytes.size());
}

template <typename Event>
Event next(LinkReader& reader) {
  auto event = reader.next();
  LOCKSTEP_ASSERT(event.ok() && event->has_value() && std::holds_alternative<Event>(**event));
  return std::get<Event>(**event);
}

bool nothing_next(LinkReader& reader) {
  auto event = reader.next();
  return event.ok() && !event->has_value();
}

// A reader that has just received the header of a segment of this length, with `stray` bytes of its payload.
LinkReader at_segment(std::uint32_t length, std::size_t stray = 0) {
  LinkReader reader;
  Bytes bytes = preamble();
  Bytes segment = segment_bytes(length);
  segment.resize(segment.size() - length - kTrailerBytes + stray);
  append(bytes, segment);
  land(reader, bytes);
  next<Preamble>(reader);
  next<SegmentBegan>(reader);
  return reader;
}

TEST(LinkReader, GivesPreambleAndMessagesInOrder) {
  StreamDriver driver;
  Bytes bytes = preamble();
  encode(Pending{3, 1, 2}, Term{5}, bytes);
  encode(Heartbeat{}, Term{6}, bytes);
  driver.feed(bytes);
  ASSERT_EQ(driver.record().lines.size(), 3U);
  EXPECT_EQ(driver.record().lines[0], "preamble, version 1, features 0");
  EXPECT_EQ(driver.record().lines[1].rfind("term 5, Pending{count: 3, fetching: 1, holding: 2}", 0), 0U);
  EXPECT_EQ(driver.record().lines[2].rfind("term 6, Heartbeat{}", 0), 0U);
}

TEST(LinkReader, ReportsAnotherProtocolAfterEightBytes) {
  LinkReader reader;
  land(reader, bytes_of("GET / H"));
  EXPECT_TRUE(nothing_next(reader));
  land(reader, bytes_of("T"));
  EXPECT_EQ(reader.next().error().text, "not a Lockstep stream: first bytes 47 45 54 20 ('GET ')");
}

TEST(LinkReader, KnowsAHandshakeOfTls) {
  for (const auto& [first, is_tls] : {std::pair(Bytes{std::byte{22}, std::byte{3}, std::byte{1}}, true),
                                      {Bytes{std::byte{22}, std::byte{4}, std::byte{1}}, false},
                                      {Bytes{std::byte{21}, std::byte{3}, std::byte{1}}, false}}) {
    LinkReader reader;
    land(reader, first);
    EXPECT_FALSE(reader.met_tls()) << "before next() has failed";
    Bytes more(kMagicBytes - first.size(), std::byte{0});
    land(reader, more);
    EXPECT_FALSE(reader.next().ok());
    EXPECT_EQ(reader.met_tls(), is_tls);
  }
}

TEST(LinkReader, ReadsNothingAfterAForeignPreambleUntilTheNextCall) {
  LinkReader reader;
  Bytes bytes;
  encode(Preamble{kVersion + 1, 0}, bytes);
  append(bytes, bytes_of("words of another version, which mean nothing here"));
  land(reader, bytes);
  EXPECT_EQ(next<Preamble>(reader).version, kVersion + 1);
}

TEST(LinkReader, AnErrorIsPermanent) {
  LinkReader reader;
  Bytes bytes(24, std::byte{1});
  land(reader, bytes);
  const std::string text = reader.next().error().text;
  EXPECT_EQ(reader.next().error().text, text);
}

TEST(LinkReader, ABodyOverTheLimitIsRefusedByItsHeader) {
  Bytes bytes = preamble();
  encode(Refused{Status::kRefused, std::string(600, 'x')}, Term{}, bytes);
  bytes.resize(kPreambleBytes + kHeaderBytes);
  LinkReader stranger;
  land(stranger, bytes);
  next<Preamble>(stranger);
  EXPECT_EQ(stranger.next().error().text, "Refused: the body has 603 bytes, the limit for this peer is 512");

  LinkReader member;
  member.set_max_body_bytes(kMaxBodyBytes);
  land(member, bytes);
  next<Preamble>(member);
  EXPECT_TRUE(nothing_next(member));
}

TEST(LinkReader, OneReadReceivesASmallExpectedSegment) {
  LinkReader reader;
  land(reader, preamble());
  next<Preamble>(reader);
  EXPECT_EQ(reader.window().tail.size(), 4096U);
  reader.landed(0);
  reader.expect_segments();
  land(reader, segment_bytes(16'384));
  next<SegmentBegan>(reader);
  EXPECT_EQ(reader.place({kBuffer, 0, 16'384}).size(), 16'384U);
  EXPECT_FALSE(next<SegmentEnded>(reader).sunk);
}

TEST(LinkReader, PayloadLandsInItsPlaceAndTheReadContinuesAfterIt) {
  LinkReader reader = at_segment(1000);
  EXPECT_TRUE(reader.awaits_place());
  EXPECT_FALSE(reader.holds_place());
  EXPECT_TRUE(nothing_next(reader));
  EXPECT_TRUE(reader.place({kBuffer, 500, 1000}).empty());
  EXPECT_TRUE(reader.holds_place());

  auto window = reader.window();
  EXPECT_EQ(window.place, (BufferRef{kBuffer, 500, 1000}));
  EXPECT_EQ(window.tail.size(), 256U);
  reader.landed(400);
  EXPECT_TRUE(nothing_next(reader));

  window = reader.window();
  EXPECT_EQ(window.place, (BufferRef{kBuffer, 900, 600}));
  const Bytes whole = segment_bytes(1000);
  Bytes rest(whole.end() - kTrailerBytes, whole.end());
  encode(Heartbeat{}, Term{2}, rest);
  std::ranges::copy(rest, window.tail.begin());
  reader.landed(600 + rest.size());

  const auto ended = next<SegmentEnded>(reader);
  EXPECT_EQ(ended.segment, segment_of(1000));
  EXPECT_EQ(ended.into, (BufferRef{kBuffer, 500, 1000}));
  EXPECT_EQ(ended.checksum, 42U);
  EXPECT_FALSE(ended.sunk);
  EXPECT_FALSE(ended.taken_back);
  EXPECT_FALSE(reader.holds_place());
  EXPECT_FALSE(reader.arriving());
  EXPECT_EQ(next<Received>(reader).term, Term{2});
}

TEST(LinkReader, PayloadThatArrivedWithTheHeaderIsReturned) {
  LinkReader reader = at_segment(1000, 30);
  const auto stray = reader.place({kBuffer, 0, 1000});
  EXPECT_EQ(stray.size(), 30U);
  EXPECT_TRUE(std::ranges::all_of(stray, [](std::byte b) { return b == std::byte{'a'}; }));
  EXPECT_EQ(reader.window().place, (BufferRef{kBuffer, 30, 970}));
}

TEST(LinkReader, AnEmptyPayloadIsCompleteAtOnce) {
  StreamDriver driver;
  Bytes bytes = preamble();
  append(bytes, segment_bytes(0));
  append(bytes, segment_bytes(0, true));
  driver.feed(bytes, [] { return 1U; });
  ASSERT_EQ(driver.record().lines.size(), 5U);
  EXPECT_NE(driver.record().lines[4].find("taken back"), std::string::npos);
}

TEST(LinkReader, APlaceIsHeldUntilTheTrailerArrives) {
  LinkReader reader = at_segment(10, 10);
  reader.place({kBuffer, 0, 10});
  EXPECT_TRUE(reader.holds_place());
  EXPECT_EQ(reader.window().place.length, 0U);
  reader.landed(0);
  reader.sink();
  EXPECT_FALSE(reader.holds_place());
  Bytes trailer(kTrailerBytes);
  land(reader, trailer);
  const auto ended = next<SegmentEnded>(reader);
  EXPECT_TRUE(ended.sunk);
  EXPECT_EQ(ended.into, BufferRef{});
}

TEST(LinkReader, TheRestOfAPayloadCanGoToTheSink) {
  LinkReader reader = at_segment(200'000, 30);
  reader.place({kBuffer, 0, 200'000});
  reader.window();
  reader.landed(1000);
  reader.sink();
  EXPECT_FALSE(reader.holds_place());
  EXPECT_EQ(reader.arriving(), segment_of(200'000));

  // Never into the tail while more payload is outstanding than the sink can take.
  std::uint64_t rest = 200'000 - 1030;
  while (rest > 0) {
    const auto window = reader.window();
    EXPECT_EQ(window.place, (BufferRef{kSinkBuffer, 0, std::min(rest, kStandingBufferBytes)}));
    EXPECT_EQ(window.tail.empty(), rest > kStandingBufferBytes);
    reader.landed(window.place.length);
    rest -= window.place.length;
    EXPECT_TRUE(nothing_next(reader));
  }
  Bytes trailer(kTrailerBytes);
  land(reader, trailer);
  EXPECT_TRUE(next<SegmentEnded>(reader).sunk);
}

TEST(LinkReader, TheSinkTakesPayloadThatArrivedWithTheHeader) {
  LinkReader reader = at_segment(30, 30);
  reader.sink();
  Bytes rest(kTrailerBytes);
  encode(Heartbeat{}, Term{}, rest);
  land(reader, rest);
  EXPECT_TRUE(next<SegmentEnded>(reader).sunk);
  next<Received>(reader);
}

TEST(LinkReader, ALongBodyTakesMemoryAsItArrives) {
  Ready ready;
  ready.have.resize(kMaxSegments / 64, 0x55);
  Bytes bytes = preamble();
  Propose propose;
  propose.verdicts.resize(900);
  for (auto& verdict : propose.verdicts) verdict.text = std::string(1000, 'v');
  encode(propose, Term{}, bytes);
  ASSERT_GT(bytes.size(), 900'000U);
  encode(ready, Term{}, bytes);

  StreamDriver driver;
  driver.feed(std::span(bytes).first(100));
  const auto window = driver.reader().window();
  EXPECT_LE(window.tail.size(), 65'536U);
  driver.reader().landed(0);
  driver.feed(std::span(bytes).subspan(100));
  EXPECT_FALSE(driver.record().failed);
  EXPECT_EQ(driver.record().lines.size(), 3U);
}

// A driver carries out CopyBytes after the machine's step, and by then the step has requested the next window.
TEST(LinkReader, EarlyPayloadDoesNotMoveUntilTheNextRead) {
  LinkReader reader(kMaxBodyBytes);
  land(reader, preamble());
  next<Preamble>(reader);
  Bytes bytes = segment_bytes(10);
  while (bytes.size() + 24 <= 4096) encode(Message(Heartbeat{}), Term{1}, bytes);  // so that there is no room behind
  land(reader, bytes);
  next<SegmentBegan>(reader);
  const std::span<const std::byte> early = reader.place({kBuffer, 0, 10});
  ASSERT_EQ(early.size(), 10U);
  (void)reader.window();
  EXPECT_TRUE(std::ranges::all_of(early, [](std::byte byte) { return byte == std::byte{'a'}; }));
  reader.landed(0);
  next<SegmentEnded>(reader);
  next<Received>(reader);
}

// Every frame that a peer may send: one message of each type, and segments around the sizes of windows.
std::vector<Bytes> all_frames() {
  std::vector<Bytes> frames;
  for (const Message& message : test::sample_messages()) {
    if (std::holds_alternative<Segment>(message)) continue;
    encode(message, Term{7}, frames.emplace_back());
  }
  std::uint32_t index = 0;
  for (const std::uint32_t length : {0U, 1U, 255U, 257U, 4096U, 5000U}) {
    Segment segment = segment_of(length);
    segment.index = SegmentIndex{index++};  // the driver sinks each third one
    Bytes& frame = frames.emplace_back();
    encode(Message(segment), Term{7}, frame);
    for (std::uint32_t i = 0; i < length; ++i) frame.push_back(static_cast<std::byte>(i * 31 + length));
    std::array<std::byte, kTrailerBytes> trailer{};
    encode(Trailer{length + 1, length == 257}, trailer);
    append(frame, trailer);
  }
  return frames;
}

// All places around the head and the tail of a frame and around the sizes of windows, and some of the others.
std::vector<std::size_t> cuts_of(const Bytes& frame) {
  std::vector<std::size_t> cuts;
  for (std::size_t at = 0; at <= frame.size(); ++at) {
    const bool is_near_an_end = at < 28 || frame.size() - at < 20;
    const bool is_inside = at < 300 ? at % 11 == 0 : at % 509 == 0 || (at > 4060 && at < 4110 && at % 7 == 0);
    if (is_near_an_end || is_inside) cuts.push_back(at);
  }
  return cuts;
}

// The rest of a frame arrives together with the whole next frame.
TEST(LinkReader, AnyFrameFollowsAnyPartOfAnyFrameInOneRead) {
  const std::vector<Bytes> frames = all_frames();
  const Bytes begin = preamble();
  for (std::size_t a = 0; a < frames.size(); ++a) {
    for (std::size_t b = 0; b < frames.size(); ++b) {
      Bytes both = frames[a];
      append(both, frames[b]);
      StreamDriver whole;
      whole.feed(begin);
      whole.feed(both);
      ASSERT_FALSE(whole.record().failed) << whole.record().lines.back();
      for (const std::size_t cut : cuts_of(frames[a])) {
        StreamDriver driver;
        driver.feed(begin);
        driver.feed(std::span(both).first(cut));
        driver.feed(std::span(both).subspan(cut));
        ASSERT_EQ(driver.record(), whole.record()) << "frame " << a << " cut at " << cut << ", then frame " << b;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::wire

#include "core/wire/link_writer.h"

#include <gtest/gtest.h>

#include "fuzz/read_stream.h"
#include "tests/support/write_stream.h"

namespace lockstep::wire {
namespace {

using fuzz::StreamDriver;
using fuzz::StreamRecord;
using test::append;
using test::Bytes;
using test::bytes_of;
using test::StreamSource;

constexpr AttemptId kAttempt{1};
constexpr std::size_t kSegmentHeaderBytes = kHeaderBytes + 41;

RoundKey round(std::uint64_t tag) { return {CohortId{1}, GroupId{0}, Tag{tag}, 0}; }

// A writer with its memory.
struct Sender {
  StreamSource source;
  LinkWriter writer;
  Bytes sent;

  Sender() { writer.preamble(); }

  BufferRef segment(std::uint64_t tag, std::string_view payload) {
    const BufferRef memory = source.keep(bytes_of(payload));
    Segment segment{.key = round(tag), .attempt = kAttempt, .index = {}, .length = 0};
    segment.length = static_cast<std::uint32_t>(payload.size());
    writer.segment(segment, Term{1}, memory, 99);
    return memory;
  }
  void message(std::uint32_t count) { writer.message(Pending{count}, Term{1}); }
  void take(std::size_t bytes) { append(sent, source.take(writer, bytes)); }

  // The events that the other side reads: the first words of each line.
  StreamRecord finish() {
    append(sent, source.take_all(writer));
    StreamDriver driver;
    driver.feed(sent);
    return driver.record();
  }
};

// "Pending 1", "Segment 7", "ended 7", "taken back 7"
std::vector<std::string> words(const StreamRecord& record) {
  std::vector<std::string> out;
  const auto number_after = [](const std::string& line, std::string_view mark) {
    const auto at = line.find(mark) + mark.size();
    return line.substr(at, line.find_first_not_of("0123456789", at) - at);
  };
  for (const std::string& line : record.lines) {
    const bool ended = line.rfind("ended", 0) == 0;
    if (line.find("Pending") != std::string::npos) out.push_back("Pending " + number_after(line, "count: "));
    if (line.find("Segment{") == std::string::npos) continue;
    const bool back = line.find("taken back") != std::string::npos;
    out.push_back((back ? "taken back " : ended ? "ended " : "Segment ") + number_after(line, " t"));
  }
  return out;
}

using Words = std::vector<std::string>;

TEST(LinkWriter, WantsToWriteQueuedBytesThatAreNotLent) {
  LinkWriter writer;
  EXPECT_FALSE(writer.wants_write());
  writer.preamble();
  EXPECT_TRUE(writer.wants_write());
  EXPECT_EQ(writer.control_bytes_queued(), kPreambleBytes);
  writer.begin_write();
  EXPECT_FALSE(writer.wants_write());
  writer.written(0);
  EXPECT_TRUE(writer.wants_write());
  writer.begin_write();
  writer.written(kPreambleBytes);
  EXPECT_FALSE(writer.wants_write());
  EXPECT_EQ(writer.control_bytes_queued(), 0U);
}

TEST(LinkWriter, OneWriteCoversSeveralFrames) {
  Sender s;
  s.message(1);
  s.segment(7, "payload");
  s.segment(8, "");
  s.segment(9, "more");
  EXPECT_EQ(s.writer.segments_queued(), 3U);
  s.take(SIZE_MAX);
  EXPECT_EQ(s.writer.segments_queued(), 0U);
  EXPECT_FALSE(s.writer.wants_write());
  const auto record = s.finish();
  EXPECT_EQ(words(record),
            (Words{"Pending 1", "Segment 7", "ended 7", "Segment 8", "ended 8", "Segment 9", "ended 9"}));
  EXPECT_EQ(record.payloads, (std::vector<Bytes>{bytes_of("payload"), {}, bytes_of("more")}));
}

TEST(LinkWriter, MessagesOvertakeSegmentsThatHaveNotBegun) {
  Sender s;
  s.take(SIZE_MAX);
  s.segment(7, "payload");
  s.segment(8, "payload");
  s.take(1);
  s.message(1);
  s.message(2);
  EXPECT_EQ(words(s.finish()), (Words{"Segment 7", "ended 7", "Pending 1", "Pending 2", "Segment 8", "ended 8"}));
}

TEST(LinkWriter, MessagesOvertakeALentSegmentThatDidNotBegin) {
  Sender s;
  s.take(SIZE_MAX);
  s.segment(7, "payload");
  s.writer.begin_write();
  s.message(1);
  s.writer.written(0);
  EXPECT_EQ(words(s.finish()), (Words{"Pending 1", "Segment 7", "ended 7"}));
}

TEST(LinkWriter, MessagesWaitForASegmentThatOneWriteCannotHold) {
  Sender s;
  s.take(SIZE_MAX);
  const std::string large(kMaxSegmentBytes, 'l');
  s.segment(7, large);
  s.take(1);
  s.message(1);
  const auto record = s.finish();
  EXPECT_EQ(words(record), (Words{"Segment 7", "ended 7", "Pending 1"}));
  EXPECT_TRUE(record.payloads.at(0) == bytes_of(large));
}

TEST(LinkWriter, LentBytesDoNotMove) {
  Sender s;
  s.message(1);
  s.segment(7, "payload");
  const io::SliceList write = s.writer.begin_write();
  const Bytes before = s.source.gather(write);
  for (std::uint32_t i = 0; i < 1000; ++i) {
    s.message(i);
    s.segment(8, "x");
  }
  EXPECT_EQ(s.source.gather(write), before);  // the address sanitizer sees it if not
  s.writer.written(before.size());
}

TEST(LinkWriter, AWriteIsBoundedInSlicesAndBytes) {
  Sender s;
  const std::string large(kMaxSegmentBytes, 'l');
  for (std::uint32_t i = 0; i < 3000; ++i) s.message(i);
  for (int i = 0; i < 3; ++i) s.segment(7, large);
  for (int i = 0; i < 20; ++i) s.segment(8, "small");
  while (s.writer.wants_write()) {
    const auto write = s.writer.begin_write();
    EXPECT_LE(write.all().size(), io::SliceList::kCapacity);
    EXPECT_LE(write.bytes(), 2 * kMaxSegmentBytes + (64U << 10U));
    append(s.sent, s.source.gather(write));
    s.writer.written(write.bytes());
  }
  EXPECT_EQ(words(s.finish()).size(), 3000U + 2 * 23);
}

TEST(LinkWriter, LendsWhileTheOutstandingWriteNamesThePayload) {
  Sender s;
  s.segment(7, "payload");
  EXPECT_FALSE(s.writer.lends(round(7), kAttempt));
  s.writer.begin_write();
  EXPECT_TRUE(s.writer.lends(round(7), kAttempt));
  EXPECT_FALSE(s.writer.lends(round(8), kAttempt));
  EXPECT_FALSE(s.writer.lends(round(7), kAttempt.next()));
  s.writer.written(0);
  EXPECT_FALSE(s.writer.lends(round(7), kAttempt));
}

TEST(LinkWriter, ForgottenSegmentsThatHaveNotBegunAreDropped) {
  Sender s;
  s.source.free(s.segment(7, "payload"));
  s.segment(8, "stays");
  s.source.free(s.segment(7, "payload"));
  s.writer.forget(round(7), kAttempt);
  EXPECT_EQ(s.writer.segments_queued(), 1U);
  EXPECT_EQ(words(s.finish()), (Words{"Segment 8", "ended 8"}));
}

TEST(LinkWriter, AForgottenSegmentThatHasBegunIsFilledAndWithdrawn) {
  const std::string payload(300'000, 'p');  // more than one buffer of zeros
  for (const std::size_t begun : {std::size_t{1}, kSegmentHeaderBytes, kSegmentHeaderBytes + 5}) {
    Sender s;
    s.take(SIZE_MAX);
    const BufferRef memory = s.segment(7, payload);
    s.segment(8, "next");
    s.take(begun);
    s.writer.forget(round(7), kAttempt);
    s.source.free(memory);
    const auto record = s.finish();
    EXPECT_EQ(words(record), (Words{"Segment 7", "taken back 7", "Segment 8", "ended 8"})) << begun;
    Bytes seen(payload.size());
    std::fill_n(seen.begin(), begun > kSegmentHeaderBytes ? 5 : 0, std::byte{'p'});
    EXPECT_EQ(record.payloads.at(0), seen);
  }
}

TEST(LinkWriter, AForgottenSegmentWithWrittenPayloadEndsNormally) {
  Sender s;
  s.take(SIZE_MAX);
  const BufferRef memory = s.segment(7, "payload");
  s.take(kSegmentHeaderBytes + 7 + 3);
  s.writer.forget(round(7), kAttempt);
  s.source.free(memory);
  EXPECT_EQ(words(s.finish()), (Words{"Segment 7", "ended 7"}));
}

// The list of slices ended between a header and its payload.
TEST(LinkWriter, ASegmentOfWhichOnlyTheHeaderIsLentCanBeForgotten) {
  for (const std::size_t taken_of_header : {0U, 1U, 65U}) {
    Sender s;
    s.take(SIZE_MAX);
    for (int i = 0; i < 5; ++i) s.segment(1, "x");  // three slices each: one is left
    const BufferRef memory = s.segment(7, "payload");
    const auto write = s.writer.begin_write();
    ASSERT_TRUE(write.full());
    ASSERT_FALSE(s.writer.lends(round(7), kAttempt));
    s.writer.forget(round(7), kAttempt);
    s.source.free(memory);
    Bytes bytes = s.source.gather(write);
    bytes.resize(bytes.size() - kSegmentHeaderBytes + taken_of_header);
    append(s.sent, bytes);
    s.writer.written(bytes.size());

    auto seen = words(s.finish());
    seen.erase(seen.begin(), seen.begin() + 10);
    EXPECT_EQ(seen, taken_of_header == 0 ? Words{} : (Words{"Segment 7", "taken back 7"})) << taken_of_header;
  }
}

TEST(LinkWriter, AForgottenEmptySegmentThatIsLentEndsNormally) {
  Sender s;
  s.take(SIZE_MAX);
  s.segment(7, "");
  const auto write = s.writer.begin_write();
  const Bytes before = s.source.gather(write);
  s.writer.forget(round(7), kAttempt);
  EXPECT_EQ(s.source.gather(write), before);
  append(s.sent, before);
  s.writer.written(before.size());
  EXPECT_EQ(words(s.finish()), (Words{"Segment 7", "ended 7"}));
}

}  // namespace
}  // namespace lockstep::wire

// Laws of the wire: codec, reader and writer, on random messages, cuts, losses and bit flips.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "core/base/rng.h"
#include "core/wire/codec.h"
#include "core/wire/describe.h"
#include "core/wire/link_writer.h"
#include "fuzz/read_stream.h"
#include "tests/support/message_generators.h"
#include "tests/support/write_stream.h"

namespace lockstep::wire {
namespace {

using fuzz::StreamDriver;
using fuzz::StreamRecord;
using test::append;
using test::arbitrary_control_message;
using test::arbitrary_message;
using test::arbitrary_struct;
using test::Bytes;
using test::StreamSource;

Bytes frame_of(const Message& message, Term term) {
  Bytes out;
  encode(message, term, out);
  return out;
}

// One item of a stream: a message, or a segment if there is a payload.
struct Saying {
  Message message;
  Term term;
  Bytes payload;
};

rc::Gen<Saying> arbitrary_saying() {
  return rc::gen::exec([] {
    Saying saying;
    saying.term = Term{*rc::gen::arbitrary<std::uint64_t>()};
    if (*rc::gen::arbitrary<bool>()) {
      saying.message = *arbitrary_control_message();
      return saying;
    }
    auto segment = *arbitrary_struct<Segment>();
    segment.key = {CohortId{1}, GroupId{0}, Tag{*rc::gen::inRange<std::uint64_t>(0, 3)}, 0};
    segment.attempt = AttemptId{0};
    segment.length = *rc::gen::weightedElement<std::uint32_t>({{2, 0}, {6, 100}, {4, 300}, {2, 5000}, {1, 150'000}});
    // Every byte is unique and never 0, because zeros fill up withdrawn payloads.
    const auto first = *rc::gen::inRange<std::size_t>(0, 251);
    for (std::size_t i = 0; i < segment.length; ++i)
      saying.payload.push_back(static_cast<std::byte>((first + i) % 251 + 1));
    saying.message = segment;
    return saying;
  });
}

rc::Gen<std::vector<Saying>> arbitrary_talk() {
  return rc::gen::resize(20, rc::gen::container<std::vector<Saying>>(arbitrary_saying()));
}

void say(LinkWriter& writer, StreamSource& source, const Saying& saying) {
  if (const auto* segment = std::get_if<Segment>(&saying.message)) {
    writer.segment(*segment, saying.term, source.keep(saying.payload), 1);
  } else {
    writer.message(saying.message, saying.term);
  }
}

// The bytes of a talk, written at once.
Bytes stream_of(const std::vector<Saying>& talk) {
  StreamSource source;
  LinkWriter writer;
  writer.preamble();
  Bytes out = source.take_all(writer);
  for (const Saying& saying : talk) {
    say(writer, source, saying);
    append(out, source.take_all(writer));
  }
  return out;
}

// Sizes of reads and writes: mostly tiny, sometimes large, never zero.
std::function<std::size_t()> arbitrary_cuts() {
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const auto largest = *rc::gen::element<std::uint64_t>(1, 7, 70, 700, 7000, 100'000);
  return [seed, largest, n = std::uint64_t{0}]() mutable { return 1 + below(draw(seed, 0, 0, 0, n++), largest); };
}

StreamRecord record_of(const Bytes& stream, const std::function<std::size_t()>& cuts) {
  StreamDriver driver;
  driver.feed(stream, cuts);
  return driver.record();
}

StreamRecord record_of(const Bytes& stream) {
  return record_of(stream, [] { return SIZE_MAX; });
}

// Law: decoding undoes encoding.
RC_GTEST_PROP(Wire, MessagesSurviveARoundTrip, ()) {
  const Message message = *arbitrary_message();
  const Term term{*rc::gen::arbitrary<std::uint64_t>()};
  const Bytes frame = frame_of(message, term);
  const auto header = decode_header(std::span(frame).first<kHeaderBytes>());
  RC_ASSERT(header.ok());
  const auto back = decode_body(*header, std::span(frame).subspan(kHeaderBytes));
  RC_ASSERT(back.ok());
  RC_ASSERT(frame_of(*back, header->term) == frame);
}

// Law: a control frame with one flipped bit is never accepted as a message.
RC_GTEST_PROP(Wire, AFlippedBitIsDetected, ()) {
  Bytes frame = frame_of(*arbitrary_message(), Term{*rc::gen::arbitrary<std::uint64_t>()});
  const auto bit = *rc::gen::inRange<std::size_t>(0, frame.size() * 8);
  frame[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));

  Bytes stream;
  encode(Preamble{}, stream);
  append(stream, frame);
  stream.resize(stream.size() + std::size_t{2} * kMaxBodyBytes);  // enough for any length that the header may state now
  const auto record = record_of(stream);
  RC_ASSERT(record.failed);
  RC_ASSERT(record.lines.size() == 2U);  // the preamble and the error
}

// Law: different descriptors have different descriptions (for an error that names both sides).
RC_GTEST_PROP(Wire, DifferentDescriptorsHaveDifferentDescriptions, ()) {
  Descriptor a = *arbitrary_struct<Descriptor>();
  Descriptor b = a;
  const Descriptor other = *arbitrary_struct<Descriptor>();
  switch (*rc::gen::inRange(0, 9)) {
    case 0: b.type = other.type; break;
    case 1: b.op = other.op; break;
    case 2: b.retry = other.retry; break;
    case 3: b.minimum_world = other.minimum_world; break;
    case 4: b.tensors = other.tensors; break;
    case 5: b.count = has_blocks(a.collective) ? 0 : other.count; break;
    case 6: b.root = a.collective == Collective::kBroadcast ? other.root : a.root; break;
    case 7: b.segment_bytes = other.segment_bytes; break;
    default: b = other;
  }
  if (a.tensors == 1) a.layout = 0;  // one tensor's layout is its count
  if (b.tensors == 1) b.layout = 0;
  RC_ASSERT((a == b) == (describe(a) == describe(b)));
}

// Law: the boundaries of reads do not matter.
RC_GTEST_PROP(Wire, ReadsMayBeCutAnywhere, ()) {
  const Bytes stream = stream_of(*arbitrary_talk());
  RC_ASSERT(record_of(stream, arbitrary_cuts()) == record_of(stream));
}

// Law: the boundaries of writes do not matter.
RC_GTEST_PROP(Wire, WritesMayBeCutAnywhere, ()) {
  const auto talk = *arbitrary_talk();
  const auto bytes_with = [&talk](const std::function<std::size_t()>& cuts) {
    StreamSource source;
    LinkWriter writer;
    writer.preamble();
    for (const Saying& saying : talk) say(writer, source, saying);
    Bytes out;
    while (writer.wants_write()) append(out, source.take(writer, cuts()));
    return out;
  };
  RC_ASSERT(bytes_with(arbitrary_cuts()) == bytes_with([] { return SIZE_MAX; }));
}

// Law: every message and segment arrives in its order, whatever is written when.
RC_GTEST_PROP(Wire, MessagesAndSegmentsArriveInOrder, ()) {
  const auto talk = *arbitrary_talk();
  const auto cuts = arbitrary_cuts();
  StreamSource source;
  LinkWriter writer;
  writer.preamble();
  Bytes stream;
  for (const Saying& saying : talk) {
    if (!writer.wants_write()) {
      say(writer, source, saying);
      continue;
    }
    const io::SliceList write = writer.begin_write();
    say(writer, source, saying);  // while a write is lent
    const Bytes taken = source.gather(write, cuts());
    writer.written(taken.size());
    append(stream, taken);
    while (writer.wants_write() && *rc::gen::arbitrary<bool>()) append(stream, source.take(writer, cuts()));
  }
  append(stream, source.take_all(writer));
  const auto heard = record_of(stream);
  const auto in_turn = record_of(stream_of(talk));

  const auto only = [](const StreamRecord& record, bool segments) {
    std::vector<std::string> lines;
    std::ranges::copy_if(record.lines, std::back_inserter(lines), [segments](const std::string& line) {
      return (line.find("Segment{") != std::string::npos) == segments;
    });
    return lines;
  };
  RC_ASSERT(!heard.failed);
  RC_ASSERT(only(heard, true) == only(in_turn, true));
  RC_ASSERT(only(heard, false) == only(in_turn, false));
  RC_ASSERT(heard.payloads == in_turn.payloads);
}

// Law: rounds may be forgotten at any moment. Their memory is no longer read, the stream stays valid, and a segment
// arrives with its whole payload or is marked as withdrawn.
RC_GTEST_PROP(Wire, RoundsMayBeForgottenAtAnyMoment, ()) {
  const auto talk = *arbitrary_talk();
  const auto cuts = arbitrary_cuts();
  StreamSource source;
  LinkWriter writer;
  writer.preamble();
  Bytes stream;
  std::vector<std::pair<RoundKey, BufferRef>> lent;

  const auto write_some = [&] {
    while (writer.wants_write() && *rc::gen::inRange(0, 4) != 0) {
      const io::SliceList write = writer.begin_write();
      const Bytes before = source.gather(write);
      const RoundKey key{CohortId{1}, GroupId{0}, Tag{*rc::gen::inRange<std::uint64_t>(0, 3)}, 0};
      const bool forget = *rc::gen::inRange(0, 4) == 0;
      if (forget && !writer.lends(key, {})) {  // with a write outstanding, only what is not lent
        writer.forget(key, {});
        RC_ASSERT(source.gather(write) == before);
        for (const auto& [owner, memory] : lent) {
          if (owner == key) source.free(memory);
        }
      }
      Bytes taken = before;
      taken.resize(std::min<std::size_t>(taken.size(), cuts()));
      writer.written(taken.size());
      append(stream, taken);
      if (forget) {
        writer.forget(key, {});
        for (const auto& [owner, memory] : lent) {
          if (owner == key) source.free(memory);
        }
      }
    }
  };

  for (const Saying& saying : talk) {
    if (const auto* segment = std::get_if<Segment>(&saying.message)) {
      lent.emplace_back(segment->key, source.keep(saying.payload));
      writer.segment(*segment, saying.term, lent.back().second, 1);
    } else {
      writer.message(saying.message, saying.term);
    }
    write_some();
  }
  append(stream, source.take_all(writer));

  const auto heard = record_of(stream, arbitrary_cuts());
  RC_ASSERT(!heard.failed);
  std::size_t payload = 0;
  for (const std::string& line : heard.lines) {
    if (line.rfind("ended", 0) != 0 || line.find(", sunk") != std::string::npos) continue;
    const auto& bytes = heard.payloads.at(payload++);
    const bool whole = std::ranges::find(bytes, std::byte{0}) == bytes.end();
    RC_ASSERT(whole == (line.find(", taken back") == std::string::npos));
  }
  const auto messages = [](const StreamRecord& record) {
    return std::ranges::count_if(record.lines, [](const std::string& line) {
      return line.rfind("term ", 0) == 0 && line.find("Segment{") == std::string::npos;
    });
  };
  RC_ASSERT(messages(heard) == messages(record_of(stream_of(talk))));
}

}  // namespace
}  // namespace lockstep::wire

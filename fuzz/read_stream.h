// A driver in small: feeds one stream to a LinkReader in pieces and writes down what came out. However the stream is
// cut, the record must be the same. Used by the fuzzer and by the tests of the wire.
//
// Like every driver it copies payload that came with a header as late as it may: after the step, when the next window
// has been lent.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/overloaded.h"
#include "core/wire/describe.h"
#include "core/wire/link_reader.h"

namespace lockstep::fuzz {

struct StreamRecord {
  // One line per event, then the error if there was one.
  std::vector<std::string> lines;
  // Of the segments that were not sunk, in order.
  std::vector<std::vector<std::byte>> payloads;
  bool failed = false;

  bool operator==(const StreamRecord&) const = default;
};

class StreamDriver {
 public:
  // Each third segment is sunk, by its index.
  explicit StreamDriver(std::uint32_t max_body_bytes = kMaxBodyBytes) : reader_(max_body_bytes) { drain(); }

  // Feeds `bytes`; each read gives at most as many as `cut` says (at least one).
  void feed(std::span<const std::byte> bytes, std::invocable auto cut) {
    while (!bytes.empty() && !record_.failed) {
      const auto window = reader_.window();
      carry_out_places();
      const std::size_t room = window.place.length + window.tail.size();
      LOCKSTEP_ASSERT(room > 0);
      const auto read = bytes.first(std::min(bytes.size(), std::min<std::size_t>(room, cut())));
      const auto placed = read.first(std::min<std::size_t>(read.size(), window.place.length));
      put(window.place, placed);
      std::ranges::copy(read.subspan(placed.size()), window.tail.begin());
      reader_.landed(read.size());
      bytes = bytes.subspan(read.size());
      drain();
    }
    carry_out_places();
  }
  void feed(std::span<const std::byte> bytes) {
    feed(bytes, [] { return SIZE_MAX; });
  }

  [[nodiscard]] const StreamRecord& record() const { return record_; }
  [[nodiscard]] wire::LinkReader& reader() { return reader_; }

 private:
  void drain() {
    for (;;) {
      auto event = reader_.next();
      if (!event) {
        record_.failed = true;
        return say("error: " + event.error().text);
      }
      if (!*event) return;
      std::visit(
          overloaded{
              [&](const wire::Preamble& e) {
                say("preamble, version " + std::to_string(e.version) + ", features " + std::to_string(e.features));
              },
              [&](const wire::Received& e) { say(line(e.message, e.term)); },
              [&](const wire::SegmentBegan& e) { on_began(e); },
              [&](const wire::SegmentEnded& e) { on_ended(e); },
          },
          **event);
    }
  }

  void on_began(const wire::SegmentBegan& e) {
    say(line(e.segment, e.term));
    if (e.segment.index.value % 3 == 2) return reader_.sink();
    payload_ = std::make_shared<Payload>(e.segment.length, std::byte{0xee});
    places_.push_back({payload_, reader_.place({kFirstFreeBuffer, 0, e.segment.length})});
  }

  void on_ended(const wire::SegmentEnded& e) {
    say("ended, " + describe(wire::Message(e.segment)) + (e.sunk ? ", sunk" : "") +
        (e.taken_back ? ", taken back" : "") + ", checksum " + std::to_string(e.checksum));
    if (!e.sunk) ended_.push_back(std::move(payload_));
  }

  void carry_out_places() {
    for (const Place& place : places_) std::ranges::copy(place.early, place.payload->begin());
    places_.clear();
    for (const auto& payload : ended_) record_.payloads.push_back(std::move(*payload));
    ended_.clear();
  }

  void put(const BufferRef& place, std::span<const std::byte> bytes) {
    if (place.id == kSinkBuffer || bytes.empty()) return;
    LOCKSTEP_ASSERT(place.offset + bytes.size() <= payload_->size());
    std::ranges::copy(bytes, payload_->begin() + static_cast<std::ptrdiff_t>(place.offset));
  }

  // Words for people, and the checksum of the whole frame, since words leave out the ends of long lists.
  static std::string line(const wire::Message& message, Term term) {
    std::vector<std::byte> frame;
    wire::encode(message, term, frame);
    const auto header = wire::decode_header(std::span(frame).first<wire::kHeaderBytes>());
    return "term " + std::to_string(term.value) + ", " + describe(message) + ", frame " +
           std::to_string(header->checksum);
  }

  void say(std::string text) { record_.lines.push_back(std::move(text)); }

  using Payload = std::vector<std::byte>;
  // Payload that came with its header.
  struct Place {
    std::shared_ptr<Payload> payload;
    std::span<const std::byte> early;
  };

  wire::LinkReader reader_;
  StreamRecord record_;
  std::shared_ptr<Payload> payload_;  // of the segment that arrives
  std::vector<Place> places_;         // not carried out yet
  std::vector<std::shared_ptr<Payload>> ended_;
};

}  // namespace lockstep::fuzz

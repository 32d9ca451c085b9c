// How the bytes of a stream come (rule 51 of docs/protocol.md). A line that is nearly dead passes a byte now and then,
// so a single byte proves nothing: progress is a whole frame, or as many bytes as any line of use passes in that time.
// Only the receiver measures. A sender that has begun a frame has all of it, so that the rest of a frame waits for
// nothing but the line: neither for a kernel, nor for back-pressure along the ring.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "core/base/mutant.h"
#include "core/base/time.h"

namespace lockstep::wire {

class Progress {
 public:
  // So many bytes are progress, whether or not a frame has ended.
  static constexpr std::uint64_t kLeastBytes = 512;

  explicit Progress(Instant now) : since_(now), heard_(now) {}

  // Bytes have come. `frames`: the frames that had ended before; `in_segment`: the stream was in the middle of one.
  void came(std::size_t bytes, std::uint64_t frames, bool in_segment, Instant now) {
    settle(frames);
    if (in_segment) {
      busy_.time = busy_.time + (now - heard_);
      busy_.bytes += bytes;
    }
    heard_ = now;
    bytes_ += bytes;
    if (bytes_ >= kLeastBytes || mutant(Mutant::kAnyByteIsProgress)) made(now);
  }
  // The frames that have ended by now. Call it before a question.
  void settle(std::uint64_t frames) {
    if (frames == frames_) return;
    frames_ = frames;
    made(heard_);
  }
  // What came in the middle of segments, which wait for nothing but the line, and the time that this took.
  struct Busy {
    Duration time;
    std::uint64_t bytes = 0;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(time, bytes);
    }
  };
  // Since this was asked last.
  [[nodiscard]] Busy take_busy() { return std::exchange(busy_, {}); }
  // Nothing was read until now, because a segment had no place.
  void waited(Instant now) { heard_ = now; }
  // It was we who did not read.
  void forgive(Instant now) {
    heard_ = since_ = now;
    bytes_ = 0;
  }

  [[nodiscard]] Instant since() const { return since_; }  // the last progress
  // The longest pause between two signs of progress lately; 0: not known yet.
  [[nodiscard]] Duration pause() const { return pauses_ < kFewPauses ? Duration{} : pause_; }

  // How long a stream may do without progress that has a heartbeat each `beat`, and has bytes on their way: one beat,
  // and another for what delays it. `round_trip`: 0: not known; `most`: its limit for silence.
  [[nodiscard]] static Duration limit(Duration beat, Duration round_trip, Duration most) {
    return std::min(most, std::max(beat * 2, kLeastPatience) + round_trip * kRoundTrips);
  }
  // Whether the stream is nearly dead, at a look of the machine's timer. A machine that stood still may have read only
  // a part of what lies before it. So two looks must find the stream so, and the second look must not be late.
  [[nodiscard]] bool is_nearly_dead(Instant now, Duration beat, Duration limit) {
    if (!drips(now, limit)) {
      first_look_ = kNever;
      return false;
    }
    const Duration again = until_next_look(beat);
    if (first_look_ == kNever || now - first_look_ > again * 2) first_look_ = now;
    return now - first_look_ >= again;
  }
  // For how much longer a stream is not taken for a silent one that a first look has found nearly dead: the second look
  // decides.
  [[nodiscard]] Duration grace(Duration beat) const {
    return first_look_ == kNever ? Duration{} : until_next_look(beat) * 2;
  }
  // When a stream that is not to be judged at its next beat is to be judged; kNever: it is early enough then.
  [[nodiscard]] Instant look_at(Instant now, Duration beat, Duration limit) const {
    if (now - since_ <= beat + beat / 4) return kNever;
    return std::max(since_ + limit, now + until_next_look(beat));
  }
  // "3 bytes in 1000 ms, and no message came to its end"
  [[nodiscard]] std::string words(Instant now) const {
    return std::to_string(bytes_) + (bytes_ == 1 ? " byte in " : " bytes in ") +
           std::to_string((now - since_).ns / 1'000'000) + " ms, and no message came to its end";
  }

  template <typename Archive>
  void archive(Archive& a) {
    a.all(since_, heard_, first_look_, frames_, bytes_, busy_, pause_, pauses_);
  }

 private:
  // No busy machine is so late that a message stands still in its middle for so long.
  static constexpr Duration kLeastPatience = milliseconds(300);
  static constexpr std::int64_t kRoundTrips = 4;  // what is lost on the way is sent again, twice
  static constexpr std::uint32_t kFewPauses = 4;
  static constexpr std::int64_t kForgets = 16;  // a long pause is forgotten in so many signs of progress
  static constexpr Duration kLeastBetweenLooks = milliseconds(25);

  static constexpr Duration until_next_look(Duration beat) { return std::max(beat / 4, kLeastBetweenLooks); }
  // No progress for so long, and bytes have come after half of that time: a sender that stands still sends none, and
  // the bytes of a line that was interrupted come in packets, with all of a message.
  [[nodiscard]] bool drips(Instant now, Duration limit) const {
    return now - since_ >= limit && bytes_ > 0 && heard_ - since_ >= limit / 2;
  }

  void made(Instant at) {
    pause_ = std::max(at - since_, pause_ - pause_ / kForgets);
    pauses_ = std::min(pauses_ + 1, kFewPauses);
    since_ = at;
    bytes_ = 0;
  }

  Instant since_;
  Instant heard_;
  Instant first_look_ = kNever;  // that found the stream nearly dead, of two; kNever: none has
  std::uint64_t frames_ = 0;
  std::uint64_t bytes_ = 0;
  Busy busy_;
  Duration pause_;
  std::uint32_t pauses_ = 0;
};

}  // namespace lockstep::wire

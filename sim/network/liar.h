// The output of a member that lies: the messages of one stream, some of them changed. Every frame is well formed and
// has the right checksum, so that the receiver has to judge what it says. A lie is one of these: a number in a message
// is another one, a message comes twice or never, an earlier message comes again, or a round is stopped that the member
// takes part in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/base/ids.h"
#include "core/wire/codec.h"
#include "core/wire/message.h"
#include "sim/engine/dice.h"

namespace lockstep::sim {

class Liar {
 public:
  struct Manner {
    std::uint64_t one_in = 0;  // one message in so many is a lie; 0: none
    Dice dice{0};
    std::uint64_t stream = 0;  // for draws
    bool to_coordinator = false;
    // The length of a segment is true: the simulator transports the payload as a token (Mode::kToken).
    bool true_lengths = false;
  };

  // Takes the next bytes of the stream, without payloads, and appends the bytes that go on the wire.
  void pass(std::span<const std::byte> bytes, const Manner& manner, std::vector<std::byte>& out);
  [[nodiscard]] std::uint64_t lies() const { return lies_; }

 private:
  void take_frame(const Manner& manner, std::vector<std::byte>& out);
  void say(const wire::FrameHeader& header, const Manner& manner, std::vector<std::byte>& out);
  void lie(const wire::FrameHeader& header, const wire::Message& message, const Manner& manner,
           std::vector<std::byte>& out);
  void change(const wire::FrameHeader& header, const wire::Message& message, const Manner& manner,
              std::vector<std::byte>& out);
  [[nodiscard]] std::uint64_t draw(const Manner& manner, std::uint64_t n) const {
    return manner.dice.bits(Purpose::kLiar, manner.stream, said_, n);
  }
  void append_frame(std::vector<std::byte>& out) const { out.insert(out.end(), frame_.begin(), frame_.end()); }

  std::size_t plain_left_ = wire::kPreambleBytes;  // bytes of a preamble or a trailer, which pass as they are
  std::vector<std::byte> frame_;                   // header and body, as far as they have come
  std::size_t frame_left_ = wire::kHeaderBytes;    // until the header, or the body, is complete
  std::vector<std::byte> earlier_;                 // a frame that was said
  std::optional<wire::StopRound> stop_;            // of a round that a message was about
  std::uint64_t said_ = 0;                         // messages
  std::uint64_t lies_ = 0;
};

}  // namespace lockstep::sim

// The output of a stranger's program that joins and never answers: the bytes of one stream to the coordinator without
// the frames that answer a proposal. All other frames pass, heartbeats among them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "core/wire/codec.h"

namespace lockstep::sim {

class Withholding {
 public:
  // Takes the next bytes of the stream, and appends the bytes that pass. `mute`: only the first `answers` answers of
  // this stream pass.
  void pass(std::span<const std::byte> bytes, bool mute, std::uint64_t answers, std::vector<std::byte>& out) {
    for (const std::byte byte : bytes) {
      if (left_ == 0) begin_frame(byte, mute, answers);
      if (!withheld_) out.push_back(byte);
      left_ -= 1;
      if (in_header_) take_header(byte);
    }
  }

 private:
  void begin_frame(std::byte type, bool mute, std::uint64_t answers) {
    in_header_ = true;
    taken_ = 0;
    left_ = wire::kHeaderBytes;
    const bool answer = static_cast<std::uint8_t>(type) == wire::type_of(wire::Flush{});
    withheld_ = answer && mute && answered_ >= answers;
    if (answer && !withheld_) answered_ += 1;
  }

  // The length of the body is the second word of the header.
  void take_header(std::byte byte) {
    header_[taken_++] = byte;
    if (left_ > 0) return;
    in_header_ = false;
    std::uint32_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) length |= static_cast<std::uint32_t>(header_[4 + i]) << (8 * i);
    left_ = length;
  }

  std::size_t left_ = wire::kPreambleBytes;  // of the preamble, a header or a body
  std::size_t taken_ = 0;
  std::byte header_[wire::kHeaderBytes]{};
  bool in_header_ = false;
  bool withheld_ = false;
  std::uint64_t answered_ = 0;
};

}  // namespace lockstep::sim

// Listens on one direction of a stream: from the bytes that a sender puts on the wire, the messages that they are.
// Payload need not be shown, only counted. Believes nothing to be well-formed: where it no longer understands, it falls
// silent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/wire/codec.h"
#include "core/wire/message.h"

namespace lockstep::sim {

class WireTap {
 public:
  // A message, and how many bytes the stream has carried when its last byte is through.
  struct Heard {
    wire::Message message;
    std::uint64_t end = 0;
  };

  // `size` more bytes go by; `bytes` is empty where they are payload.
  void hear(std::span<const std::byte> bytes, std::size_t size, std::vector<Heard>& out);

 private:
  enum class Part : std::uint8_t { kPreamble, kHeader, kBody, kPayload, kTrailer, kNoise };

  [[nodiscard]] std::size_t wanted() const;
  void part_is_whole(std::vector<Heard>& out);

  Part part_ = Part::kPreamble;
  std::uint64_t carried_ = 0;
  std::uint64_t payload_left_ = 0;
  std::vector<std::byte> pending_;  // of this part
  wire::FrameHeader header_;
  wire::Segment segment_;
};

}  // namespace lockstep::sim

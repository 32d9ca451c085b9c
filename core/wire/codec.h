// Converts structs to bytes and back: little-endian, fixed layout, every length limited (see limits.h). The layouts:
//
//   preamble  u64 magic, u32 version, u32 reserved (0), u64 features; never changes, so that every version can read the
//             version of the other side
//   header    u8 type, u8 flags (0), u16 CRC-16 of the type, the flags, the length and the term, u32 length of the
//             body, u64 term, u64 checksum: XXH3-64 of the 16 header bytes before it and of the body. The CRC detects
//             a flipped bit in the length at once: without it, the reader might wait for a body that never comes
//   body      the fields of the message, as listed in fields.h: numbers and enums as they are, a bool as u8 0 or 1, a
//             string as u16 and its bytes (plain text), a list as u32 and its entries
//   trailer   u64 checksum of the payload, u64 status (0: complete, all ones: withdrawn; a few flipped bits do not turn
//             one into the other); after the payload of a Segment
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/wire/message.h"

namespace lockstep::wire {

inline constexpr std::size_t kMagicBytes = 8;  // the first bytes of the preamble
inline constexpr std::size_t kPreambleBytes = 24;
inline constexpr std::size_t kHeaderBytes = 24;
inline constexpr std::size_t kTrailerBytes = 16;

// The first bytes of a stream.
struct Preamble {
  std::uint32_t version = kVersion;
  std::uint64_t features = kFeatures;
};

struct FrameHeader {
  std::uint8_t type = 0;  // index in the variant Message, from 1
  std::uint32_t length = 0;
  Term term;
  std::uint64_t checksum = 0;
};

struct Trailer {
  std::uint64_t checksum = 0;
  bool taken_back = false;
};

// For example "Join" or "Segment".
std::string_view name_of_type(std::uint8_t type);
std::uint8_t type_of(const Message& message);

void encode(const Preamble& preamble, std::vector<std::byte>& out);
// Appends header and body. Texts and names over their limit are cut (an error text quotes other error texts and grows)
// and made plain (base/text.h), so that received text can be shown as it is. The caller must not exceed the limits of
// lists and kMaxBodyBytes.
// mistake of the caller.
void encode(const Message& message, Term term, std::vector<std::byte>& out);
void encode(const FrameHeader& header, std::span<std::byte, kHeaderBytes> out);
void encode(const Trailer& trailer, std::span<std::byte, kTrailerBytes> out);

// Whether a stream with these first bytes can be a Lockstep stream: true, or an error that quotes the bytes.
Result<bool> check_magic(std::span<const std::byte, kMagicBytes> bytes);
// A foreign version is not an error; the caller decides.
Result<Preamble> decode_preamble(std::span<const std::byte, kPreambleBytes> bytes);
// Verifies the CRC. The checksum is verified together with the body.
Result<FrameHeader> decode_header(std::span<const std::byte, kHeaderBytes> bytes);
// Precondition: body.size() == header.length.
Result<Message> decode_body(const FrameHeader& header, std::span<const std::byte> body);
Result<Trailer> decode_trailer(std::span<const std::byte, kTrailerBytes> bytes);

// The right checksum of a frame, whatever its header states. For fuzzers, which cannot guess it.
std::uint64_t frame_checksum(const FrameHeader& header, std::span<const std::byte> body);

}  // namespace lockstep::wire

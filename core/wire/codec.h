// Structs to bytes and back: little-endian, fixed layout, every length limited (see limits.h). The layouts:
//
//   preamble  u64 magic, u32 version, u32 reserved (0), u64 features; never changes, so that versions can tell each other
//   header    u8 type, u8 flags (0), u16 CRC-16 of the type, the flags, the length and the term, u32 length of the body, u64 term,
//             u64 checksum: XXH3-64 of the 16 header bytes before it and of the body. A length in which a bit has flipped must be
//             seen at once: the body it promises might never come
//   body      the fields of the message, as listed in fields.h: numbers and enums as they are, a bool as u8 0 or 1, a
//             string as u16 and its bytes (plain text), a list as u32 and its entries
//   trailer   u64 checksum of the payload, u64 status (0: whole, all ones: taken back; no few bits that flip make one of the other);
//             after a Segment's payload
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

inline constexpr std::size_t kMagicBytes = 8;  // the first of the preamble
inline constexpr std::size_t kPreambleBytes = 24;
inline constexpr std::size_t kHeaderBytes = 24;
inline constexpr std::size_t kTrailerBytes = 16;

// A stream's first bytes.
struct Preamble {
  std::uint32_t version = kVersion;
  std::uint64_t features = kFeatures;
};

struct FrameHeader {
  std::uint8_t type = 0;  // place in the variant Message, from 1
  std::uint32_t length = 0;
  Term term;
  std::uint64_t checksum = 0;
};

struct Trailer {
  std::uint64_t checksum = 0;
  bool taken_back = false;
};

// "Join", "Segment".
std::string_view name_of_type(std::uint8_t type);
std::uint8_t type_of(const Message& message);

void encode(const Preamble& preamble, std::vector<std::byte>& out);
// Appends header and body. Texts and names over their limit are cut (a reason quotes other reasons and grows), and made
// plain (base/text.h): what is received can be shown as it is. Lists over theirs, and a body over kMaxBodyBytes, are a
// mistake of the caller.
void encode(const Message& message, Term term, std::vector<std::byte>& out);
void encode(const FrameHeader& header, std::span<std::byte, kHeaderBytes> out);
void encode(const Trailer& trailer, std::span<std::byte, kTrailerBytes> out);

// Whether a stream that starts so can be one of ours: true, or an error that says how it starts.
Result<bool> check_magic(std::span<const std::byte, kMagicBytes> bytes);
// Another version is not an error: its owner decides.
Result<Preamble> decode_preamble(std::span<const std::byte, kPreambleBytes> bytes);
// The checksum is verified with the body, the CRC here.
Result<FrameHeader> decode_header(std::span<const std::byte, kHeaderBytes> bytes);
// body.size() == header.length.
Result<Message> decode_body(const FrameHeader& header, std::span<const std::byte> body);
Result<Trailer> decode_trailer(std::span<const std::byte, kTrailerBytes> bytes);

// The checksum that belongs into a frame's header, whatever stands there now. For fuzzers, which cannot guess it.
std::uint64_t frame_checksum(const FrameHeader& header, std::span<const std::byte> body);

}  // namespace lockstep::wire

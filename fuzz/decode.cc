// Any bytes as a message: the first names its type, the rest is its body, and the header is made to fit (no fuzzer
// guesses a checksum). What decodes must encode to the very same bytes, and be describable.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "core/base/assert.h"
#include "core/wire/codec.h"
#include "core/wire/describe.h"
#include "core/wire/limits.h"
#include "fuzz/door.h"

using lockstep::kMaxBodyBytes;
using lockstep::Status;
using lockstep::Term;
namespace wire = lockstep::wire;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (size >= wire::kPreambleBytes) (void)wire::decode_preamble(bytes.first<wire::kPreambleBytes>());
  if (size >= wire::kHeaderBytes) (void)wire::decode_header(bytes.first<wire::kHeaderBytes>());
  if (size >= wire::kTrailerBytes) (void)wire::decode_trailer(bytes.first<wire::kTrailerBytes>());
  if (size < 1 || size > kMaxBodyBytes) return 0;

  const auto body = bytes.subspan(1);
  wire::FrameHeader header;
  header.type = static_cast<std::uint8_t>(data[0] % std::variant_size_v<wire::Message> + 1);
  header.length = static_cast<std::uint32_t>(body.size());
  header.term = Term{size};
  header.checksum = wire::frame_checksum(header, body);
  const auto message = wire::decode_body(header, body);
  if (!message) {
    LOCKSTEP_ASSERT(message.error().status == Status::kProtocolError && !message.error().text.empty());
    return 0;
  }
  std::vector<std::byte> again;
  wire::encode(*message, header.term, again);
  LOCKSTEP_ASSERT(std::ranges::equal(std::span(again).subspan(wire::kHeaderBytes), body));
  LOCKSTEP_ASSERT(!wire::describe(*message).empty());
  return 0;
}

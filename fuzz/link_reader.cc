// Any bytes as a stream, cut anywhere: the reader never fails on its own account, and the cuts change nothing.
// Input: a byte that says how the stream is cut and whether its frames are mended, then the stream.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/rng.h"
#include "core/wire/codec.h"
#include "core/wire/limits.h"
#include "fuzz/door.h"
#include "fuzz/read_stream.h"

using lockstep::below;
using lockstep::draw;
using lockstep::kMaxBodyBytes;
using lockstep::kMaxStrangerBodyBytes;
using lockstep::fuzz::StreamDriver;
namespace wire = lockstep::wire;

namespace {

// Gives frames the checksum and the length that fit, so that the fuzzer gets behind the first header.
void mend(std::span<std::byte> stream) {
  while (stream.size() >= wire::kHeaderBytes) {
    const auto header = wire::decode_header(stream.first<wire::kHeaderBytes>());
    if (!header) return;
    const std::size_t length = std::min<std::size_t>(header->length, stream.size() - wire::kHeaderBytes);
    const auto body = stream.subspan(wire::kHeaderBytes, length);
    wire::FrameHeader mended = *header;
    mended.length = static_cast<std::uint32_t>(length);
    mended.checksum = wire::frame_checksum(mended, body);
    wire::encode(mended, stream.first<wire::kHeaderBytes>());
    const auto message = wire::decode_body(mended, body);
    std::size_t frame = wire::kHeaderBytes + length;
    if (message) {
      if (const auto* segment = std::get_if<wire::Segment>(&*message)) frame += segment->length + wire::kTrailerBytes;
    }
    stream = stream.subspan(std::min(frame, stream.size()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::uint8_t how = data[0];
  const auto rest = std::as_bytes(std::span(data, size)).subspan(1);
  std::vector<std::byte> stream(rest.begin(), rest.end());
  if ((how & 1U) != 0 && stream.size() > wire::kPreambleBytes) mend(std::span(stream).subspan(wire::kPreambleBytes));

  const std::uint32_t max_body_bytes = (how & 2U) != 0 ? kMaxBodyBytes : kMaxStrangerBodyBytes;
  StreamDriver whole(max_body_bytes);
  whole.feed(stream);
  StreamDriver pieces(max_body_bytes);
  const std::uint64_t largest = std::uint64_t{1} << (how >> 2U) % 10U;
  std::uint64_t reads = 0;
  pieces.feed(stream, [&] { return 1 + below(draw(how, 0, 0, 0, reads++), largest); });
  LOCKSTEP_ASSERT(whole.record() == pieces.record());
  return 0;
}

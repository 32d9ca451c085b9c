// The sending part of a small driver: named memory, and the bytes of a LinkWriter's gathered writes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/wire/link_writer.h"

namespace lockstep::test {

using Bytes = std::vector<std::byte>;

inline Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

inline void append(Bytes& out, std::span<const std::byte> bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); }

class StreamSource {
 public:
  // New memory with this content.
  BufferRef keep(Bytes content) {
    const BufferRef ref{BufferId{next_++}, 0, content.size()};
    memory_[ref.id] = std::move(content);
    return ref;
  }
  // The owner takes its memory back: reading it after this is an error.
  void free(const BufferRef& ref) { memory_.erase(ref.id); }

  // The bytes that the slices name now; at most the first `most` bytes.
  [[nodiscard]] Bytes gather(const io::SliceList& write, std::size_t most = SIZE_MAX) const {
    Bytes out;
    for (const io::Slice& slice : write.all()) {
      const std::size_t size = std::min(slice.size(), most - out.size());
      if (!slice.bytes.empty()) {
        append(out, slice.bytes.first(size));
      } else if (slice.payload.id == kZeroBuffer) {
        LOCKSTEP_ASSERT(slice.payload.offset + slice.payload.length <= kStandingBufferBytes);
        out.resize(out.size() + size);
      } else {
        append(out, std::span(memory_.at(slice.payload.id)).subspan(slice.payload.offset, size));
      }
    }
    return out;
  }

  // One write, of which at most `most` bytes are accepted.
  Bytes take(wire::LinkWriter& writer, std::size_t most) const {
    Bytes out = gather(writer.begin_write(), most);
    writer.written(out.size());
    return out;
  }

  // Writes everything that is queued.
  Bytes take_all(wire::LinkWriter& writer, std::size_t at_once = SIZE_MAX) const {
    Bytes out;
    while (writer.wants_write()) append(out, take(writer, at_once));
    return out;
  }

 private:
  std::uint32_t next_ = kFirstFreeBuffer.value;
  std::map<BufferId, Bytes> memory_;
};

}  // namespace lockstep::test

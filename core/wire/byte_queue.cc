#include "core/wire/byte_queue.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

namespace lockstep::wire {

void ByteQueue::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t end = begin_ + size_;
    const std::size_t at = end % std::tuple_size_v<Chunk>;
    if (end == chunks_.size() * std::tuple_size_v<Chunk>) {
      chunks_.push_back(spare_ ? std::move(spare_) : std::make_unique<Chunk>());
    }
    const auto piece = bytes.first(std::min(bytes.size(), std::tuple_size_v<Chunk> - at));
    std::memcpy(chunks_.back()->data() + at, piece.data(), piece.size());
    size_ += piece.size();
    bytes = bytes.subspan(piece.size());
  }
}

std::size_t ByteQueue::list(io::SliceList& slices, std::size_t most) const {
  std::size_t listed = 0;
  for (std::size_t i = 0; listed < std::min(most, size_) && !slices.full(); ++i) {
    const auto chunk = std::span<const std::byte>(*chunks_[i]).subspan(i == 0 ? begin_ : 0);
    const auto piece = chunk.first(std::min(chunk.size(), std::min(most, size_) - listed));
    slices.push({.bytes = piece, .payload = {}});
    listed += piece.size();
  }
  return listed;
}

void ByteQueue::drop(std::size_t bytes) {
  LOCKSTEP_ASSERT(bytes <= size_);
  begin_ += bytes;
  size_ -= bytes;
  // An empty queue starts again at the front of its chunk.
  std::size_t emptied = size_ == 0 ? chunks_.size() : begin_ / std::tuple_size_v<Chunk>;
  begin_ = size_ == 0 ? 0 : begin_ % std::tuple_size_v<Chunk>;
  if (emptied == 0) return;
  spare_ = std::move(chunks_.front());
  chunks_.erase(chunks_.begin(), chunks_.begin() + static_cast<std::ptrdiff_t>(emptied));
}

}  // namespace lockstep::wire

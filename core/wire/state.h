// The state of streams, listed for recordings: see core/archive/archive.h. Memory that is only kept for reuse is left
// out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/wire/byte_queue.h"
#include "core/wire/channel.h"
#include "core/wire/fields.h"
#include "core/wire/link_reader.h"
#include "core/wire/link_writer.h"

namespace lockstep::wire {

void fields(auto& a, Is<FrameHeader> auto& m) {
  a("type", m.type);
  a("length", m.length);
  a("term", m.term);
  a("checksum", m.checksum);
}

void fields(auto& a, Is<SegmentEnded> auto& m) {
  a("segment", m.segment);
  a("into", m.into);
  a("sunk", m.sunk);
  a("taken_back", m.taken_back);
  a("checksum", m.checksum);
}

// The boundaries of chunks are visible: a gathered write has one slice per chunk. Left out: spare_.
template <typename Archive>
void ByteQueue::archive(Archive& a) {
  if constexpr (Archive::kLoads) {
    std::uint64_t begin = 0;
    std::vector<std::byte> bytes;
    a.all(begin, bytes);
    if (begin >= std::tuple_size_v<Chunk>) a.fail();
    if (a.failed()) return;
    chunks_.clear();
    begin_ = static_cast<std::size_t>(begin);
    size_ = 0;
    if (begin_ > 0) chunks_.push_back(std::make_unique<Chunk>());
    append(bytes);
  } else {
    std::vector<std::byte> bytes;
    for (std::size_t i = 0, rest = size_; rest > 0; ++i) {
      const auto chunk = std::span<const std::byte>(*chunks_[i]).subspan(i == 0 ? begin_ : 0);
      const auto piece = chunk.first(std::min(chunk.size(), rest));
      bytes.insert(bytes.end(), piece.begin(), piece.end());
      rest -= piece.size();
    }
    a.all(begin_, bytes);
  }
}

// Left out: spare_.
template <typename Archive>
void LinkReader::archive(Archive& a) {
  a.all(max_body_bytes_, header_tail_, state_, error_, header_, arriving_, into_, payload_done_, sunk_, frames_);
  std::vector<std::byte> came(pending().begin(), pending().end());
  bool lent = window_.has_value();
  BufferRef place = lent ? window_->place : BufferRef{};
  std::uint64_t tail = lent ? window_->tail.size() : 0;
  a.all(came, lent, place, tail);
  if constexpr (Archive::kLoads) {
    if (tail > kMaxTailBytes) a.fail();
    if (a.failed()) return;
    begin_ = 0;
    end_ = came.size();
    buffer_ = Buffer::of(end_ + static_cast<std::size_t>(tail));
    std::ranges::copy(came, buffer_.bytes.get());
    early_out_ = false;  // the driver has copied them
    window_.reset();
    if (lent) window_ = Window{place, buffer_.part(end_, static_cast<std::size_t>(tail))};
  }
}

// Left out: spare_, scratch_.
template <typename Archive>
void LinkWriter::archive(Archive& a) {
  a.all(control_, segments_, write_outstanding_, lent_control_, lent_segments_);
  if constexpr (Archive::kLoads) {
    if (lent_segments_ > segments_.size() || lent_control_ > control_.size()) a.fail();
  }
}

template <typename Archive>
void Channel::archive(Archive& a) {
  a.all(stream_, progress_, reader, writer, loans_, finishing_, closing_);
}

}  // namespace lockstep::wire

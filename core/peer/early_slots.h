// Places in kEarlySendBuffer, of kEarlySlotBytes each, for small sends that no receive has taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/buffers/buffer_ref.h"

namespace lockstep::peer {

class EarlySlots {
 public:
  // Nothing: all are taken.
  [[nodiscard]] std::optional<BufferRef> take(std::uint64_t bytes) {
    std::uint32_t slot = used_;
    if (!free_.empty()) {
      slot = free_.back();  // it is warm
      free_.pop_back();
    } else if (used_ == kEarlySendSlots) {
      return std::nullopt;
    } else {
      ++used_;
    }
    return BufferRef{kEarlySendBuffer, slot * kEarlySlotBytes, bytes};
  }
  void give_back(const BufferRef& slot) { free_.push_back(static_cast<std::uint32_t>(slot.offset / kEarlySlotBytes)); }
  [[nodiscard]] std::size_t free() const { return free_.size(); }

  template <typename Archive>
  void archive(Archive& a) {
    a.all(free_, used_);
  }

 private:
  std::vector<std::uint32_t> free_;  // slots that were used before
  std::uint32_t used_ = 0;           // slots that ever were
};

}  // namespace lockstep::peer

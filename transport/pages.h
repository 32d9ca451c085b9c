// The pages of large fresh memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/time.h"

namespace lockstep::transport {

inline constexpr std::size_t kHugePage = 2U << 20U;

// Chooses the size of pages while fresh memory is populated. One fault for a huge page costs less than 512 for small
// ones, but not where free memory lies in small pieces: then the kernel moves other pages first, for up to 10 ms for
// each huge page.
class PageSizes {
 public:
  // About what 512 small pages cost.
  static constexpr Duration kMostOfHugePage = microseconds(800);

  [[nodiscard]] bool huge() const { return huge_; }
  // Huge pages of so many bytes took this time of the CPU.
  void took(std::size_t bytes, Duration cpu) {
    const auto pages = static_cast<std::int64_t>(bytes / kHugePage);
    if (pages > 0 && cpu.ns / pages > kMostOfHugePage.ns) huge_ = false;
  }

 private:
  bool huge_ = true;
};

// Gives all pages of a fresh mapping memory, so that later writes cause no page fault. On a kernel that cannot do this
// (before Linux 5.14), each page gets memory at the first write. The mapping begins and ends at multiples of 4 KiB.
void populate(std::span<std::byte> fresh);

}  // namespace lockstep::transport

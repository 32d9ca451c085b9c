#include "transport/pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <ctime>

namespace lockstep::transport {
namespace {

#ifndef MADV_POPULATE_WRITE
constexpr int MADV_POPULATE_WRITE = 23;  // NOLINT(readability-identifier-naming): Linux 5.14
#endif

constexpr std::size_t kStep = 16 * kHugePage;

Duration cpu_of_this_thread() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return seconds(time.tv_sec) + Duration{time.tv_nsec};
}

}  // namespace

void populate(std::span<std::byte> fresh) {
  PageSizes sizes;
  ::madvise(fresh.data(), fresh.size(), MADV_HUGEPAGE);  // advice only: some kernels have no huge pages
  while (!fresh.empty()) {
    const auto step = fresh.first(std::min(kStep, fresh.size()));
    fresh = fresh.subspan(step.size());
    const bool was_huge = sizes.huge();
    const Duration before = cpu_of_this_thread();
    if (::madvise(step.data(), step.size(), MADV_POPULATE_WRITE) != 0) return;
    if (was_huge) sizes.took(step.size(), cpu_of_this_thread() - before);
    if (was_huge && !sizes.huge() && !fresh.empty()) ::madvise(fresh.data(), fresh.size(), MADV_NOHUGEPAGE);
  }
}

}  // namespace lockstep::transport

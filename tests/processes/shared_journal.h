// Memory that a peer's process writes its journal to and its parent reads, whatever happens to the process.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

#include "core/base/assert.h"
#include "sim/flight/audit.h"

namespace lockstep::testing {

// Construct it before the fork.
class SharedJournal {
 public:
  SharedJournal() {
    void* const memory =
        ::mmap(nullptr, kRoom, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    LOCKSTEP_ASSERT(memory != MAP_FAILED);
    head_ = new (memory) Head;
  }
  ~SharedJournal() { ::munmap(head_, kRoom); }
  SharedJournal(const SharedJournal&) = delete;
  SharedJournal& operator=(const SharedJournal&) = delete;

  // Called in the child, by one thread at a time. A line is written completely or not at all.
  void write(std::string_view line) const {
    const std::size_t used = head_->used.load(std::memory_order_relaxed);
    LOCKSTEP_ASSERT(sizeof(Head) + used + line.size() < kRoom);
    std::memcpy(bytes() + used, line.data(), line.size());
    bytes()[used + line.size()] = '\n';
    head_->used.store(used + line.size() + 1, std::memory_order_release);
  }

  // Called in the parent: everything written so far.
  [[nodiscard]] std::string_view text() const { return {bytes(), head_->used.load(std::memory_order_acquire)}; }
  // Returns the error of the first invalid line; empty if all lines are valid.
  std::string tell(sim::Audit& audit) const {
    std::string_view left = text();
    while (!left.empty()) {
      const std::string_view line = left.substr(0, left.find('\n'));
      if (const auto error = audit.take(line)) return error->text + ": " + std::string(line);
      left.remove_prefix(line.size() + 1);
    }
    return {};
  }

 private:
  static constexpr std::size_t kRoom = std::size_t{256} << 20U;  // address space; only written pages use memory
  struct Head {
    std::atomic<std::size_t> used{0};
  };
  [[nodiscard]] char* bytes() const { return reinterpret_cast<char*>(head_ + 1); }

  Head* head_;
};

}  // namespace lockstep::testing

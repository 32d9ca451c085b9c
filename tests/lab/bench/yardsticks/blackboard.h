// What the processes of a run tell each other; made before them.
#pragma once

#include <sys/mman.h>

#include <new>
#include <type_traits>

#include "tests/lab/bench/yardsticks/door.h"

namespace lockstep::bench {

template <typename Content>
class Blackboard {
 public:
  Blackboard() {
    static_assert(std::is_trivially_destructible_v<Content>);
    void* const memory = ::mmap(nullptr, sizeof(Content), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail("cannot share memory");
    content_ = new (memory) Content{};
  }
  Blackboard(const Blackboard&) = delete;
  Blackboard& operator=(const Blackboard&) = delete;
  ~Blackboard() { ::munmap(content_, sizeof(Content)); }

  Content* operator->() const { return content_; }

 private:
  Content* content_;
};

}  // namespace lockstep::bench

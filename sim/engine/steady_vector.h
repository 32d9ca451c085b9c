// A vector whose elements stay where they are while it grows, so that references to them hold.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace lockstep::sim {

template <typename T>
class SteadyVector {
  using Pointers = std::vector<std::unique_ptr<T>>;

  template <typename It, typename Ref>
  class Walk {
   public:
    explicit Walk(It it) : it_(it) {}
    Ref operator*() const { return **it_; }
    Walk& operator++() {
      ++it_;
      return *this;
    }
    bool operator==(const Walk&) const = default;

   private:
    It it_;
  };

 public:
  T& emplace_back() { return *items_.emplace_back(std::make_unique<T>()); }
  T& operator[](std::size_t at) { return *items_[at]; }
  const T& operator[](std::size_t at) const { return *items_[at]; }
  T& front() { return *items_.front(); }
  [[nodiscard]] std::size_t size() const { return items_.size(); }

  auto begin() { return Walk<typename Pointers::iterator, T&>(items_.begin()); }
  auto end() { return Walk<typename Pointers::iterator, T&>(items_.end()); }
  auto begin() const { return Walk<typename Pointers::const_iterator, const T&>(items_.begin()); }
  auto end() const { return Walk<typename Pointers::const_iterator, const T&>(items_.end()); }

 private:
  Pointers items_;
};

}  // namespace lockstep::sim

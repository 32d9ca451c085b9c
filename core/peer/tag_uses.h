// How often this peer has launched each tag in one cohort. Neighbouring tags with equal counts share an entry, so that
// a program that gives each call the next number for a tag does not make the list longer. Counts wrap around after
// 2^32 uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

#include "core/base/ids.h"

namespace lockstep::peer {

// Whether use `a` of a tag comes before use `b`: serial number arithmetic, as in RFC 1982.
constexpr bool is_earlier_use(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) < 0; }

class TagUses {
 public:
  TagUses() = default;
  // `first`: the number of the first use of each tag; the same on all peers.
  explicit TagUses(std::uint32_t first) : first_(first) {}

  // The number that the next use of this tag has.
  [[nodiscard]] std::uint32_t next(Tag tag) const {
    const auto run = run_of(tag.value);
    return run == runs_.end() ? first_ : run->second.next;
  }
  // Takes that number.
  std::uint32_t launch(Tag tag) {
    const std::uint32_t use = next(tag);
    cut_out(tag.value);
    insert(tag.value, use + 1);
    return use;
  }
  // Entries, not tags.
  [[nodiscard]] std::size_t size() const { return runs_.size(); }

  template <typename Archive>
  void archive(Archive& a) {
    a.all(first_, runs_);
  }

 private:
  // Tags from the key on, up to `last`.
  struct Run {
    std::uint64_t last = 0;
    std::uint32_t next = 0;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(last, next);
    }
  };
  using Runs = std::map<std::uint64_t, Run>;

  [[nodiscard]] Runs::const_iterator run_of(std::uint64_t tag) const {
    const auto after = runs_.upper_bound(tag);
    if (after == runs_.begin()) return runs_.end();
    const auto run = std::prev(after);
    return tag <= run->second.last ? run : runs_.end();
  }

  void cut_out(std::uint64_t tag) {
    const auto at = run_of(tag);
    if (at == runs_.end()) return;
    const auto [begin, run] = *at;
    runs_.erase(at);
    if (begin < tag) runs_.emplace(begin, Run{tag - 1, run.next});
    if (tag < run.last) runs_.emplace(tag + 1, run);
  }

  // A tag that no run has.
  void insert(std::uint64_t tag, std::uint32_t next) {
    Run run{tag, next};
    std::uint64_t begin = tag;
    if (const auto after = runs_.upper_bound(tag); after != runs_.end()) {
      if (after->first - 1 == tag && after->second.next == next) {
        run.last = after->second.last;
        runs_.erase(after);
      }
    }
    if (const auto after = runs_.upper_bound(tag); after != runs_.begin()) {
      const auto before = std::prev(after);
      if (before->second.last + 1 == tag && before->second.next == next) {
        begin = before->first;
        runs_.erase(before);
      }
    }
    runs_.emplace(begin, run);
  }

  std::uint32_t first_ = 0;
  Runs runs_;
};

}  // namespace lockstep::peer

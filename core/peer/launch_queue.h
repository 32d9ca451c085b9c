// Calls that were launched and have not begun, because as many rounds as may be are in flight (rule 43 of
// docs/protocol.md). Keeps them in launch order and by tag, and knows their time-outs. Calls of one tag leave in launch
// order. Decides nothing about rounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/base/rng.h"
#include "core/base/time.h"
#include "core/peer/input.h"
#include "core/peer/round.h"
#include "core/wire/message.h"

namespace lockstep::peer {

// The bytes that the description of a call takes in the queue.
[[nodiscard]] constexpr std::size_t queued_bytes(std::size_t tensors, std::size_t blocks) {
  constexpr std::size_t kCall = 1024;  // the entry and its places in the indexes
  return kCall + tensors * sizeof(Tensor) + blocks * sizeof(ring::Block);
}

class LaunchQueue {
 public:
  struct Entry {
    CallId call;
    Request request;
    wire::Descriptor what;
    Instant launched{};
    Instant limit = kNever;  // of the call
    // The call was stopped and has completed. The entry stays, without memory, because it spends a use of its tag.
    std::optional<StopRequest> stop{};
    template <typename Archive>
    void archive(Archive& a) {
      a.all(call, request, what, launched, limit, stop);
    }
  };

  // `most`: calls that wait at the same time.
  explicit LaunchQueue(std::size_t most) : most_(most) {}

  // Room for the description of another call.
  [[nodiscard]] bool has_room(const Request& request) const;
  // `order`: of the launch; higher than that of any entry.
  void add(std::uint64_t order, Entry entry);
  [[nodiscard]] Entry take(std::uint64_t order);

  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  // Calls that have not completed.
  [[nodiscard]] std::size_t calls() const { return by_call_.size(); }
  // The order of the first. The queue is not empty.
  [[nodiscard]] std::uint64_t first() const { return entries_.begin()->first; }
  [[nodiscard]] const Request& first_request() const { return entries_.begin()->second.request; }
  // A call that was launched no later than this one waits.
  [[nodiscard]] bool has_until(std::uint64_t order) const { return !empty() && first() <= order; }
  [[nodiscard]] std::size_t count(Tag tag) const;
  // The order of the n-th call with this tag, from 0 on; there are more than n.
  [[nodiscard]] std::uint64_t nth(Tag tag, std::size_t n) const;
  // An order of tags that is the same on all peers and does not follow the order of launches.
  [[nodiscard]] static std::pair<std::uint64_t, Tag> turn_of(Tag tag) { return {mix64(tag.value), tag}; }
  // The first tag in that order whose next call `may_begin(order)`.
  template <typename MayBegin>
  [[nodiscard]] std::optional<Tag> first_in_turn(MayBegin may_begin) const {
    for (const auto& [turn, orders] : by_tag_) {
      if (may_begin(*orders.begin())) return turn.second;
    }
    return std::nullopt;
  }
  [[nodiscard]] std::optional<std::uint64_t> find(CallId call) const;
  [[nodiscard]] const Entry& at(std::uint64_t order) const { return entries_.at(order); }

  // The call completes now, by its caller.
  void stop(std::uint64_t order, StopRequest why);
  // Of the calls that have not completed.
  [[nodiscard]] Instant deadline() const { return limits_.empty() ? kNever : limits_.begin()->first; }
  [[nodiscard]] std::vector<std::uint64_t> due(Instant now) const;
  // Takes all. The calls that have not completed, in launch order.
  [[nodiscard]] std::vector<Entry> clear();
  void assert_invariants() const;

  template <typename Visit>
  [[nodiscard]] bool all_of(Visit visit) const {
    for (const auto& [order, entry] : entries_) {
      if (!visit(entry)) return false;
    }
    return true;
  }

  // Left out: most_, that it is made of, and the indexes by_call_, by_tag_, limits_ and bytes_, which follow from the
  // entries.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(entries_);
    if constexpr (Archive::kLoads) index_all();
  }

 private:
  void index(std::uint64_t order, const Entry& entry);
  void forget_call(std::uint64_t order, const Entry& entry);
  void index_all();

  std::size_t most_;
  std::map<std::uint64_t, Entry> entries_;  // by the order of the launch
  std::map<CallId, std::uint64_t> by_call_;
  std::map<std::pair<std::uint64_t, Tag>, std::set<std::uint64_t>> by_tag_;  // by turn_of()
  std::set<std::pair<Instant, std::uint64_t>> limits_;
  std::size_t bytes_ = 0;
};

}  // namespace lockstep::peer

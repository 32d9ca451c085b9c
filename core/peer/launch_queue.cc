#include "core/peer/launch_queue.h"

#include <iterator>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

namespace {

std::size_t bytes_of(const Request& request) { return queued_bytes(request.tensors.size(), request.blocks.size()); }

}  // namespace

bool LaunchQueue::has_room(const Request& request) const {
  return entries_.size() < most_ && bytes_ + bytes_of(request) <= kMaxQueuedCallBytes;
}

void LaunchQueue::add(std::uint64_t order, Entry entry) {
  LOCKSTEP_ASSERT(has_room(entry.request) && (empty() || order > entries_.rbegin()->first));
  index(order, entries_.emplace(order, std::move(entry)).first->second);
}

LaunchQueue::Entry LaunchQueue::take(std::uint64_t order) {
  const auto at = entries_.find(order);
  LOCKSTEP_ASSERT(at != entries_.end());
  Entry entry = std::move(at->second);
  entries_.erase(at);
  bytes_ -= bytes_of(entry.request);
  if (!entry.stop) forget_call(order, entry);
  const auto tag = by_tag_.find(turn_of(entry.request.tag));
  tag->second.erase(order);
  if (tag->second.empty()) by_tag_.erase(tag);
  return entry;
}

std::size_t LaunchQueue::count(Tag tag) const {
  const auto at = by_tag_.find(turn_of(tag));
  return at == by_tag_.end() ? 0 : at->second.size();
}

std::uint64_t LaunchQueue::nth(Tag tag, std::size_t n) const {
  const std::set<std::uint64_t>& orders = by_tag_.at(turn_of(tag));
  return *std::next(orders.begin(), static_cast<std::ptrdiff_t>(n));
}

std::optional<std::uint64_t> LaunchQueue::find(CallId call) const {
  const auto at = by_call_.find(call);
  return at == by_call_.end() ? std::nullopt : std::optional(at->second);
}

void LaunchQueue::stop(std::uint64_t order, StopRequest why) {
  Entry& entry = entries_.at(order);
  LOCKSTEP_ASSERT(!entry.stop);
  forget_call(order, entry);
  entry.stop = std::move(why);
  bytes_ -= bytes_of(entry.request);
  entry.request.tensors = {};
  entry.request.blocks = {};
  entry.request.watch = nullptr;
  entry.request.scratch = {};
  bytes_ += bytes_of(entry.request);
}

std::vector<std::uint64_t> LaunchQueue::due(Instant now) const {
  std::vector<std::uint64_t> due;
  for (auto at = limits_.begin(); at != limits_.end() && at->first <= now; ++at) due.push_back(at->second);
  return due;
}

std::vector<LaunchQueue::Entry> LaunchQueue::clear() {
  std::vector<Entry> open;
  for (auto& [order, entry] : entries_) {
    if (!entry.stop) open.push_back(std::move(entry));
  }
  entries_.clear();
  index_all();
  return open;
}

void LaunchQueue::assert_invariants() const {
  LOCKSTEP_ASSERT(entries_.size() <= most_ && bytes_ <= kMaxQueuedCallBytes);
  LOCKSTEP_ASSERT(by_call_.size() <= entries_.size() && limits_.size() <= by_call_.size());
  LOCKSTEP_ASSERT(by_tag_.size() <= entries_.size());
}

void LaunchQueue::index(std::uint64_t order, const Entry& entry) {
  by_tag_[turn_of(entry.request.tag)].insert(order);
  bytes_ += bytes_of(entry.request);
  if (entry.stop) return;
  by_call_.emplace(entry.call, order);
  if (entry.limit != kNever) limits_.emplace(entry.limit, order);
}

void LaunchQueue::forget_call(std::uint64_t order, const Entry& entry) {
  by_call_.erase(entry.call);
  limits_.erase({entry.limit, order});
}

void LaunchQueue::index_all() {
  by_call_.clear();
  by_tag_.clear();
  limits_.clear();
  bytes_ = 0;
  for (const auto& [order, entry] : entries_) index(order, entry);
}

}  // namespace lockstep::peer

// Operations of all ranks on real memory, without streams: segments move from rank to rank in a drawn order. Shows that
// the arithmetic of a collective is right for any order of arrival.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/rng.h"
#include "core/kernels/run_job.h"
#include "core/ring/grid.h"
#include "core/ring/operation.h"
#include "core/ring/shares.h"

namespace lockstep::support {

class RingOfOperations {
 public:
  // Buffers of every rank: id 1 holds `input`, 2 `recv` (absent in place), 3 scratch, 4 residuals (if any), 5 slots.
  // `weights`, `rates`: of every rank, or empty. `blocks`: of an all-gather, in elements.
  RingOfOperations(const ring::Request& request, std::uint32_t world, bool in_place, ring::Segmenting segmenting,
                   std::uint64_t seed, const std::vector<float>& weights = {}, bool feeds_back = false,
                   std::uint32_t root = 0, const std::vector<std::uint64_t>& blocks = {},
                   const std::vector<ring::Rate>& rates = {})
      : seed_(seed), grid_(ring::grid_of(segmenting.algorithm, world)), owned_(wire::has_owners(segmenting.algorithm)) {
    std::vector<std::uint64_t> rank_parameters(rates.begin(), rates.end());
    rank_parameters.reserve(rates.size() + weights.size());
    for (const float weight : weights) rank_parameters.push_back(std::bit_cast<std::uint32_t>(weight));
    for (const std::uint64_t block : blocks) rank_parameters.push_back(block * size_of(request.type));
    const std::uint64_t gathered =
        std::accumulate(blocks.begin(), blocks.end(), std::uint64_t{0}) * size_of(request.type);
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      auto member = std::make_unique<Member>();
      member->request = request;
      if (!weights.empty()) member->request.weight = weights[rank];
      std::uint64_t bytes = 0;
      for (ring::Tensor& tensor : member->request.tensors) {
        const std::uint64_t size = tensor.count * size_of(request.type);
        tensor.send = {BufferId{1}, bytes, size};
        tensor.recv = {in_place ? BufferId{1} : BufferId{2}, bytes, size};
        if (feeds_back) tensor.residual = {BufferId{4}, bytes, size};
        bytes += size;
      }
      if (!blocks.empty()) {
        ring::Tensor& block = member->request.tensors.front();
        const auto before = std::accumulate(rank_parameters.begin(), rank_parameters.begin() + rank, std::uint64_t{0});
        block.count = blocks[rank];
        block.send = {BufferId{1}, in_place ? before : 0, rank_parameters[rank]};
        block.recv = {block.recv.id, 0, gathered};
        bytes = gathered;
      }
      member->memory[1].resize(bytes);
      member->memory[2].resize(bytes);
      member->memory[4].resize(feeds_back ? bytes : 0);
      member->memory[3].resize(ring::scratch_bytes(member->request));
      member->request.scratch = {BufferId{3}, 0, member->memory[3].size()};
      member->operation = ring::Operation::of(member->request, Rank{rank}, world, root, rank_parameters, segmenting);
      member->outboxes.resize(world);
      members_.push_back(std::move(member));
    }
  }

  // Why an operation cannot continue; empty if all can.
  [[nodiscard]] const std::string& fault() const { return fault_; }
  std::vector<std::byte>& input(std::uint32_t rank) { return members_[rank]->memory[1]; }
  // Of an all-gather.
  std::span<std::byte> block(std::uint32_t rank) { return memory(rank, members_[rank]->request.tensors.front().send); }
  std::vector<std::byte>& residual(std::uint32_t rank) { return members_[rank]->memory[4]; }
  // All tensors; out of place.
  std::span<std::byte> received(std::uint32_t rank) { return members_[rank]->memory[2]; }
  std::span<std::byte> result(std::uint32_t rank) { return memory(rank, members_[rank]->request.tensors.front().recv); }
  [[nodiscard]] const ring::Operation& operation(std::uint32_t rank) const { return *members_[rank]->operation; }
  // The number of slots that an operation still reads.
  [[nodiscard]] std::size_t slots_in_use() const { return slots_.size(); }

  // Operations that can send without a grant do so. A part of these segments comes from slots.
  void send_eagerly() { eager_ = true; }

  // Moves segments until nothing moves any more, or after `steps` moves.
  void run(std::uint64_t steps = UINT64_MAX) {
    for (auto& member : members_) {
      const bool may_be_eager = member->operation->is_one_small_segment() || member->operation->eager_segments() > 0;
      if (eager_ && may_be_eager) member->operation->grant_eager();
      for (std::uint32_t by = 0; by < members_.size() && !(eager_ && may_be_eager); ++by) {
        if (sends(*member, by)) member->operation->grant(Rank{by}, {}, StripeIndex{0}, kStream);
        if (owned_ && !sends(*member, by) && members_[by] != member)
          member->operation->learn_launch(Rank{by});  // as relays tell
      }
      member->operation->prepare(member->jobs);
    }
    do_jobs();
    for (std::uint64_t step = 0; step < steps && move(step); ++step) do_jobs();
  }

  void commit_all() {
    for (auto& member : members_) member->operation->stop();
    for (std::uint64_t before = UINT64_MAX; std::exchange(before, jobs_done_) != jobs_done_;) {
      for (auto& member : members_) member->operation->decode_some(member->jobs);
      do_jobs();
    }
  }

  void abort_all() {
    for (auto& member : members_) {
      member->operation->stop();
      member->operation->restore(member->jobs);
    }
    do_jobs();
  }

 private:
  static constexpr StreamId kStream{2};

  struct Member {
    ring::Request request;
    std::vector<std::byte> memory[6];
    std::unique_ptr<ring::Operation> operation;
    std::vector<KernelJob> jobs;
    struct Frame {
      ring::Operation::Outgoing segment;
      std::vector<std::byte> payload;
    };
    std::vector<std::deque<Frame>> outboxes;  // by destination rank
  };

  // Whether this member sends segments to that rank.
  [[nodiscard]] bool sends(const Member& member, std::uint32_t to) const {
    const auto rank = static_cast<std::uint32_t>(
        std::find_if(members_.begin(), members_.end(), [&](const auto& each) { return each.get() == &member; }) -
        members_.begin());
    return owned_ ? grid_.are_linked(rank, to) : to == (rank + 1) % members_.size();
  }

  std::span<std::byte> memory(std::uint32_t rank, BufferRef ref) {
    if (ref.length == 0) return {};
    return std::span(members_[rank]->memory[ref.id.value]).subspan(ref.offset, ref.length);
  }

  void do_jobs() {
    for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
      Member& member = *members_[rank];
      while (!member.jobs.empty()) {
        const KernelJob job = member.jobs.back();
        member.jobs.pop_back();
        const JobMemory of = memory_of(job.work);
        const JobResult result = run_job(job.work, memory(rank, of.into), memory(rank, of.from), memory(rank, of.own),
                                         memory(rank, of.residual));
        jobs_done_ += 1;
        const auto finished = member.operation->job_done(job.token, result, member.jobs);
        if (finished.fault) fault_ = finished.fault->text;
        if (finished.placeable) land(rank, finished.place);
        if (finished.used_early && slots_.erase({rank, finished.used_early->from, finished.used_early->index}) == 0) {
          fault_ = "a slot that is not in use";
        }
      }
    }
  }

  // Moves one segment from a drawn rank's outbox to its destination.
  bool move(std::uint64_t step) {
    const std::uint32_t world = static_cast<std::uint32_t>(members_.size());
    const auto first = static_cast<std::uint32_t>(below(draw(seed_, 1, step), std::uint64_t{world} * world));
    for (std::uint32_t i = 0; i < world * world; ++i) {
      const std::uint32_t pair = (first + i) % (world * world);
      const std::uint32_t from = pair / world;
      const std::uint32_t to = pair % world;
      Member& sender = *members_[from];
      if (!sends(sender, to)) continue;
      std::deque<Member::Frame>& outbox = sender.outboxes[to];
      while (auto next = sender.operation->next(Rank{to}, StripeIndex{0}, kStream)) {
        const auto bytes = memory(from, next->payload);
        outbox.push_back({*next, {bytes.begin(), bytes.end()}});
        sender.operation->prepare(sender.jobs);
      }
      if (outbox.empty()) continue;
      const std::size_t which = below(draw(seed_, 2, step), outbox.size());
      from_ = Rank{from};
      arriving_ = std::move(outbox[which]);
      outbox.erase(outbox.begin() + static_cast<std::ptrdiff_t>(which));
      const bool early = arriving_.segment.eager && draw(seed_, 3, step) % 2 == 0;
      if (early) {
        arrive_early(to);
      } else {
        arrive(to);
      }
      return true;
    }
    return false;
  }

  void arrive(std::uint32_t rank) {
    Member& member = *members_[rank];
    const auto place = member.operation->begin(from_, header(), kStream, member.jobs);
    if (place.landing == ring::Operation::Landing::kPlace) land(rank, place.into);
    if (place.landing == ring::Operation::Landing::kNonsense) fault_ = "a segment that means nothing";
  }

  // As if the segment had come before the operation was constructed.
  void arrive_early(std::uint32_t rank) {
    Member& member = *members_[rank];
    std::vector<std::byte>& slots = member.memory[5];
    const BufferRef slot{BufferId{5}, slots.size(), arriving_.payload.size()};
    slots.insert(slots.end(), arriving_.payload.begin(), arriving_.payload.end());
    slots_.insert({rank, from_, arriving_.segment.index});
    if (!member.operation->take(from_, header(), slot, arriving_.segment.checksum, kStream, member.jobs)) {
      fault_ = "a segment that is not expected early";
    }
  }

  void land(std::uint32_t rank, BufferRef into) {
    std::memcpy(memory(rank, into).data(), arriving_.payload.data(), arriving_.payload.size());
    members_[rank]->operation->landed(from_, header(), false, arriving_.segment.checksum, members_[rank]->jobs);
  }

  [[nodiscard]] wire::Segment header() const {
    return {
        {}, {}, arriving_.segment.phase, arriving_.segment.index, static_cast<std::uint32_t>(arriving_.payload.size())};
  }

  std::uint64_t seed_;
  ring::Grid grid_;
  bool owned_;          // not around the ring
  bool eager_ = false;  // without a grant
  std::uint64_t jobs_done_ = 0;
  std::string fault_;
  std::vector<std::unique_ptr<Member>> members_;
  std::set<std::tuple<std::uint32_t, Rank, SegmentIndex>> slots_;  // in use: receiver, sender, segment
  Rank from_;                                                      // the sender of the arriving segment
  Member::Frame arriving_;
};

}  // namespace lockstep::support

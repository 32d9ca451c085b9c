// The subject of `lockstep bench`: one collective on its own memory, with a known result.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "bindings/cli/bench.h"
#include "lockstep.h"

namespace lockstep::cli {

enum class Place { kOut, kIn };

class BenchSubject {
 public:
  // `comm`: a member of a run with `world` peers; outlives this object.
  BenchSubject(const BenchOptions& options, lockstep_comm* comm, std::uint32_t rank, std::uint32_t world);

  // Which halves of the table apply.
  [[nodiscard]] bool works_out_of_place() const;
  [[nodiscard]] bool works_in_place() const;
  [[nodiscard]] bool is_sync() const { return collective_ == Collective::kSyncState; }
  [[nodiscard]] bool is_send() const { return collective_ == Collective::kSend; }
  [[nodiscard]] bool has_size() const { return collective_ != Collective::kBarrier; }
  // Sync: whether this peer has no state when a call begins.
  [[nodiscard]] bool is_newcomer() const { return is_sync() && rank_ + 1 == world_; }
  // Reduce, broadcast: the first rank.
  [[nodiscard]] bool is_root() const { return rank_ == 0; }
  [[nodiscard]] bool folds() const;
  // Bus bandwidth divided by algorithm bandwidth, as in nccl-tests.
  [[nodiscard]] double bus_factor() const;
  // One call() makes so many calls, or messages one way, of the whole size; the time of each is a part of it.
  [[nodiscard]] std::uint32_t parts() const { return options_.in_flight * (is_send() ? 2 : 1); }
  [[nodiscard]] std::size_t element_bytes() const { return element_; }

  // Prepares memory for calls on about `bytes`: whole elements, and equal blocks for collectives with a block per rank.
  void resize(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t count() const { return count_; }  // elements in one call
  [[nodiscard]] std::uint64_t bytes() const { return count_ * element_; }
  void drop_memory_to_send();  // calls in place do not need it
  void drop_memory();

  // Writes the input; all other memory becomes invalid.
  void prepare(Place place);
  // Invalidates all received data.
  void spoil();
  // Makes one call, or as many as are to be in flight; returns the result of the last one. Send: so many messages go to
  // the partner, then as many come back. Throws Failure.
  lockstep_result call(Place place);
  // The number of wrong elements in the received data. `result`: the result of the call.
  [[nodiscard]] std::uint64_t wrong(const lockstep_result& result) const;

 private:
  enum class Collective : std::uint8_t {
    kAllReduce,
    kReduce,
    kReduceScatter,
    kAllGather,
    kBroadcast,
    kBarrier,
    kSyncState,
    kSend
  };
  static Collective collective_of(std::string_view name);

  // Page-aligned memory. The pages are touched in advance, so that no measurement includes page faults.
  class Memory {
   public:
    explicit Memory(std::size_t bytes);
    [[nodiscard]] std::byte* data() const { return data_.get(); }
    [[nodiscard]] std::span<std::byte> span(std::size_t bytes) const { return {data_.get(), bytes}; }
    [[nodiscard]] std::size_t size() const { return bytes_; }

   private:
    struct Delete {
      void operator()(std::byte* p) const;
    };
    std::unique_ptr<std::byte, Delete> data_;
    std::size_t bytes_;
  };
  // The memory of one call in flight.
  struct Slot {
    std::optional<Memory> send;
    std::optional<Memory> recv;
    std::optional<Memory> residual;        // with --residual
    std::vector<lockstep_tensor> tensors;  // with --tensors: parts of the memory
    std::vector<void*> residuals;
  };

  // Starts the call of one slot; blocks if `work` is null.
  lockstep_status issue(Place place, std::size_t index, lockstep_result* result, lockstep_work** work);
  // Makes the call of each slot, or blocks in the only one. `issue`: as issue() from `index` on.
  template <typename Issue>
  lockstep_result in_all_slots(Issue&& issue);
  // Starts the transfer of one slot to or from the partner; blocks if `work` is null.
  lockstep_status issue_one_way(bool sends, std::size_t index, lockstep_result* result, lockstep_work** work);
  // Send: the other rank of the pair.
  [[nodiscard]] std::uint32_t partner() const { return rank_ ^ 1U; }
  // The arguments of one call, without its tag.
  [[nodiscard]] lockstep_all_reduce_args all_reduce_args(Place place, const Slot& slot) const;
  [[nodiscard]] lockstep_reduce_args reduce_args(Place place, const Slot& slot) const;
  [[nodiscard]] lockstep_reduce_scatter_args reduce_scatter_args(Place place, const Slot& slot) const;
  [[nodiscard]] lockstep_all_gather_args all_gather_args(Place place, const Slot& slot) const;
  [[nodiscard]] lockstep_broadcast_args broadcast_args(const Slot& slot) const;
  [[nodiscard]] static std::byte* send_of(Place place, const Slot& slot);
  void cut(Slot& slot, Place place) const;
  void must_be_whole(lockstep_status status, const lockstep_result& result) const;
  [[nodiscard]] std::uint64_t wrong_in(const Memory& recv, const lockstep_result& result) const;

  const BenchOptions& options_;
  lockstep_comm* const comm_;
  const std::uint32_t rank_;
  const std::uint32_t world_;
  const Collective collective_;
  const lockstep_data_type type_;
  const lockstep_op op_;
  const lockstep_wire_format up_;
  const lockstep_wire_format down_;
  const lockstep_algorithm algorithm_;
  const std::size_t element_;
  std::vector<lockstep_peer_id> members_;
  std::uint64_t count_ = 0;
  std::vector<Slot> slots_;
  std::array<std::uint64_t, 1024> rates_{};  // of the last call: lockstep_result.rates
};

}  // namespace lockstep::cli

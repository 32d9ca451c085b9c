// The jobs that a peer gives to its driver. The token of a job consists of a prefix, which names the owner of the job,
// and of the token that the owner gave. Knows who owns a job, not what the job computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/base/assert.h"
#include "core/base/ids.h"
#include "core/kernels/job.h"
#include "core/peer/effect.h"

namespace lockstep::peer {

// The upper half of the tokens of an owner's jobs.
using JobPrefix = Number<struct JobPrefixName, std::uint32_t>;

class Jobs {
 public:
  enum class Use : std::uint8_t {
    kRound,     // the operation or the sync of a round
    kWatch,     // the state that is watched beside a round
    kTransfer,  // a state that is published or fetched in advance
    kSend,      // a point-to-point transfer from here
    kReceive,   // a point-to-point transfer to here
  };
  struct Owner {
    Use use = Use::kRound;
    std::uint64_t id = 0;  // the order of the round, of the transfer, of the send or of the arrival
    template <typename Archive>
    void archive(Archive& a) {
      a.all(use, id);
    }
  };

  // `first`: the number of prefixes that were given before.
  explicit Jobs(std::uint64_t first) : given_(first) {}

  // A prefix for the jobs of this owner. Prefixes begin anew after 2^32 of them. A prefix that is still in use, such as
  // that of a state that has been published for days, is passed over.
  [[nodiscard]] JobPrefix open(Use use, std::uint64_t id) {
    JobPrefix prefix;
    do {
      prefix.value = static_cast<std::uint32_t>(++given_);
    } while (prefix.value == 0 || owners_.contains(prefix));
    owners_.emplace(prefix, Owner{use, id});
    return prefix;
  }
  // Nothing is closed where nothing is open.
  void close(std::optional<JobPrefix>& prefix) {
    if (prefix) owners_.erase(*prefix);
    prefix.reset();
  }

  // The owner of a job that has ended. Invariant: a prefix stays open until all of its jobs have answered.
  [[nodiscard]] Owner owner_of(JobToken token) const {
    const auto at = owners_.find(JobPrefix{static_cast<std::uint32_t>(token.value >> 32U)});
    LOCKSTEP_ASSERT(at != owners_.end());
    return at->second;
  }
  // The owner's own token.
  [[nodiscard]] static JobToken own(JobToken token) { return JobToken{token.value & 0xffffffffU}; }

  // Jobs that are to be started, in the order of their beginning.
  [[nodiscard]] std::vector<KernelJob>& collected() { return collected_; }
  // Hands the collected jobs to the driver, under this prefix. Invariant: whoever has jobs has a prefix.
  void start(const std::optional<JobPrefix>& prefix, Effects& out) {
    LOCKSTEP_ASSERT(prefix || collected_.empty());
    for (KernelJob& job : collected_) {
      job.token.value |= std::uint64_t{prefix->value} << 32U;
      out.emplace_back(job);
    }
    collected_.clear();
    // One large call of a peer that is alone starts thousands of jobs.
    if (collected_.capacity() > kMostKept) collected_ = std::vector<KernelJob>();
  }
  [[nodiscard]] bool idle() const { return collected_.empty(); }
  [[nodiscard]] std::size_t memory() const { return collected_.capacity() * sizeof(KernelJob); }

  // Left out: collected_, which is empty between two steps.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(given_, owners_);
  }

 private:
  static constexpr std::size_t kMostKept = 128;  // the most capacity of collected_ that outlives a step

  std::uint64_t given_;
  std::map<JobPrefix, Owner> owners_;
  std::vector<KernelJob> collected_;
};

}  // namespace lockstep::peer

// The jobs of one sync that a kernel runs now: what each job does, with which piece. Knows no memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "core/base/assert.h"
#include "core/base/ids.h"
#include "core/kernels/job.h"
#include "core/state/pieces.h"

namespace lockstep::state {

struct PieceJob {
  enum class Purpose : std::uint8_t {
    kOwn,      // digests a piece of this peer's state
    kArrived,  // digests a piece that has arrived
    kCopy,     // copies a piece from staging memory into the state
  };
  Purpose purpose = Purpose::kOwn;
  PieceIndex piece;
  PeerId from;  // kArrived
  template <typename Archive>
  void archive(Archive& a) {
    a.all(purpose, piece, from);
  }
};

class PieceJobs {
 public:
  [[nodiscard]] JobToken begin(const PieceJob& job) {
    const JobToken token{++begun_};
    running_.emplace(token, job);
    return token;
  }
  [[nodiscard]] PieceJob end(JobToken token) {
    const auto at = running_.find(token);
    LOCKSTEP_ASSERT(at != running_.end());
    const PieceJob job = at->second;
    running_.erase(at);
    return job;
  }
  [[nodiscard]] std::size_t running() const { return running_.size(); }

  template <typename Archive>
  void archive(Archive& a) {
    a.all(running_, begun_);
  }

 private:
  std::map<JobToken, PieceJob> running_;
  std::uint64_t begun_ = 0;
};

}  // namespace lockstep::state

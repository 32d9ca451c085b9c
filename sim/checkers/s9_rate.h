// S9, bounded: a peer sends no more segments than the rate that its program allows (rule 62 of docs/protocol.md).
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "sim/checkers/complaint.h"

namespace lockstep::sim {

// The payload that one process has written.
class SentPayload {
 public:
  // A write begins, with so many bytes that are no payload. `largest`: of its payloads.
  void lent(StreamId stream, std::uint64_t control, std::uint64_t largest, Instant now) {
    if (!began_) begin_ = now;
    began_ = true;
    control_[stream] = control;
    largest_ = std::max(largest_, largest);
  }
  // It ends after so many bytes. Those that are no payload may have come first.
  // `largest_segment`: it goes whole.
  Complaint written(StreamId stream, std::uint64_t bytes, std::uint64_t bytes_per_second, std::uint64_t largest_segment,
                    Instant now) {
    const std::uint64_t control = control_[stream];
    if (bytes > control) sent_ += bytes - control;
    constexpr double kAhead = 0.02;  // seconds that a peer may be ahead of its time
    const double passed = static_cast<double>((now - begin_).ns) / 1e9 + kAhead;
    const double most =
        static_cast<double>(bytes_per_second) * passed + static_cast<double>(std::max(largest_, largest_segment));
    if (static_cast<double>(sent_) <= most) return {};
    return std::to_string(sent_) + " bytes of segments in " + std::to_string(passed) + " s, " +
           std::to_string(bytes_per_second) + " a second are allowed";
  }

 private:
  bool began_ = false;
  Instant begin_;
  std::uint64_t sent_ = 0;
  std::uint64_t largest_ = 0;  // tensors, and pieces of states, may be larger than a segment of a tensor that is cut
  std::map<StreamId, std::uint64_t> control_;  // of the newest write
};

}  // namespace lockstep::sim

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
  // The write ends after so many bytes. Bytes that are no payload may have come first. `segment_bytes`: the configured
  // size of a segment, which goes whole; 0: the library chooses.
  [[nodiscard]] Complaint written(StreamId stream, std::uint64_t bytes, std::uint64_t bytes_per_second,
                                  std::uint64_t segment_bytes, Instant now) {
    const std::uint64_t control = control_[stream];
    if (bytes > control) sent_ += bytes - control;
    const std::uint64_t segment = segment_bytes == 0 ? kLargestSegment : segment_bytes;
    const Duration passed = now - begin_ + kAhead;
    const double in_time = static_cast<double>(bytes_per_second) * static_cast<double>(passed.ns) / 1e9;
    const double most = in_time + static_cast<double>(std::max(largest_, segment));
    if (static_cast<double>(sent_) <= most) return {};
    return std::to_string(sent_) + " bytes of segments in " + std::to_string(passed.seconds()) + " s, " +
           std::to_string(bytes_per_second) + " a second are allowed";
  }

 private:
  static constexpr Duration kAhead = milliseconds(20);       // that a peer may be ahead of its time
  static constexpr std::uint64_t kLargestSegment = 262'144;  // bytes, of segments whose size the library chooses

  bool began_ = false;
  Instant begin_;
  std::uint64_t sent_ = 0;
  std::uint64_t largest_ = 0;  // tensors, and pieces of states, may be larger than a segment of a tensor that is cut
  std::map<StreamId, std::uint64_t> control_;  // of the newest write
};

}  // namespace lockstep::sim

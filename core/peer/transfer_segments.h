// The segments of one point-to-point transfer, on either side. Which of them are ready to go, have landed, were
// verified. Emits jobs. Never sees a stream, a clock or a tensor byte. Owned by PointToPoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/buffers/buffer_ref.h"
#include "core/kernels/job.h"
#include "core/ring/operation.h"
#include "core/wire/limits.h"
#include "core/wire/message.h"

namespace lockstep::peer {

// The segment size of a transfer. `configured`: PeerOptions::segment_bytes.
std::uint32_t transfer_segment_bytes(std::uint64_t bytes, std::uint32_t configured);
// Largest transfer in bytes.
inline constexpr std::uint64_t kMaxTransferBytes = std::uint64_t{kMaxSegments} * kMaxSegmentBytes;

// A tensor and how it is cut.
struct CutTensor {
  BufferRef memory;  // only the length counts as long as there is no place
  std::uint32_t segment_bytes = 1;

  [[nodiscard]] std::size_t segments() const {
    return static_cast<std::size_t>((memory.length + segment_bytes - 1) / segment_bytes);
  }
  [[nodiscard]] BufferRef segment(std::size_t index) const;
  template <typename Archive>
  void archive(Archive& a) {
    a.all(memory, segment_bytes);
  }
};

class OutgoingSegments {
 public:
  OutgoingSegments() = default;
  OutgoingSegments(BufferRef memory, std::uint32_t segment_bytes);

  [[nodiscard]] const CutTensor& tensor() const { return tensor_; }
  // Hashes some segments ahead of their departure, and compares those that were sent with their checksums before they
  // are sent again (rule 35).
  void prepare(std::vector<KernelJob>& jobs);
  // False: the tensor has changed since it was hashed.
  [[nodiscard]] bool job_done(JobToken token, const JobResult& result);
  // The receiver has memory for all segments but those in `have`. Segments that were sent on an earlier stream of this
  // stripe are sent again. False: `have` is no set of segments.
  [[nodiscard]] bool grant(const std::vector<std::uint64_t>& have, StripeIndex stripe, StreamId stream);
  // The only segment goes without being asked for, or goes again.
  void send_whole();
  [[nodiscard]] bool is_granted() const { return granted_; }
  [[nodiscard]] bool has_next() const { return granted_ && !stopped_ && !ready_.empty(); }
  struct Outgoing {
    SegmentIndex index;
    BufferRef payload;
    std::uint64_t checksum = 0;
  };
  [[nodiscard]] Outgoing next(StripeIndex stripe, StreamId stream);
  // Starts nothing new. Running jobs still have to answer.
  void stop() { stopped_ = true; }
  [[nodiscard]] std::size_t jobs_running() const { return running_; }
  [[nodiscard]] std::uint64_t bytes_sent() const { return bytes_sent_; }

  template <typename Archive>
  void archive(Archive& a) {
    a.all(tensor_, departures_, ready_, unchecked_, prepared_, ahead_, granted_, stopped_, running_, bytes_sent_);
  }

 private:
  enum class State : std::uint8_t { kNotReady, kReady, kSent, kChecking };
  struct Departure {
    State state = State::kNotReady;
    bool again = false;
    std::uint64_t checksum = 0;
    StripeIndex stripe;
    StreamId on;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(state, again, checksum, stripe, on);
    }
  };

  void make_ready(std::size_t index);
  void send_again(std::size_t index);

  CutTensor tensor_;
  std::vector<Departure> departures_;
  std::deque<std::uint32_t> ready_;
  std::deque<std::uint32_t> unchecked_;  // to be compared with their checksums before they are sent again
  std::uint64_t prepared_ = 0;           // segments whose hash was asked for
  std::uint64_t ahead_ = 0;              // of them: not sent yet
  bool granted_ = false;
  bool stopped_ = false;
  std::uint64_t running_ = 0;
  std::uint64_t bytes_sent_ = 0;
};

class IncomingSegments {
 public:
  IncomingSegments() = default;
  // `bytes`, `segment_bytes`: as the sender says.
  IncomingSegments(std::uint64_t bytes, std::uint32_t segment_bytes);

  [[nodiscard]] const CutTensor& tensor() const { return tensor_; }
  [[nodiscard]] bool has_place() const { return placed_; }
  // Segments land here from now on.
  void set_place(BufferRef memory);
  // Without a place, a segment goes to the sink.
  [[nodiscard]] ring::Operation::SegmentPlace begin(const wire::Segment& segment, StreamId stream);
  void landed(const wire::Segment& segment, bool taken_back, std::uint64_t checksum, std::vector<KernelJob>& jobs);
  // True: a part of a segment is lost with the stream.
  [[nodiscard]] bool stream_closed(StreamId stream);
  // One bit for each segment that is here.
  [[nodiscard]] std::vector<std::uint64_t> have() const;
  // Copies the whole tensor from its place.
  void copy_to(BufferRef into, std::vector<KernelJob>& jobs);

  struct Finished {
    bool copied = false;
    bool corrupt = false;  // a wrong checksum: reset `stream`
    bool faulty = false;   // again and again: the sender's host is to blame
    StreamId stream;
  };
  [[nodiscard]] Finished job_done(JobToken token, const JobResult& result);
  [[nodiscard]] bool complete() const { return missing_ == 0; }
  void stop() { stopped_ = true; }
  [[nodiscard]] bool stopped() const { return stopped_; }
  [[nodiscard]] std::size_t jobs_running() const { return running_; }
  // The sink got a segment for want of a place, or a second copy of a segment that was not verified: if the segment is
  // missing later, only a Ready brings it again.
  [[nodiscard]] bool has_sunk() const { return sunk_; }

  template <typename Archive>
  void archive(Archive& a) {
    a.all(tensor_, arrivals_, missing_, placed_, sunk_, stopped_, running_);
  }

 private:
  enum class State : std::uint8_t { kExpected, kLanding, kWorking, kHere };
  struct Arriving {
    State state = State::kExpected;
    std::uint8_t corrupt = 0;
    StreamId on;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(state, corrupt, on);
    }
  };

  CutTensor tensor_;
  std::vector<Arriving> arrivals_;
  std::uint64_t missing_ = 0;
  bool placed_ = false;
  bool sunk_ = false;
  bool stopped_ = false;
  std::uint64_t running_ = 0;
};

}  // namespace lockstep::peer

#include "sim/flow/ring_model.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include "core/base/assert.h"
#include "core/ring/ring_operation.h"
#include "sim/flow/stream_limits.h"

namespace lockstep::sim::flow {
namespace {

constexpr std::size_t kSegmentsPerStripe = 2;    // queued or begun, as in core/peer/segment_sender.cc
constexpr std::uint64_t kLeastPartOfSocket = 8;  // that it takes at a time, as in sim/network/ways.cc

// Ranks with the operation that ships, joined by fluid streams.
class FluidRing {
 public:
  FluidRing(Topology topology, const RingRun& run) : run_(run), lines_(std::move(topology)) {
    const auto world = static_cast<std::uint32_t>(run.ring.size());
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      Member& r = ranks_.emplace_back();
      r.request = request();
      if (world == 1) continue;
      const std::uint32_t next = run.ring[(rank + 1) % world];
      for (std::uint32_t stripe = 0; stripe < run.stripes; ++stripe) {
        r.stripes.emplace_back();
        const Lines::Stream stream = lines_.add(run.ring[rank], next);
        LOCKSTEP_ASSERT(stream == rank * run.stripes + stripe);
      }
      const Route& route = lines_.route_of(rank * run.stripes);
      r.latency_ns = route.latency_ns;
      // The bytes that a socket accepts: a window, but no more than the path carries in a round trip and a turn.
      const double carried = static_cast<double>(std::min(route.narrowest, route.loss_cap)) *
                             static_cast<double>(kTurnNs + route.round_trip_ns) * 1e-9;
      const auto window = static_cast<double>(run.window_bytes);
      r.socket_bytes = std::max<std::uint64_t>(kPacketBytes, static_cast<std::uint64_t>(std::min(carried, window)));
    }
  }

  RingTime measure() {
    for (std::uint32_t i = 0; i < run_.before; ++i) once();
    carried_.assign(lines_.carried().begin(), lines_.carried().end());
    for (std::uint32_t s = 0; s < ranks_.size() * ranks_.front().stripes.size(); ++s)
      carried_by_.push_back(lines_.carried_by(s));
    const std::int64_t began = now_;
    once();
    RingTime time;
    time.ns = now_ - began;
    time.events = events_;
    find_bottleneck(time);
    return time;
  }

 private:
  struct Member {
    ring::Request request;
    std::unique_ptr<ring::Operation> operation;
    std::vector<KernelJob> jobs;
    struct Piece {
      std::uint64_t bytes = 0;
      std::optional<ring::Operation::Outgoing> ends;  // with it this segment is whole
    };
    struct Stripe {
      std::deque<ring::Operation::Outgoing> queued;  // by core
      std::uint64_t taken = 0;                       // of the first: bytes that the socket has
      std::deque<Piece> leaving;
      std::deque<Piece> arriving;
      std::uint64_t in_socket = 0;  // bytes that leave or arrive
    };
    std::vector<Stripe> stripes;
    std::int64_t latency_ns = 0;
    std::uint64_t socket_bytes = 0;
  };
  enum class What : std::uint8_t { kArrives, kJobDone };
  struct Happening {
    std::int64_t at = 0;
    std::uint64_t order = 0;
    What what = What::kArrives;
    std::uint32_t rank = 0;  // whose stream it is; whose job
    std::uint32_t stripe = 0;
    JobToken job{};
    bool operator>(const Happening& other) const { return std::tie(at, order) > std::tie(other.at, other.order); }
  };

  [[nodiscard]] ring::Request request() const {
    ring::Request request;
    request.collective = run_.collective;
    request.type = run_.type;
    request.formats = run_.segmenting.formats;
    const std::uint64_t bytes = run_.count * size_of(run_.type);
    ring::Tensor tensor;
    tensor.count = run_.count;
    tensor.send = {kFirstFreeBuffer, 0, bytes};
    const bool gathers = run_.collective == wire::Collective::kAllGather;
    tensor.recv = {BufferId{kFirstFreeBuffer.value + 1}, 0, gathers ? bytes * run_.ring.size() : bytes};
    if (run_.collective != wire::Collective::kBarrier) request.tensors.push_back(tensor);
    request.scratch = {BufferId{kFirstFreeBuffer.value + 2}, 0, ring::scratch_bytes(request)};
    return request;
  }

  void once() {
    const auto world = static_cast<std::uint32_t>(ranks_.size());
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      Member& r = ranks_[rank];
      std::vector<std::uint64_t> blocks;
      if (run_.collective == wire::Collective::kAllGather) blocks.assign(world, run_.count * size_of(run_.type));
      r.operation =
          std::make_unique<ring::RingOperation>(r.request, Rank{rank}, world, 0, std::move(blocks), run_.segmenting);
      if (world > 1) (void)r.operation->grant(after(rank), {}, StripeIndex{0}, StreamId{2});
      r.operation->prepare(r.jobs);
      start_jobs(rank);
    }
    for (std::uint32_t rank = 0; rank < world; ++rank) fill(rank);
    while (!done()) step();
  }

  [[nodiscard]] bool done() const {
    return happenings_.empty() && std::all_of(ranks_.begin(), ranks_.end(), [](const Member& r) {
             return r.operation->complete() && r.operation->jobs_running() == 0;
           });
  }

  void step() {
    const std::int64_t flows = lines_.next(now_);
    const std::int64_t other = happenings_.empty() ? Lines::kNever : happenings_.top().at;
    const std::int64_t at = std::min(flows, other);
    LOCKSTEP_ASSERT(at != Lines::kNever && at >= now_);
    now_ = at;
    events_ += 1;
    if (flows <= other) {
      left_.clear();
      lines_.take(now_, left_);
      for (const Lines::Stream stream : left_) {
        travels(stream / run_.stripes, stream % run_.stripes, 0);
      }
      return;
    }
    const Happening happening = happenings_.top();
    happenings_.pop();
    if (happening.what == What::kArrives) {
      arrives(happening.rank, happening.stripe);
    } else {
      job_done(happening.rank, happening.job);
    }
  }

  void later(std::int64_t ns, Happening happening) {
    happening.at = now_ + ns;
    happening.order = order_++;
    happenings_.push(happening);
  }

  // As in core: a stripe takes more while it holds little.
  void fill(std::uint32_t rank) {
    Member& r = ranks_[rank];
    for (bool more = true; more;) {
      more = false;
      for (std::uint32_t stripe = 0; stripe < r.stripes.size(); ++stripe) {
        if (r.stripes[stripe].queued.size() >= kSegmentsPerStripe) continue;
        const auto next = r.operation->next(after(rank), StripeIndex{static_cast<std::uint16_t>(stripe)}, StreamId{2});
        if (!next) continue;
        more = true;
        r.stripes[stripe].queued.push_back(*next);
        write(rank, stripe);
        r.operation->prepare(r.jobs);
        start_jobs(rank);
      }
    }
  }

  // What core has queued, as far as the socket takes it: of a segment that is larger than its room, a part.
  void write(std::uint32_t rank, std::uint32_t stripe) {
    Member& r = ranks_[rank];
    Member::Stripe& s = r.stripes[stripe];
    while (!s.queued.empty()) {
      const std::uint64_t left = s.queued.front().payload.length - s.taken;
      const std::uint64_t room = r.socket_bytes - s.in_socket;
      if (room < std::min(left, r.socket_bytes / kLeastPartOfSocket)) return;
      Member::Piece& piece = s.leaving.emplace_back();
      piece.bytes = std::min(left, room);
      // A remainder of a segment never counts as a short message, which would not wait (Lines::push).
      if (piece.bytes < left && left - piece.bytes <= kPacketBytes && piece.bytes > 2 * kPacketBytes)
        piece.bytes -= kPacketBytes;
      s.in_socket += piece.bytes;
      s.taken += piece.bytes;
      if (piece.bytes == left) {
        piece.ends = s.queued.front();
        s.queued.pop_front();
        s.taken = 0;
      }
      const auto alone = lines_.push(rank * run_.stripes + stripe, piece.bytes, now_);
      if (alone) travels(rank, stripe, *alone);
    }
  }

  void travels(std::uint32_t rank, std::uint32_t stripe, std::int64_t after_ns) {
    Member::Stripe& s = ranks_[rank].stripes[stripe];
    s.arriving.push_back(s.leaving.front());
    s.leaving.pop_front();
    later(after_ns + ranks_[rank].latency_ns, {.what = What::kArrives, .rank = rank, .stripe = stripe});
  }

  [[nodiscard]] Rank after(std::uint32_t rank) const {
    return Rank{static_cast<std::uint32_t>((rank + 1) % ranks_.size())};
  }

  void arrives(std::uint32_t from, std::uint32_t stripe) {
    auto& arriving = ranks_[from].stripes[stripe].arriving;
    const std::uint32_t rank = after(from).value;
    const Member::Piece piece = arriving.front();
    arriving.pop_front();
    ranks_[from].stripes[stripe].in_socket -= piece.bytes;
    write(from, stripe);
    fill(from);
    if (!piece.ends) return;
    const ring::Operation::Outgoing& segment = *piece.ends;
    Member& r = ranks_[rank];
    const wire::Segment header{
        {}, {}, segment.phase, segment.index, static_cast<std::uint32_t>(segment.payload.length)};
    // Sends and receives lie apart, so that there is a place at once.
    const auto place = r.operation->begin(Rank{from}, header, StreamId{2}, r.jobs);
    LOCKSTEP_ASSERT(place.landing == ring::Operation::Landing::kPlace);
    r.operation->landed(Rank{from}, header, false, segment.checksum, r.jobs);
    start_jobs(rank);
  }

  void start_jobs(std::uint32_t rank) {
    Member& r = ranks_[rank];
    while (!r.jobs.empty()) {
      const KernelJob job = r.jobs.back();
      r.jobs.pop_back();
      const std::int64_t ns =
          static_cast<std::int64_t>(memory_of(job.work).from.length / 1024) * run_.kernel_ns_per_kib;
      later(ns, {.what = What::kJobDone, .rank = rank, .job = job.token});
    }
  }

  void job_done(std::uint32_t rank, JobToken job) {
    Member& r = ranks_[rank];
    (void)r.operation->job_done(job, {.intact = true, .checksum = 0}, r.jobs);
    start_jobs(rank);
    fill(rank);
  }

  void find_bottleneck(RingTime& time) {
    const auto seconds = static_cast<double>(std::max<std::int64_t>(time.ns, 1)) * 1e-9;
    const auto& capacities = lines_.topology().capacities();
    for (Resource r = 0; r < carried_.size(); ++r) {
      const auto bytes = static_cast<double>(lines_.carried()[r] - carried_[r]);
      const double busy = bytes / static_cast<double>(capacities[r]) / seconds;
      if (busy <= time.busy) continue;
      time.busy = busy;
      time.busiest = r;
    }
    for (std::uint32_t s = 0; s < carried_by_.size(); ++s) {
      const Route& route = lines_.route_of(s);
      const auto bytes = static_cast<double>(lines_.carried_by(s) - carried_by_[s]);
      const double busy = bytes / static_cast<double>(route.goodput(route.cap())) / seconds;
      if (busy <= time.busy) continue;
      time.busy = busy;
      time.busiest = kNoResource;
      time.by_loss = route.loss_cap < route.window_cap;
      time.from = run_.ring[s / run_.stripes];
      time.to = run_.ring[(s / run_.stripes + 1) % run_.ring.size()];
    }
  }

  const RingRun& run_;
  Lines lines_;
  std::deque<Member> ranks_;  // operations refer to their requests
  std::priority_queue<Happening, std::vector<Happening>, std::greater<>> happenings_;
  std::vector<Lines::Stream> left_;
  std::vector<std::uint64_t> carried_;  // before the one that is measured
  std::vector<std::uint64_t> carried_by_;
  std::int64_t now_ = 0;
  std::uint64_t order_ = 0;
  std::uint64_t events_ = 0;
};

}  // namespace

RingTime ring_time(Topology topology, const RingRun& run) {
  LOCKSTEP_ASSERT(!run.ring.empty() && run.stripes > 0);
  return FluidRing(std::move(topology), run).measure();
}

}  // namespace lockstep::sim::flow

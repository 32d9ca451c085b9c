// The limit: a ring all-reduce with nothing around it. Between neighbours there is one plain TCP stream without headers
// or checksums, and nobody agrees with anybody on anything. The first half of what a process receives it adds to its
// own and stores, the second half it stores. Whoever all-reduces in a ring over TCP does at least this. With one thread
// per process there are the fewest switches; where cores are left over, two are faster.
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/lab/bench/yardsticks/door.h"
#include "tests/lab/bench/yardsticks/measure.h"
#include "tests/lab/bench/yardsticks/processes.h"

namespace lockstep::bench {
namespace {

// Of one read or write. Small enough to be added up while it is in the second-level cache.
constexpr std::size_t kPiece = std::size_t{256} << 10U;

// Bytes in several places, one after the other.
template <typename Byte>
class Places {
 public:
  void add(std::span<Byte> place) {
    if (!place.empty()) places_.push_back(place);
  }
  void begin() { at_ = offset_ = passed_ = 0; }
  [[nodiscard]] std::span<Byte> next(std::size_t most) const {
    if (at_ == places_.size()) return {};
    const auto rest = places_[at_].subspan(offset_);
    return rest.first(std::min(most, rest.size()));
  }
  void pass(std::size_t bytes) {
    passed_ += bytes;
    for (offset_ += bytes; at_ < places_.size() && offset_ >= places_[at_].size(); ++at_)
      offset_ -= places_[at_].size();
  }
  [[nodiscard]] std::size_t passed() const { return passed_; }

 private:
  std::vector<std::span<Byte>> places_;
  std::size_t at_ = 0;
  std::size_t offset_ = 0;
  std::size_t passed_ = 0;
};

enum class Threads { kOne, kTwo };

class Ring final : public Group {
 public:
  Ring(int rank, const std::vector<Door>& doors, MeetingPlace& meeting, Threads threads)
      : rank_(rank),
        size_(static_cast<int>(doors.size())),
        threads_(threads),
        meeting_(meeting),
        scratch_(kPiece / sizeof(float)) {
    to_ = connect_to(doors[static_cast<std::size_t>(rank + 1) % doors.size()]);
    from_ = accept_at(doors[static_cast<std::size_t>(rank)]);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() override {
    ::close(to_);
    ::close(from_);
  }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  double slowest(double mine) override { return meeting_.meet(rank_, mine); }

  // In step k everybody sends chunk rank - k and receives chunk rank - k - 1, which is what it sends next.
  void prepare(std::span<const float> send, std::span<float> recv) override {
    outgoing_ = {};
    own_ = {};
    sums_ = {};
    copies_ = {};
    for (int step = 0; step < 2 * (size_ - 1); ++step) {
      outgoing_.add(std::as_bytes(chunk(step == 0 ? send : std::span<const float>(recv), rank_ - step)));
      const int arriving = rank_ - step - 1;
      if (step < size_ - 1) {
        own_.add(chunk(send, arriving));
        sums_.add(chunk(recv, arriving));
      } else {
        copies_.add(std::as_writable_bytes(chunk(recv, arriving)));
      }
    }
    first_ = chunk(send, rank_).size_bytes();
  }

  void all_reduce() override {
    outgoing_.begin();
    own_.begin();
    sums_.begin();
    copies_.begin();
    part_ = 0;
    arrived_ = 0;
    threads_ == Threads::kOne ? take_turns() : send_beside();
  }

 private:
  template <typename T>
  std::span<T> chunk(std::span<T> tensor, int index) const {
    const auto n = static_cast<std::size_t>(size_);
    const auto i = static_cast<std::size_t>(index + 2 * size_) % n;
    const std::size_t begin = tensor.size() * i / n;
    return tensor.subspan(begin, tensor.size() * (i + 1) / n - begin);
  }

  [[nodiscard]] bool sending() const { return !outgoing_.next(1).empty(); }
  [[nodiscard]] bool receiving() const { return !sums_.next(1).empty() || !copies_.next(1).empty(); }

  // One thread sends what it can, receives what is there, and waits when there is neither.
  void take_turns() {
    while (sending() || receiving()) {
      const bool sent = send_some(MSG_DONTWAIT);
      const bool received = receiving() && receive_some(MSG_DONTWAIT);
      if (!sent && !received) wait();
    }
  }

  // One thread sends, and waits for what it may send; the other receives.
  void send_beside() {
    const std::jthread sender([this] {
      while (sending()) {
        const std::size_t arrived = arrived_;
        if (!send_some(0)) arrived_.wait(arrived);
      }
    });
    while (receiving()) receive_some(0);
  }

  // The own first chunk may go at once, everything else when it has come from the other side.
  [[nodiscard]] std::span<const std::byte> ready() const {
    return outgoing_.next(std::min(kPiece, first_ + arrived_ - outgoing_.passed()));
  }

  bool send_some(int flags) {
    const auto bytes = ready();
    if (bytes.empty()) return false;
    const ssize_t sent = ::send(to_, bytes.data(), bytes.size(), flags | MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EAGAIN) return false;
      fail("cannot send");
    }
    outgoing_.pass(static_cast<std::size_t>(sent));
    return true;
  }

  // Gives how many bytes have come, at most as many as fit.
  std::size_t read_some(std::span<std::byte> into, int flags) const {
    const ssize_t got = ::recv(from_, into.data(), into.size(), flags);
    if (got == 0) throw std::runtime_error("a neighbour is gone");
    if (got < 0 && errno != EAGAIN) fail("cannot receive");
    return got < 0 ? 0 : static_cast<std::size_t>(got);
  }

  bool receive_some(int flags) {
    std::size_t got = 0;
    if (const auto place = sums_.next(kPiece / sizeof(float)); !place.empty()) {
      got = read_some(std::as_writable_bytes(std::span(scratch_).first(place.size())).subspan(part_), flags);
      add_up(place, part_ + got);
    } else {
      got = read_some(copies_.next(kPiece), flags);
      copies_.pass(got);
    }
    arrived_ = sums_.passed() * sizeof(float) + copies_.passed();
    if (threads_ == Threads::kTwo) arrived_.notify_one();
    return got > 0;
  }

  // The received `bytes` of scratch, plus our own. Of a number that is not whole yet the part is kept.
  void add_up(std::span<float> place, std::size_t bytes) {
    const std::size_t whole = bytes / sizeof(float);
    part_ = bytes % sizeof(float);
    const float* __restrict in = scratch_.data();
    const float* __restrict own = own_.next(place.size()).data();
    float* __restrict out = place.data();
    for (std::size_t i = 0; i < whole; ++i) out[i] = in[i] + own[i];
    std::memmove(scratch_.data(), scratch_.data() + whole, part_);
    own_.pass(whole);
    sums_.pass(whole);
  }

  void wait() const {
    std::array<pollfd, 2> streams{pollfd{to_, POLLOUT, 0}, pollfd{from_, POLLIN, 0}};
    if (ready().empty()) streams[0].fd = -1;
    if (!receiving()) streams[1].fd = -1;
    if (::poll(streams.data(), streams.size(), -1) < 0 && errno != EINTR) fail("cannot wait");
  }

  const int rank_;
  const int size_;
  const Threads threads_;
  MeetingPlace& meeting_;
  int to_ = -1;
  int from_ = -1;
  Places<const std::byte> outgoing_;
  Places<const float> own_;   // what is added to what comes
  Places<float> sums_;        // where that goes
  Places<std::byte> copies_;  // where sums of others go
  std::size_t first_ = 0;     // bytes of the first chunk
  std::vector<float> scratch_;
  std::atomic<std::size_t> arrived_ = 0;  // bytes that may be sent on
  std::size_t part_ = 0;                  // bytes of a number at the beginning of scratch
};

int run(int argc, char** argv) {
  const Work work = work_of(argc, argv, Starter::kItself, {"one thread", "two threads"});
  const std::vector<Door> doors(static_cast<std::size_t>(work.processes));
  MeetingPlace meeting(work.processes);
  return run_processes(work.processes, [&](int rank) {
    for (const Threads threads : {Threads::kOne, Threads::kTwo}) {
      const std::string name = threads == Threads::kOne ? "one thread" : "two threads";
      if (!work.algorithm.empty() && work.algorithm != name) continue;
      Ring ring(rank, doors, meeting, threads);
      measure(ring, work, name);
    }
  });
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) { return lockstep::bench::run(argc, argv); }

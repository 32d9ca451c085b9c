#include "tests/support/proxy.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <deque>
#include <vector>

#include "core/base/assert.h"
#include "tests/support/process.h"

namespace lockstep::testing {
namespace {

constexpr std::size_t kMostQueuedBytes = 1U << 20U;  // of one direction; beyond it nothing is read: back-pressure
constexpr std::size_t kHeadBytes = 24 + 24 + 16;     // preamble, header, PeerId; see core/wire/codec.h
constexpr std::uint64_t kTurnsPerSecond = 100;       // of a slow line: so often it passes bytes

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return at;
}

std::uint16_t bind_any(int socket) {
  const int on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in at = loopback(0);
  socklen_t length = sizeof at;
  LOCKSTEP_ASSERT(::bind(socket, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
  LOCKSTEP_ASSERT(::getsockname(socket, reinterpret_cast<sockaddr*>(&at), &length) == 0);
  return ntohs(at.sin_port);
}

// RST instead of FIN.
void reset(int socket) {
  const linger at_once{1, 0};
  ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  ::close(socket);
}

}  // namespace

// Linux lets a second socket of the same owner listen on a port that is bound with SO_REUSEADDR but not listening.
ReservedPort::ReservedPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), port_(bind_any(socket_)) {}
ReservedPort::~ReservedPort() { ::close(socket_); }

// One direction of a connection.
struct Proxy::Pipe {
  struct Piece {
    Instant due;
    std::vector<std::byte> bytes;
    std::size_t sent = 0;
  };
  int to = -1;
  bool dialled = false;  // the direction from the dialling side, whose first bytes identify it
  std::vector<std::byte> head;
  Instant next_drip;
  bool ended = false;     // the reader has seen the end
  bool finished = false;  // the other side has been told
  std::size_t queued = 0;
  std::deque<Piece> pieces;
};

Proxy::Proxy(std::uint16_t target)
    : target_(target), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  port_ = bind_any(listener_);
  LOCKSTEP_ASSERT(::listen(listener_, 128) == 0);
  std::array<int, 2> ends{};
  LOCKSTEP_ASSERT(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0);
  wake_read_ = ends[0];
  wake_write_ = ends[1];
}

Proxy::~Proxy() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake();
  if (thread_.joinable()) thread_.join();
  reset_all();
  ::close(listener_);
  ::close(wake_read_);
  ::close(wake_write_);
}

void Proxy::start() {
  thread_ = std::thread([this] { run(); });
}

void Proxy::wake() const {
  const char any = 0;
  static_cast<void>(!::write(wake_write_, &any, 1));  // a full pipe wakes the thread, too
}

void Proxy::set_delay(Duration delay) {
  const std::lock_guard lock(mutex_);
  delay_ = delay;
}

void Proxy::drip(std::uint64_t bytes_per_second, Towards towards, std::optional<PeerId> dialler) {
  const std::lock_guard lock(mutex_);
  if (bytes_per_second == 0) {
    drips_.clear();
  } else {
    drips_.push_back({bytes_per_second, towards, dialler});
  }
  wake();
}

std::uint64_t Proxy::rate_of(const Pipe& pipe) const {
  for (const Drip& drip : drips_) {
    const bool way = drip.towards == Towards::kBoth || (drip.towards == Towards::kTarget) == pipe.dialled;
    const Pipe& from_dialler = pipe.dialled ? pipe : pipes_.at(pipe.to);
    if (way && (!drip.dialler || dialler_of(from_dialler) == drip.dialler)) return drip.rate;
  }
  return 0;
}

std::size_t Proxy::allowance(Pipe& pipe, Instant now) const {
  const std::uint64_t rate = rate_of(pipe);
  if (rate == 0) return SIZE_MAX;
  if (now < pipe.next_drip) return 0;
  const std::uint64_t bytes = std::max<std::uint64_t>(1, rate / kTurnsPerSecond);
  pipe.next_drip = now + nanoseconds(static_cast<std::int64_t>(bytes * 1'000'000'000 / rate));
  return bytes;
}

void Proxy::go_silent() {
  const std::lock_guard lock(mutex_);
  silent_ = true;
}

void Proxy::reset_after(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  reset_after_ = bytes;
}

void Proxy::break_for_good() {
  const std::lock_guard lock(mutex_);
  broken_ = true;
  reset_all();
  wake();  // the thread closes the socket after poll returns
}

void Proxy::break_for_good(PeerId dialler) {
  const std::lock_guard lock(mutex_);
  broken_diallers_.insert(dialler);
  reset_broken();
  wake();
}

std::uint64_t Proxy::resets() const {
  const std::lock_guard lock(mutex_);
  return resets_;
}

void Proxy::run() {
  for (;;) {
    std::vector<pollfd> files;
    int timeout_ms = -1;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      files.push_back({wake_read_, POLLIN, 0});
      files.push_back({listener_, POLLIN, 0});
      const Instant now = monotonic_now();
      for (auto& [from, pipe] : pipes_) {
        if (silent_) break;
        short events = 0;
        if (!pipe.ended && pipe.queued < kMostQueuedBytes) events |= POLLIN;
        if (events != 0) files.push_back({from, events, 0});
        if (pipe.pieces.empty()) continue;
        const Instant may = rate_of(pipe) == 0 ? Instant{} : pipe.next_drip;
        const Duration until = std::max(pipe.pieces.front().due, may) - now;
        if (until.ns <= 0) {
          files.push_back({pipe.to, POLLOUT, 0});
        } else {
          const int ms = static_cast<int>(until.ns / 1'000'000) + 1;
          timeout_ms = timeout_ms < 0 ? ms : std::min(timeout_ms, ms);
        }
      }
    }
    ::poll(files.data(), files.size(), timeout_ms);
    const std::lock_guard lock(mutex_);
    std::array<char, 64> sink{};
    while (::read(wake_read_, sink.data(), sink.size()) > 0) {
    }
    accept_one();
    if (silent_) continue;
    for (bool again = true; again;) {  // a reset changes the list
      again = false;
      for (auto& [from, pipe] : pipes_) {
        if (forward(from, pipe)) continue;
        reset_one(from);
        again = true;
        break;
      }
    }
  }
}

void Proxy::accept_one() {
  for (;;) {
    const int from = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (from < 0) return;
    const int to = broken_ ? -1 : ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in at = loopback(target_);
    if (to < 0 || ::connect(to, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) {
      reset(from);
      if (to >= 0) ::close(to);
      continue;
    }
    for (const int socket : {from, to}) ::fcntl(socket, F_SETFL, O_NONBLOCK);
    pipes_[from].to = to;
    pipes_[from].dialled = true;
    pipes_[to].to = from;
  }
}

// Reads a preamble, a header, and a Link, whose first field is the dialler's id.
std::optional<PeerId> Proxy::dialler_of(const Pipe& pipe) {
  if (!pipe.dialled || pipe.head.size() < kHeadBytes) return std::nullopt;
  PeerId dialler;
  std::memcpy(&dialler.high, pipe.head.data() + kHeadBytes - 16, 8);
  std::memcpy(&dialler.low, pipe.head.data() + kHeadBytes - 8, 8);
  return dialler;
}

void Proxy::listen_in() {
  const std::lock_guard lock(mutex_);
  heard_.emplace(Heard{{}, {}, -1});
}

std::vector<std::byte> Proxy::heard() const {
  const std::lock_guard lock(mutex_);
  return heard_ ? heard_->all : std::vector<std::byte>();
}

std::vector<std::byte> Proxy::first_dialler_said() const {
  const std::lock_guard lock(mutex_);
  return heard_ ? heard_->from_first_dialler : std::vector<std::byte>();
}

bool Proxy::is_broken(const Pipe& pipe) const {
  const auto dialler = dialler_of(pipe);
  return dialler && broken_diallers_.contains(*dialler);
}

bool Proxy::forward(int from, Pipe& pipe) {
  if (is_broken(pipe)) return false;
  const Instant now = monotonic_now();
  while (!pipe.ended && pipe.queued < kMostQueuedBytes) {
    std::vector<std::byte> bytes(65'536);
    const ssize_t got = ::read(from, bytes.data(), bytes.size());
    if (got < 0 && errno == EAGAIN) break;
    if (got <= 0) {
      pipe.ended = true;
      break;
    }
    bytes.resize(static_cast<std::size_t>(got));
    if (heard_) {
      heard_->all.insert(heard_->all.end(), bytes.begin(), bytes.end());
      if (heard_->first_dialler < 0 && pipe.dialled) heard_->first_dialler = from;
      if (heard_->first_dialler == from) {
        heard_->from_first_dialler.insert(heard_->from_first_dialler.end(), bytes.begin(), bytes.end());
      }
    }
    const std::size_t missing = kHeadBytes - pipe.head.size();
    pipe.head.insert(pipe.head.end(), bytes.begin(),
                     bytes.begin() + static_cast<std::ptrdiff_t>(std::min(missing, bytes.size())));
    if (is_broken(pipe)) return false;
    pipe.queued += bytes.size();
    pipe.pieces.push_back({now + delay_, std::move(bytes), 0});
  }
  while (!pipe.pieces.empty() && pipe.pieces.front().due <= now) {
    Pipe::Piece& piece = pipe.pieces.front();
    std::size_t most = std::min(piece.bytes.size() - piece.sent, allowance(pipe, now));
    if (most == 0) return true;
    if (reset_after_) most = std::min<std::size_t>(most, *reset_after_);
    const ssize_t sent = ::send(pipe.to, piece.bytes.data() + piece.sent, most, MSG_NOSIGNAL);
    if (sent < 0 && errno == EAGAIN) return true;
    if (sent < 0) {  // the other side is gone; the end of this side will be seen
      pipe.pieces.clear();
      pipe.queued = 0;
      pipe.ended = true;
      break;
    }
    const auto done = static_cast<std::size_t>(sent);
    piece.sent += done;
    pipe.queued -= done;
    if (piece.sent == piece.bytes.size()) pipe.pieces.pop_front();
    if (reset_after_ && (*reset_after_ -= done) == 0) {
      reset_after_.reset();
      return false;
    }
  }
  if (pipe.ended && pipe.pieces.empty() && !pipe.finished) {
    pipe.finished = true;
    ::shutdown(pipe.to, SHUT_WR);
  }
  return true;
}

void Proxy::reset_one(int from) {
  const int to = pipes_.at(from).to;
  ++resets_;
  for (const int socket : {from, to}) {
    reset(socket);
    pipes_.erase(socket);
  }
}

// A reset changes the list.
void Proxy::reset_broken() {
  const auto is_broken_one = [this](const auto& entry) { return is_broken(entry.second); };
  for (;;) {
    const auto found = std::find_if(pipes_.begin(), pipes_.end(), is_broken_one);
    if (found == pipes_.end()) return;
    reset_one(found->first);
  }
}

void Proxy::reset_all() {
  if (!pipes_.empty()) ++resets_;
  for (const auto& [from, pipe] : pipes_) reset(from);  // both directions are in the list: each socket once
  pipes_.clear();
}

}  // namespace lockstep::testing

#include "tests/wan/forwarder.h"

#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <span>

#include "core/base/assert.h"
#include "tests/wan/tun.h"

namespace lockstep::wan {
namespace {

constexpr int kBatch = 64;  // packets of one host before it is another one's turn, and before a look at what is due

Instant monotonic() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return Instant{now.tv_sec * 1'000'000'000 + now.tv_nsec};
}

// Before everybody else, or the latency of the network would be that of the machine's scheduler. Where that is not allowed, in
// turn with them.
void hurry() {
  const sched_param first{.sched_priority = 1};
  ::pthread_setschedparam(::pthread_self(), SCHED_RR, &first);
  ::prctl(PR_SET_TIMERSLACK, 1);
}

}  // namespace

Forwarder::Forwarder(std::vector<File> tuns, std::uint32_t mtu)
    : tuns_(std::move(tuns)), pool_(kTunHeaderBytes + mtu), end_(::eventfd(0, EFD_CLOEXEC)) {}

Forwarder::~Forwarder() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  LOCKSTEP_ASSERT(::write(end_.number(), &one, sizeof one) == sizeof one);
  thread_.join();
}

void Forwarder::start(const Topology& topology) {
  network_.emplace(topology, monotonic());
  thread_ = std::thread([this] { run(); });
}

void Forwarder::run() {
  hurry();
  std::vector<pollfd> places;
  for (const File& tun : tuns_) places.push_back({tun.number(), POLLIN, 0});
  places.push_back({end_.number(), POLLIN, 0});
  while (places.back().revents == 0) {
    Instant due;
    {
      const std::lock_guard lock(mutex_);
      for (std::uint32_t host = 0; host < tuns_.size(); ++host) {
        if (places[host].revents != 0) read_some(host);
      }
      deliver();
      due = network_->next();
    }
    moved_.notify_all();
    wait(places, due);
  }
}

void Forwarder::wait(std::vector<pollfd>& places, Instant due) {
  const std::int64_t left = due == kNever ? 0 : std::max<std::int64_t>(0, (due - monotonic()).ns);
  const timespec limit{left / 1'000'000'000, left % 1'000'000'000};
  // Interrupted: nothing is there, and what is due is looked for.
  if (::ppoll(places.data(), places.size(), due == kNever ? nullptr : &limit, nullptr) > 0) return;
  for (pollfd& place : places) place.revents = 0;
}

void Forwarder::read_some(std::uint32_t host) {
  for (int i = 0; i < kBatch; ++i) {
    Packet packet = pool_.take();
    const ssize_t got = ::read(tuns_[host].number(), packet.bytes.get(), pool_.capacity());
    if (got <= 0) return;
    packet.size = static_cast<std::uint32_t>(got);
    const auto address = destination_of({packet.bytes.get(), packet.size});
    const std::uint32_t to = address ? host_of(*address) : UINT32_MAX;
    if (to >= tuns_.size() || to == host) continue;  // kernels look for routers and the like: nobody answers
    const auto bytes = packet.size - static_cast<std::uint32_t>(kTunHeaderBytes);
    network_->offer(monotonic(), host, to, bytes, std::move(packet));
  }
}

void Forwarder::deliver() {
  for (int i = 0; i < kBatch; ++i) {
    const auto arrival = network_->take(monotonic());
    if (!arrival) return;
    // A device that takes nothing is down, and its host with it.
    [[maybe_unused]] const ssize_t put =
        ::write(tuns_[arrival->to].number(), arrival->packet.bytes.get(), arrival->packet.size);
  }
}

}  // namespace lockstep::wan

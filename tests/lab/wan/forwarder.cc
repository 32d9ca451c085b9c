#include "tests/lab/wan/forwarder.h"

#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <span>

#include "core/base/assert.h"
#include "tests/lab/wan/tun.h"

namespace lockstep::wan {
namespace {

constexpr int kBatch = 64;  // packets of one host before it is another one's turn, and before a look at what is due

Instant monotonic() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return Instant{now.tv_sec * 1'000'000'000 + now.tv_nsec};
}

// Before everybody else, or the latency of the network would be that of the machine's scheduler. Where that is not
// allowed, in turn with them.
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
  start_ = monotonic();
  shut_ = topology.shut;
  network_.emplace(topology, start_);
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
    const Instant now = monotonic();
    const auto tcp = tcp_segment_of({packet.bytes.get() + kTunHeaderBytes, bytes});
    const bool opens = tcp && tcp->syn && !tcp->ack;
    if (opens && (shut_ >> to & 1U) != 0) continue;
    if (tcp && !connections_.on_sent(*tcp, now, resets_)) {
      write_resets();
      continue;
    }
    network_->offer(now, host, to, bytes, std::move(packet));
  }
}

void Forwarder::deliver() {
  for (int i = 0; i < kBatch; ++i) {
    const Instant now = monotonic();
    const auto arrival = network_->take(now);
    while (const auto due = network_->take_reset()) connections_.reset(due->from, due->to, now, resets_);
    write_resets();
    if (!arrival) return;
    const Packet& packet = arrival->packet;
    const auto tcp = tcp_segment_of({packet.bytes.get() + kTunHeaderBytes, packet.size - kTunHeaderBytes});
    if (tcp && !connections_.on_arrived(*tcp, now, resets_)) continue;
    write(arrival->to, packet);
    write_resets();
  }
}

// A device that takes nothing is down, and its host with it.
void Forwarder::write(std::uint32_t host, const Packet& packet) {
  [[maybe_unused]] const ssize_t put = ::write(tuns_[host].number(), packet.bytes.get(), packet.size);
}

void Forwarder::write_resets() {
  for (const ResetFor& reset : resets_) {
    Packet packet = pool_.take();
    packet.size = static_cast<std::uint32_t>(kTunHeaderBytes + reset.packet.size());
    std::memset(packet.bytes.get(), 0, kTunHeaderBytes);  // its checksums are made
    std::memcpy(packet.bytes.get() + kTunHeaderBytes, reset.packet.data(), reset.packet.size());
    write(reset.host, packet);
  }
  resets_.clear();
}

std::vector<Forwarder::Reset> Forwarder::resets() {
  const std::lock_guard lock(mutex_);
  std::vector<Reset> resets;
  for (const ResetRecord& record : connections_.resets()) {
    resets.push_back({record, record.at - start_, std::nullopt});
    if (record.back) resets.back().back_after = *record.back - record.at;
  }
  return resets;
}

bool Forwarder::reset(std::uint32_t a, std::uint32_t b) {
  const std::lock_guard lock(mutex_);
  connections_.reset(a, b, monotonic(), resets_);
  write_resets();
  return connections_.resets().back().hit;
}

}  // namespace lockstep::wan

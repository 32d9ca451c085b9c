#include "transport/congestion_control.h"

#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <utility>

namespace lockstep::transport {
namespace {

// Paths with a shorter round trip are short. BBR paces every stream by its estimate of the path: 16 MiB between two
// peers on loopback took 1.25 times as long as with CUBIC or Reno.
constexpr Duration kShortRoundTrip = milliseconds(1);

constexpr std::string_view kBbr = "bbr";

// The advice is the same for all communicators and coordinators of a process.
std::atomic<bool> advised{false};

std::error_code set(int socket, std::string_view name) {
  const auto size = static_cast<socklen_t>(name.size());
  if (::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), size) == 0) return {};
  return {errno, std::system_category()};
}

// "bbr" or a later version of it.
bool is_bbr(std::string_view name) { return name.starts_with(kBbr); }

}  // namespace

std::string congestion_control_of(int socket) {
  std::array<char, 17> name{};  // TCP_CA_NAME_MAX of Linux, and an end
  socklen_t size = name.size() - 1;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) != 0) return {};
  return name.data();
}

std::string allowed_controls() {
  std::ifstream file("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
  std::string line;
  std::getline(file, line);
  return line;
}

std::string bbr_advice(const std::error_code& error, std::string_view in_force, std::string_view allowed) {
  std::string remedy = "see \"Far peers\" in docs/operations.md";
  if (error.value() == ENOENT) {
    remedy = "run `modprobe tcp_bbr` as root on this host";
  } else if (error.value() == EPERM && allowed.find(kBbr) == std::string_view::npos) {
    remedy = fmt::format("run `sysctl -w net.ipv4.tcp_allowed_congestion_control=\"{} {}\"` as root on this host",
                         allowed.empty() ? "reno cubic" : allowed, kBbr);
  }
  return fmt::format("BBR is not available ({}): streams to far peers use {}, which every lost packet slows down; {}",
                     error.message(), in_force.empty() ? "the system's default" : in_force, remedy);
}

CongestionControl::CongestionControl(std::string name, Log log) : name_(std::move(name)), log_(std::move(log)) {}

void CongestionControl::set_named(int socket) {
  if (name_.empty()) return;
  const std::error_code error = set(socket, name_);
  if (!error || !log_ || std::exchange(said_refused_, true)) return;
  log_(
      fmt::format("congestion control '{}' refused ({}): going on with the system's default; see "
                  "/proc/sys/net/ipv4/tcp_available_congestion_control",
                  name_, error.message()));
}

std::string CongestionControl::suit_to_path(int socket, Duration round_trip) {
  std::string in_force = congestion_control_of(socket);
  if (round_trip == Duration{}) return in_force;
  const bool is_far = round_trip >= kShortRoundTrip;
  if (name_.empty() && is_bbr(in_force) != is_far) {
    if (is_far) {
      prefer_bbr(socket, in_force);
    } else if (set(socket, "cubic")) {  // the administrator decides which controls a program may set
      set(socket, "reno");
    }
    in_force = congestion_control_of(socket);
  }
  if (is_far) say_in_force(in_force);
  return in_force;
}

// Asks once only: for a privileged program, the kernel looks for a missing module each time, which takes milliseconds.
void CongestionControl::prefer_bbr(int socket, std::string_view in_force) {
  if (bbr_refused_) return;
  const std::error_code error = set(socket, kBbr);
  if (!error) return;
  bbr_refused_ = true;
  if (log_ && !advised.exchange(true)) log_(bbr_advice(error, in_force, allowed_controls()));
}

void CongestionControl::say_in_force(const std::string& control) {
  if (control.empty() || !log_ || !said_.insert(control).second) return;
  log_(fmt::format("congestion control of far streams (round trips of {} ms or more): {}",
                   kShortRoundTrip.ns / 1'000'000, control));
}

}  // namespace lockstep::transport

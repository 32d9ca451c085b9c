#include "bindings/cli/doctor/first_words.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <string_view>

#include "core/base/text.h"
#include "transport/address.h"
#include "transport/clock.h"
#include "transport/whole_file.h"

namespace lockstep::cli::doctor {
namespace {

// Whether the socket is ready before the deadline.
bool wait_for(int socket, std::int16_t events, Instant deadline) {
  const Duration left = deadline - transport::now();
  if (left <= Duration{}) return false;
  pollfd place{socket, events, 0};
  constexpr std::int64_t kNsPerTick = 1'000'000;
  return ::poll(&place, 1, static_cast<int>(left.ns / kNsPerTick + 1)) == 1;
}

}  // namespace

std::string first_words(const io::Address& address, Duration timeout) {
  const Instant deadline = transport::now() + timeout;
  const auto to = transport::to_endpoint(address);
  const transport::OpenFile stream(::socket(to.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!stream.ok()) return {};
  const int socket = stream.descriptor();
  if (::connect(socket, to.data(), static_cast<socklen_t>(to.size())) != 0 && errno != EINPROGRESS) return {};
  constexpr std::string_view kRequest = "GET / HTTP/1.0\r\n\r\n";
  if (!wait_for(socket, POLLOUT, deadline)) return {};
  if (::send(socket, kRequest.data(), kRequest.size(), MSG_NOSIGNAL) < 0) return {};
  if (!wait_for(socket, POLLIN, deadline)) return {};
  std::array<char, 16> words{};
  const ssize_t size = ::recv(socket, words.data(), words.size(), 0);
  return {words.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

std::string service_of(const std::string& first_bytes) {
  struct Known {
    std::string_view begins;
    std::string_view name;
  };
  constexpr std::array kKnown = {
      Known{"HTTP/", "an HTTP server"},     Known{"<", "an HTTP server"},  // answers a request of HTTP 0.9 with a page
      Known{"SSH-", "an SSH server"},       Known{"\x15\x03", "a program that speaks TLS, and is no coordinator"},
      Known{"220", "a mail or FTP server"}, Known{"-ERR", "a Redis server"},
      Known{"RFB ", "a VNC server"},
  };
  const auto* const known =
      std::ranges::find_if(kKnown, [&](const Known& each) { return first_bytes.starts_with(each.begins); });
  if (known != kKnown.end()) return std::string(known->name);
  if (first_bytes.empty()) return "a program that sends nothing";
  return fmt::format("another program, which begins with '{}'", plain(first_bytes));
}

}  // namespace lockstep::cli::doctor

// Plays a foreign, broken or hostile program over a real socket.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/wire/codec.h"
#include "core/wire/limits.h"
#include "core/wire/link_reader.h"
#include "tests/support/process.h"

namespace lockstep::testing {

using Bytes = std::vector<std::byte>;

inline std::uint16_t port_of(const std::string& address) {
  return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

// A stranger's connection.
class Stranger {
 public:
  explicit Stranger(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0) << std::strerror(errno);
  }
  // An accepted connection.
  struct Accepted {
    int socket;
  };
  explicit Stranger(Accepted accepted) : socket_(accepted.socket) {}
  Stranger(Stranger&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
  Stranger& operator=(Stranger&&) = delete;
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  ~Stranger() {
    if (socket_ >= 0) ::close(socket_);
  }

  void say(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // the other side has closed the connection
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
  }
  void say(std::string_view text) { say(std::as_bytes(std::span(text.data(), text.size()))); }

  void say_message(const wire::Message& message) {
    Bytes bytes;
    wire::encode(message, Term{1}, bytes);
    say(bytes);
  }

  // The next message of this type; skips others. Returns nothing if none comes, or if the stream is not a Lockstep
  // stream.
  template <typename T>
  std::optional<T> hear(Duration within = seconds(20)) {
    const Instant deadline = monotonic_now() + within;
    for (;;) {
      for (;;) {
        auto event = reader_.next();
        if (!event.ok()) return std::nullopt;
        if (!event->has_value()) break;
        if (std::holds_alternative<wire::SegmentBegan>(**event)) reader_.sink();
        auto* received = std::get_if<wire::Received>(&**event);
        if (received == nullptr) continue;
        if (T* found = std::get_if<T>(&received->message)) return std::move(*found);
      }
      const auto window = reader_.window();
      pollfd item{socket_, POLLIN, 0};
      const bool ready = monotonic_now()<deadline&& ::poll(&item, 1, 1000)> 0;
      std::byte sink[kStandingBufferBytes];
      iovec into[2] = {{sink, window.place.length}, {window.tail.data(), window.tail.size()}};
      const ssize_t got = ready ? ::readv(socket_, into, 2) : 0;
      reader_.landed(got > 0 ? static_cast<std::size_t>(got) : 0);
      if ((ready && got <= 0) || monotonic_now() >= deadline) return std::nullopt;
    }
  }

  // Reads until the other side closes; returns whether it did.
  bool is_shown_out(Duration within = seconds(20)) {
    const Instant deadline = monotonic_now() + within;
    while (monotonic_now() < deadline) {
      pollfd item{socket_, POLLIN, 0};
      if (::poll(&item, 1, static_cast<int>((deadline - monotonic_now()).ns / 1'000'000) + 1) <= 0) continue;
      std::byte bytes[4096];
      const ssize_t got = ::recv(socket_, bytes, sizeof bytes, 0);
      if (got <= 0) return true;
      heard.insert(heard.end(), bytes, bytes + got);
    }
    return false;
  }

  Bytes heard;

 private:
  int socket_;
  wire::LinkReader reader_{kMaxBodyBytes};
};

inline Bytes preamble(std::uint32_t version = wire::kVersion) {
  Bytes bytes;
  wire::Preamble preamble;
  preamble.version = version;
  wire::encode(preamble, bytes);
  return bytes;
}

// A frame of any type and body with the right checksum.
inline Bytes frame(std::uint8_t type, const Bytes& body) {
  wire::FrameHeader header{type, static_cast<std::uint32_t>(body.size()), Term{1}, 0};
  header.checksum = wire::frame_checksum(header, body);
  Bytes bytes(wire::kHeaderBytes);
  wire::encode(header, std::span(bytes).first<wire::kHeaderBytes>());
  bytes.insert(bytes.end(), body.begin(), body.end());
  return bytes;
}

inline Bytes body_of(const wire::Message& message) {
  Bytes bytes;
  wire::encode(message, Term{1}, bytes);
  bytes.erase(bytes.begin(), bytes.begin() + wire::kHeaderBytes);
  return bytes;
}

}  // namespace lockstep::testing

// Stream sets on loopback, driven by a script. Waits for events, never for time; fails after ten seconds.
#pragma once

#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/io/stream.h"
#include "transport/memory.h"
#include "transport/stream_set.h"
#include "transport/tls/credentials.h"

namespace lockstep::transport {

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

inline io::Address loopback_v4(std::uint16_t port) {
  io::Address address;
  address.family = io::Address::Family::kV4;
  address.bytes = {127, 0, 0, 1};
  address.port = port;
  return address;
}

inline io::Address loopback_v6(std::uint16_t port) {
  io::Address address;
  address.family = io::Address::Family::kV6;
  address.bytes[15] = 1;
  address.port = port;
  return address;
}

// One owner of streams; records its inputs in order.
class Side {
 public:
  explicit Side(asio::io_context& io, Log log = {}, LocalStreams* local = nullptr)
      : streams(
            io, memory, {}, std::move(log), [] {}, local) {}

  // Carries out everything that does not need the reactor.
  void pump() {
    io::Input input;
    do {
      while (streams.next(input)) {
        if (on_input) on_input(input);
        seen.push_back(std::move(input));
      }
    } while (streams.advance());
  }

  template <typename T>
  [[nodiscard]] std::vector<T> all() const {
    std::vector<T> found;
    for (const io::Input& input : seen) {
      if (const auto* one = std::get_if<T>(&input)) found.push_back(*one);
    }
    return found;
  }
  template <typename T>
  [[nodiscard]] bool saw() const {
    return !all<T>().empty();
  }
  template <typename T>
  [[nodiscard]] T last() const {
    const auto found = all<T>();
    if (found.empty()) {
      ADD_FAILURE() << "this input never came";
      return {};
    }
    return found.back();
  }

  Memory memory;
  std::vector<io::Input> seen;
  std::function<void(io::Input&)> on_input;
  io::StreamNames names = io::StreamNames::for_dialling();
  StreamSet streams;
};

class Loopback : public ::testing::Test {
 protected:
  // `local`: streams between a and b have no sockets.
  explicit Loopback(LocalStreams* local = nullptr) : a(io, {}, local), b(io, {}, local) {}

  // From now on the streams of both sides have TLS. b is a coordinator with one token, by which a dials.
  void secure(std::uint64_t rekey_bytes = tls::Credentials::kRekeyBytes) {
    auto keys = tls::KeyPair::generate();
    token.coordinator_key = keys.digest();
    token.id = {7};
    token.secret = {1, 2, 3};
    tls::Secrets secrets;
    secrets[token.id] = token.secret;
    b_credentials = std::make_shared<tls::Credentials>(std::move(keys), secrets, rekey_bytes);
    a.streams.secure({std::make_shared<tls::Credentials>(token, rekey_bytes), false});
    b.streams.secure({b_credentials, false});
  }

  // Runs the reactor until `condition` holds.
  void run_until(const std::function<bool()>& condition) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    pump();
    while (!condition()) {
      ASSERT_LT(std::chrono::steady_clock::now(), give_up) << "waited in vain";
      io.restart();
      io.run_one_for(std::chrono::milliseconds(100));
      pump();
    }
  }
  void pump() {
    a.pump();
    b.pump();
  }

  // a dials, b accepts.
  void connect(io::Address (*host)(std::uint16_t) = loopback_v4) {
    const auto bound = b.streams.listen({{host(0)}, 0, 0});
    ASSERT_TRUE(bound.ok()) << bound.error().text;
    at_a = a.names.next();
    a.streams.carry_out(io::Dial{at_a, host(bound->port), true});
    run_until([&] { return a.saw<io::Opened>() && b.saw<io::Accepted>(); });
    at_b = b.last<io::Accepted>().stream;
  }

  static io::Write write_of(StreamId stream, std::string_view text) {
    io::Write write{stream, {}};
    write.slices.push({bytes_of(text), {}});
    return write;
  }

  // All bytes that arrive on the stream until it ends.
  std::string read_to_the_end(Side& side, StreamId stream) {
    std::string text;
    std::vector<std::byte> tail(65'536);
    bool ended = false;
    side.on_input = [&](io::Input& input) {
      if (const auto* done = std::get_if<io::ReadDone>(&input)) {
        text.append(reinterpret_cast<const char*>(tail.data()), done->bytes);
        side.streams.carry_out(io::Read{stream, {}, tail});
      }
      ended = ended || std::holds_alternative<io::Closed>(input);
    };
    side.streams.carry_out(io::Read{stream, {}, tail});
    run_until([&] { return ended; });
    side.on_input = nullptr;
    return text;
  }

  wire::RunToken token;  // by which a dials
  std::shared_ptr<tls::Credentials> b_credentials;
  asio::io_context io{1};
  Side a;
  Side b;
  StreamId at_a;
  StreamId at_b;
};

}  // namespace lockstep::transport

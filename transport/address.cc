#include "transport/address.h"

#include <fmt/core.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <asio/error.hpp>
#include <asio/ip/address.hpp>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace lockstep::transport {
namespace {

io::Address address_of(const asio::ip::address& from, std::uint16_t port) {
  io::Address to;
  to.port = port;
  if (from.is_v4()) {
    to.family = io::Address::Family::kV4;
    std::ranges::copy(from.to_v4().to_bytes(), to.bytes.begin());
  } else if (from.to_v6().is_v4_mapped()) {
    to.family = io::Address::Family::kV4;
    std::ranges::copy(asio::ip::make_address_v4(asio::ip::v4_mapped, from.to_v6()).to_bytes(), to.bytes.begin());
  } else {
    to.family = io::Address::Family::kV6;
    std::ranges::copy(from.to_v6().to_bytes(), to.bytes.begin());
  }
  return to;
}

}  // namespace

asio::ip::tcp::endpoint to_endpoint(const io::Address& address) {
  switch (address.family) {
    case io::Address::Family::kNone: return {};
    case io::Address::Family::kV4: {
      asio::ip::address_v4::bytes_type bytes{};
      std::copy_n(address.bytes.begin(), bytes.size(), bytes.begin());
      return {asio::ip::address_v4(bytes), address.port};
    }
    case io::Address::Family::kV6: {
      asio::ip::address_v6::bytes_type bytes{};
      std::copy_n(address.bytes.begin(), bytes.size(), bytes.begin());
      return {asio::ip::address_v6(bytes), address.port};
    }
  }
  LOCKSTEP_UNREACHABLE();
}

io::Address to_address(const asio::ip::tcp::endpoint& endpoint) {
  return address_of(endpoint.address(), endpoint.port());
}

Result<HostPort> parse_host_port(std::string_view text) {
  const auto bad = [&](std::string_view what) {
    return Error{Status::kInvalidArgument,
                 fmt::format("bad address '{}': {}; expected host:port, 1.2.3.4:port or [v6]:port", text, what)};
  };
  if (const std::size_t scheme = text.find("://"); scheme != std::string_view::npos) {
    return bad(fmt::format("it is a URL; remove '{}' and everything after the port", text.substr(0, scheme + 3)));
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad("no port");
  std::string_view host = text.substr(0, colon);
  const std::string_view port_text = text.substr(colon + 1);

  unsigned port = 0;
  const auto [end, error] = std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  if (error != std::errc() || end != port_text.data() + port_text.size() || port > 65'535) {
    return bad(fmt::format("'{}' is not a port (0 to 65535)", port_text));
  }
  if (host.find('%') != std::string_view::npos) {
    return bad(kZone);
  }
  if (host.starts_with('[')) {
    if (!host.ends_with(']')) return bad("'[' without ']'");
    host = host.substr(1, host.size() - 2);
    if (parse_literal(host, 0).family != io::Address::Family::kV6) return bad("the brackets contain no IPv6 address");
  } else if (host.find(':') != std::string_view::npos) {
    return bad("put an IPv6 address into brackets");
  }
  return HostPort{std::string(host), static_cast<std::uint16_t>(port)};
}

Result<HostPort> parse_destination(std::string_view text) {
  Result<HostPort> parsed = parse_host_port(text);
  if (!parsed || (!parsed->host.empty() && parsed->port != 0)) return parsed;
  return Error{Status::kInvalidArgument, fmt::format("bad address '{}': give a host and a port other than 0", text)};
}

io::Address parse_literal(std::string_view host, std::uint16_t port) {
  std::error_code error;
  const auto parsed = asio::ip::make_address(std::string(host), error);
  // A scope ("fe80::1%eth0") is valid on this machine only, and io::Address has no field for it.
  if (error || (parsed.is_v6() && parsed.to_v6().scope_id() != 0)) return {};
  return address_of(parsed, port);
}

std::vector<std::string> split_addresses(std::string_view text) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t comma = text.find(',');
    parts.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

bool is_loopback(const io::Address& address) { return to_endpoint(address).address().is_loopback(); }

io::Address loopback_of(io::Address::Family family) {
  return family == io::Address::Family::kV4 ? to_address({asio::ip::address_v4::loopback(), 0})
                                            : to_address({asio::ip::address_v6::loopback(), 0});
}

bool is_every_address(const io::Address& address) { return to_endpoint(address).address().is_unspecified(); }

bool names_every_address(const std::string& host) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;  // asks no name server
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
  bool every = false;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    asio::ip::tcp::endpoint endpoint;
    if (each->ai_addrlen > endpoint.capacity()) continue;
    std::memcpy(endpoint.data(), each->ai_addr, each->ai_addrlen);
    every = every || is_every_address(to_address(endpoint));
  }
  ::freeaddrinfo(found);
  return every;
}

bool is_errno(const std::error_code& error, int number) {
  return error.value() == number &&
         (error.category() == asio::error::get_system_category() || error.category() == std::system_category());
}

io::CloseReason close_reason(const std::error_code& error) {
  if (error == asio::error::eof) return io::CloseReason::kEnd;
  if (is_errno(error, ECONNREFUSED)) return io::CloseReason::kRefused;
  if (is_errno(error, ETIMEDOUT)) return io::CloseReason::kTimedOut;
  if (is_errno(error, EKEYREJECTED)) return io::CloseReason::kRejected;  // no socket's error: Connector::dial()
  for (const int reset : {ECONNRESET, ECONNABORTED, EPIPE}) {
    if (is_errno(error, reset)) return io::CloseReason::kReset;
  }
  // EPERM and EACCES come from a firewall on this machine.
  for (const int no_way : {ENETUNREACH, EHOSTUNREACH, ENETDOWN, EADDRNOTAVAIL, EAFNOSUPPORT, EPERM, EACCES}) {
    if (is_errno(error, no_way)) return io::CloseReason::kUnreachable;
  }
  return io::CloseReason::kFailed;
}

}  // namespace lockstep::transport

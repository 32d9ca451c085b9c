// Converts addresses between text ("host:port"), core (io::Address) and asio.
#pragma once

#include <asio/ip/tcp.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/base/result.h"
#include "core/io/stream.h"

namespace lockstep::transport {

asio::ip::tcp::endpoint to_endpoint(const io::Address& address);
// Converts an IPv4 address that a dual-stack socket reports as ::ffff:a.b.c.d back to IPv4.
io::Address to_address(const asio::ip::tcp::endpoint& endpoint);

// The reason for refusing an IPv6 address with a zone.
inline constexpr std::string_view kZone =
    "a zone such as %eth0 is valid on one machine only; use an address that all peers can reach";

struct HostPort {
  std::string host;  // without brackets; may be empty
  std::uint16_t port = 0;
};
// Parses "host:port", "1.2.3.4:port", "[v6]:port" or ":port". The error says what is wrong.
Result<HostPort> parse_host_port(std::string_view text);
// Parses the address to connect to: it needs a host, and a port other than 0.
Result<HostPort> parse_destination(std::string_view text);

// The parts of "a:1,b:2".
std::vector<std::string> split_addresses(std::string_view text);

// The address if `host` is a literal ("1.2.3.4", "::1"); family kNone if it is a name to look up.
io::Address parse_literal(std::string_view host, std::uint16_t port);

// Whether only programs of this machine have the address.
bool is_loopback(const io::Address& address);
// 127.0.0.1 or ::1, with port 0.
io::Address loopback_of(io::Address::Family family);
// Whether a listener at this address listens on every address of its machine: 0.0.0.0 or [::].
bool is_every_address(const io::Address& address);
// The same of a host that a user has written, in any form that the system takes for an address, such as "0" or "0x0".
bool names_every_address(const std::string& host);

// Whether `error` is this errno. (asio has its own category, which does not compare with std::errc.)
bool is_errno(const std::error_code& error, int number);

// The reason why a stream could not be opened, or ended.
io::CloseReason close_reason(const std::error_code& error);

}  // namespace lockstep::transport

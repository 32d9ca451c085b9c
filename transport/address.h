// Addresses between people ("host:port"), core (io::Address) and asio.
#pragma once

#include <asio/ip/tcp.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include "core/base/result.h"
#include "core/io/stream.h"

namespace lockstep::transport {

asio::ip::tcp::endpoint to_endpoint(const io::Address& address);
// An IPv4 address that a dual-stack socket shows as ::ffff:a.b.c.d becomes IPv4 again.
io::Address to_address(const asio::ip::tcp::endpoint& endpoint);

// Why an IPv6 address with a zone is refused.
inline constexpr std::string_view kZone =
    "a zone such as %eth0 is valid on one machine only; use an address that all peers can reach";

struct HostPort {
  std::string host;  // without brackets; may be empty
  std::uint16_t port = 0;
};
// "host:port", "1.2.3.4:port", "[v6]:port", ":port". An error says what is wrong with it.
Result<HostPort> parse_host_port(std::string_view text);
// Likewise, of something to connect to: with a host, and a port other than 0.
Result<HostPort> parse_destination(std::string_view text);

// The address if `host` is one already ("1.2.3.4", "::1"); family kNone if it must be looked up.
io::Address parse_literal(std::string_view host, std::uint16_t port);

// Whether this is that errno. (asio's category is its own and does not compare with std::errc.)
bool is_errno(const std::error_code& error, int number);

// Why a stream was never opened, or ended.
io::CloseReason close_reason(const std::error_code& error);

}  // namespace lockstep::transport

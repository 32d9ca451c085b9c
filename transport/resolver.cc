#include "transport/resolver.h"

#include <fmt/core.h>

#include <algorithm>
#include <asio/error.hpp>
#include <asio/post.hpp>
#include <cstddef>
#include <optional>
#include <system_error>
#include <utility>

#include "transport/address.h"

namespace lockstep::transport {
namespace {

using asio::ip::tcp;

Error cannot_resolve(const std::string& host, std::string_view why) {
  return {Status::kUnreachable, fmt::format("cannot resolve '{}' ({}): check the host name", host, why)};
}

// In the system's order (RFC 6724), without duplicates.
Addresses collect(const std::string& host, const std::error_code& error, const tcp::resolver::results_type& results) {
  if (error) return cannot_resolve(host, error.message());
  std::vector<io::Address> addresses;
  for (const auto& entry : results) {
    const io::Address address = to_address(entry.endpoint());
    if (std::ranges::find(addresses, address) == addresses.end()) addresses.push_back(address);
  }
  if (addresses.empty()) return cannot_resolve(host, "it has no IPv4 or IPv6 address");
  return addresses;
}

}  // namespace

// A list of names, one after the other.
struct Resolver::Joined {
  std::vector<std::string> names;
  std::size_t next = 0;
  std::vector<io::Address> addresses;
  std::vector<Error> errors;  // of the names that failed
  std::function<void(Resolution)> done;
};

void Resolver::resolve(std::string_view host_port, std::function<void(Resolution)> done) {
  const auto joined = std::make_shared<Joined>();
  joined->names = split_addresses(host_port);
  joined->done = std::move(done);
  resolve_next(joined);
}

// One name that has an address is enough.
void Resolver::resolve_next(const std::shared_ptr<Joined>& joined) {
  resolve_one(joined->names[joined->next++], [this, joined](Addresses found) {
    if (found) {
      for (const io::Address& address : *found) {
        if (std::ranges::find(joined->addresses, address) == joined->addresses.end()) {
          joined->addresses.push_back(address);
        }
      }
    } else {
      joined->errors.push_back(found.error());
    }
    if (joined->next < joined->names.size()) return resolve_next(joined);
    if (joined->addresses.empty() && !joined->errors.empty()) return joined->done({joined->errors.front()});
    Resolution resolution{std::move(joined->addresses)};
    for (Error& error : joined->errors) resolution.unresolved.push_back(std::move(error.text));
    joined->done(std::move(resolution));
  });
}

void Resolver::resolve_one(std::string_view host_port, std::function<void(Addresses)> done) {
  const auto answer = [&](Addresses addresses) {
    asio::post(io_, [done, addresses = std::move(addresses), alive = std::weak_ptr(alive_)]() mutable {
      if (!alive.expired()) done(std::move(addresses));
    });
  };
  const Result<HostPort> parsed = parse_destination(host_port);
  if (!parsed) return answer(parsed.error());
  const io::Address literal = parse_literal(parsed->host, parsed->port);
  if (literal.family != io::Address::Family::kNone) return answer(std::vector{literal});
  resolver_.async_resolve(parsed->host, std::to_string(parsed->port), tcp::resolver::numeric_service,
                          [host = parsed->host, done, alive = std::weak_ptr(alive_)](
                              const std::error_code& error, const tcp::resolver::results_type& results) {
                            if (error != asio::error::operation_aborted && !alive.expired())
                              done(collect(host, error, results));
                          });
}

Addresses resolve_host(const std::string& host, std::uint16_t port) {
  if (host.empty()) return std::vector<io::Address>{};
  if (host.find('%') != std::string::npos) {
    return Error{Status::kInvalidArgument, fmt::format("bad address '{}': {}", host, kZone)};
  }
  const io::Address literal = parse_literal(host, port);
  if (literal.family != io::Address::Family::kNone) return std::vector{literal};
  asio::io_context io;
  tcp::resolver resolver(io);
  std::error_code error;
  const auto results = resolver.resolve(host, std::to_string(port), tcp::resolver::numeric_service, error);
  return collect(host, error, results);
}

}  // namespace lockstep::transport

// Resolves names to addresses. Literals need no lookup.
#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/io/stream.h"

namespace lockstep::transport {

using Addresses = Result<std::vector<io::Address>>;

// Resolves a "host:port" to be dialled. `done` is called from the reactor, never inside resolve(). asio's own thread
// calls the system's resolver, which cannot be interrupted: the destructor of the io_context waits for it.
class Resolver {
 public:
  explicit Resolver(asio::io_context& io) : io_(io), resolver_(io) {}
  void resolve(std::string_view host_port, std::function<void(Addresses)> done);

 private:
  asio::io_context& io_;
  asio::ip::tcp::resolver resolver_;
};

// The same, blocking; an empty host gives no address.
Addresses resolve_host(const std::string& host, std::uint16_t port);

}  // namespace lockstep::transport

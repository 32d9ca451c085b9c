// Resolves names to addresses. Literals need no lookup.
#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/io/stream.h"

namespace lockstep::transport {

using Addresses = Result<std::vector<io::Address>>;

// The addresses of several names.
struct Resolution {
  Addresses addresses;                    // the error of the first name, if none has an address
  std::vector<std::string> unresolved{};  // if some have addresses: why the others have none
};

// Resolves a "host:port" to be dialled, or several with commas, whose addresses are joined. `done` is called from the
// reactor, never inside resolve(). asio's own thread calls the system's resolver, which cannot be interrupted: the
// destructor of the io_context waits for it.
class Resolver {
 public:
  explicit Resolver(asio::io_context& io) : io_(io), resolver_(io) {}
  void resolve(std::string_view host_port, std::function<void(Resolution)> done);
  // No answer comes any more. Called by the owner of the loop; the io_context may live longer than this object.
  void stop() {
    alive_.reset();
    resolver_.cancel();
  }

 private:
  struct Joined;
  void resolve_next(const std::shared_ptr<Joined>& joined);
  void resolve_one(std::string_view host_port, std::function<void(Addresses)> done);

  asio::io_context& io_;
  asio::ip::tcp::resolver resolver_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

// The same, blocking; an empty host gives no address.
Addresses resolve_host(const std::string& host, std::uint16_t port);

}  // namespace lockstep::transport

// A coordinator inside the caller's process.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "bindings/c/guard.h"
#include "bindings/c/handle.h"
#include "bindings/c/options.h"
#include "bindings/c/sized.h"
#include "core/io/stream.h"
#include "core/wire/run_token.h"
#include "lockstep.h"
#include "transport/address.h"
#include "transport/coordinator_server.h"
#include "transport/destination.h"

using namespace lockstep;  // NOLINT(google-build-using-namespace): the C API is a thin coat over it
using transport::CoordinatorServer;

struct lockstep_coordinator final : c::Handle {
  static constexpr const char* kName = "coordinator";
  static constexpr const char* kIsClosed = "the coordinator was stopped";

  explicit lockstep_coordinator(std::unique_ptr<CoordinatorServer> fresh) : server(std::move(fresh)) {}

  std::unique_ptr<CoordinatorServer> server;

 private:
  void end() override { server->stop(); }
  void empty() override { server.reset(); }
};

namespace {

Result<CoordinatorServer::Options> server_options(const lockstep_coordinator_options* options) {
  CoordinatorServer::Options result;
  result.listen = "127.0.0.1:0";
  if (options == nullptr) return result;
  const auto in = c::take(options, "options", offsetof(lockstep_coordinator_options, flight_file));
  if (!in) return in.error();
  if (in->listen != nullptr) result.listen = in->listen;
  c::override_with(in->heartbeat_ms, result.machine.heartbeat);
  c::override_with(in->silence_ms, result.machine.silence);
  c::override_with(in->greeting_ms, result.machine.greeting);
  const Duration heartbeat = result.machine.heartbeat;
  const Duration silence = result.machine.silence;
  if (silence < heartbeat * 2) {
    return c::invalid(
        "options.silence_ms is {}{} and options.heartbeat_ms is {}{}; silence must be at least twice the heartbeat, or "
        "healthy peers count as lost",
        silence.ns / 1'000'000, in->silence_ms == 0 ? " (its default)" : "", heartbeat.ns / 1'000'000,
        in->heartbeat_ms == 0 ? " (its default)" : "");
  }
  result.log = c::log_to(in->log, in->log_user);
  if (in->flight_file != nullptr) result.flight_file = in->flight_file;
  if (in->shared_thread != 0) result.reactor = transport::Reactor::shared();
  if (in->token_file != nullptr) result.access.token_file = in->token_file;
  if (in->advertise != nullptr && *in->advertise != '\0') {
    result.access.advertised = transport::split_addresses(in->advertise);
  }
  result.access.insecure = in->insecure != 0;
  result.dial_back = in->no_dial_back == 0;
  auto certificates = c::certificate_files(in->certificates);
  if (!certificates) return certificates.error();
  result.access.certificates = std::move(*certificates);
  return result;
}

// The address that a peer on this machine can connect to: "all addresses" is not one.
io::Address from_here(const io::Address& address) {
  if (!transport::is_every_address(address)) return address;
  io::Address here = transport::loopback_of(address.family);
  here.port = address.port;
  return here;
}

// Never repeats the text, which may be a secret.
lockstep_status write_text(const std::string& text, char* into, std::size_t size) {
  if (text.size() >= size) {
    return c::fail(LOCKSTEP_ERR_BUFFER_TOO_SMALL, fmt::format("size is {}; the text needs {}", size, text.size() + 1));
  }
  std::memcpy(into, text.c_str(), text.size() + 1);
  return LOCKSTEP_OK;
}

}  // namespace

lockstep_status lockstep_coordinator_start(const lockstep_coordinator_options* options,
                                           lockstep_coordinator** coordinator) {
  return c::guard([&] {
    if (coordinator == nullptr) {
      return c::fail(c::invalid("coordinator is NULL; give the address of a lockstep_coordinator*"));
    }
    *coordinator = nullptr;
    auto checked = server_options(options);
    if (!checked) return c::fail(checked.error());
    auto server = CoordinatorServer::start(std::move(*checked));
    if (!server) return c::fail(server.error());
    *coordinator = new lockstep_coordinator(std::move(*server));
    return LOCKSTEP_OK;
  });
}

lockstep_status lockstep_coordinator_address(lockstep_coordinator* coordinator, char* address, size_t size) {
  return c::inside(coordinator, [&](lockstep_coordinator& in) {
    if (address == nullptr) return c::fail(c::invalid("address is NULL; give room for 64 characters"));
    return write_text(from_here(in.server->address()).text(), address, size);
  });
}

lockstep_status lockstep_coordinator_token(lockstep_coordinator* coordinator, char* token, size_t size) {
  return c::inside(coordinator, [&](lockstep_coordinator& in) {
    if (token == nullptr) return c::fail(c::invalid("token is NULL; give room for LOCKSTEP_TOKEN_BYTES"));
    const std::string& secret = in.server->token();
    return write_text(secret.empty() ? from_here(in.server->address()).text() : secret, token, size);
  });
}

lockstep_status lockstep_parse_coordinator(const char* coordinator, char* addresses, size_t size) {
  return c::guard([&] {
    if (coordinator == nullptr) return c::fail(c::invalid("coordinator is NULL; give a run token or host:port"));
    if (addresses == nullptr) return c::fail(c::invalid("addresses is NULL; give room for LOCKSTEP_TOKEN_BYTES"));
    const auto to = transport::parse_coordinator(coordinator, {});
    return to ? write_text(to->addresses, addresses, size) : c::fail(to.error());
  });
}

lockstep_status lockstep_redact(const char* text, char* redacted, size_t size) {
  return c::guard([&] {
    if (text == nullptr) return c::fail(c::invalid("text is NULL; give a text in which there may be a run token"));
    if (redacted == nullptr) return c::fail(c::invalid("redacted is NULL; give room for 2 * strlen(text) + 1 bytes"));
    return write_text(wire::redacted(text), redacted, size);
  });
}

lockstep_status lockstep_coordinator_flight_record(lockstep_coordinator* coordinator, const char* path) {
  return c::inside(coordinator, [&](lockstep_coordinator& in) {
    if (path == nullptr || *path == '\0')
      return c::fail(c::invalid("path is {}; name a file", path ? "empty" : "NULL"));
    const auto written = in.server->write_flight(path);
    return written ? LOCKSTEP_OK : c::fail(written.error());
  });
}

void lockstep_coordinator_stop(lockstep_coordinator* coordinator) {
  if (coordinator != nullptr) c::Handle::destroy(coordinator);
}

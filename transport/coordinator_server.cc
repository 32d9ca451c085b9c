#include "transport/coordinator_server.h"

#include <fmt/core.h>

#include <chrono>
#include <future>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "transport/address.h"
#include "transport/clock.h"
#include "transport/entropy.h"
#include "transport/resolver.h"

namespace lockstep::transport {
namespace {

// A revoked token must end within a second.
constexpr auto kReloadEvery = std::chrono::milliseconds(300);
// Heartbeats in which a newcomer must answer a dial: with the default of 500 ms, one packet may be lost.
constexpr std::int64_t kDialBackBeats = 3;

}  // namespace

Result<std::unique_ptr<CoordinatorServer>> CoordinatorServer::start(Options options) try {
  const Result<HostPort> where = parse_host_port(options.listen);
  if (!where) return where.error();
  Addresses hosts = resolve_host(where->host == "*" ? std::string() : where->host, where->port);
  if (!hosts) return hosts.error();
  if (!options.flight_file.empty()) {
    if (const auto why = unwritable_file(options.flight_file)) {
      return Error{Status::kInvalidArgument, fmt::format("no recording can be written to {}", *why)};
    }
  }

  Result<std::unique_ptr<Access>> access = Access::open(options.access, *hosts);
  if (!access) return access.error();
  options.machine.link_key = random_link_key();
  options.machine.dial_back = options.dial_back ? options.machine.heartbeat * kDialBackBeats : Duration{};
  options.machine.secured = (*access)->is_secured();
  options.machine.grants = (*access)->grants().grants;
  std::unique_ptr<CoordinatorServer> server(new CoordinatorServer(std::move(options), std::move(*access)));
  Result<io::Address> bound = Error{Status::kOutOfMemory, "the thread that runs the coordinator has failed"};
  const ListenPlan plan{std::move(*hosts), where->port, where->port};
  server->reactor_->ask([&] {
    if (server->reactor_->over()) return;
    bound = server->streams_.listen(plan);
    if (!bound) return;
    if (auto error = server->access_->listens_on(*bound)) bound = *error;
    server->token_ = server->access_->token();
    server->loop_.turn();  // sets the first timer
    server->tell_complaint();
    server->watch_tokens();
  });
  if (!bound) return bound.error();
  server->address_ = *bound;
  return server;
} catch (const std::bad_alloc&) {
  return Error{Status::kOutOfMemory, "no memory for a coordinator"};
} catch (const std::system_error& error) {
  return Error{
      Status::kOutOfMemory,
      fmt::format("cannot start a coordinator ({}): raise the limits of threads and open files", error.what())};
}

CoordinatorServer::CoordinatorServer(Options options, std::unique_ptr<Access> access)
    : options_(std::move(options)),
      event_log_(options_.log),
      reactor_(options_.reactor != nullptr ? options_.reactor
                                           : std::make_shared<Reactor>("lockstep-coord", std::chrono::nanoseconds(0))),
      born_(now()),
      machine_(options_.machine, born_),
      streams_(
          reactor_->io(), memory_, {options_.congestion_control}, options_.log, [this] { loop_.turn(); },
          &reactor_->local_streams()),
      loop_(reactor_->io(), machine_, streams_, *this),
      access_(std::move(access)),
      reload_(reactor_->io()) {
  streams_.secure(access_->security());
  if (options_.flight_bytes > 0) loop_.record(&recorder_.emplace(options_.machine, born_, options_.flight_bytes));
  reactor_->attach(*this);
}

void CoordinatorServer::watch_tokens() {
  if (!access_->has_files()) return;
  reload_.expires_after(kReloadEvery);
  reload_.async_wait([this](std::error_code aborted) {
    if (aborted || loop_.stopped()) return;
    if (const auto error = access_->keep_used()) told_unkept(*error);
    const Result<bool> reloaded = access_->reload();
    if (!reloaded) {
      if (options_.log) options_.log("who may join is as before: " + reloaded.error().text);
    } else if (*reloaded) {
      streams_.secure(access_->security());
      loop_.push(access_->grants());
      loop_.turn();
    }
    tell_complaint();
    watch_tokens();
  });
}

// Once until it changes.
void CoordinatorServer::tell_complaint() {
  std::string complaint = access_->complaint();
  if (complaint == complaint_) return;
  complaint_ = std::move(complaint);
  if (options_.log) options_.log(complaint_.empty() ? "the files are in order again: peers may join" : complaint_);
}

// Only a lack of memory ends here.
void CoordinatorServer::on_failure(const Error& why) {
  if (options_.log) options_.log(fmt::format("the coordinator failed ({}): the run is lost", why.text));
  write_flight_of_failure("the coordinator failed: " + why.text);
  loop_.stop();
  streams_.shut_down(StreamSet::ClosingStreams::kCutShort, [] {});
}

void CoordinatorServer::stop() {
  if (std::exchange(stopped_, true)) return;
  const auto ended = std::make_shared<std::promise<void>>();
  reactor_->post(Reactor::Wake::kOwner, [this, ended] {
    loop_.stop();
    reload_.cancel();
    streams_.shut_down(StreamSet::ClosingStreams::kWait, [ended] { ended->set_value(); });
  });
  auto all_closed = ended->get_future();
  while (all_closed.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready && !reactor_->over()) {
  }
  reactor_->detach(*this);
  event_log_.close();
}

wire::StatusReply CoordinatorServer::snapshot() {
  wire::StatusReply reply;
  reactor_->ask([&] { reply = machine_.snapshot(now()); });
  return reply;
}

coordinator::Coordinator::Footprint CoordinatorServer::footprint() {
  Machine::Footprint footprint;
  reactor_->ask([&] { footprint = machine_.footprint(); });
  return footprint;
}

Result<std::string> CoordinatorServer::write_flight(const std::string& path, const std::string& reason) {
  if (!recorder_) return Error{Status::kInvalidArgument, "this coordinator was started without a flight recorder"};
  flight::Recording recording;
  reactor_->ask([&] { recording = recorder_->recording(); });
  return transport::write_flight(path, std::move(recording), reason);
}

// Runs on the thread. The failure may be a lack of memory.
void CoordinatorServer::write_flight_of_failure(const std::string& reason) try {
  if (!recorder_ || options_.flight_file.empty()) return;
  const auto written = transport::write_flight(options_.flight_file, recorder_->recording(), reason);
  if (options_.log) options_.log(written ? "flight recording written to " + *written : written.error().text);
} catch (const std::bad_alloc&) {
  if (options_.log) options_.log("no memory left to write the flight recording");
}

void CoordinatorServer::last_words() { write_flight_of_failure("an assertion failed: the process ended"); }

void CoordinatorServer::carry_out(trace::Event& effect) {
  if (options_.events) return options_.events(effect);
  if (options_.log) event_log_.take(effect, now());
}

// On the disk before its peer hears of it: the machine's write of the greeting comes after this effect.
void CoordinatorServer::carry_out(coordinator::TokenUsed& effect) {
  said_unkept_ = false;
  if (const auto error = access_->used(effect.token)) told_unkept(*error);
}

void CoordinatorServer::told_unkept(const Error& why) {
  if (std::exchange(said_unkept_, true) || !options_.log) return;
  options_.log("a token for one use was used, and the token file does not show it yet: " + why.text);
}

}  // namespace lockstep::transport

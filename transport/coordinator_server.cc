#include "transport/coordinator_server.h"

#include <fmt/core.h>

#include <asio/post.hpp>
#include <chrono>
#include <exception>
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

Result<std::unique_ptr<CoordinatorServer>> CoordinatorServer::start(Options options) try {
  const Result<HostPort> where = parse_host_port(options.listen);
  if (!where) return where.error();
  Addresses hosts = resolve_host(where->host == "*" ? std::string() : where->host, where->port);
  if (!hosts) return hosts.error();

  options.machine.link_key = random_link_key();
  std::unique_ptr<CoordinatorServer> server(new CoordinatorServer(std::move(options)));
  Result<io::Address> bound = server->streams_.listen({std::move(*hosts), where->port, where->port});
  if (!bound) return bound.error();
  server->address_ = *bound;
  server->thread_.start("lockstep-coord", [raw = server.get()](asio::io_context& io) { raw->run(io); });
  return server;
} catch (const std::bad_alloc&) {
  return Error{Status::kOutOfMemory, "no memory for a coordinator"};
} catch (const std::system_error& error) {
  return Error{
      Status::kOutOfMemory,
      fmt::format("cannot start a coordinator ({}): raise the limits of threads and open files", error.what())};
}

CoordinatorServer::CoordinatorServer(Options options)
    : options_(std::move(options)),
      event_log_(options_.log),
      born_(now()),
      machine_(options_.machine, born_),
      streams_(thread_.io(), memory_, {options_.congestion_control}, options_.log, [this] { loop_.turn(); }),
      loop_(thread_.io(), machine_, streams_, *this) {
  if (options_.flight_bytes > 0) loop_.record(&recorder_.emplace(options_.machine, born_, options_.flight_bytes));
}

void CoordinatorServer::run(asio::io_context& io) {
  try {
    asio::post(io, [this] { loop_.turn(); });  // sets the first timer
    io.run();
  } catch (const std::exception& error) {  // only a lack of memory ends here
    if (options_.log) options_.log(fmt::format("the coordinator failed ({}): the run is lost", error.what()));
    write_flight_of_failure(std::string("the coordinator failed: ") + error.what());
    loop_.stop();
    streams_.shut_down(StreamSet::ClosingStreams::kCutShort, [] {});
  }
  over_ = true;
}

void CoordinatorServer::stop() {
  if (!thread_.running()) {
    over_ = true;
    return;
  }
  asio::post(thread_.io(), [this] {
    loop_.stop();
    streams_.shut_down(StreamSet::ClosingStreams::kWait, [this] { thread_.io().stop(); });
  });
  thread_.join();
  event_log_.close();
}

// Runs `question` on the machine's thread and waits for it.
void CoordinatorServer::ask(std::function<void()> question) {
  const auto asked = std::make_shared<std::packaged_task<void()>>(std::move(question));
  auto answered = asked->get_future();
  asio::post(thread_.io(), [asked] { (*asked)(); });
  while (answered.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
    if (over_) {  // no thread runs the machine any more
      (*asked)();
      break;
    }
  }
  answered.get();
}

wire::StatusReply CoordinatorServer::snapshot() {
  wire::StatusReply reply;
  ask([&] { reply = machine_.snapshot(now()); });
  return reply;
}

coordinator::Coordinator::Footprint CoordinatorServer::footprint() {
  Machine::Footprint footprint;
  ask([&] { footprint = machine_.footprint(); });
  return footprint;
}

Result<std::string> CoordinatorServer::write_flight(const std::string& path, const std::string& reason) {
  if (!recorder_) return Error{Status::kInvalidArgument, "this coordinator was started without a flight recorder"};
  flight::Recording recording;
  ask([&] { recording = recorder_->recording(); });
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

}  // namespace lockstep::transport

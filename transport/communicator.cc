#include "transport/communicator.h"

#include <fmt/core.h>

#include <exception>
#include <filesystem>
#include <new>
#include <system_error>
#include <utility>

#include "core/base/assert.h"
#include "core/base/text.h"
#include "core/wire/limits.h"
#include "transport/address.h"
#include "transport/call.h"
#include "transport/clock.h"
#include "transport/engine.h"
#include "transport/entropy.h"
#include "transport/launch_check.h"
#include "transport/resolver.h"

namespace lockstep::transport {
namespace {

std::optional<Error> check(const CommunicatorOptions& options) {
  const auto invalid = [](std::string text) { return Error{Status::kInvalidArgument, std::move(text)}; };
  if (options.name.size() > kMaxNameBytes) {
    return invalid(fmt::format("the name has {} bytes; at most {} are allowed", options.name.size(), kMaxNameBytes));
  }
  if (options.last_port != 0 && options.last_port < options.first_port) {
    return invalid(fmt::format("the port range {} to {} is empty", options.first_port, options.last_port));
  }
  if (options.first_port == 0 && options.last_port != 0) {
    return invalid(fmt::format("the port range ends with {} but has no first port", options.last_port));
  }
  if (options.stripes < 1 || options.stripes > kMaxStripes) {
    return invalid(fmt::format("{} stripes; 1 to {} are allowed", options.stripes, kMaxStripes));
  }
  if (options.segment_bytes > kMaxSegmentBytes || options.segment_bytes % sizeof(double) != 0) {
    return invalid(fmt::format("segment_bytes is {}; give a multiple of {} up to {}, or 0 for an automatic size",
                               options.segment_bytes, sizeof(double), kMaxSegmentBytes));
  }
  if (options.gang_size < 1 || options.gang_size > kMaxMembers) {
    return invalid(fmt::format("gang_size is {}; 1 to {} are allowed", options.gang_size, kMaxMembers));
  }
  if (options.founders < 1 || options.founders > kMaxMembers) {
    return invalid(fmt::format("{} founders; 1 to {} are allowed", options.founders, kMaxMembers));
  }
  for (const Duration time : {options.dial_timeout, options.link_heartbeat, options.link_silence, options.link_timeout,
                              options.abort_grace}) {
    if (time <= Duration{0})
      return invalid("dial_timeout, link_heartbeat, link_silence, link_timeout and abort_grace must be longer than 0");
  }
  if (options.flight_bytes > flight::kMaxRecordingBytes / 2) {
    return invalid(fmt::format("the flight recorder has {} bytes; at most {} are allowed, 0 for none",
                               options.flight_bytes, flight::kMaxRecordingBytes / 2));
  }
  std::error_code none;
  if (!options.flight_folder.empty() && !std::filesystem::is_directory(options.flight_folder, none)) {
    return invalid(
        fmt::format("there is no folder {} for the flight recorder (options.flight_folder, or LOCKSTEP_FLIGHT_FOLDER)",
                    plain(options.flight_folder)));
  }
  if (options.spin < Duration{0} || options.spin > kLongestSpin) {
    return invalid(fmt::format("spin is {} ns; at most {} are allowed, 0 for none", options.spin.ns, kLongestSpin.ns));
  }
  if (options.link_silence <= options.link_heartbeat) {
    return invalid("link_silence must be longer than link_heartbeat; otherwise every link is reset");
  }
  return std::nullopt;
}

peer::Options to_peer_options(const CommunicatorOptions& from) {
  peer::Options to;
  to.name = from.name;
  to.group = from.group;
  to.gang = from.gang;
  to.gang_size = from.gang_size;
  to.founders = from.founders;
  to.auto_admit = from.auto_admit;
  to.advertised.port = from.advertised_port;
  to.first_port = from.first_port;
  to.last_port = from.last_port != 0 ? from.last_port : from.first_port;
  to.stripes = from.stripes;
  to.segment_bytes = from.segment_bytes;
  to.state_bytes_per_second = from.state_bytes_per_second;
  to.dial_timeout = from.dial_timeout;
  to.link_heartbeat = from.link_heartbeat;
  to.link_silence = from.link_silence;
  to.link_timeout = from.link_timeout;
  to.abort_grace = from.abort_grace;
  return to;
}

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::create(CommunicatorOptions options) try {
  if (auto error = check(options)) return *error;
  Addresses listen = resolve_host(options.listen_host, 0);
  if (!listen) return listen.error();
  Addresses advertised = resolve_host(options.advertised_host, options.advertised_port);
  if (!advertised) return advertised.error();

  Engine::Options engine;
  engine.peer = to_peer_options(options);
  engine.peer.id = random_peer_id();
  engine.peer.seed = random_u64();
  if (!advertised->empty()) engine.peer.advertised = advertised->front();
  engine.listen = {std::move(*listen), engine.peer.first_port, engine.peer.last_port};
  engine.connector.congestion_control = std::move(options.congestion_control);
  engine.spin = to_chrono(options.spin);
  engine.log = std::move(options.log);
  engine.journal = std::move(options.journal);
  engine.flight_bytes = options.flight_bytes != 0       ? options.flight_bytes
                        : options.flight_folder.empty() ? 0
                                                        : kFlightBytes;
  engine.flight_folder = std::move(options.flight_folder);
  return std::unique_ptr<Communicator>(
      new Communicator(std::make_unique<Engine>(std::move(engine)), options.minimum_world));
} catch (const std::bad_alloc&) {
  return Error{Status::kOutOfMemory, "no memory for a communicator"};
} catch (const std::system_error& error) {
  return Error{
      Status::kOutOfMemory,
      fmt::format("cannot start a communicator ({}): raise the limits of threads and open files", error.what())};
}

Result<std::unique_ptr<Communicator>> Communicator::create(const CommunicatorOptions& options,
                                                           const MakeDriver& make) try {
  if (auto error = check(options)) return *error;
  return std::unique_ptr<Communicator>(new Communicator(make(to_peer_options(options)), options.minimum_world));
} catch (const std::bad_alloc&) {
  return Error{Status::kOutOfMemory, "no memory for a communicator"};
}

Communicator::Communicator(std::unique_ptr<Driver> driver, std::uint32_t minimum_world)
    : engine_(std::move(driver)), minimum_world_(minimum_world) {}

Communicator::~Communicator() = default;

void Communicator::close() { engine_->close(); }

Work Communicator::connect(std::string coordinator, Duration timeout) {
  auto call = engine_->new_call();
  // the call did not start, so connect() may be called again
  if (const auto parsed = parse_destination(coordinator); !parsed) {
    peer::Outcome refused;
    refused.status = parsed.error().status;
    refused.text = parsed.error().text;
    call->complete(std::move(refused));
    return Work(std::move(call));
  }
  engine_->submit(call, peer::Connect{call->id(), std::move(coordinator), timeout}, Then::kGoOn);
  return Work(std::move(call));
}

Work Communicator::admit(std::uint32_t at_least, Duration timeout) {
  auto call = engine_->new_call();
  engine_->submit(call, peer::Admit{call->id(), at_least, timeout}, Then::kGoOn);
  return Work(std::move(call));
}

Work Communicator::leave(Duration timeout) {
  auto call = engine_->new_call();
  engine_->submit(call, peer::Leave{call->id(), timeout}, Then::kGoOn);
  return Work(std::move(call));
}

Result<Work> Communicator::launch(const LaunchArgs& args, Then then) {
  if (auto error = check(args)) return *error;
  std::shared_ptr<const Watch> watch;
  if (watches_.load(std::memory_order_relaxed) && args.collective != wire::Collective::kSync) {
    const std::lock_guard lock(watch_mutex_);
    watch = watch_;
  }
  if (watch != nullptr) {
    if (auto error = check_apart(args, *watch)) return *error;
  }
  auto call = engine_->new_call();
  const std::uint32_t minimum_world = args.minimum_world != 0 ? args.minimum_world : minimum_world_;
  Result<peer::Request> request =
      prepare(args, minimum_world, engine_->memory(), engine_->scratch(), call->loans, watch.get());
  if (!request) {
    give_back(call->loans, engine_->memory());
    return request.error();
  }
  engine_->submit(call, peer::Launch{call->id(), std::move(*request)}, then);
  return Work(std::move(call));
}

Result<Work> Communicator::publish(const LaunchArgs& args, bool stable) {
  if (auto error = check(args)) return *error;
  if (args.state != nullptr && args.state->blank) {
    return Error{Status::kInvalidArgument, "a blank state cannot be published: sync it first"};
  }
  if (view() == nullptr)
    return Error{Status::kNotConnected, "this communicator is not a member of a run: connect first"};
  auto call = engine_->new_call();
  Call::Loans& loans = call->loans;
  Result<peer::Request> request = stable ? prepare(args, minimum_world_, engine_->memory(), engine_->scratch(), loans)
                                         : snapshot(args, engine_->memory(), engine_->scratch(), loans);
  loans.writes_state = false;
  if (!request) {
    give_back(loans, engine_->memory());
    return request.error();
  }
  loans.values.clear();  // values are only read
  const Work work(call);
  {
    const std::lock_guard lock(published_mutex_);
    std::erase_if(published_, [](const auto& entry) { return entry.second.test(); });
    published_.emplace_back(args.tag, work);
  }
  engine_->submit(std::move(call), peer::Publish{work.id(), std::move(*request)}, Then::kGoOn);
  return work;
}

std::optional<Error> Communicator::watch(const LaunchArgs* args) {
  std::shared_ptr<const Watch> next;
  if (args != nullptr) {
    Result<Watch> watch = watch_of(*args);
    if (!watch) return watch.error();
    next = std::make_shared<const Watch>(std::move(*watch));
  }
  const std::lock_guard lock(watch_mutex_);
  watch_ = std::move(next);
  watches_.store(watch_ != nullptr, std::memory_order_relaxed);
  return std::nullopt;
}

Waited Communicator::unpublish(Tag tag, Interrupted interrupted) {
  std::vector<Work> ending;
  {
    const std::lock_guard lock(published_mutex_);
    for (const auto& [published, work] : published_) {
      if (published == tag) ending.push_back(work);
    }
  }
  for (const Work& work : ending) stop(work, "unpublished");
  for (const Work& work : ending) {
    if (wait(work, interrupted) == Waited::kInterrupted) return Waited::kInterrupted;
  }
  return Waited::kOver;
}

Result<Work> Communicator::prefetch(const LaunchArgs& args) {
  if (auto error = check(args)) return *error;
  auto call = engine_->new_call();
  Result<peer::Request> request = prepare(args, minimum_world_, engine_->memory(), engine_->scratch(), call->loans);
  if (!request) {
    give_back(call->loans, engine_->memory());
    return request.error();
  }
  const CallId id = call->id();
  const Work work(call);
  engine_->submit(std::move(call), peer::Prefetch{id, std::move(*request)}, Then::kGoOn);
  return work;
}

Waited Communicator::wait(const Work& work, Interrupted interrupted) {
  LOCKSTEP_ASSERT(work);
  return engine_->wait(*work.call_, interrupted);
}

void Communicator::settle() { engine_->settle(); }

void Communicator::stop(const Work& work, std::string why) {
  if (!work || work.test() || !work.call_->ask_to_stop()) return;
  engine_->stop(work.id(), std::move(why));
}

std::uint32_t Communicator::pending() const { return engine_->pending(); }
std::uint32_t Communicator::fetching() const { return engine_->fetching(); }

std::shared_ptr<const wire::View> Communicator::view() const { return engine_->view(); }

PeerId Communicator::self() const { return engine_->self(); }

Result<std::string> Communicator::write_flight(const std::string& path) {
  return engine_->write_flight(path, "asked for");
}

Communicator::Traffic Communicator::traffic() const { return engine_->traffic(); }

Communicator::Footprint Communicator::footprint() const {
  const Driver::Footprint driver = engine_->footprint();
  const ScratchPool::Footprint scratch = engine_->scratch().footprint();
  return {driver.machine, driver.sockets, engine_->memory().size(), scratch.lent, scratch.cached};
}

}  // namespace lockstep::transport

#include "transport/communicator.h"

#include <fmt/core.h>

#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include "core/base/assert.h"
#include "core/base/text.h"
#include "core/peer/launch_queue.h"
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

std::optional<Error> validate(const CommunicatorOptions& options) {
  const auto invalid = [](std::string text) { return Error{Status::kInvalidArgument, "options." + std::move(text)}; };
  if (std::string flaw = validate_options(options.peer); !flaw.empty()) return invalid(std::move(flaw));
  // core cuts at whole elements of any type; a user gets exactly the size that was asked for
  if (options.peer.segment_bytes % sizeof(double) != 0) {
    return invalid(
        fmt::format("segment_bytes is {}; allowed: a multiple of {}", options.peer.segment_bytes, sizeof(double)));
  }
  if (options.minimum_world > kMaxMembers) {
    return invalid(fmt::format("minimum_world is {}; allowed: 1 to {}", options.minimum_world, kMaxMembers));
  }
  if (options.flight_bytes > flight::kMaxRecordingBytes / 2) {
    return invalid(fmt::format("flight_bytes is {}; allowed: at most {}, or 0 for none", options.flight_bytes,
                               flight::kMaxRecordingBytes / 2));
  }
  if (!options.flight_folder.empty()) {
    if (const auto why = unwritable_folder(options.flight_folder)) {
      return Error{Status::kInvalidArgument,
                   fmt::format("{} for the flight recorder (options.flight_folder, or LOCKSTEP_FLIGHT_FOLDER)", *why)};
    }
  }
  if (options.spin < Duration{0} || options.spin > kLongestSpin) {
    return invalid(fmt::format("spin is {} ns; allowed: 0 (none) to {}", options.spin.ns, kLongestSpin.ns));
  }
  return std::nullopt;
}

// One port is a range, too.
peer::PeerOptions peer_options(const CommunicatorOptions& options) {
  peer::PeerOptions peer = options.peer;
  if (peer.last_port == 0) peer.last_port = peer.first_port;
  return peer;
}

// A small transfer takes less time than waking another thread does.
Driver::Then small_waits(const TransferArgs& args, Driver::Then then) {
  const bool is_small = args.count <= kEarlySlotBytes / size_of(args.type);
  return then == Driver::Then::kGoOn && is_small ? Driver::Then::kWaitLater : then;
}

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::create(CommunicatorOptions options) try {
  if (auto error = validate(options)) return *error;
  Addresses listen = resolve_host(options.listen_host, 0);
  if (!listen) return listen.error();
  Addresses advertised = resolve_host(options.advertised_host, options.peer.advertised.port);
  if (!advertised) return advertised.error();

  Engine::Options engine;
  engine.peer = peer_options(options);
  engine.peer.id = random_peer_id();
  engine.peer.seed = random_u64();
  if (!advertised->empty()) engine.peer.advertised = advertised->front();
  engine.listen = {std::move(*listen), engine.peer.first_port, engine.peer.last_port};
  engine.connector.congestion_control = std::move(options.congestion_control);
  engine.spin = to_chrono(options.spin);
  if (options.shared_thread) engine.reactor = Reactor::shared();
  engine.log = std::move(options.log);
  engine.journal = std::move(options.journal);
  engine.flight_bytes = options.flight_bytes != 0       ? options.flight_bytes
                        : options.flight_folder.empty() ? 0
                                                        : kFlightBytes;
  engine.flight_folder = std::move(options.flight_folder);
  return std::unique_ptr<Communicator>(new Communicator(std::make_unique<Engine>(std::move(engine)), options));
} catch (const std::bad_alloc&) {
  return Error{Status::kOutOfMemory, "no memory for a communicator"};
} catch (const std::system_error& error) {
  return Error{
      Status::kOutOfMemory,
      fmt::format("cannot start a communicator ({}): raise the limits of threads and open files", error.what())};
}

Result<std::unique_ptr<Communicator>> Communicator::create(const CommunicatorOptions& options,
                                                           const MakeDriver& make) try {
  if (auto error = validate(options)) return *error;
  return std::unique_ptr<Communicator>(new Communicator(make(peer_options(options)), options));
} catch (const std::bad_alloc&) {
  return Error{Status::kOutOfMemory, "no memory for a communicator"};
}

Communicator::Communicator(std::unique_ptr<Driver> driver, const CommunicatorOptions& options)
    : engine_(std::move(driver)), minimum_world_(options.minimum_world), protection_(options.protection) {}

Communicator::~Communicator() = default;

void Communicator::close() { engine_->close(); }

Work Communicator::connect(std::string_view coordinator, Duration timeout) {
  auto call = engine_->new_call();
  Result<Destination> to = parse_coordinator(coordinator, protection_);
  // the call did not start, so connect() may be called again
  if (!to) {
    peer::Outcome refused;
    refused.status = to.error().status;
    refused.text = to.error().text;
    call->complete(std::move(refused));
    return Work(std::move(call));
  }
  if (!connects_.exchange(true, std::memory_order_relaxed)) engine_->secure(to->security);
  engine_->submit(call, peer::Connect{call->id(), std::move(to->addresses), timeout}, Then::kGoOn);
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

// Most calls find room at once. The time that a call waits counts for its time-out.
Result<Duration> Communicator::enter(const LaunchArgs& args, Call& call, Interrupted interrupted) {
  const std::size_t bytes = peer::queued_bytes(args.tensors.size(), args.blocks.size());
  LaunchGate::Room& room = call.loans.room;
  room = gate_.take(bytes);
  if (room || !args.waits_for_room) {
    if (room) return args.timeout;
    return Error{Status::kTooManyInFlight,
                 fmt::format("{} calls are in flight or wait, or their descriptions take {} MiB: wait for one to end "
                             "before the next",
                             kMaxQueuedCalls, kMaxQueuedCallBytes >> 20U)};
  }
  const Instant began = now();
  const bool timed = args.timeout > Duration{0};
  room = gate_.wait(bytes, timed ? std::optional(args.timeout) : std::nullopt, interrupted, call);
  if (!timed) return args.timeout;
  const Duration waited = now() - began;
  if (room && waited < args.timeout) return args.timeout - waited;
  return Error{Status::kTimedOut,
               fmt::format("no room for another call within {} ms: {} calls were in flight. The call was not launched: "
                           "launch it again, or the other members wait for it",
                           args.timeout.ns / 1'000'000, kMaxQueuedCalls)};
}

Result<Work> Communicator::launch(const LaunchArgs& args, Then then, Interrupted interrupted) {
  auto call = engine_->new_call();
  const Result<Duration> timeout = enter(args, *call, interrupted);
  if (!timeout) return timeout.error();
  Result<Work> work = start(args, then, std::move(call), *timeout);
  if (!work) {
    refuse(args.collective, args.tag,
           {work.error().status, std::string(wire::name_of(args.collective)), work.error().text});
  }
  return work;
}

void Communicator::refuse(wire::Collective collective, Tag tag, peer::Refusal refusal) {
  auto call = engine_->new_call();
  ring::Request request;
  request.collective = collective;
  request.tag = tag;
  const CallId id = call->id();
  engine_->submit(std::move(call), peer::Launch{id, std::move(request), std::move(refusal)}, Then::kGoOn);
}

Result<Work> Communicator::start(const LaunchArgs& args, Then then, std::shared_ptr<Call> call, Duration timeout) {
  if (auto error = validate_memory(args)) return *error;
  std::shared_ptr<const Watch> watch;
  if (args.collective != wire::Collective::kSync) watch = watch_now();
  if (watch != nullptr) {
    if (auto error = validate_unwatched(args, *watch)) return *error;
  }
  const std::uint32_t minimum_world = args.minimum_world != 0 ? args.minimum_world : minimum_world_;
  Result<ring::Request> request =
      prepare(args, minimum_world, engine_->memory(), engine_->scratch(), call->loans, watch.get());
  if (!request) {
    give_back(call->loans, engine_->memory());
    return request.error();
  }
  request->timeout = timeout;
  engine_->submit(call, peer::Launch{call->id(), std::move(*request)}, then);
  return Work(std::move(call));
}

std::shared_ptr<const Watch> Communicator::watch_now() {
  if (!watches_.load(std::memory_order_relaxed)) return nullptr;
  const std::lock_guard lock(watch_mutex_);
  return watch_;
}

Result<Work> Communicator::send(const TransferArgs& args, Then then) {
  if (auto error = validate_memory(args)) return *error;
  auto call = engine_->new_call();
  Result<peer::Transfer> what = prepare(args, engine_->memory(), call->loans);
  if (!what) return what.error();
  engine_->submit(call, peer::Send{call->id(), *what}, small_waits(args, then));
  return Work(std::move(call));
}

Result<Work> Communicator::receive(const TransferArgs& args, Then then) {
  if (auto error = validate_memory(args)) return *error;
  if (const auto watch = watch_now()) {
    if (auto error = validate_unwatched(args, *watch)) return *error;
  }
  auto call = engine_->new_call();
  Result<peer::Transfer> what = prepare(args, engine_->memory(), call->loans);
  if (!what) return what.error();
  engine_->submit(call, peer::Receive{call->id(), *what}, small_waits(args, then));
  return Work(std::move(call));
}

Result<Work> Communicator::publish(const LaunchArgs& args, bool stable) {
  if (auto error = validate_memory(args)) return *error;
  if (args.state != nullptr && args.state->blank) {
    return Error{Status::kInvalidArgument, "a blank state cannot be published: sync it first"};
  }
  if (view() == nullptr)
    return Error{Status::kNotConnected, "this communicator is not a member of a run: connect first"};
  auto call = engine_->new_call();
  Call::Loans& loans = call->loans;
  Result<ring::Request> request = stable ? prepare(args, minimum_world_, engine_->memory(), engine_->scratch(), loans)
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
    if (work.wait(std::nullopt, interrupted) == Waited::kInterrupted) return Waited::kInterrupted;
  }
  return Waited::kOver;
}

Result<Work> Communicator::prefetch(const LaunchArgs& args) {
  if (auto error = validate_memory(args)) return *error;
  auto call = engine_->new_call();
  Result<ring::Request> request = prepare(args, minimum_world_, engine_->memory(), engine_->scratch(), call->loans);
  if (!request) {
    give_back(call->loans, engine_->memory());
    return request.error();
  }
  const CallId id = call->id();
  const Work work(call);
  engine_->submit(std::move(call), peer::Prefetch{id, std::move(*request)}, Then::kGoOn);
  return work;
}

void Communicator::settle() { engine_->settle(); }

void Communicator::stop(const Work& work, std::string why) {
  if (!work || work.test() || !work.call_->ask_to_stop()) return;
  engine_->stop(work.id(), std::move(why));
}

std::uint32_t Communicator::pending() const { return engine_->pending(); }
std::uint32_t Communicator::fetching() const { return engine_->fetching(); }
std::uint32_t Communicator::holding() const { return engine_->holding(); }

std::shared_ptr<const wire::View> Communicator::view() const { return engine_->view(); }

PeerId Communicator::self() const { return engine_->self(); }

peer::Lifecycle Communicator::lifecycle() { return engine_->lifecycle(); }

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

#include "transport/engine.h"

#include <chrono>
#include <exception>
#include <future>
#include <new>
#include <utility>
#include <variant>

#include "core/kernels/run_job.h"
#include "transport/clock.h"
#include "transport/journal.h"

namespace lockstep::transport {
namespace {

// The longest wait of close() for the calls that it has ended. Those calls wait for no other peer, so only an
// overloaded machine or a bug takes longer.
constexpr std::chrono::seconds kEndsWithin(5);

constexpr auto kDestroyed = "the communicator was destroyed before this call ended";

// Digesting fewer bytes takes less time than waking a thread.
constexpr std::size_t kWorthAThread = 256U << 10U;

peer::Outcome failure(const Error& why) {
  peer::Outcome outcome;
  outcome.status = why.status;
  outcome.text = why.text;
  return outcome;
}

}  // namespace

Engine::Engine(Options options)
    : options_(std::move(options)),
      events_(options_.log),
      born_(now()),
      reactor_(options_.reactor != nullptr ? options_.reactor : std::make_shared<Reactor>("lockstep", options_.spin)),
      peer_(options_.peer, born_),
      streams_(
          reactor_->io(), memory_, options_.connector, options_.log, [this] { loop_.turn(); },
          &reactor_->local_streams()),
      resolver_(reactor_->io()),
      loop_(reactor_->io(), peer_, streams_, *this),
      pool_([this] {
        reactor_->post(Reactor::Wake::kOwner, [this] {
          take_answers();
          loop_.turn();
        });
      }) {
  if (options_.flight_bytes > 0) loop_.record(&recorder_.emplace(options_.peer, born_, options_.flight_bytes));
  if (options_.journal) options_.journal(journal::opened(options_.peer));
  reactor_->attach(*this);
}

void Engine::close() {
  if (std::exchange(closed_, true)) return;
  give_up();
  const auto ended = std::make_shared<std::promise<bool>>();
  reactor_->post(Reactor::Wake::kOwner, [this, ended] {
    loop_.stop();
    resolver_.stop();
    // After an orderly leave, the last bytes must reach the other peers. Otherwise the other peers treat this peer as
    // lost, and there is no reason to wait for a coordinator that does not respond.
    streams_.shut_down(ending_.has_left ? StreamSet::ClosingStreams::kWait : StreamSet::ClosingStreams::kCutShort,
                       [ended] { ended->set_value(true); });
  });
  answer_of(ended->get_future());
  pool_.join();  // so that none of its answers is posted later
  reactor_->detach(*this);
  fail_everything({Status::kNotConnected, kDestroyed});
  events_.close();
  if (options_.journal) options_.journal(journal::closed(self()));
}

// Ends calls in flight as if the run were lost: core returns and restores their memory.
void Engine::give_up() {
  const auto ended = std::make_shared<std::promise<bool>>();
  reactor_->post(Reactor::Wake::kOwner, [this, ended] {
    take_commands();
    if (calls_.empty()) return ended->set_value(true);
    ending_.all_ended = ended;
    loop_.push(peer::Abandon{kDestroyed});
    loop_.turn();
  });
  answer_of(ended->get_future(), Clock::now() + kEndsWithin);
}

// The run is lost for this peer, and its callers must learn of it.
void Engine::on_failure(const Error& why) {
  write_flight_of_failure(why.text);
  loop_.stop();
  streams_.shut_down(StreamSet::ClosingStreams::kCutShort, [] {});
  fail_everything(why);
}

// ---- commands ----

std::shared_ptr<Call> Engine::new_call() {
  const CallId id{last_call_.fetch_add(1, std::memory_order_relaxed) + 1};
  return std::make_shared<Call>(id, Call::Runner{reactor_, options_.spin});
}

void Engine::submit(std::shared_ptr<Call> call, peer::Input input, Then then) {
  enqueue({std::move(input), std::move(call)}, then == Then::kGoOn ? Reactor::Wake::kOwner : Reactor::Wake::kNone);
  if (then == Then::kWaitLater) reactor_->run_ready();
}

void Engine::stop(CallId call, std::string why) {
  enqueue({peer::Stop{call, std::move(why)}, nullptr}, Reactor::Wake::kOwner);
}

void Engine::enqueue(Command command, Reactor::Wake wake) {
  switch (commands_.add(command)) {
    case CommandQueue::Added::kFirst:  // posts for the whole batch
      return reactor_->post(wake, [this] { take_commands(); });
    case CommandQueue::Added::kMore: return;
    case CommandQueue::Added::kRefused:
      if (command.call) end_call(*command.call, failure(commands_.why_ended()), memory_);
  }
}

void Engine::take_commands() {
  commands_.take(taken_);
  for (Command& command : taken_) {
    if (command.call) {
      if (options_.journal) options_.journal(journal::called(self(), command.input));
      command.call->sending.writes_before = streams_.congestion_use().writes();
      calls_.emplace(command.call->id().value, std::move(command.call));
      reactor_->calls_began(1);
    } else if (const auto* stop = std::get_if<peer::Stop>(&command.input)) {
      if (!calls_.contains(stop->call.value)) continue;  // the call is over already
    }
    loop_.push(std::move(command.input));
  }
  taken_.clear();
  loop_.turn();
}

void Engine::fail_everything(const Error& why) {
  pool_.join();  // before the memory of its jobs is returned
  const std::vector<Command> never_taken = commands_.end(why);
  const peer::Outcome outcome = failure(why);
  for (const Command& command : taken_) {
    if (command.call) end_call(*command.call, outcome, memory_);
  }
  taken_.clear();
  for (const Command& command : never_taken) {
    if (command.call) end_call(*command.call, outcome, memory_);
  }
  if (!calls_.empty()) reactor_->calls_ended(calls_.size());
  for (const auto& [id, call] : std::exchange(calls_, {})) {
    peer::Outcome ended = outcome;
    ended.state_defined = !call->loans.writes_state;
    if (options_.journal) options_.journal(journal::ended(self(), call->id(), ended));
    end_call(*call, std::move(ended), memory_);
  }
}

// ---- requests of other threads ----

// Asks a question on the thread that runs the engine. Returns nothing if the engine does not run any more.
template <typename Answer>
std::optional<Answer> Engine::answer_of(std::future<Answer> future, Clock::time_point limit) {
  while (future.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
    if (commands_.has_ended() || reactor_->over() || Clock::now() >= limit) return std::nullopt;
  }
  return future.get();
}

void Engine::settle() {
  const auto answer = std::make_shared<std::promise<bool>>();
  reactor_->post(Reactor::Wake::kOwner, [this, answer] {
    take_commands();  // another submitter may not have posted its command yet
    answer_once_told(loop_.pushed(), answer);
  });
  answer_of(answer->get_future());
}

// Takes as many turns as needed, because other callers' commands are processed, too.
void Engine::answer_once_told(std::uint64_t inputs, const std::shared_ptr<std::promise<bool>>& answer) {
  if (loop_.told() >= inputs || loop_.stopped()) return answer->set_value(true);
  reactor_->post(Reactor::Wake::kOwner, [this, inputs, answer] { answer_once_told(inputs, answer); });
}

peer::Lifecycle Engine::lifecycle() {
  settle();  // calls that were made before count
  const auto answer = std::make_shared<std::promise<peer::Lifecycle>>();
  reactor_->post(Reactor::Wake::kOwner, [this, answer] { answer->set_value(peer_.snapshot().lifecycle); });
  return answer_of(answer->get_future()).value_or(peer::Lifecycle::kOver);
}

Engine::Footprint Engine::footprint() {
  const auto answer = std::make_shared<std::promise<Footprint>>();
  reactor_->post(Reactor::Wake::kOwner, [this, answer] { answer->set_value({peer_.footprint(), streams_.size()}); });
  return answer_of(answer->get_future()).value_or(Footprint{});
}

Result<std::string> Engine::write_flight(const std::string& path, const std::string& reason) {
  if (!recorder_)
    return Error{Status::kInvalidArgument,
                 "this communicator was created without a flight recorder; set flight_kib or flight_folder"};
  const auto answer = std::make_shared<std::promise<flight::Recording>>();
  auto future = answer->get_future();
  reactor_->post(Reactor::Wake::kOwner, [this, answer] {
    try {
      answer->set_value(recorder_->recording());
    } catch (const std::bad_alloc&) {  // a failure of this caller only: the run continues
      answer->set_exception(std::current_exception());
    }
  });
  while (future.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
    std::optional<flight::Recording> recording;  // the loop has ended, and does not use the recorder any more
    if (!commands_.after_end([&] { recording = recorder_->recording(); })) continue;
    return transport::write_flight(path, *std::move(recording), reason);
  }
  return transport::write_flight(path, future.get(), reason);
}

// Runs on the owner of the loop. The failure may be a lack of memory.
void Engine::write_flight_of_failure(const std::string& reason) try {
  if (!recorder_ || options_.flight_folder.empty()) return;
  const auto written =
      transport::write_flight(flight_path(options_.flight_folder, self()), recorder_->recording(), reason);
  if (options_.log) options_.log(written ? "flight recording written to " + *written : written.error().text);
} catch (const std::bad_alloc&) {
  if (options_.log) options_.log("no memory left to write the flight recording");
}

void Engine::last_words() { write_flight_of_failure("an assertion failed: the process ended"); }

// ---- effects ----

void Engine::carry_out(peer::Resolve& effect) {
  resolver_.resolve(effect.coordinator, [this](Resolution found) {
    loop_.push(peer::Resolved{std::move(found.addresses), std::move(found.unresolved)});
    loop_.turn();
  });
}

void Engine::carry_out(peer::Listen&) {
  const Result<io::Address> bound = streams_.listen(options_.listen);
  if (bound) {
    loop_.push(peer::Listening{bound->port});
  } else {
    loop_.push(peer::Listening{bound.error()});
  }
}

void Engine::carry_out(peer::Complete& effect) {
  const auto found = calls_.find(effect.call.value);
  LOCKSTEP_ASSERT(found != calls_.end());
  const auto call = std::move(found->second);
  calls_.erase(found);
  reactor_->calls_ended(1);
  call->sending.congestion_control = streams_.congestion_use().used_since(call->sending.writes_before);
  call->sending.streams = streams_.used_since(call->sending.writes_before);
  if (options_.journal) options_.journal(journal::ended(self(), effect.call, effect.outcome));
  end_call(*call, std::move(effect.outcome), memory_);
  if (ending_.all_ended && calls_.empty()) std::exchange(ending_.all_ended, nullptr)->set_value(true);
}

void Engine::carry_out(peer::Installed& effect) {
  if (options_.journal) options_.journal(journal::installed(self(), *effect.view));
  run_.set_view(std::move(effect.view));
}

void Engine::carry_out(peer::PendingChanged& effect) {
  run_.set_waiting(effect.count, effect.fetching, effect.holding);
}

void Engine::carry_out(peer::Progress& effect) {
  const auto call = calls_.find(effect.call.value);
  if (call != calls_.end()) call->second->set_progress({effect.bytes, effect.of});
}

void Engine::carry_out(peer::RunOver& effect) {
  ending_.has_left = effect.left;
  run_.set_waiting(0, 0, 0);
  if (options_.log) options_.log("the run is over for this peer: " + effect.text);
  if (!effect.left && !ending_.all_ended) write_flight_of_failure("the run is over for this peer: " + effect.text);
}

// Runs the job at once on this thread, because the received bytes are still in its cache. Digests of a state are many
// and of cold memory, so they go to the pool.
void Engine::carry_out(KernelJob& effect) {
  const JobMemory memory = memory_of(effect.work);
  const auto from = memory_.at(memory.from);
  if (std::holds_alternative<DigestJob>(effect.work) && from.size() >= kWorthAThread) {
    take_answers();
    if (pool_.give(effect.token, [work = effect.work, from] { return run_job(work, {}, from, {}); })) return;
  }
  const auto residual = memory.residual.length > 0 ? memory_.at(memory.residual) : std::span<std::byte>{};
  const JobResult result = run_job(effect.work, memory_.at(memory.into), from, memory_.at(memory.own), residual);
  loop_.push(peer::JobDone{effect.token, result});
}

void Engine::take_answers() {
  for (const peer::JobDone& done : pool_.take()) loop_.push(done);
}

void Engine::carry_out(trace::Event& effect) {
  if (options_.log) events_.take(effect, now());
}

}  // namespace lockstep::transport

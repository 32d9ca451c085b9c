// A peer and a coordinator, each on a host in memory: the test holds the far ends of their streams, makes the calls and
// moves the time. Checks on the way what must hold whatever remotes say: no byte outside the memory of an open call,
// every call completed once, and the declared limits (promises S4, S8, S9).
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/coordinator/coordinator.h"
#include "core/peer/peer.h"
#include "core/wire/limits.h"
#include "fuzz/far_end.h"
#include "sim/engine/memory.h"

namespace lockstep::fuzz {

// The tag of a state that is published or fetched.
inline constexpr Tag kShared{7};

// 10.0.0.n:4000
inline io::Address address_of(std::uint8_t n) { return {io::Address::Family::kV4, {10, 0, 0, n}, 4000}; }

class PeerHost {
 public:
  peer::Resolved coordinator{std::vector<io::Address>{address_of(100)}};  // the answer to Resolve

  explicit PeerHost(const peer::PeerOptions& options)
      : streams([this](BufferRef where) { return open(where); }),
        options_(options),
        peer_(options, now),
        memory_(sim::Mode::kBytes) {}

  // ---- calls ----
  CallId connect(Duration timeout = {}) {
    const CallId call = new_call();
    step(peer::Connect{call, "coordinator:1", timeout});
    return call;
  }
  CallId admit(std::uint32_t at_least = 1) {
    const CallId call = new_call();
    step(peer::Admit{call, at_least, {}});
    return call;
  }
  CallId leave() {
    const CallId call = new_call();
    step(peer::Leave{call, {}});
    return call;
  }
  void abandon(std::string why = "why not") { step(peer::Abandon{std::move(why)}); }
  void stop(CallId call, std::string why = "why not") { step(peer::Stop{call, std::move(why)}); }
  // With memory for one tensor of `count` elements; collectives with blocks: room for `room` elements.
  CallId launch(ring::Request request, std::uint64_t count, std::uint64_t room = 0, bool in_place = false) {
    const CallId call = new_call();
    const std::uint64_t bytes = count * size_of(request.type);
    auto& buffers = calls_.at(call).buffers;
    const auto make = [&](std::uint64_t length) {
      buffers.push_back(memory_.make(length));
      memory_.fill({buffers.back(), 0, length}, call.value, request.type);
      memory_.lend(buffers.back());
      return BufferRef{buffers.back(), 0, length};
    };
    if (request.collective != wire::Collective::kBarrier) {
      const bool states_room =
          wire::has_blocks(request.collective) || request.collective == wire::Collective::kReduceScatter;
      const BufferRef send = make(bytes);
      const BufferRef recv = in_place ? send : make(states_room ? room * size_of(request.type) : bytes);
      request.tensors = {{send, recv, count}};
      calls_.at(call).send = send;
      calls_.at(call).recv = recv;
      request.scratch = make(ring::scratch_bytes(request));
    }
    step(peer::Launch{call, std::move(request)});
    return call;
  }
  // A send to this peer, or a receive from it.
  CallId send(PeerId to, Tag tag, std::uint64_t count, Duration timeout = {}) {
    const CallId call = new_call();
    step(peer::Send{call, transfer(call, to, tag, count, timeout)});
    return call;
  }
  CallId receive(PeerId from, Tag tag, std::uint64_t count, Duration timeout = {}) {
    const CallId call = new_call();
    step(peer::Receive{call, transfer(call, from, tag, count, timeout)});
    return call;
  }
  // A call that the program's own side refuses.
  CallId refuse(wire::Collective collective, Tag tag, std::string why = "out has another dtype") {
    const CallId call = new_call();
    ring::Request request;
    request.collective = collective;
    request.tag = tag;
    step(peer::Launch{call, std::move(request),
                      peer::Refusal{Status::kInvalidArgument, std::string(wire::name_of(collective)), std::move(why)}});
    return call;
  }
  // Memory of the program that all calls may read, for good.
  BufferRef hold(std::uint64_t bytes, std::uint64_t content) {
    const BufferRef where{memory_.make(bytes), 0, bytes};
    memory_.lend(where.id);
    change(where, content);
    return where;
  }
  void change(BufferRef where, std::uint64_t content) { memory_.fill(where, content); }
  // The program writes to what it sends while the call is running.
  void rewrite(CallId call) { change(calls_.at(call).send, 0x5eed); }
  // Publishes, or else fetches, a state of one tensor of so many bytes, under kShared.
  CallId share(bool serves, std::uint64_t bytes, std::uint32_t piece_bytes, std::uint64_t content = 1,
               const std::function<void(state::Statement&)>& change = {}) {
    const CallId call = new_call();
    auto& buffers = calls_.at(call).buffers;
    buffers.push_back(memory_.make(bytes));
    const BufferRef tensor{buffers.back(), 0, bytes};
    memory_.fill(tensor, content);
    memory_.lend(buffers.back());
    calls_.at(call).send = calls_.at(call).recv = tensor;
    auto state = std::make_shared<state::Statement>();
    state->manifest = {{{"weights", DataType::kU8, bytes, false}}, {}, piece_bytes};
    state->revision = serves ? 4 : 0;
    if (change) change(*state);
    ring::Request request;
    request.collective = wire::Collective::kSync;
    request.tag = kShared;
    request.tensors = {{{}, tensor, bytes}};
    request.state = std::move(state);
    if (request.state->staged) {
      buffers.push_back(memory_.make(bytes));
      memory_.lend(buffers.back());
      request.scratch = {buffers.back(), 0, bytes};
    }
    if (serves) {
      step(peer::Publish{call, std::move(request)});
    } else {
      step(peer::Prefetch{call, std::move(request)});
    }
    return call;
  }
  [[nodiscard]] const peer::Outcome* outcome(CallId call) const {
    const auto& outcome = calls_.at(call).outcome;
    return outcome ? &*outcome : nullptr;
  }
  // The newest view that was installed when the call ended.
  [[nodiscard]] ViewNumber ended_in(CallId call) const { return calls_.at(call).ended_in; }
  // Bytes of the state that are here, and of how many.
  [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> progress(CallId call) const { return calls_.at(call).progress; }
  // The contents of the call's two places.
  [[nodiscard]] std::span<const std::byte> sent(CallId call) const { return memory_.look(calls_.at(call).send); }
  [[nodiscard]] std::span<const std::byte> received(CallId call) const { return memory_.look(calls_.at(call).recv); }
  [[nodiscard]] bool all_calls_over() const {
    return std::all_of(calls_.begin(), calls_.end(), [](const auto& call) { return call.second.outcome.has_value(); });
  }

  // ---- time and streams ----
  // Until nothing moves; no dial is answered.
  void run() {
    for (int steps = 0; steps < 20'000; ++steps) {
      if (!jobs_.empty() && !jobs_held) {
        const KernelJob job = jobs_.front();
        jobs_.pop_front();
        step(peer::JobDone{job.token, memory_.run(job)});
      } else if (auto input = streams.next()) {
        std::visit([&](auto& in) { step(std::move(in)); }, *input);
      } else {
        return;
      }
    }
  }
  void pass(Duration time) {
    now = now + time;
    if (peer_.deadline() <= now) step(peer::Timer{});
  }

  Instant now{};
  bool jobs_held = false;   // kernels are slow: no job is run
  std::size_t digests = 0;  // jobs, until now
  Streams streams;
  std::vector<wire::View> views;          // installed
  std::optional<peer::RunOver> run_over;  // once it is
  std::vector<trace::Event> events;
  [[nodiscard]] peer::Peer::Footprint footprint() const { return peer_.footprint(); }
  [[nodiscard]] Holdings holdings() const { return peer_.holdings(); }
  [[nodiscard]] Instant deadline() const { return peer_.deadline(); }
  [[nodiscard]] PeerId id() const { return options_.id; }

 private:
  struct Call {
    std::vector<BufferId> buffers;
    BufferRef send;
    BufferRef recv;
    std::optional<peer::Outcome> outcome;
    ViewNumber ended_in;
    std::pair<std::uint64_t, std::uint64_t> progress;
  };

  CallId new_call() {
    const CallId call{calls_.size() + 1};
    calls_[call];
    return call;
  }
  peer::Transfer transfer(CallId call, PeerId with, Tag tag, std::uint64_t count, Duration timeout) {
    Call& lends = calls_.at(call);
    lends.buffers.push_back(memory_.make(count));
    const BufferRef memory{lends.buffers.back(), 0, count};
    memory_.fill(memory, call.value);
    memory_.lend(memory.id);
    lends.send = lends.recv = memory;
    return {.peer = with, .tag = tag, .type = DataType::kU8, .count = count, .memory = memory, .timeout = timeout};
  }
  std::span<std::byte> open(BufferRef where) {
    const auto bytes = memory_.open(where, sim::Touch::kLand);
    LOCKSTEP_ASSERT(memory_.trespass().empty());
    return bytes;
  }

  void step(peer::Input input) {
    peer::Effects effects;
    peer_.step(std::move(input), now, effects);
    for (auto& effect : effects) std::visit([&](auto& one) { carry_out(one); }, effect);
    LOCKSTEP_ASSERT(memory_.trespass().empty());
    const peer::Peer::Footprint f = peer_.footprint();
    LOCKSTEP_ASSERT(f.streams <= streams.size() && f.rounds <= kMaxRoundsInFlight);
    LOCKSTEP_ASSERT(f.queued_bytes <= f.streams * 2 * kMaxQueuedControlBytes);
  }
  void carry_out(const peer::Resolve&) { step(coordinator); }
  void carry_out(const peer::Listen&) { step(peer::Listening{std::uint16_t{4000}}); }
  void carry_out(peer::Complete& complete) {
    Call& call = calls_.at(complete.call);
    LOCKSTEP_ASSERT(!call.outcome);  // S8
    call.outcome = std::move(complete.outcome);
    if (!views.empty()) call.ended_in = views.back().number;
    for (const BufferId buffer : call.buffers) memory_.take_back(buffer);
  }
  void carry_out(const peer::Installed& installed) { views.push_back(*installed.view); }
  void carry_out(const peer::PendingChanged&) {}
  void carry_out(const peer::Progress& effect) { calls_.at(effect.call).progress = {effect.bytes, effect.of}; }
  void carry_out(const peer::RunOver& over) {
    LOCKSTEP_ASSERT(!run_over);
    run_over = over;
  }
  void carry_out(const KernelJob& job) {
    jobs_.push_back(job);
    digests += std::holds_alternative<DigestJob>(job.work) ? 1 : 0;
  }
  void carry_out(const trace::Event& event) {
    if (events.size() < 1000) events.push_back(event);
  }
  template <typename T>
  void carry_out(const T& io) {
    streams.carry_out(io);
  }

  peer::PeerOptions options_;
  peer::Peer peer_;
  sim::Memory memory_;
  std::map<CallId, Call> calls_;
  std::deque<KernelJob> jobs_;
};

class CoordinatorHost {
 public:
  explicit CoordinatorHost(const coordinator::CoordinatorOptions& options)
      : streams([](BufferRef) { return std::span<std::byte>{}; }), coordinator_(options, now) {}

  void run() {
    while (auto input = streams.next()) std::visit([&](auto& in) { step(std::move(in)); }, *input);
  }
  void pass(Duration time) {
    now = now + time;
    if (coordinator_.deadline() <= now) step(coordinator::Timer{});
  }
  void change_grants(std::vector<coordinator::Grant> grants, std::vector<coordinator::BarredKey> barred = {}) {
    step(coordinator::ChangeGrants{std::move(grants), std::move(barred)});
  }
  [[nodiscard]] wire::StatusReply status() const { return coordinator_.snapshot(now); }
  [[nodiscard]] coordinator::Coordinator::Footprint footprint() const { return coordinator_.footprint(); }

  Instant now{};
  Streams streams;
  std::vector<io::TokenId> used_tokens;  // as the coordinator has told them
  std::vector<trace::Event> events;

 private:
  void step(coordinator::Input input) {
    coordinator::Effects effects;
    coordinator_.step(std::move(input), now, effects);
    for (auto& effect : effects) {
      std::visit(overloaded{
                     [&](const trace::Event& event) {
                       (void)trace::to_line(event);
                       if (events.size() < 1000) events.push_back(event);
                     },
                     [&](const coordinator::TokenUsed& used) { used_tokens.push_back(used.token); },
                     [&](const auto& io) { streams.carry_out(io); },
                 },
                 effect);
    }
    const auto f = coordinator_.footprint();
    LOCKSTEP_ASSERT(f.streams <= streams.size() && f.members + f.waiting <= kMaxMembers);
    LOCKSTEP_ASSERT(f.rounds <= (f.members + 64) * kMaxRoundsInFlight);
  }

  coordinator::Coordinator coordinator_;
};

// The peer's stream to its coordinator goes on to this one. The dial was made and is not answered yet.
inline void connect_hosts(PeerHost& peer, CoordinatorHost& coordinator, std::uint8_t host,
                          const io::Identity& identity = {}) {
  const auto dialling = peer.streams.dialling();
  LOCKSTEP_ASSERT(dialling.size() == 1);
  FarEnd::join(*dialling.front(), coordinator.streams.accept(address_of(host), identity));
  peer.streams.open(*dialling.front());
}

}  // namespace lockstep::fuzz

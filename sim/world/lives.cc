#include "sim/world/lives.h"

#include <utility>

#include "sim/checkers/s11_at_rest.h"
#include "sim/workload/text.h"
#include "sim/world/witness.h"

namespace lockstep::sim {
namespace {

constexpr std::uint64_t kMostStarts = 10'000;  // limit of started processes in one run

}  // namespace

std::vector<std::uint32_t> hosts_of_gang(const Plan& plan, std::uint32_t host) {
  if (plan.gangs.size == 1) return {host};
  const std::uint32_t first = host - (host - 1) % plan.gangs.size;
  std::vector<std::uint32_t> hosts;
  for (std::uint32_t h = first; h < first + plan.gangs.size; ++h) hosts.push_back(h);
  return hosts;
}

void Lives::start(std::uint32_t host) {
  SimHost& h = cast_.hosts[host];
  SimProcess* old = cast_.running(host);
  if (options_.guests != nullptr) return guests_.start(host);
  if (h.gone || h.finished || (old != nullptr && (!old->over || old->caller.app->done()))) return;
  if (starts_++ > kMostStarts) {
    chronicle_.fail("limit", "processes start again and again");
    return;
  }
  network_.host_returned(host, now_);
  const auto index = static_cast<std::uint32_t>(cast_.processes.size());
  const GroupId group{(host - 1) % plan_.gangs.groups};
  peer::PeerOptions options;
  options.name = options_.scripted ? std::string(1, static_cast<char>('a' + (host - 1) % 26))
                                   : "h" + std::to_string(host) + "." + std::to_string(index);
  options.group = group;
  options.gang = sim::gang_of(plan_, host);
  options.gang_size = plan_.gangs.size;
  options.founders = plan_.founders;
  options.auto_admit = plan_.auto_admit;
  options.stripes = static_cast<std::uint16_t>(plan_.links.stripes);
  options.most_stripes = static_cast<std::uint16_t>(plan_.links.most_stripes);
  options.segment_bytes = plan_.links.segment_bytes;
  options.eager_segments = plan_.links.eager_segments;
  options.window = plan_.links.window;
  options.direct.turns = plan_.links.turns;
  options.direct.by_rate_bytes = plan_.links.by_rate_bytes;
  options.direct.rate_window = plan_.links.rate_window;
  options.sending.bytes_per_second = plan_.links.bytes_per_second;
  options.strangers = most_strangers(plan_);
  if (plan_.aged) {
    options.first_use = first_use_of(plan_);
    options.first_serial = kLastCount - dice_.range(0, 200, Purpose::kAge, cast_.processes.size());
  }
  options.dial_timeout = plan_.heartbeat * 10;
  options.link_heartbeat = plan_.heartbeat;
  options.link_silence = plan_.heartbeat * 8;
  options.link_timeout = plan_.heartbeat * 16;
  options.abort_grace = plan_.heartbeat * 20;
  SimProcess& process = create(host, std::move(options));
  auto program = std::make_unique<App>(app_host_, plan_, process.index, host, process.id, group, options_.scripted);
  process.caller.app = program.get();
  begin(process, std::move(program));
}

SimProcess& Lives::create(std::uint32_t host, peer::PeerOptions options) {
  SimProcess& process = cast_.processes.emplace_back();
  process.index = static_cast<std::uint32_t>(cast_.processes.size() - 1);
  process.host = host;
  process.id = {dice_.bits(Purpose::kIdentity, process.index, 1), dice_.bits(Purpose::kIdentity, process.index, 2)};
  cast_.by_id.emplace(process.id, process.index);
  const SimProcess* const former = former_of(host);
  // Half of the liars come back with the same key.
  const bool same_key = former != nullptr && lies_on(host) && dice_.permille(500, Purpose::kViolator, 3, process.index);
  process.caller.key = same_key ? former->caller.key : key_of(process.id);
  const OtherKey meets = std::exchange(cast_.hosts[host].next_meets, OtherKey::kNowhere);
  if (!ending_.healed()) process.caller.meets = meets;
  process.memory = std::make_unique<Memory>(plan_.mode);
  options.id = process.id;
  options.seed = dice_.bits(Purpose::kIdentity, process.index, 3);
  process.peer.start(std::move(options), now_);
  checkers_.causes.born(process.index, process.peer.options(), host);
  checkers_.progress.born(process.id);
  checkers_.reach.born(process.id, host, now_);
  if (lies_on(host)) checkers_.liars.lies(process.id, process.peer.options().name);
  if (options_.witness != nullptr) options_.witness->born(process.index, process.peer.options(), now_);
  return process;
}

bool Lives::lies_on(std::uint32_t host) const { return network_.lies_on(host) || cast_.hosts[host].stops != 0; }

// The process that ran on the host before; null: there is none.
const SimProcess* Lives::former_of(std::uint32_t host) const {
  const SimProcess* former = nullptr;
  for (const SimProcess& process : cast_.processes) {
    if (process.host == host && process.peer.options().id == process.id) former = &process;
  }
  return former;
}

void Lives::begin(SimProcess& process, std::unique_ptr<Program> program) {
  process.caller.program = std::move(program);
  cast_.hosts[process.host].process = process.index;
  chronicle_.mix(20, process.host, process.index, process.id.low);
  if (options_.witness != nullptr) options_.witness->started(process.index, process.host, process.id);
  chronicle_.say(process, "starts");
  process.caller.program->begin();
  timers_.arm(process);
}

void Lives::stop(SimProcess& process, Death death) {
  chronicle_.say(process, death == Death::kReset ? "dies" : "vanishes");
  if (options_.witness != nullptr) options_.witness->stopped(process.index, death);
  process.alive = false;
  checkers_.causes.died(process.index);
  process.timer.deadline = INT64_MAX;
  network_.died(process.index, death, now_);
  for (const std::uint32_t index : process.caller.open_calls) {
    Call& call = process.caller.calls[index];
    call.round_at_death = Cast::round_of(process, call);
  }
  process.peer.stop();
  if (cast_.hosts[process.host].process == process.index) cast_.hosts[process.host].process = kNoProcess;
}

// Every process that runs there now, or starts there later.
void Lives::begin_to_lie(std::uint32_t host, std::uint64_t one_in) {
  if (plan_.program.stops_at_once == 0) {
    network_.lie(host, one_in);
  } else {
    cast_.hosts[host].stops = one_in;
  }
  for (const SimProcess& process : cast_.processes) {
    if (process.alive && process.host == host && process.peer)
      checkers_.liars.lies(process.id, process.peer.options().name);
  }
}

// The processes that have lied die, since others remember the lies; another process starts, with another token.
void Lives::end_lies(std::uint32_t host) {
  if (plan_.program.stops_at_once == 0) network_.lie(host, 0);
  cast_.hosts[host].stops = 0;
  for (SimProcess& process : cast_.processes) {
    if (process.alive && process.host == host && process.peer) stop(process, Death::kReset);
  }
  cast_.tokens.repair(host, cast_.processes.size());
  queue_.push(now_ + plan_.heartbeat, What::kWake, kNoProcess, host);
}

void Lives::stall(SimProcess& process, bool on) {
  if (on) {
    process.stall.count += 1;
    return;
  }
  if (process.stall.count == 0 || --process.stall.count > 0) return;
  chronicle_.say(process, "wakes");
  std::int64_t after = 1;
  for (const Event& event : process.stall.held_back) {
    queue_.push(now_ + nanoseconds(after++), event.what, event.process, event.a, event.b);
  }
  process.stall.held_back.clear();
}

void Lives::after_run(SimProcess& process) {
  if (!process.caller.open_calls.empty()) {
    if (now_ - process.over_at > ending_.bound()) {
      const Call& call = process.caller.calls[process.caller.open_calls.front()];
      chronicle_.judging(&call);
      chronicle_.fail("L4", text_of(process.id) + " lost its run at " + text_of(process.over_at) + ", and call " +
                                std::to_string(call.id.value) + " (" + text_of(call.request) + ") has not ended");
      return;
    }
    queue_.push(now_ + plan_.heartbeat, What::kGiveUp, process.index, 1);
    return;
  }
  if (options_.guests != nullptr) return;  // its program comes to close(), and goes on as it likes
  SimHost& host = cast_.hosts[process.host];
  if (process.caller.app->done()) {
    host.finished = true;
  } else if (host.process == process.index && !options_.scripted) {
    const bool left = process.caller.app->leaving();
    if (!left || host.pause.ns != 0 || ending_.healed()) {
      const Duration wait = left && !ending_.healed()
                                ? host.pause
                                : nanoseconds(draw_delay(dice_, process, plan_.heartbeat * 4, Purpose::kThink));
      queue_.push(now_ + wait, What::kWake, kNoProcess, process.host);
    }
    host.pause = {};
  }
  queue_.push(now_ + plan_.heartbeat * 40, What::kGiveUp, process.index, 2);
}

void Lives::rest(SimProcess& process) {
  const bool timer = process.peer->deadline() != kNever;
  chronicle_.check("S11",
                   check_at_rest(process.peer->footprint(), process.id, timer, network_.streams_of(process.index)));
  if (chronicle_.over()) return;
  stop(process, Death::kReset);
}

}  // namespace lockstep::sim

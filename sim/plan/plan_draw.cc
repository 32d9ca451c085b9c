// Draws the plan of a seed: the network, the program, and faults of every kind, each with dice of its own, so that a
// new kind leaves the others as they were.
#include "sim/plan/plan.h"

#include <algorithm>

#include "sim/engine/dice.h"

namespace lockstep::sim {
namespace {

// Draws for the world: one number each, by name.
class Draws {
 public:
  explicit Draws(Dice dice) : dice_(dice) {}
  std::uint64_t range(std::uint64_t lo, std::uint64_t hi) { return dice_.range(lo, hi, Purpose::kPlan, 0, n_++); }
  bool permille(std::uint64_t chance) { return dice_.permille(chance, Purpose::kPlan, 0, n_++); }
  template <typename T, std::size_t N>
  T one_of(const T (&values)[N]) {
    return values[range(0, N - 1)];
  }

 private:
  Dice dice_;
  std::uint64_t n_ = 0;
};

// Numbers for one purpose and one subject, drawn one after the other: range(lo, hi), both included.
class DrawSeries {
 public:
  enum class Counter : std::uint8_t { kSecondKey, kLastKey };  // the key of the dice that counts the draws
  DrawSeries(Dice dice, Purpose purpose, std::uint64_t subject, Counter counter = Counter::kLastKey)
      : dice_(dice), purpose_(purpose), subject_(subject), counter_(counter) {}
  std::uint64_t operator()(std::uint64_t lo, std::uint64_t hi) {
    const std::uint64_t n = drawn_++;
    return counter_ == Counter::kLastKey ? dice_.range(lo, hi, purpose_, subject_, 0, n)
                                         : dice_.range(lo, hi, purpose_, subject_, n);
  }

 private:
  Dice dice_;
  Purpose purpose_;
  std::uint64_t subject_;
  Counter counter_;
  std::uint64_t drawn_ = 0;
};

struct Weight {
  Fault fault;
  std::uint32_t weight;
};
constexpr Weight kWeights[] = {{Fault::kCrash, 10},  {Fault::kVanish, 5},   {Fault::kStall, 6},   {Fault::kCut, 5},
                               {Fault::kCutBoth, 5}, {Fault::kReset, 6},    {Fault::kSilence, 3}, {Fault::kSlow, 3},
                               {Fault::kKernels, 2}, {Fault::kJoin, 8},     {Fault::kLeave, 6},   {Fault::kStop, 4},
                               {Fault::kTimeout, 3}, {Fault::kMismatch, 3}, {Fault::kSkip, 3},    {Fault::kSpoil, 8},
                               {Fault::kDrift, 12}};

void draw_network(Plan& plan, Draws& draws) {
  NetworkOptions& net = plan.network;
  net.mode = plan.mode;
  const std::int64_t profile = static_cast<std::int64_t>(draws.range(0, 2));  // rack, region, world
  net.latency_lo_ns = profile == 0 ? 20'000 : profile == 1 ? 200'000 : 2'000'000;
  net.latency_hi_ns = profile == 0 ? 60'000 : profile == 1 ? 2'000'000 : 80'000'000;
  net.jitter_ns = net.latency_lo_ns / static_cast<std::int64_t>(draws.range(1, 20));
  net.rate_bytes_per_s = profile == 0 ? 1'000'000'000 : profile == 1 ? 200'000'000 : 20'000'000;
  net.window_bytes = draws.one_of<std::uint64_t>({2'000, 16'384, 262'144, 262'144});
  net.short_permille = draws.one_of<std::uint64_t>({0, 50, 200, 500});
  net.pieces_permille = draws.one_of<std::uint64_t>({0, 100, 500});
  net.apart_permille = draws.one_of<std::uint64_t>({0, 200, 1000});
  net.busy_permille = draws.one_of<std::uint64_t>({50, 250, 1000, 1000});
  net.host_delay_ns = draws.one_of<std::int64_t>({2'000, 5'000, 50'000});
  net.revoke_delay_ns = draws.one_of<std::int64_t>({10'000, 200'000, 5'000'000});
  plan.delays.kernel = microseconds(static_cast<std::int64_t>(draws.one_of<std::uint64_t>({2, 20, 1000})));
  plan.delays.timer = microseconds(static_cast<std::int64_t>(draws.one_of<std::uint64_t>({10, 100, 5000})));
}

void draw_program(Plan& plan, Draws& draws) {
  plan.program.steps_per_admit = static_cast<std::uint32_t>(draws.range(1, 4));
  plan.program.ops_per_step = static_cast<std::uint32_t>(draws.range(1, 4));
  plan.program.max_count = plan.mode == Mode::kBytes ? draws.one_of<std::uint64_t>({7, 64, 1000, 5000})
                                                     : draws.one_of<std::uint64_t>({7, 64, 1000, 20'000});
  plan.links.segment_bytes = static_cast<std::uint32_t>(draws.one_of<std::uint64_t>({0, 64, 1024, 16'384}));
  // In a large world a large tensor takes thousands of messages.
  if (plan.peers > 8 && draws.permille(700))
    plan.program.max_count = std::min<std::uint64_t>(plan.program.max_count, 1000);
  // Not so many round trips through a small window, and not so many segments, that a run takes for ever.
  plan.network.window_bytes = std::max(plan.network.window_bytes, plan.program.max_count * 8 / 50);
  const std::uint64_t bytes = plan.program.max_count * 8;
  if (plan.links.segment_bytes != 0 && bytes / plan.links.segment_bytes > 64) {
    plan.links.segment_bytes = static_cast<std::uint32_t>(bytes / 64 / 8 * 8);
  }
}

Entry draw_entry(const Plan& plan, Dice dice, const std::vector<Weight>& weights, std::uint64_t n) {
  DrawSeries range(dice, Purpose::kFault, n, DrawSeries::Counter::kSecondKey);
  std::uint32_t total = 0;
  for (const Weight& w : weights) total += w.weight;
  std::uint64_t at = range(0, total - 1);
  Entry entry;
  for (const Weight& w : weights) {
    entry.fault = w.fault;
    if (at < w.weight) break;
    at -= w.weight;
  }
  const auto beat = static_cast<std::uint64_t>(plan.heartbeat.ns);
  if (range(0, 3) == 0) {
    entry.after =
        nanoseconds(static_cast<std::int64_t>(range(0, static_cast<std::uint64_t>(plan.end.safety.ns)) >> range(0, 3)));
  } else {  // soon after something was launched
    entry.launch = range(1, std::uint64_t{5} * plan.peers);
    const std::uint64_t far = static_cast<std::uint64_t>(plan.network.latency_hi_ns) * 6 + 200'000;
    entry.after = nanoseconds(static_cast<std::int64_t>(range(0, far) >> range(0, 4)));
  }
  if (n > 0 && range(0, 2) == 0) {  // hard on the heels of the one before: in the middle of what that has set off
    const Entry& before = plan.entries.back();
    entry.launch = before.launch;
    const std::uint64_t far = static_cast<std::uint64_t>(plan.network.latency_hi_ns) * 4 + 100'000;
    entry.after = before.after + nanoseconds(static_cast<std::int64_t>(range(0, far) >> range(0, 3)));
  }
  entry.a = static_cast<std::uint32_t>(range(1, plan.peers));
  entry.b = static_cast<std::uint32_t>(range(1, plan.peers - 1));
  if (entry.b >= entry.a) entry.b += 1;
  const bool of_pair = is_of_pair(entry.fault);
  if (of_pair && range(0, 3) == 0) (range(0, 1) == 0 ? entry.a : entry.b) = 0;  // the way to the coordinator
  if (!of_pair) entry.b = 0;
  if (entry.fault == Fault::kStall && range(0, 9) == 0) entry.a = 0;
  switch (entry.fault) {
    case Fault::kCrash:
    case Fault::kVanish:
    case Fault::kLeave:
      entry.length = nanoseconds(static_cast<std::int64_t>(range(0, 2) == 0 ? 0 : range(1, beat * 12)));
      break;
    case Fault::kStall:
    case Fault::kCut:
    case Fault::kCutBoth:
    case Fault::kSlow:
    case Fault::kKernels:
    case Fault::kSpoil:
    case Fault::kStrangers:
      entry.length = nanoseconds(static_cast<std::int64_t>(range(1, beat * 16) >> range(0, 4)));
      break;
    case Fault::kTimeout:
      entry.length = nanoseconds(static_cast<std::int64_t>(range(1, beat * 4) >> range(0, 10)));
      break;
    case Fault::kReset:
    case Fault::kSilence:
    case Fault::kJoin:
    case Fault::kStop:
    case Fault::kMismatch:
    case Fault::kRefuse:
    case Fault::kSkip:
    case Fault::kDrift:
    case Fault::kAbandon:
    case Fault::kMute:
    case Fault::kShut:
    case Fault::kLie:
    case Fault::kDrip:
    case Fault::kFlip:
    case Fault::kMiscompute: break;
  }
  if (entry.fault == Fault::kSlow || entry.fault == Fault::kKernels) entry.number = range(2, 100);
  if (entry.fault == Fault::kReset && range(0, 1) == 0) {  // repeated resets, while lost bytes are sent again
    entry.number = range(2, 20);
    const std::uint64_t far = static_cast<std::uint64_t>(plan.network.latency_hi_ns) * 4 + 200'000;
    entry.length = nanoseconds(static_cast<std::int64_t>(range(1, far) >> range(0, 4)));
    if (entry.a != 0 && entry.b != 0 && range(0, 1) == 0) entry.b = entry.a;
  }
  return entry;
}

// Some machines that vanish never come back: the others must go on without them. As many stay as the run needs.
void bury(Plan& plan, Draws& draws) {
  if (plan.gangs.size > 1) return;
  std::uint32_t stay = plan.peers;
  std::vector<std::uint32_t> buried;
  for (Entry& entry : plan.entries) {
    if (entry.fault != Fault::kVanish || !draws.permille(500)) continue;
    const bool again = std::find(buried.begin(), buried.end(), entry.a) != buried.end();
    if (!again && stay - 1 < std::max({plan.founders, plan.minimum_world, plan.gangs.groups})) continue;
    if (!again) {
      buried.push_back(entry.a);
      stay -= 1;
    }
    entry.number = 1;
  }
}

// Some programs are not killed: they give up by themselves.
void give_up(Plan& plan, Dice dice) {
  constexpr std::uint32_t kPermille = 60;
  for (std::size_t n = 0; n < plan.entries.size(); ++n) {
    Entry& entry = plan.entries[n];
    if (entry.fault != Fault::kCrash || !dice.permille(kPermille, Purpose::kFault, n, 1000)) continue;
    entry.fault = Fault::kAbandon;
    entry.length = {};
    entry.number = dice.permille(500, Purpose::kImpostor, n) ? 1 : 0;
    if (entry.number == 0 && dice.permille(500, Purpose::kViolator, 4, n)) {
      entry.number = dice.range(kAdminEvicts, kStrangerEvicts, Purpose::kViolator, 5, n);
    }
    if (entry.number == 0 && dice.permille(500, Purpose::kWrongKey, 0, n)) {
      entry.number = dice.range(kOtherKey, kOtherKeyFirst, Purpose::kWrongKey, 1, n);
    }
  }
}

// A stranger's program joins, stays alive and answers no proposal, or only the first; it joins again after it was
// disconnected. In runs without other events no other peer pays for it.
void mute_some(Plan& plan, Dice dice) {
  const bool alone = plan.entries.empty();
  const auto range = [&](std::uint64_t lo, std::uint64_t hi, std::uint64_t n) {
    return dice.range(lo, hi, Purpose::kMute, 0, n);
  };
  if (!dice.permille(alone ? 400 : 30, Purpose::kMute, 0, 0)) return;
  if (alone) plan.end.safety = plan.heartbeat * static_cast<std::int64_t>(range(20, 60, 1));
  const auto beat = static_cast<std::uint64_t>(plan.heartbeat.ns);
  Entry entry;
  entry.fault = Fault::kMute;
  const bool newcomer = plan.founders < plan.peers;
  entry.a = static_cast<std::uint32_t>(range(newcomer ? plan.founders + 1 : 1, plan.peers, 2));
  const auto begin = range(0, 3, 3) == 0 ? 0 : range(0, beat * 4, 4);
  entry.after = nanoseconds(static_cast<std::int64_t>(begin));
  entry.length = nanoseconds(static_cast<std::int64_t>(range(beat * 4, beat * 40, 5)));
  entry.number = range(0, 3, 6) == 0 ? 1 : 0;
  plan.entries.push_back(entry);
  if (!newcomer) return;
  entry.fault = Fault::kJoin;
  entry.after = entry.after + nanoseconds(static_cast<std::int64_t>(range(1, beat * 4, 7) >> range(0, 3, 8)));
  entry.length = {};
  entry.number = 0;
  plan.entries.push_back(entry);
}

// Programs refuse some of their own calls. Whoever waits for such a call has no time-out.
void refuse_some(Plan& plan, Dice dice) {
  constexpr std::uint32_t kPermille = 100;
  if (plan.entries.empty() || !dice.permille(kPermille, Purpose::kRefuse, 0)) return;
  const auto range = [&](std::uint64_t lo, std::uint64_t hi, std::uint64_t n) {
    return dice.range(lo, hi, Purpose::kRefuse, 1, n);
  };
  if (range(0, 2, 0) == 0) plan.entries.clear();  // nothing else happens: a bound on time holds
  const std::uint64_t many = range(1, 4, 1);
  for (std::uint64_t n = 0; n < many; ++n) {
    Entry entry;
    entry.fault = Fault::kRefuse;
    entry.launch = range(1, std::uint64_t{20} * plan.peers, 10 + 2 * n);
    entry.a = static_cast<std::uint32_t>(range(1, plan.peers, 11 + 2 * n));
    plan.entries.push_back(entry);
  }
}

// One process dies, or the streams between two hosts are reset, or a bit flips between them, once, and nothing else
// happens: for P3. `whom`: hosts 1..whom.
Entry one_break(Dice dice, std::uint32_t whom, std::uint64_t far) {
  const auto range = [&](std::uint64_t lo, std::uint64_t hi, std::uint64_t n) {
    return dice.range(lo, hi, Purpose::kOnce, 0, n);
  };
  Entry entry;
  entry.fault = range(0, 2, 2) == 0 ? Fault::kCrash : Fault::kReset;
  entry.launch = range(1, std::uint64_t{5} * whom, 3);
  entry.after = nanoseconds(static_cast<std::int64_t>(range(0, far, 4) >> range(0, 6, 5)));
  entry.a = static_cast<std::uint32_t>(range(1, whom, 6));
  if (entry.fault == Fault::kCrash) return entry;
  if (range(0, 2, 8) == 0) entry.fault = Fault::kFlip;
  entry.number = 1;
  entry.b = static_cast<std::uint32_t>(range(1, whom - 1, 7));
  if (entry.b >= entry.a) entry.b += 1;
  return entry;
}

void break_once(Plan& plan, Dice dice) {
  const auto range = [&](std::uint64_t lo, std::uint64_t hi, std::uint64_t n) {
    return dice.range(lo, hi, Purpose::kOnce, 1, n);
  };
  if (plan.founders < 2 || !dice.permille(plan.entries.empty() ? 500 : 40, Purpose::kOnce, 2)) return;
  plan.end.safety = plan.heartbeat * static_cast<std::int64_t>(range(20, 60, 0));
  plan.end.heal_after = plan.heartbeat * static_cast<std::int64_t>(range(8, 20, 1));
  const bool newcomer = plan.peers > 2 && plan.gangs.groups == 1 && !plan.auto_admit && range(0, 1, 2) == 0;
  const std::uint64_t far = static_cast<std::uint64_t>(plan.network.latency_hi_ns) * 6 + 200'000;
  plan.entries = {one_break(dice, plan.founders, far)};
  if (!newcomer) return;
  // While a newcomer takes over a state, its sources among them.
  plan.state.shared = true;
  plan.state.pieces = static_cast<std::uint32_t>(range(8, 16, 3));
  const std::uint32_t most = std::min(plan.founders, plan.peers - 1);
  plan.founders = range(0, 1, 4) == 0 ? 1 : most;
  plan.minimum_world = 1;
  plan.network.rate_bytes_per_s = std::min<std::uint64_t>(plan.network.rate_bytes_per_s, 4'000'000);
  Entry& entry = plan.entries.front() = one_break(dice, plan.founders + 1, 20'000'000);
  if (plan.founders == 1) entry = {.fault = Fault::kReset, .after = entry.after, .a = 1, .b = 2, .number = 1};
  if (entry.fault == Fault::kCrash) entry.a = std::min(entry.a, plan.founders);
  entry.launch = 0;
  entry.view = 2;
  entry.after = microseconds(static_cast<std::int64_t>(range(500, 15'000, 5)));
  const Duration later = milliseconds(20) + nanoseconds(plan.network.latency_hi_ns * 10);  // than the founding
  plan.entries.push_back({.fault = Fault::kJoin, .after = later, .a = plan.founders + 1});
}

// Lines that are nearly dead, for L5: some of one peer, or of several, and nothing else happens. In other plans such
// lines take the place of some that are slow.
void draw_drips(Plan& plan, Dice dice) {
  const auto range = [&](std::uint64_t lo, std::uint64_t hi, std::uint64_t n, std::uint64_t key = 0) {
    return dice.range(lo, hi, Purpose::kDrip, key, n);
  };
  const auto beat = static_cast<std::uint64_t>(plan.heartbeat.ns);
  for (std::size_t n = 0; n < plan.entries.size(); ++n) {
    Entry& entry = plan.entries[n];
    if (entry.fault != Fault::kSlow || range(0, 3, n, 1) != 0) continue;
    entry.fault = Fault::kDrip;
    entry.number = range(0, 2, n, 2) == 0 ? 0 : range(1, 2000, n, 2) >> range(0, 11, n, 3);
    entry.length = entry.length * static_cast<std::int64_t>(range(1, 4, n, 4));
  }
  if (plan.founders < 2 || plan.peers > 16 || !dice.permille(plan.entries.empty() ? 300 : 25, Purpose::kDrip, 0, 0))
    return;
  plan.entries.clear();
  plan.end.safety = plan.heartbeat * static_cast<std::int64_t>(range(80, 160, 1));
  plan.end.heal_after = plan.heartbeat * static_cast<std::int64_t>(range(8, 20, 2));
  const auto victim = static_cast<std::uint32_t>(range(1, plan.founders, 3));
  const std::uint64_t begin = range(beat * 4, beat * 20, 4);
  const std::uint64_t kind = range(0, 3, 5);  // one way of one link, one link, all links, those and the coordinator's
  for (std::uint32_t other = kind == 3 ? 0 : 1; other <= plan.peers; ++other) {
    const bool one = kind < 2 && other != victim % plan.peers + 1;
    if (other == victim || one) continue;
    Entry entry;
    entry.fault = Fault::kDrip;
    entry.after = nanoseconds(static_cast<std::int64_t>(begin + (range(0, beat * 2, other, 5) >> range(0, 8, 6))));
    entry.length = nanoseconds(static_cast<std::int64_t>(range(beat * 40, beat * 70, 7)));
    entry.a = victim;
    entry.b = other;
    entry.number = range(1, 8, 8);
    const std::uint64_t ways = kind == 0 ? range(0, 1, 9) : range(0, 4, 9);  // from it, to it, or both
    if (ways != 1) plan.entries.push_back(entry);
    std::swap(entry.a, entry.b);
    if (ways != 0) plan.entries.push_back(entry);
  }
}

// Few seeds: strangers take many events. Most come from the host of a peer, whose address they share then.
void draw_strangers(Plan& plan, Dice dice) {
  constexpr std::uint32_t kPermille = 60;
  constexpr std::uint64_t kMostPorts = 3;
  constexpr std::uint64_t kMost = 24;
  if (!dice.permille(kPermille, Purpose::kStranger, 0, 0)) return;
  const std::uint64_t ports = dice.range(1, kMostPorts, Purpose::kStranger, 0, 1);
  for (std::uint64_t n = 0; n < ports; ++n) {
    DrawSeries range(dice, Purpose::kStranger, 1 + n, DrawSeries::Counter::kSecondKey);
    Entry entry;
    entry.fault = Fault::kStrangers;
    entry.after = nanoseconds(static_cast<std::int64_t>(range(0, static_cast<std::uint64_t>(plan.end.safety.ns) / 2)));
    entry.length = nanoseconds(static_cast<std::int64_t>(
        range(static_cast<std::uint64_t>(plan.heartbeat.ns), static_cast<std::uint64_t>(plan.end.safety.ns))));
    entry.a = static_cast<std::uint32_t>(range(0, 2) == 0 ? 0 : range(1, plan.peers));
    entry.b = static_cast<std::uint32_t>(range(1, plan.peers));
    if (entry.b == entry.a) entry.b = entry.b % plan.peers + 1;
    entry.number = range(1, kMost);
    plan.entries.push_back(entry);
  }
}

// Rarely so many bytes that a far broadcast or reduce goes through owners (rule 57).
void draw_many_bytes(Plan& plan, Dice dice) {
  const bool fits = plan.mode == Mode::kToken && plan.peers >= 5 && plan.peers <= 10;
  if (!fits || !dice.permille(40, Purpose::kReduce, 0, 0, 1)) return;
  plan.program.max_count = 200'000;
  plan.program.reduces = true;
  plan.links.segment_bytes = 0;
  plan.network.window_bytes = std::max(plan.network.window_bytes, plan.program.max_count * 8 / 50);
}

// So few bytes that ranks own what their lines carry (rule 58), and windows so short that lines are measured.
void draw_by_rate(Plan& plan, Dice dice) {
  if (!dice.permille(300, Purpose::kReduce, 0, 0, 2)) return;
  plan.links.by_rate_bytes = static_cast<std::uint32_t>(dice.range(1, 400, Purpose::kReduce, 0, 0, 3));
  const auto longest = static_cast<std::uint64_t>(std::max<std::int64_t>(plan.network.latency_hi_ns, 1000));
  plan.links.rate_window = nanoseconds(static_cast<std::int64_t>(dice.range(1, longest, Purpose::kReduce, 0, 0, 4)));
  if (!dice.permille(500, Purpose::kReduce, 0, 0, 6)) return;
  plan.links.most_stripes = static_cast<std::uint32_t>(dice.range(2, 8, Purpose::kReduce, 0, 0, 7));
  plan.network.resends = true;
}

// So little that what peers send waits for it.
void draw_rate_limit(Plan& plan, Dice dice) {
  if (!dice.permille(60, Purpose::kReduce, 0, 0, 8)) return;
  plan.links.bytes_per_second = dice.range(20'000, 1'000'000, Purpose::kReduce, 0, 0, 9);
}

// What the calls of a program are, beside all-reduces around the ring. The program itself draws transfers with 0 and 1.
void draw_kinds_of_calls(Plan& plan, Dice dice) {
  plan.program.reduces = dice.permille(500, Purpose::kReduce, 0);
  plan.program.exchanges = dice.permille(500, Purpose::kExchange, 0);
  plan.program.transfers = dice.permille(400, Purpose::kTransfer, 0, 0, 2);
  plan.program.grids = dice.permille(500, Purpose::kReduce, 0, 0, 5);
}

// Programs that think long between two steps, each for another time: calls wait for members that have not called.
void draw_thinkers(Plan& plan, Dice dice) {
  if (plan.auto_admit || plan.gangs.groups > 1 || !dice.permille(25, Purpose::kThink, 0, 0, 1)) return;
  plan.program.think = plan.heartbeat * static_cast<std::int64_t>(dice.range(8, 40, Purpose::kThink, 0, 0, 2));
  plan.program.call_timeout = {};
  plan.links.window = kRoundWindow;
  std::erase_if(plan.entries, [](const Entry& entry) { return entry.fault != Fault::kJoin; });
}

// States that differ in little, memory that holds parts of two, and sources that die while pieces come: one after the
// other, too.
void draw_states(Plan& plan, Dice dice) {
  if (!plan.state.shared) return;
  plan.state.small_changes = dice.permille(400, Purpose::kTorn, 0, 0, 1);
  if (dice.permille(250, Purpose::kTorn, 0, 0, 2)) plan.state.torn_permille = 400;
  if (dice.permille(250, Purpose::kState, 0, 0, 17)) plan.state.ahead_permille = 300;
  if (dice.permille(200, Purpose::kState, 0, 0, 20)) plan.state.stray_permille = 200;
  if (plan.entries.empty() || !dice.permille(350, Purpose::kAtPiece, 0)) return;
  DrawSeries range(dice, Purpose::kAtPiece, 1, DrawSeries::Counter::kSecondKey);
  constexpr Fault kDeaths[] = {Fault::kCrash, Fault::kCrash, Fault::kVanish, Fault::kReset, Fault::kLeave};
  const auto way = static_cast<std::uint64_t>(plan.network.latency_hi_ns) * 4 + 100'000;
  std::uint64_t piece = range(1, std::uint64_t{6} * plan.peers);
  for (std::uint64_t n = range(1, 4); n > 0; --n) {
    Entry entry;
    entry.fault = kDeaths[range(0, std::size(kDeaths) - 1)];
    entry.piece = piece;
    entry.after = nanoseconds(static_cast<std::int64_t>(range(0, way) >> range(0, 6)));
    entry.a = static_cast<std::uint32_t>(range(1, plan.peers));
    if (entry.fault == Fault::kReset) {
      entry.b = entry.a;
    } else if (range(0, 2) != 0) {
      entry.length =
          nanoseconds(static_cast<std::int64_t>(range(1, static_cast<std::uint64_t>(plan.heartbeat.ns) * 4)));
    }
    plan.entries.push_back(entry);
    piece += range(0, 4);  // while what the one before has set off goes on
  }
}

// A second gang comes with the name of the first, which goes at some time: politely, or because it loses one.
void draw_namesakes(Plan& plan, Dice dice) {
  constexpr std::uint64_t kPermille = 200;
  if (plan.gangs.size == 1 || plan.peers < 2 * plan.gangs.size || !dice.permille(kPermille, Purpose::kNamesake, 0))
    return;
  plan.gangs.namesakes = true;
  // Peers of both gangs may form a gang of peers of one group. The other groups would then have no members until the
  // next gang founds them, at another step than the rest of the run: the program's mistake, and not the library's.
  plan.gangs.groups = 1;
  plan.founders = std::min(plan.founders, plan.peers - plan.gangs.size);
  DrawSeries range(dice, Purpose::kNamesake, 1);
  const auto beat = static_cast<std::uint64_t>(plan.heartbeat.ns);
  const auto within = [&](std::uint64_t beats) {
    return nanoseconds(static_cast<std::int64_t>(range(0, beat * beats)));
  };
  const Duration comes = within(6);
  for (std::uint32_t mate = 0; mate < plan.gangs.size; ++mate) {
    plan.entries.push_back({.fault = Fault::kJoin, .after = comes + within(1), .a = plan.peers - mate});
  }
  constexpr Fault kGoings[] = {Fault::kCrash, Fault::kLeave, Fault::kLeave, Fault::kAbandon};
  Duration goes = comes;
  for (std::uint64_t times = range(1, 3); times > 0; --times) {
    Entry entry;
    entry.fault = kGoings[range(0, std::size(kGoings) - 1)];
    goes = goes + within(12);
    entry.after = goes;
    const bool first = range(0, 3) != 0;
    entry.a = static_cast<std::uint32_t>(range(1, plan.gangs.size));
    if (!first) entry.a += plan.peers - plan.gangs.size;
    if (entry.fault != Fault::kAbandon && range(0, 1) == 0) entry.length = nanoseconds(1) + within(6);
    plan.entries.push_back(entry);
  }
  plan.end.safety = std::max(plan.end.safety, goes + plan.heartbeat * 4);
}

// Newcomers hold what members publish, for many steps without an admission. Then all members die, and the newcomers
// found the run anew. In half of these plans a newcomer stands still at that moment.
void lose_all_members(Plan& plan, Dice dice) {
  const bool may =
      plan.state.shared && plan.gangs.groups == 1 && plan.gangs.size == 1 && plan.peers >= 3 && plan.peers <= 12;
  if (!may || !dice.permille(plan.entries.empty() ? 300 : 50, Purpose::kHolders, 0)) return;
  DrawSeries range(dice, Purpose::kHolders, 1);
  const auto beat = static_cast<std::uint64_t>(plan.heartbeat.ns);
  const auto time = [&](std::uint64_t lo, std::uint64_t hi) {
    return nanoseconds(static_cast<std::int64_t>(range(lo, hi)));
  };
  plan.entries.clear();
  plan.founders = static_cast<std::uint32_t>(range(1, std::min(3U, plan.peers - 2)));
  plan.minimum_world = 1;
  plan.state.publish = true;
  plan.state.republish_permille = 50U << range(0, 4);
  plan.state.all_vote = true;
  plan.program.steps_per_admit = static_cast<std::uint32_t>(range(8, 60));
  const Duration lost = time(beat * 6, beat * 30);
  for (std::uint32_t host = plan.founders + 1; host <= plan.peers; ++host) {
    plan.entries.push_back({.fault = Fault::kJoin, .after = time(0, static_cast<std::uint64_t>(lost.ns)), .a = host});
  }
  const std::uint64_t spread = range(0, 2) == 0 ? 0 : range(0, beat * 16);
  Entry death;
  Duration founded;
  for (std::uint32_t host = 1; host <= plan.founders; ++host) {
    death.fault = range(0, 2) == 0 ? Fault::kVanish : Fault::kCrash;
    death.after = lost + time(0, spread);
    death.a = host;
    death.length = range(0, 2) == 0 ? time(beat, beat * 12) : Duration{};
    plan.entries.push_back(death);
    founded = std::max(founded, death.after + (death.fault == Fault::kVanish ? time(beat * 4, beat * 7) : Duration{}));
  }
  if (range(0, 1) == 0) {
    const auto far = static_cast<std::uint64_t>(founded.ns);
    Entry stall;
    stall.fault = Fault::kStall;
    stall.after = nanoseconds(static_cast<std::int64_t>(far - (range(0, beat) >> range(0, 8))));
    stall.a = static_cast<std::uint32_t>(range(plan.founders + 1, plan.peers));
    stall.length = time(beat / 8, beat * 7);
    plan.entries.push_back(stall);
  }
  plan.end.safety = founded + plan.heartbeat * static_cast<std::int64_t>(range(10, 40));
  plan.end.heal_after = plan.heartbeat * static_cast<std::int64_t>(range(8, 20));
}

// Peers leave during open work: a round that flows or commits, a view that members install one by one, a sync. In half
// of these plans a peer dies just before.
void leave_midway(Plan& plan, Dice dice) {
  if (!dice.permille(plan.entries.empty() ? 150 : 40, Purpose::kMidway, 0)) return;
  DrawSeries range(dice, Purpose::kMidway, 1);
  Entry entry;
  switch (range(0, plan.state.shared ? 3 : 2)) {
    case 0: entry.launch = range(1, std::uint64_t{8} * plan.peers); break;
    case 1: entry.commit = range(1, 20); break;
    case 2: entry.view = range(2, 3 + plan.peers); break;
    default: entry.piece = range(1, std::uint64_t{6} * plan.peers); break;
  }
  const auto way = static_cast<std::uint64_t>(plan.network.latency_hi_ns) * 2 + 100'000;
  const auto soon = [&] { return nanoseconds(static_cast<std::int64_t>(range(0, way) >> range(0, 5))); };
  entry.fault = range(0, 1) == 0 ? Fault::kLeave : Fault::kCrash;
  for (std::uint64_t leavers = range(1, 3); leavers > 0; --leavers) {
    entry.after = entry.after + soon();
    entry.a = static_cast<std::uint32_t>(range(1, plan.peers));
    entry.length =
        range(0, 2) == 0
            ? Duration{}
            : nanoseconds(static_cast<std::int64_t>(range(1, static_cast<std::uint64_t>(plan.heartbeat.ns) * 12)));
    plan.entries.push_back(entry);
    entry.fault = Fault::kLeave;
  }
}

// A newcomer stalls again and again while it joins: it answers proposals late, with a different delay each time.
void answer_late(Plan& plan, Dice dice) {
  const bool newcomer = plan.founders < plan.peers && plan.gangs.size == 1;
  if (!newcomer || !dice.permille(plan.entries.empty() ? 150 : 20, Purpose::kLate, 0)) return;
  DrawSeries range(dice, Purpose::kLate, 1);
  const auto beat = static_cast<std::uint64_t>(plan.heartbeat.ns);
  Entry entry;
  entry.fault = Fault::kJoin;
  entry.a = static_cast<std::uint32_t>(range(plan.founders + 1, plan.peers));
  entry.after = nanoseconds(static_cast<std::int64_t>(range(0, beat * 4)));
  plan.entries.push_back(entry);
  entry.fault = Fault::kStall;
  for (std::uint64_t stalls = range(4, 12); stalls > 0; --stalls) {
    entry.after = entry.after + entry.length + nanoseconds(static_cast<std::int64_t>(range(0, beat) >> range(0, 6)));
    entry.length = nanoseconds(static_cast<std::int64_t>(range(1, beat * 2) >> range(0, 6)));
    plan.entries.push_back(entry);
  }
  plan.end.safety = std::max(plan.end.safety, entry.after + plan.heartbeat * 10);
}

void draw_age(Plan& plan, Dice dice) {
  plan.aged = dice.permille(60, Purpose::kAge, 0, 0, 1);
  // The programs of two groups would be out of step for ever after one has skipped a call: no tag of theirs would meet
  // again.
  plan.fresh_tags = !plan.auto_admit && plan.gangs.groups == 1 && dice.permille(80, Purpose::kAge, 0, 0, 2);
}

// Little work and no rest: the first lives through all of it, the others come and go all the time.
void live_long(Plan& plan, Dice dice, bool bytes) {
  std::uint64_t k = 1;
  const auto range = [&](std::uint64_t lo, std::uint64_t hi) { return dice.range(lo, hi, Purpose::kLongLife, k++); };
  plan.peers = static_cast<std::uint32_t>(range(3, 5));
  plan.founders = static_cast<std::uint32_t>(range(1, 2));
  plan.gangs.groups = plan.gangs.size = plan.minimum_world = 1;
  plan.gangs.namesakes = false;
  plan.mode = plan.network.mode = bytes ? Mode::kBytes : Mode::kToken;
  plan.program.max_count = 8;
  plan.links.segment_bytes = 0;
  plan.program.ops_per_step = static_cast<std::uint32_t>(range(1, 3));
  plan.program.steps_per_admit = static_cast<std::uint32_t>(range(1, 4));
  plan.network.latency_lo_ns = 20'000;
  plan.network.latency_hi_ns = 200'000;
  plan.network.jitter_ns = 10'000;
  plan.network.rate_bytes_per_s = 1'000'000'000;
  plan.network.window_bytes = 262'144;
  plan.network.revoke_delay_ns = 10'000;
  plan.delays.kernel = microseconds(2);
  plan.delays.timer = microseconds(100);
  plan.heartbeat = milliseconds(20);
  plan.program.think = microseconds(static_cast<std::int64_t>(range(1, 4)) * 100);
  plan.program.call_timeout = {};
  plan.end.heal_after = nanoseconds(1);
  plan.end.safety = plan.heartbeat * 60;
  plan.fresh_tags = !plan.auto_admit && range(0, 1) == 0;
  plan.entries.clear();
  constexpr Fault kGoings[] = {Fault::kCrash, Fault::kCrash, Fault::kLeave, Fault::kAbandon};
  constexpr std::uint64_t kTimes = 60;
  for (std::uint64_t n = 0; n < kTimes; ++n) {
    Entry entry;
    entry.fault = kGoings[range(0, std::size(kGoings) - 1)];
    const auto safety = static_cast<std::uint64_t>(plan.end.safety.ns);
    entry.after = nanoseconds(static_cast<std::int64_t>(safety * n / (kTimes + 1) + range(0, safety / kTimes)));
    entry.a = static_cast<std::uint32_t>(range(2, plan.peers));
    if (entry.fault != Fault::kAbandon) entry.length = microseconds(static_cast<std::int64_t>(range(100, 20'000)));
    plan.entries.push_back(entry);
  }
}

// Some pairs cannot reach each other for so long that rings are laid around them; and somebody leaves, in the midst of
// that or long after it is over. No fault that is drawn one by one lasts as long as it takes until a link is called
// broken.
void part(Plan& plan, Dice dice) {
  constexpr std::uint64_t kPermille = 10;
  if (plan.peers < 3 || plan.peers > 8 || plan.gangs.size > 1) return;
  if (!dice.permille(kPermille, Purpose::kParted, 0)) return;
  DrawSeries range(dice, Purpose::kParted, 1);
  const auto beats = [&](std::uint64_t lo, std::uint64_t hi) {
    return plan.heartbeat * static_cast<std::int64_t>(range(lo, hi));
  };
  Entry cut;
  cut.fault = Fault::kCutBoth;
  cut.after = beats(2, 8);
  cut.a = static_cast<std::uint32_t>(range(1, plan.peers));
  cut.b = 1 + (cut.a - 1 + static_cast<std::uint32_t>(range(1, plan.peers - 1))) % plan.peers;
  cut.length = beats(26, 50);
  // In half of these nothing else happens, and only three stay.
  const bool alone = range(0, 1) == 0;
  if (alone) {
    plan.entries.clear();
    plan.founders = plan.peers;
  }
  plan.entries.push_back(cut);
  Entry leave;
  leave.fault = Fault::kLeave;
  leave.after = cut.after + beats(24, 160);
  std::uint32_t leavers = alone ? std::max(1U, plan.peers - 3) : 1;
  for (std::uint32_t host = 1; host <= plan.peers && leavers > 0; ++host) {
    if (host == cut.a || host == cut.b) continue;
    leave.a = host;
    plan.entries.push_back(leave);
    leavers -= 1;
  }
  plan.end.safety = std::max(plan.end.safety, leave.after + plan.heartbeat * 10);
}

// One member lies, or two do, in few runs; in a quarter of these nothing else happens.
void draw_liars(Plan& plan, Dice dice) {
  constexpr std::uint32_t kPermille = 60;
  if (plan.founders < 2 || plan.peers > 16 || plan.gangs.namesakes || !dice.permille(kPermille, Purpose::kLiar, 0))
    return;
  DrawSeries range(dice, Purpose::kLiar, 1);
  const auto beat = static_cast<std::uint64_t>(plan.heartbeat.ns);
  if (range(0, 3) == 0) plan.entries.clear();
  plan.end.safety = std::max(plan.end.safety, plan.heartbeat * static_cast<std::int64_t>(range(20, 60)));
  std::uint64_t liars = plan.peers > 3 && range(0, 3) == 0 ? 2 : 1;
  for (; liars > 0; --liars) {
    Entry entry;
    entry.fault = Fault::kLie;
    entry.a = static_cast<std::uint32_t>(range(1, plan.peers));
    entry.after = nanoseconds(static_cast<std::int64_t>(range(0, beat * 16) >> range(0, 8)));
    entry.length = nanoseconds(static_cast<std::int64_t>(range(beat * 4, beat * 40)));
    constexpr std::uint64_t kOneIn[] = {1, 2, 8, 32, 100, 400};
    entry.number = kOneIn[range(0, std::size(kOneIn) - 1)];
    plan.entries.push_back(entry);
  }
}

// One member stops its calls, one after the other, until it has stopped too many; nothing else happens, since the limit
// is so low that other faults would make honest peers reach it.
void draw_stoppers(Plan& plan, Dice dice) {
  constexpr std::uint32_t kPermille = 15;
  if (plan.founders < 2 || plan.peers > 12 || plan.gangs.size > 1 || plan.auto_admit) return;
  if (!dice.permille(kPermille, Purpose::kViolator, 0)) return;
  DrawSeries range(dice, Purpose::kViolator, 1);
  plan.entries.clear();
  plan.program.call_timeout = {};
  plan.minimum_world = 1;
  constexpr Duration kShortest = milliseconds(10);  // in the seconds that follow, shorter steps are too many
  plan.program.think = std::max(std::min(plan.program.think, plan.heartbeat), kShortest);
  plan.program.stops_at_once = static_cast<std::uint32_t>(range(1, 8));
  Entry entry;
  entry.fault = Fault::kLie;
  entry.a = static_cast<std::uint32_t>(range(1, plan.peers));
  entry.after = nanoseconds(static_cast<std::int64_t>(range(0, static_cast<std::uint64_t>(plan.heartbeat.ns) * 8)));
  entry.length = seconds(static_cast<std::int64_t>(range(5, 15)));
  entry.number = range(1, 3);
  plan.entries.push_back(entry);
  plan.end.safety = std::max(plan.end.safety, entry.after + entry.length + plan.heartbeat * 10);
}

// Bits that flip, beside whatever else happens, and where nothing else does.
void flip_bits(Plan& plan, Dice dice) {
  const auto add = [&](Fault fault, Purpose purpose, std::uint64_t n) {
    const auto range = [&](std::uint64_t lo, std::uint64_t hi, std::uint64_t k) {
      return dice.range(lo, hi, purpose, n, k);
    };
    Entry entry;
    entry.fault = fault;
    entry.launch = range(1, std::uint64_t{6} * plan.peers, 0);
    const std::uint64_t far = static_cast<std::uint64_t>(plan.network.latency_hi_ns) * 4 + 200'000;
    entry.after = nanoseconds(static_cast<std::int64_t>(range(0, far, 1) >> range(0, 4, 2)));
    entry.a = static_cast<std::uint32_t>(range(1, plan.peers, 3));
    entry.b = static_cast<std::uint32_t>(range(1, plan.peers - 1, 4));
    if (entry.b >= entry.a) entry.b += 1;
    if (fault == Fault::kMiscompute) entry.b = 0;
    entry.number = range(0, 2, 5);
    plan.entries.push_back(entry);
  };
  if (dice.permille(200, Purpose::kFlip, 0, 100)) {
    for (std::uint64_t n = 0; n <= dice.range(0, 3, Purpose::kFlip, 0, 101); ++n) add(Fault::kFlip, Purpose::kFlip, n);
  }
  if (dice.permille(200, Purpose::kMiscompute, 0, 100)) add(Fault::kMiscompute, Purpose::kMiscompute, 0);
}

// In some plans there are two groups, and in some of these every peer of one has a mate in the other.
void draw_gangs(Plan& plan, Draws& draws) {
  if (!plan.auto_admit && draws.permille(150)) plan.gangs.groups = 2;
  if (plan.gangs.groups == 2 && draws.permille(500) && plan.peers >= 2) {
    plan.gangs.size = 2;
    plan.peers &= ~1U;
    plan.founders = std::max<std::uint32_t>(2, plan.founders & ~1U);
  }
}

// Limits of what is under way at once: few eager segments, and more calls than the window takes.
void narrow(Plan& plan, Draws& draws, Dice dice) {
  if (draws.permille(300))
    plan.links.eager_segments = static_cast<std::uint32_t>(draws.one_of<std::uint64_t>({0, 1, 2}));
  if (!dice.permille(350, Purpose::kWindow, 0)) return;
  plan.links.window = static_cast<std::uint32_t>(dice.range(1, 3, Purpose::kWindow, 1));
  if (dice.permille(700, Purpose::kWindow, 2))
    plan.program.ops_per_step = static_cast<std::uint32_t>(dice.range(3, 10, Purpose::kWindow, 3));
}

// Some peers that have just come are struck at once: while they look for the coordinator, greet, wait or are admitted.
// Faults at any moment of a run seldom meet these states.
void strike_newcomers(Plan& plan, Dice dice) {
  constexpr Fault kFaults[] = {Fault::kAbandon, Fault::kAbandon, Fault::kLeave,   Fault::kStop,
                               Fault::kStall,   Fault::kReset,   Fault::kSilence, Fault::kCut};
  const std::size_t drawn = plan.entries.size();
  for (std::size_t n = 0; n < drawn; ++n) {
    const Entry& coming = plan.entries[n];
    const bool returns = coming.length.ns > 0 && (coming.fault == Fault::kCrash || coming.fault == Fault::kVanish ||
                                                  coming.fault == Fault::kLeave);
    if ((coming.fault != Fault::kJoin && !returns) || !dice.permille(150, Purpose::kStrike, n, 0)) continue;
    DrawSeries range(dice, Purpose::kStrike, n);
    Entry strike = coming;
    strike.fault = kFaults[range(0, std::size(kFaults) - 1)];
    strike.number = strike.fault == Fault::kReset ? 1 : 0;
    if (is_of_pair(strike.fault)) strike.b = range(0, 2) != 0 ? 0 : 1 + strike.a % plan.peers;
    const std::uint64_t far = static_cast<std::uint64_t>(plan.network.latency_hi_ns) * 12 + 500'000;
    strike.after = coming.after + coming.length + nanoseconds(static_cast<std::int64_t>(range(1, far) >> range(0, 6)));
    const auto beats = static_cast<std::uint64_t>(plan.heartbeat.ns) * 16;
    const bool lasts = strike.fault == Fault::kStall || strike.fault == Fault::kCut;
    strike.length = lasts ? nanoseconds(static_cast<std::int64_t>(range(1, beats) >> range(0, 4))) : Duration{};
    plan.entries.push_back(strike);
  }
}

// The coordinator finds out which peers can be dialled. Some hosts let nobody in, most of them until the network heals;
// the dials to some of these reach another host, as where machines in different places have the same private address.
void shut_some(Plan& plan, Dice dice, bool calm) {
  constexpr std::uint32_t kPermille = 250;
  if (!dice.permille(kPermille, Purpose::kShut, 0)) return;
  plan.links.dials_back = true;
  DrawSeries range(dice, Purpose::kShut, 1);
  if (calm || range(0, 2) == 0) return;
  const std::uint64_t many = range(1, std::max<std::uint64_t>(1, plan.peers / 2));
  for (std::uint64_t n = 0; n < many; ++n) {
    Entry entry;
    entry.fault = Fault::kShut;
    entry.a = static_cast<std::uint32_t>(range(1, plan.peers));
    entry.length = plan.end.safety;
    if (range(0, 3) == 0) {
      const auto end = static_cast<std::uint64_t>(plan.end.safety.ns);
      entry.after = nanoseconds(static_cast<std::int64_t>(range(0, end) >> range(0, 3)));
      entry.length = nanoseconds(static_cast<std::int64_t>(range(1, end) >> range(0, 3)));
    }
    entry.number = range(0, 1);
    if (range(0, 2) == 0) entry.b = 1 + (entry.a + static_cast<std::uint32_t>(range(0, plan.peers - 2))) % plan.peers;
    plan.entries.push_back(entry);
  }
}

void draw_rare_programs(Plan& plan, Dice dice, bool calm) {
  draw_thinkers(plan, dice);
  draw_many_bytes(plan, dice);
  draw_by_rate(plan, dice);
  draw_rate_limit(plan, dice);
  shut_some(plan, dice, calm);
}

void add_rare_faults(Plan& plan, Dice dice) {
  strike_newcomers(plan, dice);
  answer_late(plan, dice);
  draw_drips(plan, dice);
  lose_all_members(plan, dice);
  refuse_some(plan, dice);
}

}  // namespace

Plan plan_of(std::uint64_t seed, const PlanOptions& options) {
  const Dice dice(seed);
  Draws draws(dice);
  Plan plan;
  plan.seed = seed;
  const bool bytes = draws.permille(100);
  plan.mode = options.payload == PlanOptions::Payload::kDrawn   ? (bytes ? Mode::kBytes : Mode::kToken)
              : options.payload == PlanOptions::Payload::kBytes ? Mode::kBytes
                                                                : Mode::kToken;
  // Most worlds are small: a seed of thirty peers costs as much as fifteen of five, and finds little more. When one
  // world in seventeen was large, 1,500 seeds reached 985 cells of `cover`, and 981 with at most 12 peers in three
  // quarters of the time.
  const std::uint32_t size = draws.permille(700) ? 5 : draws.permille(930) ? 12 : kMaxDrawnPeers;
  const std::uint32_t most = std::clamp<std::uint32_t>(options.max_peers, 2, size);
  const auto drawn = static_cast<std::uint32_t>(draws.range(2, most));
  plan.peers = std::clamp<std::uint32_t>(options.peers != 0 ? options.peers : drawn, 2, kMaxPeers);
  plan.founders = static_cast<std::uint32_t>(draws.range(1, plan.peers));
  draw_network(plan, draws);
  draw_program(plan, draws);
  plan.heartbeat = milliseconds(draws.one_of<std::int64_t>({100, 200, 500}));
  if (plan.network.latency_hi_ns > 20'000'000) plan.heartbeat = std::max(plan.heartbeat, milliseconds(200));
  plan.links.stripes = static_cast<std::uint32_t>(draws.range(1, 3));
  plan.auto_admit = draws.permille(100);
  draw_gangs(plan, draws);
  plan.state.shared = !plan.auto_admit && draws.permille(500);
  plan.state.all_vote = !plan.state.shared || options.calm || !dice.permille(300, Purpose::kState, 0, 0, 4);
  plan.state.watch = plan.state.shared && dice.permille(400, Purpose::kState, 0, 0, 12);
  if (plan.gangs.groups == 1 && draws.permille(100))
    plan.minimum_world = static_cast<std::uint32_t>(draws.range(1, plan.founders));
  plan.program.think = nanoseconds(plan.heartbeat.ns * 2 / draws.one_of<std::int64_t>({1, 2, 6}));
  plan.end.safety = plan.heartbeat * static_cast<std::int64_t>(draws.range(10, 40));

  const bool every_kind = draws.permille(500);
  std::vector<Weight> weights;
  for (const Weight& weight : kWeights) {
    if (weight.fault == Fault::kSpoil && !plan.state.shared) continue;  // the fault has no effect
    if (weight.fault == Fault::kDrift && !plan.state.watch) continue;
    if (every_kind || draws.permille(300)) weights.push_back(weight);
  }
  const auto faults = draws.permille(80) || options.calm ? 0 : draws.range(1, 8 + 4 * plan.peers);
  if (faults == 0) plan.end.safety = nanoseconds(plan.end.safety.ns / 4);
  if (weights.empty()) weights.push_back(kWeights[0]);
  for (std::uint64_t n = 0; n < faults; ++n) plan.entries.push_back(draw_entry(plan, dice, weights, n));
  const auto has = [&](Fault fault) {
    return std::any_of(plan.entries.begin(), plan.entries.end(),
                       [&](const Entry& entry) { return entry.fault == fault; });
  };
  const bool is_told = draws.permille(500) && !needs_time_out(plan);
  const bool waits = has(Fault::kMismatch) || (has(Fault::kSkip) && !is_told);
  if (waits || draws.permille(50))
    plan.program.call_timeout = plan.heartbeat * static_cast<std::int64_t>(draws.range(30, 80));
  bury(plan, draws);
  give_up(plan, dice);
  if (faults != 0) draw_strangers(plan, dice);
  draw_kinds_of_calls(plan, dice);
  if (faults > 0) part(plan, dice);
  if (!options.calm) flip_bits(plan, dice);
  if (draws.permille(750))
    plan.end.heal_after = plan.heartbeat * static_cast<std::int64_t>(draws.range(0, 8)) + nanoseconds(1);
  narrow(plan, draws, dice);
  if (needs_time_out(plan) && plan.program.call_timeout.ns == 0) plan.program.call_timeout = plan.heartbeat * 50;
  if (draws.permille(500)) plan.links.turns = static_cast<std::uint32_t>(draws.range(1, 3));
  plan.state.publish = plan.state.shared && draws.permille(600);
  draw_states(plan, dice);
  draw_age(plan, dice);
  if (!options.calm) {
    mute_some(plan, dice);
    break_once(plan, dice);
    draw_namesakes(plan, dice);
    leave_midway(plan, dice);
    add_rare_faults(plan, dice);
  }
  if (options.peers == 0 && !options.calm && dice.permille(1, Purpose::kLongLife, 0))
    live_long(plan, dice, options.payload == PlanOptions::Payload::kBytes);
  draw_rare_programs(plan, dice, options.calm);
  if (options.calm) return plan;
  draw_liars(plan, dice);
  draw_stoppers(plan, dice);
  return plan;
}

}  // namespace lockstep::sim

#include "sim/plan/plan.h"

#include <algorithm>
#include <utility>

#include "core/wire/limits.h"
#include "sim/engine/dice.h"
#include "sim/words/units.h"

namespace lockstep::sim {
namespace {

constexpr std::string_view kFaultNames[kFaultCount] = {
    "crash", "vanish",    "stall", "cut",        "cut-both", "reset", "silence", "slow",  "kernels",
    "join",  "leave",     "stop",  "timeout",    "mismatch", "skip",  "spoil",   "drift", "abandon",
    "mute",  "strangers", "flip",  "miscompute", "refuse",   "drip",  "lie",     "shut"};

std::string validate_lines(const NetworkOptions& net) {
  constexpr std::size_t kMostLines = 3;  // of one host: its own, and those that it shares
  constexpr std::uint32_t kAll = 1'000'000;
  const flow::Options& flow = net.flow;
  std::uint32_t most_loss = flow.loss_ppm;
  for (const LinkOptions& link : net.links) most_loss = std::max(most_loss, link.loss_ppm);
  for (const flow::LineOptions& line : flow.lines) most_loss = std::max(most_loss, line.loss_ppm);
  if (most_loss >= kAll) return "loss_ppm must be below 1000000: a line must deliver some packets";
  if (!flow.on) return flow.lines.empty() ? "" : "line needs flow = true: without it hosts have no lines";
  for (std::uint32_t host = 0; host < kMaxHosts; ++host) {
    const auto lines = std::count_if(flow.lines.begin(), flow.lines.end(),
                                     [&](const flow::LineOptions& line) { return line.hosts.test(host); });
    if (static_cast<std::size_t>(lines) > kMostLines) return "line: " + host_words(host) + " is on more than three";
  }
  return {};
}

std::string must(std::string_view name, std::string_view what) {
  return std::string(name).append(" must be ").append(what);
}

template <typename T>
constexpr bool within(T value, T lo, T hi) {
  return value >= lo && value <= hi;
}

std::string flaw_of_links(const LinkPlan& links) {
  if (!within(links.stripes, 1U, std::uint32_t{kMaxStripes}))
    return must("stripes", "1.." + std::to_string(kMaxStripes));
  if (links.most_stripes > kMaxStripes) return must("most_stripes", "0.." + std::to_string(kMaxStripes));
  if (links.segment_bytes != 0 && !within(links.segment_bytes, 16U, kMaxSegmentBytes)) {
    return must("segment_bytes", "0 (chosen by size), or 16.." + std::to_string(kMaxSegmentBytes));
  }
  if (links.eager_segments > kMaxEagerSegments)
    return must("eager_segments", "0.." + std::to_string(kMaxEagerSegments));
  if (!within(links.window, 1U, kRoundWindow)) return must("window", "1.." + std::to_string(kRoundWindow));
  if (links.turns > kMaxSegments) return must("turns", "0.." + std::to_string(kMaxSegments));
  if (links.by_rate_bytes == 0 || links.rate_window.ns <= 0) return must("by_rate_bytes", "more than 0");
  return {};
}

}  // namespace

std::string_view name_of(Fault fault) { return kFaultNames[static_cast<std::size_t>(fault)]; }

bool is_of_pair(Fault fault) {
  return fault == Fault::kCut || fault == Fault::kCutBoth || fault == Fault::kReset || fault == Fault::kSilence ||
         fault == Fault::kSlow || fault == Fault::kStrangers || fault == Fault::kFlip || fault == Fault::kDrip;
}

bool may_lose_members(Fault fault) {
  switch (fault) {
    case Fault::kCrash:
    case Fault::kVanish:
    case Fault::kStall:
    case Fault::kCut:
    case Fault::kCutBoth:
    case Fault::kReset:
    case Fault::kSilence:
    case Fault::kLeave:
    case Fault::kAbandon:
    case Fault::kDrip:
    case Fault::kLie:
    case Fault::kShut:
    case Fault::kMute: return true;
    case Fault::kFlip:
    case Fault::kMiscompute:
    case Fault::kSpoil:
    case Fault::kSlow:
    case Fault::kKernels:
    case Fault::kJoin:
    case Fault::kStop:
    case Fault::kTimeout:
    case Fault::kMismatch:
    case Fault::kRefuse:
    case Fault::kSkip:
    case Fault::kDrift:
    case Fault::kStrangers: return false;
  }
  LOCKSTEP_UNREACHABLE();
}

std::string host_words(std::uint32_t host) { return host == 0 ? "coordinator" : "h" + std::to_string(host); }

static std::string_view words_of_abandon(std::uint64_t number) {
  constexpr std::string_view kWords[] = {"",
                                         ", its run token is revoked",
                                         ", an administrator evicts it",
                                         ", an observer asks for its eviction",
                                         ", a member asks for its eviction",
                                         ", a stranger asks for its eviction",
                                         ", and starts again with a run token of another coordinator",
                                         ", and another coordinator has its first address when it starts again"};
  return kWords[std::min(number, std::size(kWords) - 1)];
}

std::string words_of(const Entry& entry, std::string (*name_of_host)(std::uint32_t)) {
  std::string text(entry.fault == Fault::kCutBoth ? "cut" : name_of(entry.fault));
  text += " " + name_of_host(entry.a);
  if (is_of_pair(entry.fault)) {
    const bool one_way = entry.fault == Fault::kCut || entry.fault == Fault::kFlip || entry.fault == Fault::kDrip;
    text += one_way ? " -> " : " <-> ";
    text += entry.a == entry.b ? "all" : name_of_host(entry.b);
  }
  const std::string length = words_of(entry.length, " ");
  const bool lasts = entry.length.ns != 0;
  switch (entry.fault) {
    case Fault::kCrash:
    case Fault::kVanish:
    case Fault::kLeave: return text + (entry.number != 0 ? ", for good" : lasts ? ", back after " + length : "");
    case Fault::kStrangers: return text + ", " + std::to_string(entry.number) + " of them, for " + length;
    case Fault::kSlow:
    case Fault::kKernels: text += " " + std::to_string(entry.number) + " times slower"; [[fallthrough]];
    case Fault::kStall:
    case Fault::kCut:
    case Fault::kCutBoth:
    case Fault::kSpoil: return text + (lasts ? " for " + length : "");
    case Fault::kLie:
      return text + (lasts ? " for " + length : "") + ", one message in " + std::to_string(lies_one_in(entry));
    case Fault::kShut:
      return text + (lasts ? " for " + length : "") +
             (entry.b != 0        ? ", dials reach " + name_of_host(entry.b)
              : entry.number == 1 ? ", dials are refused"
                                  : "");
    case Fault::kMute:
      return text + (lasts ? " for " + length : "") +
             (entry.number != 0 ? ", but for " + std::to_string(entry.number) + " answers" : "");
    case Fault::kDrip:
      return text + " " + std::to_string(std::max<std::uint64_t>(1, entry.number)) + " B/s" +
             (lasts ? " for " + length : "");
    case Fault::kReset:
      return text + (entry.number > 1 ? " " + std::to_string(entry.number) + " times, every " + length : "");
    case Fault::kTimeout: return text + " after " + length;
    case Fault::kFlip:
    case Fault::kMiscompute: return text + (entry.number > 1 ? " " + std::to_string(entry.number) + " times" : "");
    case Fault::kSilence:
    case Fault::kJoin:
    case Fault::kStop:
    case Fault::kMismatch:
    case Fault::kRefuse:
    case Fault::kSkip:
    case Fault::kDrift: return text;
    case Fault::kAbandon: return text + std::string(words_of_abandon(entry.number));
  }
  LOCKSTEP_UNREACHABLE();
}

std::string when_of(const Entry& entry) {
  std::string after = words_of(entry.after, " ");
  const auto from = [&](std::string_view what, std::uint64_t n) {
    return std::string(what) + " " + std::to_string(n) + (entry.after.ns != 0 ? " + " + after : "");
  };
  if (entry.event != 0) return from("event", entry.event);
  if (entry.launch != 0) return from("launch", entry.launch);
  if (entry.commit != 0) return from("commit", entry.commit);
  if (entry.view != 0) return from("view", entry.view);
  if (entry.piece != 0) return from("piece", entry.piece);
  return after;
}

std::uint32_t first_use_of(const Plan& plan) {
  return plan.aged ? kLastCount - static_cast<std::uint32_t>(Dice(plan.seed).range(0, 30, Purpose::kAge, 0)) : 0;
}

GangId gang_of(const Plan& plan, std::uint32_t host) {
  if (plan.gangs.size == 1) return {};
  const std::uint32_t gang = 1 + (host - 1) / plan.gangs.size;
  return GangId{plan.gangs.namesakes && gang == plan.peers / plan.gangs.size ? 1 : gang};
}

bool takes_part(const Plan& plan, std::uint32_t host) {
  const auto gang_of = [&](std::uint32_t of) { return (of - 1) / plan.gangs.size; };
  return plan.all_start || host <= plan.founders ||
         std::any_of(plan.entries.begin(), plan.entries.end(), [&](const Entry& entry) {
           return entry.fault == Fault::kJoin && gang_of(entry.a) == gang_of(host);
         });
}

std::uint32_t most_strangers(const Plan& plan) {
  const bool has_some = std::any_of(plan.entries.begin(), plan.entries.end(),
                                    [](const Entry& entry) { return entry.fault == Fault::kStrangers; });
  return has_some ? std::min(kMaxStrangers, 4 + plan.peers) : kMaxStrangers;
}

bool counts_from_start(const Entry& entry) {
  return entry.launch == 0 && entry.commit == 0 && entry.view == 0 && entry.event == 0 && entry.piece == 0;
}

bool needs_time_out(const Plan& plan) {
  const auto number_of = [&](Fault fault) { return std::ranges::count(plan.entries, fault, &Entry::fault); };
  if (number_of(Fault::kMismatch) > 0) return true;
  const auto skips = number_of(Fault::kSkip);
  const std::size_t ops = std::max<std::size_t>(plan.program.ops_per_step, plan.program.work.size());
  return skips > 1 ||
         (skips == 1 && (plan.program.steps_per_admit != 1 || plan.gangs.groups != 1 || plan.links.window < ops));
}

std::string validate_plan(const Plan& plan) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 30U;
  constexpr std::uint32_t kMostSends = 1000;
  constexpr std::size_t kMostLinks = std::size_t{kMaxHosts} * kMaxPeers / 2;  // a pair of hosts each
  constexpr std::uint64_t kMostRealBytes = std::uint64_t{64} << 20U;
  const NetworkOptions& net = plan.network;
  if (!within(plan.peers, 1U, kMaxPeers)) return must("peers", "1.." + std::to_string(kMaxPeers));
  if (!within(plan.founders, 1U, plan.peers)) return must("founders", "1..peers");
  if (!within(plan.gangs.groups, 1U, plan.peers)) return must("groups", "1..peers");
  if (!within(plan.gangs.size, 1U, plan.peers)) return must("gang_size", "1..peers");
  if (plan.peers % plan.gangs.size != 0 || plan.founders % plan.gangs.size != 0) {
    return "gang_size must divide peers and founders: gangs come and go whole";
  }
  if (plan.gangs.namesakes &&
      (plan.gangs.size == 1 || plan.founders + plan.gangs.size > plan.peers || plan.auto_admit)) {
    return "namesakes are two gangs, of which one joins later, by a call of admit";
  }
  if (!within(plan.minimum_world, 1U, plan.peers)) return must("minimum_world", "1..peers");
  if (plan.program.stops_at_once > kMaxStopsAtOnce)
    return must("stops_at_once", "at most " + std::to_string(kMaxStopsAtOnce));
  if (plan.state.pieces > 1000) return must("state_pieces", "0 (drawn) .. 1000");
  if (std::string flaw = flaw_of_links(plan.links); !flaw.empty()) return flaw;
  if (!within(plan.program.steps_per_admit, 1U, 1000U)) return must("steps_per_admit", "1..1000");
  if (!within(plan.program.ops_per_step, 1U, 64U)) return must("ops_per_step", "1..64");
  if (plan.program.sends_to_next > kMostSends) return must("sends_to_next", "0.." + std::to_string(kMostSends));
  if (plan.program.sends_to_next > 0 && plan.auto_admit)
    return "sends_to_next needs peers that know each other's steps: without auto_admit";
  if (plan.program.work.size() > 64) return must("work", "at most 64 collectives");
  for (const Work& work : plan.program.work) {
    const std::uint64_t bytes = work.count * size_of(work.type);
    if (work.count > kMostBytes || bytes > kMostBytes) return must("work", "collectives of at most 16 GiB");
    if (plan.mode == Mode::kBytes && bytes > kMostRealBytes) return must("work", "at most 64 MiB each in bytes mode");
  }
  if (!within(plan.program.max_count, std::uint64_t{0}, std::uint64_t{10'000'000}))
    return must("max_count", "0..10000000");
  if (plan.coordinator_after > plan.end.safety) return must("coordinator_after_ns", "at most safety_ns");
  if (!within(plan.end.commits_after, 0U, 1000U)) return must("commits_after", "0..1000");
  if (plan.heartbeat < milliseconds(1) || plan.heartbeat > kLongestTime) return must("heartbeat_ns", "1 ms..1000000 s");
  for (const Duration time : {plan.delays.kernel, plan.delays.timer, plan.program.think, plan.program.call_timeout,
                              plan.end.safety, plan.end.heal_after, plan.coordinator_after}) {
    if (!within(time, Duration{}, kLongestTime)) return "times must be 0..1000000 s, in nanoseconds";
  }
  for (const std::int64_t ns : {net.latency_lo_ns, net.latency_hi_ns, net.jitter_ns, net.host_delay_ns,
                                net.revoke_delay_ns, net.dial_gives_up_ns, plan.delays.kernel_ns_per_kib}) {
    if (!within(ns, std::int64_t{0}, kLongestTime.ns)) return "times must be 0..1000000 s, in nanoseconds";
  }
  if (net.latency_lo_ns > net.latency_hi_ns) return must("latency_lo_ns", "at most latency_hi_ns");
  if (net.rate_bytes_per_s < 1) return must("rate_bytes_per_s", "at least 1");
  if (net.window_bytes < 1) return must("window_bytes", "at least 1");
  for (const auto& [name, permille] :
       {std::pair<std::string_view, std::uint64_t>{"staged_permille", plan.state.staged_permille},
        {"ahead_permille", plan.state.ahead_permille},
        {"stray_permille", plan.state.stray_permille},
        {"torn_permille", plan.state.torn_permille},
        {"republish_permille", plan.state.republish_permille},
        {"short_permille", net.short_permille},
        {"pieces_permille", net.pieces_permille},
        {"apart_permille", net.apart_permille},
        {"busy_permille", net.busy_permille}}) {
    if (permille > 1000) return must(name, "0..1000");
  }
  if (net.links.size() > kMostLinks) return must("link", "given for at most " + std::to_string(kMostLinks) + " pairs");
  for (const LinkOptions& link : net.links) {
    if (link.a == link.b || std::max(link.a, link.b) > plan.peers) {
      return must("link", "between two hosts that differ, 0 (the coordinator's) .. peers");
    }
    if (!within(link.latency_ns, std::int64_t{0}, kLongestTime.ns)) return "times must be 0..1000000 s, in nanoseconds";
  }
  return validate_lines(net);
}

std::string validate_entry(const Plan& plan, const Entry& entry) {
  if (entry.a > plan.peers || entry.b > plan.peers) return "hosts are 0 (the coordinator's) .. peers";
  if (entry.after < Duration{} || entry.after > kLongestTime || entry.length < Duration{} ||
      entry.length > kLongestTime) {
    return "times must be 0..1000000 s, in nanoseconds";
  }
  if (is_of_pair(entry.fault)) {
    const bool with_all = entry.fault == Fault::kReset && entry.a != 0;
    if (entry.fault == Fault::kFlip && (entry.a == 0 || entry.b == 0)) {
      return "flip is between peers: on the way to the coordinator a flipped bit resets the stream";
    }
    if (entry.a == entry.b && !with_all) {
      return std::string(name_of(entry.fault)) + " is between two hosts: a and b must differ";
    }
  } else if (entry.a == 0 && entry.fault != Fault::kStall) {
    return std::string(name_of(entry.fault)) +
           " needs a host of a peer, a >= 1: host 0, the coordinator's, can only be stalled or cut off";
  }
  if (entry.fault == Fault::kShut && entry.a == entry.b) return "the dials to a host that is shut reach another host";
  if (entry.fault == Fault::kStrangers && (entry.number < 1 || entry.number > 1000)) {
    return "strangers needs to say how many: number must be 1..1000";
  }
  const bool factor = entry.fault == Fault::kSlow || entry.fault == Fault::kKernels;
  if (factor && (entry.number < 1 || entry.number > 1'000'000)) {
    return std::string(name_of(entry.fault)) + " needs a factor: number must be 1..1000000";
  }
  return {};
}

}  // namespace lockstep::sim

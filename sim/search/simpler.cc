#include "sim/search/simpler.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <set>
#include <type_traits>
#include <utility>

#include "core/wire/limits.h"

namespace lockstep::sim {
namespace {

// Adds the plan that `change` makes, if it differs from the given plan.
template <typename F>
void add(Candidates& out, const Plan& plan, F&& change) {
  Plan candidate = plan;
  if (change(candidate)) out.push_back(std::move(candidate));
}

template <typename T>
bool lower(T& value, std::type_identity_t<T> to) {
  if (!(value > to)) return false;
  value = to;
  return true;
}

bool lower(Duration& value, std::int64_t ns) { return lower(value.ns, ns); }

// Applies all changes. Returns whether one of them changed the plan.
bool any(std::initializer_list<bool> changes) {
  return std::any_of(changes.begin(), changes.end(), [](bool changed) { return changed; });
}

bool raise(std::uint64_t& value, std::uint64_t to) {
  if (value >= to) return false;
  value = to;
  return true;
}

// Hosts first .. first + count - 1 were never there.
Plan without_hosts(const Plan& plan, std::uint32_t first, std::uint32_t count) {
  Plan out = plan;
  out.peers -= count;
  const std::uint32_t founders_gone = plan.founders < first ? 0 : std::min(count, plan.founders - first + 1);
  out.founders = std::max<std::uint32_t>(plan.gangs.size, plan.founders - founders_gone);
  out.minimum_world = std::min(out.minimum_world, out.founders);
  out.entries.clear();
  const auto gone = [&](std::uint32_t host) { return host >= first && host < first + count; };
  for (Entry entry : plan.entries) {
    if (gone(entry.a) || (is_of_pair(entry.fault) && gone(entry.b))) continue;
    if (entry.a >= first + count) entry.a -= count;
    if (entry.b >= first + count) entry.b -= count;
    out.entries.push_back(entry);
  }
  out.network.links.clear();
  for (LinkOptions link : plan.network.links) {
    if (gone(link.a) || gone(link.b)) continue;
    if (link.a >= first + count) link.a -= count;
    if (link.b >= first + count) link.b -= count;
    out.network.links.push_back(link);
  }
  out.network.flow.lines.clear();
  for (flow::LineOptions line : plan.network.flow.lines) {
    const HostSet below = ~HostSet() >> (kMaxHosts - first);
    line.hosts = (line.hosts & below) | (line.hosts >> count & ~below);
    if (line.hosts.any()) out.network.flow.lines.push_back(line);
  }
  return out;
}

// `digits` significant digits, up or down; 0 stays 0.
std::int64_t rounded(std::int64_t ns, int digits, bool up) {
  std::int64_t unit = 1;
  for (std::int64_t left = ns; left >= 10; left /= 10) unit *= 10;
  for (; digits > 1 && unit > 1; --digits) unit /= 10;
  return ns / unit * unit + (up && ns % unit != 0 ? unit : 0);
}

int digits_of(std::int64_t ns) {
  while (ns != 0 && ns % 10 == 0) ns /= 10;
  int digits = 0;
  for (; ns != 0; ns /= 10) digits += 1;
  return digits;
}

// Adds values with fewer digits, rounded up and down; none if the value is round enough.
void add_rounded(Candidates& out, const Plan& plan, auto&& field) {
  Plan copy = plan;
  const std::int64_t now = field(copy).ns;
  for (int digits = 1; digits < std::min(4, digits_of(now)); ++digits) {
    for (const bool up : {false, true}) {
      add(out, plan, [&](Plan& p) {
        field(p).ns = rounded(now, digits, up);
        return true;
      });
    }
  }
}

}  // namespace

bool is_lawful(const Plan& plan) {
  if (!validate_plan(plan).empty() || (needs_time_out(plan) && plan.program.call_timeout.ns == 0)) return false;
  std::set<std::uint32_t> gone;
  for (const Entry& entry : plan.entries) {
    if (entry.fault == Fault::kVanish && entry.number != 0) gone.insert(entry.a);
    if (entry.a > plan.peers || entry.b > plan.peers) return false;
  }
  const std::uint32_t stay = plan.peers - static_cast<std::uint32_t>(gone.size());
  return plan.peers >= 2 && plan.founders >= 1 && plan.founders <= plan.peers && plan.minimum_world <= plan.founders &&
         plan.peers % plan.gangs.size == 0 && plan.founders % plan.gangs.size == 0 &&
         (!plan.gangs.namesakes || plan.founders + plan.gangs.size <= plan.peers) &&
         (gone.empty() || stay >= std::max({plan.founders, plan.minimum_world, plan.gangs.groups}));
}

Plan cut_after(const Plan& plan, Instant at, std::uint64_t launches) {
  Plan out = plan;
  std::erase_if(out.entries, [&](const Entry& entry) {
    return entry.launch > launches || (counts_from_start(entry) && entry.after.ns > at.ns);
  });
  out.end.safety.ns = std::min(plan.end.safety.ns, rounded(at.ns + 1, 2, true));
  return out;
}

Plan without_entries(const Plan& plan, std::size_t begin, std::size_t end) {
  Plan out = plan;
  out.entries.erase(out.entries.begin() + static_cast<std::ptrdiff_t>(begin),
                    out.entries.begin() + static_cast<std::ptrdiff_t>(end));
  return out;
}

Candidates fewer_peers(const Plan& plan) {
  Candidates out;
  const std::uint32_t gang = plan.gangs.size;
  std::uint32_t named = 2;  // the last host that a fault names
  for (const Entry& entry : plan.entries) named = std::max({named, entry.a, entry.b});
  named += (gang - named % gang) % gang;
  if (named < plan.peers) out.push_back(without_hosts(plan, named + 1, plan.peers - named));
  if (plan.peers >= 6 * gang) {
    const std::uint32_t half = plan.peers / 2 / gang * gang;
    out.push_back(without_hosts(plan, plan.peers - half + 1, half));
    out.push_back(without_hosts(plan, 1, half));
  }
  for (std::uint32_t host = plan.peers - gang + 1; host >= 1 && plan.peers > 2 * gang; host -= gang) {
    out.push_back(without_hosts(plan, host, gang));
    if (host <= gang) break;
  }
  // All peers are founders: no peer has to join.
  add(out, plan, [](Plan& p) {
    if (p.founders == p.peers) return false;
    p.founders = p.peers;
    std::erase_if(p.entries, [](const Entry& entry) { return entry.fault == Fault::kJoin; });
    return true;
  });
  return out;
}

Candidates plainer_world(const Plan& plan) {
  Candidates out;
  add(out, plan, [](Plan& p) {
    const bool plain = p.gangs.groups == 1 && p.gangs.size == 1;
    p.gangs.groups = p.gangs.size = 1;
    p.gangs.namesakes = false;
    return !plain;
  });
  add(out, plan, [](Plan& p) { return std::exchange(p.gangs.namesakes, false); });
  add(out, plan, [](Plan& p) { return !p.gangs.namesakes && lower(p.gangs.size, 1); });
  add(out, plan, [](Plan& p) { return lower(p.minimum_world, 1); });
  add(out, plan, [](Plan& p) { return lower(p.program.stops_at_once, 0); });
  add(out, plan, [](Plan& p) { return std::exchange(p.auto_admit, false); });
  add(out, plan, [](Plan& p) { return std::exchange(p.state.shared, false); });
  add(out, plan, [](Plan& p) { return lower(p.state.pieces, 2); });
  add(out, plan, [](Plan& p) { return !std::exchange(p.state.all_vote, true); });
  add(out, plan, [](Plan& p) { return std::exchange(p.state.publish, false); });
  add(out, plan, [](Plan& p) { return lower(p.state.republish_permille, 0); });
  add(out, plan, [](Plan& p) { return std::exchange(p.state.watch, false); });
  add(out, plan, [](Plan& p) { return std::exchange(p.state.small_changes, false); });
  add(out, plan, [](Plan& p) { return lower(p.state.ahead_permille, 0); });
  add(out, plan, [](Plan& p) { return lower(p.state.stray_permille, 0); });
  add(out, plan, [](Plan& p) { return lower(p.state.torn_permille, 0); });
  add(out, plan, [](Plan& p) { return std::exchange(p.fresh_tags, false); });
  add(out, plan, [](Plan& p) { return std::exchange(p.aged, false); });
  add(out, plan, [](Plan& p) {
    const bool bytes = p.mode == Mode::kBytes;
    p.mode = p.network.mode = Mode::kToken;
    return bytes;
  });
  add(out, plan, [](Plan& p) { return lower(p.program.call_timeout, 0); });
  return out;
}

Candidates smaller_program(const Plan& plan) {
  Candidates out;
  const auto ops = [](Plan& p) { return lower(p.program.ops_per_step, 1); };
  const auto steps = [](Plan& p) { return lower(p.program.steps_per_admit, 1); };
  const auto stripes = [](Plan& p) { return lower(p.links.stripes, 1); };
  const auto after = [](Plan& p) { return lower(p.end.commits_after, 1); };
  const auto whole = [](Plan& p) { return lower(p.links.segment_bytes, 0); };
  const auto count = [](std::uint64_t to) { return [to](Plan& p) { return lower(p.program.max_count, to); }; };
  add(out, plan, [&](Plan& p) { return any({ops(p), steps(p), stripes(p), after(p), whole(p), count(8)(p)}); });
  add(out, plan, [&](Plan& p) { return any({ops(p), steps(p)}); });
  add(out, plan, ops);
  add(out, plan, steps);
  add(out, plan, stripes);
  add(out, plan, after);
  add(out, plan, whole);
  add(out, plan, [](Plan& p) { return std::exchange(p.links.eager_segments, kMaxEagerSegments) != kMaxEagerSegments; });
  add(out, plan, [](Plan& p) { return std::exchange(p.links.window, kRoundWindow) != kRoundWindow; });
  add(out, plan, [](Plan& p) { return lower(p.links.turns, 0); });
  add(out, plan, [](Plan& p) {
    const LinkPlan usual;
    const bool news = std::exchange(p.links.by_rate_bytes, usual.by_rate_bytes) != usual.by_rate_bytes;
    return std::exchange(p.links.rate_window, usual.rate_window) != usual.rate_window || news;
  });
  add(out, plan, [](Plan& p) { return std::exchange(p.program.reduces, false); });
  add(out, plan, [](Plan& p) { return std::exchange(p.program.exchanges, false); });
  add(out, plan, [](Plan& p) { return std::exchange(p.program.transfers, false); });
  add(out, plan, [](Plan& p) { return std::exchange(p.program.grids, false); });
  add(out, plan, [](Plan& p) { return lower(p.program.sends_to_next, 0); });
  add(out, plan, [](Plan& p) { return lower(p.program.sends_to_next, 1); });
  for (const std::uint64_t to : {1U, 8U, 100U, 1000U}) add(out, plan, count(to));
  return out;
}

Candidates calmer_network(const Plan& plan) {
  Candidates out;
  const auto latency = [](Plan& p) { return lower(p.network.latency_hi_ns, p.network.latency_lo_ns); };
  const auto jitter = [](Plan& p) { return lower(p.network.jitter_ns, 0); };
  const auto whole = [](Plan& p) { return lower(p.network.short_permille, 0); };
  const auto at_once = [](Plan& p) { return lower(p.network.pieces_permille, 0); };
  const auto apart = [](Plan& p) { return lower(p.network.apart_permille, 0); };
  const auto busy = [](Plan& p) { return lower(p.network.busy_permille, 0); };
  const auto revoke = [](Plan& p) { return lower(p.network.revoke_delay_ns, 10'000); };
  const auto host = [](Plan& p) { return lower(p.network.host_delay_ns, 2'000); };
  const auto kernels = [](Plan& p) { return lower(p.delays.kernel, 2'000); };
  const auto per_kib = [](Plan& p) { return lower(p.delays.kernel_ns_per_kib, 0); };
  const auto timers = [](Plan& p) { return lower(p.delays.timer, 10'000); };
  const auto window = [](Plan& p) { return raise(p.network.window_bytes, 262'144); };
  const auto rate = [](Plan& p) { return raise(p.network.rate_bytes_per_s, 1'000'000'000); };
  add(out, plan, [&](Plan& p) {
    return any({latency(p), jitter(p), whole(p), at_once(p), apart(p), busy(p), revoke(p), host(p), kernels(p),
                per_kib(p), timers(p), window(p), rate(p)});
  });
  add(out, plan, [](Plan& p) { return lower(p.coordinator_after, 0); });
  add(out, plan, [&](Plan& p) { return any({latency(p), jitter(p)}); });
  add(out, plan, [&](Plan& p) { return any({whole(p), at_once(p), apart(p), busy(p)}); });
  add(out, plan, [&](Plan& p) { return any({revoke(p), host(p), kernels(p), per_kib(p), timers(p)}); });
  add(out, plan, [&](Plan& p) { return any({window(p), rate(p)}); });
  add(out, plan, latency);
  add(out, plan, jitter);
  add(out, plan, whole);
  add(out, plan, at_once);
  add(out, plan, apart);
  add(out, plan, busy);
  add(out, plan, revoke);
  add(out, plan, host);
  add(out, plan, kernels);
  add(out, plan, per_kib);
  add(out, plan, timers);
  add(out, plan, window);
  add(out, plan, rate);
  return out;
}

Candidates rounder_numbers(const Plan& plan) {
  Candidates out;
  for (const int digits : {1, 2}) {  // all at once
    add(out, plan, [&](Plan& p) {
      bool rounder = false;
      for (Entry& entry : p.entries) {
        rounder = rounder || digits_of(entry.after.ns) > digits || digits_of(entry.length.ns) > digits;
        entry.after.ns = rounded(entry.after.ns, digits, false);
        entry.length.ns = rounded(entry.length.ns, digits, true);
      }
      return rounder;
    });
  }
  for (std::size_t i = 0; i < plan.entries.size(); ++i) {
    add(out, plan, [&](Plan& p) {
      Entry& entry = p.entries[i];
      if (entry.fault == Fault::kVanish) {
        entry.fault = Fault::kCrash;
        entry.number = 0;
        return true;
      }
      return entry.fault == Fault::kCutBoth && (entry.fault = Fault::kCut, true);
    });
    add(out, plan, [&](Plan& p) {
      Entry& entry = p.entries[i];
      if (entry.fault != Fault::kCutBoth) return false;
      entry.fault = Fault::kCut;
      std::swap(entry.a, entry.b);
      return true;
    });
    add(out, plan, [&](Plan& p) { return lower(p.entries[i].after, 0); });
    const std::uint64_t launch = plan.entries[i].launch;
    for (const std::uint64_t sooner : {std::uint64_t{1}, launch / 2, launch * 3 / 4, launch - 1}) {
      add(out, plan, [&](Plan& p) { return sooner >= 1 && lower(p.entries[i].launch, sooner); });
    }
    add_rounded(out, plan, [&](Plan& p) -> Duration& { return p.entries[i].after; });
    add_rounded(out, plan, [&](Plan& p) -> Duration& { return p.entries[i].length; });
    add(out, plan, [&](Plan& p) { return lower(p.entries[i].number, p.entries[i].fault == Fault::kVanish ? 0 : 2); });
  }
  add_rounded(out, plan, [](Plan& p) -> Duration& { return p.end.safety; });
  add_rounded(out, plan, [](Plan& p) -> Duration& { return p.program.think; });
  add(out, plan, [](Plan& p) { return lower(p.seed, 1); });
  return out;
}

Candidates one_thing_less(const Plan& plan) {
  Candidates out;
  for (std::size_t i = plan.entries.size(); i-- > 0;) out.push_back(without_entries(plan, i, i + 1));
  for (Candidates more : {fewer_peers(plan), plainer_world(plan)}) {
    std::move(more.begin(), more.end(), std::back_inserter(out));
  }
  add(out, plan,
      [](Plan& p) { return p.program.ops_per_step > 1 && lower(p.program.ops_per_step, p.program.ops_per_step - 1); });
  add(out, plan, [](Plan& p) {
    return p.program.steps_per_admit > 1 && lower(p.program.steps_per_admit, p.program.steps_per_admit - 1);
  });
  add(out, plan, [](Plan& p) { return lower(p.links.stripes, 1); });
  add(out, plan, [](Plan& p) { return std::exchange(p.network.resends, false); });
  add(out, plan, [](Plan& p) { return lower(p.links.most_stripes, 0); });
  add(out, plan, [](Plan& p) { return std::exchange(p.links.bytes_per_second, 0) != 0; });
  return out;
}

}  // namespace lockstep::sim

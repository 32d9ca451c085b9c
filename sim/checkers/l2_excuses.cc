#include "sim/checkers/l2_excuses.h"

#include <algorithm>

#include "core/base/assert.h"
#include "core/trace/event.h"

namespace lockstep::sim {
namespace {

using Subject = ExcuseRule::Subject;
using Lasts = ExcuseRule::Lasts;

// Whatever runs there while it lasts.
bool is_of_hosts(const ExcuseRule& rule) { return rule.subject == Subject::kHost || rule.subject == Subject::kHosts; }

}  // namespace

Excuses::Excuses(const Plan& plan, const Instant& now) : times(LossTimes::of(plan)), now_(now) {
  lives_.emplace_back();  // the coordinator's
}

void Excuses::born(std::uint32_t process, const peer::PeerOptions& options, std::uint32_t host) {
  LOCKSTEP_ASSERT(process == lives_.size());
  Life& life = lives_.emplace_back();
  life.id = options.id;
  life.host = host;
  life.born = now_;
  life.name = trace::short_name(options.id, options.name);
  life.gang = options.gang;
  life.gang_size = options.gang_size;
  times.with(options);
}

void Excuses::strangers_born(std::uint32_t process) {
  LOCKSTEP_ASSERT(process == lives_.size());
  lives_.emplace_back().host = UINT32_MAX;
}

void Excuses::died(std::uint32_t process) {
  lives_[process].died = now_;
  for (Excuse& excuse : excuses_) {
    const bool about = !is_of_hosts(excuse.rule) && (excuse.a == process || excuse.b == process);
    if (about) excuse.end = std::min(excuse.end, now_);
  }
}

// The newest that lives.
std::uint32_t Excuses::running(std::uint32_t host) const {
  for (std::size_t i = lives_.size(); i-- > 0;) {
    if (lives_[i].host == host && !lives_[i].died) return static_cast<std::uint32_t>(i);
  }
  return kNoProcess;
}

void Excuses::began(const Entry& entry) {
  Excuse excuse;
  excuse.entry = entry;
  excuse.rule = excuse_of(entry.fault);
  if (excuse.rule.subject == Subject::kNobody) return;
  excuse.begin = now_;
  excuse.end = excuse.rule.lasts == Lasts::kMoment ? now_ : kNever;
  excuse.a = running(entry.a);
  if (is_of_pair(entry.fault) && entry.b != entry.a) excuse.b = running(entry.b);
  const bool nobody_runs = excuse.a == kNoProcess;
  if (excuse.rule.ends) {
    if (!nobody_runs && entry.fault == Fault::kAbandon) {
      const bool by_itself = entry.number == 0 || entry.number >= kOtherKey;
      (by_itself ? lives_[excuse.a].abandons : lives_[excuse.a].revoked) = true;
      if (entry.number == kTokenRevoked) {  // a process that has died has joined by the token of its host, too
        for (Life& life : lives_) life.revoked = life.revoked || life.host == lives_[excuse.a].host;
      }
    }
    return;  // the rest is told: died(), called()
  }
  if (nobody_runs && !is_of_hosts(excuse.rule)) return;
  if (!excuse.rule.program) {
    excuses_.push_back(excuse);
    return;
  }
  const Life& life = lives_[excuse.a];
  if (life.view) excuse.from = life.view->cohort;
  programs_.push_back(excuse);
}

void Excuses::ended(const Entry& entry) {
  const auto is = [&](const Excuse& excuse) {
    return excuse.end == kNever && excuse.entry == entry && excuse.rule.lasts == Lasts::kWhileOn;
  };
  const auto at = std::find_if(excuses_.rbegin(), excuses_.rend(), is);
  if (at != excuses_.rend()) at->end = now_;
}

std::optional<std::uint32_t> Excuses::process_of(PeerId peer) const {
  const auto at = std::find_if(lives_.rbegin(), lives_.rend(), [&](const Life& life) { return life.id == peer; });
  if (at == lives_.rend()) return std::nullopt;
  return static_cast<std::uint32_t>(lives_.rend() - at - 1);
}

std::vector<std::uint32_t> Excuses::named(std::string_view name) const {
  std::vector<std::uint32_t> found;
  for (std::size_t i = 1; i < lives_.size(); ++i) {
    if (lives_[i].name == name) found.push_back(static_cast<std::uint32_t>(i));
  }
  return found;
}

bool Excuses::touches(const Excuse& excuse, std::uint32_t process, std::uint32_t other) const {
  const auto pair = [&](std::uint32_t a, std::uint32_t b, std::uint32_t x, std::uint32_t y) {
    return (a == x && b == y) || (a == y && b == x);
  };
  switch (excuse.rule.subject) {
    case Subject::kNobody: return false;
    case Subject::kProcess: return excuse.a == process;
    case Subject::kHost: return excuse.entry.a == lives_[process].host;
    case Subject::kHosts: return pair(excuse.entry.a, excuse.entry.b, lives_[process].host, lives_[other].host);
    case Subject::kStreams:  // the links of peers, where it is one host's to all
      if (excuse.entry.a == excuse.entry.b) return other != 0 && (excuse.a == process || excuse.a == other);
      return pair(excuse.a, excuse.b, process, other);
  }
  LOCKSTEP_UNREACHABLE();
}

// A process that stands still sees nothing, and allows time when it wakes: for itself, its counterpart, and the
// coordinator.
Instant Excuses::seen_until(Instant end, Duration bound, std::uint32_t process, std::uint32_t other) const {
  if (end == kNever) return now_;
  for (const Excuse& stall : excuses_) {  // in the order in which they began
    if (stall.entry.fault != Fault::kStall || (stall.a != process && stall.a != other && stall.a != 0)) continue;
    if (stall.begin <= end + bound) end = std::max(end, std::min(stall.end, now_));
  }
  return end + bound;
}

Duration Excuses::quiet(std::uint32_t process, std::uint32_t hearer, Duration window) const {
  const Instant from = now_ - window;
  Duration sum;
  const auto add = [&](Instant begin, Instant end) {
    const Instant until = std::min(end, now_);
    if (until > std::max(begin, from)) sum = sum + (until - std::max(begin, from));
  };
  for (const Excuse& excuse : excuses_) {
    if (excuse.rule.quiet && touches(excuse, process, hearer)) add(excuse.begin, excuse.end);
  }
  const Life& life = lives_[process];
  if (life.died || life.over) add(std::min(life.died.value_or(kNever), life.over.value_or(kNever)), kNever);
  return sum;
}

bool Excuses::hurt(std::uint32_t process, std::uint32_t other, Duration bound) const {
  return std::any_of(excuses_.begin(), excuses_.end(), [&](const Excuse& excuse) {
    const Instant end = excuse.rule.lasts == Lasts::kForEver ? excuse.begin : excuse.end;
    return (excuse.rule.quiet || excuse.rule.breaks) &&
           (touches(excuse, process, other) || touches(excuse, other, process)) &&
           seen_until(end, bound, process, other) >= now_;
  });
}

bool Excuses::lately(Fault fault, std::uint32_t process, std::uint32_t other, Duration bound) const {
  return std::any_of(excuses_.begin(), excuses_.end(), [&](const Excuse& excuse) {
    return excuse.entry.fault == fault && touches(excuse, process, other) &&
           seen_until(excuse.end, bound, process, other) >= now_;
  });
}

bool Excuses::broken(std::uint32_t process, std::uint32_t other, Duration bound) const {
  return std::any_of(excuses_.begin(), excuses_.end(), [&](const Excuse& excuse) {
    return excuse.rule.breaks && touches(excuse, process, other) &&
           seen_until(excuse.end, bound, process, other) >= now_;
  });
}

bool Excuses::is_shut_off(std::uint32_t process, std::uint32_t other, Duration bound) const {
  const auto shut = [&](std::uint32_t one, Instant from) {
    return std::any_of(excuses_.begin(), excuses_.end(), [&](const Excuse& excuse) {
      return excuse.entry.fault == Fault::kShut && touches(excuse, one, one) && excuse.begin >= from &&
             seen_until(excuse.end, bound, process, other) >= now_;
    });
  };
  constexpr Instant kEver{INT64_MIN};
  return (shut(process, kEver) && shut(other, kEver)) || shut(process, lives_[process].born) ||
         shut(other, lives_[other].born);
}

bool Excuses::has_begun(Fault fault, std::uint32_t process) const {
  return std::any_of(excuses_.begin(), excuses_.end(), [&](const Excuse& excuse) {
    return excuse.entry.fault == fault && touches(excuse, process, process);
  });
}

bool Excuses::is_out_of_step(std::uint32_t process, CohortId cohort, CallId call) const {
  return std::any_of(programs_.begin(), programs_.end(), [&](const Excuse& excuse) {
    const Fault fault = excuse.entry.fault;
    if ((fault != Fault::kMismatch && fault != Fault::kSkip) || excuse.a != process) return false;
    const bool is_open = excuse.to.value == 0;
    return (excuse.from <= cohort && (is_open || cohort <= excuse.to)) || (call.value != 0 && excuse.call == call);
  });
}

void Excuses::launches(std::uint32_t process, CallId call, CohortId cohort) {
  for (Excuse& excuse : programs_) {
    if (excuse.a != process || excuse.to.value != 0) continue;
    excuse.to = cohort;
    excuse.call = call;
  }
}

bool Excuses::calm_since(Instant moment) const {
  const auto recent = [&](Instant end) { return end == kNever || end + times.until_reported() >= moment; };
  const auto recent_if = [&](const std::optional<Instant>& end) { return end && recent(*end); };
  return std::none_of(excuses_.begin(), excuses_.end(), [&](const Excuse& excuse) { return recent(excuse.end); }) &&
         std::none_of(programs_.begin(), programs_.end(), [&](const Excuse& excuse) { return recent(excuse.begin); }) &&
         std::none_of(lives_.begin(), lives_.end(), [&](const Life& life) {
           return recent_if(life.died) || recent_if(life.lost) || recent_if(life.over) || recent_if(life.leaves);
         });
}

std::uint64_t Excuses::links_let_go(std::uint32_t process, std::uint32_t other, Instant from, Instant until) const {
  const auto first = std::ranges::partition_point(let_go_, [&](const LetGo& end) { return end.learnt < from; });
  return static_cast<std::uint64_t>(std::count_if(first, let_go_.end(), [&](const LetGo& end) {
    // A stream that is let go ends once its last write is out.
    return end.process == process && end.other == other && end.ended < until + times.news;
  }));
}

std::uint64_t Excuses::disturbances(const std::vector<std::uint32_t>& processes, Instant from) const {
  const auto is_in = [&](std::uint32_t process) {
    return std::find(processes.begin(), processes.end(), process) != processes.end();
  };
  const auto host_is_in = [&](std::uint32_t host) {
    return std::any_of(processes.begin(), processes.end(),
                       [&](std::uint32_t process) { return lives_[process].host == host; });
  };
  std::uint64_t count = 0;
  for (const Excuse& excuse : excuses_) {
    // On a line that has become much slower, a stripe may stand still beside others that fill it, and is dropped.
    const bool slows = excuse.entry.fault == Fault::kSlow;
    if (!excuse.rule.quiet && !excuse.rule.breaks && !slows) continue;
    const Instant end = excuse.rule.lasts == Lasts::kForEver ? excuse.begin : excuse.end;
    const bool hits = excuse.rule.subject == Subject::kHosts
                          ? host_is_in(excuse.entry.a) && host_is_in(excuse.entry.b)
                          : is_in(excuse.a) || (excuse.b != kNoProcess && is_in(excuse.b));
    const bool ahead = end == kNever || end + times.until_reported() >= from;
    // The receiver gives up after three copies of a segment that a kernel spoilt.
    const std::uint64_t times_sent = excuse.entry.fault == Fault::kMiscompute ? 3 : 1;
    count += hits && ahead ? times_sent : 0;
  }
  for (const std::uint32_t process : processes) {
    const Life& life = lives_[process];
    count += life.gone() || life.leaves ? 1 : 0;
  }
  return count;
}

}  // namespace lockstep::sim

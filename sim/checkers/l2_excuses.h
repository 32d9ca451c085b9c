// The history of all processes, and of the faults that touched them or the ways between them, with the time until which
// effects can last. Judges nothing; l2_causes.h does. sim/checkers/excuses.h describes the faults, l2_times.h the
// times.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/wire/message.h"
#include "sim/checkers/excuses.h"
#include "sim/checkers/l2_times.h"
#include "sim/engine/event.h"
#include "sim/plan/plan.h"

namespace lockstep::sim {

// One process, known by its number in the run; 0: the coordinator.
struct Life {
  PeerId id;
  std::uint32_t host = 0;
  Instant born;
  std::string name;  // the name in texts of core
  GangId gang;
  std::uint32_t gang_size = 1;
  std::optional<Instant> died;
  std::optional<Instant> lost;  // when the coordinator removed the process from the run
  std::optional<Instant> over;  // when the process learned that its run is over, or left
  std::optional<Instant> leaves;
  bool abandons = false;
  bool revoked = false;                    // its run token; or an administrator evicts it
  CohortId admits;                         // newest cohort in which the process has called admit
  std::shared_ptr<const wire::View> view;  // newest installed view; may be null

  // The process is out of the run.
  [[nodiscard]] bool gone() const { return died || lost || over; }
};

class Excuses {
 public:
  // `now`: of the world.
  Excuses(const Plan& plan, const Instant& now);

  LossTimes times;

  void born(std::uint32_t process, const peer::PeerOptions& options, std::uint32_t host);
  void strangers_born(std::uint32_t process);  // strangers are not peers: no fault touches their host
  void died(std::uint32_t process);
  void began(const Entry& entry);
  void ended(const Entry& entry);  // ends the newest such fault that has not ended
  // The process learns that the other has closed a stream, at that time.
  void let_go(std::uint32_t process, std::uint32_t other, Instant ended) {
    let_go_.push_back({process, other, ended, now_});
  }

  [[nodiscard]] Life& life(std::uint32_t process) { return lives_[process]; }
  [[nodiscard]] const Life& life(std::uint32_t process) const { return lives_[process]; }
  [[nodiscard]] const std::vector<Life>& lives() const { return lives_; }
  [[nodiscard]] std::optional<std::uint32_t> process_of(PeerId peer) const;
  // The processes with this name in texts: one, unless programs from outside choose names.
  [[nodiscard]] std::vector<std::uint32_t> named(std::string_view name) const;

  // The time until which these two processes, or the coordinator, can see effects of a fault that ended at that time.
  [[nodiscard]] Instant seen_until(Instant end, Duration bound, std::uint32_t process, std::uint32_t other) const;
  // The time, within the last `window`, in which the second process did not hear the first; 0 is the coordinator.
  // Overlapping faults count several times.
  [[nodiscard]] Duration quiet(std::uint32_t process, std::uint32_t hearer, Duration window) const;
  // Whether a fault that can end or silence the streams between these two ended at most `bound` ago.
  [[nodiscard]] bool hurt(std::uint32_t process, std::uint32_t other, Duration bound) const;
  // Whether streams between them were reset at most `bound` ago.
  [[nodiscard]] bool broken(std::uint32_t process, std::uint32_t other, Duration bound) const;
  // Whether such a fault touched the process at most `bound` ago.
  [[nodiscard]] bool lately(Fault fault, std::uint32_t process, Duration bound) const {
    return lately(fault, process, 0, bound);
  }
  // The same of the way between two.
  [[nodiscard]] bool lately(Fault fault, std::uint32_t process, std::uint32_t other, Duration bound) const;
  // Whether no stream between the two could be opened at most `bound` ago: neither host let anybody in, or one of them
  // has done so only since its process lives, so that the other may have been the one that dials.
  [[nodiscard]] bool is_shut_off(std::uint32_t process, std::uint32_t other, Duration bound) const;
  // Whether such a fault has begun on this process.
  [[nodiscard]] bool has_begun(Fault fault, std::uint32_t process) const;
  // Its program was made to call something else, or nothing, in this cohort, or it was this call: an excuse from the
  // cohort that the process was in when that began until the end of the one in which its program's next call went.
  [[nodiscard]] bool is_out_of_step(std::uint32_t process, CohortId cohort, CallId call) const;
  void launches(std::uint32_t process, CallId call, CohortId cohort);  // its program

  // How many faults that cost streams or members have touched these processes from `from` on; and everybody's.
  [[nodiscard]] std::uint64_t disturbances(const std::vector<std::uint32_t>& processes, Instant from) const;
  // How many streams the other has let go before `until`, and the process has learnt so from `from` on.
  [[nodiscard]] std::uint64_t links_let_go(std::uint32_t process, std::uint32_t other, Instant from,
                                           Instant until) const;
  // Nothing has happened from so long before this moment on that its traces were gone by then.
  [[nodiscard]] bool calm_since(Instant moment) const;

 private:
  struct Excuse {
    Entry entry;
    ExcuseRule rule;
    std::uint32_t a = kNoProcess;  // that ran there then
    std::uint32_t b = kNoProcess;  // kStreams: kNoProcess: everybody
    Instant begin;
    Instant end;  // kNever: it lasts
    CohortId from;
    CohortId to;  // 0: its program has not launched since
    CallId call;  // that launch
  };
  [[nodiscard]] bool touches(const Excuse& excuse, std::uint32_t process, std::uint32_t other) const;
  [[nodiscard]] std::uint32_t running(std::uint32_t host) const;

  const Instant& now_;
  std::vector<Life> lives_;
  std::vector<Excuse> excuses_;
  std::vector<Excuse> programs_;  // faults of programs
  struct LetGo {
    std::uint32_t process = 0;
    std::uint32_t other = 0;
    Instant ended;
    Instant learnt;
  };
  std::vector<LetGo> let_go_;  // in the order of `learnt`
};

}  // namespace lockstep::sim

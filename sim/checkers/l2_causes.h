// L2: no abort and no eviction without a cause; a healthy peer is never evicted. An excuse has a subject, a beginning
// and an end (l2_excuses.h), and causes form a chain:
//   - a process is lost to the coordinator, for a reason that the coordinator says: it was silent, and something kept
//     it silent for as long; its stream has ended, and it is dead or its stream was reset; it and another cannot reach
//     each other, and what lies between these two was hurt not long ago;
//   - a newcomer is refused because its gang seems whole: another gang of the same name waits, or a member is gone;
//   - a process loses the run because it is lost to the coordinator, or cannot hear it;
//   - a call ends without a result because a member of its cohort is lost that its round held, or has left, or has
//     stopped it; whoever is named is one of these; or because its caller has lost the run.
// Nothing is the cause of a breach of the protocol, since nobody here speaks anything else, but for pieces of state
// that a host falsifies.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/trace/event.h"
#include "sim/checkers/complaint.h"
#include "sim/checkers/l2_excuses.h"
#include "sim/checkers/s2_exact_fold.h"
#include "sim/plan/plan.h"
#include "sim/workload/call.h"
#include "sim/workload/text.h"

namespace lockstep::sim {

class Causes {
 public:
  // `now`: of the world.
  Causes(const Plan& plan, const Instant& now)
      : founders_(plan.founders), few_stops_(plan.program.stops_at_once != 0), now_(now), excuses_(plan, now) {}

  // ---- what happens ----
  void coordinator(const coordinator::CoordinatorOptions& options) { excuses_.times.with(options); }
  void born(std::uint32_t process, const peer::PeerOptions& options, std::uint32_t host) {
    excuses_.born(process, options, host);
  }
  void strangers_born(std::uint32_t process) { excuses_.strangers_born(process); }
  void died(std::uint32_t process) { excuses_.died(process); }
  void began(const Entry& entry);
  void ended(const Entry& entry) { excuses_.ended(entry); }
  void installed(std::uint32_t process, const std::shared_ptr<const wire::View>& view) {
    excuses_.life(process).view = view;
  }
  [[nodiscard]] const std::shared_ptr<const wire::View>& view_of(std::uint32_t process) const {
    return excuses_.life(process).view;
  }
  void called(const Call& call);
  // `misuses`: the nemesis may make programs skip such a call, or make it with other arguments.
  void launched(const Call& call, bool misuses);
  // With auto_admit, a program calls admit for more members than exist: calls are refused until these members have
  // come.
  void waits_for_more() { waits_for_more_ = true; }
  // Lost members are not judged: a test causes events that no plan states.
  void is_scripted() { is_scripted_ = true; }
  // Programs from outside may do anything by themselves, and may have equal names.
  void has_guests() { has_guests_ = true; }

  // ---- judgement ----
  // Judges a trace event of a machine. `process`: 0 is the coordinator.
  [[nodiscard]] Complaint noted(std::uint32_t process, const trace::Event& event);
  // A process learns that its run is over, and has not asked for this.
  [[nodiscard]] Complaint lost(std::uint32_t process, Status status, const std::string& text) const;
  [[nodiscard]] bool has_committed(const RoundKey& round) const { return committed_.contains(round); }
  void over(std::uint32_t process) { excuses_.life(process).over = now_; }
  // The process learns that the other has closed a stream, at that time.
  void let_go(std::uint32_t process, std::uint32_t other, Instant ended) { excuses_.let_go(process, other, ended); }
  // A call has ended. `founding`: the first view of its cohort; null: the call was in no cohort. `find`: finds the
  // calls of members for the same round. `leaving`: the caller leaves, and may not learn the outcome of a round that
  // others continue. `odd`: a kernel erred in the round, or an input was not finite.
  [[nodiscard]] Complaint aborted(const Call& call, const wire::View* founding, const FindCall& find, bool leaving,
                                  bool odd = false);
  // No other fault has begun, and no call waits for more members.
  [[nodiscard]] bool only_bits_flip() const { return only_flips_ && !waits_for_more_; }
  static bool names_another_key(const trace::Event& event);
  static bool is_breach(const trace::Event& event) {
    return event.kind == trace::Kind::kProtocolError ||
           (event.kind == trace::Kind::kPeerRefused && event.status == Status::kProtocolError);
  }

  [[nodiscard]] const Excuses& excuses() const { return excuses_; }
  // The number of faults that may have cost this call streams and attempts.
  [[nodiscard]] std::uint64_t disturbances(const Call& call, const wire::View* founding, const FindCall& find) const;

 private:
  [[nodiscard]] bool is_for_stops(std::string_view text) const {
    return few_stops_ && text.find(": stopped more than ") != std::string_view::npos;
  }
  struct JudgedRound;  // of a call that is judged
  struct ToldAlone {
    std::uint32_t process = 0;
    Tag tag;
    Status status = Status::kOk;
  };
  struct Report {  // report of a broken link by one of its ends; each report was judged
    PeerId by;
    PeerId of;
    Instant at;
  };
  [[nodiscard]] bool is_reported(std::uint32_t process, std::uint32_t other) const;
  [[nodiscard]] bool may_be_lost(std::uint32_t process, std::string_view why) const;
  [[nodiscard]] bool may_report(std::uint32_t process, PeerId other, bool is_slow) const;
  [[nodiscard]] bool is_nearly_dead(std::uint32_t sender, std::uint32_t hearer) const;
  [[nodiscard]] bool may_seem_whole(GangId gang) const;
  [[nodiscard]] bool may_lose_run(std::uint32_t process, Status status, std::string_view text) const;
  // ---- what is true of a process in a round ----
  [[nodiscard]] bool is_out_of_step(const JudgedRound& round, std::uint32_t process) const;
  [[nodiscard]] bool is_lost(const JudgedRound& round, std::uint32_t process) const;
  [[nodiscard]] bool has_left(const JudgedRound& round, std::uint32_t process) const;
  [[nodiscard]] bool is_gone_or_leaves(std::uint32_t process) const;
  [[nodiscard]] bool was_told_alone(const JudgedRound& round, std::uint32_t process) const;
  [[nodiscard]] bool was_relaid(const JudgedRound& round) const;
  // ---- causes, one function for each status ----
  [[nodiscard]] bool excuse(const JudgedRound& round) const;
  [[nodiscard]] bool excuses_abort(const JudgedRound& round) const;
  [[nodiscard]] bool excuses_time_out(const JudgedRound& round) const;
  [[nodiscard]] bool excuses_closed_cohort(const JudgedRound& round) const;
  [[nodiscard]] bool excuses_below_minimum(const JudgedRound& round) const;
  [[nodiscard]] bool excuses_unknown_outcome(const JudgedRound& round) const;
  [[nodiscard]] bool excuses_undefined_state(const JudgedRound& round) const;
  [[nodiscard]] static bool excuses_unreachable(const JudgedRound& round);
  [[nodiscard]] bool excuses_conflict(const JudgedRound& round) const;
  [[nodiscard]] bool excuses_lost_peer(const JudgedRound& round) const;
  [[nodiscard]] bool excuses_changed_world(const JudgedRound& round) const;
  [[nodiscard]] bool excuses_invalid_argument(const JudgedRound& round) const;
  [[nodiscard]] bool excuses_mismatch(const JudgedRound& round) const;
  [[nodiscard]] bool names_some(std::string_view list, const std::function<bool(std::uint32_t)>& is) const;

  std::uint32_t founders_;
  bool few_stops_;  // S9 judges who is taken out for stops; an honest peer may be, for they are few
  const Instant& now_;
  Excuses excuses_;
  std::vector<ToldAlone> told_alone_;  // calls that their own program has stopped before they had a round
  std::vector<Report> reports_;
  bool waits_for_more_ = false;
  bool only_flips_ = true;
  bool has_strangers_ = false;
  bool others_answer_ = false;    // a dial to a member may reach somebody else
  bool has_deviated_ = false;     // a program was made to call something else, or nothing
  std::set<RoundKey> committed_;  // rounds that the coordinator has committed
  std::set<RoundKey> syncs_;
  struct Members {
    std::set<PeerId> any;   // that have taken part in a round
    std::set<PeerId> full;  // in one that was no sync
    [[nodiscard]] int standing(PeerId peer) const { return full.contains(peer) ? 2 : any.contains(peer) ? 1 : 0; }
    void add(PeerId peer, bool sync) {
      any.insert(peer);
      if (!sync) full.insert(peer);
    }
    void erase(PeerId peer) {
      any.erase(peer);
      full.erase(peer);
    }
  };
  Members contributors_;          // in committed_
  Members may_have_contributed_;  // these, and members whose part in a round the coordinator may know alone
  std::set<PeerId> misfits_;      // taken out of the run for their arguments or states
  bool has_aborted_ = false;      // some call has ended without a result
  bool has_guests_ = false;
  bool has_excluded_ = false;  // a peer has stopped too many rounds: its key or its token is out for a while
  bool is_scripted_ = false;
};

}  // namespace lockstep::sim

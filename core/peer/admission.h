// The way of a peer into the run, through admissions, and out of it: the calls connect, admit and leave, and what the
// coordinator knows of them (rules 18, 21, 22 and 34 of docs/protocol.md). Knows neither rounds nor proposals. What a
// decision here means for rounds is told to the caller as a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/status.h"
#include "core/base/time.h"
#include "core/peer/cohort.h"
#include "core/peer/context.h"
#include "core/peer/input.h"
#include "core/wire/message.h"

namespace lockstep::peer {

class Admission {
 public:
  enum class Life : std::uint8_t { kNew, kJoining, kMember, kLeaving, kOver };

  // The peer must leave the run.
  struct RunEnds {
    Status status = Status::kOk;
    std::string text;
  };
  // The call of admit ends without an admission.
  struct AdmitEnds {
    Status status = Status::kOk;
    std::string text;
  };
  using Decision = std::variant<std::monostate, RunEnds, AdmitEnds>;

  explicit Admission(Context& context) : context_(context) {}

  [[nodiscard]] Life life() const { return life_; }
  [[nodiscard]] bool is_member() const { return life_ == Life::kMember; }
  [[nodiscard]] bool is_over() const { return life_ == Life::kOver; }
  // Fails a call of a peer that is no member. `leaving`: the text while this peer leaves.
  void refuse(CallId call, const char* leaving = "this peer is leaving: no more calls") const;

  // ---- calls ----

  void connect(const Connect& in);
  // `launches`: the number of calls that were launched before. False: the call has failed.
  [[nodiscard]] bool admit(const Admit& in, std::uint64_t launches);
  // False: the call has failed.
  [[nodiscard]] bool leave(const Leave& in);
  // A member joins an admission without a call of admit (auto_admit). False: it has joined one already, or may not.
  [[nodiscard]] bool begin_automatic();
  // Nothing: it is none of these calls, or it is being ended already.
  [[nodiscard]] std::optional<Decision> stop(CallId call, const std::string& why);
  [[nodiscard]] Decision on_timer();

  // ---- admit ----

  // From the call of admit on, launches wait for the next cohort (rule 21).
  [[nodiscard]] bool admits() const { return admit_.has_value(); }
  [[nodiscard]] bool has_said_admit() const { return admit_ && admit_->said; }
  // Whether the coordinator must be told. A proposal may decide rounds: the peer waits for its end.
  [[nodiscard]] bool must_say_admit(bool proposed) const { return admit_ && !admit_->said && !proposed; }
  void say_admit(std::vector<wire::OpenRound> open);
  [[nodiscard]] bool is_cancelled() const { return admit_ && admit_->cancelled; }
  void end_admit(Status status, const std::string& text);
  // The coordinator's answer to a cancelled call.
  void end_cancelled(Status status, const std::string& text);
  // Whether a call with this launch number can enter the present cohort no more (rule 21). With auto_admit, calls that
  // have not begun go on in the next cohort.
  [[nodiscard]] bool closes(std::uint64_t launch) const {
    return admit_ && (admit_->said || !admit_->call || context_.options.auto_admit || launch > admit_->launches);
  }
  // Whether calls up to this launch number must begin before the admit is said. 0: none.
  [[nodiscard]] std::uint64_t admits_after() const {
    return admit_ && admit_->call && !admit_->said && !context_.options.auto_admit ? admit_->launches : 0;
  }
  // Whether the launch with this number was made after the call, and waits for the cohort after the next one.
  [[nodiscard]] bool waits(std::uint64_t launch) const { return admit_ && launch > admit_->launches; }
  // With auto_admit, a member that has called admit takes the others with it, unless it waits for more members than
  // there are.
  [[nodiscard]] bool joins(const Cohort& cohort) const;
  // Whether calls that wait for members which have called admit go on in the next cohort (rule 21): there will be one
  // now. Once a member admits automatically, it waits for no number of members. A leaver's calls are closed by that
  // admission.
  [[nodiscard]] bool goes_on(const Cohort& cohort) const;

  // ---- leave ----

  [[nodiscard]] bool leaves() const { return leave_.has_value(); }
  [[nodiscard]] bool has_said_leave() const { return leave_ && leave_->said; }
  enum class Farewell : std::uint8_t {
    kNone,    // nothing to say, or not yet
    kSay,     // every call that was made before has a round: say_leave()
    kUnseen,  // no coordinator knows of this peer: the run is over
  };
  // `waits`: calls that were made before have not begun.
  [[nodiscard]] Farewell farewell(bool proposed, bool waits);
  void say_leave(std::vector<wire::OpenRound> open);
  void end_leave();

  // ---- what the coordinator decides ----

  void on_pending(const wire::Pending& pending);
  void become_member() { life_ = Life::kMember; }
  // A cohort of which this peer is a member begins. `newcomers`: the members that were not in the view before.
  void enter_cohort(std::size_t members, const std::vector<PeerId>& newcomers);
  // The coordinator is at work: it answers after this change (rule 15).
  void renew_grace(Instant limit);
  // Calls that are made after the end fail with `kEvicted` or `kNotConnected`, and this text.
  void begin_end(Status status, std::string text);
  void end_calls(Status status);
  [[nodiscard]] const std::string& over_text() const { return over_text_; }

  [[nodiscard]] std::uint32_t pending() const { return pending_; }  // newcomers
  [[nodiscard]] Instant deadline() const;
  [[nodiscard]] std::size_t calls() const;

  // Left out: context_, which is saved before it.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(life_, over_status_, over_text_, connect_, admit_, leave_, pending_);
  }

 private:
  struct Connecting {
    CallId call;
    Instant deadline = kNever;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(call, deadline);
    }
  };
  struct Admitting {
    std::optional<CallId> call;  // nothing: begun by auto_admit
    Instant deadline = kNever;
    std::optional<Status> cancelled{};  // the coordinator was asked to end it
    std::string cancelled_by{};         // the reason, if it was aborted
    bool said = false;                  // to the coordinator
    bool said_automatic = false;        // what was said; a call that joins does not change it
    std::uint32_t at_least = 1;
    std::uint64_t launches = 0;       // calls that were launched before
    std::vector<PeerId> newcomers{};  // that have joined since the call
    template <typename Archive>
    void archive(Archive& a) {
      a.all(call, deadline, cancelled, cancelled_by, said, said_automatic, at_least, launches, newcomers);
    }
  };
  struct Leaving {
    CallId call;
    Instant deadline = kNever;
    bool said = false;  // to the coordinator
    template <typename Archive>
    void archive(Archive& a) {
      a.all(call, deadline, said);
    }
  };

  template <typename Call>
  void end(std::optional<Call>& waiting, Outcome outcome);
  template <typename Call>
  void end(std::optional<Call>& waiting, Status status, const std::string& text);
  void cancel_admit(Status status);
  [[nodiscard]] bool enough(std::uint32_t at_least) const {
    return at_least <= context_.view->members.size() + pending_;
  }

  Context& context_;
  Life life_ = Life::kNew;
  Status over_status_ = Status::kNotConnected;
  std::string over_text_ = "this communicator has not joined a run: call connect first";
  std::optional<Connecting> connect_;
  std::optional<Admitting> admit_;
  std::optional<Leaving> leave_;
  std::uint32_t pending_ = 0;
};

}  // namespace lockstep::peer

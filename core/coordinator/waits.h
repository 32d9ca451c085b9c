// Calls that wait long (rule 54 of docs/protocol.md): the members that take part, and the others. A member that has
// waited for some seconds says so; the other members of the round are asked, and all of them, the log and the status
// learn for whom the call waits. Decides nothing about rounds.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/coordinator/connections.h"
#include "core/coordinator/context.h"
#include "core/coordinator/membership.h"
#include "core/coordinator/participants.h"
#include "core/coordinator/rounds.h"
#include "core/wire/message.h"

namespace lockstep::coordinator {

class Waits {
 public:
  Waits(Context& context, Connections& connections, const Membership& membership, const Participants& participants,
        const Rounds& rounds)
      : context_(context),
        connections_(connections),
        membership_(membership),
        participants_(participants),
        rounds_(rounds) {}

  void on_call(PeerId from, const wire::CallWaits& in);
  void on_transfers(PeerId from, const wire::TransfersWait& in);
  // A member has called admit.
  void on_admit() { context_.wake_at(context_.now + patience()); }
  void on_timer();

  // The round is decided.
  void drop_round(const RoundKey& key) { calls_.erase(key); }
  // Attempts that are given up are no longer waited for.
  void drop_stale();
  void gone(PeerId peer) { transfers_.erase(peer); }

  // The oldest first.
  [[nodiscard]] std::vector<wire::WaitStatus> status(Instant now) const;
  [[nodiscard]] std::size_t size() const { return calls_.size() + transfers_.size(); }

  // Left out: context_, connections_, membership_, participants_ and rounds_, which are saved before it.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(calls_, transfers_, admit_told_);
  }

 private:
  // A round, or those that are bound together (rule 32).
  struct Call {
    Generation attempt;
    wire::Collective collective = wire::Collective::kBarrier;
    Instant since;
    std::set<PeerId> come;
    std::map<PeerId, std::string> busy;  // what members that have not come do instead
    bool asked = false;                  // the members that have not come are asked, and may still answer
    Instant due = kNever;                // of the next question, or the end of this one
    template <typename Archive>
    void archive(Archive& a) {
      a.all(attempt, collective, since, come, busy, asked, due);
    }
  };
  struct Transfer {
    wire::TransferWait what;
    Instant since;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(what, since);
    }
  };
  struct Admits {
    std::vector<PeerId> come;
    std::vector<PeerId> missing;
    std::uint32_t at_least = 0;  // the most members that one of them wants
    Instant since = kNever;
  };

  // After this time a wait is long; that of peers, which know their own heartbeat.
  [[nodiscard]] Duration patience() const { return context_.options.heartbeat * kLongWaitBeats; }
  [[nodiscard]] RoundKey bundle_of(const RoundKey& key) const { return rounds_.bound_with(key).front(); }
  // Visits the members of the bound groups, each with the key of its own group.
  template <typename Visit>
  void for_members(const RoundKey& bundle, const Call& call, Visit visit) const;
  [[nodiscard]] std::vector<PeerId> missing(const RoundKey& bundle, const Call& call) const;
  void grow_older(Call& call, Duration age) const;
  void ask(const RoundKey& bundle, Call& call);
  void tell(const RoundKey& bundle, Call& call);
  [[nodiscard]] Admits admits() const;
  void tell_admits();
  void note(const RoundKey& round, std::uint32_t missing, const std::string& text) const;
  using Words = std::function<std::string(PeerId)>;  // empty: none
  [[nodiscard]] std::string names(const std::vector<PeerId>& peers, const Words& of) const;
  [[nodiscard]] std::string describe(const RoundKey& bundle, const Call& call, Instant now) const;
  [[nodiscard]] std::string describe(const Admits& admits, Instant now) const;

  Context& context_;
  Connections& connections_;
  const Membership& membership_;
  const Participants& participants_;
  const Rounds& rounds_;
  std::map<RoundKey, Call> calls_;  // by bundle
  std::map<PeerId, std::vector<Transfer>> transfers_;
  Instant admit_told_;
};

}  // namespace lockstep::coordinator

// Proposals: drafts of the next view with the verdicts on rounds, and the one that is open (rules 4 to 8 of
// docs/protocol.md). Says proposals to their recipients. Removes no peer and installs nothing: its owner does both.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/coordinator/connections.h"
#include "core/coordinator/context.h"
#include "core/coordinator/membership.h"
#include "core/coordinator/newcomers.h"
#include "core/coordinator/participants.h"
#include "core/coordinator/rounds.h"
#include "core/wire/message.h"

namespace lockstep::coordinator {

struct Proposal {
  wire::Propose message;
  Rounds::Change change;
  bool admission = false;
  std::vector<PeerId> added;
  std::set<PeerId> recipients;
  std::set<PeerId> awaited;    // recipients that have not answered
  Instant since;               // when the proposal was sent
  Duration slowest;            // longest time that an answer of a peer in the run took
  bool settled_once = false;   // all recipients have answered a proposal with other verdicts
  std::uint64_t arrivals = 0;  // newest arrival of a newcomer when the proposal was drafted
  template <typename Archive>
  void archive(Archive& a) {
    a.all(message, change, admission, added, recipients, awaited, since, slowest, settled_once, arrivals);
  }
};

class Proposals {
 public:
  Proposals(Context& context, Connections& connections, Membership& membership, Participants& participants,
            const Rounds& rounds, Newcomers& newcomers)
      : context_(context),
        connections_(connections),
        membership_(membership),
        participants_(participants),
        rounds_(rounds),
        newcomers_(newcomers) {}

  // ---- drafts ----

  // The losses and leaves of this moment. Its numbers are not set.
  [[nodiscard]] Proposal draft_change(const std::set<PeerId>& lost);
  // Adds rings that are laid anew, and the numbers. Nothing: the draft would change nothing.
  // `around`: the link that the newest of them avoids.
  [[nodiscard]] std::optional<Proposal> complete_change(Proposal draft, std::set<GroupId> relinked,
                                                        const std::string& around) const;
  // A new cohort, once all members have called admit, or the founding (rules 18 and 34).
  [[nodiscard]] std::optional<Proposal> draft_admission();
  // The view as it is (rule 30). `held_up`: recipients of a proposal that was withdrawn.
  [[nodiscard]] std::optional<Proposal> draft_empty(const std::set<PeerId>& held_up) const;
  [[nodiscard]] std::uint64_t drafts() const { return drafts_; }  // of changes, so far

  // ---- the open proposal ----

  [[nodiscard]] const std::optional<Proposal>& open() const { return open_; }
  [[nodiscard]] bool is_open(ProposalNumber number) const { return open_ && open_->message.number == number; }
  [[nodiscard]] bool is_recipient(PeerId peer) const { return open_ && open_->recipients.contains(peer); }
  [[nodiscard]] bool is_answered() const { return open_ && open_->awaited.empty(); }
  void propose(Proposal draft);
  // A new loss replaces the open proposal (rule 4); so does the loss of a newcomer that it would admit. Nothing: the
  // proposal stands, or none is open.
  [[nodiscard]] std::optional<Proposal> withdraw_if_stale(const std::set<PeerId>& lost);
  // Newcomers that would have been admitted, and are in no proposal now, wait again.
  void put_off(const std::set<PeerId>& held_up);
  // False: the peer may not answer this proposal, or has answered it.
  [[nodiscard]] bool on_flush(PeerId from, wire::Flush in);
  // All recipients have answered. True: the proposal holds, take() it. False: the answers have changed a verdict, and
  // the proposal was sent again (rule 6).
  [[nodiscard]] bool settle();
  [[nodiscard]] Proposal take();
  // A round is decided: it is open no more.
  void drop_round(const RoundKey& key);

  // ---- time ----

  // The members that newcomers still wait for: those that have not answered the open proposal, or that have not called
  // admit although others have (rule 50).
  [[nodiscard]] std::vector<PeerId> newcomers_await() const;
  // Members that have not answered within two silences, or, if they are heard meanwhile, within the time that round
  // trips allow (rule 36). `slept`: this machine stood still, and forgives that time.
  [[nodiscard]] std::vector<Eviction> late(bool slept);
  // The proposal goes on without newcomers that have used up the members' patience (rule 19).
  void miss_newcomers();

  // Left out: context_, connections_, membership_, participants_, rounds_ and newcomers_, which are saved beside it.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(open_, last_view_, drafts_);
  }

 private:
  // A peer answers a proposal as soon as it arrives; and it has left by itself when nothing arrives for the silence
  // that it was told.
  [[nodiscard]] Duration longest_answer() const { return context_.options.silence * 2; }
  [[nodiscard]] Instant answer_limit(PeerId peer) const;
  [[nodiscard]] bool waits_for_newcomers() const;
  void wake_for_newcomers();
  // Whether the loss of a peer makes this proposal wrong.
  [[nodiscard]] bool is_stale(const Proposal& proposal, const std::set<PeerId>& lost) const;
  void complete(Proposal& draft) const;

  Context& context_;
  Connections& connections_;
  Membership& membership_;
  Participants& participants_;
  const Rounds& rounds_;
  Newcomers& newcomers_;
  std::optional<Proposal> open_;
  ViewNumber last_view_;      // that was installed
  std::uint64_t drafts_ = 0;  // of changes
};

}  // namespace lockstep::coordinator

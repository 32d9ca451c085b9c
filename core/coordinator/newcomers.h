// Newcomers prove that they answer before members wait for them (rule 19 of docs/protocol.md). A proposal goes on after
// a few round trips without a newcomer that has answered the question and not the proposal; its host is suspect then,
// and newcomers of that host get less time.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/coordinator/connections.h"
#include "core/coordinator/context.h"
#include "core/coordinator/membership.h"
#include "core/io/stream.h"

namespace lockstep::coordinator {

class Newcomers {
 public:
  Newcomers(Context& context, Connections& connections, Membership& membership)
      : context_(context), connections_(connections), membership_(membership) {}

  // ---- questions ----

  // A peer that may wait has joined.
  void add(Candidate candidate);
  // The run has been founded. Peers that came too late to be founders, or whose gang is not whole, wait on as
  // newcomers.
  void ask_remaining();
  // The newcomer has not answered, and members do not wait for it.
  [[nodiscard]] bool is_silent(PeerId peer) const;
  // An empty run is to be founded anew, and a newcomer that holds a state has not answered: the founding waits until
  // the newcomer answers or is evicted (rule 49).
  [[nodiscard]] bool waits_for_holder() const;
  // The time that members wait for a newcomer's answer, from the moment at which the proposal was sent. `slowest`: the
  // time that the slowest member took for its answer.
  [[nodiscard]] Duration patience_with(const Candidate& candidate, Duration slowest) const;
  // The proposal goes on without this newcomer.
  void miss(Candidate& newcomer);
  // The answer to a question, or to a proposal that went on without the newcomer. The newcomer counts from now on,
  // behind all newcomers that counted before.
  void on_late_answer(PeerId from, ProposalNumber proposal);
  // Newcomers that have not answered within one silence. `slept`: this machine stood still, and forgives that time.
  [[nodiscard]] std::vector<Eviction> late(bool slept);

  // ---- admissions ----

  // Newcomers that come while an admission is under way, and is withdrawn because another newcomer is gone, wait for
  // the next admission: members must not wait for newcomers that come and go, however many they are.

  // The candidates of this admission: whole gangs only.
  [[nodiscard]] std::vector<Candidate> admissible() const;
  // The newest arrival that this admission takes.
  [[nodiscard]] std::uint64_t newest_arrival() const { return std::min(arrivals_, last_admissible_); }
  void withdraw_admission(std::uint64_t arrivals) { last_admissible_ = std::min(last_admissible_, arrivals); }
  // The next admission takes all newcomers.
  void end_admission() { last_admissible_ = UINT64_MAX; }

  // Left out: context_, connections_ and membership_, which are saved before it.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(arrivals_, last_admissible_, suspects_);
  }

 private:
  void ask(Candidate& candidate);
  void suspect(const io::Address& host);
  [[nodiscard]] bool is_suspect(const io::Address& host) const;

  Context& context_;
  Connections& connections_;
  Membership& membership_;
  std::uint64_t arrivals_ = 0;
  std::uint64_t last_admissible_ = UINT64_MAX;  // arrival
  std::map<io::Address, Instant> suspects_;     // end of the suspicion, by host (port 0)
};

}  // namespace lockstep::coordinator

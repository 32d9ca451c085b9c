// The coordinator's inside: hands each input to the part that it concerns, and carries out what a part's decision means
// for the others. The parts are Connections (streams), DialBack (who can be dialled), Grants and Exclusions (who may
// join), Participants (peers that have joined, and their calls), Membership (the view), Newcomers (peers that wait),
// BrokenLinks, Rounds (commits and verdicts), Publications, Waits (calls that wait long) and Proposals (the next view).
// archive.cc names all that it holds, for recordings.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/coordinator/broken_links.h"
#include "core/coordinator/connections.h"
#include "core/coordinator/context.h"
#include "core/coordinator/coordinator.h"
#include "core/coordinator/dial_back.h"
#include "core/coordinator/exclusions.h"
#include "core/coordinator/grants.h"
#include "core/coordinator/membership.h"
#include "core/coordinator/newcomers.h"
#include "core/coordinator/participants.h"
#include "core/coordinator/proposals.h"
#include "core/coordinator/publications.h"
#include "core/coordinator/rounds.h"
#include "core/coordinator/waits.h"

namespace lockstep::coordinator {

class Coordinator::Machine {
 public:
  Machine(const CoordinatorOptions& options, Instant now);

  void step(Input& input, Instant now, Effects& out);  // takes what it wants of it
  [[nodiscard]] Instant deadline() const { return context_.next_timer; }
  [[nodiscard]] wire::StatusReply snapshot(Instant now) const;
  [[nodiscard]] Footprint footprint() const;
  [[nodiscard]] bool is_quiet() const;
  [[nodiscard]] Holdings holdings();
  [[nodiscard]] Lifecycle lifecycle() const;
  [[nodiscard]] bool hears(StreamId stream) const { return connections_.hears(stream) || dial_back_.hears(stream); }

  // What a recording begins with (core/flight/); defined in archive.cc.
  template <typename Archive>
  void archive(Archive& a);
  void lend_again(Effects& out) const {
    connections_.lend_again(out);
    dial_back_.lend_again(out);
  }

 private:
  struct Counters {
    std::uint64_t commits = 0;
    std::uint64_t aborts = 0;
    std::uint64_t repairs = 0;
    std::uint64_t admitted = 0;
    std::uint64_t lost = 0;
    std::uint64_t left = 0;
    std::uint64_t bytes_reduced = 0;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(commits, aborts, repairs, admitted, lost, left, bytes_reduced);
    }
  };

  // ---- inputs ----

  // False: it does not concern a stream that this machine has dialled.
  [[nodiscard]] bool is_of_dial_back(const Input& input);
  void on_dialled_back(const DialBack::Answer& answer);
  void on_closed(const io::Closed& in);
  void on_change(const ChangeGrants& in);
  void on_timer();
  void take_events(StreamId stream);
  void on_greeting(StreamId stream, const wire::Message& message);
  void on_join(StreamId stream, const wire::Join& join);
  void on_evict_request(StreamId stream, PeerId peer);
  [[nodiscard]] std::optional<Error> validate_join(const Candidate& candidate, const io::Address& network) const;
  void on_message(PeerId from, wire::Message& message);
  void on_leave(PeerId from, wire::Leave in);
  void on_stop(PeerId from, const wire::StopRound& in);
  void on_link_broken(PeerId from, const wire::LinkBroken& in);
  void on_knock(PeerId from, const wire::Knock& in);
  void on_publish(PeerId from, const wire::Publish& in);
  void on_want(PeerId from, const wire::WantState& in);
  void on_flush(PeerId from, wire::Flush in);

  // ---- rounds ----

  void on_done(PeerId from, Rounds::DoneResult result);
  void carry_out(Rounds::DoneResult result);
  void give_up_comparison(bool slept);
  void announce_commit(Rounds::Committed committed);
  void count_commit(const Rounds::Committed& committed);
  // A round is decided: no list names it as open any more.
  void drop_round(const RoundKey& key);

  // ---- the end of a peer ----

  // The peer is out of the run, with its whole gang (rule 8 of docs/protocol.md). `tell`: the peer lives, and learns
  // why.
  void lose(const Eviction& eviction, bool tell = true);
  void lose_one(const Eviction& eviction, bool tell = true);
  void lose_violator(PeerId peer, std::string violation) { lose({peer, Status::kProtocolError, std::move(violation)}); }
  // The peer has broken the protocol: whoever it is stays out for a while (rule 66).
  void exclude(PeerId violator);
  void let_go(PeerId leaver);  // a newcomer that leaves, or a leaver with no round to finish
  // Leavers whose last rounds are decided may go.
  void release_leavers();
  void remove(PeerId peer);

  // ---- proposals ----

  void decide();
  // Losses, leaves, broken links and rounds to be stopped.
  [[nodiscard]] std::optional<Proposal> draft_change();
  void install();
  void end_rounds(const Proposal& proposal);
  void begin_cohort(const Proposal& proposal);
  [[nodiscard]] std::vector<Eviction> suspects();
  void announce_pending();
  void announce_published();
  void pump();

  Context context_;
  Connections connections_{context_};
  DialBack dial_back_{context_};
  Grants grants_{context_.options.secured, context_.options.grants};
  Exclusions exclusions_;
  Membership membership_;
  Rounds rounds_;
  Participants participants_{context_, connections_, membership_, rounds_};
  Newcomers newcomers_{context_, connections_, membership_};
  BrokenLinks broken_links_{context_, connections_, membership_, participants_};
  Proposals proposals_{context_, connections_, membership_, participants_, rounds_, newcomers_};
  Publications publications_;
  Waits waits_{context_, connections_, membership_, participants_, rounds_};
  std::set<PeerId> lost_;    // members and leavers that the installed view still names
  bool changed_ = false;     // since the last draft of a change, in a way that may ask for another one
  Instant compared_since_;   // start of the comparison of two watched states
  wire::Pending announced_;  // what members were told last
  Counters counters_;
};

}  // namespace lockstep::coordinator

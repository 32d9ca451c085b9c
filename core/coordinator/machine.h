// The coordinator's inside: parties (streams and who is behind them) and decisions (proposals and commits). Two files carry it
// out: parties.cc and decisions.cc. state.cc names all that it holds, for recordings.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/coordinator/coordinator.h"
#include "core/coordinator/membership.h"
#include "core/coordinator/publications.h"
#include "core/coordinator/rounds.h"
#include "core/wire/channel.h"

namespace lockstep::coordinator {

class Coordinator::Machine {
 public:
  Machine(const Options& options, Instant now);

  void step(Input& input, Instant now, Effects& out);  // takes what it wants of it
  [[nodiscard]] Instant deadline() const { return next_look_; }
  [[nodiscard]] wire::StatusReply snapshot(Instant now) const;
  [[nodiscard]] Footprint footprint() const;
  [[nodiscard]] Posture posture() const;
  [[nodiscard]] bool hears(StreamId stream) const;

  // What a recording begins with (core/flight/); defined in state.cc.
  template <typename Archive>
  void state(Archive& a);
  void lend_again(Effects& out) const {
    for (const auto& [stream, party] : parties_) party.channel.lend_again(out);
  }

 private:
  // Who is at the other end of a stream, as far as we know.
  struct Party {
    Party(StreamId stream, Instant now, const io::Address& address) : channel(stream, now), from(address), since(now) {}
    wire::Channel channel;
    io::Address from;
    Instant since;         // of the stream; of finishing, once that began
    PeerId peer;           // nobody: a stranger
    bool greeted = false;  // its preamble came
    bool dirty = false;    // named in dirty_
    template <typename Archive>
    void state(Archive& a) {
      a.all(channel, from, since, peer, greeted, dirty);
    }
  };

  // Somebody who joined: waiting, a member, or leaving with rounds to finish.
  struct Seat {
    StreamId stream;
    std::string name;
    std::optional<wire::Admit> admit;
    std::optional<Status> admit_cancelled;
    std::optional<wire::Leave> leave;
    Instant leave_since;
    bool cut = false;       // out of the view; finishes the rounds that were kept for it
    std::string complaint;  // of the last link that it called broken, cut short
    template <typename Archive>
    void state(Archive& a) {
      a.all(stream, name, admit, admit_cancelled, leave, leave_since, cut, complaint);
    }
  };

  struct Proposal {
    wire::Propose message;
    Rounds::Change change;
    bool admission = false;
    std::vector<PeerId> added;
    std::set<PeerId> participants;
    std::set<PeerId> awaited;
    Instant since;  // it was sent
    bool settled_once = false;
    template <typename Archive>
    void state(Archive& a) {
      a.all(message, change, admission, added, participants, awaited, since, settled_once);
    }
  };

  // ---- parties.cc ----
  void on_accepted(const io::Accepted& in);
  void on_closed(const io::Closed& in);
  void take_events(Party& party);
  void on_preamble(Party& party, const wire::Preamble& preamble);
  void on_message(Party& party, wire::Received received);
  void on_greeting(Party& party, const wire::Message& message);
  void on_join(Party& party, const wire::Join& join);
  void refuse(Party& party, Status status, std::string text);
  void hurry_gangs(Instant now);
  void hurry_answers(Instant now, bool slept);
  void hurry_comparison(Instant now, bool slept);
  // A peer answers a proposal as soon as it comes; and it has left by itself when nothing comes for the silence that it was told.
  // A newcomer has not shown yet that it answers anything, and the members wait for it: it has half of that. No shorter, because
  // a proposal that is lost a few times on a long link comes as late as any byte may come.
  [[nodiscard]] Duration answer_limit(PeerId peer) const {
    const bool newcomer = membership_.candidates().contains(peer);
    return options_.silence * (newcomer ? 1 : 2);
  }
  [[nodiscard]] bool suspects(PeerId peer, Duration silent);
  void look(Instant now);  // heartbeats, silence, strangers that say nothing
  void say(PeerId to, const wire::Message& message);
  void say_on(Party& party, const wire::Message& message);
  void break_off(Party& party);
  void mark(Party& party) {
    if (!std::exchange(party.dirty, true)) dirty_.push_back(party.channel.stream());
  }
  void pump_all();
  [[nodiscard]] std::string name_of(PeerId peer) const;
  void note(trace::Event event) { out_->emplace_back(std::move(event)); }

  // ---- decisions.cc ----
  void on_done(PeerId from, Rounds::DoneResult result);
  void carry_out(Rounds::DoneResult result);
  void on_admit(PeerId from, wire::Admit in);
  void on_admit_cancel(PeerId from, const wire::AdmitCancel& in);
  void tell_others(PeerId peer, const wire::Admitting& news);
  void on_leave(PeerId from, wire::Leave in);
  void on_link_broken(PeerId from, const wire::LinkBroken& in);
  [[nodiscard]] std::string cannot_reach(PeerId victim, PeerId other, const std::string& so) const;
  void on_flush(PeerId from, wire::Flush in);
  void on_publish(PeerId from, const wire::Publish& in);
  void on_want(PeerId from, const wire::WantState& in);
  // The peer is out of the run, with all of its gang. `tell`: it lives, and learns why.
  void lose(PeerId peer, Status status, const std::string& why, bool tell);
  void lose_one(PeerId peer, Status status, const std::string& why, bool tell);
  void let_go(PeerId peer);  // it has left
  void unseat(PeerId peer);
  void decide();
  [[nodiscard]] std::optional<Proposal> change_proposal();
  [[nodiscard]] std::optional<Proposal> admission_proposal();
  // `held_up`: who had a proposal that was withdrawn, and has not got another one yet.
  [[nodiscard]] std::optional<Proposal> empty_proposal(const std::set<PeerId>& held_up) const;
  void put_off_newcomers(const std::set<PeerId>& held_up);
  [[nodiscard]] bool evict_for_broken_links(const std::vector<wire::Member>& members);
  // Since when a link must have been called broken to count as that: those who need it say so again, again and again.
  [[nodiscard]] Instant broken_from() const { return now_ - options_.link_patience * 2; }
  void answer_cancelled_admits();
  // Whether somebody has called admit without having launched this round.
  [[nodiscard]] bool closed_by_admit(const RoundKey& key) const;
  [[nodiscard]] bool stale(const Proposal& proposal) const;
  void propose(Proposal proposal);
  void settle();
  void install();
  void announce_commit(Rounds::Committed committed);
  void count_commit(const Rounds::Committed& committed);
  void release_leavers();
  void announce_pending();
  void announce_published();
  [[nodiscard]] bool is_member(PeerId peer) const { return membership_.contains(peer); }

  Options options_;
  Instant born_;
  Instant now_;
  Effects* out_ = nullptr;  // during a step

  std::map<StreamId, Party> parties_;
  std::map<PeerId, Seat> seats_;
  std::vector<StreamId> dirty_;   // to be pumped at the end of the step
  std::vector<StreamId> pumped_;  // takes turns with it
  std::uint64_t arrivals_ = 0;
  Instant next_heartbeat_;
  Instant next_look_ = kNever;

  Membership membership_;
  Rounds rounds_;
  Publications publications_;
  std::set<PeerId> lost_;
  std::set<GroupId> relink_;      // groups whose ring is to be laid around a broken link
  bool admit_cancelled_ = false;  // by somebody, and not answered yet
  bool changed_ = false;          // something that may ask for another view, or a verdict, since one was last drafted
  std::uint64_t drafts_ = 0;
  std::optional<Proposal> proposal_;
  Instant compared_since_;  // when the states that two watch began to be compared
  ProposalNumber last_proposal_;
  ViewNumber last_view_;
  wire::Pending pending_told_;

  struct {
    std::uint64_t commits = 0, aborts = 0, admitted = 0, lost = 0, left = 0, bytes_reduced = 0;
  } counters_;
};

}  // namespace lockstep::coordinator

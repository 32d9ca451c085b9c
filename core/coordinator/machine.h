// The coordinator's inside: parties (streams and who is behind them) and decisions (proposals and commits). Three files
// carry it out: parties.cc, decisions.cc and newcomers.cc. state.cc names all that it holds, for recordings.
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
#include "core/io/lobby.h"
#include "core/wire/channel.h"

namespace lockstep::coordinator {

class Coordinator::Machine {
 public:
  Machine(const Options& options, Instant now);

  void step(Input& input, Instant now, Effects& out);  // takes what it wants of it
  [[nodiscard]] Instant deadline() const { return next_look_; }
  [[nodiscard]] wire::StatusReply snapshot(Instant now) const;
  [[nodiscard]] Footprint footprint() const;
  [[nodiscard]] bool is_quiet() const;
  [[nodiscard]] Holdings holdings();
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
    io::Address network;  // from which it came
    std::optional<wire::Admit> admit;
    std::optional<Status> admit_cancelled;
    std::optional<wire::Leave> leave;
    Instant leave_since;
    bool cut = false;       // out of the view; finishes the rounds that were kept for it
    std::string complaint;  // of the last link that it called broken, cut short
    template <typename Archive>
    void state(Archive& a) {
      a.all(stream, name, network, admit, admit_cancelled, leave, leave_since, cut, complaint);
    }
  };

  struct Proposal {
    wire::Propose message;
    Rounds::Change change;
    bool admission = false;
    std::vector<PeerId> added;
    std::set<PeerId> participants;
    std::set<PeerId> awaited;
    Instant since;     // it was sent
    Duration slowest;  // of those that are in the run: how long its answer took
    bool settled_once = false;
    std::uint64_t arrivals = 0;  // newcomers that had come when it was drafted
    template <typename Archive>
    void state(Archive& a) {
      a.all(message, change, admission, added, participants, awaited, since, slowest, settled_once, arrivals);
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
  void hurry_newcomers(Instant now, bool slept);
  void hurry_comparison(Instant now, bool slept);
  // A peer answers a proposal as soon as it comes; and it has left by itself when nothing comes for the silence that it
  // was told.
  [[nodiscard]] Duration answer_limit() const { return options_.silence * 2; }
  [[nodiscard]] bool suspects(PeerId peer, Duration silent);
  void look(Instant now);  // heartbeats, silence, strangers that say nothing
  void say(PeerId to, const wire::Message& message);
  void say_on(Party& party, const wire::Message& message);
  void break_off(Party& party);
  void show_out(Party& party);
  [[nodiscard]] std::size_t waiting_of(const io::Address& network) const;
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
  [[nodiscard]] std::vector<Candidate> admissible_of_this_admission() const;
  // `held_up`: who had a proposal that was withdrawn, and has not got another one yet.
  [[nodiscard]] std::optional<Proposal> empty_proposal(const std::set<PeerId>& held_up) const;
  void put_off_newcomers(const std::set<PeerId>& held_up);

  // ---- newcomers.cc ---- Members wait for no newcomer that has not answered a question first. A proposal goes on
  // after a few round trips without a newcomer that has answered the question and not the proposal; its host is suspect
  // then, and newcomers of that host get less time.
  void ask_newcomer(Candidate& candidate);
  void ask_remaining_candidates();
  [[nodiscard]] bool is_suspect(const io::Address& host) const;
  [[nodiscard]] Duration patience_with(const Candidate& candidate) const;
  [[nodiscard]] bool waits_for_newcomers() const;
  void look_for_newcomers();
  void suspect(const io::Address& host);
  void on_late_answer(PeerId from, ProposalNumber proposal);
  [[nodiscard]] bool silent_newcomer(PeerId peer) const {
    const auto at = membership_.candidates().find(peer);
    return at != membership_.candidates().end() && !at->second.answers;
  }
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
  io::Lobby lobby_;  // those whose greeting is not over
  std::map<PeerId, Seat> seats_;
  std::vector<StreamId> dirty_;   // to be pumped at the end of the step
  std::vector<StreamId> pumped_;  // takes turns with it
  std::uint64_t arrivals_ = 0;
  // Newcomers that come while an admission is under way, and is withdrawn because another newcomer is gone, wait for
  // the next one: members must not wait for those who come and go, however many they are.
  std::uint64_t last_admissible_ = UINT64_MAX;
  Instant next_heartbeat_;
  Instant next_look_ = kNever;

  Membership membership_;
  Rounds rounds_;
  Publications publications_;
  std::set<PeerId> lost_;
  std::map<io::Address, Instant>
      suspects_;                  // hosts (port 0) from which a newcomer did not answer, and until when that counts
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

// The peers that have joined: those that wait, members, and leavers that still finish rounds; with their calls of admit
// and leave (rules 18, 21 and 22 of docs/protocol.md). Decides no view and ends no connection.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/status.h"
#include "core/base/time.h"
#include "core/coordinator/connections.h"
#include "core/coordinator/context.h"
#include "core/coordinator/membership.h"
#include "core/coordinator/rounds.h"
#include "core/coordinator/stop_allowance.h"
#include "core/io/stream.h"
#include "core/wire/message.h"

namespace lockstep::coordinator {

struct Participant {
  std::string name;
  io::Address network;  // from which the peer has connected
  std::optional<wire::Admit> admit;
  Instant admit_since;
  std::optional<Status> admit_cancelled;
  std::optional<wire::Leave> leave;
  Instant leave_since;
  bool cut = false;  // out of the view; finishes the rounds that were kept for this leaver
  StopAllowance stops;
  std::string complaint;  // text of the peer's last report of a broken link, cut short
  template <typename Archive>
  void archive(Archive& a) {
    a.all(name, network, admit, admit_since, admit_cancelled, leave, leave_since, cut, stops, complaint);
  }
};

class Participants {
 public:
  Participants(Context& context, Connections& connections, const Membership& membership, const Rounds& rounds)
      : context_(context), connections_(connections), membership_(membership), rounds_(rounds) {}

  [[nodiscard]] const std::map<PeerId, Participant>& all() const { return all_; }
  [[nodiscard]] std::size_t size() const { return all_.size(); }
  [[nodiscard]] bool contains(PeerId peer) const { return all_.contains(peer); }
  // Null: the peer has not joined, or is out of the run.
  [[nodiscard]] const Participant* find(PeerId peer) const;
  // Whether any participant has this property.
  template <typename Property>
  [[nodiscard]] bool any(Property property) const {
    return std::any_of(all_.begin(), all_.end(), [&](const auto& entry) { return property(entry.second); });
  }
  // A member, or a leaver that still finishes rounds.
  [[nodiscard]] bool is_in_run(PeerId peer) const;
  [[nodiscard]] bool is_cut(PeerId peer) const;
  [[nodiscard]] std::string name_of(PeerId peer) const;

  void add(PeerId peer, const std::string& name, const io::Address& network);
  void remove(PeerId peer) { all_.erase(peer); }
  void complain(PeerId peer, std::string complaint) { all_.at(peer).complaint = std::move(complaint); }

  // The peer has stopped a round. False: it stops more than any program does (rule 67). A lost peer stops no more.
  [[nodiscard]] bool use_stop(PeerId peer);

  // ---- admit ----

  // Nothing: the call counts, and the others know. Otherwise the peer breaks the protocol.
  [[nodiscard]] std::optional<Eviction> admit(PeerId from, wire::Admit in);
  void cancel_admit(PeerId from, const wire::AdmitCancel& in);
  // Ends the calls that were cancelled. Call it while no proposal is open: an admission may make the answer wrong.
  void answer_cancelled_admits();
  // Whether a peer has called admit without having launched this round (rule 21).
  [[nodiscard]] bool closed_by_admit(const RoundKey& key) const;
  // An admission holds: all calls of admit are over.
  void end_admits();

  // ---- leave ----

  // Nothing: the peer leaves as soon as a proposal says so. Otherwise it breaks the protocol.
  [[nodiscard]] std::optional<Eviction> leave(PeerId from, wire::Leave in);
  // The open rounds of the members that leave now: whole gangs, less the lost peers (rule 22).
  using OpenRounds = std::map<PeerId, std::vector<wire::OpenRound>>;
  [[nodiscard]] OpenRounds leavers(const std::set<PeerId>& lost) const;
  // A view without this leaver holds. False: the leaver was lost meanwhile.
  [[nodiscard]] bool cut(PeerId leaver);
  // Members whose gang has left, and that have not followed in time (rule 22).
  [[nodiscard]] std::vector<Eviction> late_mates();

  // A round is decided: it is open no more.
  void drop_round(const RoundKey& key);

  // Left out: context_, connections_, membership_ and rounds_, which are saved before it.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(all_, admit_cancelled_);
  }

 private:
  // Tells the members, and leavers whose rounds are kept: their calls may wait for this peer.
  void tell_others(PeerId peer, const wire::Admitting& news);
  [[nodiscard]] std::string why_not_admitted(const Participant& participant) const;

  Context& context_;
  Connections& connections_;
  const Membership& membership_;
  const Rounds& rounds_;
  std::map<PeerId, Participant> all_;
  bool admit_cancelled_ = false;  // by a participant that has had no answer yet
};

}  // namespace lockstep::coordinator

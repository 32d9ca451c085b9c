// A1, admitted: nobody is in a view who has not proved a run token that is valid, and nobody stays by a token that was
// revoked (rules 63 and 64 of docs/protocol.md). Knows which tokens the coordinator was given and what each stream to
// it has proved, and judges the views that peers install.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/io/identity.h"
#include "core/wire/message.h"
#include "sim/checkers/complaint.h"

namespace lockstep::sim {

class Admitted {
 public:
  // `patience`: the time in which a peer whose token is gone learns so, by the loss of its stream at the latest.
  explicit Admitted(Duration patience) : patience_(patience) {}

  void granted(io::TokenId token) {
    valid_.insert(token);
    revoked_.erase(token);
  }
  // `newest`: the newest view that the coordinator has installed.
  void revoked(io::TokenId token, ViewNumber newest, Instant now) {
    valid_.erase(token);
    revoked_.insert_or_assign(token, Revoked{newest, now});
  }
  // A stream to the coordinator proves this.
  void accepted(const io::Identity& identity) {
    if (identity.proved && !identity.key.is_none() && valid_.contains(identity.token)) {
      proved_.insert_or_assign(identity.key, identity.token);
    }
  }

  [[nodiscard]] Complaint installed(const wire::View& view) const {
    for (const wire::Member& member : view.members) {
      const auto proved = proved_.find(member.key);
      if (proved == proved_.end()) return member.name + " is a member and has proved no token that is valid";
      const auto gone = revoked_.find(proved->second);
      if (gone == revoked_.end() || view.number <= gone->second.newest) continue;
      return member.name + " is in view " + std::to_string(view.number.value) + ", and its token was revoked before";
    }
    return {};
  }
  // A round has committed at a peer that uses this token.
  [[nodiscard]] Complaint committed(io::TokenId token, Instant now) const {
    const auto gone = revoked_.find(token);
    if (gone == revoked_.end() || now - gone->second.at <= patience_) return {};
    return "a peer takes part in a round " + std::to_string((now - gone->second.at).ns / 1'000'000) +
           " ms after its token was revoked";
  }
  // The coordinator has said this to a stranger without a proof.
  [[nodiscard]] static Complaint told(const wire::Message& message) {
    if (!std::holds_alternative<wire::Waiting>(message)) return {};
    return "a stranger without the proof of a token waits for its admission";
  }

 private:
  struct Revoked {
    ViewNumber newest;
    Instant at;
  };

  Duration patience_;
  std::set<io::TokenId> valid_;
  std::map<io::TokenId, Revoked> revoked_;
  std::map<io::KeyDigest, io::TokenId> proved_;
};

}  // namespace lockstep::sim

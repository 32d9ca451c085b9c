// A4, a violator stays out: a peer that has broken the protocol comes back no sooner than rule 66 of docs/protocol.md
// allows, with its key, or with a token that is personal or has too many violations. Knows what each stream to the
// coordinator has proved, and hears from the coordinator whom it lets in and takes out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/io/identity.h"
#include "core/trace/event.h"
#include "sim/checkers/complaint.h"

namespace lockstep::sim {

class Excluded {
 public:
  // From now on the token is for one peer at a time.
  void is_personal(io::TokenId token) { personal_.insert(token); }
  void accepted(StreamId stream, const io::Identity& identity) { proved_.insert_or_assign(stream, identity); }
  // The coordinator takes bytes of this stream: a peer that it lets in now is at the other end.
  void reads(StreamId stream) { reads_ = stream; }

  // Judges an event of the coordinator.
  [[nodiscard]] Complaint noted(const trace::Event& event, Instant now) {
    if (event.kind == trace::Kind::kPeerWaiting) return joins(event.peer, now);
    if (event.kind != trace::Kind::kPeerLost) return {};
    const auto joined = joined_.find(event.peer);
    if (joined == joined_.end()) return {};
    if (event.status == Status::kProtocolError) violated(joined->second, now);
    const bool evicted = event.text.ends_with(" has evicted this peer") &&
                         event.text.find("its gang lost ") == std::string::npos;  // by an administrator (rule 69)
    if (evicted) subject_of(joined->second).again(now);
    return {};
  }

 private:
  static constexpr Duration kFirst = seconds(10);
  static constexpr Duration kLongest = seconds(600);
  static constexpr Duration kMemory = seconds(3600);
  static constexpr Duration kWindow = seconds(600);
  static constexpr std::size_t kMostViolations = 3;

  struct Sentence {
    Instant until;
    Duration length;  // 0: none so far
    void again(Instant now) {
      if (now - until > kMemory) length = {};
      length = length == Duration{} ? kFirst : std::min(length * 2, kLongest);
      until = std::max(until, now + length);
    }
  };

  [[nodiscard]] Complaint joins(PeerId peer, Instant now) {
    const auto at = proved_.find(reads_);
    if (at == proved_.end()) return "a peer joins by a stream that the coordinator has not accepted";
    const io::Identity& identity = joined_.insert_or_assign(peer, at->second).first->second;
    const auto out = [&](const auto& sentences, const auto& subject) {
      const auto sentence = sentences.find(subject);
      return sentence != sentences.end() && now < sentence->second.until;
    };
    if (out(keys_, identity.key)) return "a peer joins with the key of one that has broken the protocol not long ago";
    if (out(tokens_, identity.token))
      return "a peer joins by a token whose peers have broken the protocol not long ago";
    return {};
  }

  Sentence& subject_of(const io::Identity& identity) {
    return personal_.contains(identity.token) ? tokens_[identity.token] : keys_[identity.key];
  }

  void violated(const io::Identity& identity, Instant now) {
    subject_of(identity).again(now);
    if (personal_.contains(identity.token)) return;
    std::vector<Instant>& violations = violations_[identity.token];
    violations.push_back(now);
    const auto recent =
        std::ranges::count_if(violations, [&](Instant violation) { return now - violation <= kWindow; });
    if (static_cast<std::size_t>(recent) >= kMostViolations) tokens_[identity.token].again(now);
  }

  StreamId reads_;
  std::map<StreamId, io::Identity> proved_;
  std::map<PeerId, io::Identity> joined_;
  std::set<io::TokenId> personal_;
  std::map<io::KeyDigest, Sentence> keys_;
  std::map<io::TokenId, Sentence> tokens_;
  std::map<io::TokenId, std::vector<Instant>> violations_;
};

}  // namespace lockstep::sim

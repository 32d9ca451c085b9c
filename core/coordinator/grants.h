// Which peers may join the run, and for how long: the run tokens that the coordinator knows (rules 63 and 64 of
// docs/protocol.md). Never sees the secret of a token: the transport has checked it, and says so in io::Identity.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/io/identity.h"

namespace lockstep::coordinator {

// The rights of one run token.
struct Grant {
  io::TokenId id;
  io::Role role = io::Role::kMember;
  Instant expires = kNever;
  std::uint32_t most_peers = 0;  // in the run, or waiting, that joined by it; 0: no limit
  bool single_use = false;       // a peer that joins by it uses it up
  bool used = false;             // a single use that was used up before
  std::string name{};            // for people; may be empty

  bool operator==(const Grant&) const = default;
};

// A key that may not be in the run, whatever it proves: its certificate is not valid any more.
struct BarredKey {
  io::KeyDigest key;
  std::string why;  // in words

  bool operator==(const BarredKey&) const = default;
};

// Why no coordinator can have these grants; empty: they are valid.
std::string validate_grants(const std::vector<Grant>& grants);

class Grants {
 public:
  Grants(bool secured, const std::vector<Grant>& grants);

  // Return the reason why an identity may not join now, or may not ask for the status. Empty if it may.
  [[nodiscard]] std::optional<Error> validate_join(const io::Identity& identity, Instant now) const;
  [[nodiscard]] std::optional<Error> validate_status_request(const io::Identity& identity, Instant now) const;
  // The same for an eviction by request (rule 69).
  [[nodiscard]] std::optional<Error> validate_eviction(const io::Identity& identity, Instant now) const;

  // True: its token is used up now.
  [[nodiscard]] bool joined(PeerId peer, const io::Identity& identity);
  void gone(PeerId peer);

  // A peer whose grant is gone, and the reason in words.
  struct Revoked {
    PeerId peer;
    std::string why;
  };
  // Replaces the table, and the list of barred keys.
  [[nodiscard]] std::vector<Revoked> change(const std::vector<Grant>& grants, const std::vector<BarredKey>& barred);

  // "token 0123456789abcdef (name)", or "certificate 'CN=a' (SHA-256 ...)".
  [[nodiscard]] std::string text_of(const io::Identity& identity) const;
  // How a program whose peer was evicted can join again, and how to prevent it; empty: it cannot by itself. Begins with
  // ": ".
  [[nodiscard]] std::string way_back(const io::Identity& evicted) const;
  // Returns the identity with which the peer has joined. Empty if the peer has joined without a token.
  [[nodiscard]] std::optional<io::Identity> identity_of(PeerId peer) const;
  // The same for all peers.
  [[nodiscard]] const std::map<PeerId, io::Identity>& identities() const { return identity_of_; }
  // Whether the token is for one peer at a time.
  [[nodiscard]] bool is_personal(io::TokenId token) const;
  [[nodiscard]] std::size_t entries() const {
    return grants_.size() + used_up_.size() + identity_of_.size() + barred_.size();
  }

  // Left out: secured_, an option.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(grants_, used_up_, identity_of_, barred_);
  }

 private:
  void replace(const std::vector<Grant>& grants);
  [[nodiscard]] std::string text_of(io::TokenId token) const;
  [[nodiscard]] std::size_t peers_of(io::TokenId token) const;

  bool secured_;
  std::map<io::TokenId, Grant> grants_;
  std::set<io::TokenId> used_up_;
  std::map<PeerId, io::Identity> identity_of_;   // of peers in the run, and those that wait
  std::map<io::KeyDigest, std::string> barred_;  // and why
};

}  // namespace lockstep::coordinator

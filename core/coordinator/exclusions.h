// Which identities may not join for a while, because peers with them have broken the protocol, or an administrator has
// evicted them (rules 66 and 69 of docs/protocol.md). Knows no peers and no grants: an identity and the time come in,
// a refusal comes out.
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/io/identity.h"

namespace lockstep::coordinator {

inline constexpr Duration kFirstExclusion = seconds(10);  // each further one is twice as long
inline constexpr Duration kLongestExclusion = seconds(600);
inline constexpr Duration kExclusionMemory = seconds(3600);  // after its end, an exclusion still doubles the next one
// So many violations by peers of one shared token within this time exclude the token.
inline constexpr std::size_t kViolationsOfToken = 3;
inline constexpr Duration kViolationWindow = seconds(600);

class Exclusions {
 public:
  // A peer with this identity has broken the protocol. `personal`: its token is for one peer.
  void violated(const io::Identity& identity, bool personal, Instant now);
  // An administrator has evicted a peer with this identity (rule 69). Says nothing about other peers of a shared token.
  void evicted(const io::Identity& identity, bool personal, Instant now);

  // Returns the reason why an identity may not join now, with the time that is left. Empty if the identity may join.
  [[nodiscard]] std::optional<Error> validate_join(const io::Identity& identity, Instant now) const;

  [[nodiscard]] std::size_t entries() const;

  template <typename Archive>
  void archive(Archive& a) {
    a.all(entries_);
  }

 private:
  // A whole token, or else one key.
  struct Subject {
    io::TokenId token;  // 0: the subject is a key
    io::KeyDigest key;
    auto operator<=>(const Subject&) const = default;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(token, key);
    }
  };
  struct Entry {
    Instant until;                    // end of the exclusion; before the first one: time of the last violation
    Duration length;                  // of the last exclusion; 0: none yet
    std::vector<Instant> violations;  // of a shared token: the newest, at most kViolationsOfToken
    bool evicted = false;             // by an administrator, the last time
    template <typename Archive>
    void archive(Archive& a) {
      a.all(until, length, violations, evicted);
    }
  };

  void forget_old(Instant now);
  Entry& entry_of(const Subject& subject, Instant now);
  static void exclude(Entry& entry, bool evicted, Instant now);

  // Invariant: at most kMaxExclusions entries.
  std::map<Subject, Entry> entries_;
};

}  // namespace lockstep::coordinator

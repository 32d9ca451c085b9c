// What the processes of a simulated run prove over their streams: keys that follow from ids, and a token for each host.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "core/base/ids.h"
#include "core/coordinator/grants.h"
#include "core/io/identity.h"

namespace lockstep::sim {

// Ids are random and differ, and so do keys.
inline io::KeyDigest key_of(PeerId id) {
  io::KeyDigest key;
  for (std::uint32_t i = 0; i < 8; ++i) {
    key.bytes[i] = static_cast<std::uint8_t>(id.high >> (8 * i));
    key.bytes[8 + i] = static_cast<std::uint8_t>(id.low >> (8 * i));
  }
  key.bytes[31] = 1;  // nobody, the coordinator, has a key, too
  return key;
}

inline constexpr io::TokenId kGuestToken{0x2000};  // of those that join only to hang up
inline constexpr io::TokenId kAdminToken{0x2001};
inline constexpr io::TokenId kObserverToken{0x2002};
inline constexpr io::TokenId kForgottenToken{0x3000};  // of no run

// The run tokens: each host has one at a time. A host that is repaired after lies gets another one, since the
// coordinator may exclude the token of a host that has lied (rule 66 of docs/protocol.md).
class Tokens {
 public:
  // The run has hosts that lie: the coordinator grants the tokens that they get when they are repaired, too.
  void expect_repairs() { spare_ = kSpare; }
  // Of a process on this host. Processes that were there when a token was revoked keep it.
  [[nodiscard]] io::TokenId of(std::uint32_t process, std::uint32_t host) const {
    const std::uint64_t repairs = std::min(count(repaired_, process, host), spare_);
    return {kFirst + host % kHostTokens + count(revoked_, process, host) * kStep + repairs * kSpareStep};
  }
  // The first token of the host is for one peer at a time from now on.
  void restrict(std::uint32_t host) { personal_.insert(host % kHostTokens); }
  // What the coordinator grants.
  [[nodiscard]] std::vector<coordinator::Grant> grants(std::uint32_t hosts) const {
    std::vector<coordinator::Grant> grants{{.id = kGuestToken, .name = "guests"},
                                           {.id = kAdminToken, .role = io::Role::kAdmin, .name = "operator"},
                                           {.id = kObserverToken, .role = io::Role::kObserver, .name = "dashboard"}};
    for (std::uint32_t host = 0; host < hosts && host < kHostTokens; ++host) {
      const std::uint64_t first = kFirst + host + count(revoked_, UINT32_MAX, host) * kStep;
      for (std::uint64_t spare = 0; spare <= spare_; ++spare) {
        grants.push_back({.id = {first + spare * kSpareStep}});
        if (spare == 0 && personal_.contains(host)) grants.back().most_peers = 1;
      }
    }
    return grants;
  }
  // The host gets another token that is granted already, for its processes from number `next` on.
  void repair(std::uint32_t host, std::uint64_t next) { repaired_[host % kHostTokens].push_back(next); }
  // The host gets another token, for its processes from number `next` on. Returns the new grants.
  std::vector<coordinator::Grant> revoke(std::uint32_t host, std::uint32_t hosts, std::uint64_t next) {
    revoked_[host % kHostTokens].push_back(next);
    return grants(hosts);
  }

 private:
  static constexpr std::uint32_t kHostTokens = 512;  // hosts beyond them share tokens
  static constexpr std::uint64_t kFirst = 0x1000;
  static constexpr std::uint64_t kStep = 0x10000;
  static constexpr std::uint64_t kSpareStep = 0x4000;
  static constexpr std::uint64_t kSpare = 3;  // for each host; a host that is repaired more often keeps the last one

  using FirstProcesses = std::map<std::uint32_t, std::vector<std::uint64_t>>;  // with another token, by host
  // How many tokens the host had before the one of this process.
  static std::uint64_t count(const FirstProcesses& changes, std::uint32_t process, std::uint32_t host) {
    const auto at = changes.find(host % kHostTokens);
    if (at == changes.end()) return 0;
    return static_cast<std::uint64_t>(
        std::ranges::count_if(at->second, [&](std::uint64_t first) { return process >= first; }));
  }

  FirstProcesses revoked_;
  FirstProcesses repaired_;
  std::set<std::uint32_t> personal_;  // hosts
  std::uint64_t spare_ = 0;
};

}  // namespace lockstep::sim

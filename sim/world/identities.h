// What the processes of a simulated run prove over their streams: keys that follow from ids, and a token for each host.
#pragma once

#include <cstdint>
#include <map>
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

inline constexpr io::TokenId kGuestToken{0x2000};      // of those that join only to hang up
inline constexpr io::TokenId kForgottenToken{0x3000};  // of no run

// The run tokens: each host has one at a time.
class Tokens {
 public:
  // Of a process on this host. Processes that were there when a token was revoked keep it.
  [[nodiscard]] io::TokenId of(std::uint32_t process, std::uint32_t host) const {
    std::uint64_t generation = 0;
    const auto revoked = revoked_.find(host % kHostTokens);
    if (revoked != revoked_.end()) {
      for (const std::uint64_t until : revoked->second) generation += process >= until ? 1 : 0;
    }
    return {kFirst + host % kHostTokens + generation * kStep};
  }
  // What the coordinator grants.
  [[nodiscard]] std::vector<coordinator::Grant> grants(std::uint32_t hosts) const {
    std::vector<coordinator::Grant> grants{{.id = kGuestToken, .name = "guests"}};
    for (std::uint32_t host = 0; host < hosts && host < kHostTokens; ++host) {
      grants.push_back({.id = of(UINT32_MAX, host)});
    }
    return grants;
  }
  // The host gets another token, for its processes from number `next` on. Returns the new grants.
  std::vector<coordinator::Grant> revoke(std::uint32_t host, std::uint32_t hosts, std::uint64_t next) {
    revoked_[host % kHostTokens].push_back(next);
    return grants(hosts);
  }

 private:
  static constexpr std::uint32_t kHostTokens = 512;  // hosts beyond them share tokens
  static constexpr std::uint64_t kFirst = 0x1000;
  static constexpr std::uint64_t kStep = 0x10000;

  std::map<std::uint32_t, std::vector<std::uint64_t>> revoked_;  // by host: the first processes with another token
};

}  // namespace lockstep::sim

// Strangers that know no key, in a process of their own: they keep ports full of idle connections, speak HTTP, drip
// single bytes, send what another port told them, and join a run only to hang up.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/time.h"
#include "tests/support/process.h"

namespace lockstep::testing {

struct AttackerOptions {
  std::string from = "127.0.0.1";      // its own address
  std::uint32_t idle = 300;            // connections that stay silent, at each port
  Duration round = milliseconds(500);  // in which each port is filled again, and hears each kind of noise
  std::uint32_t joiners = 1;           // that join and hang up, in each round
};

class Attacker {
 public:
  explicit Attacker(const AttackerOptions& options = {});

  void attack_member(std::uint16_t port) { process.say("member " + std::to_string(port)); }
  void attack_coordinator(std::uint16_t port) { process.say("coordinator " + std::to_string(port)); }
  // Its process is gone, and so is its port.
  void forget(std::uint16_t port) { process.say("forget " + std::to_string(port)); }
  // Once every port has been full since it was named, and heard noise in so many more rounds.
  bool has_filled(std::uint32_t rounds = 1, Duration within = seconds(30));

  Process process;
};

}  // namespace lockstep::testing

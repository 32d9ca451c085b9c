// Strangers without a key, in a separate process: they keep ports full of idle connections, speak HTTP, drip single
// bytes, repeat what another port sent, and join a run only to disconnect.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/time.h"
#include "tests/support/process.h"

namespace lockstep::testing {

struct AttackerOptions {
  std::string from = "127.0.0.1";      // source address
  std::uint32_t idle = 300;            // silent connections at each port
  Duration round = milliseconds(500);  // each round refills every port and sends each kind of noise
  std::uint32_t joiners = 1;           // peers per round that join and disconnect
  bool tls = false;                    // drips and floods begin TLS handshakes
  std::uint32_t hellos = 0;            // per round and port, connections that send the first message of one handshake
};

class Attacker {
 public:
  explicit Attacker(const AttackerOptions& options = {});

  void attack_member(std::uint16_t port) { process.say("member " + std::to_string(port)); }
  void attack_coordinator(std::uint16_t port) { process.say("coordinator " + std::to_string(port)); }
  // The process at this port has ended.
  void forget(std::uint16_t port) { process.say("forget " + std::to_string(port)); }
  // True once every port has been full since it was named, and has received `rounds` more rounds of noise.
  bool has_filled(std::uint32_t rounds = 1, Duration within = seconds(30));

  Process process;
};

}  // namespace lockstep::testing

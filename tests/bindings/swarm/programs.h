// Programs for tests of a swarm: each on a thread, with a communicator that has joined.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "bindings/swarm/swarm.h"

namespace lockstep::swarm {

// The host of the program crashed: the program must end.
struct Killed : std::exception {};

struct Peer {
  Swarm& swarm;
  ProgramId program;
  std::uint32_t host = 0;
  lockstep_comm* comm = nullptr;

  void check(lockstep_status status) const {
    if (swarm.killed(program)) throw Killed();
    if (status != LOCKSTEP_OK) {
      throw std::runtime_error(std::string(lockstep_status_string(status)) + ": " + lockstep_last_error());
    }
  }
  void spend(Duration duration) const {
    if (!swarm.spend(program, duration)) throw Killed();
  }
  [[nodiscard]] Duration now() const { return swarm.now(program); }
};

// Frees the work however the program ends; ends the call first.
struct FreeWork {
  void operator()(lockstep_work* work) const { lockstep_work_free(work); }
};
using OwnedWork = std::unique_ptr<lockstep_work, FreeWork>;

using Main = std::function<void(Peer&)>;

inline void run_program(Swarm& swarm, ProgramId program, const Main& main, bool connects) {
  swarm.enter(program);
  Peer peer{swarm, program, swarm.host_of(program)};
  std::optional<std::string> failure;
  try {
    peer.check(swarm.open(program, nullptr, &peer.comm));
    if (connects) peer.check(lockstep_connect(peer.comm, "swarm:1", LOCKSTEP_FOREVER));
    main(peer);
  } catch (const Killed&) {
  } catch (const std::exception& error) {
    failure = error.what();
  }
  lockstep_comm_destroy(peer.comm);
  swarm.exit(program, failure);
}

inline Report run(const Conditions& conditions, const Main& main, bool connects = true,
                  const Swarm::Interrupt& interrupt = {}) {
  Swarm swarm(conditions);
  std::vector<std::thread> threads;
  Report report = swarm.run(
      [&](ProgramId program) {
        threads.emplace_back([&swarm, program, &main, connects] { run_program(swarm, program, main, connects); });
      },
      interrupt);
  for (std::thread& thread : threads) thread.join();
  return report;
}

inline Conditions scenario(const std::string& toml, std::uint64_t seed = 7) {
  Result<Conditions> conditions = Conditions::from_scenario(toml, seed);
  if (!conditions) throw std::runtime_error(conditions.error().text);
  return *std::move(conditions);
}

}  // namespace lockstep::swarm

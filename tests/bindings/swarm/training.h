// The programs of a swarm in tests: they train a model in step with each other, and continue after they lost the run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/time.h"
#include "lockstep.h"
#include "tests/bindings/swarm/programs.h"

namespace lockstep::swarm {

inline lockstep_all_reduce_args sum_of(std::vector<float>& values, std::uint64_t tag = 0) {
  lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
  args.send = args.recv = values.data();
  args.count = values.size();
  args.type = LOCKSTEP_F32;
  args.tag = tag;
  return args;
}

// A state with a step and some weights that every step changes equally on all peers.
struct Model {
  std::uint64_t step = 0;
  std::vector<float> weights = std::vector<float>(100);
  lockstep_state_tensor tensor{};
  lockstep_state_value value{};

  lockstep_sync_state_args args() {
    tensor.name = "weights";
    tensor.data = weights.data();
    tensor.count = weights.size();
    tensor.type = LOCKSTEP_F32;
    value = {"step", &step, LOCKSTEP_UINT};
    lockstep_sync_state_args args = LOCKSTEP_SYNC_STATE_ARGS_INIT;
    args.tensors = &tensor;
    args.tensors_count = 1;
    args.values = &value;
    args.values_count = 1;
    args.revision = step;
    args.tag = 1000;
    return args;
  }
  lockstep_status sync(lockstep_comm* comm, lockstep_result* result) {
    const lockstep_sync_state_args state = args();
    return lockstep_sync_state(comm, &state, result);
  }
  void add(const std::vector<float>& gradient) {
    for (std::size_t i = 0; i < gradient.size(); ++i) weights[i] += gradient[i];
    step += 1;
  }
};

struct Training {
  std::uint64_t steps = 30;
  Duration step_takes = milliseconds(300);
  lockstep_wire_format up = LOCKSTEP_WIRE_NATIVE;
  bool newcomers_sync = true;  // false: newcomers forget to sync
  bool watches = false;        // also fails when states differ
};

// This communicator has lost the run.
struct Lost {};

inline void check_or_lose(const Peer& peer, lockstep_status status) {
  const bool lost =
      status == LOCKSTEP_ERR_EVICTED || status == LOCKSTEP_ERR_OUTCOME_UNKNOWN || status == LOCKSTEP_ERR_NOT_CONNECTED;
  if (lost && !peer.swarm.killed(peer.program)) throw Lost();
  peer.check(status);
}

inline void train_in_one_run(Peer& peer, Model& model, const Training& training) {
  const auto ends_the_cohort = [](lockstep_status status) {
    return status == LOCKSTEP_ERR_COHORT_CLOSED || status == LOCKSTEP_ERR_PEER_LOST ||
           status == LOCKSTEP_ERR_WORLD_CHANGED || status == LOCKSTEP_ERR_ABORTED;
  };
  const auto admit = [&] { check_or_lose(peer, lockstep_admit(peer.comm, LOCKSTEP_FOREVER, nullptr)); };
  bool synced = !training.newcomers_sync;
  while (model.step < training.steps) {
    if (!synced) {
      const lockstep_status status = model.sync(peer.comm, nullptr);
      if (ends_the_cohort(status)) {
        admit();
        continue;
      }
      check_or_lose(peer, status);
      synced = true;
      if (model.step >= training.steps) break;
    }
    peer.spend(training.step_takes);
    std::vector<float> gradient(100, static_cast<float>(model.step + peer.host));
    lockstep_all_reduce_args args = sum_of(gradient);
    args.op = LOCKSTEP_AVG;
    args.up = training.up;
    if (training.watches) {
      const lockstep_sync_state_args state = model.args();
      peer.check(lockstep_watch_state(peer.comm, &state));
    }
    lockstep_result result = LOCKSTEP_RESULT_INIT;
    const lockstep_status status = lockstep_all_reduce(peer.comm, &args, &result);
    if (ends_the_cohort(status)) {
      admit();
      synced = !training.newcomers_sync;
      continue;
    }
    check_or_lose(peer, status);
    if (*result.state_difference != '\0') throw std::runtime_error(result.state_difference);
    model.add(gradient);
    admit();
    synced = !training.newcomers_sync;
  }
  check_or_lose(peer, lockstep_leave(peer.comm, LOCKSTEP_FOREVER));
}

// Trains until the last step, in as many runs as needed. For programs whose communicator is open and has not joined.
inline void train(Peer& peer, const Training& training = {}) {
  Model model;
  for (;;) {
    try {
      check_or_lose(peer, lockstep_connect(peer.comm, "swarm:1", LOCKSTEP_FOREVER));
      return train_in_one_run(peer, model, training);
    } catch (const Lost&) {
      if (model.step >= training.steps) return;
    }
    lockstep_comm_destroy(peer.comm);
    peer.comm = nullptr;
    peer.check(peer.swarm.open(peer.program, nullptr, &peer.comm));
  }
}

}  // namespace lockstep::swarm

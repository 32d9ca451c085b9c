// The training of the demo: it has no model, but the data flow of one. Gradients depend on the state, the step and the
// peer; the state depends on every bit of every reduced gradient so far. So peers with equal states have reduced equal
// data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep.h"

namespace lockstep::cli {

class Training {
 public:
  Training();

  static constexpr std::size_t kWeights = 1U << 16U;

  // This peer's gradient for the next step.
  void gradient(const lockstep_peer_id& peer, std::span<float> out) const;

  // The number of elements, in a sample of the mean gradient, that differ from the mean over the contributors by more
  // than rounding.
  [[nodiscard]] std::uint32_t wrong(std::span<const float> mean, std::span<const lockstep_peer_id> contributors) const;
  static constexpr std::uint32_t kSamples = 1024;

  // Completes one step with the mean gradient.
  void advance(std::span<const float> mean);

  [[nodiscard]] std::uint64_t step() const { return header_.step; }
  [[nodiscard]] std::uint64_t hash() const;

  // The whole state for lockstep_sync_state(); its revision is step().
  [[nodiscard]] std::array<lockstep_state_tensor, 1> tensors();
  [[nodiscard]] std::array<lockstep_state_value, 2> values();

 private:
  [[nodiscard]] float element(std::uint32_t key, std::size_t index) const;
  [[nodiscard]] std::uint32_t key_of(const lockstep_peer_id& peer) const;

  struct Header {
    std::uint64_t step = 0;     // steps done
    std::uint64_t history = 0;  // hash of all mean gradients so far, in order
  };
  Header header_;
  std::vector<float> weights_;
};

}  // namespace lockstep::cli

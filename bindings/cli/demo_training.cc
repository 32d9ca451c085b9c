#include "bindings/cli/demo_training.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/base/rng.h"
#include "core/kernels/checksum.h"

namespace lockstep::cli {
namespace {

constexpr float kLearningRate = 0.01F;

}  // namespace

Training::Training() : weights_(kWeights) {
  for (std::size_t i = 0; i < kWeights; ++i) weights_[i] = static_cast<float>(mix64(i) % 2001) * 0.001F - 1;
}

std::uint32_t Training::key_of(const lockstep_peer_id& peer) const {
  std::uint64_t id = 0;
  std::memcpy(&id, peer.bytes, sizeof id);
  return static_cast<std::uint32_t>(mix64(id ^ mix64(header_.step)));
}

float Training::element(std::uint32_t key, std::size_t index) const {
  std::uint32_t noise = (static_cast<std::uint32_t>(index) ^ key) * 0x9e3779b1U;  // 2^32 over the golden ratio
  noise = (noise ^ noise >> 15U) * 0x85ebca77U;                                   // a prime of xxHash
  return static_cast<float>(static_cast<std::int32_t>(noise)) * 0x1p-31F + 0.1F * weights_[index % kWeights];
}

void Training::gradient(const lockstep_peer_id& peer, std::span<float> out) const {
  const std::uint32_t key = key_of(peer);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = element(key, i);
}

std::uint32_t Training::wrong(std::span<const float> mean, std::span<const lockstep_peer_id> contributors) const {
  std::uint32_t bad = 0;
  for (std::uint32_t sample = 0; sample < kSamples; ++sample) {
    const std::size_t index = mix64(header_.step * kSamples + sample) % mean.size();
    double sum = 0;
    for (const lockstep_peer_id& peer : contributors) sum += static_cast<double>(element(key_of(peer), index));
    const double expected = sum / static_cast<double>(contributors.size());
    if (std::abs(static_cast<double>(mean[index]) - expected) > 1e-5) ++bad;
  }
  return bad;
}

void Training::advance(std::span<const float> mean) {
  for (std::size_t begin = 0; begin < mean.size(); begin += kWeights) {
    const std::span<const float> block = mean.subspan(begin, std::min(kWeights, mean.size() - begin));
    for (std::size_t i = 0; i < block.size(); ++i) weights_[i] = weights_[i] * 0.999F - kLearningRate * block[i];
  }
  header_.history = mix64(header_.history ^ checksum(std::as_bytes(mean)));
  header_.step += 1;
}

std::array<lockstep_state_tensor, 1> Training::tensors() {
  return {{{"weights", weights_.data(), weights_.size(), LOCKSTEP_F32, 0, 0}}};
}

std::array<lockstep_state_value, 2> Training::values() {
  return {{{"step", &header_.step, LOCKSTEP_UINT}, {"history", &header_.history, LOCKSTEP_UINT}}};
}

std::uint64_t Training::hash() const {
  ChecksumStream stream;
  stream.update(std::as_bytes(std::span(&header_, 1)));
  stream.update(std::as_bytes(std::span(weights_)));
  return stream.value();
}

}  // namespace lockstep::cli

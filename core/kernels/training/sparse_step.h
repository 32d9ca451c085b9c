// The per-element work of strategies that exchange few elements: error feedback, averages of blocks, and their steps.
// Every function works on whole chunks and reads each element once, so pieces of one tensor may run on several threads;
// the results do not depend on how a tensor was cut into pieces.
//
// Each operation is rounded to float32 on its own, in the written order. A NaN in theta is the canonical one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/kernels/training/dct.h"
#include "core/kernels/training/outer_step.h"
#include "core/kernels/training/sparse_block.h"

namespace lockstep::training {

// The average of sparse contributions:
//
//     element = (weight_1 * value_1 + weight_2 * value_2 + ...) / (sum of the weights)        weight 1 without
//
// Contributions are added in the order of `blocks`.
class SparseAverage {
 public:
  // counts_absent: whether a contributor counts for elements that it has not sent, as if it had sent 0. If not, an
  //   element is divided by the weights of the contributors that have sent it; by 1 if these add up to 0.
  // clips: whether each contributor's part of a tensor is scaled down to the median of their norms for this tensor; of
  //   an even number of norms the lower one in the middle.
  struct AverageRules {
    bool counts_absent = false;
    bool clips = false;
  };

  // layout, blocks: must outlive the average. At least one block.
  SparseAverage(const SparseLayout& layout, std::vector<const SparseBlock*> blocks, AverageRules rules);

  [[nodiscard]] const SparseLayout& layout() const { return *layout_; }
  // Sum of the weights. Only a total that is finite and above 0 makes an average.
  [[nodiscard]] float total() const { return total_; }
  [[nodiscard]] const SparseBlock& block(std::size_t number) const { return *blocks_[number]; }

  // Sets `values` to the average of whole chunks of a tensor, from chunk `first` on; 0 where nobody has sent.
  void average(std::size_t tensor, std::uint64_t first, std::span<float> values) const;

  // Where chunks of a tensor begin in the blocks; see ChunkSums in sparse_step.cc.
  struct Positions {
    std::vector<std::uint64_t> elements;  // of each block
    std::uint64_t chunk;                  // among all chunks
  };
  [[nodiscard]] Positions positions(std::size_t tensor, std::uint64_t chunk) const;

 private:
  friend class ChunkSums;

  const SparseLayout* layout_;
  std::vector<const SparseBlock*> blocks_;
  std::vector<float> weights_;
  std::vector<float> scales_;  // of each tensor and block; empty without clips
  AverageRules rules_;
  float total_ = 0;
};

// Whole chunks of a tensor. first: number of the first one.
struct ChunkRange {
  std::size_t tensor = 0;
  std::uint64_t first = 0;
};

// ---- SparseLoCo ----

// Adds the next chunks of the encoder's layout: decay * error + (theta - now), where `now` is the model's part.
void encode_progress(SparseEncoder& encoder, std::span<const float> error, std::span<const float> theta,
                     Held<const std::byte> now, float decay);

// The outer step of some chunks:
//
//     error = decay * error + (theta - now) - own          own: what this peer has sent
//     theta = theta - lr * average
//     model = theta, if there is a model; it may be the memory of `now`
//
// own: null: what this peer has sent counts with weight 0, and stays in the error.
struct SparseStep {
  const SparseBlock* own = nullptr;
  ChunkRange at;
  float decay = 1;
  float lr = 1;
};
void sparse_step(const SparseAverage& average, const SparseStep& step, std::span<float> error, std::span<float> theta,
                 Held<const std::byte> now, Held<std::byte> model);

// ---- DeMo ----

// Tiles of one size that lie side by side and one below the other in a matrix; a chunk is a tile. stride: elements
// between the rows of the matrix. All pointers below are those of the first element of the first tile.
struct Tiles {
  const TileDct* dct = nullptr;
  std::size_t down = 0;
  std::size_t across = 0;
  std::size_t stride = 0;
};

// Gradients of the same tiles. Without memory, they are 0.
struct TileGradients {
  DataType type = DataType::kF32;
  const std::byte* memory = nullptr;
  std::size_t stride = 0;  // elements
};

// The model's parameters of the same tiles. Without memory, there are none.
struct TileModel {
  DataType type = DataType::kF32;
  std::byte* memory = nullptr;
  std::size_t stride = 0;  // elements
};

struct MomentumRates {
  float decay = 0;
  float lr = 0;
};

// Adds the next chunks of the encoder's layout: DCT(decay * error + lr * gradient).
void encode_momentum(SparseEncoder& encoder, const Tiles& tiles, const float* error, const TileGradients& gradients,
                     MomentumRates rates);

// The step of some tiles:
//
//     error = decay * error + lr * gradient - inverse DCT(own)
//     theta = remains * theta - lr * sign(inverse DCT(average))
//     model = theta, if there is a model
//
// own: null: as in sparse_step().
struct SignStep {
  const SparseBlock* own = nullptr;
  ChunkRange at;
  MomentumRates rates;
  float remains = 1;
};
void sign_step(const SparseAverage& average, const SignStep& step, const Tiles& tiles, float* error, float* theta,
               const TileGradients& gradients, const TileModel& model);

}  // namespace lockstep::training

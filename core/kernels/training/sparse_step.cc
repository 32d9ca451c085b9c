// The loops over all elements have no branches, so that compilers turn them into vector code. Highway compiles this
// file once for each supported instruction set and chooses among them at run time.
#include "core/kernels/training/sparse_step.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/base/assert.h"
#include "core/kernels/element.h"
#include "core/kernels/float_environment.h"
#include "core/kernels/lanes.h"
#include "core/kernels/loops.h"
#include "core/kernels/reference.h"
#include "core/kernels/training/top_k.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/training/sparse_step.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::training::HWY_NAMESPACE {
namespace {

using lockstep::reference::load;

// into = decay * error + into
[[gnu::flatten]] void add_error_here(float* into, const float* error, float decay, std::size_t count) {
  LOCKSTEP_INDEPENDENT_ITERATIONS
  for (std::size_t i = 0; i < count; ++i) into[i] = error[i] * decay + into[i];
}

template <typename T>
[[gnu::flatten]] void momentum_of(float* into, const float* error, const std::byte* gradient, float decay, float lr,
                                  std::size_t count) {
  LOCKSTEP_INDEPENDENT_ITERATIONS
  for (std::size_t i = 0; i < count; ++i) {
    float value = 0;
    if constexpr (SmallFloat<T>)
      value = lanes::widen_lane(load<T>(gradient, i));
    else
      value = load<float>(gradient, i);
    into[i] = error[i] * decay + value * lr;
  }
}

// into = decay * error + lr * gradient
void momentum_here(DataType type, float* into, const float* error, const std::byte* gradient, float decay, float lr,
                   std::size_t count) {
  if (type == DataType::kBF16) return momentum_of<BF16>(into, error, gradient, decay, lr, count);
  if (type == DataType::kF16) return momentum_of<F16>(into, error, gradient, decay, lr, count);
  momentum_of<float>(into, error, gradient, decay, lr, count);
}

// into = into - from
[[gnu::flatten]] void subtract_here(float* into, const float* from, std::size_t count) {
  LOCKSTEP_INDEPENDENT_ITERATIONS
  for (std::size_t i = 0; i < count; ++i) into[i] = into[i] - from[i];
}

// theta = remains * theta - lr * sign(gradient)
[[gnu::flatten]] void sign_here(float* theta, const float* gradient, float lr, float remains, std::size_t count) {
  LOCKSTEP_INDEPENDENT_ITERATIONS
  for (std::size_t i = 0; i < count; ++i) {
    const float value = gradient[i];
    const float up = value > 0 ? lr : 0.0F;
    const float change = value < 0 ? -lr : up;
    theta[i] = lanes::quiet(theta[i] * remains - (std::isnan(value) ? value : change));
  }
}

}  // namespace
}  // namespace lockstep::training::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::training {
namespace {

HWY_EXPORT(add_error_here);
HWY_EXPORT(momentum_here);
HWY_EXPORT(subtract_here);
HWY_EXPORT(sign_here);

}  // namespace

// Weighted sums of the elements of one chunk after the other. All sums are 0 between two chunks.
class ChunkSums {
 public:
  ChunkSums(const SparseAverage& average, ChunkRange at)
      : average_(average), tensor_(at.tensor), positions_(average.positions(at.tensor, at.first)) {
    for (const SparseBlock* block : average.blocks_) values_.push_back(block->values(at.tensor));
    if (average.rules_.clips) {
      for (std::size_t number = 0; number < values_.size(); ++number) {
        const float scale = average.scales_[tensor_ * values_.size() + number];
        for (float& value : values_[number].of_code) value = value * scale;
      }
    }
    for (std::size_t number = 0; number < values_.size(); ++number) {
      for (float& value : values_[number].of_code) value = average.weights_[number] * value;
    }
  }

  // Calls use(place, average) for each place of the next chunk that somebody has sent, in ascending order.
  template <typename Use>
  void next(Use use) {
    for (std::size_t number = 0; number < values_.size(); ++number) add(number);
    ++positions_.chunk;
    for (std::size_t word = 0; word < seen_.size(); ++word) {
      for (std::uint64_t bits = std::exchange(seen_[word], 0); bits != 0; bits &= bits - 1) {
        const std::size_t place = 64 * word + static_cast<std::size_t>(std::countr_zero(bits));
        const float sum = std::exchange(sums_[place], 0.0F);
        const float weight = std::exchange(weights_[place], 0.0F);
        const float divisor = average_.rules_.counts_absent ? average_.total_ : weight;
        use(static_cast<std::uint32_t>(place), divisor > 0 ? sum / divisor : sum);
      }
    }
  }

 private:
  void add(std::size_t number) {
    const SparseBlock& block = *average_.blocks_[number];
    const float weight = average_.weights_[number];
    std::uint64_t& element = positions_.elements[number];
    const std::uint64_t end = element + block.count(positions_.chunk);
    for (; element < end; ++element) {
      const std::uint32_t place = block.place(element);
      sums_[place] += values_[number].of_code[block.code(element)];
      weights_[place] += weight;
      seen_[place / 64] |= std::uint64_t{1} << (place % 64);
    }
  }

  const SparseAverage& average_;
  std::size_t tensor_;
  SparseAverage::Positions positions_;
  std::vector<SparseBlock::Values> values_;  // times scales and weights
  std::array<float, kLongestChunk> sums_{};
  std::array<float, kLongestChunk> weights_{};
  std::array<std::uint64_t, kLongestChunk / 64> seen_{};
};

namespace {

// Calls use(place, value) for the elements of one chunk of a block after the other.
class OwnElements {
 public:
  OwnElements(const SparseLayout& layout, const SparseBlock* block, ChunkRange at)
      : block_(block), chunk_(layout.first_chunk(at.tensor) + at.first) {
    if (block_ == nullptr) return;
    element_ = block_->first_element(at.tensor, at.first);
    values_ = block_->values(at.tensor);
  }

  template <typename Use>
  void next(Use use) {
    if (block_ == nullptr) return;
    const std::uint64_t end = element_ + block_->count(chunk_++);
    for (; element_ < end; ++element_) use(block_->place(element_), values_.of_code[block_->code(element_)]);
  }

 private:
  const SparseBlock* block_;
  std::uint64_t chunk_;
  std::uint64_t element_ = 0;
  SparseBlock::Values values_{};
};

template <typename Byte>
Held<Byte> part_of(const Held<Byte>& model, std::size_t at, std::size_t count) {
  const std::size_t size = size_of(model.type);
  return {model.type, model.bytes.subspan(at * size, count * size)};
}

// into = decay * error + (theta - now)
void measure(std::span<float> into, std::span<const float> error, std::span<const float> theta,
             Held<const std::byte> now, float decay) {
  difference(into, theta, now);
  HWY_DYNAMIC_DISPATCH(add_error_here)(into.data(), error.data(), decay, into.size());
}

// Tiles of one row of tiles, side by side, that are transformed at once.
struct TileBatch {
  std::size_t element;  // the first one of the first tile, from the first one of all
  std::size_t row;      // of the first element, from the first row of all
  std::size_t column;
  std::size_t tiles;
  std::size_t width;  // of all together
};

template <typename DoBatch>
void each_batch(const Tiles& tiles, DoBatch do_batch) {
  const std::size_t most = std::max<std::size_t>(1, kLongestChunk / tiles.dct->size());
  for (std::size_t down = 0; down < tiles.down; ++down) {
    for (std::size_t across = 0; across < tiles.across; across += most) {
      const std::size_t count = std::min(most, tiles.across - across);
      const std::size_t row = down * tiles.dct->height();
      const std::size_t column = across * tiles.dct->width();
      do_batch(TileBatch{.element = row * tiles.stride + column,
                         .row = row,
                         .column = column,
                         .tiles = count,
                         .width = count * tiles.dct->width()});
    }
  }
}

// into = decay * error + lr * gradient, without gaps between rows.
void momentum(float* into, const Tiles& tiles, const TileBatch& batch, const float* error,
              const TileGradients& gradients, MomentumRates rates) {
  static constexpr std::array<std::byte, kLongestChunk * sizeof(float)> kZeros{};
  for (std::size_t row = 0; row < tiles.dct->height(); ++row) {
    const std::byte* from = kZeros.data();
    if (gradients.memory != nullptr) {
      const std::size_t at = (batch.row + row) * gradients.stride + batch.column;
      from = gradients.memory + at * size_of(gradients.type);
    }
    HWY_DYNAMIC_DISPATCH(momentum_here)
    (gradients.type, into + row * batch.width, error + batch.element + row * tiles.stride, from, rates.decay, rates.lr,
     batch.width);
  }
}

// model = theta, for rows of tiles that are complete. hold() enters the floating-point environment, which costs as much
// as a short row.
void hold_rows(const Tiles& tiles, const TileBatch& batch, const float* theta, const TileModel& model) {
  const std::size_t width = tiles.across * tiles.dct->width();
  if (model.memory == nullptr || batch.column + batch.width < width) return;
  for (std::size_t row = 0; row < tiles.dct->height(); ++row) {
    const std::size_t size = size_of(model.type);
    std::byte* const into = model.memory + (batch.row + row) * model.stride * size;
    const float* const from = theta + (batch.row + row) * tiles.stride;
    if (model.type == DataType::kF32) {
      std::memcpy(into, from, width * size);
    } else {
      hold({model.type, {into, width * size}}, {from, width});
    }
  }
}

}  // namespace

// ---- averages ----

SparseAverage::SparseAverage(const SparseLayout& layout, std::vector<const SparseBlock*> blocks, AverageRules rules)
    : layout_(&layout), blocks_(std::move(blocks)), rules_(rules) {
  LOCKSTEP_ASSERT(!blocks_.empty());
  const StandardFloats standard_floats;
  for (const SparseBlock* block : blocks_) {
    weights_.push_back(block->header().weight.value_or(1.0F));
    total_ += weights_.back();
  }
  for (std::size_t tensor = 0; rules_.clips && tensor < layout.tensors(); ++tensor) {
    std::vector<double> norms;
    for (const SparseBlock* block : blocks_) norms.push_back(std::sqrt(block->energy(tensor)));
    std::vector<double> sorted = norms;
    std::ranges::sort(sorted);
    const double median = sorted[(sorted.size() - 1) / 2];
    for (const double norm : norms) scales_.push_back(static_cast<float>(norm > median ? median / norm : 1.0));
  }
}

SparseAverage::Positions SparseAverage::positions(std::size_t tensor, std::uint64_t chunk) const {
  Positions out{.elements = {}, .chunk = layout_->first_chunk(tensor) + chunk};
  for (const SparseBlock* block : blocks_) out.elements.push_back(block->first_element(tensor, chunk));
  return out;
}

void SparseAverage::average(std::size_t tensor, std::uint64_t first, std::span<float> values) const {
  const StandardFloats standard_floats;
  ChunkSums sums(*this, {tensor, first});
  std::ranges::fill(values, 0.0F);
  std::size_t at = 0;
  for (std::uint64_t chunk = first; at < values.size(); ++chunk) {
    const std::size_t length = layout_->chunk(tensor, chunk).run.length;
    LOCKSTEP_ASSERT(length <= values.size() - at);
    sums.next([&](std::uint32_t place, float average) { values[at + place] = average; });
    at += length;
  }
}

// ---- SparseLoCo ----

void encode_progress(SparseEncoder& encoder, std::span<const float> error, std::span<const float> theta,
                     Held<const std::byte> now, float decay) {
  LOCKSTEP_ASSERT(error.size() == theta.size() && now.bytes.size() == theta.size() * size_of(now.type));
  const StandardFloats standard_floats;
  alignas(64) float room[kLongestChunk];
  for (std::size_t at = 0; at < theta.size();) {
    const auto next = encoder.next();
    LOCKSTEP_ASSERT(next && next->run.length <= theta.size() - at);
    const std::span wanted(room, next->run.length);
    measure(wanted, error.subspan(at, wanted.size()), theta.subspan(at, wanted.size()), part_of(now, at, wanted.size()),
            decay);
    encoder.add(wanted);
    at += wanted.size();
  }
}

void sparse_step(const SparseAverage& average, const SparseStep& step, std::span<float> error, std::span<float> theta,
                 Held<const std::byte> now, Held<std::byte> model) {
  LOCKSTEP_ASSERT(error.size() == theta.size() && now.bytes.size() == theta.size() * size_of(now.type));
  LOCKSTEP_ASSERT(model.bytes.empty() || model.bytes.size() == theta.size() * size_of(model.type));
  const StandardFloats standard_floats;
  ChunkSums sums(average, step.at);
  OwnElements owns(average.layout(), step.own, step.at);
  alignas(64) float room[kLongestChunk];
  std::uint64_t chunk = step.at.first;
  for (std::size_t begin = 0; begin < theta.size(); ++chunk) {
    const std::size_t length = average.layout().chunk(step.at.tensor, chunk).run.length;
    LOCKSTEP_ASSERT(length <= theta.size() - begin);
    const std::span wanted(room, length);
    const auto shared = theta.subspan(begin, length);
    const auto left = error.subspan(begin, length);
    measure(wanted, left, shared, part_of(now, begin, length), step.decay);
    owns.next([&](std::uint32_t place, float value) { wanted[place] -= value; });
    std::ranges::copy(wanted, left.begin());
    // Where nobody has sent anything, the average is 0, and theta stays as it is.
    sums.next([&](std::uint32_t place, float value) { shared[place] = lanes::quiet(shared[place] - value * step.lr); });
    if (!model.bytes.empty()) hold(part_of(model, begin, length), shared);
    begin += length;
  }
}

// ---- DeMo ----

void encode_momentum(SparseEncoder& encoder, const Tiles& tiles, const float* error, const TileGradients& gradients,
                     MomentumRates rates) {
  const StandardFloats standard_floats;
  alignas(64) float wanted[kLongestChunk];
  alignas(64) float coefficients[kLongestChunk];
  each_batch(tiles, [&](const TileBatch& batch) {
    momentum(wanted, tiles, batch, error, gradients, rates);
    tiles.dct->forward(wanted, batch.width, batch.tiles, coefficients);
    for (std::size_t tile = 0; tile < batch.tiles; ++tile)
      encoder.add({coefficients + tile * tiles.dct->size(), tiles.dct->size()});
  });
}

void sign_step(const SparseAverage& average, const SignStep& step, const Tiles& tiles, float* error, float* theta,
               const TileGradients& gradients, const TileModel& model) {
  const StandardFloats standard_floats;
  const TileDct& dct = *tiles.dct;
  ChunkSums sums(average, step.at);
  OwnElements owns(average.layout(), step.own, step.at);
  std::vector<Coefficient> coefficients;
  coefficients.reserve(dct.size());
  alignas(64) float wanted[kLongestChunk];
  alignas(64) float inverse[kLongestChunk];
  each_batch(tiles, [&](const TileBatch& batch) {
    const auto invert = [&](auto& elements) {
      for (std::size_t tile = 0; tile < batch.tiles; ++tile) {
        coefficients.clear();
        elements.next([&](std::uint32_t place, float value) { coefficients.push_back({place, value}); });
        dct.backward(coefficients, inverse + tile * dct.width(), batch.width);
      }
    };
    momentum(wanted, tiles, batch, error, gradients, step.rates);
    if (step.own != nullptr) {
      invert(owns);
      HWY_DYNAMIC_DISPATCH(subtract_here)(wanted, inverse, dct.height() * batch.width);
    }
    invert(sums);
    for (std::size_t row = 0; row < dct.height(); ++row) {
      const std::size_t at = batch.element + row * tiles.stride;
      std::copy_n(wanted + row * batch.width, batch.width, error + at);
      HWY_DYNAMIC_DISPATCH(sign_here)
      (theta + at, inverse + row * batch.width, step.rates.lr, step.remains, batch.width);
    }
    hold_rows(tiles, batch, theta, model);
  });
}

}  // namespace lockstep::training
#endif  // HWY_ONCE

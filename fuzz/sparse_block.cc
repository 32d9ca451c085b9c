// Any bytes as a block of the largest elements, as SparseLoCo and DeMo receive them: the first byte chooses how the
// tensors are cut, the rest is the block. The decoder refuses the block, or everything that it says can be applied:
// ascending places inside of their chunks, finite values, a step that changes nothing outside of the tensors.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "core/base/assert.h"
#include "core/kernels/training/sparse_block.h"
#include "core/kernels/training/sparse_step.h"
#include "fuzz/door.h"

using lockstep::training::sparse_step;
using lockstep::training::SparseAverage;
using lockstep::training::SparseBlock;
using lockstep::training::SparseLayout;
using lockstep::training::SparseRun;
using lockstep::training::SparseStep;

namespace {

SparseLayout layout_of(std::uint8_t choice) {
  if (choice % 4 == 0) return SparseLayout({{{2, 8, 2}, {1, 5, 2}}, {}, {{1, 9, 3}}});
  if (choice % 4 == 1) return SparseLayout({{{3, 64, 32}, {1, 17, 17}}});
  if (choice % 4 == 2) return SparseLayout({{{1, 4096, 64}}, {{1, 4096, 4096}}});
  return SparseLayout({{}, {{7, 1, 1}}});
}

void look_at_chunk(const SparseBlock& block, std::uint64_t element, std::uint32_t count, const SparseRun& run) {
  LOCKSTEP_ASSERT(count <= run.most);
  for (std::uint32_t i = 0; i < count; ++i) {
    LOCKSTEP_ASSERT(block.place(element + i) < run.length);
    LOCKSTEP_ASSERT(i == 0 || block.place(element + i) > block.place(element + i - 1));
  }
}

// Memory of a tensor with a guard behind it, which nothing may change.
struct Guarded {
  explicit Guarded(std::size_t count) : memory(count + 1, 0.25F), values(std::span(memory).first(count)) {}
  ~Guarded() { LOCKSTEP_ASSERT(memory.back() == 0.25F); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  std::vector<float> memory;
  std::span<float> values;
};

void look_at_tensor(const SparseLayout& layout, const SparseBlock& block, std::size_t tensor) {
  std::uint64_t element = block.first_element(tensor);
  std::uint64_t chunk = layout.first_chunk(tensor);
  for (const SparseRun& run : layout.runs(tensor)) {
    for (std::uint64_t i = 0; i < run.chunks; ++i, ++chunk) {
      look_at_chunk(block, element, block.count(chunk), run);
      element += block.count(chunk);
    }
  }
  LOCKSTEP_ASSERT(element == block.first_element(tensor) + block.elements_of(tensor));
  for (const float value : block.values(tensor).of_code) LOCKSTEP_ASSERT(std::isfinite(value));
  LOCKSTEP_ASSERT(std::isfinite(block.energy(tensor)));
  const SparseAverage average(layout, {&block, &block}, {.clips = true});
  Guarded error(layout.elements(tensor));
  Guarded theta(layout.elements(tensor));
  Guarded model(layout.elements(tensor));
  if (!(average.total() > 0) || !std::isfinite(average.total())) return;
  const SparseStep step{.own = &block, .at = {tensor, 0}, .decay = 0.5F, .lr = 0.5F};
  sparse_step(average, step, error.values, theta.values, {.bytes = std::as_bytes(model.values)},
              {.bytes = std::as_writable_bytes(model.values)});
  average.average(tensor, 0, error.values);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const SparseLayout layout = layout_of(data[0]);
  const auto result = SparseBlock::decode(layout, std::as_bytes(std::span(data, size)).subspan(1));
  if (const auto* block = std::get_if<SparseBlock>(&result)) {
    LOCKSTEP_ASSERT(size - 1 <= layout.most_bytes());
    LOCKSTEP_ASSERT(!block->header().weight ||
                    (std::isfinite(*block->header().weight) && *block->header().weight >= 0));
    for (std::size_t tensor = 0; tensor < layout.tensors(); ++tensor) look_at_tensor(layout, *block, tensor);
  }
  return 0;
}

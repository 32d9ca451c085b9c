// How fast memory can be copied, in the first- or second-level cache and far outside of any: what limits whoever moves
// tensors. bytes_per_second counts bytes of the copy.
#include <cstddef>
#include <cstring>
#include <vector>

#include <benchmark/benchmark.h>

namespace lockstep {
namespace {

void copy(benchmark::State& state) {
  const std::vector<std::byte> from(static_cast<std::size_t>(state.range(0)), std::byte{1});
  std::vector<std::byte> to(from.size());
  for ([[maybe_unused]] const auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(copy)->Name("copy/in_cache")->Arg(64 << 10);
BENCHMARK(copy)->Name("copy/out_of_cache")->Arg(256 << 20);

}  // namespace
}  // namespace lockstep

// How fast the kernels are on one core: in 64 KiB, in a segment of 256 KiB, and in 4 MiB, more than most second-level
// caches hold; a shared state is digested from memory. bytes_per_second counts bytes of the result.
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "core/base/rng.h"
#include "core/kernels/checksum.h"
#include "core/kernels/element.h"
#include "core/kernels/formats/codec.h"
#include "core/kernels/reduce.h"
#include "core/kernels/reference.h"
#include "core/kernels/run_job.h"
#include "core/wire/limits.h"

namespace lockstep {
namespace {

constexpr std::int64_t kSizes[] = {64 << 10, 256 << 10, 4 << 20};

using Bytes = std::vector<std::byte>;

// Ordinary numbers: floats between 1 and 2, so that neither sums nor products leave the normal range.
Bytes numbers(DataType type, std::int64_t size) {
  Bytes bytes(static_cast<std::size_t>(size));
  with_element(type, [&]<typename T>(std::type_identity<T>) {
    for (std::size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
      const auto number = 1.0F + static_cast<float>(i % 61) / 64.0F;
      if constexpr (SmallFloat<T>) {
        reference::store(bytes.data(), i, narrow<T>(number));
      } else if constexpr (std::floating_point<T>) {
        reference::store(bytes.data(), i, static_cast<T>(number));
      } else if constexpr (std::same_as<T, Bool>) {
        reference::store(bytes.data(), i, Bool{static_cast<std::uint8_t>(i % 2)});
      } else {
        reference::store(bytes.data(), i, static_cast<T>(i * 2'654'435'761U));  // Knuth's multiplicative hash
      }
    }
  });
  return bytes;
}

void count_bytes(benchmark::State& state) { state.SetBytesProcessed(state.iterations() * state.range(0)); }

void bench_fold(benchmark::State& state, DataType type, ReduceOp op) {
  const Bytes incoming = numbers(type, state.range(0));
  const Bytes own = numbers(type, state.range(0));
  Bytes into(own.size());
  while (state.KeepRunning()) {
    fold(type, op, into, incoming, own);
    benchmark::DoNotOptimize(into.data());
    benchmark::ClobberMemory();
  }
  count_bytes(state);
}

void bench_divide(benchmark::State& state, DataType type) {
  Bytes values = numbers(type, state.range(0));
  while (state.KeepRunning()) {
    divide(type, values, 1);  // leaves the values as they are
    benchmark::DoNotOptimize(values.data());
    benchmark::ClobberMemory();
  }
  count_bytes(state);
}

void bench_checksum(benchmark::State& state) {
  const Bytes bytes = numbers(DataType::kU8, state.range(0));
  while (state.KeepRunning()) benchmark::DoNotOptimize(checksum(bytes));
  count_bytes(state);
}

// As a sync looks at a state that no cache holds.
void bench_digest_of_pieces(benchmark::State& state) {
  const Bytes bytes = numbers(DataType::kU8, state.range(0));
  while (state.KeepRunning()) {
    for (std::size_t at = 0; at < bytes.size(); at += kStatePieceBytes) {
      benchmark::DoNotOptimize(digest(std::span(bytes).subspan(at, kStatePieceBytes)));
    }
  }
  count_bytes(state);
}

// A segment on its way around the ring: verified, folded where it landed, hashed for the next peer.
void bench_job(benchmark::State& state, DataType type, std::uint32_t divisor) {
  const Bytes own = numbers(type, state.range(0));
  const Bytes from = numbers(type, state.range(0));
  Bytes into(own.size());
  const FoldJob job{.into = {},
                    .from = {},
                    .own = {},
                    .type = type,
                    .op = ReduceOp::kAvg,
                    .divisor = divisor,
                    .expected = checksum(from)};
  while (state.KeepRunning()) benchmark::DoNotOptimize(run_job(job, into, from, own));
  count_bytes(state);
}

// What one core can do at all: the yardstick of the wire formats.
void bench_copy(benchmark::State& state) {
  const Bytes from = numbers(DataType::kF32, state.range(0));
  Bytes into(from.size());
  while (state.KeepRunning()) {
    std::memcpy(into.data(), from.data(), from.size());
    benchmark::DoNotOptimize(into.data());
    benchmark::ClobberMemory();
  }
  count_bytes(state);
}

// Sums of four uniform numbers: many near 0, few far away, as in a gradient.
Bytes bells(std::int64_t size) {
  Bytes bytes(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < bytes.size() / sizeof(float); ++i) {
    float sum = -2.0F;
    for (std::uint64_t n = 0; n < 4; ++n) sum += static_cast<float>(draw(1, 0, i, 0, n) >> 40U) * 0x1p-24F;
    reference::store(bytes.data(), i, sum);
  }
  return bytes;
}

// These count bytes of f32, on whichever side they are.
void bench_encode(benchmark::State& state, WireFormat format) {
  const Bytes values = bells(state.range(0));
  Bytes encoded(encoded_size(format, values.size() / sizeof(float)));
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(encode(format, encoded, values));
    benchmark::ClobberMemory();
  }
  count_bytes(state);
}

void bench_decode(benchmark::State& state, WireFormat format, bool add) {
  const Bytes values = bells(state.range(0));
  Bytes encoded(encoded_size(format, values.size() / sizeof(float)));
  benchmark::DoNotOptimize(encode(format, encoded, values));
  Bytes into(values.size());
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(add ? decode_add(format, into, encoded, 0.5F) : decode(format, into, encoded));
    benchmark::ClobberMemory();
  }
  count_bytes(state);
}

template <typename F>
void add(const std::string& name, F body) {
  auto* added = benchmark::RegisterBenchmark(name.c_str(), body);
  for (const auto size : kSizes) added->Arg(size);
}

bool register_all() {
  add("checksum", bench_checksum);
  benchmark::RegisterBenchmark("digest_of_pieces", bench_digest_of_pieces)->Arg(256 << 20);
  for (std::uint8_t t = 0; t < kDataTypeCount; ++t) {
    const auto type = static_cast<DataType>(t);
    const std::string name{name_of(type)};
    for (const auto op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kBitXor}) {
      if (!is_defined(type, op)) continue;
      add("fold/" + name + "/" + std::string{name_of(op)},
          [=](benchmark::State& state) { bench_fold(state, type, op); });
    }
    if (!is_defined(type, ReduceOp::kAvg)) continue;
    add("divide/" + name, [=](benchmark::State& state) { bench_divide(state, type); });
    add("job/" + name, [=](benchmark::State& state) { bench_job(state, type, 0); });
    add("job_divide/" + name, [=](benchmark::State& state) { bench_job(state, type, 3); });
  }
  add("copy", bench_copy);
  for (std::uint8_t f = 0; f < kWireFormatCount; ++f) {
    const auto format = static_cast<WireFormat>(f);
    const std::string name{name_of(format)};
    add("encode/" + name, [=](benchmark::State& state) { bench_encode(state, format); });
    add("decode/" + name, [=](benchmark::State& state) { bench_decode(state, format, false); });
    add("decode_add/" + name, [=](benchmark::State& state) { bench_decode(state, format, true); });
  }
  return true;
}

[[maybe_unused]] const bool kRegistered = register_all();

}  // namespace
}  // namespace lockstep

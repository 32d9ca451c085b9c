// Fixed work for every layer, whose instructions budget.py counts under callgrind. `budget_layers LAYER` does it and
// prints how many units it was: `20000 messages`.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <hwy/targets.h>

#include "core/kernels/checksum.h"
#include "core/kernels/formats/codec.h"
#include "core/kernels/reduce.h"
#include "core/wire/codec.h"
#include "sim/plan/plan_file.h"
#include "sim/world/world.h"
#include "tests/support/sample_messages.h"

namespace lockstep::budget {
namespace {

struct Work {
  std::uint64_t units = 0;
  std::string_view of;
};

[[noreturn]] void give_up(const std::string& why) {
  fmt::print(stderr, "budget_layers: {}\n", why);
  std::exit(2);
}

// ---- kernels: a segment, again and again ----

constexpr std::size_t kSegment = 256U << 10U;
constexpr std::uint64_t kRepeats = 20;
constexpr std::uint64_t kKibibytes = kRepeats * kSegment / 1024;

std::vector<std::byte> numbers() {
  std::vector<std::byte> bytes(kSegment);
  const std::span floats(reinterpret_cast<float*>(bytes.data()), kSegment / sizeof(float));
  for (std::size_t i = 0; i < floats.size(); ++i) floats[i] = 1.0F + static_cast<float>(i % 61) / 64.0F;
  return bytes;
}

[[gnu::noinline]] void counted_fold(std::span<std::byte> into, std::span<const std::byte> from,
                                    std::span<const std::byte> own) {
  fold(DataType::kF32, ReduceOp::kSum, into, from, own);
}

Work fold_f32() {
  const auto from = numbers();
  const auto own = numbers();
  std::vector<std::byte> into(kSegment);
  for (std::uint64_t i = 0; i < kRepeats; ++i) counted_fold(into, from, own);
  return {kKibibytes, "KiB"};
}

[[gnu::noinline]] std::uint64_t counted_checksum(std::span<const std::byte> bytes) { return checksum(bytes); }

Work checksums() {
  const auto bytes = numbers();
  std::uint64_t all = 0;
  for (std::uint64_t i = 0; i < kRepeats; ++i) all += counted_checksum(bytes);
  if (all == 0) give_up("a checksum of numbers is 0");  // it is used
  return {kKibibytes, "KiB"};
}

constexpr WireFormat kFormat = WireFormat::kInt8;

[[gnu::noinline]] bool counted_encode(std::span<std::byte> encoded, std::span<const std::byte> values) {
  return !encode(kFormat, encoded, values);
}

[[gnu::noinline]] bool counted_decode_add(std::span<std::byte> sums, std::span<const std::byte> encoded) {
  return decode_add(kFormat, sums, encoded, 1.0F);
}

std::vector<std::byte> encoded_room() {
  return std::vector<std::byte>(encoded_size(kFormat, kSegment / sizeof(float)));
}

Work encode_int8() {
  const auto values = numbers();
  auto encoded = encoded_room();
  for (std::uint64_t i = 0; i < kRepeats; ++i) {
    if (!counted_encode(encoded, values)) give_up("plain numbers cannot be encoded");
  }
  return {kKibibytes, "KiB"};
}

Work decode_add_int8() {
  auto sums = numbers();
  auto encoded = encoded_room();
  if (encode(kFormat, encoded, sums)) give_up("plain numbers cannot be encoded");
  for (std::uint64_t i = 0; i < kRepeats; ++i) {
    if (!counted_decode_add(sums, encoded)) give_up("what was encoded cannot be decoded");
  }
  return {kKibibytes, "KiB"};
}

// ---- wire: each message, there and back ----

[[gnu::noinline]] bool counted_codec(const wire::Message& message, std::vector<std::byte>& bytes) {
  bytes.clear();
  wire::encode(message, Term{1}, bytes);
  const std::span<const std::byte> frame(bytes);
  const auto header = wire::decode_header(frame.first<wire::kHeaderBytes>());
  return header && wire::decode_body(*header, frame.subspan(wire::kHeaderBytes));
}

Work codec() {
  constexpr std::uint64_t kTimes = 500;
  const auto messages = test::sample_messages();
  std::vector<std::byte> bytes;
  for (std::uint64_t i = 0; i < kTimes; ++i) {
    for (const wire::Message& message : messages) {
      if (!counted_codec(message, bytes)) give_up("a sample message cannot be decoded");
    }
  }
  return {kTimes * messages.size(), "messages"};
}

// ---- machines: four peers in the simulator; budget.py counts in Peer::step() and Coordinator::step() alone ----

sim::Report simulate(std::string_view text) {
  const auto plan = sim::plan_from_text(text);
  if (!plan) give_up(plan.error().text);
  sim::Report report = sim::run(*plan);
  if (report.failure) give_up(report.failure->text);
  return report;
}

Work collectives(std::string_view work) {
  const std::string plan = fmt::format(
      "mode = \"token\"\nseed = 1\npeers = 4\nfounders = 4\nsteps_per_admit = 50\nsafety_ns = 1000000\n"
      "commits_after = 200\nwork = [\"{}\"]\n",
      work);
  return {simulate(plan).commits, "collectives"};
}

Work simulator() {
  return {simulate("mode = \"token\"\nseed = 1\npeers = 8\nfounders = 8\nops_per_step = 2\nmax_count = 4096\n"
                   "safety_ns = 100000000\ncommits_after = 20\n")
              .events,
          "events"};
}

const std::map<std::string_view, std::function<Work()>>& layers() {
  static const std::map<std::string_view, std::function<Work()>> kLayers = {
      {"fold-f32", fold_f32},
      {"checksum", checksums},
      {"encode-int8", encode_int8},
      {"decode-add-int8", decode_add_int8},
      {"codec", codec},
      {"collective-1KiB", [] { return collectives("all_reduce 256 f32 sum"); }},
      {"collective-8MiB", [] { return collectives("all_reduce 2097152 f32 sum"); }},
      {"simulator", simulator},
  };
  return kLayers;
}

// The same instructions on every machine: no wider ones than callgrind knows.
void choose_target() {
  constexpr std::int64_t kTarget = HWY_AVX2;
  if ((hwy::SupportedTargets() & kTarget) == 0)
    give_up("this processor has no AVX2, which the budgets are recorded for");
  hwy::SetSupportedTargetsForTest(kTarget);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

int run(std::span<char*> arguments) {
  const auto layer = arguments.size() == 2 ? layers().find(arguments[1]) : layers().end();
  if (layer == layers().end()) {
    std::string names;
    for (const auto& [name, work] : layers()) names += fmt::format(" {}", name);
    give_up("name one layer:" + names);
  }
  choose_target();
  const Work work = layer->second();
  fmt::print("{} {}\n", work.units, work.of);
  return 0;
}

}  // namespace
}  // namespace lockstep::budget

int main(int count, char** arguments) {
  return lockstep::budget::run(std::span(arguments, static_cast<std::size_t>(count)));
}

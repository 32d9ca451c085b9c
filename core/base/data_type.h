// The twelve element types and the five reduction operations. Numbers are part of the wire and the ABI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/assert.h"

namespace lockstep {

enum class DataType : std::uint8_t { kU8, kI8, kU16, kI16, kU32, kI32, kU64, kI64, kF16, kBF16, kF32, kF64 };
inline constexpr std::uint8_t kDataTypeCount = 12;

enum class ReduceOp : std::uint8_t { kSum, kAvg, kProd, kMin, kMax };
inline constexpr std::uint8_t kReduceOpCount = 5;

constexpr std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::kU8:
    case DataType::kI8: return 1;
    case DataType::kU16:
    case DataType::kI16:
    case DataType::kF16:
    case DataType::kBF16: return 2;
    case DataType::kU32:
    case DataType::kI32:
    case DataType::kF32: return 4;
    case DataType::kU64:
    case DataType::kI64:
    case DataType::kF64: return 8;
  }
  LOCKSTEP_UNREACHABLE();
}

constexpr std::string_view name_of(DataType type) {
  constexpr std::string_view kNames[] = {"u8",  "i8",  "u16", "i16",  "u32", "i32",
                                         "u64", "i64", "f16", "bf16", "f32", "f64"};
  return kNames[static_cast<std::size_t>(type)];
}

constexpr std::string_view name_of(ReduceOp op) {
  constexpr std::string_view kNames[] = {"sum", "avg", "prod", "min", "max"};
  return kNames[static_cast<std::size_t>(op)];
}

}  // namespace lockstep

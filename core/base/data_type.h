// The element types and the reduction operations. Numbers are part of the wire and the ABI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/assert.h"

namespace lockstep {

enum class DataType : std::uint8_t { kU8, kI8, kU16, kI16, kU32, kI32, kU64, kI64, kF16, kBF16, kF32, kF64, kBool };
inline constexpr std::uint8_t kDataTypeCount = 13;

enum class ReduceOp : std::uint8_t { kSum, kAvg, kProd, kMin, kMax, kBitAnd, kBitOr, kBitXor };
inline constexpr std::uint8_t kReduceOpCount = 8;

constexpr std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::kU8:
    case DataType::kI8:
    case DataType::kBool: return 1;
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
  constexpr std::string_view kNames[] = {"u8",  "i8",  "u16",  "i16", "u32", "i32", "u64",
                                         "i64", "f16", "bf16", "f32", "f64", "bool"};
  return kNames[static_cast<std::size_t>(type)];
}

constexpr std::string_view name_of(ReduceOp op) {
  constexpr std::string_view kNames[] = {"sum", "avg", "prod", "min", "max", "band", "bor", "bxor"};
  return kNames[static_cast<std::size_t>(op)];
}

constexpr bool is_float(DataType type) {
  return type == DataType::kF16 || type == DataType::kBF16 || type == DataType::kF32 || type == DataType::kF64;
}

constexpr bool is_bitwise(ReduceOp op) {
  return op == ReduceOp::kBitAnd || op == ReduceOp::kBitOr || op == ReduceOp::kBitXor;
}

// Whether elements of this type can be reduced with this operation: floating-point numbers have no bitwise operations,
// and booleans have no average.
constexpr bool is_defined(DataType type, ReduceOp op) {
  if (is_float(type)) return !is_bitwise(op);
  return type != DataType::kBool || op != ReduceOp::kAvg;
}

}  // namespace lockstep

// The checks that arguments of several calls share.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "bindings/c/error.h"
#include "bindings/c/guard.h"
#include "core/base/data_type.h"
#include "core/base/result.h"
#include "lockstep.h"

namespace lockstep::c {

using MaybeError = std::optional<Error>;

// The name of a field, as the caller wrote it. Formatted only for an error text.
struct Field {
  std::string_view name;
  const std::size_t* index = nullptr;  // index in args.tensors; null outside
  bool is_list = false;                // the field is an array of its own, beside the tensors

  [[nodiscard]] std::string text() const {
    if (is_list) return fmt::format("args.{}[{}]", name, *index);
    return index == nullptr ? fmt::format("args.{}", name) : fmt::format("args.tensors[{}].{}", *index, name);
  }
};

// Validates a pointer to memory of the caller.
inline MaybeError validate_memory(const Field& field, const void* memory, std::uint64_t count, DataType type) {
  const std::size_t size = size_of(type);
  const std::uint64_t most = static_cast<std::uint64_t>(PTRDIFF_MAX) / size;
  if (count > most)
    return invalid("{} has {} elements of {}; allowed: at most {}", field.text(), count, name_of(type), most);
  if (count == 0) return std::nullopt;
  if (memory == nullptr) {
    return invalid("{} is NULL but has {} elements; allowed: NULL with 0 elements only", field.text(), count);
  }
  if (reinterpret_cast<std::uintptr_t>(memory) % size != 0) {
    return invalid("{} is {}; allowed: multiples of {}, the size of {}", field.text(), memory, size, name_of(type));
  }
  return std::nullopt;
}

inline MaybeError read_type(const lockstep_data_type& given, DataType& type, const Field& field = {"type"}) {
  const unsigned number = number_of(given);
  if (number >= kDataTypeCount) {
    return invalid("{} is {}; allowed: 0 (LOCKSTEP_U8) to {} (LOCKSTEP_BOOL)", field.text(), number,
                   kDataTypeCount - 1);
  }
  type = static_cast<DataType>(number);
  return std::nullopt;
}

}  // namespace lockstep::c

// Structs that begin with their own size, so that programs and libraries of different versions work together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "bindings/c/error.h"

namespace lockstep::c {

// Larger than any struct of the API; a larger `struct_size` was never initialized.
inline constexpr std::size_t kMaxStructSize = 4096;

// The size of each struct in the first version that had it. A struct grows at its end, after this size and its padding.
template <typename T>
inline constexpr std::size_t kFirstSize = sizeof(T);

template <typename T>
Result<std::size_t> struct_size(const T* from, std::string_view name, std::size_t first_size = kFirstSize<T>) {
  if (from == nullptr) return invalid("{} is NULL", name);
  const std::size_t size = from->struct_size;
  if (size < first_size || size > kMaxStructSize) {
    return invalid("{}.struct_size is {}; allowed: {} to {}; set it with the struct's *_INIT macro", name, size,
                   first_size, kMaxStructSize);
  }
  return size;
}

// The caller's struct, converted to the struct of this library: fields that the caller does not know are 0.
template <typename T>
Result<T> take(const T* from, std::string_view name, std::size_t first_size = kFirstSize<T>) {
  const auto size = struct_size(from, name, first_size);
  if (!size) return size.error();
  T known{};
  std::memcpy(static_cast<void*>(&known), from, std::min(*size, sizeof known));
  for (std::size_t at = sizeof known; at < *size; ++at) {
    if (reinterpret_cast<const unsigned char*>(from)[at] != 0) {
      return invalid("{}.struct_size is {} and byte {} is not 0, but this library (" LOCKSTEP_VERSION_STRING
                     ") knows only {} bytes: the library is older than the program",
                     name, *size, at, sizeof known);
    }
  }
  return known;
}

// Copies a struct back to the caller: only the fields that the caller knows. `to` has passed struct_size().
template <typename T>
void give(T known, T* to) {
  const std::size_t size = to->struct_size;
  known.struct_size = size;
  std::memcpy(static_cast<void*>(to), &known, std::min(size, sizeof known));
}

}  // namespace lockstep::c

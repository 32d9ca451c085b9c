// Structs that begin with their own size, so that a caller and a library of different versions understand each other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "bindings/c/error.h"

namespace lockstep::c {

// Far above every struct of ours; beyond it `struct_size` was never set.
inline constexpr std::size_t kMaxStructSize = 4096;

// The size of each struct in the first version that had it. A struct grows at its end, past this number and past its padding.
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

// What a caller gave, in the struct as this library knows it: fields the caller does not know are 0.
template <typename T>
Result<T> take(const T* from, std::string_view name, std::size_t first_size = kFirstSize<T>) {
  const auto size = struct_size(from, name, first_size);
  if (!size) return size.error();
  T known{};
  std::memcpy(static_cast<void*>(&known), from, std::min(*size, sizeof known));
  for (std::size_t at = sizeof known; at < *size; ++at) {
    if (reinterpret_cast<const unsigned char*>(from)[at] != 0) {
      return invalid("{}.struct_size is {} and byte {} is not 0, but this library (" LOCKSTEP_VERSION_STRING
                     ") knows only {} bytes: it is older than the program",
                     name, *size, at, sizeof known);
    }
  }
  return known;
}

// Gives a struct back: the fields that the caller knows. `to` has passed struct_size().
template <typename T>
void give(T known, T* to) {
  const std::size_t size = to->struct_size;
  known.struct_size = size;
  std::memcpy(static_cast<void*>(to), &known, std::min(size, sizeof known));
}

}  // namespace lockstep::c

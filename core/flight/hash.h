// The hash of a machine's answers: XXH3-64 over the fields of its effects and the previous hash, never over structs or
// addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "core/archive/archive.h"
#include "core/coordinator/fields.h"
#include "core/kernels/checksum.h"
#include "core/peer/fields.h"

namespace lockstep::flight {

// `bytes` receives the fields; it begins with room for the hash.
inline void begin_answer(std::vector<std::byte>& bytes) {
  bytes.clear();
  bytes.resize(sizeof(std::uint64_t));
}

template <typename Effect>
void append_effect(std::vector<std::byte>& bytes, const Effect& effect) {
  bytes.push_back(static_cast<std::byte>(effect.index()));
  archive::Saver saver(bytes);
  std::visit([&](const auto& one) { fields(saver, one); }, effect);
}

inline std::uint64_t hash_of_answer(std::vector<std::byte>& bytes, std::uint64_t hash) {
  for (std::size_t i = 0; i < sizeof hash; ++i) bytes[i] = static_cast<std::byte>(hash >> (8 * i));
  return checksum(bytes);
}

}  // namespace lockstep::flight

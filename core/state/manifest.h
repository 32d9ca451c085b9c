// What a shared state consists of, without what it holds: tensors and small values by name, in an order that all peers
// have in common. Peers whose manifests differ cannot share a state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/data_type.h"
#include "core/base/digest.h"
#include "core/wire/limits.h"

namespace lockstep::state {

struct TensorSpec {
  std::string name;
  DataType type = DataType::kU8;  // raw bytes: u8
  std::uint64_t count = 0;        // elements
  bool may_differ = false;        // it is neither compared nor sent: each peer keeps its own

  bool operator==(const TensorSpec&) const = default;
  [[nodiscard]] std::uint64_t bytes() const { return count * size_of(type); }
};

// A step counter, a position in a data set.
enum class ValueType : std::uint8_t { kInt, kUint, kReal, kBool };
std::string_view name_of(ValueType type);

struct ValueSpec {
  std::string name;
  ValueType type = ValueType::kUint;

  bool operator==(const ValueSpec&) const = default;
};

struct Manifest {
  std::vector<TensorSpec> tensors;
  std::vector<ValueSpec> values;
  std::uint32_t piece_bytes = kStatePieceBytes;  // what is compared and sent; the last of a tensor is shorter

  bool operator==(const Manifest&) const = default;
};

// Equal for equal manifests; of all that makes them differ.
Digest digest_of(const Manifest& manifest);

// The same for one entry, in 64 bits; and it in words, of kMaxStateEntryBytes at most: "w f32 [10]", "step uint".
std::uint64_t hash_of(const TensorSpec& tensor);
std::uint64_t hash_of(const ValueSpec& value);
std::string describe(const TensorSpec& tensor);
std::string describe(const ValueSpec& value);

// Why it is none, in words for who wrote it: a name that is empty, too long, not plain or there twice, too many
// entries, a size that cannot be. Nothing: it is one.
std::optional<std::string> flaw_of(const Manifest& manifest);

}  // namespace lockstep::state

// The manifest describes a shared state without its contents: the names of its tensors and small values, in an order
// that is the same on all peers. Peers with different manifests cannot share a state.
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
  bool may_differ = false;        // the tensor is neither compared nor sent; each peer keeps its own

  bool operator==(const TensorSpec&) const = default;
  [[nodiscard]] std::uint64_t bytes() const { return count * size_of(type); }
};

// The type of a value, such as a step counter or a position in a data set.
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
  // size of the pieces that are compared and sent; the last piece of a tensor is shorter
  std::uint32_t piece_bytes = kStatePieceBytes;

  bool operator==(const Manifest&) const = default;
};

// A digest of every field that makes two manifests different.
Digest digest_of(const Manifest& manifest);

// hash_of: 64 bits of one entry. describe: one entry in words, at most kMaxStateEntryBytes: "w f32 [10]", "step uint".
std::uint64_t hash_of(const TensorSpec& tensor);
std::uint64_t hash_of(const ValueSpec& value);
std::string describe(const TensorSpec& tensor);
std::string describe(const ValueSpec& value);

// Describes, for the caller, why the manifest is invalid: an empty, long, not plain or duplicate name, too many
// entries, or an impossible size. Returns nothing if the manifest is valid.
std::optional<std::string> validate_manifest(const Manifest& manifest);

}  // namespace lockstep::state

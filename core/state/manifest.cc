#include "core/state/manifest.h"

#include <algorithm>
#include <set>
#include <span>

#include "core/base/assert.h"
#include "core/base/text.h"
#include "core/kernels/checksum.h"
#include "core/wire/limits.h"

namespace lockstep::state {

namespace {

// A byte string that is equal on every machine.
class Bytes {
 public:
  void number(std::uint64_t value) {
    for (unsigned shift = 0; shift < 64; shift += 8) bytes_.push_back(static_cast<std::byte>(value >> shift & 0xffU));
  }
  void text(std::string_view text) {
    number(text.size());
    for (const char c : text) bytes_.push_back(static_cast<std::byte>(c));
  }
  [[nodiscard]] std::span<const std::byte> all() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

void add(Bytes& bytes, const TensorSpec& tensor) {
  bytes.text(tensor.name);
  bytes.number(static_cast<std::uint64_t>(tensor.type));
  bytes.number(tensor.count);
  bytes.number(tensor.may_differ ? 1 : 0);
}

void add(Bytes& bytes, const ValueSpec& value) {
  bytes.text(value.name);
  bytes.number(static_cast<std::uint64_t>(value.type));
}

template <typename Spec>
std::optional<std::string> validate_names(std::string_view what, const std::vector<Spec>& list) {
  std::set<std::string_view> names;
  for (const Spec& spec : list) {
    const std::string which = std::string(what) + " " + std::to_string(&spec - list.data());
    if (spec.name.empty()) return which + " has no name";
    if (spec.name.size() > kMaxStateNameBytes) {
      return which + " has a name of " + std::to_string(spec.name.size()) + " bytes, more than " +
             std::to_string(kMaxStateNameBytes);
    }
    if (!is_plain(spec.name)) return which + " has a name that is not plain text: " + plain(spec.name);
    if (!names.insert(spec.name).second) return which + " has the same name as an earlier one: " + spec.name;
  }
  return std::nullopt;
}

}  // namespace

std::string_view name_of(ValueType type) {
  switch (type) {
    case ValueType::kInt: return "int";
    case ValueType::kUint: return "uint";
    case ValueType::kReal: return "real";
    case ValueType::kBool: return "bool";
  }
  LOCKSTEP_UNREACHABLE();
}

Digest digest_of(const Manifest& manifest) {
  Bytes bytes;
  bytes.number(manifest.piece_bytes);
  bytes.number(manifest.tensors.size());
  for (const TensorSpec& tensor : manifest.tensors) add(bytes, tensor);
  bytes.number(manifest.values.size());
  for (const ValueSpec& value : manifest.values) add(bytes, value);
  return digest(bytes.all());
}

std::uint64_t hash_of(const TensorSpec& tensor) {
  Bytes bytes;
  add(bytes, tensor);
  return checksum(bytes.all());
}

std::uint64_t hash_of(const ValueSpec& value) {
  Bytes bytes;
  add(bytes, value);
  return checksum(bytes.all());
}

std::string describe(const TensorSpec& tensor) {
  return tensor.name + " " + std::string(lockstep::name_of(tensor.type)) + " [" + std::to_string(tensor.count) + "]" +
         (tensor.may_differ ? ", may differ" : "");
}
std::string describe(const ValueSpec& value) { return value.name + " " + std::string(name_of(value.type)); }

std::optional<std::string> validate_manifest(const Manifest& manifest) {
  if (manifest.tensors.size() > kMaxStateTensors) {
    return std::to_string(manifest.tensors.size()) + " tensors, more than " + std::to_string(kMaxStateTensors);
  }
  if (manifest.values.size() > kMaxStateValues) {
    return std::to_string(manifest.values.size()) + " values, more than " + std::to_string(kMaxStateValues);
  }
  if (auto error = validate_names("tensor", manifest.tensors)) return error;
  if (auto error = validate_names("value", manifest.values)) return error;
  if (manifest.piece_bytes == 0 || manifest.piece_bytes > kStatePieceBytes) {
    return "piece_bytes is " + std::to_string(manifest.piece_bytes) + ", must be 1 to " +
           std::to_string(kStatePieceBytes);
  }
  std::uint64_t room = kMaxStateBytes / kStatePieceBytes * manifest.piece_bytes;
  for (const TensorSpec& tensor : manifest.tensors) {
    if (tensor.count > room / size_of(tensor.type)) {
      return "tensor " + tensor.name + " has " + std::to_string(tensor.count) +
             " elements: all tensors together may have at most " +
             std::to_string(kMaxStateBytes / kStatePieceBytes * manifest.piece_bytes) + " bytes";
    }
    room -= tensor.bytes();
  }
  return std::nullopt;
}

}  // namespace lockstep::state

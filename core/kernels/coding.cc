#include "core/kernels/coding.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>

#include "core/base/assert.h"
#include "core/kernels/checksum.h"
#include "core/kernels/float_environment.h"
#include "core/kernels/formats/codec.h"

namespace lockstep {
namespace {

// The elements of one part: whole blocks of every format. Their f32 sums fill half of a first-level cache of 32 KiB.
constexpr std::size_t kElements = 4096;
static_assert(kElements % layout_of(WireFormat::kInt8Codebook).elements == 0);
// A remainder is coded with the last part: encoded on its own, it might need more room than it has.
constexpr std::size_t kMostElements = 2 * kElements - 1;
constexpr std::size_t kMostBytes = kMostElements * sizeof(float);  // the largest encoding of a part in any format

// The elements [at, at + count) of a job: their f32 bytes and their encoding.
struct Part {
  std::size_t at = 0;
  std::size_t count = 0;

  static Part at_of(std::size_t at, std::size_t all) { return {at, all - at <= kMostElements ? all - at : kElements}; }
  [[nodiscard]] Part next(std::size_t all) const { return at_of(at + count, all); }

  template <typename Byte>
  [[nodiscard]] std::span<Byte> of(std::span<Byte> values) const {
    return values.subspan(at * sizeof(float), count * sizeof(float));
  }
  template <typename Byte>
  [[nodiscard]] std::span<Byte> of(std::span<Byte> encoded, WireFormat format) const {
    return encoded.subspan(encoded_size(format, at), encoded_size(format, count));
  }
  template <typename Byte>
  [[nodiscard]] std::span<Byte> of_any(std::span<Byte> values) const {
    return values.empty() ? values : of(values);
  }
};

// The first element of the last part.
std::size_t last_part(std::size_t count) { return count < kElements ? 0 : (count / kElements - 1) * kElements; }

// Memory for the f32 elements of one part. Not cleared: clearing 32 KiB would dominate the cost of a short part.
class Room {
 public:
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init)
  explicit Room(std::size_t count) : bytes_(std::span(room_).first(count * sizeof(float))) {}

  // Adds weight * values. Returns the first element that is not finite. Elements of weight 0 are not checked, because
  // they do not contribute.
  [[nodiscard]] std::optional<std::uint64_t> add(std::span<const std::byte> values, float weight) {
    if (weight == 0 || decode_add(WireFormat::kNative, bytes_, values, weight)) return std::nullopt;
    return encode(WireFormat::kNative, bytes_, values);
  }
  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

 private:
  alignas(64) std::array<std::byte, kMostBytes> room_;
  std::span<std::byte> bytes_;
};

// A rank's contribution to one part: its own values, or their sum with the residual, computed in `room`. Returns the
// first element of the residual that is not finite.
struct Contribution {
  std::span<const std::byte> values;
  std::optional<std::uint64_t> not_finite;
};
Contribution contribution(const Room& room, std::span<const std::byte> own, std::span<const std::byte> residual) {
  if (residual.empty()) return {own, std::nullopt};
  std::memcpy(room.bytes().data(), own.data(), own.size());
  if (decode_add(WireFormat::kNative, room.bytes(), residual, 1)) return {room.bytes(), std::nullopt};
  return {own, encode(WireFormat::kNative, room.bytes(), residual)};
}

// weight * values; computed in `room` unless the weight is 1.
std::span<const std::byte> weighed(const Room& room, std::span<const std::byte> values, float weight) {
  if (weight == 1) return values;
  weigh(room.bytes(), values, weight);
  return room.bytes();
}

// Finishes a part: adds this rank's contribution to the sum of the others, then divides and encodes the sum as the job
// says. Returns the first element that is not finite.
template <typename Job>
std::optional<std::uint64_t> finish(const Job& job, std::span<std::byte> into, Room& sums,
                                    std::span<const std::byte> own) {
  if (const auto not_finite = sums.add(own, job.weight)) return not_finite;
  if (job.total != 0) divide_sums(sums.bytes(), job.total);
  return encode(job.departs, into, sums.bytes());
}

}  // namespace

JobResult run_encode(const EncodeJob& job, std::span<std::byte> into, std::span<const std::byte> from,
                     std::span<const std::byte> residual) {
  LOCKSTEP_ASSERT(from.size() == job.count * sizeof(float) && into.size() == encoded_size(job.departs, job.count));
  LOCKSTEP_ASSERT(residual.empty() || residual.size() == from.size());
  ChecksumStream result;
  for (Part part = Part::at_of(0, job.count); part.count > 0; part = part.next(job.count)) {
    const Room corrected(part.count);
    const Room room(part.count);
    const auto encoded = part.of(into, job.departs);
    if (job.weight == 0) {  // a contribution of weight 0 does not count, whatever its values are
      std::memset(room.bytes().data(), 0, room.bytes().size());
      (void)encode(job.departs, encoded, room.bytes());
    } else {
      auto [values, not_finite] = contribution(corrected, part.of(from), part.of_any(residual));
      if (!not_finite) not_finite = encode(job.departs, encoded, weighed(room, values, job.weight));
      if (not_finite) return {.not_finite = part.at + *not_finite};
    }
    result.update(encoded);
  }
  return {.checksum = result.value()};
}

JobResult run_recode(const RecodeJob& job, std::span<std::byte> into, std::span<const std::byte> from,
                     std::span<const std::byte> own) {
  LOCKSTEP_ASSERT(own.size() == job.count * sizeof(float));
  LOCKSTEP_ASSERT(from.size() == encoded_size(job.arrived, job.count));
  LOCKSTEP_ASSERT(into.size() == encoded_size(job.departs, job.count));
  ChecksumStream arrived;
  ChecksumStream departs;
  JobResult result;
  for (Part part = Part::at_of(0, job.count); part.count > 0; part = part.next(job.count)) {
    const auto incoming = part.of(from, job.arrived);
    arrived.update(incoming);
    if (result.malformed || result.not_finite) continue;  // the checksum still has to cover the remaining bytes
    Room sums(part.count);
    result.malformed = !decode(job.arrived, sums.bytes(), incoming);
    if (result.malformed) continue;
    const auto encoded = part.of(into, job.departs);
    if (const auto not_finite = finish(job, encoded, sums, part.of(own))) {
      result.not_finite = part.at + *not_finite;
    } else {
      departs.update(encoded);
    }
  }
  result.intact = arrived.value() == job.expected;
  result.checksum = departs.value();
  return result;
}

JobResult run_gather(const GatherJob& job, std::span<std::byte> into, std::span<const std::byte> from,
                     std::span<const std::byte> own, std::span<const std::byte> residual) {
  const std::size_t each = encoded_size(job.arrived, job.count);
  LOCKSTEP_ASSERT(job.count > 0 && from.size() >= each && from.size() % each == 0);
  LOCKSTEP_ASSERT(own.size() == job.count * sizeof(float) && into.size() == encoded_size(job.departs, job.count));
  LOCKSTEP_ASSERT(residual.empty() || residual.size() == own.size());
  ChecksumStream departs;
  for (Part part = Part::at_of(0, job.count); part.count > 0; part = part.next(job.count)) {
    Room sums(part.count);
    bool sound = decode(job.arrived, sums.bytes(), part.of(from.first(each), job.arrived));
    for (std::size_t at = each; at < from.size(); at += each) {
      sound = decode_add(job.arrived, sums.bytes(), part.of(from.subspan(at, each), job.arrived), 1) && sound;
    }
    if (!sound) return {.malformed = true};
    const Room corrected(part.count);
    const auto adds = job.weight == 0 ? std::span<const std::byte>{} : part.of_any(residual);
    auto [values, not_finite] = contribution(corrected, part.of(own), adds);
    const auto encoded = part.of(into, job.departs);
    if (!not_finite) not_finite = finish(job, encoded, sums, values);
    if (not_finite) return {.not_finite = part.at + *not_finite};
    departs.update(encoded);
  }
  return {.checksum = departs.value()};
}

JobResult run_check(const CheckJob& job, std::span<const std::byte> from) {
  LOCKSTEP_ASSERT(from.size() == encoded_size(job.arrived, job.count));
  JobResult result;
  ChecksumStream arrived;
  for (Part part = Part::at_of(0, job.count); part.count > 0; part = part.next(job.count)) {
    const auto incoming = part.of(from, job.arrived);
    arrived.update(incoming);
    result.malformed = result.malformed || !is_encoding(job.arrived, incoming, part.count);
  }
  result.checksum = arrived.value();
  result.intact = result.checksum == job.expected;
  return result;
}

// Decodes from the last part to the first, so that `into` never overwrites bytes of `from` that are still to be
// decoded.
JobResult run_decode(const DecodeJob& job, std::span<std::byte> into, std::span<const std::byte> from) {
  LOCKSTEP_ASSERT(into.size() == job.count * sizeof(float) && from.size() == encoded_size(job.arrived, job.count));
  if (job.count == 0) return {};
  bool sound = true;
  for (std::size_t begin = last_part(job.count) + kElements; begin > 0; begin -= kElements) {
    const Part part = Part::at_of(begin - kElements, job.count);
    const auto encoded = part.of(from, job.arrived);
    const auto values = part.of(into);
    const bool apart =
        encoded.data() >= values.data() + values.size() || values.data() >= encoded.data() + encoded.size();
    const Room room(part.count);
    const auto copy = room.bytes().first(apart ? 0 : encoded.size());
    if (!apart) std::memcpy(copy.data(), encoded.data(), encoded.size());
    sound = decode(job.arrived, values, apart ? encoded : copy) && sound;
  }
  return {.malformed = !sound};
}

// The residual of an element that travels in its native form is 0. So is the residual of an element that the caller has
// changed since, if it is no longer finite.
JobResult run_update_residual(const UpdateResidualJob& job, std::span<const std::byte> from,
                              std::span<std::byte> residual) {
  LOCKSTEP_ASSERT(from.size() == job.count * sizeof(float) && residual.size() == from.size());
  LOCKSTEP_ASSERT(job.weight > 0);
  const StandardFloats standard_floats;
  // The reciprocal of a denormal weight may be infinite. Then the weight and the encoded values are multiplied by 2^64.
  constexpr float kManyTimes = 0x1p64F;
  const bool tiny = !std::isfinite(1 / job.weight);
  const float of_one = tiny ? 1 / (job.weight * kManyTimes) : 1 / job.weight;
  for (Part part = Part::at_of(0, job.count); part.count > 0; part = part.next(job.count)) {
    const Room rest(part.count);
    const Room product(part.count);
    const Room room(part.count);
    const auto encoded = room.bytes().first(encoded_size(job.departs, part.count));
    const auto left = part.of(residual);
    const bool exact = job.departs == WireFormat::kNative;
    const auto subtract = [&] {
      if (!tiny) return decode_add(job.departs, rest.bytes(), encoded, -of_one);
      if (!decode(job.departs, product.bytes(), encoded)) return false;
      weigh(product.bytes(), product.bytes(), kManyTimes);
      return decode_add(WireFormat::kNative, rest.bytes(), product.bytes(), -of_one);
    };
    const bool known = !exact && !contribution(rest, part.of(from), left).not_finite &&
                       !encode(job.departs, encoded, weighed(product, rest.bytes(), job.weight)) && subtract();
    if (known) {
      std::memcpy(left.data(), rest.bytes().data(), left.size());
    } else {
      std::memset(left.data(), 0, left.size());
    }
  }
  return {};
}

}  // namespace lockstep

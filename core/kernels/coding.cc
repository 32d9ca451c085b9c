#include "core/kernels/coding.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "core/base/assert.h"
#include "core/kernels/checksum.h"
#include "core/kernels/formats/codec.h"

namespace lockstep {
namespace {

// Whole blocks of every format; their sums are half of a first-level cache of 32 KiB.
constexpr std::size_t kElements = 4096;
static_assert(kElements % layout_of(WireFormat::kInt8Codebook).elements == 0);
// What is left at the end belongs to the last part: alone, encoded, it might take more room than it has.
constexpr std::size_t kMostElements = 2 * kElements - 1;
constexpr std::size_t kMostBytes = kMostElements * sizeof(float);  // no format takes more for whole blocks and some

// Elements [at, at + count): where they lie as f32, and encoded.
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
};

// Where the last one begins.
std::size_t last_part(std::size_t count) { return count < kElements ? 0 : (count / kElements - 1) * kElements; }

// For the f32 elements of one part. Not cleared: 32 KiB for a handful of elements.
class Room {
 public:
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init)
  explicit Room(std::size_t count) : bytes_(std::span(room_).first(count * sizeof(float))) {}

  // Names the first element that is not finite. What has weight 0 is not looked at: it counts for nothing, whatever it is.
  [[nodiscard]] std::optional<std::uint64_t> add(std::span<const std::byte> values, float weight) {
    if (weight == 0 || decode_add(WireFormat::kNative, bytes_, values, weight)) return std::nullopt;
    return encode(WireFormat::kNative, bytes_, values);
  }
  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

 private:
  alignas(64) std::array<std::byte, kMostBytes> room_;
  std::span<std::byte> bytes_;
};

}  // namespace

JobResult run_encode(const KernelJob& job, std::span<std::byte> into, std::span<const std::byte> from) {
  LOCKSTEP_ASSERT(from.size() == job.count * sizeof(float) && into.size() == encoded_size(job.departs, job.count));
  ChecksumStream result;
  for (Part part = Part::at_of(0, job.count); part.count > 0; part = part.next(job.count)) {
    Room weighed(part.count);
    std::span<const std::byte> values = part.of(from);
    if (job.weight == 0) {  // it counts for nothing, whatever it is
      std::memset(weighed.bytes().data(), 0, weighed.bytes().size());
      values = weighed.bytes();
    } else if (job.weight != 1) {
      weigh(weighed.bytes(), values, job.weight);
      values = weighed.bytes();
    }
    const auto encoded = part.of(into, job.departs);
    const auto not_finite = encode(job.departs, encoded, values);
    if (not_finite) return {.not_finite = part.at + *not_finite};
    result.update(encoded);
  }
  return {.checksum = result.value()};
}

JobResult run_recode(const KernelJob& job, std::span<std::byte> into, std::span<const std::byte> from,
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
    if (result.malformed || result.not_finite) continue;  // all of it is to be looked at: is it what was sent?
    Room sums(part.count);
    result.malformed = !decode(job.arrived, sums.bytes(), incoming);
    if (result.malformed) continue;
    auto not_finite = sums.add(part.of(own), job.weight);
    if (!not_finite && job.total != 0) divide_sums(sums.bytes(), job.total);
    const auto encoded = part.of(into, job.departs);
    if (!not_finite) not_finite = encode(job.departs, encoded, sums.bytes());
    if (not_finite) {
      result.not_finite = part.at + *not_finite;
    } else {
      departs.update(encoded);
    }
  }
  result.intact = arrived.value() == job.expected;
  result.checksum = departs.value();
  return result;
}

JobResult run_gather(const KernelJob& job, std::span<std::byte> into, std::span<const std::byte> from,
                     std::span<const std::byte> own) {
  const std::size_t each = encoded_size(job.arrived, job.count);
  LOCKSTEP_ASSERT(job.count > 0 && from.size() >= each && from.size() % each == 0);
  LOCKSTEP_ASSERT(own.size() == job.count * sizeof(float) && into.size() == encoded_size(job.departs, job.count));
  ChecksumStream departs;
  for (Part part = Part::at_of(0, job.count); part.count > 0; part = part.next(job.count)) {
    Room sums(part.count);
    bool sound = decode(job.arrived, sums.bytes(), part.of(from.first(each), job.arrived));
    for (std::size_t at = each; at < from.size(); at += each) {
      sound = decode_add(job.arrived, sums.bytes(), part.of(from.subspan(at, each), job.arrived), 1) && sound;
    }
    LOCKSTEP_ASSERT(sound);
    auto not_finite = sums.add(part.of(own), job.weight);
    if (!not_finite && job.total != 0) divide_sums(sums.bytes(), job.total);
    const auto encoded = part.of(into, job.departs);
    if (!not_finite) not_finite = encode(job.departs, encoded, sums.bytes());
    if (not_finite) return {.not_finite = part.at + *not_finite};
    departs.update(encoded);
  }
  return {.checksum = departs.value()};
}

JobResult run_check(const KernelJob& job, std::span<const std::byte> from) {
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

// From the last part to the first: what `into` covers of `from` by then has been decoded.
JobResult run_decode(const KernelJob& job, std::span<std::byte> into, std::span<const std::byte> from) {
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
  LOCKSTEP_ASSERT(sound);  // run_check() has looked at it
  return {};
}

}  // namespace lockstep

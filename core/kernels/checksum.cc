#include "core/kernels/checksum.h"

#include "core/kernels/xxh3.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/checksum.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::HWY_NAMESPACE {
namespace {

// The fastest implementation that this machine can run, once Highway has chosen among these.
const Xxh3* xxh3() {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  return &kXxh3Avx512;
#elif HWY_TARGET == HWY_AVX2
  return &kXxh3Avx2;
#else
  return &kXxh3Baseline;
#endif
}

}  // namespace
}  // namespace lockstep::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep {
namespace {

HWY_EXPORT(xxh3);

const Xxh3& best() { return *HWY_DYNAMIC_DISPATCH(xxh3)(); }

}  // namespace

std::uint64_t checksum(std::span<const std::byte> bytes) { return best().hash(bytes.data(), bytes.size()); }

Digest digest(std::span<const std::byte> bytes) { return best().hash128(bytes.data(), bytes.size()); }

ChecksumStream::ChecksumStream() { best().reset(state_); }

void ChecksumStream::update(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;  // xxHash treats a null pointer as an error
  best().update(state_, bytes.data(), bytes.size());
}

std::uint64_t ChecksumStream::value() const { return best().digest(state_); }

}  // namespace lockstep
#endif  // HWY_ONCE

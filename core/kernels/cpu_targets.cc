#include "core/kernels/cpu_targets.h"

#include <hwy/targets.h>

namespace lockstep {

std::int64_t cpu_targets() {
  std::int64_t targets = HWY_STATIC_TARGET | HWY_SCALAR;
#if HWY_ARCH_X86
  // The features of each instruction set as Highway defines it, except features that every CPU with the set's newest
  // features has. The compiler's runtime reports a feature only if the operating system saves its registers.
  const auto has = [](auto... answers) { return (... && (answers != 0)); };
  const bool sse4 =
      has(__builtin_cpu_supports("sse4.2"), __builtin_cpu_supports("pclmul"), __builtin_cpu_supports("aes"));
  const bool avx2 = sse4 && has(__builtin_cpu_supports("avx2"), __builtin_cpu_supports("fma"),
                                __builtin_cpu_supports("bmi"), __builtin_cpu_supports("bmi2"));
  const bool avx3 = avx2 && has(__builtin_cpu_supports("avx512f"), __builtin_cpu_supports("avx512vl"),
                                __builtin_cpu_supports("avx512dq"), __builtin_cpu_supports("avx512bw"));
  const bool avx3_dl = avx3 && has(__builtin_cpu_supports("avx512vnni"), __builtin_cpu_supports("vpclmulqdq"),
                                   __builtin_cpu_supports("avx512vbmi"), __builtin_cpu_supports("avx512vbmi2"),
                                   __builtin_cpu_supports("avx512vpopcntdq"), __builtin_cpu_supports("avx512bitalg"));
  if (__builtin_cpu_supports("ssse3") != 0) targets |= HWY_SSSE3;
  if (sse4) targets |= HWY_SSE4;
  if (avx2) targets |= HWY_AVX2;
  if (avx3) targets |= HWY_AVX3;
  if (avx3_dl) targets |= HWY_AVX3_DL;
#endif
  return targets;
}

}  // namespace lockstep

#ifdef LOCKSTEP_OWN_HWY
namespace hwy {

std::int64_t SupportedTargets() { return lockstep::cpu_targets(); }

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy
#endif

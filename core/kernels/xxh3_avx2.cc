#include "core/kernels/xxh3_here.h"

namespace lockstep {

const Xxh3 kXxh3Avx2 = kXxh3Here;

}  // namespace lockstep

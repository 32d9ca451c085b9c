// Marks a loop whose iterations are independent: no iteration reads what another one writes. The compiler cannot see
// this when a loop accesses bytes or overwrites its input.
#pragma once

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"  // -O1 does not vectorize
#define LOCKSTEP_INDEPENDENT_ITERATIONS _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define LOCKSTEP_INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#else
#define LOCKSTEP_INDEPENDENT_ITERATIONS
#endif

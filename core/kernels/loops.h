// Before a loop no iteration of which reads what another one writes. The compiler cannot see that where bytes are read
// and written, or where the loop writes over what it has read.
#pragma once

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"  // at -O1 it is content with scalar code
#define LOCKSTEP_INDEPENDENT_ITERATIONS _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define LOCKSTEP_INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#else
#define LOCKSTEP_INDEPENDENT_ITERATIONS
#endif

// Typed messages, told by any bytes, to a coordinator: see fuzz/liars.h.
#include <cstddef>
#include <cstdint>

#include "fuzz/door.h"
#include "fuzz/liars.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lockstep::fuzz::play_against_coordinator({data, size});
  return 0;
}

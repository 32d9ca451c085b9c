#include "bindings/c/error.h"

#include <algorithm>
#include <array>

namespace lockstep::c {
namespace {

// A fixed buffer per thread, because reporting an error must not fail.
thread_local std::array<char, 2048> last_error{};

}  // namespace

lockstep_status fail(lockstep_status status, std::string_view text) noexcept {
  const std::size_t length = std::min(text.size(), last_error.size() - 1);
  std::copy_n(text.data(), length, last_error.data());
  last_error[length] = '\0';
  return status;
}

lockstep_status fail(const Error& error) noexcept { return fail(to_c(error.status), error.text); }

}  // namespace lockstep::c

const char* lockstep_last_error(void) { return lockstep::c::last_error.data(); }

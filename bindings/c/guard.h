// The only place that catches exceptions.
#pragma once

#include <exception>
#include <new>
#include <utility>

#include "bindings/c/error.h"
#include "transport/launch_gate.h"

namespace lockstep::c {

// Runs the body of an API function, which returns a lockstep_status. No exception leaves this function.
template <typename Body>
lockstep_status guard(Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    return fail(LOCKSTEP_ERR_OUT_OF_MEMORY, "out of memory");
  } catch (const transport::LaunchInterrupted& interrupted) {
    return fail(LOCKSTEP_ERR_INTERRUPTED, interrupted.what());
  } catch (const std::exception& error) {
    return fail(LOCKSTEP_ERR_INTERNAL, error.what());
  } catch (...) {
    return fail(LOCKSTEP_ERR_INTERNAL, "an exception of unknown type");
  }
}

}  // namespace lockstep::c

// Waiting without the GIL, even while the interpreter exits.
#pragma once

#include <pybind11/pybind11.h>

#include <cxxabi.h>
#include <unistd.h>

namespace lockstep::python {

// Releases the GIL for a scope. If the interpreter has exited meanwhile, the destructor never returns: Python stops
// every other thread by unwinding its stack (pthread_exit), which destructors do not survive. So the thread sleeps
// until the process ends.
class WithoutGil {
 public:
  WithoutGil() : thread_(PyEval_SaveThread()) {}
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;
  ~WithoutGil() {
    try {
      PyEval_RestoreThread(thread_);
    } catch (abi::__forced_unwind&) {
      for (;;) ::pause();
    }
  }

 private:
  PyThreadState* thread_;
};

}  // namespace lockstep::python

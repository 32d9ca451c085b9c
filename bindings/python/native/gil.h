// Waiting without the GIL, also while the interpreter goes.
#pragma once

#include <pybind11/pybind11.h>

#include <cxxabi.h>
#include <unistd.h>

namespace lockstep::python {

// Gives the GIL up in its scope. Where the interpreter has gone meanwhile it never returns: Python lets no other thread
// run any more, and ends it by unwinding its stack (pthread_exit), which no destructor survives. The thread sleeps
// until the process is over.
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

// Threads that Python stops while the interpreter exits do not abort the process.
#pragma once

namespace lockstep::python {

// Python (before 3.14) stops a thread that comes back to an interpreter that exits by pthread_exit(). That unwinds the
// C++ frames of the library that the thread is in (torch, pybind11, this module); a destructor among these frames turns
// the unwinding into std::terminate(), and the process aborts with "terminate called without an active exception".
// From now on such a thread sleeps until the process ends; any other std::terminate() does what it did before.
// Called with the GIL held, by the thread that ends the interpreter.
void let_stopped_threads_sleep();

}  // namespace lockstep::python

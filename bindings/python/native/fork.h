// The effect of fork() on the state of this module.
#pragma once

#include <pthread.h>

namespace lockstep::python {

// The T of this process, shared by its threads. A child of fork() gets a new T: a lock of the old one may be held by a
// thread that does not exist in the child. Never destroyed, because threads of the library may outlive the module.
template <typename T>
class OfProcess {
 public:
  static T& get() { return *place; }

 private:
  static T* first() {
    pthread_atfork(nullptr, nullptr, [] { place = new T; });
    return new T;
  }
  static inline T* place = first();
};

}  // namespace lockstep::python

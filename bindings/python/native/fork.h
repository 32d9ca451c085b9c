// What a fork means to the state of this module.
#pragma once

#include <pthread.h>

namespace lockstep::python {

// The one T of this process, which threads share. A child of fork() begins with a new one: in the old one a lock may be
// held by a thread that the child has not. Never destroyed: threads of the library may outlive the module.
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

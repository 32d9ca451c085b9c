#include "bindings/python/native/terminate.h"

#include <Python.h>

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <exception>

namespace lockstep::python {
namespace {

using SetTerminate = std::terminate_handler (*)(std::terminate_handler) noexcept;

// A wheel has a C++ runtime of its own beside the one that torch uses, and each runtime has its own handler.
enum Runtime : std::size_t { kOwn, kShared, kRuntimes };

std::atomic<unsigned long> ends_the_interpreter{0};  // Python's id of the thread
std::array<std::atomic<std::terminate_handler>, kRuntimes> former{};

bool interpreter_exits() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

template <Runtime runtime>
[[noreturn]] void on_terminate() {
  if (interpreter_exits() && PyThread_get_thread_ident() != ends_the_interpreter.load()) {
    for (;;) ::pause();
  }
  if (const auto handler = former[runtime].load()) handler();
  std::abort();
}

template <Runtime runtime>
void install(SetTerminate set) {
  const std::terminate_handler before = set(&on_terminate<runtime>);
  if (before != &on_terminate<runtime>) former[runtime].store(before);
}

}  // namespace

void let_stopped_threads_sleep() {
  ends_the_interpreter.store(PyThread_get_thread_ident());
  install<kOwn>(&std::set_terminate);
  void* const library = ::dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return;
  const auto shared = reinterpret_cast<SetTerminate>(::dlsym(library, "_ZSt13set_terminatePFvvE"));
  if (shared != nullptr && shared != &std::set_terminate) install<kShared>(shared);
  ::dlclose(library);
}

}  // namespace lockstep::python

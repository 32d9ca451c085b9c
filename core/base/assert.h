// Assertions that stay in every build. An assertion guards against a mistake in Lockstep itself. A mistake of the
// network is a value (Result).
#pragma once

namespace lockstep {

// Prints the failed condition, its file and its line to standard error, then aborts the process.
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);

// A callback that runs on this thread after an assertion has failed and before the process aborts, for example to write
// a flight recording. It is registered while the object lives. Only the innermost object's callback runs, and it runs
// once.
class LastWords {
 public:
  using Say = void (*)(void* about);
  LastWords(Say say, void* about);
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;
  ~LastWords();

 private:
  friend void assertion_failed(const char* condition, const char* file, int line);
  Say say_;
  void* about_;
  LastWords* outer_;
};

}  // namespace lockstep

#define LOCKSTEP_ASSERT(condition) \
  (static_cast<bool>(condition) ? static_cast<void>(0) : ::lockstep::assertion_failed(#condition, __FILE__, __LINE__))

#define LOCKSTEP_UNREACHABLE() ::lockstep::assertion_failed("unreachable", __FILE__, __LINE__)

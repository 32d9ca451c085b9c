// Assertions that stay in every build. They guard our own mistakes; what the network may do is a value (Result).
#pragma once

namespace lockstep {

// Prints the broken condition with its place to standard error and aborts the process.
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);

// What this thread does before the process ends over a broken assertion, while this is there: write down how it came to
// it. The innermost speaks, once.
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

#include "core/base/assert.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace lockstep {
namespace {

thread_local LastWords* last_words = nullptr;  // diagnostics only; no decision of a machine depends on it

}  // namespace

LastWords::LastWords(Say say, void* about) : say_(say), about_(about), outer_(last_words) { last_words = this; }
LastWords::~LastWords() { last_words = outer_; }

void assertion_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "lockstep: assertion failed: %s (%s:%d)\n", condition, file, line);
  if (const LastWords* words = std::exchange(last_words, nullptr)) words->say_(words->about_);
  std::abort();
}

}  // namespace lockstep

/* Checks for tests in C99: a failed check prints its place and the expectation, and ends the program. */
#ifndef LOCKSTEP_TESTS_BINDINGS_CHECK_H
#define LOCKSTEP_TESTS_BINDINGS_CHECK_H

#include <lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) {                                                             \
      fprintf(stderr, "%s:%d: CHECK failed: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                      \
    }                                                                               \
  } while (0)

/* `call` returns `wanted`. */
#define CHECK_STATUS(wanted, call) check_status(__FILE__, __LINE__, #call, wanted, call)

/* `call` is refused as an invalid argument, and the text says `word`: the parameter, its value or what is allowed. */
#define CHECK_INVALID(word, call)                                                 \
  do {                                                                            \
    check_status(__FILE__, __LINE__, #call, LOCKSTEP_ERR_INVALID_ARGUMENT, call); \
    check_text(__FILE__, __LINE__, #call, lockstep_last_error(), word);           \
  } while (0)

static inline void check_status(const char* file, int line, const char* call, lockstep_status wanted,
                                lockstep_status found) {
  if (found == wanted) return;
  fprintf(stderr, "%s:%d: %s\n  expected: %s\n  found:    %s (%s)\n", file, line, call, lockstep_status_string(wanted),
          lockstep_status_string(found), lockstep_last_error());
  exit(1);
}

static inline void check_text(const char* file, int line, const char* what, const char* text, const char* word) {
  if (strstr(text, word) != NULL) return;
  fprintf(stderr, "%s:%d: %s\n  text: \"%s\"\n  does not say \"%s\"\n", file, line, what, text, word);
  exit(1);
}

#endif

/* Child processes for tests. A child runs a function and never outlives the test. */
#ifndef LOCKSTEP_TESTS_BINDINGS_CHILD_H
#define LOCKSTEP_TESTS_BINDINGS_CHILD_H

#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

/* A process, and a pipe in each direction. */
typedef struct child {
  pid_t id;
  int in;  /* the child reads these bytes from its `in` */
  int out; /* the bytes that the child writes to its `out` */
} child;

/* Forks. The child runs `body` with the other ends of the pipes and exits with its result. */
static inline child start_child(int (*body)(int in, int out, void* user), void* user) {
  int to[2], from[2];
  child started;
  const pid_t parent = getpid();
  CHECK(pipe(to) == 0 && pipe(from) == 0);
  started.id = fork();
  CHECK(started.id >= 0);
  if (started.id == 0) {
    /* The kernel kills the child when the parent dies. If the parent is dead already, the child exits here. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) _exit(1);
    close(to[1]);
    close(from[0]);
    _exit(body(to[0], from[1], user));
  }
  close(to[0]);
  close(from[1]);
  started.in = to[1];
  started.out = from[0];
  return started;
}

/* Waits until the child has ended. Returns whether its exit status is 0. */
static inline int ended_well(child* self) {
  int status = -1;
  close(self->in);
  close(self->out);
  CHECK(waitpid(self->id, &status, 0) == self->id);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static inline void kill_child(child* self) {
  CHECK(kill(self->id, SIGKILL) == 0);
  CHECK(!ended_well(self));
}

/* Reads exactly `size` bytes. */
static inline void read_all(int from, void* into, size_t size) {
  char* place = (char*)into;
  while (size > 0) {
    const ssize_t got = read(from, place, size);
    CHECK(got > 0);
    place += got;
    size -= (size_t)got;
  }
}

static inline void write_all(int to, const void* data, size_t size) {
  CHECK(write(to, data, size) == (ssize_t)size); /* a pipe takes a short message at once */
}

/* Milliseconds of a monotonic clock. */
static inline int64_t now_ms(void) {
  struct timespec now;
  CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- a coordinator in a child */

enum { ADDRESS_SIZE = 64 };

static inline int host_coordinator(int in, int out, void* user) {
  char address[ADDRESS_SIZE] = "";
  char byte;
  lockstep_coordinator* coordinator = NULL;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_coordinator_start((const lockstep_coordinator_options*)user, &coordinator));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_coordinator_address(coordinator, address, sizeof address));
  write_all(out, address, sizeof address);
  while (read(in, &byte, 1) > 0) {
  }
  lockstep_coordinator_stop(coordinator);
  return 0;
}

/* Call it before the process has threads. Writes the coordinator's address. The coordinator ends when child.in is
 * closed. */
static inline child start_coordinator(lockstep_coordinator_options* options, char address[ADDRESS_SIZE]) {
  const child started = start_child(host_coordinator, options);
  read_all(started.out, address, ADDRESS_SIZE);
  return started;
}

#endif

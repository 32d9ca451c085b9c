/* Peers for tests: threads of one process, each with its own communicator, and a shared coordinator. */
#ifndef LOCKSTEP_TESTS_BINDINGS_PEERS_H
#define LOCKSTEP_TESTS_BINDINGS_PEERS_H

#include <pthread.h>

#include "check.h"

enum { MOST_PEERS = 8 };

/* One peer of a test. */
typedef struct peer {
  unsigned number; /* from 0; not the rank */
  unsigned peers;  /* founders of the run */
  const char* coordinator;
  lockstep_comm_options options;
  lockstep_comm* comm;
  void (*body)(struct peer* peer);
  pthread_barrier_t* meeting; /* barrier of all peers that does not use the library */
} peer;

/* LOCKSTEP_TEST_LOG=1 shows the logs of the peers and of the coordinator. */
static inline void log_line(void* user, const char* line) { fprintf(stderr, "%s: %s\n", (const char*)user, line); }
static inline lockstep_log_fn test_log(void) { return getenv("LOCKSTEP_TEST_LOG") != NULL ? log_line : NULL; }

static inline void* peer_main(void* argument) {
  peer* self = (peer*)argument;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_comm_create(&self->options, &self->comm));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_connect(self->comm, self->coordinator, 30000));
  self->body(self);
  lockstep_comm_destroy(self->comm);
  return NULL;
}

/* Runs `body` once per peer of a run of `count`, each on a thread of its own. `prepare` (may be NULL) changes the
 * options. */
static inline void with_peers(unsigned count, void (*prepare)(peer*), void (*body)(peer*)) {
  static const lockstep_comm_options defaults = LOCKSTEP_COMM_OPTIONS_INIT;
  static char names[MOST_PEERS][16];
  static char coordinator_name[] = "coordinator";
  lockstep_coordinator_options coordinator_options = LOCKSTEP_COORDINATOR_OPTIONS_INIT;
  lockstep_coordinator* coordinator = NULL;
  char address[64];
  peer peers[MOST_PEERS];
  pthread_t threads[MOST_PEERS];
  pthread_barrier_t meeting;
  unsigned i;

  CHECK(count <= MOST_PEERS);
  coordinator_options.log = test_log();
  coordinator_options.log_user = coordinator_name;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_coordinator_start(&coordinator_options, &coordinator));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_coordinator_address(coordinator, address, sizeof address));
  CHECK(pthread_barrier_init(&meeting, NULL, count) == 0);
  for (i = 0; i < count; ++i) {
    peers[i].meeting = &meeting;
    peers[i].number = i;
    peers[i].peers = count;
    peers[i].coordinator = address;
    peers[i].options = defaults;
    peers[i].options.founders = count;
    snprintf(names[i], sizeof names[i], "peer %u", i);
    peers[i].options.name = names[i];
    peers[i].options.log = test_log();
    peers[i].options.log_user = names[i];
    peers[i].comm = NULL;
    peers[i].body = body;
    if (prepare != NULL) prepare(&peers[i]);
    CHECK(pthread_create(&threads[i], NULL, peer_main, &peers[i]) == 0);
  }
  for (i = 0; i < count; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(pthread_barrier_destroy(&meeting) == 0);
  lockstep_coordinator_stop(coordinator);
}

#endif

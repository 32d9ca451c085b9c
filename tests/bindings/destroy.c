/* Handles are destroyed while other threads run or begin functions on them, as a garbage collector may do. */
#include <sched.h>
#include <stdint.h>

#include "child.h"
#include "peers.h"

enum { COUNT = 1000, IN_TIME_MS = 30000, MOST_CALLERS = 4 };

/* The number of threads that have waited for 50 ms: these threads sleep in the library. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_t sleepers[MOST_CALLERS];
static int asleep;

static int count_sleepers(void* user) {
  int i = 0;
  (void)user;
  pthread_mutex_lock(&mutex);
  while (i < asleep && !pthread_equal(sleepers[i], pthread_self())) ++i;
  if (i == asleep && asleep < MOST_CALLERS) sleepers[asleep++] = pthread_self();
  pthread_mutex_unlock(&mutex);
  return 0;
}

static void until_asleep(int threads) {
  int found;
  do {
    sched_yield();
    pthread_mutex_lock(&mutex);
    found = asleep;
    pthread_mutex_unlock(&mutex);
  } while (found < threads);
}

static void no_thread_is_asleep(void) {
  pthread_mutex_lock(&mutex);
  asleep = 0;
  pthread_mutex_unlock(&mutex);
}

typedef struct caller {
  lockstep_comm* comm;
  lockstep_work* work;
  const char* coordinator;
  lockstep_status status;
} caller;

static pthread_t start(void* (*body)(void*), void* argument) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, body, argument) == 0);
  return thread;
}

static void* wait_in_barrier(void* argument) {
  caller* self = (caller*)argument;
  self->status = lockstep_barrier(self->comm, NULL, NULL);
  return NULL;
}

static void* wait_in_admit(void* argument) {
  caller* self = (caller*)argument;
  self->status = lockstep_wait_for_world(self->comm, 1000, LOCKSTEP_FOREVER, NULL);
  return NULL;
}

static void* wait_in_connect(void* argument) {
  caller* self = (caller*)argument;
  self->status = lockstep_connect(self->comm, self->coordinator, LOCKSTEP_FOREVER);
  return NULL;
}

static void* wait_in_wait(void* argument) {
  caller* self = (caller*)argument;
  self->status = lockstep_wait(self->work, LOCKSTEP_FOREVER, NULL);
  return NULL;
}

/* Only the first of two peers waits in the barrier. The second peer also has a communicator that no member admits. */
static void destroy_ends_waits(peer* self) {
  caller callers[3] = {{0}};
  pthread_t threads[3];
  int i;
  if (self->number == 0) {
    lockstep_barrier_args other = LOCKSTEP_BARRIER_ARGS_INIT;
    other.tag = 1;
    for (i = 0; i < 3; ++i) callers[i].comm = self->comm;
    CHECK_STATUS(LOCKSTEP_OK, lockstep_barrier_async(self->comm, &other, &callers[2].work));
    threads[0] = start(wait_in_barrier, &callers[0]);
    threads[2] = start(wait_in_wait, &callers[2]);
    until_asleep(2);
    threads[1] = start(wait_in_admit, &callers[1]);
    until_asleep(3);
    lockstep_comm_destroy(self->comm);
    for (i = 0; i < 3; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(callers[0].status == LOCKSTEP_ERR_OUTCOME_UNKNOWN);
    CHECK(callers[1].status == LOCKSTEP_ERR_NOT_CONNECTED);
    CHECK(callers[2].status == LOCKSTEP_ERR_OUTCOME_UNKNOWN);
    lockstep_work_free(callers[2].work);
    self->comm = NULL;
    no_thread_is_asleep();
    pthread_barrier_wait(self->meeting);
  } else {
    pthread_barrier_wait(self->meeting);
    callers[0].coordinator = self->coordinator;
    CHECK_STATUS(LOCKSTEP_OK, lockstep_comm_create(NULL, &callers[0].comm));
    threads[0] = start(wait_in_connect, &callers[0]);
    until_asleep(1);
    lockstep_comm_destroy(callers[0].comm);
    CHECK(pthread_join(threads[0], NULL) == 0);
    CHECK(callers[0].status == LOCKSTEP_ERR_NOT_CONNECTED);
  }
}

/* Calls a little of everything until the handle is reported as destroyed. */
static void* call_until_closed(void* argument) {
  caller* self = (caller*)argument;
  float data[COUNT];
  uint64_t tag = (uint64_t)(uintptr_t)self;
  lockstep_status status = LOCKSTEP_OK;
  memset(data, 0, sizeof data);
  while (status == LOCKSTEP_OK) {
    lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
    lockstep_sync_state_args state = LOCKSTEP_SYNC_STATE_ARGS_INIT;
    lockstep_world world = LOCKSTEP_WORLD_INIT;
    lockstep_work* work = NULL;
    lockstep_peer_id id;
    uint32_t number;
    args.send = args.recv = data;
    args.count = COUNT;
    args.type = LOCKSTEP_F32;
    args.tag = tag;
    state.tag = tag;
    if (lockstep_all_reduce_async(self->comm, &args, &work) == LOCKSTEP_OK) {
      status = lockstep_wait(work, LOCKSTEP_FOREVER, NULL);
      lockstep_work_free(work);
      if (status == LOCKSTEP_OK) status = lockstep_all_reduce(self->comm, &args, NULL);
    }
    if (status == LOCKSTEP_OK) status = lockstep_publish_state(self->comm, &state);
    if (status == LOCKSTEP_OK) status = lockstep_unpublish_state(self->comm, tag);
    if (status == LOCKSTEP_OK) status = lockstep_world_get(self->comm, &world);
    if (status == LOCKSTEP_OK) status = lockstep_pending(self->comm, &number);
    if (status == LOCKSTEP_OK) status = lockstep_peer_id_self(self->comm, &id);
  }
  self->status = status;
  /* the handle was destroyed, or is about to be */
  while (lockstep_abort_all(self->comm, NULL) == LOCKSTEP_OK) sched_yield();
  CHECK_STATUS(LOCKSTEP_ERR_NOT_CONNECTED, lockstep_barrier(self->comm, NULL, NULL));
  check_text(__FILE__, __LINE__, "barrier", lockstep_last_error(), "the communicator was closed");
  return NULL;
}

/* A world of one: its calls end without another peer. */
static void destroy_while_calls_begin(const char* coordinator) {
  int round, i;
  for (round = 0; round < 40; ++round) {
    caller callers[MOST_CALLERS];
    pthread_t threads[MOST_CALLERS];
    lockstep_comm* comm;
    CHECK_STATUS(LOCKSTEP_OK, lockstep_comm_create(NULL, &comm));
    CHECK_STATUS(LOCKSTEP_OK, lockstep_connect(comm, coordinator, IN_TIME_MS));
    for (i = 0; i < MOST_CALLERS; ++i) {
      callers[i].comm = comm;
      threads[i] = start(call_until_closed, &callers[i]);
    }
    CHECK_STATUS(LOCKSTEP_OK, lockstep_barrier(comm, NULL, NULL));
    lockstep_comm_destroy(comm);
    for (i = 0; i < MOST_CALLERS; ++i) {
      CHECK(pthread_join(threads[i], NULL) == 0);
      CHECK(callers[i].status == LOCKSTEP_ERR_NOT_CONNECTED || callers[i].status == LOCKSTEP_ERR_OUTCOME_UNKNOWN);
    }
  }
}

static int destroy_once(void* user) {
  lockstep_comm** comm = (lockstep_comm**)user;
  lockstep_comm_destroy(*comm);
  *comm = NULL;
  return 0;
}

static int destroy_what_waits(void* user) {
  lockstep_comm** comm = (lockstep_comm**)user;
  return *comm != NULL ? destroy_once(user) : 0;
}

/* The signal handler of an interpreter may destroy the handle. */
static void a_thread_destroys_the_handle_that_it_waits_on(const char* coordinator) {
  lockstep_comm* comm;
  lockstep_comm* same;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_comm_create(NULL, &comm));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_connect(comm, coordinator, IN_TIME_MS));
  same = comm;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_set_interrupt(destroy_what_waits, &comm));
  CHECK_STATUS(LOCKSTEP_ERR_NOT_CONNECTED, lockstep_wait_for_world(same, 1000, LOCKSTEP_FOREVER, NULL));
  CHECK(comm == NULL);
  lockstep_comm_destroy(same); /* a second destroy does nothing while the handle is known */
  CHECK_STATUS(LOCKSTEP_OK, lockstep_set_interrupt(count_sleepers, NULL));
}

static void* record_until_stopped(void* argument) {
  lockstep_coordinator* coordinator = (lockstep_coordinator*)argument;
  char address[64];
  lockstep_status status = LOCKSTEP_OK;
  while (status == LOCKSTEP_OK) {
    status = lockstep_coordinator_address(coordinator, address, sizeof address);
    if (status == LOCKSTEP_OK) status = lockstep_coordinator_flight_record(coordinator, "/dev/null/none");
    if (status == LOCKSTEP_ERR_INVALID_ARGUMENT) status = LOCKSTEP_OK;
  }
  CHECK(status == LOCKSTEP_ERR_NOT_CONNECTED);
  return NULL;
}

static void a_coordinator_is_stopped_during_calls(void) {
  int round;
  for (round = 0; round < 40; ++round) {
    lockstep_coordinator* coordinator = NULL;
    pthread_t thread;
    CHECK_STATUS(LOCKSTEP_OK, lockstep_coordinator_start(NULL, &coordinator));
    thread = start(record_until_stopped, coordinator);
    lockstep_coordinator_stop(coordinator);
    CHECK(pthread_join(thread, NULL) == 0);
  }
}

/* ---- a stopped coordinator */

static void destroy_at_once(lockstep_comm* comm) {
  const int64_t began = now_ms();
  lockstep_comm_destroy(comm);
  if (now_ms() - began < 1000) return;
  fprintf(stderr, "destroy took %lld ms\n", (long long)(now_ms() - began));
  exit(1);
}

static void destroy_does_not_wait_for_a_stopped_coordinator(const child* coordinator, const char* address) {
  lockstep_comm_options options = LOCKSTEP_COMM_OPTIONS_INIT;
  lockstep_comm* members[3];
  lockstep_work* joining[3];
  lockstep_comm* late;
  int i;
  options.founders = 3;
  for (i = 0; i < 3; ++i) {
    CHECK_STATUS(LOCKSTEP_OK, lockstep_comm_create(&options, &members[i]));
    CHECK_STATUS(LOCKSTEP_OK, lockstep_connect_async(members[i], address, IN_TIME_MS, &joining[i]));
  }
  for (i = 0; i < 3; ++i) {
    CHECK_STATUS(LOCKSTEP_OK, lockstep_wait(joining[i], LOCKSTEP_FOREVER, NULL));
    lockstep_work_free(joining[i]);
  }
  CHECK_STATUS(LOCKSTEP_OK, lockstep_comm_create(NULL, &late));
  CHECK(kill(coordinator->id, SIGSTOP) == 0);
  CHECK_STATUS(LOCKSTEP_ERR_TIMED_OUT, lockstep_connect(late, address, 50));
  destroy_at_once(late);
  destroy_at_once(members[2]);
  CHECK_STATUS(LOCKSTEP_ERR_TIMED_OUT, lockstep_leave(members[1], 50));
  destroy_at_once(members[1]);
  destroy_at_once(members[0]);
  CHECK(kill(coordinator->id, SIGCONT) == 0);
}

int main(void) {
  lockstep_coordinator* coordinator = NULL;
  char address[ADDRESS_SIZE];
  child other = start_coordinator(NULL, address);
  destroy_does_not_wait_for_a_stopped_coordinator(&other, address);
  CHECK(ended_well(&other));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_set_interrupt(count_sleepers, NULL));
  with_peers(2, NULL, destroy_ends_waits);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_coordinator_start(NULL, &coordinator));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_coordinator_address(coordinator, address, sizeof address));
  destroy_while_calls_begin(address);
  a_thread_destroys_the_handle_that_it_waits_on(address);
  lockstep_coordinator_stop(coordinator);
  a_coordinator_is_stopped_during_calls();
  return 0;
}

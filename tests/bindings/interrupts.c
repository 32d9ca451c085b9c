/* Notifications about ended calls, and waits that a program interrupts. */
#include <stdint.h>

#include "child.h"
#include "peers.h"

enum { IN_TIME_MS = 30000 };

/* ---- lockstep_notify() */

typedef struct bell {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int rang;
} bell;

static void bell_init(bell* self) {
  CHECK(pthread_mutex_init(&self->mutex, NULL) == 0);
  CHECK(pthread_cond_init(&self->changed, NULL) == 0);
  self->rang = 0;
}

static void ring(void* user) {
  bell* self = (bell*)user;
  pthread_mutex_lock(&self->mutex);
  ++self->rang;
  pthread_cond_broadcast(&self->changed);
  pthread_mutex_unlock(&self->mutex);
}

static int rang(bell* self) {
  int times;
  pthread_mutex_lock(&self->mutex);
  times = self->rang;
  pthread_mutex_unlock(&self->mutex);
  return times;
}

static void wait_for_ring(bell* self) {
  pthread_mutex_lock(&self->mutex);
  while (self->rang == 0) pthread_cond_wait(&self->changed, &self->mutex);
  pthread_mutex_unlock(&self->mutex);
}

static lockstep_barrier_args barrier_of(uint64_t tag) {
  lockstep_barrier_args args = LOCKSTEP_BARRIER_ARGS_INIT;
  args.tag = tag;
  return args;
}

static lockstep_work* begin_barrier(peer* self, uint64_t tag) {
  const lockstep_barrier_args args = barrier_of(tag);
  lockstep_work* work = NULL;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_barrier_async(self->comm, &args, &work));
  return work;
}

static void meet(peer* self, uint64_t tag) {
  const lockstep_barrier_args args = barrier_of(tag);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_barrier(self->comm, &args, NULL));
}

static void each_end_is_notified_once(peer* self) {
  bell first, second, late;
  lockstep_work* work;
  if (self->number != 0) {
    pthread_barrier_wait(self->meeting); /* the other peer has called notify */
    meet(self, 1);
    return;
  }
  bell_init(&first);
  bell_init(&second);
  bell_init(&late);
  work = begin_barrier(self, 1);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_notify(work, ring, &first));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_on_end(work, ring, &second));
  CHECK(rang(&first) == 0);
  pthread_barrier_wait(self->meeting);
  wait_for_ring(&first);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_test(work, NULL));
  wait_for_ring(&second);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_on_end(work, ring, &late));
  CHECK(rang(&late) == 1); /* rings at once: the call is over */
  lockstep_work_free(work);
  CHECK(rang(&first) == 1 && rang(&second) == 1 && rang(&late) == 1);
}

static void freeing_a_call_notifies_its_end_first(peer* self) {
  if (self->number == 0) {
    bell end;
    lockstep_work* work = begin_barrier(self, 2);
    bell_init(&end);
    CHECK_STATUS(LOCKSTEP_OK, lockstep_notify(work, ring, &end));
    lockstep_work_free(work);
    CHECK(rang(&end) == 1);
  }
  meet(self, 3);
}

static void the_end_of_a_communicator_is_notified(peer* self) {
  bell end;
  lockstep_work* work = NULL;
  bell_init(&end);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_wait_for_world_async(self->comm, 1000, LOCKSTEP_FOREVER, &work));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_notify(work, ring, &end));
  lockstep_comm_destroy(self->comm);
  self->comm = NULL;
  CHECK(rang(&end) == 1);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_notify(work, ring, &end));
  CHECK(rang(&end) == 2);
  lockstep_work_free(work);
}

static void notifications(peer* self) {
  each_end_is_notified_once(self);
  freeing_a_call_notifies_its_end_first(self);
  the_end_of_a_communicator_is_notified(self);
}

/* ---- lockstep_set_interrupt() */

typedef struct interruption {
  pthread_mutex_t mutex;
  pthread_t of;       /* the thread to interrupt */
  int64_t wait_began; /* ms */
  int times_asked;
  int wanted;
} interruption;

static interruption ctrl_c;

static int ask(void* user) {
  interruption* self = (interruption*)user;
  int wanted = 0;
  pthread_mutex_lock(&self->mutex);
  if (pthread_equal(pthread_self(), self->of)) {
    CHECK(now_ms() - self->wait_began >= 50 * (self->times_asked + 1));
    ++self->times_asked;
    wanted = self->wanted;
  }
  pthread_mutex_unlock(&self->mutex);
  return wanted;
}

/* Call it right before the calling thread waits. */
static void interrupt_me(int wanted) {
  pthread_mutex_lock(&ctrl_c.mutex);
  ctrl_c.of = pthread_self();
  ctrl_c.wait_began = now_ms();
  ctrl_c.times_asked = 0;
  ctrl_c.wanted = wanted;
  pthread_mutex_unlock(&ctrl_c.mutex);
}

static int times_asked(void) {
  int times;
  pthread_mutex_lock(&ctrl_c.mutex);
  times = ctrl_c.times_asked;
  pthread_mutex_unlock(&ctrl_c.mutex);
  return times;
}

static void an_interrupted_wait_does_not_end_the_call(peer* self) {
  size_t index = 77;
  lockstep_work* work;
  if (self->number != 0) {
    pthread_barrier_wait(self->meeting);
    meet(self, 10);
    return;
  }
  work = begin_barrier(self, 10);
  interrupt_me(1);
  CHECK_STATUS(LOCKSTEP_ERR_PENDING, lockstep_test(work, NULL));
  CHECK(times_asked() == 0);
  CHECK_STATUS(LOCKSTEP_ERR_INTERRUPTED, lockstep_wait(work, LOCKSTEP_FOREVER, NULL));
  CHECK(times_asked() == 1);
  interrupt_me(1);
  CHECK_STATUS(LOCKSTEP_ERR_INTERRUPTED, lockstep_wait(work, IN_TIME_MS, NULL));
  interrupt_me(1);
  CHECK_STATUS(LOCKSTEP_ERR_INTERRUPTED, lockstep_wait_any(&work, 1, LOCKSTEP_FOREVER, &index));
  CHECK(index == 77);
  interrupt_me(0);
  CHECK_STATUS(LOCKSTEP_ERR_PENDING, lockstep_wait(work, 120, NULL));
  CHECK(times_asked() >= 1);
  CHECK(lockstep_interrupted() == NULL);
  interrupt_me(0);
  pthread_barrier_wait(self->meeting);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_wait(work, LOCKSTEP_FOREVER, NULL));
  lockstep_work_free(work);
}

/* Its coordinator answers: that takes no 20 ms, or, on a machine that is busy, the call is left behind. */
static void a_blocking_call_is_aborted(peer* self) {
  const lockstep_barrier_args args = barrier_of(11);
  if (self->number == 0) {
    lockstep_result result = LOCKSTEP_RESULT_INIT;
    lockstep_status status;
    lockstep_work* work;
    interrupt_me(1);
    status = lockstep_barrier(self->comm, &args, &result);
    CHECK(times_asked() == 1);
    CHECK(result.status == status);
    check_text(__FILE__, __LINE__, "barrier", lockstep_last_error(), "interrupted");
    work = lockstep_interrupted();
    CHECK((work != NULL) == (status == LOCKSTEP_ERR_INTERRUPTED));
    if (work != NULL) status = lockstep_wait(work, IN_TIME_MS, NULL);
    CHECK(status == LOCKSTEP_ERR_ABORTED);
    lockstep_work_free(work);
    pthread_barrier_wait(self->meeting);
  } else {
    pthread_barrier_wait(self->meeting);
    CHECK_STATUS(LOCKSTEP_ERR_ABORTED, lockstep_barrier(self->comm, &args, NULL));
    check_text(__FILE__, __LINE__, "barrier", lockstep_last_error(), "interrupted");
  }
  interrupt_me(0);
  meet(self, 12); /* the communicator still works */
}

static void interruptions(peer* self) {
  an_interrupted_wait_does_not_end_the_call(self);
  a_blocking_call_is_aborted(self);
}

/* ---- a coordinator that does not answer: its process is stopped */

static void a_call_that_cannot_be_aborted_is_left_behind(const char* address, const child* coordinator) {
  lockstep_comm_options options = LOCKSTEP_COMM_OPTIONS_INIT;
  lockstep_result result = LOCKSTEP_RESULT_INIT;
  lockstep_comm* comms[2];
  lockstep_work* connecting;
  lockstep_work* left;
  bell end;
  int i;
  bell_init(&end);
  options.founders = 2;
  for (i = 0; i < 2; ++i) CHECK_STATUS(LOCKSTEP_OK, lockstep_comm_create(&options, &comms[i]));
  interrupt_me(0);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_connect_async(comms[1], address, IN_TIME_MS, &connecting));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_connect(comms[0], address, IN_TIME_MS));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_wait(connecting, IN_TIME_MS, NULL));
  lockstep_work_free(connecting);

  CHECK(kill(coordinator->id, SIGSTOP) == 0);
  for (i = 0; i < 2; ++i) { /* the first handle is never taken */
    interrupt_me(1);
    CHECK_STATUS(LOCKSTEP_ERR_INTERRUPTED, lockstep_barrier(comms[0], NULL, &result));
    CHECK(result.status == LOCKSTEP_ERR_INTERRUPTED);
  }
  left = lockstep_interrupted();
  CHECK(left != NULL);
  CHECK(lockstep_interrupted() == NULL); /* taken */
  CHECK_STATUS(LOCKSTEP_ERR_PENDING, lockstep_test(left, NULL));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_notify(left, ring, &end));
  CHECK(rang(&end) == 0);
  CHECK(kill(coordinator->id, SIGCONT) == 0);
  wait_for_ring(&end);
  CHECK_STATUS(LOCKSTEP_ERR_ABORTED, lockstep_test(left, NULL));
  check_text(__FILE__, __LINE__, "test", lockstep_last_error(), "interrupted");
  lockstep_work_free(left);
  for (i = 0; i < 2; ++i) lockstep_comm_destroy(comms[i]);
}

/* A connect to a coordinator that does not answer can be interrupted. */
static void connecting_is_interrupted(const char* address) {
  lockstep_comm_options options = LOCKSTEP_COMM_OPTIONS_INIT;
  lockstep_comm* comm;
  lockstep_status status;
  options.founders = 2;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_comm_create(&options, &comm));
  interrupt_me(1);
  status = lockstep_connect(comm, address, LOCKSTEP_FOREVER);
  CHECK(status == LOCKSTEP_ERR_ABORTED || status == LOCKSTEP_ERR_INTERRUPTED);
  check_text(__FILE__, __LINE__, "connect", lockstep_last_error(), "interrupted");
  lockstep_comm_destroy(comm);
  lockstep_work_free(lockstep_interrupted());
}

int main(void) {
  lockstep_coordinator_options patient = LOCKSTEP_COORDINATOR_OPTIONS_INIT;
  char address[ADDRESS_SIZE];
  child coordinator;
  patient.silence_ms = 120000;
  coordinator = start_coordinator(&patient, address);

  CHECK(pthread_mutex_init(&ctrl_c.mutex, NULL) == 0);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_set_interrupt(ask, &ctrl_c));
  CHECK(lockstep_interrupted() == NULL);
  with_peers(2, NULL, notifications);
  with_peers(2, NULL, interruptions);
  a_call_that_cannot_be_aborted_is_left_behind(address, &coordinator);
  connecting_is_interrupted(address);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_set_interrupt(NULL, NULL));
  CHECK(ended_well(&coordinator));
  return 0;
}

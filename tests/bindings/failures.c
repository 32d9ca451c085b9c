/* Calls that fail: aborts, time-outs, different arguments, changed worlds. Every call ends. */
#include "peers.h"

enum { COUNT = 1000, IN_TIME_MS = 30000 };

/* An all-reduce in place; all peers fill the tensor with 1. */
typedef struct sum {
  float data[COUNT];
  lockstep_all_reduce_args args;
  lockstep_result result;
} sum;

static sum* new_sum(uint64_t tag) {
  static const lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
  static const lockstep_result result = LOCKSTEP_RESULT_INIT;
  sum* fresh = (sum*)malloc(sizeof *fresh);
  int i;
  for (i = 0; i < COUNT; ++i) fresh->data[i] = 1;
  fresh->args = args;
  fresh->args.send = fresh->data;
  fresh->args.recv = fresh->data;
  fresh->args.count = COUNT;
  fresh->args.type = LOCKSTEP_F32;
  fresh->args.tag = tag;
  fresh->result = result;
  return fresh;
}

static void holds(const sum* of, float wanted) {
  int i;
  for (i = 0; i < COUNT; ++i) CHECK(of->data[i] == wanted);
}

static void all_meet(peer* self) { CHECK_STATUS(LOCKSTEP_OK, lockstep_barrier(self->comm, NULL, NULL)); }

/* One peer aborts its call before the others begin theirs: their calls end at once with the same status and unchanged
 * input. */
static void an_abort_ends_the_round_on_every_peer(peer* self) {
  sum* mine = new_sum(70);
  if (self->number == 0) {
    lockstep_work* work = NULL;
    CHECK_STATUS(LOCKSTEP_OK, lockstep_all_reduce_async(self->comm, &mine->args, &work));
    CHECK_STATUS(LOCKSTEP_ERR_PENDING, lockstep_test(work, &mine->result));
    CHECK_STATUS(LOCKSTEP_ERR_PENDING, lockstep_wait(work, 20, NULL));
    CHECK_STATUS(LOCKSTEP_OK, lockstep_abort(work, "the loss is not a number"));
    CHECK_STATUS(LOCKSTEP_ERR_ABORTED, lockstep_wait(work, IN_TIME_MS, &mine->result));
    CHECK(mine->result.status == LOCKSTEP_ERR_ABORTED);
    CHECK_STATUS(LOCKSTEP_OK, lockstep_abort(work, "too late to mean anything"));
    lockstep_work_free(work);
    all_meet(self);
  } else {
    all_meet(self);
    CHECK_STATUS(LOCKSTEP_ERR_ABORTED, lockstep_all_reduce(self->comm, &mine->args, &mine->result));
    check_text(__FILE__, __LINE__, "abort", lockstep_last_error(), "the loss is not a number");
  }
  holds(mine, 1);
  free(mine);
}

static void freeing_an_unfinished_call_aborts_it(peer* self) {
  sum* mine = new_sum(71);
  if (self->number == 0) {
    lockstep_work* work = NULL;
    CHECK_STATUS(LOCKSTEP_OK, lockstep_all_reduce_async(self->comm, &mine->args, &work));
    lockstep_work_free(work); /* the library returns `mine` here */
    holds(mine, 1);
    all_meet(self);
  } else {
    all_meet(self);
    CHECK_STATUS(LOCKSTEP_ERR_ABORTED, lockstep_all_reduce(self->comm, &mine->args, NULL));
  }
  free(mine);
}

/* One peer's library refuses its call: the others' calls end with the same status, and the next call works. */
static void a_refused_call_ends_the_round_on_every_peer(peer* self) {
  sum* mine = new_sum(75);
  lockstep_result unusable = LOCKSTEP_RESULT_INIT;
  int how;
  unusable.struct_size = 1;
  for (how = 0; how < 6; ++how) {
    lockstep_all_reduce_args args = mine->args;
    lockstep_status status;
    if (self->number == 1) {
      if (how == 0) args.type = (lockstep_data_type)77;
      if (how == 1) args.recv = mine->data + 1;
      if (how == 2) args.timeout_ms = -7;
      if (how == 4) {
        status = lockstep_all_reduce_async(self->comm, &args, NULL);
      } else if (how == 5) {
        CHECK_STATUS(LOCKSTEP_OK, lockstep_refuse(self->comm, "evaluation", 75, "no data"));
        status = LOCKSTEP_ERR_INVALID_ARGUMENT;
      } else {
        status = lockstep_all_reduce(self->comm, &args, how == 3 ? &unusable : NULL);
      }
      CHECK(status == LOCKSTEP_ERR_INVALID_ARGUMENT);
    } else {
      CHECK_STATUS(LOCKSTEP_ERR_INVALID_ARGUMENT, lockstep_all_reduce(self->comm, &args, NULL));
      check_text(__FILE__, __LINE__, "refusal", lockstep_last_error(),
                 how == 5 ? "refused its evaluation with tag 75: no data" : "refused its all_reduce with tag 75: ");
    }
    holds(mine, 1);
    CHECK_STATUS(LOCKSTEP_OK, lockstep_all_reduce(self->comm, &mine->args, NULL));
    holds(mine, (float)self->peers);
    free(mine);
    mine = new_sum(75);
  }
  free(mine);
}

static void a_time_out_ends_the_round_on_every_peer(peer* self) {
  sum* mine = new_sum(72);
  if (self->number == 0) {
    mine->args.timeout_ms = 30;
    CHECK_STATUS(LOCKSTEP_ERR_TIMED_OUT, lockstep_all_reduce(self->comm, &mine->args, NULL));
    all_meet(self);
  } else {
    all_meet(self);
    CHECK_STATUS(LOCKSTEP_ERR_TIMED_OUT, lockstep_all_reduce(self->comm, &mine->args, NULL));
  }
  holds(mine, 1);
  free(mine);
}

typedef struct aborter {
  lockstep_comm* comm;
  pthread_mutex_t mutex;
  int over;
} aborter;

static void* abort_until_over(void* argument) {
  aborter* self = (aborter*)argument;
  int over = 0;
  while (!over) {
    CHECK_STATUS(LOCKSTEP_OK, lockstep_abort_all(self->comm, "interrupted"));
    pthread_mutex_lock(&self->mutex);
    over = self->over;
    pthread_mutex_unlock(&self->mutex);
  }
  return NULL;
}

static void blocking_calls_can_be_aborted_from_another_thread(peer* self) {
  sum* mine = new_sum(73);
  if (self->number == 0) {
    aborter other;
    pthread_t thread;
    other.comm = self->comm;
    other.over = 0;
    CHECK(pthread_mutex_init(&other.mutex, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, abort_until_over, &other) == 0);
    CHECK_STATUS(LOCKSTEP_ERR_ABORTED, lockstep_all_reduce(self->comm, &mine->args, NULL));
    check_text(__FILE__, __LINE__, "abort_all", lockstep_last_error(), "interrupted");
    pthread_mutex_lock(&other.mutex);
    other.over = 1;
    pthread_mutex_unlock(&other.mutex);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(pthread_mutex_destroy(&other.mutex) == 0);
    all_meet(self);
  } else {
    all_meet(self);
    CHECK_STATUS(LOCKSTEP_ERR_ABORTED, lockstep_all_reduce(self->comm, &mine->args, NULL));
  }
  free(mine);
}

/* Promise S10: the call is refused on all peers with a text that names both values, and nothing is reduced. */
static void different_arguments_are_refused_on_every_peer(peer* self) {
  sum* mine = new_sum(74);
  if (self->number == 0) mine->args.count = COUNT - 1;
  CHECK_STATUS(LOCKSTEP_ERR_MISMATCH, lockstep_all_reduce(self->comm, &mine->args, NULL));
  check_text(__FILE__, __LINE__, "mismatch", lockstep_last_error(), "999");
  check_text(__FILE__, __LINE__, "mismatch", lockstep_last_error(), "1000");
  holds(mine, 1);
  mine->args.count = COUNT;
  mine->args.type = self->number == 1 ? LOCKSTEP_I32 : LOCKSTEP_F32;
  CHECK_STATUS(LOCKSTEP_ERR_MISMATCH, lockstep_all_reduce(self->comm, &mine->args, NULL));
  check_text(__FILE__, __LINE__, "mismatch", lockstep_last_error(), "dtype ");
  check_text(__FILE__, __LINE__, "mismatch", lockstep_last_error(), "int32 on peer 1");
  holds(mine, 1);
  free(mine);
}

static void below_minimum_world_nothing_is_reduced(peer* self) {
  sum* mine = new_sum(75);
  mine->args.minimum_world = self->peers + 1;
  CHECK_STATUS(LOCKSTEP_ERR_BELOW_MINIMUM, lockstep_all_reduce(self->comm, &mine->args, NULL));
  holds(mine, 1);
  free(mine);
}

static void a_root_must_be_a_member(peer* self) {
  uint8_t byte = 0;
  lockstep_broadcast_args args = LOCKSTEP_BROADCAST_ARGS_INIT;
  args.data = &byte;
  args.count = 1;
  args.tag = 76;
  args.root.bytes[0] = 1;
  CHECK_STATUS(LOCKSTEP_ERR_INVALID_ARGUMENT, lockstep_broadcast(self->comm, &args, NULL));
}

/* Takes no part in the following call, and leaves without a word during that call. */
static void a_lost_peer_does_not_stop_the_others(peer* self) {
  sum* mine = new_sum(77);
  if (self->number == 0) {
    lockstep_comm_destroy(self->comm);
    self->comm = NULL;
    free(mine);
    return;
  }
  CHECK_STATUS(LOCKSTEP_OK, lockstep_all_reduce(self->comm, &mine->args, &mine->result));
  CHECK(mine->result.world_size == self->peers - 1);
  holds(mine, (float)(self->peers - 1));
  free(mine);
}

static void calls_end_with_their_communicator(peer* self) {
  sum* mine = new_sum(78);
  lockstep_work* work = NULL;
  if (self->number != 1) {
    CHECK_STATUS(LOCKSTEP_OK, lockstep_leave(self->comm, IN_TIME_MS));
    free(mine);
    return;
  }
  CHECK_STATUS(LOCKSTEP_OK, lockstep_wait_for_world_async(self->comm, 1000, LOCKSTEP_FOREVER, &work));
  lockstep_comm_destroy(self->comm);
  self->comm = NULL;
  CHECK_STATUS(LOCKSTEP_ERR_NOT_CONNECTED, lockstep_test(work, &mine->result));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_abort(work, NULL)); /* the call is over already */
  lockstep_work_free(work);
  free(mine);
}

/* One of three communicators is destroyed before another peer has begun its call. */
static void destroy_restores_the_input(peer* self) {
  sum* mine = new_sum(79);
  lockstep_work* work = NULL;
  if (self->number < 2) CHECK_STATUS(LOCKSTEP_OK, lockstep_all_reduce_async(self->comm, &mine->args, &work));
  if (self->number == 0) {
    lockstep_comm_destroy(self->comm);
    self->comm = NULL;
    CHECK_STATUS(LOCKSTEP_ERR_OUTCOME_UNKNOWN, lockstep_test(work, &mine->result));
    check_text(__FILE__, __LINE__, "test", lockstep_last_error(), "the communicator was destroyed");
    holds(mine, 1);
  }
  pthread_barrier_wait(self->meeting);
  if (self->number == 1) CHECK_STATUS(LOCKSTEP_OK, lockstep_wait(work, IN_TIME_MS, NULL));
  if (self->number == 2) CHECK_STATUS(LOCKSTEP_OK, lockstep_all_reduce(self->comm, &mine->args, NULL));
  if (self->number != 0) holds(mine, 2);
  lockstep_work_free(work);
  free(mine);
}

static void admission_times_out(peer* self) {
  CHECK_STATUS(LOCKSTEP_ERR_TIMED_OUT, lockstep_wait_for_world(self->comm, self->peers + 1, 30, NULL));
  pthread_barrier_wait(self->meeting);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_leave(self->comm, IN_TIME_MS));
}

static void everything(peer* self) {
  an_abort_ends_the_round_on_every_peer(self);
  a_refused_call_ends_the_round_on_every_peer(self);
  freeing_an_unfinished_call_aborts_it(self);
  a_time_out_ends_the_round_on_every_peer(self);
  blocking_calls_can_be_aborted_from_another_thread(self);
  different_arguments_are_refused_on_every_peer(self);
  below_minimum_world_nothing_is_reduced(self);
  a_root_must_be_a_member(self);
  a_lost_peer_does_not_stop_the_others(self);
  if (self->comm != NULL) calls_end_with_their_communicator(self);
}

int main(void) {
  with_peers(3, NULL, everything);
  with_peers(3, NULL, destroy_restores_the_input);
  with_peers(3, NULL, admission_times_out);
  return 0;
}

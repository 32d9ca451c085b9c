/* Two members publish their state and continue training. A newcomer prefetches the state, and its first sync moves one
 * piece. */
#include "peers.h"

enum { IN_TIME_MS = 30000, PIECE = 1 << 18, PIECES = 8, COUNT = PIECES * PIECE }; /* floats: pieces of 1 MiB */

static pthread_barrier_t fetched; /* for all three peers */

static lockstep_sync_state_args state_of(lockstep_state_tensor* tensor, lockstep_state_value* value, float* weights,
                                         uint64_t* step) {
  lockstep_sync_state_args args = LOCKSTEP_SYNC_STATE_ARGS_INIT;
  tensor->name = "weights";
  tensor->data = weights;
  tensor->count = COUNT;
  tensor->type = LOCKSTEP_F32;
  tensor->may_differ = 0;
  value->name = "step";
  value->value = step;
  value->type = LOCKSTEP_UINT;
  args.tensors = tensor;
  args.tensors_count = 1;
  args.values = value;
  args.values_count = 1;
  args.tag = 9;
  args.timeout_ms = IN_TIME_MS;
  return args;
}

static void fill(float* weights) {
  size_t i;
  for (i = 0; i < COUNT; ++i) weights[i] = (float)(i % 1000) + (float)(i / PIECE);
}

static void* newcomer(void* argument) {
  const char* coordinator = (const char*)argument;
  lockstep_comm_options options = LOCKSTEP_COMM_OPTIONS_INIT;
  lockstep_comm* comm = NULL;
  lockstep_work* connecting = NULL;
  lockstep_result result = LOCKSTEP_RESULT_INIT;
  lockstep_state_tensor tensor;
  lockstep_state_value value;
  float* weights = calloc(COUNT, sizeof *weights);
  float* expected = malloc(COUNT * sizeof *expected);
  uint64_t step = 0;
  lockstep_sync_state_args args = state_of(&tensor, &value, weights, &step);
  CHECK(weights != NULL && expected != NULL);
  fill(expected);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_comm_create(&options, &comm));
  CHECK_STATUS(LOCKSTEP_ERR_INVALID_ARGUMENT, lockstep_publish_state(NULL, &args));
  CHECK_STATUS(LOCKSTEP_ERR_INVALID_ARGUMENT, lockstep_publish_state(comm, NULL));
  CHECK_STATUS(LOCKSTEP_ERR_INVALID_ARGUMENT, lockstep_prefetch_state(NULL, &args, NULL));
  CHECK_STATUS(LOCKSTEP_ERR_INVALID_ARGUMENT, lockstep_prefetch_state(comm, NULL, NULL));
  CHECK_STATUS(LOCKSTEP_ERR_INVALID_ARGUMENT, lockstep_unpublish_state(NULL, 1));
  CHECK_STATUS(LOCKSTEP_ERR_NOT_CONNECTED, lockstep_publish_state(comm, &args));
  CHECK_STATUS(LOCKSTEP_ERR_NOT_CONNECTED, lockstep_prefetch_state(comm, &args, NULL));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_connect_async(comm, coordinator, IN_TIME_MS, &connecting));
  args.strategy = LOCKSTEP_STATE_SEND_ONLY; /* ignored by this call */
  CHECK_STATUS(LOCKSTEP_OK, lockstep_prefetch_state(comm, &args, &result));
  args.strategy = LOCKSTEP_STATE_POPULAR;
  CHECK(result.revision == 4 && result.state_undefined == 0 && step == 4);
  CHECK(result.bytes_received == COUNT * sizeof *weights);
  CHECK(memcmp(weights, expected, COUNT * sizeof *weights) == 0);
  CHECK_STATUS(LOCKSTEP_ERR_PENDING, lockstep_test(connecting, NULL));
  CHECK(pthread_barrier_wait(&fetched) <= 0);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_wait(connecting, LOCKSTEP_FOREVER, NULL));
  lockstep_work_free(connecting);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_sync_state(comm, &args, &result));
  CHECK(result.revision == 5 && step == 5);
  CHECK(result.bytes_received == PIECE * sizeof *weights);
  expected[COUNT - 1] = -1;
  CHECK(memcmp(weights, expected, COUNT * sizeof *weights) == 0);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_leave(comm, IN_TIME_MS));
  lockstep_comm_destroy(comm);
  free(weights);
  free(expected);
  return NULL;
}

/* Members train meanwhile, and sync. */
static void step_until_peers_fetch(peer* self, uint32_t count) {
  lockstep_result result = LOCKSTEP_RESULT_INIT;
  lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
  uint32_t fetching = 0;
  float others = 1;
  args.send = &others;
  args.recv = &others;
  args.count = 1;
  args.type = LOCKSTEP_F32;
  args.op = LOCKSTEP_MAX;
  while (others != 0) {
    CHECK_STATUS(LOCKSTEP_OK, lockstep_fetching(self->comm, &fetching));
    others = fetching != count;
    CHECK_STATUS(LOCKSTEP_OK, lockstep_all_reduce(self->comm, &args, &result));
    CHECK(result.world_size == 2);
  }
}

/* The second member lends its tensors; the library copies those of the first. */
static void publishes(peer* self) {
  const int lends = self->number == 1;
  pthread_t thread;
  lockstep_result result = LOCKSTEP_RESULT_INIT;
  lockstep_state_tensor tensor;
  lockstep_state_value value;
  float* weights = malloc(COUNT * sizeof *weights);
  uint64_t step = 4;
  lockstep_sync_state_args args = state_of(&tensor, &value, weights, &step);
  CHECK(weights != NULL);
  fill(weights);
  args.revision = 4;
  args.timeout_ms = 0;
  args.stable = lends;
  args.strategy = lends ? LOCKSTEP_STATE_RECEIVE_ONLY : LOCKSTEP_STATE_SEND_ONLY; /* ignored by this call */
  CHECK_STATUS(LOCKSTEP_OK, lockstep_unpublish_state(self->comm, args.tag));
  if (!lends) CHECK(pthread_create(&thread, NULL, newcomer, (void*)(size_t)self->coordinator) == 0);
  step_until_peers_fetch(self, 1);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_publish_state(self->comm, &args));
  args.strategy = LOCKSTEP_STATE_POPULAR;
  if (!lends) weights[COUNT - 1] = -1;
  step_until_peers_fetch(self, 0);
  CHECK(pthread_barrier_wait(&fetched) <= 0);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_unpublish_state(self->comm, args.tag));
  weights[COUNT - 1] = -1;
  step = 5;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_wait_for_world(self->comm, 3, IN_TIME_MS, &result));
  args.revision = 5;
  args.timeout_ms = IN_TIME_MS;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_sync_state(self->comm, &args, &result));
  CHECK(result.revision == 5 && result.bytes_received == 0);
  if (!lends) CHECK(pthread_join(thread, NULL) == 0);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_leave(self->comm, IN_TIME_MS));
  free(weights);
}

int main(void) {
  CHECK(pthread_barrier_init(&fetched, NULL, 3) == 0);
  with_peers(2, NULL, publishes);
  CHECK(pthread_barrier_destroy(&fetched) == 0);
  return 0;
}

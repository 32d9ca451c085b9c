/* Three peers watch their state while they train. A byte of one state flips, and every result names the peer and the
 * tensor until a sync has made all states equal again. */
#include "peers.h"

enum { IN_TIME_MS = 30000, COUNT = 300000 }; /* floats: two pieces of 1 MiB */

typedef struct model {
  float* weights;
  float own[4];
  uint64_t step;
  lockstep_state_tensor tensors[2];
  lockstep_state_value value;
  lockstep_sync_state_args args;
} model;

static void describe(model* m) {
  static const lockstep_sync_state_args defaults = LOCKSTEP_SYNC_STATE_ARGS_INIT;
  memset(m->tensors, 0, sizeof m->tensors);
  m->tensors[0].name = "own";
  m->tensors[0].data = m->own;
  m->tensors[0].count = 4;
  m->tensors[0].type = LOCKSTEP_F32;
  m->tensors[0].may_differ = 1;
  m->tensors[1].name = "w";
  m->tensors[1].data = m->weights;
  m->tensors[1].count = COUNT;
  m->tensors[1].type = LOCKSTEP_F32;
  m->value.name = "step";
  m->value.value = &m->step;
  m->value.type = LOCKSTEP_UINT;
  m->args = defaults;
  m->args.tensors = m->tensors;
  m->args.tensors_count = 2;
  m->args.values = &m->value;
  m->args.values_count = 1;
  m->args.revision = m->step;
  m->args.tag = 9;
  m->args.timeout_ms = IN_TIME_MS;
}

/* The text that a training step reports about the states; gradients are not watched. */
static const char* step_of(peer* self) {
  static const lockstep_all_reduce_args defaults = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
  lockstep_result result = LOCKSTEP_RESULT_INIT;
  lockstep_all_reduce_args args = defaults;
  float gradients[100];
  size_t i;
  for (i = 0; i < 100; ++i) gradients[i] = 1;
  args.send = args.recv = gradients;
  args.count = 100;
  args.type = LOCKSTEP_F32;
  args.tag = 1;
  args.timeout_ms = IN_TIME_MS;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_all_reduce(self->comm, &args, &result));
  CHECK(gradients[0] == 3 && result.state_difference != NULL);
  return result.state_difference;
}

static void refuses(peer* self, model* m) {
  lockstep_all_reduce_args onto = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
  CHECK_STATUS(LOCKSTEP_ERR_INVALID_ARGUMENT, lockstep_watch_state(NULL, &m->args));
  m->tensors[1].name = "own";
  CHECK_STATUS(LOCKSTEP_ERR_INVALID_ARGUMENT, lockstep_watch_state(self->comm, &m->args));
  describe(m);
  m->args.blank = 1;
  CHECK_STATUS(LOCKSTEP_ERR_INVALID_ARGUMENT, lockstep_watch_state(self->comm, &m->args));
  describe(m);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_watch_state(self->comm, &m->args));
  onto.send = onto.recv = m->weights + COUNT - 1;
  onto.count = 1;
  onto.type = LOCKSTEP_F32;
  CHECK_STATUS(LOCKSTEP_ERR_INVALID_ARGUMENT, lockstep_all_reduce(self->comm, &onto, NULL));
  CHECK(strstr(lockstep_last_error(), "would write to the watched state") != NULL);
}

static void trains(peer* self) {
  model m;
  size_t i;
  const char* told;
  m.step = 4;
  m.weights = malloc(COUNT * sizeof *m.weights);
  CHECK(m.weights != NULL);
  for (i = 0; i < COUNT; ++i) m.weights[i] = (float)(i % 1000);
  for (i = 0; i < 4; ++i) m.own[i] = (float)self->number;
  describe(&m);
  CHECK(strcmp(step_of(self), "") == 0);
  refuses(self, &m);
  CHECK(strcmp(step_of(self), "") == 0);

  if (self->number == 2) ((unsigned char*)m.weights)[COUNT] ^= 1;
  told = step_of(self);
  CHECK(strncmp(told, "the state of peer 2 differs from that of peer ", 46) == 0);
  CHECK(strstr(told, " (2 of 3 watch the same) in tag 1: first in tensor 1 (w f32 [300000])") != NULL);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_sync_state(self->comm, &m.args, NULL));
  CHECK(strcmp(step_of(self), "") == 0);

  if (self->number == 1) m.step = 5;
  describe(&m);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_watch_state(self->comm, &m.args));
  CHECK(strstr(step_of(self), "first in value 0 (step uint)") != NULL);

  CHECK_STATUS(LOCKSTEP_OK, lockstep_watch_state(self->comm, NULL));
  CHECK(strcmp(step_of(self), "") == 0);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_leave(self->comm, IN_TIME_MS));
  free(m.weights);
}

int main(void) {
  with_peers(3, NULL, trains);
  return 0;
}

/* publish_state blocks until the state is published or refused, and no longer. */
#include "peers.h"

enum { IN_TIME_MS = 30000, MOST = 16 }; /* states that one peer publishes at once */

static lockstep_sync_state_args state_of(lockstep_state_tensor* tensor, float* weight, uint64_t tag) {
  const lockstep_state_tensor one = {"weight", weight, 1, LOCKSTEP_F32, 0, 0};
  lockstep_sync_state_args args = LOCKSTEP_SYNC_STATE_ARGS_INIT;
  *tensor = one;
  args.tensors = tensor;
  args.tensors_count = 1;
  args.revision = 1;
  args.tag = tag;
  return args;
}

static void publishes_too_many(peer* self) {
  lockstep_state_tensor tensor;
  float weight = 1;
  uint64_t tag;
  lockstep_sync_state_args args;
  for (tag = 0; tag < MOST; ++tag) {
    args = state_of(&tensor, &weight, tag);
    CHECK_STATUS(LOCKSTEP_OK, lockstep_publish_state(self->comm, &args));
  }
  args = state_of(&tensor, &weight, MOST);
  CHECK_STATUS(LOCKSTEP_ERR_TOO_MANY_IN_FLIGHT, lockstep_publish_state(self->comm, &args));
  check_text(__FILE__, __LINE__, "lockstep_publish_state", lockstep_last_error(), "16 states are published or fetched");
  CHECK_STATUS(LOCKSTEP_OK, lockstep_unpublish_state(self->comm, 3));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_publish_state(self->comm, &args));
}

static void publishes_after_it_has_left(peer* self) {
  lockstep_state_tensor tensor;
  float weight = 1;
  lockstep_sync_state_args args = state_of(&tensor, &weight, 0);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_leave(self->comm, IN_TIME_MS));
  CHECK_STATUS(LOCKSTEP_ERR_NOT_CONNECTED, lockstep_publish_state(self->comm, &args));
}

static void body(peer* self) {
  publishes_too_many(self);
  publishes_after_it_has_left(self);
}

int main(void) {
  with_peers(1, NULL, body);
  return 0;
}

/* Peers that train a model together. A newcomer takes over the model and the step of the others.
 *
 *   lockstep coordinator --listen 127.0.0.1:4000 &
 *   ./sync_state 127.0.0.1:4000 2 1000 & ./sync_state 127.0.0.1:4000 2 1000 &
 *   ./sync_state 127.0.0.1:4000 2 100 */
#include <lockstep.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1 << 20 };
static float model[COUNT];
static float gradient[COUNT];

static void check(lockstep_status status) {
  if (status == LOCKSTEP_OK) return;
  fprintf(stderr, "%s: %s\n", lockstep_status_string(status), lockstep_last_error());
  exit(1);
}

/* Afterwards all members hold one model and one step; a newcomer has taken them over. */
static void share(lockstep_comm* comm, uint64_t* step, lockstep_result* result) {
  lockstep_state_tensor tensor = {"model", model, COUNT, LOCKSTEP_F32, 0, 0};
  lockstep_state_value value = {"step", NULL, LOCKSTEP_UINT};
  lockstep_sync_state_args args = LOCKSTEP_SYNC_STATE_ARGS_INIT;

  value.value = step;
  args.tensors = &tensor;
  args.tensors_count = 1;
  args.values = &value;
  args.values_count = 1;
  args.revision = *step;
  check(lockstep_sync_state(comm, &args, result));
}

int main(int argc, char** argv) {
  lockstep_comm_options options = LOCKSTEP_COMM_OPTIONS_INIT;
  lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
  lockstep_result result = LOCKSTEP_RESULT_INIT;
  lockstep_comm* comm = NULL;
  uint64_t step = 0; /* of the model */
  int left, i;

  if (argc != 4) {
    fprintf(stderr, "usage: %s <run token or host:port> <peers to begin with> <steps to take part in>\n", argv[0]);
    return 2;
  }
  options.founders = (uint32_t)atoi(argv[2]);
  check(lockstep_comm_create(&options, &comm));
  check(lockstep_connect(comm, argv[1], LOCKSTEP_FOREVER));

  args.send = gradient;
  args.recv = gradient;
  args.count = COUNT;
  args.type = LOCKSTEP_F32;
  args.op = LOCKSTEP_AVG;
  for (left = atoi(argv[3]); left > 0; --left) {
    share(comm, &step, &result);
    if (result.bytes_received > 0) {
      printf("took over the state of step %llu: %llu bytes\n", (unsigned long long)step,
             (unsigned long long)result.bytes_received);
    }
    printf("step %llu: state %016llx%016llx\n", (unsigned long long)step, (unsigned long long)result.state_root[0],
           (unsigned long long)result.state_root[1]);
    fflush(stdout);

    for (i = 0; i < COUNT; ++i) gradient[i] = 1 - model[i]; /* a training step would be here */
    check(lockstep_all_reduce(comm, &args, NULL));
    for (i = 0; i < COUNT; ++i) model[i] += gradient[i] / 8;
    ++step;
    check(lockstep_admit(comm, LOCKSTEP_FOREVER, NULL)); /* newcomers join here, and sync next, as the members do */
  }
  check(lockstep_leave(comm, LOCKSTEP_FOREVER));
  lockstep_comm_destroy(comm);
  return 0;
}

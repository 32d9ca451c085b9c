/* Peers that add up floats, a hundred times. Start some, start more, kill any of them: the others continue.
 *
 *   lockstep coordinator --listen 127.0.0.1:4000 &
 *   ./all_reduce 127.0.0.1:4000 2 & ./all_reduce 127.0.0.1:4000 2
 *
 * Between machines: `lockstep coordinator` prints a run token; ./all_reduce lks1_... 2 on each. */
#include <lockstep.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1 << 18, STEPS = 100 };
static float gradient[COUNT];

static void check(lockstep_status status) {
  if (status == LOCKSTEP_OK) return;
  fprintf(stderr, "%s: %s\n", lockstep_status_string(status), lockstep_last_error());
  exit(1);
}

int main(int argc, char** argv) {
  lockstep_comm_options options = LOCKSTEP_COMM_OPTIONS_INIT;
  lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
  lockstep_result result = LOCKSTEP_RESULT_INIT;
  lockstep_comm* comm = NULL;
  int step, i;

  if (argc != 3) {
    fprintf(stderr, "usage: %s <run token or host:port> <peers to begin with>\n", argv[0]);
    return 2;
  }
  options.founders = (uint32_t)atoi(argv[2]); /* number of waiting peers that found an empty run */
  check(lockstep_comm_create(&options, &comm));
  check(lockstep_connect(comm, argv[1], LOCKSTEP_FOREVER));

  args.send = gradient; /* in place */
  args.recv = gradient;
  args.count = COUNT;
  args.type = LOCKSTEP_F32;
  args.op = LOCKSTEP_SUM;
  for (step = 0; step < STEPS; ++step) {
    for (i = 0; i < COUNT; ++i) gradient[i] = 1; /* a training step would be here */
    check(lockstep_all_reduce(comm, &args, &result));
    printf("view %llu: %u peers, sum %g, hash %016llx\n", (unsigned long long)result.view, (unsigned)result.world_size,
           gradient[COUNT - 1], (unsigned long long)result.hash);
    fflush(stdout);
    check(lockstep_admit(comm, LOCKSTEP_FOREVER, NULL)); /* newcomers join here */
  }
  check(lockstep_leave(comm, LOCKSTEP_FOREVER)); /* the others continue without an error */
  lockstep_comm_destroy(comm);
  return 0;
}

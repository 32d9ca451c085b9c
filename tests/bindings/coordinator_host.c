/* A coordinator for tests of processes: prints where it listens, and lives until its standard input ends. */
#include "check.h"

int main(void) {
  lockstep_coordinator* coordinator = NULL;
  char address[64];
  CHECK_STATUS(LOCKSTEP_OK, lockstep_coordinator_start(NULL, &coordinator));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_coordinator_address(coordinator, address, sizeof address));
  puts(address);
  CHECK(fflush(stdout) == 0);
  while (getchar() != EOF) {
  }
  lockstep_coordinator_stop(coordinator);
  return 0;
}

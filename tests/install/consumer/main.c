/* Prints the version of the library that it was linked with. */
#include <lockstep.h>
#include <stdio.h>

int main(void) {
  puts(lockstep_version_string());
  return 0;
}

// The simulator alone, without the rest of the `lockstep` command: for comparing builds.
#include "sim/cli/cli.h"

int main(int argc, char** argv) { return lockstep::sim::sim_main(argc, argv); }

// `lockstep sim run|replay|det|mutants`: the simulator on the command line. Knows processes and files; sim itself knows neither.
#pragma once

namespace lockstep::sim {

// Exit codes: 0 pass, 2 usage, 10 safety, 11 liveness, 12 assertion or crash, 13 nondeterminism.
int sim_main(int argc, char** argv);

}  // namespace lockstep::sim

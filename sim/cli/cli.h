// `lockstep sim …`: the simulator on the command line. Knows processes and files; sim itself knows neither.
#pragma once

namespace lockstep::sim {

int sim_main(int argc, char** argv);  // gives an exit code of sim/cli/exit_code.h

}  // namespace lockstep::sim

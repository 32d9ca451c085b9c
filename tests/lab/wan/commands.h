// The commands of `lockstep_wan`.
#pragma once

#include "bindings/cli/command.h"

namespace lockstep::wan {

using cli::Run;
Run add_compare(CLI::App& app);
Run add_enter(CLI::App& app);
Run add_run(CLI::App& app);
Run add_measure(CLI::App& app);
Run add_show(CLI::App& app);
Run add_sync(CLI::App& app);
Run add_yardsticks(CLI::App& app);

}  // namespace lockstep::wan

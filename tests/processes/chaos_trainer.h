// A peer of chaos.cc: trains a small state through all faults, and reports to its parent in lines: J: became a member;
// P: phase; S: step, hashes, view, world size, retries; R: lost the run, and why; E: an error; D: all steps are done;
// L: a line of the log.
#pragma once

#include <cstdint>
#include <string>

#include "tests/processes/chaos_settings.h"
#include "tests/processes/shared_journal.h"
#include "tests/support/process.h"

namespace lockstep::testing {

// Runs until all steps are done (returns 0) or an error occurs (1). `founders`: number of founders of the run;
// kNeverFounds for a newcomer.
int train(Parent& parent, const ChaosSettings& settings, const std::string& address, const std::string& name,
          std::uint32_t founders, const SharedJournal& journal);

}  // namespace lockstep::testing

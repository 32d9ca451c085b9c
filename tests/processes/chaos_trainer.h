// A peer of chaos.cc: trains a small state through whatever happens to it, and tells its parent, a line each:
// J: it is a member; P phase; S step, hashes, view, world size, retries; R: it has lost the run, and why; E: what is
// wrong; D: all steps are done; L: a line of the log.
#pragma once

#include <cstdint>
#include <string>

#include "tests/processes/chaos_settings.h"
#include "tests/processes/shared_journal.h"
#include "tests/support/process.h"

namespace lockstep::testing {

// Lives until all steps are done (0) or something is wrong (1). `founders`: how many found the run; kNeverFounds: a
// newcomer.
int train(Parent& parent, const ChaosSettings& settings, const std::string& address, const std::string& name,
          std::uint32_t founders, const SharedJournal& journal);

}  // namespace lockstep::testing

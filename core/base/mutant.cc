// Compiled with -DLOCKSTEP_MUTANTS=ON only. `planted` is the only global variable of core; a build that has it is never
// released.
#include "core/base/mutant.h"

namespace lockstep {
namespace {

Mutant planted = Mutant::kNone;

}  // namespace

bool mutant(Mutant which) { return which == planted; }
void plant(Mutant which) { planted = which; }

}  // namespace lockstep

// Only in builds with -DLOCKSTEP_MUTANTS=ON: the one global of core, and the reason why such a build never ships.
#include "core/base/mutant.h"

namespace lockstep {
namespace {

Mutant planted = Mutant::kNone;

}  // namespace

bool mutant(Mutant which) { return which == planted; }
void plant(Mutant which) { planted = which; }

}  // namespace lockstep

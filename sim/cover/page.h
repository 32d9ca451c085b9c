// The matrices for people.
#pragma once

#include <string>

#include "sim/cover/judge.h"

namespace lockstep::sim::cover {

// A table for each matrix with the number of runs that hit each cell. '.': an open cell; '?': an unreached cell; '-':
// an impossible cell. Rows and columns without possible cells are left out and named below.
std::string tables_of(const Tally& tally, const Reasons& reasons);
// "cells: 412 hit, 37 impossible, 5 unreached, 0 open", and the rarest.
std::string summary_of(const Tally& tally, const Verdict& verdict);
// A line for each impossible or unreached cell that a run hit.
std::string surprises_of(const Tally& tally, const Reasons& reasons, const Verdict& verdict);
// These, behind a line for each open cell.
std::string complaints_of(const Tally& tally, const Reasons& reasons, const Verdict& verdict);

}  // namespace lockstep::sim::cover

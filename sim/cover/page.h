// The matrices for people.
#pragma once

#include <string>

#include "sim/cover/judge.h"

namespace lockstep::sim::cover {

// A table for each matrix: in how many runs a cell was hit; '.': in none, and it should be; '?': in none,
// and nobody knows how; '-': it cannot be. Rows and columns of which nothing can be hit are named below, and left out.
std::string tables_of(const Tally& tally, const Reasons& reasons);
// "cells: 412 hit, 37 impossible, 5 unreached, 0 open", and the rarest.
std::string summary_of(const Tally& tally, const Verdict& verdict);
// A line for each wrong reason, and for what is unreached no more.
std::string surprises_of(const Tally& tally, const Reasons& reasons, const Verdict& verdict);
// These, behind a line for each open cell.
std::string complaints_of(const Tally& tally, const Reasons& reasons, const Verdict& verdict);

}  // namespace lockstep::sim::cover

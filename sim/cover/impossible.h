// The cells that no run can hit, each with its reason in one line. A reason whose cell was hit is wrong, and a cell
// without a hit or a reason is a gap: judge.h tells of both.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "sim/cover/cells.h"

namespace lockstep::sim::cover {

// For all cells of these rows and columns: names with spaces between; "*": all; "!" and names: all but these.
struct Reason {
  Matrix matrix;
  std::string_view rows;
  std::string_view columns;
  std::string_view why;
};
std::span<const Reason> impossible();
// Cells that seem possible but that no run reaches yet; `why` tells what a run would need. Every summary lists them as
// a debt.
std::span<const Reason> unreached();

// By cell.
struct Reasons {
  std::vector<std::string_view> impossible;  // empty: it is possible
  std::vector<std::string_view> unreached;   // empty: runs get there
};
// An error: a name that is none of the matrix', or a cell that gets a second reason.
Result<Reasons> reasons_of(std::span<const Reason> impossible, std::span<const Reason> unreached);

}  // namespace lockstep::sim::cover

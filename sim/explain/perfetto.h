// A history in the trace event format of Chrome, which https://ui.perfetto.dev opens: a process for each peer, slices
// for calls, arrows for messages, instants for faults and views, counters for what a machine holds.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "sim/explain/history.h"

namespace lockstep::sim {

nlohmann::json perfetto_of(const History& history);

}  // namespace lockstep::sim

// S4, hands off: no buffer is read before its call or touched after its completion. Three checks: no loan and no kernel
// names the memory of a completed call; Memory detects every touch of memory that is not lent; and the bits stay as
// they were at completion until the application takes the buffer again.
#pragma once

#include "sim/checkers/complaint.h"
#include "sim/engine/memory.h"
#include "sim/workload/call.h"
#include "sim/workload/text.h"

namespace lockstep::sim {

// At completion. `stream`: one that still borrows from a buffer of the call; `job`: a kernel that still works on one.
inline Complaint check_loans_are_back(const Call& call, StreamId stream, JobToken job) {
  if (stream == StreamId{} && job == JobToken{}) return {};
  const std::string what = text_of(call.request) + " of " + text_of(call.peer) + " is told to be complete (" +
                           text_of(*call.outcome) + ") while ";
  if (stream != StreamId{}) return what + "stream " + std::to_string(stream.value) + " still borrows its memory";
  return what + "kernel job " + std::to_string(job.value) + " still works on its memory";
}

// Some time after completion.
inline Complaint check_untouched(const Call& call, const Memory& memory) {
  for (std::size_t i = 0; i < call.buffers.size(); ++i) {
    if (memory.fingerprint(call.buffers[i]) != call.prints.at_end[i]) {
      return "buffer " + std::to_string(call.buffers[i].value) + " of " + text_of(call.request) + " of " +
             text_of(call.peer) + " was written after the call was completed";
    }
  }
  return {};
}

inline Complaint check_trespass(const Memory& memory) {
  if (memory.trespass().empty()) return {};
  return memory.trespass();
}

}  // namespace lockstep::sim

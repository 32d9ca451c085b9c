#include "transport/driver.h"

#include <cstring>
#include <utility>

#include "transport/launch_check.h"

namespace lockstep::transport {

void end_call(Call& call, peer::Outcome outcome, Memory& memory) {
  if (outcome.values.size() == call.loans.values.size() && outcome.state_defined) {
    for (std::size_t i = 0; i < outcome.values.size(); ++i) {
      std::memcpy(call.loans.values[i], &outcome.values[i], sizeof outcome.values[i]);
    }
  }
  if (outcome.status == Status::kOk) give_results(call.loans);
  give_back(call.loans, memory);
  call.complete(std::move(outcome));
}

}  // namespace lockstep::transport

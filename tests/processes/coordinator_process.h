// A coordinator as a process of its own.
#pragma once

#include <cstdint>
#include <string>

#include "core/coordinator/coordinator.h"
#include "tests/processes/shared_journal.h"
#include "tests/support/process.h"

namespace lockstep::testing {

enum class Streams : std::uint8_t { kPlain, kTls };
enum class DialsBack : std::uint8_t { kYes, kNo };  // rule 70

class CoordinatorProcess {
 public:
  // With `log`, the caller must read the process's lines.
  explicit CoordinatorProcess(const coordinator::CoordinatorOptions& machine = {}, bool log = false,
                              DialsBack dials_back = DialsBack::kYes);
  // Writes its log to memory that outlives the process.
  CoordinatorProcess(const coordinator::CoordinatorOptions& machine, const SharedJournal& log,
                     Streams streams = Streams::kPlain);

  Process process;      // with `log`: "L " and a line of its log
  std::string address;  // "127.0.0.1:port"; empty if it did not start
  std::string connect;  // the text that peers connect with: a run token, or the address

 private:
  void hear_address();
};

}  // namespace lockstep::testing

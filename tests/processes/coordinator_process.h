// A coordinator as a process of its own.
#pragma once

#include <string>

#include "tests/support/process.h"
#include "transport/coordinator_server.h"

namespace lockstep::testing {

class CoordinatorProcess {
 public:
  explicit CoordinatorProcess(const coordinator::Options& machine = {})
      : process([machine](Parent& parent) {
          transport::CoordinatorServer::Options options;
          options.listen = "127.0.0.1:0";
          options.machine = machine;
          options.log = [&](std::string_view line) { parent.say("L " + std::string(line)); };
          auto server = transport::CoordinatorServer::start(std::move(options));
          if (!server.ok()) {
            parent.say("E " + server.error().text);
            return 1;
          }
          parent.say("A " + (*server)->address().text());
          while (parent.hear()) {
          }
          return 0;
        }) {
    while (const auto line = process.hear(seconds(20))) {
      if (line->starts_with("A ")) address = line->substr(2);
      if (!address.empty()) return;
    }
  }

  Process process;
  std::string address;  // empty: it did not start
};

}  // namespace lockstep::testing

#include "tests/processes/coordinator_process.h"

#include "transport/coordinator_server.h"

namespace lockstep::testing {
namespace {

int serve(Parent& parent, const coordinator::Options& machine, bool log) {
  transport::CoordinatorServer::Options options;
  options.listen = "127.0.0.1:0";
  options.machine = machine;
  if (log) options.log = [&](std::string_view line) { parent.say("L " + std::string(line)); };
  auto server = transport::CoordinatorServer::start(std::move(options));
  if (!server.ok()) {
    parent.say("E " + server.error().text);
    return 1;
  }
  parent.say("A " + (*server)->address().text());
  while (parent.hear()) {
  }
  return 0;
}

}  // namespace

CoordinatorProcess::CoordinatorProcess(const coordinator::Options& machine, bool log)
    : process([machine, log](Parent& parent) { return serve(parent, machine, log); }) {
  while (const auto line = process.hear(seconds(20))) {
    if (line->starts_with("A ")) address = line->substr(2);
    if (!address.empty()) return;
  }
}

}  // namespace lockstep::testing

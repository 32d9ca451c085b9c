#include "tests/processes/coordinator_process.h"

#include <string>
#include <string_view>
#include <utility>

#include "transport/coordinator_server.h"

namespace lockstep::testing {
namespace {

int serve(Parent& parent, const coordinator::Options& machine, transport::Log log) {
  transport::CoordinatorServer::Options options;
  options.listen = "127.0.0.1:0";
  options.machine = machine;
  options.log = std::move(log);
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
    : process([machine, log](Parent& parent) {
        transport::Log say;
        if (log) say = [&](std::string_view line) { parent.say("L " + std::string(line)); };
        return serve(parent, machine, std::move(say));
      }) {
  hear_address();
}

CoordinatorProcess::CoordinatorProcess(const coordinator::Options& machine, const SharedJournal& log)
    : process([machine, &log](Parent& parent) {
        return serve(parent, machine, [&log](std::string_view line) { log.write(line); });
      }) {
  hear_address();
}

void CoordinatorProcess::hear_address() {
  while (const auto line = process.hear(seconds(20))) {
    if (line->starts_with("A ")) address = line->substr(2);
    if (!address.empty()) return;
  }
}

}  // namespace lockstep::testing

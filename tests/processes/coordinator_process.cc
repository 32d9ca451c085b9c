#include "tests/processes/coordinator_process.h"

#include <string>
#include <string_view>
#include <utility>

#include "transport/coordinator_server.h"

namespace lockstep::testing {
namespace {

int serve(Parent& parent, const coordinator::CoordinatorOptions& machine, transport::Log log, Streams streams,
          DialsBack dials_back) {
  transport::CoordinatorServer::Options options;
  options.listen = streams == Streams::kTls ? ":0" : "127.0.0.1:0";
  options.access.advertised = {"127.0.0.1"};
  options.machine = machine;
  options.dial_back = dials_back == DialsBack::kYes;
  options.log = std::move(log);
  auto server = transport::CoordinatorServer::start(std::move(options));
  if (!server.ok()) {
    parent.say("E " + server.error().text);
    return 1;
  }
  const std::string port = std::to_string((*server)->address().port);
  parent.say("A 127.0.0.1:" + port + " " + (streams == Streams::kTls ? (*server)->token() : "127.0.0.1:" + port));
  while (parent.hear()) {
  }
  return 0;
}

}  // namespace

CoordinatorProcess::CoordinatorProcess(const coordinator::CoordinatorOptions& machine, bool log, DialsBack dials_back)
    : process([machine, log, dials_back](Parent& parent) {
        transport::Log say;
        if (log) say = [&](std::string_view line) { parent.say("L " + std::string(line)); };
        return serve(parent, machine, std::move(say), Streams::kPlain, dials_back);
      }) {
  hear_address();
}

CoordinatorProcess::CoordinatorProcess(const coordinator::CoordinatorOptions& machine, const SharedJournal& log,
                                       Streams streams)
    : process([machine, &log, streams](Parent& parent) {
        return serve(
            parent, machine, [&log](std::string_view line) { log.write(line); }, streams, DialsBack::kYes);
      }) {
  hear_address();
}

void CoordinatorProcess::hear_address() {
  while (const auto line = process.hear(seconds(20))) {
    if (!line->starts_with("A ")) continue;
    const std::size_t space = line->find(' ', 2);
    address = line->substr(2, space - 2);
    connect = line->substr(space + 1);
    return;
  }
}

}  // namespace lockstep::testing

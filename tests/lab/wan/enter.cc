// `lockstep_wan enter`: the remote shell by which `mpirun` starts its daemon on the host of a box. Hidden: `yardsticks`
// alone tells it which hosts there are.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "tests/lab/wan/commands.h"
#include "tests/lab/wan/failure.h"
#include "tests/lab/wan/yardstick.h"

namespace lockstep::wan {
namespace {

std::string network_of(const std::string& host) {
  const char* const networks = std::getenv(kNetworksVariable);
  std::istringstream words(networks == nullptr ? "" : networks);
  for (std::string word; std::getline(words, word, ',');) {
    if (word.starts_with(host + "=")) return word.substr(host.size() + 1);
  }
  throw Failure(kExitUsage, fmt::format("{} knows no host {}", kNetworksVariable, host));
}

[[noreturn]] void fail(const std::string& what) { throw Failure(kExitFailed, what + ": " + std::strerror(errno)); }

// Runs the words as `ssh` does: joined, by the shell of the host.
int enter(const std::string& host, const std::vector<std::string>& words) {
  const std::string network = network_of(host);
  const int file = ::open(network.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 || ::setns(file, CLONE_NEWNET) != 0) fail("cannot enter " + network);
  // Each host has a name of its own: Open MPI names a folder of each host by it.
  if (::unshare(CLONE_NEWUTS) != 0 || ::sethostname(host.data(), host.size()) != 0) fail("cannot name the host");
  const std::string line = fmt::to_string(fmt::join(words, " "));
  ::execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
  fail("cannot run sh");
}

}  // namespace

Run add_enter(CLI::App& app) {
  CLI::App* command = app.add_subcommand("enter", "runs a command on a host of the box");
  command->group("");
  command->prefix_command();
  auto host = std::make_shared<std::string>();
  command->add_option("host", *host, "its address")->required();
  return [command, host] { return enter(*host, command->remaining()); };
}

}  // namespace lockstep::wan

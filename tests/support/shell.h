// A command run by a shell: its output and exit code.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <string>

namespace lockstep::testing {

struct Ran {
  int code;          // a signal is a negative number
  std::string text;  // stdout, and stderr if requested
};

// `redirect`: redirection of stderr, such as "2>&1". stdin is empty.
inline Ran run_in_shell(const std::string& command, const std::string& redirect = "2>&1") {
  FILE* const pipe = ::popen((command + " " + redirect + " < /dev/null").c_str(), "r");
  std::string text;
  std::array<char, 4096> bytes{};
  for (std::size_t n = 0; (n = std::fread(bytes.data(), 1, bytes.size(), pipe)) > 0;) text.append(bytes.data(), n);
  const int status = ::pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), text};
}

}  // namespace lockstep::testing

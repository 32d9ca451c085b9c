// A command as a shell runs it: what it prints, and what it exits with.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <string>

namespace lockstep::testing {

struct Ran {
  int code;          // or a signal's number, negative
  std::string text;  // stdout, and stderr where asked for
};

// `redirect`: of stderr, such as "2>&1". Nothing is on stdin.
inline Ran run_in_shell(const std::string& command, const std::string& redirect = "2>&1") {
  FILE* const pipe = ::popen((command + " " + redirect + " < /dev/null").c_str(), "r");
  std::string text;
  std::array<char, 4096> bytes{};
  for (std::size_t n = 0; (n = std::fread(bytes.data(), 1, bytes.size(), pipe)) > 0;) text.append(bytes.data(), n);
  const int status = ::pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), text};
}

}  // namespace lockstep::testing

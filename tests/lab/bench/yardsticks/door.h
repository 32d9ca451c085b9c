// Plain TCP streams between processes of this machine, for yardsticks.
#pragma once

#include <netinet/in.h>

namespace lockstep::bench {

// Throws what errno says.
[[noreturn]] void fail(const char* what);

// Where a process is reached; open before there are processes, and until the program ends.
struct Door {
  Door();
  int socket = -1;
  in_port_t port = 0;
};

// A stream without Nagle's delay, to be closed by the caller.
int connect_to(const Door& door);
int accept_at(const Door& door);

}  // namespace lockstep::bench

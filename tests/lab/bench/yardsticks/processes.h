// A number of processes of one program, for yardsticks that nobody else starts; and the place where they meet, which is
// memory and no network, so that a meeting costs nothing that is measured.
#pragma once

#include <functional>
#include <string>

namespace lockstep::bench {

class MeetingPlace {
 public:
  explicit MeetingPlace(int processes);  // at most kMostProcesses
  MeetingPlace(const MeetingPlace&) = delete;
  MeetingPlace& operator=(const MeetingPlace&) = delete;
  ~MeetingPlace();

  // Blocks until all processes are here; the largest of what they bring.
  double meet(int rank, double mine);

  static constexpr int kMostProcesses = 64;

 private:
  struct Shared;
  Shared* shared_;
};

// Moves this process, which has one thread, into the network namespace of this file. Throws.
void enter_network(const std::string& file);

// Forks; each child runs `body` with its rank, and ends; what it throws is said on stderr. No child outlives this
// process, and when one fails the others are killed. Gives the exit code: 0 when all have done their work.
int run_processes(int processes, const std::function<void(int rank)>& body);

}  // namespace lockstep::bench

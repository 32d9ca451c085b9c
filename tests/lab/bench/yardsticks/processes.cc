#include "tests/lab/bench/yardsticks/processes.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>
#include <vector>

namespace lockstep::bench {

struct MeetingPlace::Shared {
  pthread_barrier_t barrier;
  int processes;
  std::array<double, kMostProcesses> brought;
};

MeetingPlace::MeetingPlace(int processes) {
  void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  shared_ = new (memory) Shared{};
  shared_->processes = processes;
  pthread_barrierattr_t attributes;
  ::pthread_barrierattr_init(&attributes);
  ::pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  ::pthread_barrier_init(&shared_->barrier, &attributes, static_cast<unsigned>(processes));
  ::pthread_barrierattr_destroy(&attributes);
}

MeetingPlace::~MeetingPlace() { ::munmap(shared_, sizeof(Shared)); }

double MeetingPlace::meet(int rank, double mine) {
  shared_->brought.at(static_cast<std::size_t>(rank)) = mine;
  ::pthread_barrier_wait(&shared_->barrier);
  const double most = *std::max_element(shared_->brought.begin(), shared_->brought.begin() + shared_->processes);
  ::pthread_barrier_wait(&shared_->barrier);  // nobody brings the next before all have read this one
  return most;
}

void enter_network(const std::string& file) {
  const int space = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  const bool entered = space >= 0 && ::setns(space, CLONE_NEWNET) == 0;
  const int why = errno;
  if (space >= 0) ::close(space);
  if (!entered) throw std::system_error(why, std::generic_category(), "cannot enter the network of " + file);
}

int run_processes(int processes, const std::function<void(int rank)>& body) {
  const pid_t parent = ::getpid();
  std::vector<pid_t> children;
  for (int rank = 0; rank < processes; ++rank) {
    const pid_t pid = ::fork();
    if (pid < 0) throw std::runtime_error("cannot start a process");
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);  // it died before
      int code = 0;
      try {
        body(rank);
      } catch (const std::exception& error) {
        fmt::print(stderr, "process {}: {}\n", rank, error.what());
        code = 1;
      }
      std::fflush(nullptr);
      ::_exit(code);
    }
    children.push_back(pid);
  }
  int code = 0;
  int status = 0;
  for (pid_t ended = ::wait(&status); ended > 0; ended = ::wait(&status)) {
    std::erase(children, ended);
    if (status == 0) continue;
    code = 1;
    for (const pid_t child : children) ::kill(child, SIGKILL);  // they would wait for it
  }
  return code;
}

}  // namespace lockstep::bench

// How every yardstick is measured, which is how `lockstep bench` measures: all-reduce of f32, sum; a call to check the
// result, two to warm up, then about half a second of calls between two moments at which all have met; the time is that
// of the slowest process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep::bench {

// Processes that all-reduce with each other, as one of them sees it.
class Group {
 public:
  Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  virtual ~Group() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  // What the following calls are about. What only works in place copies its input to where the result will be.
  virtual void prepare(std::span<const float> send, std::span<float> recv) = 0;
  virtual void all_reduce() = 0;
  // All meet; the largest of what they bring.
  virtual double slowest(double mine) = 0;
};

// Who starts the processes of a group; kItselfOnHosts: the program, each process on a host of its own if asked.
enum class Starter { kItself, kItselfOnHosts, kMpirun };

// A host of a network of this machine's namespaces (tests/lab/wan).
struct Host {
  std::string address;
  std::string network;  // file of its network namespace
};

struct Work {
  std::vector<std::uint64_t> sizes;  // of tensors, in bytes
  int calls = 0;                     // to measure; 0: about half a second of them
  int warmup = 2;                    // calls between the checked call and the measured calls
  bool each = false;                 // print the time of each call, too
  int processes = 0;                 // to be started; for those that start them
  std::string algorithm;             // only this one, of those that have several
  std::vector<Host> hosts;           // of the processes, by rank; empty: all use loopback
};

// What the words of a command line ask for. Says what is wrong with them, or helps, and ends the program.
Work work_of(int argc, char** argv, Starter starter, const std::vector<std::string>& algorithms = {});

// Rank 0 prints a line per size: bytes, microseconds, bus bandwidth in GB/s, wrong elements of the worst process,
// `algorithm`. With `each`, a second line follows: "calls", and the microseconds of each call on the slowest process.
void measure(Group& group, const Work& work, const std::string& algorithm = {});

}  // namespace lockstep::bench

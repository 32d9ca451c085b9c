// What happens to the peers of a swarm, but for their programs: how many there are, the network between them, and every
// fault with its moment. A value: copy it, take faults away, write it to a file and read it back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"

namespace lockstep::sim {
struct Plan;
}  // namespace lockstep::sim

namespace lockstep::swarm {

// Random faults: how many of each kind, drawn from the seed within the first `until`. One founder, which the seed
// draws, is spared by all that ends a program, so that the run outlives them.
struct Churn {
  std::uint32_t crashes = 0;   // the program dies, its streams are reset; starts again after 0.5 to 5 s
  std::uint32_t vanishes = 0;  // the machine dies in silence: others notice by their time-outs; likewise
  std::uint32_t leaves = 0;    // the program leaves politely and ends; likewise
  std::uint32_t joins = 0;     // hosts that are no founders, one for each, start
  std::uint32_t stalls = 0;    // program and driver stand still for up to 3 s
  std::uint32_t cuts = 0;      // nothing gets through between two hosts, one way or both, for up to 3 s
  std::uint32_t resets = 0;    // streams between two hosts are reset
  Duration until = seconds(20);
};

class Conditions {
 public:
  // A scenario as `lockstep sim` reads it (sim/scenario.h): peers, net, regions, [[link]], [[line]], [[do]], heartbeat,
  // faults_end ..., expanded for the seed. Without a heartbeat it is the library's, 500 ms, and so are all other times,
  // unless a communicator is opened with others. What it says of the simulator's own program (work, share_state, ...)
  // is refused; so are faults that only such a program can have (timeout, mismatch, skip, drift). Errors
  // (kInvalidArgument) name line and column, and what was meant.
  static Result<Conditions> from_scenario(std::string_view toml, std::uint64_t seed);
  // What to_text() has written.
  static Result<Conditions> from_text(std::string_view toml);

  Conditions(const Conditions& other);
  Conditions& operator=(const Conditions& other);
  Conditions(Conditions&&) noexcept;
  Conditions& operator=(Conditions&&) noexcept;
  ~Conditions();

  // Adds drawn faults behind those that are there. Crashes, leaves ... of more hosts than there are: kInvalidArgument.
  std::optional<Error> add(const Churn& churn);

  [[nodiscard]] std::uint64_t seed() const;
  [[nodiscard]] std::uint32_t founders() const;  // programs that start at once
  [[nodiscard]] std::uint32_t hosts() const;     // founders, and those that may join

  // The faults, in the order of the file: "at 12 s: crash c, back after 2 s".
  [[nodiscard]] std::size_t faults() const;
  [[nodiscard]] std::string fault(std::size_t index) const;
  // The same with these faults only. Faults are independent: taking one away does not change how the others are drawn.
  [[nodiscard]] Conditions with_faults(std::span<const std::size_t> kept) const;

  [[nodiscard]] std::string to_text() const;
  [[nodiscard]] const sim::Plan& plan() const { return *plan_; }

 private:
  explicit Conditions(const sim::Plan& plan);
  std::unique_ptr<sim::Plan> plan_;
};

// "a" .. "z", then "h27" ...; 0: "coordinator".
std::string host_name(std::uint32_t host);

}  // namespace lockstep::swarm

// The environment of a swarm's programs: the number of peers, the network between them, and every fault with its time.
// A value: copy it, remove faults, write it to a file and read it back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
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

// Random faults: the number of each kind, drawn from the seed within the first `until`. The faults that end a program
// never affect one drawn founder, so that the run survives.
struct Churn {
  std::uint32_t crashes = 0;   // the program dies and its streams are reset; it restarts after 0.5 to 5 s
  std::uint32_t vanishes = 0;  // the machine dies silently, and other peers notice by timeout; restarts likewise
  std::uint32_t leaves = 0;    // the program leaves in an orderly way and ends; restarts likewise
  std::uint32_t joins = 0;     // additional hosts that start, beyond the founders
  std::uint32_t stalls = 0;    // program and driver pause for up to 3 s
  std::uint32_t cuts = 0;      // no bytes pass between two hosts, in one or both directions, for up to 3 s
  std::uint32_t resets = 0;    // streams between two hosts are reset
  Duration until = seconds(20);
};

class Conditions {
 public:
  // Reads a scenario of `lockstep sim` (sim/scenario/scenario.h): peers, net, regions, [[link]], [[line]], [[do]],
  // heartbeat, faults_end ..., expanded for the seed. Without a heartbeat, the library's default of 500 ms applies;
  // all other times follow from it, unless a communicator is opened with others. Settings of the simulator's own
  // program (work, share_state, ...) are refused, and so are its faults (timeout, mismatch, skip, drift). An error
  // (kInvalidArgument) names line and column, and suggests a correction.
  static Result<Conditions> from_scenario(std::string_view toml, std::uint64_t seed);
  // The keys of a scenario that a swarm can have, by section, as `lockstep sim scenario keys` explains them; and under
  // "own" those that apply to the simulator's own program only.
  static std::map<std::string, std::vector<std::string>> keys();
  // Reads the output of to_text().
  static Result<Conditions> from_text(std::string_view toml);

  Conditions(const Conditions& other);
  Conditions& operator=(const Conditions& other);
  Conditions(Conditions&&) noexcept;
  Conditions& operator=(Conditions&&) noexcept;
  ~Conditions();

  // Adds drawn faults after the existing ones. More crashes, leaves ... than hosts: kInvalidArgument.
  std::optional<Error> add(const Churn& churn);

  [[nodiscard]] std::uint64_t seed() const;
  [[nodiscard]] std::uint32_t founders() const;  // programs that start at once
  [[nodiscard]] std::uint32_t hosts() const;     // founders, and hosts that may join

  // The faults in the order of the file: "at 12 s: crash c, back after 2 s".
  [[nodiscard]] std::size_t faults() const;
  [[nodiscard]] std::string fault(std::size_t index) const;
  // The same conditions with these faults only. Faults are independent: removing one does not change how others are
  // drawn.
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

// L3, a wrong key ends a search: a peer whose dials are all rejected, since every address shows another key than its
// run token names, gives up at once, and says so; no other peer gives up for that reason (rule 68 of docs/protocol.md).
// Knows the addresses that each process dials, and hears which dials are rejected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "core/trace/event.h"
#include "sim/checkers/complaint.h"

namespace lockstep::sim {

class Searches {
 public:
  // The process dials these addresses in turn.
  void looks(std::uint32_t process, std::size_t addresses) { turns_[process] = {addresses, 0}; }
  void rejected(std::uint32_t process) { turns_[process].rejected += 1; }

  // All addresses of this turn were rejected.
  [[nodiscard]] bool in_vain(std::uint32_t process) const {
    const auto turn = turns_.find(process);
    return turn != turns_.end() && turn->second.addresses > 0 && turn->second.rejected == turn->second.addresses;
  }
  // A dial was rejected. `over`: the process has given up.
  [[nodiscard]] Complaint goes_on(std::uint32_t process, bool over) const {
    if (over || !in_vain(process)) return {};
    return "every address of the coordinator shows another key than the run token names, and the peer goes on looking";
  }
  // The run is over to the process, or its connect has ended.
  [[nodiscard]] Complaint ended(std::uint32_t process, Status status, std::string_view text) const {
    const bool gave_up =
        status == Status::kRefused && text.find("trying again does not help") != std::string_view::npos;
    if (gave_up == in_vain(process)) return {};
    if (gave_up) return "a peer gives up (" + std::string(text) + "), and not every address was rejected";
    return "every address of the coordinator shows another key than the run token names, and the peer says: " +
           std::string(text);
  }

 private:
  struct Turn {
    std::size_t addresses = 0;
    std::size_t rejected = 0;
  };
  std::map<std::uint32_t, Turn> turns_;
};

}  // namespace lockstep::sim

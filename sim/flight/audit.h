// The checkers of the simulator, over what real processes saw: the journals (transport/journal.h) of the peers of one
// run. What only the simulator can know, which fault was whose cause, stays with it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "sim/plan/report.h"
#include "sim/workload/call.h"

namespace lockstep::sim {

class Audit {
 public:
  // Takes a line of a journal. Lines of one peer must come in order; journals of different peers may come in any order.
  // Returns an error if the line is invalid.
  std::optional<Error> take(std::string_view line);
  // The lines since the last call are those of one file. `cut`: why the file lacks what its peers saw later; empty: it
  // lacks nothing.
  void end_file(const std::string& cut);

  // A peer whose journal lacks what the peer saw later, and why.
  struct Incomplete {
    PeerId peer;
    std::string why;
  };
  [[nodiscard]] std::vector<Incomplete> incomplete() const;

  // The promises that the journals break. A peer whose journal is incomplete may have launched more than its lines say.
  // S1: one outcome. S2: contributors had launched the round. S6: one membership.
  // S5: one root per revision. S8: every call ends once. S10: equal arguments. P1: no byte twice.
  [[nodiscard]] std::vector<Failure> judge() const;

  struct Sums {
    std::size_t peers = 0;
    std::size_t views = 0;
    std::size_t calls = 0;
    std::size_t rounds = 0;  // that were committed
  };
  [[nodiscard]] Sums sums() const;

 private:
  struct Witness {  // one peer, and all that it has seen
    PeerId id;
    std::uint32_t gang_size = 1;
    std::vector<Call> calls;
    std::map<std::uint64_t, std::size_t> by_id;
    std::vector<std::shared_ptr<const wire::View>> views;
    std::vector<std::string> wrong;  // S8, seen while it was read
    bool closed = false;
    std::string stopped;  // why the journal took no further line; empty: it did
  };
  class Reader;
  // The launches of a peer, by their rounds; and the first launch of each tag whose round the peer never learned.
  struct Launches {
    std::map<RoundKey, const Call*> known;
    std::map<Tag, const Call*> unknown;
    [[nodiscard]] const Call* of(const RoundKey& round) const;
  };
  static Launches launches_of(const Witness& witness);

  std::map<PeerId, Witness> witnesses_;
  std::set<PeerId> in_file_;  // of the lines since end_file()
};

}  // namespace lockstep::sim

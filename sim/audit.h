// The checkers of the simulator, over what real processes saw: the journals (transport/journal.h) of the peers of one run. What
// only the simulator can know, which fault was whose cause, stays with it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "sim/call.h"
#include "sim/report.h"

namespace lockstep::sim {

class Audit {
 public:
  // A line of a journal. Those of one peer in their order; those of different peers may come in any. Errors: it is none.
  std::optional<Error> take(std::string_view line);

  // Which promises do not hold in what was taken. S1: one outcome. S2: contributors had launched it. S6: one membership.
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
  };
  class Reader;
  // What a peer has called, by the round that it became; and the first of each tag whose round it never learned.
  struct Launches {
    std::map<RoundKey, const Call*> known;
    std::map<Tag, const Call*> unknown;
    [[nodiscard]] const Call* of(const RoundKey& round) const;
  };
  static Launches launches_of(const Witness& witness);

  std::map<PeerId, Witness> witnesses_;
};

}  // namespace lockstep::sim

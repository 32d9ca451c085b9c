// The rounds of a peer, in the order of their launch and by their keys, and those that are over here and not yet for
// the coordinator. Decides nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/peer/round.h"
#include "core/peer/snapshot.h"
#include "core/wire/message.h"

namespace lockstep::peer {

class RoundTable {
 public:
  using Entries = std::map<std::uint64_t, Round>;  // by the order of the launch

  // The order of a new launch.
  [[nodiscard]] std::uint64_t launch() { return ++launches_; }
  [[nodiscard]] std::uint64_t launches() const { return launches_; }
  // A new round of that launch.
  [[nodiscard]] Round& begin(std::uint64_t order);
  // Invariant: a round has a key here exactly while it has one itself, except one that waits for the key of its next
  // cohort.
  void set_key(Round& round, const RoundKey& key);
  void forget_key(const Round& round) { by_key_.erase(*round.key); }

  // Null: there is none.
  [[nodiscard]] Round* find(const RoundKey& key);
  [[nodiscard]] const Round* find(const RoundKey& key) const;
  [[nodiscard]] Round* find(CallId call);
  [[nodiscard]] const Round* find(CallId call) const;
  [[nodiscard]] Round* find(std::uint64_t order);
  [[nodiscard]] Round& at(std::uint64_t order) { return rounds_.at(order); }

  [[nodiscard]] Entries::iterator begin() { return rounds_.begin(); }
  [[nodiscard]] Entries::iterator end() { return rounds_.end(); }
  [[nodiscard]] Entries::const_iterator begin() const { return rounds_.begin(); }
  [[nodiscard]] Entries::const_iterator end() const { return rounds_.end(); }
  [[nodiscard]] std::size_t size() const { return rounds_.size(); }
  [[nodiscard]] bool empty() const { return rounds_.empty(); }
  Entries::iterator erase(Entries::iterator at) { return rounds_.erase(at); }

  // ---- peer commits that the coordinator has not confirmed yet (rule 14): they count as done until it has ----

  void report(const wire::OpenRound& round) { reported_.emplace(round.key, round); }
  [[nodiscard]] const std::map<RoundKey, wire::OpenRound>& reported() const { return reported_; }
  // Null: it is none of them.
  [[nodiscard]] const wire::OpenRound* find_reported(const RoundKey& key) const;
  void forget_reported(const RoundKey& key) { reported_.erase(key); }
  void forget_reported() { reported_.clear(); }

  // ---- questions about all ----

  // What this peer has open, for the coordinator.
  [[nodiscard]] std::vector<wire::OpenRound> open_rounds() const;
  // Calls that have not completed.
  [[nodiscard]] std::size_t calls() const;
  // When a round, or the sync of a round, must be looked at next.
  [[nodiscard]] Instant deadline() const;
  // Pieces of states that could be sent now, if the pace allows it.
  [[nodiscard]] bool has_pieces() const;
  // Bit n for RoundPhase n.
  [[nodiscard]] std::uint16_t phases() const;
  [[nodiscard]] bool has_cohort(CohortId id) const;

  // Left out: rounds_, which archive_rounds() lists with `archive_round(round)` for each.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(launches_, by_key_, reported_);
  }
  template <typename Archive, typename ArchiveRound>
  void archive_rounds(Archive& a, ArchiveRound archive_round) {
    std::uint64_t count = rounds_.size();
    a.all(count);
    if constexpr (Archive::kLoads) {
      rounds_.clear();
      for (; count > 0 && !a.failed(); --count) {
        std::uint64_t order = 0;
        a.all(order);
        archive_round(rounds_[order]);
      }
    } else {
      for (auto& [order, round] : rounds_) {
        a.all(order);
        archive_round(round);
      }
    }
  }

 private:
  Entries rounds_;
  std::uint64_t launches_ = 0;
  std::map<RoundKey, std::uint64_t> by_key_;
  std::map<RoundKey, wire::OpenRound> reported_;
};

}  // namespace lockstep::peer

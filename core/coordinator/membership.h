// The members in the order of their rings, and the peers that wait: the arithmetic of views. Decides nothing about
// rounds.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/wire/message.h"

namespace lockstep::coordinator {

// A peer in the waiting room.
struct Candidate {
  wire::Member member;
  std::uint32_t gang_size = 1;
  std::uint32_t founders = 1;
  bool auto_admit = false;
  std::uint64_t arrival = 0;  // order in which newcomers began to count; admissions keep this order
  bool answers = true;        // false: not admissible before it has answered `asked`
  bool missed = false;        // a proposal has gone on without this newcomer
  bool dialled_back = true;   // it is known whether others can dial it; before, it is not admissible
  bool holds = false;         // has said that it holds a published state: a founding waits for it (rule 49)
  ProposalNumber asked;       // number of the last question or proposal that was sent to it; 0: none
  Instant asked_at;
  Duration took{};  // time that its last late answer, or its answer to a question, took; 0: no such answer yet
  void ask(ProposalNumber number, Instant now) {
    asked = number;
    asked_at = now;
  }
  template <typename Archive>
  void archive(Archive& a) {
    a.all(member, gang_size, founders, auto_admit, arrival, answers, missed, dialled_back, holds, asked, asked_at,
          took);
  }
};

// An unordered pair of members that cannot exchange bytes.
using Pair = std::pair<PeerId, PeerId>;
inline Pair pair_of(PeerId a, PeerId b) { return a < b ? Pair{a, b} : Pair{b, a}; }

class Membership {
 public:
  // The reason why this peer may not wait, or nullopt. Refuses ids in use, full runs, and options that differ from
  // those of the run or of the peer's gang (rule 34 of docs/protocol.md).
  [[nodiscard]] std::optional<Error> validate(const Candidate& candidate) const;
  void add_candidate(Candidate candidate);
  void remove_candidate(PeerId peer);
  [[nodiscard]] const std::map<PeerId, Candidate>& candidates() const { return candidates_; }
  [[nodiscard]] Candidate* candidate(PeerId peer) {  // null: it does not wait
    const auto at = candidates_.find(peer);
    return at == candidates_.end() ? nullptr : &at->second;
  }

  // The candidates that can be admitted now, in the order of `arrival`: single peers that have answered, and gangs
  // whose peers all wait and have answered. An empty run is founded only when enough of them wait.
  [[nodiscard]] std::vector<Candidate> admissible() const;

  [[nodiscard]] const wire::View& view() const { return view_; }
  [[nodiscard]] bool contains(PeerId peer) const { return find(peer) != nullptr; }
  [[nodiscard]] const wire::Member* find(PeerId peer) const;
  // The peer and all other members of its gang.
  [[nodiscard]] std::vector<PeerId> gang_of(PeerId peer) const;
  [[nodiscard]] bool auto_admit() const { return auto_admit_; }

  // The next view without `gone` and with `added` (at the end of their groups), its rings laid around pairs whose link
  // is broken, or that cannot dial each other.
  // Numbers are the caller's to set.
  [[nodiscard]] std::vector<wire::Member> next_members(const std::set<PeerId>& gone,
                                                       const std::vector<Candidate>& added) const;

  // The groups of these members in which a pair is marked as broken, or as one to avoid, or cannot link (rule 70).
  [[nodiscard]] std::vector<GroupId> unmeshed(const std::vector<wire::Member>& members) const;

  // Installs the view. Its members wait no longer. `left`: peers that are not in it because they have left.
  void install(wire::View view, const std::set<PeerId>& left = {});

  // These two members cannot reach each other. Returns the time of the first such report. `avoid`: rings had better
  // avoid the link; it costs no member the run.
  Instant mark_broken(Pair pair, Instant now, bool avoid = false);
  // Whether a ring of this pair's group avoids it and all other marked pairs.
  [[nodiscard]] bool can_avoid(Pair pair) const;
  [[nodiscard]] bool is_marked(Pair pair) const { return broken_.contains(pair); }
  // Whether the mark of the pair says no more than that.
  [[nodiscard]] bool is_only_avoided(Pair pair) const;
  // When the pair was first said to be broken; now, if it was not.
  [[nodiscard]] Instant broken_since(Pair pair, Instant now) const;
  // Whether the link was reported since then. If not, it may work again: no ring has needed it.
  [[nodiscard]] bool said_since(Pair pair, Instant then) const;
  // Rings need not avoid this link any longer. That it was broken still counts for its ends.
  void forget_broken(Pair pair);
  // The pairs of ring neighbours whose link is broken, because no order of the ring avoids that.
  [[nodiscard]] std::vector<Pair> unavoidable(const std::vector<wire::Member>& members) const;
  [[nodiscard]] std::size_t broken_entries() const { return broken_.size() + mended_.size() + links_to_left_.size(); }
  // The number of links of this peer that were reported as broken since then.
  [[nodiscard]] std::size_t broken_links_of(PeerId peer, Instant then) const;
  // The number of all its links that were ever reported, less those to lost peers, whose fault they may have been.
  [[nodiscard]] std::size_t ever_broken_links_of(PeerId peer) const;

  template <typename Archive>
  void archive(Archive& a) {
    a.all(view_, auto_admit_, candidates_, broken_, mended_, links_to_left_);
  }

 private:
  // Whether two members had better not be neighbours: their pair is marked, or neither can dial the other.
  [[nodiscard]] bool is_bad(const wire::Member& a, const wire::Member& b) const;
  // False: the ring is not laid around all such pairs, because there is no such ring.
  bool lay_ring(std::vector<wire::Member>& ring) const;

  wire::View view_;
  bool auto_admit_ = false;
  std::map<PeerId, Candidate> candidates_;
  struct Broken {
    Instant since;
    Instant said;        // time of the last report
    bool avoid = false;  // nobody has said more than that
    template <typename Archive>
    void archive(Archive& a) {
      a.all(since, said, avoid);
    }
  };
  std::map<Pair, Broken> broken_;
  std::set<Pair> mended_;                          // were broken, and may work again
  std::map<PeerId, std::uint32_t> links_to_left_;  // number of a member's broken links to peers that have left since
};

}  // namespace lockstep::coordinator

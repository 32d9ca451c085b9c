// The context that the parts of the coordinator share: its options, the time and the effects of the step, the next time
// at which the machine must be called, and the number of the last proposal. Decides nothing.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/base/assert.h"
#include "core/base/ids.h"
#include "core/base/text.h"
#include "core/base/time.h"
#include "core/coordinator/coordinator.h"
#include "core/trace/event.h"
#include "core/wire/limits.h"

namespace lockstep::coordinator {

struct Context {
  Context(const CoordinatorOptions& its_options, Instant birth) : options(its_options), born(birth), now(birth) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() = default;

  [[nodiscard]] Effects& out() const {
    LOCKSTEP_ASSERT(effects != nullptr);  // only during a step
    return *effects;
  }
  void note(trace::Event event) const { out().emplace_back(std::move(event)); }
  void wake_at(Instant at) { next_timer = std::min(next_timer, at); }
  // Invariant: no two proposals and questions of a run have the same number (rule 4 of docs/protocol.md).
  [[nodiscard]] ProposalNumber take_proposal_number() { return last_proposal = last_proposal.next(); }

  // What a status names.
  void trouble(PeerId peer, PeerId other, const std::string& text) {
    if (troubles.size() == kMaxTroubles) troubles.erase(troubles.begin());
    troubles.push_back({now, peer, other, std::string(cut(text, kMaxTextBytes))});
  }

  // Left out: options, that it is made of, and effects, which is null between two steps.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(born, now, next_timer, last_proposal, troubles);
  }

  const CoordinatorOptions options;
  Instant born;
  Instant now;
  Effects* effects = nullptr;  // of the step; null between two steps
  Instant next_timer = kNever;
  ProposalNumber last_proposal;  // number of the newest proposal or question
  struct Trouble {
    Instant at;
    PeerId peer;
    PeerId other;
    std::string text;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(at, peer, other, text);
    }
  };
  std::vector<Trouble> troubles;
};

// A peer that must leave the run, and why.
struct Eviction {
  PeerId peer;
  Status status = Status::kEvicted;
  std::string why;
  RoundKey round{};  // in which a newcomer ends alone, with this status (rules 52, 53)
};

}  // namespace lockstep::coordinator

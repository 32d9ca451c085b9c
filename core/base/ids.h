// Identities and counters as distinct types, so that a Rank cannot pass for a PeerId.
#pragma once

#include <array>
#include <compare>
#include <cstdint>

namespace lockstep {

// One process in a run: random, 128 bits, never reused. Zero means "nobody".
struct PeerId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  constexpr auto operator<=>(const PeerId&) const = default;
  [[nodiscard]] constexpr bool is_nobody() const { return high == 0 && low == 0; }
};

// The secret of one run: random, 128 bits, known to its members only. A peer that presents the key on a link is a
// member.
struct LinkKey {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  constexpr bool operator==(const LinkKey&) const = default;
};

// An integer with a meaning. `Name` makes the types distinct.
template <typename Name, typename Int>
struct Number {
  using Value = Int;
  Int value = 0;

  constexpr auto operator<=>(const Number&) const = default;
  [[nodiscard]] constexpr Number next() const { return {static_cast<Int>(value + 1)}; }
};

using Rank = Number<struct RankName, std::uint32_t>;                // place in one group's ring of one view
using GroupId = Number<struct GroupName, std::uint32_t>;            // peers that reduce with each other
using GangId = Number<struct GangName, std::uint64_t>;              // peers that are useful only together; 0: no gang
using Tag = Number<struct TagName, std::uint64_t>;                  // the caller's name for a round
using Term = Number<struct TermName, std::uint64_t>;                // identifies one coordinator
using ViewNumber = Number<struct ViewName, std::uint64_t>;          // membership version
using ProposalNumber = Number<struct ProposalName, std::uint64_t>;  // a pending change of membership or of an outcome
using StreamId = Number<struct StreamName, std::uint64_t>;          // one TCP or TLS stream of this process
using CallId = Number<struct CallName, std::uint64_t>;              // one API call of this process
using BufferId = Number<struct BufferName, std::uint32_t>;          // names a piece of memory; see buffers/buffer_ref.h
using StripeIndex = Number<struct StripeName, std::uint16_t>;       // one of the parallel streams between two peers
using Lineage = Number<struct LineageName, std::uint64_t>;          // states that grew out of one agreed state; 0: none
using SegmentIndex = Number<struct SegmentName, std::uint32_t>;     // a pipelined piece of a chunk

// The cohort formed by the admission that this view installed; see docs/protocol.md, "Words".
using CohortId = Number<struct CohortName, std::uint64_t>;

// A cohort keeps its id when it loses members. Each loss starts a generation. A round is attempted in one generation.
using Generation = Number<struct GenerationName, std::uint64_t>;

// Distinguishes on streams what has one RoundKey: the attempts of a round, by their generation, or the states that are
// published under a tag, by their root.
using AttemptId = Number<struct AttemptName, std::uint64_t>;
constexpr AttemptId attempt_id(Generation generation) { return {generation.value}; }
// Of an attempt of a round.
constexpr Generation generation_of(AttemptId attempt) { return {attempt.value}; }

// A round's name: the n-th use of a tag in one group of one cohort.
struct RoundKey {
  CohortId cohort;
  GroupId group;
  Tag tag;
  std::uint32_t use = 0;

  constexpr auto operator<=>(const RoundKey&) const = default;
};

}  // namespace lockstep

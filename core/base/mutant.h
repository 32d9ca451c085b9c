// Planted bugs: who tests the tests. Each entry is a mistake that a tired programmer could make; `lockstep sim mutants` plants
// one after the other, and the simulator must find every one of them by a promise that is named for it. The code that ships has
// none: mutant() is a constant `false` there, and nothing of it remains. A build with -DLOCKSTEP_MUTANTS=ON asks which one was
// planted.
//
// A site is one line: `if (done || mutant(Mutant::kDoneEarly)) ...`
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep {

// How many seeds may pass until it is found.
enum class Rarity : std::uint32_t { kCommon = 200, kRare = 5'000, kNeedle = 200'000 };

// X(name, id, promises of which one must break, rarity, what was forgotten). "assert": an assertion of core may also end it.
// clang-format off
#define LOCKSTEP_MUTANTS_ALL(X) \
  /* outcomes */ \
  X(kCommitWithoutOne, "commit-without-one", "S2", kCommon, "a round commits before its last member is done") \
  X(kLostCountsAsDone, "lost-counts-as-done", "S2", kRare, "who is lost counts as done, whether it took part or not") \
  X(kDoneCarriesOver, "done-carries-over", "S1 L2", kRare, "done in one attempt counts for the next") \
  X(kDoneCommitsOnLoss, "done-commits-on-loss", "S1 S2", kCommon, "who is done commits by itself when a member is lost") \
  X(kDoneAfterFlush, "done-after-flush", "S11 L1 L2", kRare, "a frozen round is done after its flush was sent") \
  X(kFirstVerdictStands, "first-verdict-stands", "L1 L4", kRare, "what members answer to a proposal changes no verdict") \
  X(kNewLossWaits, "new-loss-waits", "L1", kCommon, "a loss does not replace the proposal that waits for the lost") \
  X(kGroupsDecideAlone, "groups-decide-alone", "S1", kRare, "gangs: the groups' rounds are not bound to one outcome") \
  X(kGroupsElectApart, "groups-elect-apart", "S1", kNeedle, "gangs: each group takes over its own highest revision") \
  X(kStopBeatsDone, "stop-beats-done", "S1", kRare, "a round is stopped although all survivors are done with it") \
  X(kAgreesWithoutOne, "agrees-without-one", "S1 L2", kRare, "members commit among themselves before the last one is done") \
  X(kAbortsAlone, "aborts-alone", "S1", kRare, "a peer aborts by itself when its call times out") \
  X(kUsedUpForgotten, "used-up-forgotten", "L1", kCommon, "an outcome is not kept for who has not launched yet") \
  X(kRetriesWhatMustNot, "retries-what-must-not", "S10", kCommon, "a round that must not be retried is") \
  X(kMinimumIgnored, "minimum-ignored", "S10", kRare, "a round goes on below the minimum world") \
  X(kMismatchUnseen, "mismatch-unseen", "S10 L2", kCommon, "a neighbour's arguments are not compared") \
  /* cohorts, leaving */ \
  X(kLeaverGoesAtOnce, "leaver-goes-at-once", "L1", kCommon, "a leaver goes before its last rounds are over") \
  X(kLeaverIsNotReleased, "leaver-is-not-released", "L4", kRare, "the commit of its last round releases no leaver") \
  X(kLeaverStaysInRing, "leaver-stays-in-ring", "L2 L1 L4", kCommon, "the next view has the leaver still") \
  X(kKeepsUnlaunched, "keeps-unlaunched", "L1 L4", kRare, "rounds are kept for a leaver that did not launch them") \
  X(kKeptRoundForgotten, "kept-round-forgotten", "L1 L2", kCommon, "members move on with a round that is kept for a leaver") \
  X(kLaunchesAfterAdmit, "launches-after-admit", "S1 L1 L2", kRare, "a launch after admit goes to the old cohort") \
  /* admission */ \
  X(kAdmitWithoutAll, "admit-without-all", "L1 L2", kCommon, "not all members have to call admit") \
  X(kAdmitToldToNobody, "admit-told-to-nobody", "L1 L3", kRare, "members do not learn who has called admit") \
  X(kAdmitHidesRounds, "admit-hides-rounds", "L2", kRare, "admit does not say which rounds it has open") \
  X(kWaitingForgotten, "waiting-forgotten", "L3", kRare, "auto_admit: a commit does not say that somebody waits") \
  X(kWorldIgnored, "world-ignored", "S10", kRare, "admit does not wait for the world that was asked for") \
  X(kWithdrawnUnsaid, "withdrawn-unsaid", "L1 L3", kRare, "members wait for the end of a proposal that was withdrawn") \
  X(kAdmitUnderstated, "admit-understated", "S10", kRare, "admit for a world is over with what auto_admit had said") \
  X(kHalfGangAdmitted, "half-gang-admitted", "S6", kRare, "a gang is admitted before all of it waits") \
  X(kNamesakeAdmitted, "namesake-admitted", "S6", kRare, "a gang is admitted beside another one of its name") \
  X(kNamesakeRefused, "namesake-refused", "L2", kRare, "a gang is refused while another one of its name is in") \
  X(kGangLosesOne, "gang-loses-one", "S6", kCommon, "a gang goes on without the one that it lost") \
  X(kRingFromMyself, "ring-from-myself", "S6", kCommon, "every peer puts itself first in the view") \
  X(kRingSortedById, "ring-sorted-by-id", "S6", kCommon, "rings are sorted by id, not as the view says") \
  /* time */ \
  X(kSilentMemberStays, "silent-member-stays", "L1 L3", kCommon, "a member that says nothing is not lost") \
  X(kSilentStripeStays, "silent-stripe-stays", "L1", kRare, "a stripe that says nothing is not reset") \
  X(kNoSignOfLife, "no-sign-of-life", "L2", kCommon, "a peer sends no heartbeats to the coordinator") \
  /* data */ \
  X(kOldSegmentTaken, "old-segment-taken", "S2", kRare, "a segment of an attempt that was given up is taken") \
  X(kSegmentTwice, "segment-twice", "S2 L1 assert", kRare, "a segment is folded again when it comes again") \
  X(kLandingOutlivesStream, "landing-outlives-stream", "L1", kRare, "half a segment is awaited from a stream that is gone") \
  X(kResendsNothing, "resends-nothing", "L1", kRare, "what was lost with a stream is not sent again") \
  X(kRemainderSkipped, "remainder-skipped", "S2", kCommon, "count % n elements are left out") \
  X(kDividesAtEveryHop, "divides-at-every-hop", "S2", kCommon, "an average is divided by n at every hop") \
  X(kWeightsUncounted, "weights-uncounted", "S2", kCommon, "a weighted average is divided as if all weighed 1") \
  X(kLeavesAtOnce, "leaves-at-once", "S2 S3", kCommon, "a residual is renewed before its round has committed") \
  X(kOutOfTurn, "out-of-turn", "S2 L1 L2 assert", kCommon, "a contribution goes where an earlier one still lies") \
  X(kLeftEncoded, "left-encoded", "S2", kCommon, "the last piece of a result stays encoded") \
  X(kKernelSkipsTail, "kernel-skips-tail", "S2", kCommon, "a kernel folds whole vectors only") \
  X(kReadyNotRepeated, "ready-not-repeated", "L1", kCommon, "a new stripe is not told what is here") \
  X(kEarlyReadyForgotten, "early-ready-forgotten", "L1", kCommon, "a Ready that comes before the launch is dropped") \
  X(kReadyOfAnyAttempt, "ready-of-any-attempt", "L1", kRare, "a Ready for the next attempt is taken for this one") \
  X(kEarlyForgotten, "early-forgotten", "L1", kCommon, "what comes before the launch without being asked is dropped") \
  X(kOfferUnanswered, "offer-unanswered", "L1", kRare, "a neighbour that may not send unasked hears no Ready") \
  X(kTakenBackUnsaid, "taken-back-unsaid", "L2", kNeedle, "a segment that was taken back is sent as if it were whole") \
  /* memory */ \
  X(kNotBackedUp, "not-backed-up", "S3", kCommon, "all-gather overwrites an input that has no copy") \
  X(kRestoresNothing, "restores-nothing", "S3", kCommon, "who loses the run does not get its inputs back") \
  X(kToldBeforeRestore, "told-before-restore", "S4", kCommon, "a call completes before its input is restored") \
  X(kReadLoanNotAwaited, "read-loan-not-awaited", "S4", kCommon, "a call completes before its landing place is back") \
  X(kWriteLoanNotAwaited, "write-loan-not-awaited", "S4", kCommon, "a call completes before its payload was sent") \
  X(kJobsNotAwaited, "jobs-not-awaited", "S4", kCommon, "a call completes before its kernels have answered") \
  /* shared state */ \
  X(kChimera, "chimera", "S5", kRare, "a state that was partly taken over passes for what it was") \
  X(kStaleHash, "stale-hash", "S5", kRare, "tensors that have changed since the last sync are not digested again") \
  X(kStaleRevisionWins, "stale-revision-wins", "S5", kRare, "a newcomer votes, and the highest revision wins") \
  X(kFirstPieceChecked, "first-piece-checked", "S5", kRare, "of the pieces that come only the first is checked") \
  X(kRootUnchecked, "root-unchecked", "S5", kRare, "who has taken over the values claims the elected root at once") \
  X(kTornVotes, "torn-votes", "S5", kRare, "what a failed sync left in memory counts as a state") \
  X(kWatchBlind, "watch-blind", "S5", kRare, "the hashes of watched states are not compared") \
  /* calls */ \
  X(kCallCompletesAgain, "call-completes-again", "S8", kCommon, "a call that is over is not forgotten") \
  X(kHeraldsStay, "heralds-stay", "S11", kRare, "what neighbours announced outlives the run") \
  /* newcomers */ \
  X(kMuteNewcomerWaitedFor, "mute-newcomer-waited-for", "L2", kRare, "members wait for a newcomer that answers no proposal") \
  X(kSuspectNotAsked, "suspect-not-asked", "L2", kRare, "a newcomer that never answers holds up every admission anew") \
  X(kRedialsLate, "redials-late", "P3", kRare, "a stream that broke is dialled again when heartbeats are due") \
  X(kLostAsksStay, "lost-asks-stay", "P3", kNeedle, "what was asked for on a stream that broke is awaited, not asked again") \
  X(kAnswerUncounted, "answer-uncounted", "L2 L1 L3", kRare, "a newcomer that answers late never counts as one that answers") \
  /* strangers */ \
  X(kCrowdStays, "crowd-stays", "S9", kRare, "a port takes as many strangers as come") \
  X(kDripRenews, "drip-renews", "S9", kRare, "each byte of a stranger gives it more time") \
  /* bits that flip */ \
  X(kLastUnchecked, "last-unchecked", "S2 L2", kRare, "the checksum of the last segment of a call is not compared") \
  X(kHeaderUnchecked, "header-unchecked", "L1 contract", kNeedle, "a length in which a bit has flipped is believed") \
  X(kTakenBackByABit, "taken-back-by-a-bit", "L1", kNeedle, "a bit that flips in a trailer takes the segment back") \
  X(kFirstTwoCompared, "first-two-compared", "L2 S1 S2", kRare, "results are compared of the first two members that are done") \
  X(kDifferingCommits, "differing-commits", "S2 S1", kRare, "results that differ commit") \
  X(kWrongForEver, "wrong-for-ever", "L2 L1 S2", kRare, "a segment that was wrong when it left is asked for again for ever") \
  X(kCorruptResetsAgain, "corrupt-resets-again", "L2", kNeedle, "a segment that was given up resets its stream again") \
  /* odd inputs */ \
  X(kOddElementsGo, "odd-elements-go", "S2 L2", kRare, "an element that is infinite or NaN ends no encoded call") \
  X(kTinyWeightIsNone, "tiny-weight-is-none", "S2", kRare, "a weight that is too small beside the others' becomes 0") \
  /* long lives */ \
  X(kDoneAloneUnsaid, "done-alone-unsaid", "S11 L4", kRare, "a coordinator waits for the end of what a member does alone") \
  /* states in place */ \
  X(kEarlierPiecesKept, "earlier-pieces-kept", "S5", kNeedle, "pieces of an attempt count for the next, of another state") \
  /* causes */ \
  X(kPauseIsSilence, "pause-is-silence", "L2", kRare, "the coordinator takes its own pause for others' silence") \
  X(kSuspectStays, "suspect-stays", "L2", kRare, "who was silent for a while is given half the time from then on") \
  X(kBrokenForEver, "broken-for-ever", "L2", kRare, "a link that was broken once counts as broken for good") \
  X(kThirdPays, "third-pays", "L2", kRare, "where no ring avoids a broken link, a third one has to go") \
  X(kAnyLossCounts, "any-loss-counts", "L2", kRare, "the loss of a leaver aborts rounds that it has no part in")
// clang-format on

enum class Mutant : std::uint8_t {
  kNone,
#define LOCKSTEP_MUTANT_NAME(name, id, promises, rarity, bug) name,
  LOCKSTEP_MUTANTS_ALL(LOCKSTEP_MUTANT_NAME)
#undef LOCKSTEP_MUTANT_NAME
};

struct MutantEntry {
  Mutant mutant = Mutant::kNone;
  std::string_view id;
  std::string_view promises;  // with spaces between them; the first is the one that it was made for
  Rarity rarity = Rarity::kCommon;
  std::string_view bug;
};

inline constexpr auto kMutants = std::to_array<MutantEntry>({
#define LOCKSTEP_MUTANT_ENTRY(name, id, promises, rarity, bug) {Mutant::name, id, promises, Rarity::rarity, bug},
    LOCKSTEP_MUTANTS_ALL(LOCKSTEP_MUTANT_ENTRY)
#undef LOCKSTEP_MUTANT_ENTRY
});

#ifdef LOCKSTEP_MUTANTS
inline constexpr bool kMutantsBuilt = true;
// Whether this one is planted.
[[nodiscard]] bool mutant(Mutant which);
// From now on, in the whole process; kNone: as it ships.
void plant(Mutant which);
#else
inline constexpr bool kMutantsBuilt = false;
[[nodiscard]] constexpr bool mutant(Mutant) { return false; }
constexpr void plant(Mutant) {}
#endif

}  // namespace lockstep

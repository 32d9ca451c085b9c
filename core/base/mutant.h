// Planted bugs, which test the tests. Each entry is a mistake that a tired programmer could make. `lockstep sim
// mutants` plants them one by one, and the simulator must find each bug by one of the promises named in its entry. A
// released build has no planted bugs: mutant() is a constant `false`, and the compiler removes the check. A build with
// -DLOCKSTEP_MUTANTS=ON checks at run time which bug is planted.
//
// A planted bug is one line: `if (done || mutant(Mutant::kDoneEarly)) ...`
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep {

// The largest number of seeds that the simulator may run before it finds the bug.
enum class Rarity : std::uint32_t { kCommon = 200, kRare = 5'000, kNeedle = 200'000 };

// X(name, id, promises, rarity, bug). At least one of the promises must break; "assert": an assertion of core may fail
// instead.
// clang-format off
#define LOCKSTEP_MUTANTS_ALL(X) \
  /* outcomes */ \
  X(kCommitWithoutOne, "commit-without-one", "S2", kCommon, "a round commits before its last member is done") \
  X(kLostCountsAsDone, "lost-counts-as-done", "S2", kRare, "a lost member counts as done even if it took no part") \
  X(kDoneCarriesOver, "done-carries-over", "S1 L2", kRare, \
    "a member that was done in one attempt counts as done in the next") \
  X(kDoneCommitsOnLoss, "done-commits-on-loss", "S1 S2", kCommon, "a member commits alone when another one is lost") \
  X(kDoneAfterFlush, "done-after-flush", "S11 L1 L2", kRare, "a frozen round becomes done after its flush was sent") \
  X(kFirstVerdictStands, "first-verdict-stands", "L1 L4", kRare, \
    "the flush answers of members do not change the verdict") \
  X(kNewLossWaits, "new-loss-waits", "L1", kCommon, "a loss does not replace a proposal that waits for the lost peer") \
  X(kGroupsDecideAlone, "groups-decide-alone", "S1", kRare, "gangs: the rounds of groups do not share one outcome") \
  X(kGroupsElectApart, "groups-elect-apart", "S1", kNeedle, "gangs: each group elects its own highest revision") \
  X(kStopBeatsDone, "stop-beats-done", "S1", kRare, "a round is stopped although all survivors are done") \
  X(kRootNotNeeded, "root-not-needed", "S2", kNeedle, \
    "a reduce or a gather commits although its root was lost with the result") \
  X(kScatterEndsWithRoot, "scatter-ends-with-root", "S2", kRare, \
    "a scatter commits once its root is done, before the receivers have their blocks") \
  X(kAgreesWithoutOne, "agrees-without-one", "S1 L2", kRare, \
    "members commit among themselves before the last is done") \
  X(kAgreedIsTakenBack, "agreed-is-taken-back", "S1 L2", kNeedle, \
    "a stop ends a round that members have committed among themselves") \
  X(kLengthBelieved, "length-believed", "S4 assert", kNeedle, \
    "the length of a segment is not compared with that of its place") \
  X(kAbortsAlone, "aborts-alone", "S1", kRare, "a peer aborts alone when its call times out") \
  X(kUsedUpForgotten, "used-up-forgotten", "L1", kCommon, "an outcome is not kept for a peer that launches later") \
  X(kRetriesWhatMustNot, "retries-what-must-not", "S10", kCommon, "a round that must not be retried is retried") \
  X(kMinimumIgnored, "minimum-ignored", "S10", kRare, "a round goes on below the minimum world") \
  X(kMismatchUnseen, "mismatch-unseen", "S10 L2", kCommon, "the arguments of neighbours are not compared") \
  X(kSyncMakesAMember, "sync-makes-a-member", "L2", kRare, \
    "a newcomer that has only synced counts as a full member: its wrong arguments end everybody's call") \
  X(kMisfitEndsAll, "misfit-ends-all", "L2", kNeedle, \
    "a newcomer whose arguments differ ends the calls of all members") \
  X(kRefusalUntold, "refusal-untold", "L1 L2 S10", kRare, "the others do not learn that a member refuses its call") \
  X(kRefusalTakesNoUse, "refusal-takes-no-use", "L1 L2 S10", kRare, \
    "a refused call stops the round of the others, and the next call with its tag takes the same use") \
  /* cohorts, leaving */ \
  X(kLeaverGoesAtOnce, "leaver-goes-at-once", "L1", kCommon, "a leaver leaves before its last rounds have ended") \
  X(kLeaverIsNotReleased, "leaver-is-not-released", "L4", kRare, \
    "the commit of its last round does not release a leaver") \
  X(kLeaverStaysInRing, "leaver-stays-in-ring", "L2 L1 L4", kCommon, "the next view still contains the leaver") \
  X(kKeepsUnlaunched, "keeps-unlaunched", "L1 L4", kRare, "rounds that a leaver did not launch are retained for it") \
  X(kKeptRoundForgotten, "kept-round-forgotten", "L1 L2", kCommon, \
    "members drop a round that is retained for a leaver") \
  X(kLaunchesAfterAdmit, "launches-after-admit", "S1 L1 L2", kRare, "a launch after admit belongs to the old cohort") \
  /* calls that wait */ \
  X(kNonePasses, "none-passes", "L1", kCommon, "no call in the queue passes those that wait for other peers") \
  X(kWaitingDropped, "waiting-dropped", "L4", kCommon, "calls in the queue do not end with the run") \
  /* admission */ \
  X(kAdmitWithoutAll, "admit-without-all", "L1 L2", kCommon, "an admission does not wait for every member") \
  X(kAdmitToldToNobody, "admit-told-to-nobody", "L1 L3", kRare, "members do not learn which members called admit") \
  X(kAdmitHidesRounds, "admit-hides-rounds", "L2", kRare, "an admit does not list the open rounds of its peer") \
  X(kWaitingForgotten, "waiting-forgotten", "L3", kRare, "auto_admit: a commit does not report waiting newcomers") \
  X(kWorldIgnored, "world-ignored", "S10", kRare, "admit does not wait for the requested world size") \
  X(kWithdrawnUnsaid, "withdrawn-unsaid", "L1 L3", kRare, "members wait for a proposal that was withdrawn") \
  X(kAdmitUnderstated, "admit-understated", "S10", kRare, \
    "auto_admit overrides the world size that an admit asks for") \
  X(kHalfGangAdmitted, "half-gang-admitted", "S6", kRare, "a gang is admitted before all of its peers wait") \
  X(kNamesakeAdmitted, "namesake-admitted", "S6", kRare, "a gang is admitted beside another gang of the same name") \
  X(kNamesakeRefused, "namesake-refused", "L2", kRare, "a gang is refused while another gang of its name is a member") \
  X(kGangLosesOne, "gang-loses-one", "S6", kCommon, "a gang continues after it lost a peer") \
  X(kRingFromMyself, "ring-from-myself", "S6", kCommon, "every peer puts itself first in the view") \
  X(kRingSortedById, "ring-sorted-by-id", "S6", kCommon, "rings are sorted by id instead of the order of the view") \
  /* time */ \
  X(kSilentMemberStays, "silent-member-stays", "L1 L3", kCommon, "a silent member is never declared lost") \
  X(kSilentStripeStays, "silent-stripe-stays", "L1", kRare, "a silent stripe is never reset") \
  X(kAnyByteIsProgress, "any-byte-is-progress", "L5", kRare, "a byte now and then counts as progress of a stream") \
  X(kFewerLinksPay, "fewer-links-pay", "L5", kRare, \
    "of two members without a link, the one with fewer broken links is evicted") \
  X(kNoSignOfLife, "no-sign-of-life", "L2", kCommon, "a peer sends no heartbeats to the coordinator") \
  /* data */ \
  X(kOldSegmentTaken, "old-segment-taken", "S2", kRare, "a segment of an abandoned attempt is accepted") \
  X(kSegmentTwice, "segment-twice", "S2 L1 assert", kRare, "a segment that arrives twice is folded twice") \
  X(kLandingOutlivesStream, "landing-outlives-stream", "L1", kRare, "a segment is awaited from a closed stream") \
  X(kResendsNothing, "resends-nothing", "L1", kRare, "segments that were lost with a stream are not sent again") \
  X(kStreamsUnlimited, "streams-unlimited", "S9", kRare, \
    "a line that loses packets gets more streams than are allowed") \
  X(kFloodsTheLine, "floods-the-line", "S9", kRare, "a peer sends more than the rate that its program allows") \
  X(kFinalsNotCounted, "finals-not-counted", "L1", kRare, \
    "contributions stay under way although their finals are here") \
  X(kNewUseNewStream, "new-use-new-stream", "P1", kNeedle, \
    "a link that gets another use before it is welcomed is dialled again") \
  X(kRemainderSkipped, "remainder-skipped", "S2", kCommon, "count % n elements are left out") \
  X(kReducesAtRankZero, "reduces-at-rank-zero", "S2", kCommon, "a reduce ends at rank 0 instead of its root") \
  X(kFoldsFromTheOwner, "folds-from-the-owner", "S2", kRare, \
    "the owner of a direct reduction folds in the order that ends at itself, whatever the call says") \
  X(kOwnsByItsOwnRates, "owns-by-its-own-rates", "S1 S2 L1 L2 L4 assert", kRare, \
    "the first rank takes another rate for the last one than that told") \
  X(kSharesUnused, "shares-unused", "P1", kRare, "ranks with unequal lines own as much as each other") \
  X(kSinksBeforeTheRates, "sinks-before-the-rates", "L1 L2 L4", kRare, \
    "contributions that come before the rates of all ranks have no place") \
  X(kRelayFoldsOwnFirst, "relay-folds-own-first", "S2", kCommon, \
    "a relay of a grid adds its own contribution first, and not last") \
  X(kFinalStaysAtTheRelay, "final-stays-at-the-relay", "L1 L2 L4", kCommon, \
    "a relay of a grid keeps finals to itself") \
  X(kLaunchesNotPassedOn, "launches-not-passed-on", "L1 L2 L4", kCommon, \
    "a relay of a grid does not tell the root of a broadcast who has launched it") \
  X(kRootDoneUnasked, "root-done-unasked", "S2", kNeedle, \
    "the root of a direct broadcast is done before all have launched the round") \
  X(kBlocksReversed, "blocks-reversed", "S2", kCommon, "the blocks of an exchange lie in the reverse order of ranks") \
  X(kScattersFirstBlock, "scatters-first-block", "S2", kCommon, "a scatter sends the beginning of its tensor to all") \
  X(kOwnBlockForgotten, "own-block-forgotten", "S2", kCommon, "a rank does not copy the block that is for itself") \
  X(kDividesAtEveryHop, "divides-at-every-hop", "S2", kCommon, "an average is divided by n at every hop") \
  X(kWeightsUncounted, "weights-uncounted", "S2", kCommon, "a weighted average is divided as if all weighed 1") \
  X(kLeavesAtOnce, "leaves-at-once", "S2 S3", kCommon, "a residual is updated before its round has committed") \
  X(kOutOfTurn, "out-of-turn", "S2 L1 L2 assert", kCommon, \
    "a contribution overwrites an earlier one that is still needed") \
  X(kLeftEncoded, "left-encoded", "S2", kCommon, "the last piece of a result stays encoded") \
  X(kKernelSkipsTail, "kernel-skips-tail", "S2", kCommon, "a kernel folds whole vectors only") \
  X(kReadyNotRepeated, "ready-not-repeated", "L1", kCommon, "Ready is not repeated on a new stripe") \
  X(kEarlyReadyForgotten, "early-ready-forgotten", "L1", kCommon, "a Ready that arrives before the launch is dropped") \
  X(kReadyOfAnyAttempt, "ready-of-any-attempt", "L1", kRare, \
    "a Ready for the next attempt counts for the current one") \
  X(kEarlyForgotten, "early-forgotten", "L1", kCommon, "eager data that arrives before the launch is dropped") \
  X(kOfferUnanswered, "offer-unanswered", "L1", kRare, "a neighbour that may not send eagerly receives no Ready") \
  X(kTakenBackUnsaid, "taken-back-unsaid", "L2", kNeedle, "a withdrawn segment is sent as if it were complete") \
  /* point-to-point transfers */ \
  X(kTransferTagIgnored, "transfer-tag-ignored", "S2 L2", kCommon, "an offer meets the first receive of any tag") \
  X(kNewestSendFirst, "newest-send-first", "S2", kCommon, "a receive takes the newest send of its tag") \
  X(kEarlySendNotRepeated, "early-send-not-repeated", "L1 L4", kRare, \
    "a small send whose segment was lost with a stream does not go again") \
  X(kSendEndsEarly, "send-ends-early", "L1 L2 L4", kRare, \
    "a small send ends when its segment goes, before its receipt") \
  X(kLeaveBeforeDelivery, "leave-before-delivery", "L2", kCommon, \
    "a leave ends before the transfers of its caller are delivered") \
  X(kAnyLossEndsSends, "any-loss-ends-sends", "L2", kCommon, "the loss of a third member ends sends between others") \
  X(kTransferUnchecked, "transfer-unchecked", "S2", kRare, \
    "the checksum of a received segment of a transfer is not compared") \
  X(kTransferNotResent, "transfer-not-resent", "L1 L4", kRare, \
    "segments of a transfer that were lost with a stream are not sent again") \
  X(kTransferReadyNotRepeated, "transfer-ready-not-repeated", "L1 L4", kRare, \
    "the Ready of a transfer is not repeated on a new stripe") \
  /* memory */ \
  X(kNotBackedUp, "not-backed-up", "S3", kCommon, "all-gather overwrites an input that has no copy") \
  X(kRestoresNothing, "restores-nothing", "S3", kCommon, "a peer that loses the run does not restore its inputs") \
  X(kToldBeforeRestore, "told-before-restore", "S4", kCommon, "a call completes before its input is restored") \
  X(kReadLoanNotAwaited, "read-loan-not-awaited", "S4", kCommon, \
    "a call completes while its memory is lent to a read") \
  X(kWriteLoanNotAwaited, "write-loan-not-awaited", "S4", kCommon, "a call completes before its payload was sent") \
  X(kJobsNotAwaited, "jobs-not-awaited", "S4", kCommon, "a call completes while its kernel jobs run") \
  /* shared state */ \
  X(kChimera, "chimera", "S5", kRare, "a partly overwritten state counts as the previous state") \
  X(kStaleHash, "stale-hash", "S5", kRare, "tensors that changed since the last sync are not digested again") \
  X(kStaleRevisionWins, "stale-revision-wins", "S5", kRare, "newcomers vote, so a stale revision can win") \
  X(kFirstPieceChecked, "first-piece-checked", "S5", kRare, "only the first received piece is verified") \
  X(kRootUnchecked, "root-unchecked", "S5", kRare, "a receiver claims the elected root without verifying it") \
  X(kTornVotes, "torn-votes", "S5", kRare, "a state that a failed sync left incomplete may vote") \
  X(kHeldStateForgotten, "held-state-forgotten", "S5", kRare, "a newcomer that holds a state does not vote with it") \
  X(kAheadOverwritten, "ahead-overwritten", "S5", kRare, \
    "the state of a newcomer that is ahead of the run is overwritten") \
  X(kHeldStateGoesBack, "held-state-goes-back", "S5", kRare, "a held state is replaced by an older revision") \
  X(kHolderNotAwaited, "holder-not-awaited", "S5", kRare, \
    "a founding goes on without a silent newcomer that holds a state") \
  X(kWatchBlind, "watch-blind", "S5", kRare, "the hashes of watched states are not compared") \
  X(kRepairUntold, "repair-untold", "S5", kRare, "a sync overwrites a member's state and tells nobody") \
  X(kTakeOverIsARepair, "take-over-is-a-repair", "S5", kRare, "a newcomer that takes the state over is said to stray") \
  /* calls */ \
  X(kTransferEndsEarly, "transfer-ends-early", "L4", kRare, "a transfer takes over the time-out of an earlier one") \
  X(kLateIsAborted, "late-is-aborted", "L4", kRare, "a call whose time-out has passed ends as if it were aborted") \
  X(kCallCompletesAgain, "call-completes-again", "S8", kCommon, "a completed call is not forgotten") \
  X(kHeraldsStay, "heralds-stay", "S11", kRare, "announcements of neighbours outlive the run") \
  X(kDigestsPileUp, "digests-pile-up", "S11", kCommon, "the digests of states of earlier revisions are kept") \
  X(kGenerationsStay, "generations-stay", "S11 assert", kCommon, "generations that are over are kept") \
  /* newcomers */ \
  X(kMuteNewcomerWaitedFor, "mute-newcomer-waited-for", "L2", kRare, \
    "members wait for a newcomer that does not answer") \
  X(kNewcomerNotAsked, "newcomer-not-asked", "L2", kRare, \
    "members wait for a newcomer that has not answered once") \
  X(kSuspectWaitedFor, "suspect-waited-for", "L2", kRare, "newcomers of a suspect host get full patience") \
  X(kRedialsLate, "redials-late", "P3", kRare, "a broken stream is not dialled again until heartbeats are due") \
  X(kLostAsksStay, "lost-asks-stay", "P3", kNeedle, "requests that were lost with a stream are not repeated") \
  X(kAnswerUncounted, "answer-uncounted", "L2 L1 L3", kRare, "a newcomer that answers late is never admissible") \
  /* strangers */ \
  X(kCrowdStays, "crowd-stays", "S9", kRare, "a port accepts any number of strangers") \
  X(kUnprovedAdmitted, "unproved-admitted", "A1", kRare, "a peer that names a token without proof of it is admitted") \
  X(kRevokedStays, "revoked-stays", "A1", kRare, "the peers of a revoked token stay in the run") \
  X(kDialledKeyUnchecked, "dialled-key-unchecked", "A2", kRare, \
    "a dialled stream is greeted, whatever key it proves") \
  X(kAcceptedKeyUnchecked, "accepted-key-unchecked", "A2", kRare, \
    "an accepted stream gets its place in a link, whatever key it proves") \
  X(kViolatorReturns, "violator-returns", "A4", kRare, "a peer that has broken the protocol may join again at once") \
  X(kObserverEvicts, "observer-evicts", "A5", kRare, "every valid token evicts peers") \
  X(kStopsUnlimited, "stops-unlimited", "S9", kRare, "a member may stop any number of rounds") \
  X(kWrongKeyRetried, "wrong-key-retried", "L3", kRare, \
    "a peer dials again although every address has shown another key than its run token names") \
  X(kSilenceIsAWrongKey, "silence-is-a-wrong-key", "L3", kRare, \
    "a peer gives up although an address has not answered, and none has shown another key") \
  X(kAnyListenerIsThePeer, "any-listener-is-the-peer", "T1", kRare, \
    "a newcomer counts as one that can be dialled if anything listens at its address") \
  X(kSmallerIdDials, "smaller-id-dials", "T1 L2", kRare, "a peer that nobody can dial waits to be dialled") \
  X(kCallersSideBySide, "callers-side-by-side", "T1 L2", kRare, \
    "rings are laid although two neighbours cannot dial each other") \
  X(kDripRenews, "drip-renews", "S9", kRare, "every byte of a stranger extends its deadline") \
  /* bits that flip */ \
  X(kLastUnchecked, "last-unchecked", "S2 L2", kRare, "the checksum of the last segment of a call is not compared") \
  X(kHeaderUnchecked, "header-unchecked", "P3 L1 contract", kNeedle, "a length with a flipped bit is accepted") \
  X(kTakenBackByABit, "taken-back-by-a-bit", "L1", kNeedle, "a bit flip in a trailer withdraws the segment") \
  X(kFirstTwoCompared, "first-two-compared", "L2 S1 S2", kRare, \
    "only the results of the first two members are compared") \
  X(kDifferingCommits, "differing-commits", "S2 S1", kRare, "a round with different results commits") \
  X(kWrongForEver, "wrong-for-ever", "L2 L1 S2", kRare, "a segment that was sent wrong is requested again forever") \
  X(kChangeUnseen, "change-unseen", "S2", kRare, \
    "a sender does not notice that a segment changed after it was hashed") \
  /* odd inputs */ \
  X(kOddElementsGo, "odd-elements-go", "S2 L2", kRare, "a NaN or infinite element does not abort an encoded call") \
  X(kTinyWeightIsNone, "tiny-weight-is-none", "S2", kRare, "a weight much smaller than the others becomes 0") \
  /* long lives */ \
  X(kDoneAloneUnsaid, "done-alone-unsaid", "S11 L4", kRare, "the end of a round of one member is not reported") \
  /* states in place */ \
  X(kEarlierPiecesKept, "earlier-pieces-kept", "S5", kNeedle, \
    "pieces of an earlier attempt count for another elected state") \
  /* causes */ \
  X(kPauseIsSilence, "pause-is-silence", "L2", kRare, "a pause of the coordinator counts as silence of its peers") \
  X(kSuspectStays, "suspect-stays", "L2", kRare, "a peer that was once silent keeps half of the time limit") \
  X(kChoosesAlone, "chooses-alone", "S1 S2 L1 L2 L4 assert", kCommon, \
    "the first rank of a ring takes the direct algorithm by itself") \
  X(kBrokenForEver, "broken-for-ever", "L2", kRare, "a link that was broken once counts as broken forever") \
  /* waits */ \
  X(kWaitUntold, "wait-untold", "L6", kRare, "nobody is told for whom a call waits") \
  X(kWaitNotAsked, "wait-not-asked", "L6", kRare, "a member that has just called is said to be missing") \
  X(kThirdPays, "third-pays", "L2", kRare, "a third peer is evicted when no ring avoids a broken link") \
  X(kAnyLossCounts, "any-loss-counts", "L2", kRare, "a leaver's loss aborts rounds that it has no part in")
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
  std::string_view promises;  // separated by spaces; the first one is the promise that the bug was made for
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
// Whether this bug is planted.
[[nodiscard]] bool mutant(Mutant which);
// Plants this bug in the whole process; kNone removes a planted bug.
void plant(Mutant which);
#else
inline constexpr bool kMutantsBuilt = false;
[[nodiscard]] constexpr bool mutant(Mutant) { return false; }
constexpr void plant(Mutant) {}
#endif

}  // namespace lockstep

// All limits on what a remote side can make this process hold (promise S9).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/time.h"

namespace lockstep {

inline constexpr std::uint32_t kMaxMembers = 1024;  // members and waiting peers in one run
// Rounds of one peer that have begun and are undecided (rule 43): in launch order, pulled forward by neighbours, and
// passing in the order of tags.
inline constexpr std::uint32_t kRoundWindow = 256;
inline constexpr std::uint32_t kMaxPassingRounds = 64;
inline constexpr std::uint32_t kMaxRoundsInFlight = 2 * kRoundWindow + kMaxPassingRounds;
inline constexpr std::uint32_t kMaxQueuedCalls = 65'536;        // calls of one peer that have not begun
inline constexpr std::size_t kMaxQueuedCallBytes = 64U << 20U;  // their descriptions, without tensors
// rounds committed among members that the coordinator has not confirmed
inline constexpr std::uint32_t kMaxReported = 256;
inline constexpr std::uint32_t kMaxUndecided =
    kMaxRoundsInFlight + kMaxReported;  // rounds of one peer from the coordinator's point of view
// The most members of a group that send Done to each other: near each other, and far from each other (rule 57).
inline constexpr std::uint32_t kMaxPeerCommit = 4;
inline constexpr std::uint32_t kMaxMeshed = 64;
inline constexpr Duration kFarCoordinator = milliseconds(1);  // round trip to the coordinator
inline constexpr std::uint32_t kMaxEagerSegments = 64;        // small eager segments on their way to one peer
// point-to-point, from one member to another: sends that no receive has taken; further sends wait for these
inline constexpr std::uint32_t kMaxOffers = 16'384;
inline constexpr std::uint32_t kMaxEagerSends = 64;  // of them: small sends that were sent before they were asked for
inline constexpr std::uint32_t kMaxTensorsPerCall = 65'536;   // tensors in one collective call
inline constexpr std::uint16_t kMaxStripes = 128;             // parallel streams between two peers
inline constexpr std::uint32_t kMaxSegmentBytes = 1U << 20U;  // payload of one segment
inline constexpr std::uint32_t kMaxSegments = 1U << 17U;      // segments of one round
// unit in which a shared state is compared, requested and sent
inline constexpr std::uint32_t kStatePieceBytes = 1U << 20U;
inline constexpr std::uint32_t kMaxStates = 1024;  // states of one run, one for each group and tag
inline constexpr std::uint32_t kMaxStateTensors = 65'536;
inline constexpr std::uint32_t kMaxStateValues = 256;
inline constexpr std::uint64_t kMaxStateBytes = std::uint64_t{1} << 42U;  // the digests alone take 64 MiB then
inline constexpr std::uint32_t kMaxStatePieces = (kMaxStateBytes / kStatePieceBytes) + kMaxStateTensors;
inline constexpr std::size_t kMaxSources = 16;  // members that send one state; a receiver has a link to each of them
inline constexpr std::uint32_t kMaxDigestsPerMessage = 32'768;  // half a message
inline constexpr std::uint32_t kMaxPiecesAsked = 256;           // requested by one peer and not sent yet
inline constexpr std::uint32_t kMaxShares = 16;         // states that one peer publishes or prefetches at the same time
inline constexpr std::uint32_t kMaxPrefetchers = 8;     // peers that prefetch from one member at the same time
inline constexpr std::size_t kMaxStateNameBytes = 256;  // name of a tensor or a value
inline constexpr std::size_t kMaxStateEntryBytes = kMaxStateNameBytes + 64;  // name, type and size of an entry in words
inline constexpr std::size_t kMaxFetchedBytes = kMaxStateNameBytes + 64;     // the fetched part of a state in words
inline constexpr std::size_t kMaxNameBytes = 64;                             // name of a peer, for people
inline constexpr std::size_t kMaxTextBytes = 1024;                           // a reason in words
inline constexpr std::size_t kMaxIdentityBytes = 160;                        // a token or a certificate, in words
inline constexpr std::uint32_t kMaxStrangerBodyBytes = 512;                  // message before the greeting has ended
inline constexpr std::uint32_t kMaxWaitingBodyBytes = 2048;       // message of a peer that waits for admission
inline constexpr std::uint32_t kMaxBodyBytes = 1U << 20U;         // message of a member or of a coordinator
inline constexpr std::size_t kMaxQueuedControlBytes = 8U << 20U;  // queued control bytes of one stream
inline constexpr std::uint32_t kMaxStrangers = 256;               // streams whose greeting has not ended
inline constexpr std::uint32_t kMaxGrants = 1024;                 // run tokens that a coordinator knows
inline constexpr std::uint32_t kMaxExclusions = 1024;             // tokens and keys that have broken the protocol
// Rounds that one peer stops (rule 67): at once, twice as many as it can have waiting, and in each second for good.
inline constexpr std::uint32_t kMaxStopsAtOnce = 2 * kMaxQueuedCalls;
inline constexpr std::uint32_t kStopsPerSecond = 40;
inline constexpr std::uint32_t kMaxSuspects = 64;  // remembered hosts of newcomers that did not answer
inline constexpr std::uint32_t kMaxWaitingOfOne =
    kMaxMembers / 2;                                 // waiting newcomers of one network (core/io/lobby.h)
inline constexpr std::uint32_t kMaxVerdicts = 4096;  // rounds named in one proposal or status
inline constexpr std::uint32_t kMaxTroubles = 16;    // in a status: peers and links in trouble, the newest
// run token (core/wire/run_token.h): addresses of the coordinator, the length of each, and the whole text
inline constexpr std::size_t kMaxTokenAddresses = 8;
inline constexpr std::size_t kMaxTokenAddressBytes = 255;
inline constexpr std::size_t kMaxRunTokenBytes = 4096;
// calls that wait long (rule 54): after so many heartbeats; those that one peer tells at a time; rounds that the
// coordinator knows of; in a status
inline constexpr std::int64_t kLongWaitBeats = 6;
inline constexpr std::uint32_t kMaxWaitsTold = 8;
inline constexpr std::uint32_t kMaxAwaitedRounds = 64;
inline constexpr std::uint32_t kMaxWaitsInStatus = 256;
inline constexpr std::size_t kMaxBusyBytes = 96;      // what a member does instead, in words
inline constexpr std::uint32_t kMaxNamedInWait = 16;  // members named as those that are in such a call, or are not
inline constexpr std::uint32_t kMaxRememberedOutcomes =
    kMaxQueuedCalls;                                               // outcomes kept for calls that are not launched yet
inline constexpr std::size_t kMaxRememberedTextBytes = 4U << 20U;  // texts of those outcomes

}  // namespace lockstep

// Every limit that a remote side can push against (promise S9), in one place.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/time.h"

namespace lockstep {

inline constexpr std::uint32_t kMaxMembers = 1024;        // members and waiting peers of one run
inline constexpr std::uint32_t kMaxRoundsInFlight = 256;  // launched and undecided, per peer
inline constexpr std::uint32_t kMaxReported = 256;        // committed among members before the coordinator says so
inline constexpr std::uint32_t kMaxUndecided =
    kMaxRoundsInFlight + kMaxReported;                        // as the coordinator sees it, per peer
inline constexpr std::uint32_t kMaxDirect = 4;                // members of which each tells each that it is done
inline constexpr Duration kFarCoordinator = milliseconds(1);  // there and back
inline constexpr std::uint32_t kMaxUnasked = 64;              // small tensors on their way to a peer that has not asked
inline constexpr std::uint32_t kMaxTensorsPerCall = 65'536;   // tensors in one collective call
inline constexpr std::uint16_t kMaxStripes = 16;              // parallel streams between two peers
inline constexpr std::uint32_t kMaxSegmentBytes = 1U << 20U;  // payload of one segment
inline constexpr std::uint32_t kMaxSegments = 1U << 17U;      // segments of one round
inline constexpr std::uint32_t kStatePieceBytes = 1U << 20U;  // of a shared state: what is compared, asked for and sent
inline constexpr std::uint32_t kMaxStates = 1024;             // of one run: groups and tags
inline constexpr std::uint32_t kMaxStateTensors = 65'536;
inline constexpr std::uint32_t kMaxStateValues = 256;
inline constexpr std::uint64_t kMaxStateBytes = std::uint64_t{1} << 42U;  // then its digests alone are 64 MiB
inline constexpr std::uint32_t kMaxStatePieces = (kMaxStateBytes / kStatePieceBytes) + kMaxStateTensors;
inline constexpr std::uint32_t kMaxDigestsPerMessage = 32'768;  // half a message
inline constexpr std::uint32_t kMaxPiecesAsked = 256;           // of one peer, and not sent yet
inline constexpr std::uint32_t kMaxShares = 16;   // states that one peer publishes, or fetches in advance, at once
inline constexpr std::uint32_t kMaxVisitors = 8;  // peers that fetch what one member publishes, at once
inline constexpr std::size_t kMaxStateNameBytes = 256;                       // of a tensor or a value
inline constexpr std::size_t kMaxStateEntryBytes = kMaxStateNameBytes + 64;  // its name, type and size in words
inline constexpr std::size_t kMaxNameBytes = 64;                             // a peer's human-readable name
inline constexpr std::size_t kMaxTextBytes = 1024;                           // a reason in words
inline constexpr std::uint32_t kMaxStrangerBodyBytes = 512;                  // a message before the greeting is over
inline constexpr std::uint32_t kMaxWaitingBodyBytes = 2048;       // a message of a peer that waits for its admission
inline constexpr std::uint32_t kMaxBodyBytes = 1U << 20U;         // a message of a member, or of a coordinator
inline constexpr std::size_t kMaxQueuedControlBytes = 8U << 20U;  // control bytes waiting for one stream
inline constexpr std::uint32_t kMaxStrangers = 256;               // streams whose greeting is not over
inline constexpr std::uint32_t kMaxSuspects = 64;                 // hosts of newcomers that did not answer, remembered
inline constexpr std::uint32_t kMaxWaitingOfOne =
    kMaxMembers / 2;                                           // newcomers that wait, of one network (core/io/lobby.h)
inline constexpr std::uint32_t kMaxVerdicts = 4096;            // rounds named in one proposal or status
inline constexpr std::uint32_t kMaxRememberedOutcomes = 4096;  // outcomes kept for calls not yet launched

}  // namespace lockstep

// What peers and the coordinator say to each other, as plain structs. codec.h turns them into bytes and back.
//
// A stream starts, in both directions, with a preamble (magic, version, feature bits). Then come frames: a header of 24
// bytes (type, length, term, their CRC, checksum of header and body) and a body. A Segment's body is followed by its
// payload and a trailer of 16 bytes (checksum of the payload, and whether the sender took it back).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/data_type.h"
#include "core/base/digest.h"
#include "core/base/ids.h"
#include "core/base/status.h"
#include "core/base/time.h"
#include "core/io/stream.h"
#include "core/kernels/formats/format.h"
#include "core/state/election.h"

namespace lockstep::wire {

inline constexpr std::uint64_t kMagic = 0x50455453'4b434f4cU;  // "LOCKSTEP" in memory order
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::uint64_t kFeatures = 0;  // none defined yet; unknown bits of the other side are ignored

// ---- vocabulary ----

enum class Collective : std::uint8_t { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kBarrier, kSync };
inline constexpr std::uint8_t kCollectiveCount = 6;
constexpr std::string_view name_of(Collective collective) {
  constexpr std::string_view kNames[] = {"all_reduce", "reduce_scatter", "all_gather",
                                         "broadcast",  "barrier",        "sync_state"};
  return kNames[static_cast<std::size_t>(collective)];
}

// How contributions become a result: around the ring, where everybody adds to what comes by; or each straight to who
// adds up all of that part, and tells everybody.
enum class Algorithm : std::uint8_t { kRing, kDirect };
inline constexpr std::uint8_t kAlgorithmCount = 2;
constexpr std::string_view name_of(Algorithm algorithm) { return algorithm == Algorithm::kRing ? "ring" : "direct"; }

// The arguments of a round that must be equal on all peers (promise S10).
struct Descriptor {
  Collective collective = Collective::kBarrier;
  DataType type = DataType::kU8;
  ReduceOp op = ReduceOp::kSum;
  bool retry = true;                // try again among the survivors when a member is lost
  std::uint32_t minimum_world = 1;  // below this many contributors the round returns kBelowMinimum
  std::uint32_t tensors = 0;
  std::uint64_t count = 0;   // elements in all tensors together; 0 for all-gather, whose blocks may differ
  std::uint64_t layout = 0;  // XXH3-64 of the tensors' counts, in order; 0 for all-gather; of a state: of its manifest
  PeerId root;               // broadcast only
  Formats formats{};         // all-reduce
  Algorithm algorithm = Algorithm::kRing;  // all-reduce; every other goes around the ring
  bool weighted = false;                   // contributions of an average have weights
  std::uint32_t segment_bytes = 0;         // as configured; 0: chosen from the size of the tensors, or nothing is sent

  auto operator<=>(const Descriptor&) const = default;
};

// A member as everybody sees it.
struct Member {
  PeerId id;
  GroupId group;
  GangId gang;
  io::Address address;    // where it listens
  std::string name;       // for people; may be empty
  Duration round_trip{};  // to the coordinator and back, when it joined; 0: not known

  bool operator==(const Member&) const = default;
};

// One immutable membership. `members` is sorted by group, and within a group in ring order: a member's place among
// those of its group is its rank. `cohort` is the newest cohort: the view that the last admission installed.
struct View {
  Term term;
  ViewNumber number;
  CohortId cohort;
  std::vector<Member> members;

  bool operator==(const View&) const = default;
};

// A round that a peer has launched and whose outcome it does not know.
struct OpenRound {
  RoundKey key;
  Generation attempt;
  bool done = false;
  bool retry = false;
  std::uint64_t hash = 0;  // of the result, when done

  bool operator==(const OpenRound&) const = default;
};

// What a proposal decides about one round. kOk: committed. Anything else: this use of the tag is used up, with this
// status.
struct Verdict {
  RoundKey key;
  Generation attempt;
  Status status = Status::kOk;
  std::uint64_t hash = 0;  // of the committed result
  std::string text;        // of a committed one: as Commit.parity

  bool operator==(const Verdict&) const = default;
};

// ---- greeting: the first message of the side that dialled ----

// To a coordinator: let me join.
struct Join {
  PeerId peer;
  GroupId group;
  GangId gang;
  std::uint32_t gang_size = 1;
  std::uint32_t founders = 1;  // an empty run is founded once this many peers wait
  bool auto_admit = false;
  io::Address advertised;  // family kNone: use the address this stream comes from, with this port
  std::string name;
  Duration round_trip{};  // of the stream to the coordinator; 0: not known
};

// To another peer: this stream is stripe `stripe` of the link between us. Its key: that of the run, which says that the
// sender is a member, too; or the sender's own, of one that waits for its admission and fetches what the other
// publishes (wire/link_key.h).
struct Link {
  PeerId from;
  PeerId to;
  StripeIndex stripe;
  std::uint16_t stripes = 1;
  LinkKey key;
  bool direct = false;  // for rounds that go direct: they are no neighbours in the ring
};

// To a coordinator: tell me how the run is.
struct StatusRequest {};

// ---- answers to a greeting ----

struct Refused {
  Status status = Status::kRefused;
  std::string text;
};

// You are in the waiting room; again, when a proposal that would have admitted you was withdrawn.
struct Waiting {
  io::Address seen_from;  // as the coordinator sees the joiner; with the port it listens on
  Duration heartbeat;     // send something at least this often
  Duration silence;       // after so long without a byte the other side is lost
};

struct LinkWelcome {};

// ---- both ways, on every stream ----

// A sign of life.
struct Heartbeat {};

// ---- peer to coordinator ----

// My part of this round is complete and the whole result is in hand. Also between neighbours, where they are few.
struct Done {
  RoundKey key;
  Generation attempt;
  Descriptor what;
  std::uint64_t hash = 0;
  std::uint64_t parity = 0;  // of the state that this peer watches, as it was at the launch; 0: it watches none
};

// Let waiting peers in; from now on I launch nothing into `cohort`. Answered by an Install, or by AdmitEnded.
struct Admit {
  CohortId cohort;
  std::uint32_t at_least = 1;  // wait until the new view has this many members
  bool by_itself = false;      // auto_admit, no call: others may wait for more members, but not this peer's calls
  std::vector<OpenRound> open;
};

// I no longer ask for admission (time-out or abort of the call).
struct AdmitCancel {
  Status status = Status::kTimedOut;
};

// I leave; the rounds in `open` I finish first. Answered by Left.
struct Leave {
  std::vector<OpenRound> open;
};

// End this round for everybody unless it is committed: a time-out, an abort, or arguments that differ.
struct StopRound {
  RoundKey key;
  Generation attempt;
  Status status = Status::kAborted;
  bool done = false;  // a Done for it was sent before
  std::string text;
};

// I cannot exchange bytes with this member although the coordinator says that it lives.
struct LinkBroken {
  PeerId other;
  std::string text;
};

// The state that I come to a sync with. `what` has the manifest's digest for its layout.
struct Claim {
  RoundKey key;
  Generation attempt;
  Descriptor what;
  state::Strategy strategy = state::Strategy::kPopular;
  bool defined = true;  // false: it was being taken over when its sources were lost, and is none
  std::uint64_t revision = 0;
  Digest root;
};

// The answer to AskOutline. Of a manifest: XXH3-64 of each entry. Of contents: the lower half of each tensor's digest
// (0 if it may differ), and the values' 64 bits.
struct StateOutline {
  RoundKey key;
  Generation attempt;
  std::uint32_t piece_bytes = 0;
  std::vector<std::uint64_t> tensors;
  std::vector<std::uint64_t> values;
  std::uint64_t revision = 0;  // of contents
};

// The answer to AskEntry: "w f32 [10]".
struct StateEntry {
  RoundKey key;
  Generation attempt;
  std::string text;
};

// I hold this state, and serve it to peers that wait for their admission, until I say that it `ends`. One for each tag:
// a newer one replaces it. `what`: as of a Claim.
struct Publish {
  Tag tag;
  Descriptor what;
  std::uint64_t revision = 0;
  Digest root;
  bool ends = false;
};

// I wait for my admission, and want this state in advance; until it `ends`. Answered by Published, again whenever that
// changes.
struct WantState {
  Tag tag;
  Descriptor what;
  bool ends = false;
};

// I have seen this proposal, I am frozen for the rounds it touches, and these are my open rounds.
struct Flush {
  ProposalNumber proposal;
  std::vector<OpenRound> open;
};

// ---- coordinator to peer ----

// So many peers wait for admission, and so many of those fetch a state in advance.
struct Pending {
  std::uint32_t count = 0;
  std::uint32_t fetching = 0;

  bool operator==(const Pending&) const = default;
};

// `peer` has called admit, for so many members, or admits by itself, with these rounds open; others that it has not
// launched in this cohort, it never will. Cohort 0: it has given up asking, and launches again.
struct Admitting {
  PeerId peer;
  CohortId cohort;
  std::uint32_t at_least = 1;
  bool by_itself = false;  // then the admission waits for nobody's numbers
  std::vector<OpenRound> open;
};

struct AdmitEnded {
  Status status = Status::kTimedOut;
  std::string text;
};

// A change of membership, or of the outcome of rounds, to be frozen for and acknowledged with a Flush. To a peer that
// waits, one of no view asks whether it answers. A later proposal
// replaces an earlier one. Rounds whose attempt has a member in `lost`, or one in `left` without being in `kept`, are
// touched, and so are those of the groups in `relinked` (the ring was laid around a broken link) and of groups that are
// bound with these: they take their verdict from `verdicts`; without one they are attempted again in the new
// generation, or end if their call says that they must not be.
struct Propose {
  ProposalNumber number;
  View view;
  std::vector<PeerId> lost;
  std::vector<PeerId> left;
  std::vector<GroupId> relinked;
  std::vector<RoundKey> kept;
  std::vector<Verdict> verdicts;
  LinkKey link_key;  // of the run; the same in all of its proposals
};

// Everybody has acknowledged; it holds.
struct Install {
  ProposalNumber number;
};

// All members of the cohort's group (with gangs: and of all groups that are bound with it) are done.
struct Commit {
  RoundKey key;
  Generation attempt;
  std::uint64_t hash = 0;
  bool admit_here = false;  // peers with auto_admit: the cohort ends with this round
  std::string parity;       // how the states differ that members watch; empty: they do not
};

// All members of the group have claimed a state, and some differ: this one is taken over by those who do not have it.
struct Elected {
  RoundKey key;
  Generation attempt;
  std::uint64_t revision = 0;
  Digest root;
  std::vector<PeerId> sources;    // have it, and send
  std::vector<PeerId> receivers;  // have it not
};

// What tells two states apart, entry by entry.
enum class Outlined : std::uint8_t { kManifest, kContents };

// You and another have claimed states that cannot both be, or watch states that should be equal: what is yours made of?
// The outlines tell where they differ first.
struct AskOutline {
  RoundKey key;
  Generation attempt;
  Outlined of = Outlined::kManifest;
};

// Which words stand for this entry of your manifest?
struct AskEntry {
  RoundKey key;
  Generation attempt;
  bool is_value = false;  // else a tensor
  std::uint32_t index = 0;
};

// A peer from which pieces of a state may be fetched.
struct Source {
  PeerId id;
  io::Address address;  // where it listens

  bool operator==(const Source&) const = default;
};

// To a peer that waits and wants a state: the newest that is published, and by whom. No source: nobody publishes it
// (any more); with a text, what members publish under this tag is something else.
struct Published {
  Tag tag;
  std::uint64_t revision = 0;
  Digest root;
  std::vector<Source> sources;
  LinkKey link_key;  // the waiting peer's own: wire/link_key.h
  std::string text;
};

struct Evicted {
  Status status = Status::kEvicted;
  std::string text;
};

// Your leaving is complete.
struct Left {};

struct RoundStatus {
  RoundKey key;
  Generation attempt;
  std::uint32_t done = 0;
  std::uint32_t members = 0;
};

struct StatusReply {
  View view;
  std::vector<Member> waiting;
  std::vector<RoundStatus> rounds;  // those of which at least one member is done
  bool proposal_open = false;
  Duration uptime;
  std::uint64_t commits = 0;
  std::uint64_t aborts = 0;
  std::uint64_t admitted = 0;
  std::uint64_t lost = 0;
  std::uint64_t left = 0;
  std::uint64_t bytes_reduced = 0;  // sum over committed rounds of the tensors' bytes on one peer
};

// ---- peer to peer ----

// To the upstream neighbour: I have launched this round. `landing`: places are ready, segments may come, except those
// whose bit is set in `have` (see ring/schedule.h for the order; empty: none). Said again on a stripe that was opened
// again.
struct Ready {
  RoundKey key;
  Generation attempt;
  Descriptor what;
  bool landing = true;
  std::vector<std::uint64_t> have;
};

// To the downstream neighbour: I have launched this round, whose only segment is small. `follows`: it comes next on
// this stream, asked for or not. Otherwise too many are under way, and it waits for Ready.
struct Offer {
  RoundKey key;
  Generation attempt;
  Descriptor what;
  bool follows = true;
};

// What the member at `rank` brings to a round: all-gather: a block of so many bytes; weighted average: a weight (the
// bits of an f32). Travels once around the ring.
struct Stake {
  RoundKey key;
  Generation attempt;
  Rank rank;
  std::uint64_t value = 0;
};

// To a source of the elected state: which digests do its pieces have, from this one on? And its answer; `values` (their
// 64 bits) with the first.
struct AskDigests {
  RoundKey key;
  Generation attempt;
  std::uint32_t first = 0;
};
struct PieceDigests {
  RoundKey key;
  Generation attempt;
  std::uint32_t first = 0;
  std::vector<Digest> digests;
  std::vector<std::uint64_t> values;
};

// To who has these pieces: send them. The answer is a segment for each.
struct AskPieces {
  RoundKey key;
  Generation attempt;
  std::vector<std::uint32_t> pieces;
};

// To fellow receivers: these pieces of the elected state are here, too.
struct HavePieces {
  RoundKey key;
  Generation attempt;
  std::vector<std::uint32_t> pieces;
};

enum class Phase : std::uint8_t { kReduceScatter, kAllGather, kState };

// A segment's header; `length` bytes of payload and the trailer follow.
struct Segment {
  RoundKey key;
  Generation attempt;
  Phase phase = Phase::kReduceScatter;
  SegmentIndex index;
  std::uint32_t length = 0;

  bool operator==(const Segment&) const = default;
};

// The order is the wire's type number, from 1: append only.
using Message =
    std::variant<Join, Link, StatusRequest, Refused, Waiting, LinkWelcome, Heartbeat, Done, Admit, AdmitCancel, Leave,
                 StopRound, LinkBroken, Flush, Pending, Admitting, AdmitEnded, Propose, Install, Commit, Evicted, Left,
                 StatusReply, Ready, Stake, Segment, Offer, Claim, Elected, AskDigests, PieceDigests, AskPieces,
                 HavePieces, AskOutline, StateOutline, AskEntry, StateEntry, Publish, WantState, Published>;

// Of those that peers say to each other: in a sync.
inline bool is_about_state(const Message& message) {
  return std::holds_alternative<AskDigests>(message) || std::holds_alternative<PieceDigests>(message) ||
         std::holds_alternative<AskPieces>(message) || std::holds_alternative<HavePieces>(message);
}

}  // namespace lockstep::wire

// Messages between peers and the coordinator, as plain structs. codec.h converts them to bytes and back.
//
// A stream starts, in both directions, with a preamble (magic, version, feature bits). Frames follow: a header of 24
// bytes (type, length, term, their CRC, checksum of header and body) and a body. The body of a Segment is followed by
// its payload and a trailer of 16 bytes (checksum of the payload, and whether the sender withdrew it).
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
#include "core/base/strategy.h"
#include "core/base/time.h"
#include "core/io/stream.h"
#include "core/kernels/formats/format.h"

namespace lockstep::wire {

inline constexpr std::uint64_t kMagic = 0x50455453'4b434f4cU;  // "LOCKSTEP" in memory order
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::uint64_t kFeatures = 0;  // none is defined yet; unknown bits of the other side are ignored

// ---- vocabulary ----

enum class Collective : std::uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kBarrier,
  kSync,
  kReduce,
  kGather,
  kScatter,
  kAllToAll,
};
inline constexpr std::uint8_t kCollectiveCount = 10;
constexpr std::string_view name_of(Collective collective) {
  constexpr std::string_view kNames[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "barrier",
                                         "sync_state", "reduce",         "gather",     "scatter",   "all_to_all"};
  return kNames[static_cast<std::size_t>(collective)];
}
// Whether one rank has a part of its own: the source of a broadcast or a scatter, the destination of a reduce or a
// gather.
constexpr bool has_root(Collective collective) {
  return collective == Collective::kBroadcast || collective == Collective::kReduce ||
         collective == Collective::kGather || collective == Collective::kScatter;
}
// Whether a block has one sender and one receiver, and goes from the one straight to the other.
constexpr bool exchanges(Collective collective) {
  return collective == Collective::kGather || collective == Collective::kScatter || collective == Collective::kAllToAll;
}
// Whether the ranks bring blocks whose sizes may differ: they tell each other the sizes before data flows.
constexpr bool has_blocks(Collective collective) {
  return collective == Collective::kAllGather || exchanges(collective);
}
// Whether contributions are combined by a reduction.
constexpr bool reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter ||
         collective == Collective::kReduce;
}

// Whether the bytes can go around the ring, direct, or in a grid.
constexpr bool has_choice(Collective collective) {
  return reduces(collective) || collective == Collective::kAllGather || collective == Collective::kBroadcast;
}

// How data travels. kRing: from rank to rank; every rank adds its contribution to the passing sum. kDirect: every rank
// sends its contribution to the owner of a chunk, which adds all of them and sends the result to all ranks. kGrid: the
// same with a relay between a rank and the owner, so that a rank needs links to the ranks of its row and its column
// (ring/grid.h). kAuto: all ranks choose one of these, by the view of the attempt (ring/choice.h).
enum class Algorithm : std::uint8_t { kRing, kDirect, kGrid, kAuto };
inline constexpr std::uint8_t kAlgorithmCount = 3;  // those that carry data
// Whether contributions are collected where pieces have owners, and not passed around the ring.
constexpr bool has_owners(Algorithm algorithm) {
  return algorithm == Algorithm::kDirect || algorithm == Algorithm::kGrid;
}
constexpr std::string_view name_of(Algorithm algorithm) {
  constexpr std::string_view kNames[] = {"ring", "direct", "grid", "auto"};
  return kNames[static_cast<std::size_t>(algorithm)];
}

// The arguments of a round. They must be equal on all peers (promise S10).
struct Descriptor {
  Collective collective = Collective::kBarrier;
  DataType type = DataType::kU8;
  ReduceOp op = ReduceOp::kSum;
  bool retry = true;                // retry among the survivors when a member is lost
  std::uint32_t minimum_world = 1;  // with fewer contributors the round returns kBelowMinimum
  std::uint32_t tensors = 0;
  std::uint64_t count = 0;  // elements of all tensors; 0 where blocks may differ (has_blocks())
  // XXH3-64 of the tensors' counts, in order; 0 where blocks may differ; for a state, of its manifest
  std::uint64_t layout = 0;
  PeerId root;                             // where has_root()
  Formats formats{};                       // all-reduce
  Algorithm algorithm = Algorithm::kRing;  // what the caller asks for; kRing where there is no choice
  bool weighted = false;                   // the contributions of an average have weights
  std::uint32_t segment_bytes = 0;         // configured size; 0: chosen from the size of the tensors, or no segments

  auto operator<=>(const Descriptor&) const = default;
};

// A member as all peers see it.
struct Member {
  PeerId id;
  GroupId group;
  GangId gang;
  io::Address address;    // the address that it listens on
  std::string name;       // for people; may be empty
  Duration round_trip{};  // round trip to the coordinator when it joined; 0: not known
  io::KeyDigest key{};    // of the key that the member proved to the coordinator; none in a run without TLS
  // How others reach it (rule 70; reach.h). Where the coordinator dials nobody back, these stay empty:
  bool calls_out = false;  // it dials others, and nobody can dial it from outside its network
  io::Address outside{};   // where the coordinator sees it: the address of its network; the port is 0
  io::Address local{};     // where it listens within its network; empty if that is `address`

  bool operator==(const Member&) const = default;
};

// One immutable membership. `members` is sorted by group, and within a group in ring order; the rank of a member is its
// index within its group. `cohort` is the newest cohort: the view that the last admission installed. `unmeshed`: the
// groups, in order, in which a link does not work, or had better be avoided. Their members do without links between all
// pairs.
struct View {
  Term term;
  ViewNumber number;
  CohortId cohort;
  std::vector<Member> members;
  std::vector<GroupId> unmeshed;

  bool operator==(const View&) const = default;
};

// A round that a peer has launched and whose outcome it does not know.
struct OpenRound {
  RoundKey key;
  Generation attempt;
  bool done = false;
  bool retry = false;
  std::uint64_t hash = 0;  // hash of the result, once done
  bool agreed = false;     // the members have committed it among themselves (rule 14)

  bool operator==(const OpenRound&) const = default;
};

// A proposal's verdict on one round. kOk: committed. Any other status ends this use of the tag with that status.
struct Verdict {
  RoundKey key;
  Generation attempt;
  Status status = Status::kOk;
  std::uint64_t hash = 0;  // hash of the committed result
  std::string text;        // of a committed round: like Commit.state_difference

  bool operator==(const Verdict&) const = default;
};

// ---- greeting: the first message of the dialling side ----

// To a coordinator: requests to join.
struct Join {
  PeerId peer;
  GroupId group;
  GangId gang;
  std::uint32_t gang_size = 1;
  std::uint32_t founders = 1;  // an empty run is founded when this many peers wait
  bool auto_admit = false;
  io::Address advertised;  // family kNone: use the source address of this stream, with this port
  std::string name;
  Duration round_trip{};  // round trip of the stream to the coordinator; 0: not known
  io::Address local{};    // the joiner's end of this stream, with the port that it listens on; empty if it is not known
};

// What a link is for, if it is wanted at all.
enum class LinkUse : std::uint8_t {
  kRing,
  kDirect,    // between ranks that are not neighbours, for the direct algorithm
  kTransfer,  // between two members that send tensors to each other (rule 44)
  kDialBack,  // no link: the coordinator tries whether the peer can be dialled (rule 70)
};

// To another peer: this stream is stripe `stripe` of our link. `key` is the run's key, which shows that the sender is a
// member, or the sender's own key if it waits for admission and prefetches what the other peer publishes
// (wire/link_key.h). Also from the coordinator, which dials a newcomer back, and names no peer and no
// key; the newcomer answers with the same, and its own id.
struct Link {
  PeerId from;
  PeerId to;
  StripeIndex stripe;
  std::uint16_t stripes = 1;
  LinkKey key;
  LinkUse use = LinkUse::kRing;
};

// To a coordinator: requests the status of the run.
struct StatusRequest {};

// ---- answers to a greeting ----

struct Refused {
  Status status = Status::kRefused;
  std::string text;
};

// The peer is in the waiting room. Sent again when a proposal that would have admitted the peer was withdrawn.
struct Waiting {
  io::Address seen_from;  // the joiner's address as the coordinator sees it, with the port that the joiner listens on
  Duration heartbeat;     // the longest time between two messages of the peer
  Duration silence;       // after this time without a byte, each side treats the other as lost
};

struct LinkWelcome {};

// ---- both ways, on every stream ----

// Shows that the sender is alive.
struct Heartbeat {};

// ---- peer to coordinator ----

// The sender's part of this round is complete, and it holds the whole result. Small groups also exchange Done directly.
struct Done {
  RoundKey key;
  Generation attempt;
  Descriptor what;
  std::uint64_t hash = 0;
  std::uint64_t state_fingerprint = 0;  // of the state that this peer watches, at the launch; 0: none
  std::string fetched{};                // sync: the part of its state that the peer has fetched, in words
};

// Requests the admission of waiting peers. The sender launches nothing more into `cohort`. The answer is Install or
// AdmitEnded.
struct Admit {
  CohortId cohort;
  std::uint32_t at_least = 1;  // the new view must have at least this many members
  // auto_admit, without a call: other peers may wait for more members, but this peer's calls do not
  bool automatic = false;
  std::vector<OpenRound> open;
};

// Withdraws the request for admission (the call timed out or was aborted).
struct AdmitCancel {
  Status status = Status::kTimedOut;
};

// The peer leaves after the rounds in `open`. The answer is Left.
struct Leave {
  std::vector<OpenRound> open;
};

// Ends this round for all members unless it is committed: after a timeout, an abort, or different arguments.
struct StopRound {
  RoundKey key;
  Generation attempt;
  Status status = Status::kAborted;
  bool done = false;  // a Done for the round was sent before
  std::string text;
  PeerId other{};  // the member whose arguments differ from the sender's; nobody: something else ends the round
};

// The sender cannot exchange bytes with this member, although the member is in the view. `avoid`: the link may work
// again, so that it costs no member the run: a ring avoids it if there is another one (rule 51).
struct LinkBroken {
  PeerId other;
  std::string text;
  bool avoid = false;
};

// The state with which the sender enters a sync. The layout in `what` is the digest of the manifest.
struct Claim {
  RoundKey key;
  Generation attempt;
  Descriptor what;
  state::Strategy strategy = state::Strategy::kPopular;
  bool defined = true;  // false: the state was being taken over when its sources were lost, and is undefined
  std::uint64_t revision = 0;
  Digest root;
  Lineage lineage;
};

// Answers AskOutline. Manifest: XXH3-64 of each entry. Contents: the lower half of each tensor's digest (0 if it may
// differ), and the 64 bits of each value.
struct StateOutline {
  RoundKey key;
  Generation attempt;
  std::uint32_t piece_bytes = 0;
  std::vector<std::uint64_t> tensors;
  std::vector<std::uint64_t> values;
  std::uint64_t revision = 0;  // contents only
};

// Answers AskEntry, for example with "w f32 [10]".
struct StateEntry {
  RoundKey key;
  Generation attempt;
  std::string text;
};

// The sender has this state and serves it to waiting peers until it sends `ends`. Each tag has one publication; a newer
// one replaces it. `what` is like that of a Claim.
struct Publish {
  Tag tag;
  Descriptor what;
  std::uint64_t revision = 0;
  Digest root;
  Lineage lineage;
  bool ends = false;
};

// From a waiting peer: requests this state in advance, until it sends `ends`. The answer is Published, and again after
// each change. `holds`: the peer has one of these states, whole, and wants newer ones (rule 49).
struct WantState {
  Tag tag;
  Descriptor what;
  bool ends = false;
  bool holds = false;
};

// Where a member is with a call that others wait for.
enum class CallStage : std::uint8_t { kToCome, kCalled, kOver };

// The sender has waited for this call for some seconds, or is asked about it (CallAwaited); rule 54.
struct CallWaits {
  RoundKey key;
  Generation attempt;
  Collective collective = Collective::kBarrier;
  CallStage stage = CallStage::kCalled;
  Duration age{};    // kCalled: since the launch
  std::string busy;  // kToCome: what the sender does instead: "in all_reduce with tag 3", "in no call"
};

// A point-to-point transfer that has waited for its partner for some seconds.
struct TransferWait {
  PeerId other;
  Tag tag;
  bool receives = false;
  Duration age{};

  bool operator==(const TransferWait&) const = default;
};

// The oldest of the sender's transfers that wait long (rule 54). Replaces what it said before; empty: none waits.
struct TransfersWait {
  std::vector<TransferWait> transfers;
};

// Acknowledges a proposal: the sender has frozen the rounds that it touches and lists its open rounds.
struct Flush {
  ProposalNumber proposal;
  std::vector<OpenRound> open;
};

// ---- coordinator to peer ----

// The number of peers that wait for admission; how many of those prefetch a state and have none yet; and how many hold
// a published state.
struct Pending {
  std::uint32_t count = 0;
  std::uint32_t fetching = 0;
  std::uint32_t holding = 0;

  bool operator==(const Pending&) const = default;
};

// `peer` has called admit (or admits automatically), asks for `at_least` members, and has these rounds open. It
// launches no other round in this cohort. Cohort 0: the peer has withdrawn its request and launches rounds again.
struct Admitting {
  PeerId peer;
  CohortId cohort;
  std::uint32_t at_least = 1;
  bool automatic = false;  // automatic: the admission does not wait for a number of members
  std::vector<OpenRound> open;
};

struct AdmitEnded {
  Status status = Status::kTimedOut;
  std::string text;
};

// Proposes a change of membership or outcomes. A peer freezes the touched rounds and answers with a Flush. A proposal
// with view 0, sent to a waiting peer, checks whether the peer answers. A later proposal replaces an earlier one.
//
// A round is touched if its attempt has a member in `lost`, or a member in `left` that is not in `kept`, or if its
// group is in `relinked` (the ring avoids a broken link) or is bound to a touched group. A touched round takes its
// verdict from `verdicts`. Without a verdict, it is attempted again in the new generation, or ends if its call does not
// retry.
struct Propose {
  ProposalNumber number;
  View view;
  std::vector<PeerId> lost;
  std::vector<PeerId> left;
  std::vector<GroupId> relinked;
  std::vector<RoundKey> kept;
  std::vector<Verdict> verdicts;
  LinkKey link_key;  // the run's key; equal in all of its proposals
};

// All peers have acknowledged the proposal; it takes effect.
struct Install {
  ProposalNumber number;
};

// All members of the cohort's group are done (with gangs: of all bound groups).
struct Commit {
  RoundKey key;
  Generation attempt;
  std::uint64_t hash = 0;
  bool admit_here = false;  // peers with auto_admit: this round is the last one of its cohort
  // the differences between watched states, or the states that a sync has repaired (rule 55); empty: none
  std::string state_difference;
};

// All members of the group have claimed a state, and some states differ: the receivers take over the elected state, and
// all take over its lineage.
struct Elected {
  RoundKey key;
  Generation attempt;
  std::uint64_t revision = 0;
  Digest root;
  Lineage lineage;
  std::vector<PeerId> sources;    // members that have the state and send it
  std::vector<PeerId> receivers;  // members that do not have the state
};

// What an outline lists.
enum class Outlined : std::uint8_t { kManifest, kContents };

// Two claimed states contradict each other, or two watched states differ: requests the outline of the receiver's state.
// The outlines show the first difference.
struct AskOutline {
  RoundKey key;
  Generation attempt;
  Outlined of = Outlined::kManifest;
};

// Requests the description of this entry of the manifest.
struct AskEntry {
  RoundKey key;
  Generation attempt;
  bool is_value = false;  // false: a tensor
  std::uint32_t index = 0;
};

// Members have waited for this call for some seconds. `missing` is 0: asks whether the receiver has called it, which
// CallWaits answers. Otherwise: so many members have not, and the text names them (rule 54). No key: the call is admit.
struct CallAwaited {
  RoundKey key;
  Generation attempt;
  Collective collective = Collective::kBarrier;
  std::uint32_t missing = 0;
  std::string text;
};

// To a coordinator, as the first message of a stream: an administrator asks to take this peer out of the run (rule 69).
struct EvictRequest {
  PeerId peer;
};

// Answers EvictRequest.
struct EvictReply {
  bool evicted = false;  // false: no such peer is in the run, or waits
  std::string text;      // in words
};

// A peer that serves pieces of a state.
struct Source {
  PeerId id;
  io::Address address;  // the address that it listens on
  io::KeyDigest key{};  // as a Member's

  bool operator==(const Source&) const = default;
};

// To a waiting peer that wants a state: the newest published revision and its sources. No source: no member publishes
// the state. With a text: members publish a state with another manifest under this tag.
struct Published {
  Tag tag;
  std::uint64_t revision = 0;
  Digest root;
  Lineage lineage;
  std::vector<Source> sources;
  LinkKey link_key;  // the waiting peer's own key: wire/link_key.h
  std::string text;
};

// `round`: with `mismatch` or `state conflict`, the round in which the receiver ends alone; it does not commit with it.
struct Evicted {
  Status status = Status::kEvicted;
  std::string text;
  RoundKey round{};
};

// The peer's departure is complete.
struct Left {};

struct RoundStatus {
  RoundKey key;
  Generation attempt;
  std::uint32_t done = 0;
  std::uint32_t members = 0;
};

// What went wrong lately with a peer, or with the link between two.
struct Trouble {
  Duration age;
  PeerId peer;
  PeerId other;  // nobody: no link
  std::string text;
};

// A call that waits long. `come`: members that are in it; `missing`: members that it waits for; at most kMaxNamedInWait
// of each.
struct WaitStatus {
  std::string call;  // "all_reduce", "admit", "send", "receive"
  RoundKey key;      // of a collective; of others, the tag alone
  Duration age{};
  std::vector<PeerId> come;
  std::vector<PeerId> missing;
  std::string text;
};

// The run token or the certificate by which a peer has joined.
struct Proof {
  PeerId peer;
  std::string by;  // "token 0123456789abcdef (team)", "certificate 'CN=a' (SHA-256 AB:CD:...)"
};

struct StatusReply {
  View view;
  std::vector<Member> waiting;
  std::vector<RoundStatus> rounds;  // rounds with at least one member that is done
  bool proposal_open = false;
  Duration uptime;
  std::uint64_t commits = 0;
  std::uint64_t aborts = 0;
  std::uint64_t repairs = 0;  // syncs that overwrote states that had strayed (rule 55)
  std::uint64_t admitted = 0;
  std::uint64_t lost = 0;
  std::uint64_t left = 0;
  std::uint64_t bytes_reduced = 0;  // bytes of the tensors on one peer, summed over committed rounds
  std::vector<Trouble> troubles;    // the newest last
  std::vector<WaitStatus> waits;    // the oldest first
  std::vector<Proof> proofs;        // of members, and of peers that wait; none in a run without TLS
};

// ---- peer to peer ----

// To the upstream neighbour, or with a direct algorithm to all others: the sender has launched this round. `landing`:
// its memory is ready for all segments, except those whose bit is set in `have` (in the order of ring/schedule.h;
// empty: none). `parameter`: direct: what the receiver must know of the sender before data flows (RankParameter), if
// there is something. Sent again on a stripe that was opened again.
struct Ready {
  RoundKey key;
  Generation attempt;
  Descriptor what;
  bool landing = true;
  std::vector<std::uint64_t> have;
  bool has_parameter = false;
  std::uint64_t parameter = 0;
};

// To the downstream neighbour: the sender has launched this round, which consists of one small segment. `follows`: the
// segment comes next on this stream, whether it was requested or not. Otherwise too many segments are under way, and
// this one waits for Ready.
struct Offer {
  RoundKey key;
  Generation attempt;
  Descriptor what;
  bool follows = true;
};

// The parameter of the member at `rank`. All-gather: the bytes of its block. Weighted average: its weight (the bits of
// an f32). Travels once around the ring; with a direct algorithm each member tells its own in Ready. There, too, is the
// size of the block that an exchange has for the receiver. In a grid each member tells its own in Ready, and a relay
// tells its row those of the members for which it is the relay; of a broadcast it tells the root which members of its
// row have launched the round (0).
struct RankParameter {
  RoundKey key;
  Generation attempt;
  Rank rank;
  std::uint64_t value = 0;
};

// To a source of the elected state: requests the digests of its pieces from this piece on. PieceDigests answers; the
// first answer also has the 64 bits of each value.
struct AskDigests {
  RoundKey key;
  AttemptId attempt;
  std::uint32_t first = 0;
};
struct PieceDigests {
  RoundKey key;
  AttemptId attempt;
  std::uint32_t first = 0;
  std::vector<Digest> digests;
  std::vector<std::uint64_t> values;
};

// To a peer that has these pieces: requests them. Each is answered by a Segment.
struct AskPieces {
  RoundKey key;
  AttemptId attempt;
  std::vector<std::uint32_t> pieces;
};

// To fellow receivers: the sender has these pieces of the elected state, too; `whole`: has all of them.
struct HavePieces {
  RoundKey key;
  AttemptId attempt;
  std::vector<std::uint32_t> pieces;
  bool whole = false;
};

// ---- point-to-point transfers: from member to member ----
//
// Offers and reports are neither lost nor repeated (rule 45): each direction of a pair numbers them from 1, and each
// message says the highest number that its sender has heard, with all numbers before.

// The sender wants to send a tensor. Receives take the offers of one tag in the order of their ids.
struct SendOffer {
  std::uint64_t number = 0;
  std::uint64_t heard = 0;
  std::uint64_t id = 0;  // of the send, among those from its sender to this receiver: from 1, without a gap
  Tag tag;
  DataType type = DataType::kU8;
  std::uint64_t count = 0;
  std::uint32_t segment_bytes = 0;
  bool eager = false;  // the only segment comes next on this stream, whether it was asked for or not

  bool operator==(const SendOffer&) const = default;
};

// The state of a send. The first four: from the receiver. Each offer is answered by one of kHeld, kReceived and
// kRefused; kFreed follows kHeld.
enum class SendState : std::uint8_t {
  kHeld,       // the receiver has the tensor in its early buffer
  kFreed,      // a receive has taken that tensor, or nobody will
  kReceived,   // a receive has taken the tensor
  kRefused,    // no receive takes it, or the receive that would have taken it has failed
  kWithdrawn,  // from the sender: the send has ended without the receiver
};
struct SendReport {
  std::uint64_t number = 0;
  std::uint64_t heard = 0;
  std::uint64_t id = 0;
  SendState state = SendState::kHeld;
  Status status = Status::kOk;  // kRefused, kWithdrawn
  std::string text;

  bool operator==(const SendReport&) const = default;
};

// To the sender of this send: a receive has memory for all segments, except those whose bit is set in `have` (empty:
// none). Said again on a stripe that was opened again.
struct SendReady {
  std::uint64_t id = 0;
  std::vector<std::uint64_t> have;
};

// The highest number that the sender of this message has heard. `answer`: wants to know the same at once.
struct SendsHeard {
  std::uint64_t heard = 0;
  bool answer = false;
};

enum class Phase : std::uint8_t { kReduceScatter, kAllGather, kState, kTransfer };

// The name of a send on streams; its segments have no attempt.
constexpr RoundKey send_key(std::uint64_t id) { return {CohortId{0}, GroupId{0}, Tag{id}, 1}; }

// The header of a segment; `length` bytes of payload and the trailer follow.
struct Segment {
  RoundKey key;
  AttemptId attempt;
  Phase phase = Phase::kReduceScatter;
  SegmentIndex index;
  std::uint32_t length = 0;

  bool operator==(const Segment&) const = default;
};

// From a member: asks this member, which nobody can dial, to dial the sender (rule 70). From the coordinator: that
// member asks the receiver to dial it.
struct Knock {
  PeerId other;
};

// The position is the type number on the wire, from 1. Append only.
using Message = std::variant<Join, Link, StatusRequest, Refused, Waiting, LinkWelcome, Heartbeat, Done, Admit,
                             AdmitCancel, Leave, StopRound, LinkBroken, Flush, Pending, Admitting, AdmitEnded, Propose,
                             Install, Commit, Evicted, Left, StatusReply, Ready, RankParameter, Segment, Offer, Claim,
                             Elected, AskDigests, PieceDigests, AskPieces, HavePieces, AskOutline, StateOutline,
                             AskEntry, StateEntry, Publish, WantState, Published, SendOffer, SendReport, SendReady,
                             SendsHeard, CallWaits, TransfersWait, CallAwaited, EvictRequest, EvictReply, Knock>;

// Whether the message belongs to a sync, among the messages between peers.
inline bool is_about_state(const Message& message) {
  return std::holds_alternative<AskDigests>(message) || std::holds_alternative<PieceDigests>(message) ||
         std::holds_alternative<AskPieces>(message) || std::holds_alternative<HavePieces>(message);
}

// Whether the message belongs to a point-to-point transfer.
inline bool is_about_sends(const Message& message) {
  return std::holds_alternative<SendOffer>(message) || std::holds_alternative<SendReport>(message) ||
         std::holds_alternative<SendReady>(message) || std::holds_alternative<SendsHeard>(message);
}

}  // namespace lockstep::wire

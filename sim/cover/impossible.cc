#include "sim/cover/impossible.h"

#include <algorithm>
#include <optional>
#include <string>

namespace lockstep::sim::cover {
namespace {

using enum Matrix;

// The peer is not a member yet.
constexpr std::string_view kNotIn = "looking dialling greeting waiting invited";
// The messages that peers receive.
constexpr std::string_view kToPeers =
    "Link Waiting LinkWelcome Heartbeat Done Pending Admitting AdmitEnded Propose Install Commit Evicted Left Ready "
    "RankParameter Segment Offer Elected AskDigests PieceDigests AskPieces HavePieces AskOutline AskEntry Published "
    "SendOffer SendReport SendReady SendsHeard CallAwaited Knock";

constexpr Reason kImpossible[] = {
    // ---- peer-input ----
    {kPeerInput, "!new", "Connect", "an application of the simulator calls connect once in the life of a process"},
    {kPeerInput, "new", "!Connect Abandon",
     "connect is the first call of an application, and a new peer has asked its driver for nothing"},
    {kPeerInput, kNotIn, "Launch Admit Leave Stop Publish Send Receive",
     "until connect completes, applications call only prefetch, and the nemesis stops no connect"},
    {kPeerInput, "idle in-rounds admitting frozen leaving going over", "Prefetch",
     "applications call prefetch only until connect completes or the run is over (App::prefetch)"},
    {kPeerInput, "leaving going over", "Launch Admit Leave Publish Send Receive",
     "leave is the last call of an application (App::Phase), and an application makes no call when its run is over"},
    {kPeerInput, "in-rounds admitting", "Publish",
     "an application calls publish when a sync has committed or a step is over, before any other call, and syncs with "
     "no other call open"},
    {kPeerInput, "over", "Stop Abandon", "an application does nothing when its run is over (App::on_event)"},
    {kPeerInput, "!new looking over", "Resolved Listening",
     "both inputs come before the peer dials the coordinator; the peer resolves the address again only when the dial "
     "has failed"},
    {kPeerInput, "looking dialling greeting", "Revoked",
     "a peer revokes loans of rounds and of prefetched states, and has none of them yet"},
    {kPeerInput, "over", "Revoked",
     "a peer revokes loans of streams to neighbours; it has closed these streams, and a closed stream reports only "
     "Closed"},
    {kPeerInput, "looking", "Opened ReadDone WriteDone",
     "the peer has dialled nobody, and accepts no stream before the coordinator has named its neighbours"},
    {kPeerInput, "dialling", "WriteDone",
     "the peer writes nothing to the coordinator before the stream opens, and nothing to strangers at its port"},
    {kPeerInput, "greeting", "Opened",
     "the stream to the coordinator is open, and the peer dials others only when the coordinator has named them"},
    {kPeerInput, "over", "Opened", "the peer has asked to close all streams, and they report only Closed"},

    // ---- peer-message ----
    {kPeerMessage, "*",
     "Join StatusRequest Admit AdmitCancel Leave StopRound LinkBroken Flush StatusReply Claim "
     "StateOutline StateEntry Publish WantState CallWaits TransfersWait EvictRequest EvictReply",
     "peers send these messages to the coordinator only; StatusReply answers a request that nobody in a World sends, "
     "and EvictReply one of an administrator"},
    {kPeerMessage, "!greeting waiting idle frozen admitting leaving in-rounds", "Refused",
     "Refused answers a Join, or a prefetch link, which closes when a proposal admits the prefetcher; another link is "
     "refused only if a bit flips in its greeting: all peers have the same run and release, and each has its own port"},
    {kPeerMessage, "new looking dialling", kToPeers, "no stream is open yet"},
    {kPeerMessage, "greeting waiting invited", "CallAwaited", "the coordinator asks members, and tells them"},
    {kPeerMessage, "greeting waiting invited", "Knock", "members ask each other, by way of the coordinator"},
    {kPeerMessage, "over", kToPeers, "a peer that is out of the run has closed its streams"},
    {kPeerMessage, "!new looking dialling greeting invited over", "Waiting",
     "Waiting answers Join, or puts off a peer that was invited"},
    {kPeerMessage, "greeting",
     "Heartbeat Pending Admitting AdmitEnded Propose Install Commit Evicted Left Elected AskOutline AskEntry Published",
     "Waiting is the first message of the coordinator"},
    {kPeerMessage, "greeting", "LinkWelcome Segment PieceDigests",
     "a link opens only when the coordinator has named a neighbour or a source to prefetch from"},
    {kPeerMessage, "greeting waiting", "Done Ready RankParameter Offer AskDigests AskPieces HavePieces",
     "neighbours send these messages, and a proposal names them; on a prefetch link only the prefetcher asks"},
    {kPeerMessage, "greeting waiting invited", "SendOffer SendReport SendReady SendsHeard",
     "applications send to members that have contributed to their last all-gather"},
    {kPeerMessage, "going", "SendReady", "a leaver says so when the last of its sends is answered"},
    {kPeerMessage, "waiting", "Elected AskOutline AskEntry",
     "the coordinator sends these messages to members, about claims that only members send"},
    {kPeerMessage, "invited", "Elected AskOutline AskEntry AskDigests PieceDigests AskPieces HavePieces",
     "the coordinator compares and elects states when this peer has sent a claim, too; its prefetch links are closed"},
    {kPeerMessage, "invited", "Done",
     "a neighbour sends Done when it has the contributions of all members; this peer contributes only after it has "
     "installed the view"},
    {kPeerMessage, "idle admitting", "Elected",
     "Elected comes before the verdict on the round, and applications make no other call until then"},
    {kPeerMessage, "idle", "AskOutline AskEntry", "both messages come before the verdict on the round"},
    {kPeerMessage, "idle in-rounds admitting frozen leaving going", "Published",
     "the coordinator sends Published to peers that wait for their admission"},
    {kPeerMessage, "waiting invited", "Pending Admitting AdmitEnded Commit Left",
     "the coordinator sends these messages to members, or answers messages of members"},
    {kPeerMessage, "waiting idle in-rounds admitting", "Install",
     "Install follows a proposal, and the peer is in another state until then"},
    {kPeerMessage, "invited", "RankParameter",
     "a neighbour sends RankParameter to a peer that has sent Ready, and a peer sends Ready in a round"},
    {kPeerMessage, "idle in-rounds going", "AdmitEnded",
     "AdmitEnded answers a cancelled admit, and leave waits for the answer"},
    {kPeerMessage, "idle in-rounds admitting frozen leaving", "Left", "Left answers Leave"},

    // ---- round-message ----
    {kRoundMessage, "queued", "*", "a queued round gets its name when the next cohort begins"},
    {kRoundMessage, "to-come held starting flowing stuck given-up", "Commit",
     "a round commits when all members have sent Done; this peer has sent it, too, and cannot take it back"},
    {kRoundMessage, "!queued sizes", "Elected",
     "Elected follows the claim of this peer; the claim holds until the coordinator's next message about the round"},
    {kRoundMessage, "!queued sizes done", "AskOutline AskEntry",
     "both messages follow the claim or the Done of this peer, which hold until the coordinator's next message about "
     "the round"},
    {kRoundMessage, "to-come", "AskDigests PieceDigests HavePieces",
     "members of a sync send these messages when all members have sent a claim, this peer too"},
    {kRoundMessage, "stuck", "AskDigests PieceDigests AskPieces HavePieces",
     "a sync can run in every view: it has no root and no minimum world, and it is not queued where applications call "
     "admit"},
    {kRoundMessage, "sizes", "Done",
     "neighbours send Done for all-reduces only, and an all-reduce does not wait for sizes"},

    // ---- round-event ----
    {kRoundEvent, "!ending", "Left",
     "Left comes when the rounds that were kept for the leaver are decided; its other rounds ended before"},

    {kRoundEvent, "!sizes", "Elected",
     "applications sync with no other call open, and Elected comes while that round is claimed"},

    // ---- coordinator-input ----
    {kCoordinatorInput, "*", "Revoked",
     "a peer revokes loans of its rounds; the coordinator lends no memory for rounds"},

    // ---- coordinator-message ----
    {kCoordinatorMessage, "*",
     "Refused Waiting LinkWelcome Pending Admitting AdmitEnded Propose Install Commit Evicted Left StatusReply "
     "Ready RankParameter Segment Offer Elected AskDigests PieceDigests AskPieces HavePieces AskOutline AskEntry "
     "Published SendOffer SendReport SendReady SendsHeard CallAwaited EvictReply",
     "peers send none of these to the coordinator (Session::say), and no peer takes its address for a neighbour's"},
    {kCoordinatorMessage, "*", "StatusRequest",
     "only `lockstep status` sends StatusRequest, and no process of a World runs it"},
    {kCoordinatorMessage, "empty", "Done StopRound Claim StateOutline StateEntry",
     "only members and leavers have rounds, and there are none"},
    {kCoordinatorMessage, "empty founding", "CallWaits TransfersWait Knock", "only members have calls, and transfers"},
    {kCoordinatorMessage, "empty seeing-off founding", "Publish",
     "only members publish, and a member ends its publication before it leaves"},
    {kCoordinatorMessage, "empty seeing-off founding", "Admit AdmitCancel Leave",
     "newcomers do not make these calls, and a leaver has made them before: leave is its last call, after admit"},
    {kCoordinatorMessage, "admitting", "Admit", "an admission is open only when all members have called admit"},
    {kCoordinatorMessage, "admitting", "Leave", "all members have an open admit, and leave waits for it"},
    {kCoordinatorMessage, "settling", "Admit Leave",
     "all members have answered a proposal, and send neither until the proposal is installed"},

    // ---- coordinator-fault ----
    {kCoordinatorFault, "*",
     "crash vanish kernels join leave stop timeout mismatch skip spoil drift abandon mute flip miscompute refuse "
     "lie shut",
     "the coordinator's host can only be stalled or cut off (validate_entry)"},
};

constexpr Reason kUnreached[] = {
    {kPeerFault, "frozen", "strangers", "strangers come in the round trip between a proposal and its installation"},
    {kCoordinatorMessage, "seeing-off admitting settling", "TransfersWait",
     "a transfer has waited for six heartbeats at the moment of an admission, or while the last member leaves"},
    {kPeerMessage, "leaving", "SendReady",
     "a member asks one that has just called leave for a tensor, before it hears so"},
    {kPeerMessage, "going", "SendOffer SendReport",
     "another member sends to one that has said Leave, or frees what it held of it, before it installs that view"},
    {kPeerInput, "looking", "Closed",
     "a stranger connects, and its stream ends, while the peer looks up the name of its coordinator"},
    {kPeerInput, "going", "Revoked", "a round that was kept for a leaver ends while a stream still holds its memory"},
    {kPeerInput, "leaving", "Abandon", "the program closes its communicator in the round trip of its leave"},
    {kPeerInput, "waiting invited", "Revoked",
     "a newer state replaces the state that the peer prefetches, or the peer is admitted, while a piece is on its way"},
    {kPeerMessage, "admitting", "PieceDigests",
     "a sync is stopped while the answer of a source is on its way, and the program calls admit before it arrives"},
    {kPeerInput, "dialling", "ReadDone",
     "a stranger has found the port and sends bytes before the coordinator accepts the dial"},
    {kPeerMessage, "invited", "Evicted",
     "the peer is lost during the proposal that names it, and receives Evicted before its stream ends"},
    {kPeerMessage, "admitting frozen leaving idle in-rounds", "Refused",
     "a bit flips in the greeting of a link that was opened just before"},
    {kPeerMessage, "leaving", "AskOutline AskEntry",
     "a member calls leave between its claim and the coordinator's question about states that differ"},
    {kRoundMessage, "held", "PieceDigests",
     "a source answers a question of an earlier attempt while the next sync waits for its proposal to be installed"},
    {kCoordinatorMessage, "settling", "StateEntry",
     "a claimant answers a comparison while the coordinator waits for the last answer to a proposal"},
    {kPeerMessage, "leaving", "Evicted", "a leaving member is evicted just before the coordinator sends Left"},
    {kPeerMessage, "leaving", "Offer",
     "a neighbour announces an eager segment after this member has called leave and before the coordinator knows"},
    {kPeerFault, "held", "cut mismatch lie",
     "the fault begins in the round trip in which a round waits for a proposal to be installed"},
    {kCoordinatorFault, "changing", "slow", "a line gets slow in the round trip of a proposal"},
    {kPeerMessage, "idle leaving going", "Knock",
     "another member begins its first transfer to this one between two of its calls, or after its last one"},
    {kRoundMessage, "to-come", "RankParameter",
     "in a grid, a relay tells the root of a broadcast which members have launched it, before the root has"},
    {kCoordinatorMessage, "seeing-off founding", "Link",
     "a newcomer answers its dial back while a leaver is the last to finish a round, or while the run is founded"},
    {kCoordinatorInput, "seeing-off founding settling", "Opened",
     "a newcomer is dialled back while a leaver is the last to finish a round, or in the round trip of a last "
     "proposal"},
    {kCoordinatorMessage, "seeing-off in-rounds", "Knock",
     "a member begins its first transfer to a caller while a round is open, or another member is the last to finish "
     "one"},
    {kPeerFault, "held leaving", "shut", "the fault begins in the round trip of a proposal or a leave"},
    {kPeerFault, "admitting", "flip lie",
     "the fault begins in the round trip between a call of admit and its proposal"},
    {kPeerFault, "ending", "lie", "a host begins to lie while a round of its gives its memory back"},
    {kCoordinatorFault, "gathering", "strangers",
     "the fault begins in the round trip between the first and the last call of admit"},
    {kCoordinatorMessage, "gathering", "StateEntry",
     "a claimant answers a comparison just after another member has called admit"},
    {kRoundMessage, "ending", "Offer RankParameter",
     "a neighbour starts another attempt, or repeats a message on a new stream, while an ended round waits for its "
     "memory"},
    {kRoundMessage, "given-up held", "RankParameter",
     "an all-gather has one attempt only: a neighbour launched an all-gather where this peer launched another "
     "collective"},
    {kRoundMessage, "held", "Done",
     "a neighbour's Done is on its way while one proposal is installed and the next one is made"},
    {kRoundMessage, "starting flowing", "AskDigests",
     "a peer was a source when the round was given up and is a receiver in the next attempt; a late question arrives"},
    {kRoundMessage, "to-come", "AskPieces",
     "a receiver asks for pieces in the next attempt of a sync before the source has heard that this attempt begins"},
    {kRoundMessage, "starting", "AskPieces",
     "a receiver has no pieces yet: the question belongs to an earlier attempt, in which the peer was a source"},
    {kRoundMessage, "done", "PieceDigests",
     "the stream of a receiver was reset; the receiver got all pieces from another source, and then the first source "
     "answers on another stream"},
    {kRoundMessage, "given-up ending", "AskDigests PieceDigests",
     "a round waits for its memory although no piece is digested: a piece is being sent or received"},
    {kRoundEvent, "sizes held stuck given-up ending", "AdmitEnded",
     "an admit is cancelled while an older call continues; that call was stopped, too, but its attempt had changed"},
    {kRoundEvent, "given-up ending", "Evicted",
     "Evicted is the first message of a read while a round waits for an admission or for its memory"},
    {kRoundEvent, "given-up", "Launch", "an application launches a call while another call waits for its memory"},
    {kCoordinatorMessage, "seeing-off", "Flush",
     "an admission is withdrawn, and none follows, while the answer of a slow newcomer is on its way"},
    {kCoordinatorMessage, "empty founding", "LinkBroken",
     "a link is reported after 16 heartbeats, and the first proposal of newcomers is open for 6 at most; the report "
     "needs a series of withdrawn proposals"},
    {kCoordinatorMessage, "seeing-off", "LinkBroken",
     "a leaver that is still to finish a round reports one of its links after all other members have gone"},
    // Since far members agree among themselves, their rounds end sooner, and so do these states.
    {kRoundMessage, "held", "AskDigests",
     "a receiver asks for the digests of an attempt that this member has given up, and that waits for a proposal"},
    {kRoundMessage, "given-up", "Done", "a member is done with an attempt whose memory another member takes back"},
    {kRoundEvent, "given-up", "Admitting", "a member hears of another's admit while a round takes its memory back"},
    {kCoordinatorMessage, "admitting", "Claim", "a claim comes between an admission's proposal and its last answer"},
    {kCoordinatorMessage, "seeing-off", "CallWaits", "a leaver waits long in its last round"},
    {kPeerFault, "stuck", "mute lie",
     "a host begins to lie, or falls silent, while a refused round waits for its verdict"},
    {kCoordinatorFault, "seeing-off", "stall cut-both reset silence slow strangers drip",
     "a fault begins while a leaver is the last to finish a round, and no admission is under way"},
    {kCoordinatorInput, "empty seeing-off gathering founding admitting settling", "ChangeGrants",
     "a token is revoked, which few plans do, while the coordinator waits for an answer or has no members"},
    {kCoordinatorMessage, "seeing-off founding", "StateOutline StateEntry",
     "all members leave while two of them compare their states, and others found the run anew before the comparison "
     "ends"},
};

// Marks the names that `words` choose. Returns nothing if a word is none of the names; `unknown` is that word.
std::optional<std::vector<bool>> chosen(std::string_view words, std::span<const std::string_view> names,
                                        std::string& unknown) {
  const bool all_but = words.starts_with('!');
  if (words == "*") return std::vector<bool>(names.size(), true);
  if (all_but) words.remove_prefix(1);
  std::vector<bool> chosen(names.size(), all_but);
  while (!words.empty()) {
    const std::string_view word = words.substr(0, words.find(' '));
    words.remove_prefix(std::min(words.size(), word.size() + 1));
    const auto at = std::find(names.begin(), names.end(), word);
    if (at == names.end()) {
      unknown = word;
      return {};
    }
    chosen[static_cast<std::size_t>(at - names.begin())] = !all_but;
  }
  return chosen;
}

// Writes the reasons of the list to the cells that it names. `other`: the reasons of the other list. No cell has two.
std::optional<Error> spread(std::span<const Reason> list, std::vector<std::string_view>& into,
                            const std::vector<std::string_view>& other) {
  for (const Reason& reason : list) {
    const Shape& shape = shape_of(reason.matrix);
    std::string unknown;
    const auto rows = chosen(reason.rows, shape.rows, unknown);
    const auto columns = chosen(reason.columns, shape.columns, unknown);
    if (!rows || !columns) {
      return Error{Status::kInvalidArgument,
                   std::string(shape.name) + " has no '" + unknown + "' (why: " + std::string(reason.why) + ")"};
    }
    for (Cell in = 0; in < shape.size(); ++in) {
      if (!(*rows)[in / shape.columns.size()] || !(*columns)[in % shape.columns.size()]) continue;
      const Cell cell = shape.first + in;
      if (!into[cell].empty() || !other[cell].empty()) {
        return Error{Status::kInvalidArgument, name_of(cell) + " has a second reason: " + std::string(reason.why)};
      }
      into[cell] = reason.why;
    }
  }
  return {};
}

}  // namespace

std::span<const Reason> impossible() { return kImpossible; }
std::span<const Reason> unreached() { return kUnreached; }

Result<Reasons> reasons_of(std::span<const Reason> impossible, std::span<const Reason> unreached) {
  Reasons reasons{std::vector<std::string_view>(cell_count()), std::vector<std::string_view>(cell_count())};
  if (auto error = spread(impossible, reasons.impossible, reasons.unreached)) return *std::move(error);
  if (auto error = spread(unreached, reasons.unreached, reasons.impossible)) return *std::move(error);
  return reasons;
}

}  // namespace lockstep::sim::cover

#include "sim/cover/impossible.h"

#include <algorithm>
#include <optional>
#include <string>

namespace lockstep::sim::cover {
namespace {

using enum Matrix;

// Short names for what every peer and the coordinator can be told.
constexpr std::string_view kNotIn = "looking dialling greeting waiting invited";
constexpr std::string_view kToPeers =
    "Link Waiting LinkWelcome Heartbeat Done Pending Admitting AdmitEnded Propose Install Commit Evicted Left Ready "
    "Stake Segment Offer Elected AskDigests PieceDigests AskPieces HavePieces AskOutline AskEntry Published";

constexpr Reason kImpossible[] = {
    // ---- peer-input ----
    {kPeerInput, "!new", "Connect", "applications of the simulator connect once in a process"},
    {kPeerInput, "new", "!Connect Abandon",
     "applications connect first, and until then a peer has asked its driver for nothing"},
    {kPeerInput, kNotIn, "Launch Admit Leave Stop Publish",
     "applications call nothing but prefetch before connect has completed; the nemesis stops no connect"},
    {kPeerInput, "idle in-rounds admitting frozen leaving going over", "Prefetch",
     "applications prefetch until connect has completed, or the run is over (App::prefetch)"},
    {kPeerInput, "leaving going over", "Launch Admit Leave Publish",
     "leave is an application's last call (App::Phase), and it makes none when its run is over"},
    {kPeerInput, "in-rounds admitting", "Publish",
     "applications sync by themselves, and publish when that has committed, before they call anything else"},
    {kPeerInput, "over", "Stop Abandon", "an application whose run is over does nothing any more (App::on_event)"},
    {kPeerInput, "!new looking over", "Resolved Listening",
     "both have come before the coordinator is dialled; addresses are asked for again once it could not be reached"},
    {kPeerInput, "looking dialling greeting", "Revoked",
     "loans are taken back for rounds, and for a state that is fetched in advance: it is told of none yet"},
    {kPeerInput, "over", "Revoked",
     "loans are taken back from neighbours' streams, which are closed at once and then say nothing but Closed"},
    {kPeerInput, "looking", "Opened ReadDone WriteDone",
     "it dials nobody, and hears nobody before the coordinator has told it who its neighbours are"},
    {kPeerInput, "dialling", "WriteDone",
     "nothing is lent to the coordinator before the stream is open, and strangers who find the port are told nothing"},
    {kPeerInput, "greeting", "Opened",
     "its stream is open, and others are dialled when the coordinator has named them"},
    {kPeerInput, "over", "Opened", "all its streams are to be closed, and then the network says nothing but Closed"},

    // ---- peer-message ----
    {kPeerMessage, "*",
     "Join StatusRequest Admit AdmitCancel Leave StopRound LinkBroken Flush StatusReply Claim "
     "StateOutline StateEntry Publish WantState",
     "peers say it to the coordinator only, or it answers what nobody in a World asks"},
    {kPeerMessage, "!greeting waiting idle frozen admitting leaving in-rounds", "Refused",
     "it answers a Join, or a visit, which ends with the proposal that admits the visitor; other links are refused "
     "only where a "
     "bit flips in their greeting: all are of one run and one release, and each has a port of its own"},
    {kPeerMessage, "new looking dialling", kToPeers, "no stream is open yet"},
    {kPeerMessage, "over", kToPeers, "who is out of the run has closed its streams and hears nothing"},
    {kPeerMessage, "!new looking dialling greeting invited over", "Waiting",
     "it answers Join, and puts off who was invited"},
    {kPeerMessage, "greeting",
     "Heartbeat Pending Admitting AdmitEnded Propose Install Commit Evicted Left Elected AskOutline AskEntry Published",
     "Waiting is the first word of the coordinator"},
    {kPeerMessage, "greeting", "LinkWelcome Segment PieceDigests",
     "links come up only when the coordinator has named a neighbour, or one to visit"},
    {kPeerMessage, "greeting waiting", "Done Ready Stake Offer AskDigests AskPieces HavePieces",
     "neighbours say it, whom a proposal names; on visits only the visitor asks"},
    {kPeerMessage, "waiting", "Elected AskOutline AskEntry",
     "it is told to members, and answers what only members say"},
    {kPeerMessage, "invited", "Elected AskOutline AskEntry AskDigests PieceDigests AskPieces HavePieces",
     "states are compared, and one is elected, when this peer has claimed one, too; its visits have ended"},
    {kPeerMessage, "invited", "Done",
     "neighbours say it when they have everybody's contribution, this peer's too, which takes an installed view"},
    {kPeerMessage, "idle admitting", "Elected",
     "it comes before the word that ends the round, and applications call nothing else until then"},
    {kPeerMessage, "idle", "AskOutline AskEntry", "it comes before the word that ends the round"},
    {kPeerMessage, "idle in-rounds admitting frozen leaving going", "Published",
     "it is told to those who wait, until they are admitted"},
    {kPeerMessage, "waiting invited", "Pending Admitting AdmitEnded Commit Left",
     "it is told to members, or answers what only members say"},
    {kPeerMessage, "waiting idle in-rounds admitting", "Install", "a proposal comes before it, and is open until then"},
    {kPeerMessage, "invited", "Stake", "a neighbour tells it to those who have said Ready, which takes a round"},
    {kPeerMessage, "idle in-rounds going", "AdmitEnded",
     "it answers an admit that was cancelled, and leave waits for that"},
    {kPeerMessage, "idle in-rounds admitting frozen leaving", "Left", "it answers Leave"},

    // ---- round-message ----
    {kRoundMessage, "queued", "*", "it gets its name when the next cohort begins"},
    {kRoundMessage, "to-come held starting flowing stuck given-up", "Commit",
     "all are done with a round that commits, this peer too, and it cannot take that back"},
    {kRoundMessage, "to-come", "Stake", "a neighbour tells it to those who have said Ready for this very round"},
    {kRoundMessage, "!queued sizes", "Elected",
     "it follows this peer's claim, which stands until the coordinator's next word about the round"},
    {kRoundMessage, "!queued sizes done", "AskOutline AskEntry",
     "it follows this peer's claim, or that it is done, which stands until the coordinator's next word about the "
     "round"},
    {kRoundMessage, "to-come", "AskDigests PieceDigests AskPieces HavePieces",
     "members of a sync say it once all of them have claimed, this peer too"},
    {kRoundMessage, "stuck", "AskDigests PieceDigests AskPieces HavePieces",
     "a sync can run in every view: it has no root and no minimum, and is not queued where applications call admit"},
    {kRoundMessage, "to-come", "Done", "neighbours say it when they have everybody's contribution, this peer's too"},
    {kRoundMessage, "sizes", "Done", "neighbours say it of all-reduces, whose sizes all know"},

    // ---- round-event ----
    {kRoundEvent, "!ending", "Left",
     "it comes when all rounds that were kept for the leaver are decided; the others ended when it was cut"},

    {kRoundEvent, "!sizes", "Elected",
     "applications sync by themselves, and a state is elected while that round is claimed"},

    // ---- coordinator-input ----
    {kCoordinatorInput, "*", "Revoked",
     "only a peer takes loans back: rounds lend memory, and the coordinator has none"},

    // ---- coordinator-message ----
    {kCoordinatorMessage, "*",
     "Link Refused Waiting LinkWelcome Pending Admitting AdmitEnded Propose Install Commit Evicted Left StatusReply "
     "Ready Stake Segment Offer Elected AskDigests PieceDigests AskPieces HavePieces AskOutline AskEntry Published",
     "peers do not say it to a coordinator (Session::say), whose address no peer has"},
    {kCoordinatorMessage, "*", "StatusRequest", "only `lockstep status` asks, which no process of a World does"},
    {kCoordinatorMessage, "empty", "Done StopRound Claim StateOutline StateEntry",
     "only members and leavers have rounds, and nobody is either"},
    {kCoordinatorMessage, "empty seeing-off founding", "Publish",
     "members publish, and have said that it ends before they said that they leave"},
    {kCoordinatorMessage, "empty seeing-off founding", "Admit AdmitCancel Leave",
     "newcomers have no such calls, and leavers have said them before: leave comes last, and after admit"},
    {kCoordinatorMessage, "admitting", "Admit", "all members have called it, or it would not be open"},
    {kCoordinatorMessage, "admitting", "Leave", "all members have an admit open, and leave waits for it"},
    {kCoordinatorMessage, "settling", "Admit Leave",
     "all have answered a proposal, and say neither until it is installed"},

    // ---- coordinator-fault ----
    {kCoordinatorFault, "*",
     "crash vanish kernels join leave stop timeout mismatch skip spoil drift abandon mute flip miscompute",
     "the coordinator's host can only be stalled or cut off (flaw_of)"},
};

constexpr Reason kUnreached[] = {
    {kPeerInput, "looking", "Accepted",
     "its greeting is lost after it has said where it listens, and a neighbour that was told so dials it before it has "
     "asked again"},
    {kPeerInput, "waiting invited", "Revoked",
     "what a peer fetches in advance is replaced by a newer state, or it is admitted then, while a piece is on its "
     "way"},
    {kPeerMessage, "admitting", "PieceDigests",
     "a sync was stopped while a source's answer was on its way, and the program calls admit before it comes"},
    {kPeerInput, "dialling", "ReadDone",
     "a stranger who has found the port speaks before the coordinator takes the dial"},
    {kPeerMessage, "invited", "Evicted",
     "it is lost while the proposal that names it is under way, and hears of it before its stream ends"},
    {kPeerMessage, "admitting frozen leaving idle in-rounds", "Refused",
     "a bit flips in the greeting of a link that is opened just before"},
    {kPeerMessage, "leaving", "AskOutline AskEntry",
     "a member calls leave between its claim and the coordinator's question about a state that differs from another"},
    {kRoundMessage, "held", "PieceDigests",
     "a source answers a question of an earlier attempt while the next sync waits for its proposal to be installed"},
    {kCoordinatorMessage, "settling", "StateEntry",
     "a claimant answers a comparison while the coordinator waits for the last answer to a proposal"},
    {kPeerMessage, "leaving", "Evicted", "a member that leaves is evicted just before it would be let go"},
    {kRoundMessage, "ending", "Offer Stake",
     "a neighbour begins anew, or repeats itself on a new stream, while an ended round waits for its memory"},
    {kRoundMessage, "given-up held", "Stake",
     "all-gathers are not attempted twice: a neighbour must have launched one where we have launched another "
     "collective"},
    {kRoundMessage, "held", "Done",
     "a neighbour's word is on its way while one proposal is installed and another one made"},
    {kRoundMessage, "starting flowing", "AskDigests",
     "one who was a source when the round was given up receives in the next attempt, and a late question comes"},
    {kRoundMessage, "starting", "AskPieces",
     "a receiver has nothing to give as yet: the question is of an earlier attempt, in which it was a source"},
    {kRoundMessage, "done", "PieceDigests",
     "a receiver whose stream was reset asked another source, has all it needs, and hears the first one on another "
     "stream"},
    {kRoundMessage, "given-up ending", "AskDigests PieceDigests",
     "a round waits for its memory although no piece is digested: one that it sends or receives is on its way"},
    {kRoundEvent, "sizes held stuck given-up ending", "AdmitEnded",
     "an admit is cancelled while an older call goes on although its stop was heeded by nobody: its attempt had "
     "changed"},
    {kRoundEvent, "given-up ending", "Evicted",
     "a peer is evicted as the first word of a read, just while a round waits for an admission or for its memory"},
    {kRoundEvent, "given-up", "Launch", "an application launches another call just while one waits for its memory"},
    {kCoordinatorMessage, "seeing-off", "Flush",
     "an admission is withdrawn, and none follows, while the answer of a slow newcomer is on its way"},
    {kCoordinatorMessage, "empty gathering founding admitting", "LinkBroken",
     "a link is reported when it was down for 16 heartbeats, and newcomers have their first proposal for no longer "
     "than "
     "6; only when one proposal after the other is withdrawn, or when members cannot reach each other while one calls "
     "admit"},
    {kCoordinatorMessage, "seeing-off founding", "StateOutline StateEntry",
     "all members leave while two of them insist on their states, and others found the run anew before that has ended"},
    {kCoordinatorMessage, "admitting", "Claim",
     "all members of a group leave while they sync, and those of the other group call admit before that has ended"},
};

// Which of these names the words choose; nothing: a word is none of them, told in `unknown`.
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

// Gives each cell that the list names its reason; `other` has reasons of another kind.
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

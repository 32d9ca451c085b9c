#include "tests/support/sample_messages.h"

namespace lockstep::test {
namespace {

using namespace wire;  // NOLINT(google-build-using-namespace): this file is about messages only

constexpr PeerId kAnn{0x0123456789abcdef, 0xfedcba9876543210};
constexpr PeerId kBob{0x1111111111111111, 0x2222222222222222};
constexpr RoundKey kKey{CohortId{3}, GroupId{4}, Tag{5}, 6};
constexpr RoundKey kOtherKey{CohortId{7}, GroupId{8}, Tag{9}, 10};
constexpr Generation kAttempt{11};
constexpr LinkKey kLinkKey{0x3333333333333333, 0x4444444444444444};

io::Address v4() { return {io::Address::Family::kV4, {192, 0, 2, 1}, 4000}; }

io::Address v6() {
  return {io::Address::Family::kV6, {0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 4001};
}

Descriptor all_reduce() {
  return {.collective = Collective::kAllReduce,
          .type = DataType::kF32,
          .op = ReduceOp::kAvg,
          .retry = true,
          .minimum_world = 2,
          .tensors = 3,
          .count = 1000,
          .layout = 0x1234567812345678,
          .root = {},
          .formats = {WireFormat::kInt8, WireFormat::kBF16},
          .algorithm = Algorithm::kDirect,
          .weighted = true,
          .segment_bytes = 4096};
}

Descriptor broadcast() {
  return {.collective = Collective::kBroadcast,
          .type = DataType::kBF16,
          .op = ReduceOp::kSum,
          .retry = false,
          .minimum_world = 1,
          .tensors = 1,
          .count = 7,
          .layout = 0x8765432187654321,
          .root = kAnn,
          .formats = {},
          .algorithm = Algorithm::kRing,
          .weighted = false,
          .segment_bytes = 0};
}

Descriptor sync() {
  return {.collective = Collective::kSync,
          .type = DataType::kU8,
          .op = ReduceOp::kSum,
          .retry = true,
          .minimum_world = 2,
          .tensors = 3,
          .count = 1'000'000,
          .layout = 0x1122334455667788,
          .root = {},
          .formats = {},
          .algorithm = Algorithm::kRing,
          .weighted = false,
          .segment_bytes = 0};
}

View view() {
  return {.term = Term{1},
          .number = ViewNumber{2},
          .cohort = CohortId{3},
          .members = {{kAnn, GroupId{4}, GangId{5}, v4(), "ann", microseconds(35)},
                      {kBob, GroupId{6}, GangId{7}, v6(), ""}},
          .unmeshed = {GroupId{4}}};
}

std::vector<OpenRound> open() {
  return {{kKey, kAttempt, true, false, 0xaaaaaaaabbbbbbbb, true}, {kOtherKey, Generation{12}, false, true, 0, false}};
}

}  // namespace

std::vector<Message> sample_messages() {
  return {
      Join{.peer = kAnn,
           .group = GroupId{1},
           .gang = GangId{2},
           .gang_size = 3,
           .founders = 4,
           .auto_admit = true,
           .advertised = v4(),
           .name = "ann",
           .round_trip = microseconds(160'000)},
      Link{.from = kAnn, .to = kBob, .stripe = StripeIndex{1}, .stripes = 2, .key = kLinkKey},
      StatusRequest{},
      Refused{.status = Status::kRefused, .text = "the token is not that of this run"},
      Waiting{.seen_from = v6(), .heartbeat = milliseconds(500), .silence = seconds(4)},
      LinkWelcome{},
      Heartbeat{},
      Done{.key = kKey,
           .attempt = kAttempt,
           .what = all_reduce(),
           .hash = 0xdeadbeefdeadbeef,
           .state_fingerprint = 0x5a5a5a5a5a5a5a5a,
           .fetched = "in 'w' (3 of 12 pieces)"},
      Admit{.cohort = CohortId{3}, .at_least = 2, .automatic = true, .open = open()},
      AdmitCancel{.status = Status::kAborted},
      Leave{.open = open()},
      StopRound{.key = kKey,
                .attempt = kAttempt,
                .status = Status::kMismatch,
                .done = true,
                .text = "counts differ",
                .other = kBob},
      LinkBroken{.other = kBob, .text = "no route", .avoid = true},
      Flush{.proposal = ProposalNumber{13}, .open = open()},
      Pending{.count = 14, .fetching = 3, .holding = 2},
      Admitting{.peer = kAnn, .cohort = CohortId{3}, .at_least = 2, .automatic = true, .open = open()},
      AdmitEnded{.status = Status::kTimedOut, .text = "nobody came"},
      Propose{.number = ProposalNumber{15},
              .view = view(),
              .lost = {kBob},
              .left = {kAnn, kBob},
              .relinked = {GroupId{1}, GroupId{2}},
              .kept = {kKey, kOtherKey},
              .verdicts = {{kKey, kAttempt, Status::kOk, 0xcccccccccccccccc, ""},
                           {kOtherKey, kAttempt, Status::kPeerLost, 0, "bob was lost"}},
              .link_key = kLinkKey},
      Install{.number = ProposalNumber{16}},
      Commit{.key = kKey,
             .attempt = kAttempt,
             .hash = 0xdddddddddddddddd,
             .admit_here = true,
             .state_difference = "the state of c differs"},
      Evicted{.status = Status::kEvicted, .text = "silent for 4 s", .round = kKey},
      Left{},
      StatusReply{.view = view(),
                  .waiting = {{kBob, GroupId{1}, GangId{0}, {}, "bob"}},
                  .rounds = {{kKey, kAttempt, 1, 2}},
                  .proposal_open = true,
                  .uptime = seconds(3600),
                  .commits = 17,
                  .aborts = 18,
                  .repairs = 27,
                  .admitted = 19,
                  .lost = 20,
                  .left = 21,
                  .bytes_reduced = 22,
                  .troubles = {{seconds(3), kBob, kAnn, "bob cannot reach ann: no route"}},
                  .waits = {{"reduce", kKey, seconds(4), {kAnn}, {kBob}, "bob has not called it"}},
                  .proofs = {{kAnn, "token 0123456789abcdef (team)"}, {kBob, "certificate 'CN=bob' (SHA-256 AB:CD)"}}},
      Ready{.key = kKey,
            .attempt = kAttempt,
            .what = broadcast(),
            .landing = false,
            .have = {0x5, 0x8000000000000000},
            .has_parameter = true,
            .parameter = 0x123456789},
      RankParameter{.key = kKey, .attempt = kAttempt, .rank = Rank{23}, .value = 24},
      Segment{.key = kKey,
              .attempt = attempt_id(kAttempt),
              .phase = Phase::kAllGather,
              .index = SegmentIndex{25},
              .length = 26},
      Offer{.key = kKey, .attempt = kAttempt, .what = broadcast(), .follows = false},
      Claim{.key = kKey,
            .attempt = kAttempt,
            .what = sync(),
            .strategy = state::Strategy::kReceiveOnly,
            .defined = false,
            .revision = 27,
            .root = {28, 29},
            .lineage = Lineage{30}},
      Elected{.key = kKey,
              .attempt = kAttempt,
              .revision = 27,
              .root = {28, 29},
              .lineage = Lineage{30},
              .sources = {kAnn},
              .receivers = {kBob, kAnn}},
      AskDigests{.key = kKey, .attempt = attempt_id(kAttempt), .first = 30},
      PieceDigests{
          .key = kKey, .attempt = attempt_id(kAttempt), .first = 30, .digests = {{31, 32}, {33, 34}}, .values = {35}},
      AskPieces{.key = kKey, .attempt = attempt_id(kAttempt), .pieces = {36, 37}},
      HavePieces{.key = kKey, .attempt = attempt_id(kAttempt), .pieces = {38}, .whole = true},
      AskOutline{.key = kKey, .attempt = kAttempt, .of = Outlined::kContents},
      StateOutline{
          .key = kKey, .attempt = kAttempt, .piece_bytes = 39, .tensors = {40, 41}, .values = {42}, .revision = 44},
      AskEntry{.key = kKey, .attempt = kAttempt, .is_value = true, .index = 43},
      StateEntry{.key = kKey, .attempt = kAttempt, .text = "step uint"},
      Publish{.tag = Tag{39}, .what = sync(), .revision = 40, .root = {41, 42}, .lineage = Lineage{43}, .ends = true},
      WantState{.tag = Tag{43}, .what = sync(), .ends = true, .holds = true},
      Published{.tag = Tag{44},
                .revision = 45,
                .root = {46, 47},
                .lineage = Lineage{48},
                .sources = {{kAnn, v4()}, {kBob, v6()}},
                .link_key = kLinkKey,
                .text = "another layout"},
      SendOffer{.number = 48,
                .heard = 49,
                .id = 50,
                .tag = Tag{51},
                .type = DataType::kF32,
                .count = 52,
                .segment_bytes = 53,
                .eager = true},
      SendReport{.number = 54,
                 .heard = 55,
                 .id = 56,
                 .state = SendState::kRefused,
                 .status = Status::kMismatch,
                 .text = "another type"},
      SendReady{.id = 57, .have = {58, 59}},
      SendsHeard{.heard = 60, .answer = true},
      CallWaits{.key = kKey,
                .attempt = kAttempt,
                .collective = Collective::kBroadcast,
                .stage = CallStage::kOver,
                .age = seconds(61),
                .busy = "in admit"},
      TransfersWait{.transfers = {{kBob, Tag{62}, true, seconds(63)}}},
      CallAwaited{.key = kKey,
                  .attempt = kAttempt,
                  .collective = Collective::kReduce,
                  .missing = 64,
                  .text = "bob has not called it"},
      EvictRequest{.peer = kBob},
      EvictReply{.evicted = true, .text = "bob is out of the run"},
      Knock{.other = kBob},
  };
}

}  // namespace lockstep::test

#include "fuzz/liars.h"

#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "core/kernels/checksum.h"
#include "core/wire/link_key.h"
#include "fuzz/choices.h"
#include "fuzz/hosts.h"

namespace lockstep::fuzz {
namespace {

constexpr PeerId kAnn{2, 2};
constexpr PeerId kBob{3, 3};
constexpr Tag kLastTag{0xdecade};  // nobody lies about it

peer::PeerOptions honest(PeerId id) {
  peer::PeerOptions options;
  options.id = id;
  options.founders = 2;
  options.dial_timeout = options.link_timeout = seconds(36'000);  // nobody answers their dials: barriers need no links
  return options;
}

class AgainstCoordinator {
 public:
  explicit AgainstCoordinator(Choices choices)
      : choices_(choices), coordinator_(options(choices_.one_in(2))), ann_(honest(kAnn)), bob_(honest(kBob)) {
    for (PeerHost* peer : {&ann_, &bob_}) {
      peer->connect();
      connect_hosts(*peer, coordinator_, peer == &ann_ ? 2 : 3, identity(kTokenOfHonest, peer == &ann_ ? 1 : 2));
    }
    settle();
    known_.peers = {kAnn, kBob};
    for (std::uint64_t n = 10; n < 14; ++n) known_.peers.push_back({n, n});
  }

  void play() {
    for (int i = 0; i < 200 && !choices_.empty(); ++i) act();
    for (FarEnd* liar : liars_) liar->hang_up();
    settle();
    LOCKSTEP_ASSERT(!ann_.run_over && !bob_.run_over);
    const auto [a, b] = launch(kLastTag);
    settle();
    LOCKSTEP_ASSERT(ann_.all_calls_over() && bob_.all_calls_over());
    LOCKSTEP_ASSERT(ann_.outcome(a)->status == Status::kOk && bob_.outcome(b)->status == Status::kOk);
    LOCKSTEP_ASSERT(ann_.outcome(a)->world == 2);
    const auto left = coordinator_.footprint();
    LOCKSTEP_ASSERT(left.members == 2 && left.waiting == 0 && left.rounds == 0 && left.streams == 2 &&
                    left.published == 0);
  }

 private:
  void act() {
    look();
    switch (choices_.below(13)) {
      case 0: return arrive();
      case 1: {
        launch(Tag{choices_.below(4)});
        return;
      }
      case 2: {
        if (!choices_.one_in(4)) return;
        ann_.admit();
        bob_.admit();
        return;
      }
      case 3: return pass();
      case 4: return settle();
      case 5: return coordinator_.run();
      case 6: return change_grants();
      default: break;
    }
    if (liars_.empty()) return arrive();
    FarEnd& liar = *choices_.of(liars_);
    switch (choices_.below(8)) {
      case 0: return liar.say(wire::Flush{ProposalNumber{known_.proposal}, {}});
      case 1: {
        wire::Done done = chosen<wire::Done>(choices_, known_);
        done.what = {};
        done.hash = 0;
        return liar.say(done);
      }
      case 2: return liar.say(wire::Admit{CohortId{known_.cohort}, 1, false, {}});
      case 3: {
        if (choices_.one_in(4)) liar.hang_up();
        return;
      }
      case 4: {
        if (choices_.one_in(4)) liar.say_bytes(std::vector<std::byte>(choices_.below(64), std::byte{choices_.byte()}));
        return;
      }
      default: break;
    }
    wire::Message message = chosen_message(choices_, known_);
    // A report of a broken link is word against word: the honest side may have to go, which is another story.
    if (auto* broken = std::get_if<wire::LinkBroken>(&message))
      broken->other.high = broken->other.low = 10 + choices_.below(4);
    liar.say(message, Term{choices_.one_in(16) ? choices_.byte() : std::uint64_t{1}});
  }

  void arrive() {
    if (liars_.size() == 12) return;
    const auto number = static_cast<std::uint8_t>(liars_.size() + 10);
    // Liars have tokens of every role, and some do not prove theirs. They evict only each other: below.
    io::Identity proves = identity(io::TokenId{kTokenOfHonest.value + 1 + choices_.below(kTokensOfLiars)},
                                   choices_.one_in(2) ? number : std::uint8_t{3});
    proves.proved = !choices_.one_in(8);
    FarEnd& liar = coordinator_.streams.accept(address_of(number), proves);
    liars_.push_back(&liar);
    liar.greet();
    if (choices_.one_in(4)) {
      wire::Message greeting = chosen_message(choices_, known_);
      if (auto* request = std::get_if<wire::EvictRequest>(&greeting)) request->peer = liars_peer();
      return liar.say(greeting);
    }
    if (choices_.one_in(8)) return liar.say(wire::EvictRequest{liars_peer()});
    wire::Join join = chosen<wire::Join>(choices_, known_);
    join.peer = choices_.of(known_.peers);
    join.advertised = address_of(1);
    join.auto_admit = false;
    if (!choices_.one_in(4)) {
      join.group = {};
      join.gang = {};
      join.gang_size = 1;
    }
    liar.say(join);
  }

  // An id that no honest peer has.
  PeerId liars_peer() {
    const std::uint64_t n = 10 + choices_.below(4);
    return {n, n};
  }

  static constexpr io::TokenId kTokenOfHonest{1};  // always granted
  static constexpr std::size_t kTokensOfLiars = 5;
  static io::Identity identity(io::TokenId token, std::uint8_t key) {
    io::Identity identity{{}, token, true};
    identity.key.bytes.fill(key);
    return identity;
  }
  static coordinator::CoordinatorOptions options(bool secured) {
    coordinator::CoordinatorOptions options;
    options.secured = secured;
    options.dial_back = milliseconds(1500);
    options.grants.push_back({.id = kTokenOfHonest, .name = "honest"});
    for (std::size_t n = 1; n <= kTokensOfLiars; ++n) options.grants.push_back({.id = {kTokenOfHonest.value + n}});
    return options;
  }
  void change_grants() {
    std::vector<coordinator::Grant> grants{{.id = kTokenOfHonest, .name = "honest"}};
    for (std::size_t n = 1; n <= kTokensOfLiars; ++n) {
      if (choices_.one_in(4)) continue;
      coordinator::Grant grant{.id = {kTokenOfHonest.value + n}};
      grant.role = static_cast<io::Role>(choices_.one_in(2) ? 0 : choices_.below(io::kRoleCount));
      grant.expires = choices_.one_in(4) ? coordinator_.now + milliseconds(choices_.byte()) : kNever;
      grant.most_peers = static_cast<std::uint32_t>(choices_.below(3));
      grant.single_use = choices_.one_in(4);
      grants.push_back(grant);
    }
    coordinator_.change_grants(std::move(grants));
  }

  std::pair<CallId, CallId> launch(Tag tag) {
    ring::Request barrier;
    barrier.tag = tag;
    const CallId a = ann_.launch(barrier, 0);
    return {a, bob_.launch(barrier, 0)};
  }
  void settle() {
    for (int i = 0; i < 30; ++i) {
      coordinator_.run();
      answer_dials();
      ann_.run();
      bob_.run();
    }
  }
  // The coordinator dials newcomers back (rule 70): honest peers answer, and at a liar's address there is anything.
  void answer_dials() {
    for (FarEnd* end : coordinator_.streams.dialling()) {
      const bool is_ann = end->dialled() == address_of(2);
      if (is_ann || end->dialled() == address_of(3)) {
        FarEnd::join(*end, (is_ann ? ann_ : bob_).streams.accept(address_of(100)));
        coordinator_.streams.open(*end, kRoundTrip, {identity(kTokenOfHonest, is_ann ? 1 : 2).key, {}, false});
        continue;
      }
      if (choices_.one_in(2)) {
        coordinator_.streams.refuse(*end);
        continue;
      }
      coordinator_.streams.open(*end, kRoundTrip, {identity(kTokenOfHonest, choices_.byte()).key, {}, false});
      if (choices_.one_in(2)) end->greet();
      if (choices_.one_in(2)) end->say(wire::Link{liars_peer(), {}, {}, 1, {}, wire::LinkUse::kDialBack});
      end->say_bytes(std::vector<std::byte>(choices_.below(64), std::byte{choices_.byte()}));
      end->hang_up();
    }
  }
  void pass() {
    const Duration time = milliseconds(static_cast<std::int64_t>(1 + choices_.byte()));
    coordinator_.pass(time);
    ann_.pass(time);
    bob_.pass(time);
    settle();
  }
  void look() {
    known_.cohort = ann_.views.back().cohort.value;
    known_.view = ann_.views.back().number.value;
    for (const FarEnd* liar : liars_) {
      if (const auto* proposal = liar->last<wire::Propose>())
        known_.proposal = std::max(known_.proposal, proposal->number.value);
    }
  }

  Choices choices_;
  Known known_;
  CoordinatorHost coordinator_;
  PeerHost ann_;
  PeerHost bob_;
  std::vector<FarEnd*> liars_;
};

constexpr PeerId kMe{5, 5};

class AgainstPeer {
 public:
  explicit AgainstPeer(Choices choices) : choices_(choices), me_(options(choices_)) {
    for (const std::uint64_t n : {1U, 3U, 5U, 9U, 12U}) known_.peers.push_back({n, n});
    me_.connect();
    coordinator_ = me_.streams.dialling().front();
    me_.streams.open(*coordinator_);
    coordinator_->greet();
    coordinator_->say(wire::Waiting{address_of(5), milliseconds(500), seconds(600)});
    if (!choices_.one_in(4)) change({PeerId{1, 1}, kMe, PeerId{9, 9}}, true);  // else it waits
  }

  void play() {
    for (int i = 0; i < 300 && !choices_.empty(); ++i) act();
    coordinator_->hang_up();
    for (int i = 0; i < 20; ++i) {
      me_.run();
      for (FarEnd* end : me_.streams.dialling()) me_.streams.refuse(*end);
      me_.pass(seconds(1));
    }
    me_.run();
    LOCKSTEP_ASSERT(me_.run_over && me_.all_calls_over());
    const auto left = me_.footprint();
    LOCKSTEP_ASSERT(left.streams == 0);
    LOCKSTEP_ASSERT(left.rounds == 0 && left.calls == 0 && left.remembered == 0);
  }

 private:
  static peer::PeerOptions options(Choices& choices) {
    peer::PeerOptions options;
    options.id = kMe;
    options.stripes = static_cast<std::uint16_t>(1 + choices.below(2));
    options.auto_admit = choices.one_in(4);
    options.segment_bytes = choices.one_in(2) ? 16 : 0;  // many segments, or small tensors that go whole
    return options;
  }

  void act() {
    switch (choices_.below(18)) {
      case 0: return launch();
      case 1: return call();
      case 2: return lose_one();
      case 3: return admit_one();
      case 4: return commit();
      case 5: {
        if (choices_.one_in(8)) coordinator_->say(chosen_message(choices_, known_));
        return;
      }
      case 6: return dial_in();
      case 7: return answer_dials();
      case 8: return me_.run();
      case 9: {
        me_.pass(milliseconds(static_cast<std::int64_t>(choices_.byte()) * 4));
        return;
      }
      case 10: return share();
      case 11: return name_sources();
      case 12: return transfer();
      case 13: return tell_of_transfers();
      default: break;
    }
    if (neighbours_.empty()) return answer_dials();
    FarEnd& neighbour = *choices_.of(neighbours_);
    switch (choices_.below(8)) {
      case 0: {  // as it says itself, so it fits
        for (const FarEnd* other : neighbours_) {
          if (const auto* ready = other->last<wire::Ready>()) neighbour.say(*ready);
          if (const auto* offer = other->last<wire::Offer>()) neighbour.say(*offer);
        }
        return;
      }
      case 1: return neighbour.say(chosen<wire::Ready>(choices_, known_));
      case 2: {
        if (choices_.one_in(2)) return neighbour.say(chosen<wire::Offer>(choices_, known_));
        return neighbour.say(chosen<wire::RankParameter>(choices_, known_));
      }
      case 3: {
        if (choices_.one_in(8)) neighbour.say(chosen_message(choices_, known_));
        return;
      }
      case 4: {
        if (choices_.one_in(4)) neighbour.hang_up();
        return;
      }
      case 5: {
        if (choices_.one_in(8))
          neighbour.say_bytes(std::vector<std::byte>(choices_.below(64), std::byte{choices_.byte()}));
        return;
      }
      default: break;
    }
    wire::Segment segment = chosen<wire::Segment>(choices_, known_);
    segment.length = std::min<std::uint32_t>(segment.length, 70'000);
    const std::vector<std::byte> payload(segment.length, std::byte{1});
    const bool wrong = choices_.one_in(8);
    neighbour.say_segment(segment, std::byte{1}, checksum(payload) + (wrong ? 1U : 0U), choices_.one_in(8));
  }

  void launch() {
    ring::Request request;
    request.collective = static_cast<wire::Collective>(choices_.below(wire::kCollectiveCount));
    request.type = choices_.one_in(2) ? DataType::kF32 : DataType::kU8;
    request.tag = Tag{choices_.below(4)};
    request.retry = !choices_.one_in(4);
    request.root = choices_.of(known_.peers);
    request.timeout = choices_.one_in(4) ? milliseconds(300) : Duration{};
    const std::size_t count = choices_.below(40);
    if (request.collective == wire::Collective::kAllReduce && choices_.one_in(2)) encode(request, count);
    if (wire::exchanges(request.collective)) choose_blocks(request, count);
    if (request.collective == wire::Collective::kSync) {
      request.state = state_of(count, request.type);
    } else if (choices_.one_in(4)) {
      auto watched = state_of(count, DataType::kU8);
      request.watch =
          std::make_shared<ring::Watched>(ring::Watched{std::move(watched), {me_.hold(count, choices_.byte())}});
    }
    calls_.push_back(me_.launch(request, count, choices_.below(120)));
  }
  // The root gets what is left, and in a gather everything.
  void choose_blocks(ring::Request& request, std::uint64_t count) {
    std::uint64_t left = count;
    for (const PeerId& peer : known_.peers) {
      if (request.collective == wire::Collective::kGather || peer == request.root || choices_.one_in(2)) continue;
      request.blocks.push_back({peer, choices_.below(left + 1)});
      left -= request.blocks.back().count;
    }
    request.blocks.push_back({request.root, left});
  }
  void encode(ring::Request& request, std::size_t count) {
    const auto format = [&] { return static_cast<WireFormat>(choices_.below(kWireFormatCount)); };
    request.type = DataType::kF32;
    request.formats = {format(), format()};
    if (choices_.one_in(2))
      request.algorithm = choices_.one_in(2) ? wire::Algorithm::kRing : wire::Algorithm::kDirect;  // no grid encodes
    const WireFormat said = choices_.one_in(2) ? request.formats.up : request.formats.down;
    known_.length = static_cast<std::uint32_t>(encoded_size(said, count));
    if (choices_.one_in(2)) return;
    request.op = ReduceOp::kAvg;
    constexpr float kWeights[] = {0, 1, 1e-45F, 3e38F, -1, std::numeric_limits<float>::quiet_NaN()};
    if (!choices_.one_in(4)) request.weight = kWeights[choices_.below(std::size(kWeights))];
  }
  // One tensor, of a few pieces.
  std::shared_ptr<const state::Statement> state_of(std::size_t count, DataType type) {
    auto state = std::make_shared<state::Statement>();
    state->manifest.tensors = {{"weights", type, count, choices_.one_in(8)}};
    state->manifest.piece_bytes = 16;
    state->manifest.values = {{"step", state::ValueType::kUint}};
    state->values = {choices_.byte()};
    state->revision = choices_.byte();
    state->strategy = static_cast<state::Strategy>(choices_.below(state::kStrategyCount));
    state->staged = choices_.one_in(2);
    state->blank = choices_.one_in(8);
    state->restored = choices_.one_in(4);
    return state;
  }
  // Publishes a state, or fetches one before it is let in.
  void share() {
    calls_.push_back(me_.share(choices_.one_in(2), choices_.below(120), 16, choices_.byte(), [&](auto& state) {
      state.blank = choices_.one_in(8);
      state.restored = choices_.one_in(4);
      if (choices_.one_in(8)) state.strategy = static_cast<state::Strategy>(choices_.below(state::kStrategyCount));
    }));
  }
  // A point-to-point send, or a receive; of several segments, or small enough to go at once.
  void transfer() {
    const PeerId other = choices_.one_in(8) ? PeerId{} : choices_.of(known_.peers);
    const Tag tag{choices_.below(3)};
    const std::uint64_t count = choices_.one_in(4) ? 20'000 : choices_.below(64);
    const Duration timeout = choices_.one_in(4) ? milliseconds(300) : Duration{};
    calls_.push_back(choices_.one_in(2) ? me_.send(other, tag, count, timeout)
                                        : me_.receive(other, tag, count, timeout));
  }
  void call() {
    switch (choices_.below(6)) {
      case 0: calls_.push_back(me_.admit(static_cast<std::uint32_t>(choices_.below(4)))); return;
      case 1:
        if (choices_.one_in(8)) calls_.push_back(me_.leave());
        return;
      case 2:
        if (choices_.one_in(32)) me_.abandon();
        return;
      default:
        if (!calls_.empty()) me_.stop(choices_.of(calls_));
    }
  }

  // ---- a coordinator that tells the truth, in its way ----
  void change(std::vector<PeerId> members, bool admits, std::vector<PeerId> lost = {}) {
    wire::Propose propose;
    propose.number = ProposalNumber{++known_.proposal};
    propose.view.term = Term{1};
    propose.view.number = ViewNumber{known_.view + 1};
    propose.view.cohort = CohortId{admits ? known_.view + 1 : known_.cohort};
    const Duration round_trip = milliseconds(static_cast<std::int64_t>(choices_.below(3)));
    for (const PeerId id : members) {
      propose.view.members.push_back({id, {}, {}, address_of(static_cast<std::uint8_t>(id.low)), "p", round_trip});
    }
    propose.lost = std::move(lost);
    for (std::size_t i = choices_.below(4); i > 0; --i) {
      auto verdict = chosen<wire::Verdict>(choices_, known_);
      if (verdict.status != Status::kOk) propose.verdicts.push_back(std::move(verdict));
    }
    coordinator_->say(propose);
    if (!members_.empty() && choices_.one_in(8)) return;  // to be replaced by the next
    me_.run();
    coordinator_->say(wire::Install{propose.number});
    known_.view = propose.view.number.value;
    known_.cohort = propose.view.cohort.value;
    members_ = std::move(members);
    me_.run();
  }
  void name_sources() {
    auto published = chosen<wire::Published>(choices_, known_);
    published.tag = kShared;
    published.link_key = wire::prefetcher_key({}, kMe);
    published.sources.clear();
    for (std::size_t i = choices_.below(4); i > 0; --i) {
      const PeerId id = choices_.of(known_.peers);
      if (id != kMe) published.sources.push_back({id, address_of(static_cast<std::uint8_t>(id.low))});
    }
    coordinator_->say(published);
  }
  void lose_one() {
    if (members_.empty()) return;
    std::vector<PeerId> rest = members_;
    const PeerId gone = choices_.of(rest);
    if (gone == kMe) return;
    std::erase(rest, gone);
    change(std::move(rest), false, {gone});
  }
  void admit_one() {
    std::vector<PeerId> more = members_;
    if (more.empty()) more.push_back(kMe);
    const PeerId comes = choices_.of(known_.peers);
    if (std::find(more.begin(), more.end(), comes) == more.end()) more.push_back(comes);
    change(std::move(more), true);
  }
  void commit() {
    const auto* done = coordinator_->last<wire::Done>();
    if (done != nullptr) coordinator_->say(wire::Commit{done->key, done->attempt, done->hash, choices_.one_in(4), {}});
    coordinator_->forget_heard();
  }

  // ---- neighbours ----
  void dial_in() {
    if (neighbours_.size() == 40) return;
    FarEnd& end = me_.streams.accept(address_of(static_cast<std::uint8_t>(choices_.one_in(8) ? 77 : 1)));
    neighbours_.push_back(&end);
    end.greet();
    if (choices_.one_in(8)) return end.say(chosen_message(choices_, known_));
    wire::Link link = chosen<wire::Link>(choices_, known_);
    link.to = kMe;
    if (!choices_.one_in(8)) link.key = {};  // as change() proposes it
    if (choices_.one_in(4)) link.key = wire::prefetcher_key({}, link.from);
    end.say(link);
  }
  // Messages about transfers, most of which fit the ones before.
  void tell_of_transfers() {
    if (neighbours_.empty()) return;
    FarEnd& neighbour = *choices_.of(neighbours_);
    Told& told = told_[&neighbour];
    const std::uint64_t id = 1 + choices_.below(4);
    switch (choices_.below(5)) {
      case 0: {
        auto offer = chosen<wire::SendOffer>(choices_, known_);
        offer.tag.value %= 3;
        offer.count = choices_.one_in(4) ? 20'000 : choices_.below(64);
        offer.segment_bytes = offer.eager || choices_.one_in(2) ? 70'000 : 16;
        offer.heard = 0;
        if (!choices_.one_in(8)) offer.number = ++told.number;
        if (!choices_.one_in(8)) offer.id = ++told.id;
        offers_[offer.id] = offer;
        return neighbour.say(offer);
      }
      case 1: {
        auto report = chosen<wire::SendReport>(choices_, known_);
        report.id = id;
        report.heard = choices_.below(4);
        if (!choices_.one_in(8)) report.number = ++told.number;
        return neighbour.say(report);
      }
      case 2: {
        auto ready = chosen<wire::SendReady>(choices_, known_);
        ready.id = id;
        if (choices_.one_in(2)) ready.have.clear();
        return neighbour.say(ready);
      }
      case 3: return neighbour.say(wire::SendsHeard{choices_.below(4), choices_.one_in(2)});
      default: break;
    }
    const wire::SendOffer& offer = offers_[id];
    const std::uint64_t length = std::min<std::uint64_t>(offer.count * size_of(offer.type), offer.segment_bytes);
    wire::Segment segment{wire::send_key(id), {}, wire::Phase::kTransfer, SegmentIndex{0}, 0};
    if (choices_.one_in(4)) segment.index.value = static_cast<std::uint32_t>(choices_.below(8));
    segment.length = static_cast<std::uint32_t>(std::min<std::uint64_t>(length, 70'000));
    const std::vector<std::byte> payload(segment.length, std::byte{1});
    neighbour.say_segment(segment, std::byte{1}, checksum(payload) + (choices_.one_in(8) ? 1U : 0U),
                          choices_.one_in(8));
  }
  void answer_dials() {
    for (FarEnd* end : me_.streams.dialling()) {
      if (choices_.one_in(4)) {
        me_.streams.refuse(*end);
        continue;
      }
      me_.streams.open(*end);
      end->greet();
      if (!choices_.one_in(8)) end->say(wire::LinkWelcome{});
      if (neighbours_.size() < 40) neighbours_.push_back(end);
    }
  }

  Choices choices_;
  Known known_{{}, 0, 0, 0};
  PeerHost me_;
  FarEnd* coordinator_ = nullptr;
  std::vector<FarEnd*> neighbours_;
  struct Told {
    std::uint64_t number = 0;  // of its last message about transfers
    std::uint64_t id = 0;      // of its last offer
  };
  std::map<const FarEnd*, Told> told_;
  std::map<std::uint64_t, wire::SendOffer> offers_;  // the last one of each id, of any neighbour
  std::vector<PeerId> members_;
  std::vector<CallId> calls_;
};

}  // namespace

void play_against_coordinator(std::span<const std::uint8_t> bytes) { AgainstCoordinator(Choices(bytes)).play(); }
void play_against_peer(std::span<const std::uint8_t> bytes) { AgainstPeer(Choices(bytes)).play(); }

}  // namespace lockstep::fuzz

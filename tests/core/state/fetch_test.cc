#include "core/state/fetch.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "core/archive/archive.h"
#include "core/archive/fields.h"
#include "core/wire/limits.h"

namespace lockstep::state {
namespace {

constexpr Duration kPatience = seconds(2);

// The lines from sources to one receiver: each source sends one piece after another at its own rate. Checks that no
// piece lands twice at the same time, and none that was not requested.
class Lines {
 public:
  struct Source {
    double bytes_per_s = 0;
    Duration delay;                    // one way
    Instant dies = kNever;             // the source and its link
    Instant stalls = kNever;           // sends nothing from then on
    std::optional<int> lies{};         // with its n-th piece
    std::vector<Instant> free = {{}};  // the time until which each stripe sends
    int sent = 0;
    std::size_t landed = 0;
    std::uint64_t delivered = 0;  // bytes
  };

  explicit Lines(std::uint32_t pieces, std::size_t first = 0)
      : layout(
            Manifest{.tensors = {{"w", DataType::kU8, std::uint64_t{pieces} * kStatePieceBytes, false}}, .values = {}}),
        fetch(layout, all(pieces), first, kPatience) {}

  PeerId add(const Source& source, bool has_all = true) {
    const PeerId id{0, sources.size() + 1};
    sources.push_back(source);
    fetch.add_source(id, has_all);
    if (source.dies != kNever) at(source.dies, [this, id] { die(id); });
    return id;
  }

  // Runs until all pieces are here, or nothing can happen any more; returns the time.
  Duration run() {
    ask_all();
    while (!fetch.complete()) {
      const Instant timer = fetch.deadline();
      if (events_.empty() && timer == kNever) break;
      if (events_.empty() || timer < events_.begin()->first) {
        now_ = timer;
        fetch.on_timer(now_);
      } else {
        auto event = events_.extract(events_.begin());
        now_ = event.key();
        event.mapped()();
      }
      ask_all();
    }
    return now_ - Instant{};
  }
  void at(Instant when, std::function<void()> what) { events_.emplace(when, std::move(what)); }
  Source& source(PeerId id) { return sources[id.low - 1]; }
  // Requested pieces that the source has not delivered.
  [[nodiscard]] std::size_t asked(PeerId id) { return static_cast<std::size_t>(source(id).sent) - source(id).landed; }

  Pieces layout;

 public:
  Fetch fetch;
  std::vector<Source> sources;
  std::multiset<std::uint32_t> here;
  std::uint64_t sent_bytes = 0;

 private:
  static std::vector<PieceIndex> all(std::uint32_t pieces) {
    std::vector<PieceIndex> list;
    for (std::uint32_t piece = 0; piece < pieces; ++piece) list.push_back(PieceIndex{piece});
    return list;
  }

  void ask_all() {
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const PeerId id{0, i + 1};
      for (const PieceIndex piece : fetch.ask(id, now_)) serve(id, piece);
    }
  }
  void serve(PeerId id, PieceIndex piece) {
    Source& from = source(id);
    Instant& free = *std::min_element(from.free.begin(), from.free.end());
    const Instant begins = std::max(free, now_ + from.delay);
    if (begins >= from.stalls) return;
    const auto takes = static_cast<double>(kStatePieceBytes * from.free.size()) / from.bytes_per_s * 1e9;
    free = begins + nanoseconds(static_cast<std::int64_t>(takes));
    const bool lie = from.lies == from.sent++;
    at(begins + from.delay, [this, id, piece] { begin(id, piece); });
    at(free + from.delay, [this, id, piece, lie] { land(id, piece, lie); });
  }
  void begin(PeerId id, PieceIndex piece) {
    if (source(id).dies <= now_) return;
    if (!fetch.begin(id, piece, now_)) return;
    EXPECT_TRUE(landing_.emplace(piece.value, id).second) << "two sources send into one place";
  }
  void land(PeerId id, PieceIndex piece, bool lie) {
    if (source(id).dies <= now_) return;
    sent_bytes += kStatePieceBytes;
    ++source(id).landed;
    const auto at = landing_.find(piece.value);
    if (at == landing_.end() || at->second != id) return;  // the piece was discarded
    landing_.erase(at);
    fetch.landed(id, piece, now_);
    if (lie) {
      fetch.spoilt(piece);
      return fetch.remove_source(id);
    }
    source(id).delivered += kStatePieceBytes;
    here.insert(piece.value);
    fetch.verified(piece);
  }
  void die(PeerId id) {
    fetch.remove_source(id);
    for (auto at = landing_.begin(); at != landing_.end();) {
      if (at->second != id) {
        ++at;
        continue;
      }
      fetch.lost(id, PieceIndex{at->first});
      at = landing_.erase(at);
    }
  }

  Instant now_;
  std::multimap<Instant, std::function<void()>> events_;
  std::map<std::uint32_t, PeerId> landing_;
};

constexpr double kFast = 100e6;
constexpr double kSlow = 25e6;

TEST(Fetch, NothingMissingIsCompleteAtOnce) {
  Lines lines(0);
  EXPECT_TRUE(lines.fetch.complete());
  EXPECT_EQ(lines.run(), Duration{});
}

TEST(Fetch, OneSourceIsKeptBusy) {
  Lines lines(200);
  lines.add({.bytes_per_s = kFast, .delay = milliseconds(20)});
  const double ideal = 200.0 * kStatePieceBytes / kFast;
  EXPECT_LT(lines.run().seconds(), 1.1 * ideal + 0.2) << "the window must grow to the capacity of the line";
  EXPECT_EQ(lines.sent_bytes, 200U * kStatePieceBytes);
}

TEST(Fetch, SourcesShareByTheirSpeed) {
  Lines lines(500);
  const PeerId fast = lines.add({.bytes_per_s = kFast, .delay = milliseconds(20)});
  const PeerId slow = lines.add({.bytes_per_s = kSlow, .delay = milliseconds(20)});
  const double ideal = 500.0 * kStatePieceBytes / (kFast + kSlow);
  EXPECT_LT(lines.run().seconds(), 1.1 * ideal);
  const double ratio =
      static_cast<double>(lines.source(fast).delivered) / static_cast<double>(lines.source(slow).delivered);
  EXPECT_NEAR(ratio, kFast / kSlow, 0.5);
  EXPECT_LE(lines.sent_bytes, 502U * kStatePieceBytes) << "at the end, one or two pieces may arrive twice";
}

// Pieces on two stripes arrive in pairs. A source whose second piece seems to take no time is no faster than the
// others.
TEST(Fetch, SourcesWithSeveralStripesFinishTogether) {
  constexpr double kLine = 12.5e6;
  Lines lines(64);
  for (int i = 0; i < 4; ++i) {
    lines.add({.bytes_per_s = kLine, .delay = milliseconds(20), .free = std::vector<Instant>(2)});
  }
  const double piece = kStatePieceBytes / kLine;
  EXPECT_LT(lines.run().seconds(), 16 * piece + 0.04 + 2 * piece);
  EXPECT_LE(lines.sent_bytes, 68U * kStatePieceBytes);
}

TEST(Fetch, ASourceIsAskedForAsMuchAsItsLineHolds) {
  const PeerId source{0, 1};
  Lines lines(200);
  lines.add({.bytes_per_s = 12.5e6, .delay = milliseconds(20), .free = std::vector<Instant>(2)});
  lines.at(Instant{} + seconds(5), [&] {
    EXPECT_GE(lines.asked(source), 3U) << "two pieces arrive, and one waits";
    EXPECT_LE(lines.asked(source), 4U);
  });
  lines.run();
}

// All pieces are requested, many of them from the slow source. The fast source sends the last of these, and not the
// next one.
TEST(Fetch, AtTheEndTheSlowestSourcesLastPieceIsRequestedElsewhere) {
  const PeerId slow{0, 1};
  const PeerId quick{0, 2};
  const auto at = [](std::int64_t ms) { return Instant{} + milliseconds(ms); };
  Lines lines(4);
  Fetch& fetch = lines.fetch;
  fetch.add_source(slow, true);
  fetch.add_source(quick, true);
  ASSERT_EQ(fetch.ask(slow, at(0)).size(), 2U);
  ASSERT_EQ(fetch.ask(quick, at(0)).size(), 2U);
  for (const std::uint32_t piece : {2U, 3U}) {
    ASSERT_TRUE(fetch.begin(quick, PieceIndex{piece}, at(10 + piece)));
    fetch.landed(quick, PieceIndex{piece}, at(20 + piece));
    fetch.verified(PieceIndex{piece});
  }
  EXPECT_EQ(fetch.ask(quick, at(1'000)), (std::vector{PieceIndex{1}, PieceIndex{0}}));
}

// Its requested pieces come from another source, and it gets no more requests.
TEST(Fetch, AStalledSourceCostsItsUnfinishedPiecesOnly) {
  Lines lines(200);
  lines.add({.bytes_per_s = kFast, .delay = milliseconds(5)});
  lines.add({.bytes_per_s = kFast, .delay = milliseconds(5), .stalls = Instant{} + milliseconds(300)});
  EXPECT_LT(lines.run().seconds(), 200.0 * kStatePieceBytes / kFast + 0.5);
  EXPECT_TRUE(lines.fetch.complete());
  EXPECT_EQ(lines.here.size(), 200U);
}

TEST(Fetch, ALyingSourceIsNotAskedAgain) {
  Lines lines(50);
  lines.add({.bytes_per_s = kFast, .delay = milliseconds(5)});
  const PeerId liar = lines.add({.bytes_per_s = kFast, .delay = milliseconds(5), .lies = 3});
  lines.run();
  EXPECT_TRUE(lines.fetch.complete());
  EXPECT_EQ(lines.fetch.sources(), 1U);
  EXPECT_EQ(lines.source(liar).delivered, 3U * kStatePieceBytes);
}

TEST(Fetch, WithoutASourceItWaits) {
  Lines lines(20);
  lines.add({.bytes_per_s = kSlow, .delay = milliseconds(5), .dies = Instant{} + milliseconds(100)});
  lines.run();
  EXPECT_FALSE(lines.fetch.complete());
  const auto before = lines.here.size();
  EXPECT_GT(before, 0U);
  lines.add({.bytes_per_s = kSlow, .delay = milliseconds(5)});
  lines.run();
  EXPECT_TRUE(lines.fetch.complete());
  EXPECT_EQ(lines.here.size(), 20U) << "pieces that are here are not fetched again";
}

// Two receivers behind one slow source: if they exchange pieces, each piece crosses the slow line about once.
TEST(Fetch, AFellowReceiverSendsOfferedPieces) {
  Lines lines(40);
  const PeerId slow = lines.add({.bytes_per_s = kSlow, .delay = milliseconds(5)});
  const PeerId fellow = lines.add({.bytes_per_s = kFast, .delay = milliseconds(5)}, false);
  for (std::uint32_t piece = 20; piece < 40; ++piece) {
    lines.at(Instant{} + milliseconds(20) * piece,
             [&lines, fellow, piece] { lines.fetch.offered(fellow, PieceIndex{piece}); });
  }
  lines.run();
  EXPECT_TRUE(lines.fetch.complete());
  EXPECT_GE(lines.source(fellow).delivered, 18U * kStatePieceBytes);
  EXPECT_LE(lines.source(slow).delivered, 22U * kStatePieceBytes);
}

// Its line drips: requests never arrive, and each link breaks in turn.
TEST(Fetch, ASourceWhoseLinksBreakComesAfterTheOthers) {
  Lines lines(2);
  Fetch& fetch = lines.fetch;
  const PeerId source{0, 1};
  const PeerId fellow{0, 2};
  fetch.add_source(source, true);
  fetch.add_source(fellow, false);
  EXPECT_EQ(fetch.ask(source, {}).size(), 2U);
  for (std::uint32_t i = 0; i < 2; ++i) fetch.offered(fellow, PieceIndex{i});
  EXPECT_TRUE(fetch.ask(fellow, {}).empty()) << "the source may deliver";
  EXPECT_FALSE(fetch.has_stalled(source));
  fetch.lost_link(source);
  EXPECT_TRUE(fetch.has_stalled(source));
  EXPECT_EQ(fetch.ask(fellow, {}).size(), 2U);

  Lines again(8);
  again.fetch.add_source(source, true);
  ASSERT_EQ(again.fetch.ask(source, {}).size(), 2U);
  ASSERT_TRUE(again.fetch.begin(source, PieceIndex{0}, {}));
  again.fetch.landed(source, PieceIndex{0}, Instant{} + milliseconds(1));
  again.fetch.lost_link(source);
  EXPECT_FALSE(again.fetch.has_stalled(source)) << "it has delivered over that link";
  EXPECT_EQ(again.fetch.ask(source, {}).size(), 2U);
  again.fetch.lost_link(source);
  EXPECT_TRUE(again.fetch.has_stalled(source));
  EXPECT_EQ(again.fetch.ask(source, {}).size(), 1U);
}

TEST(Fetch, BeginsAtTheGivenPiece) {
  const Pieces pieces(
      Manifest{.tensors = {{"w", DataType::kU8, 4 * std::uint64_t{kStatePieceBytes}, false}}, .values = {}});
  Fetch fetch(pieces, {PieceIndex{0}, PieceIndex{1}, PieceIndex{3}}, 2, kPatience);
  fetch.add_source(PeerId{0, 1}, true);
  EXPECT_EQ(fetch.ask(PeerId{0, 1}, {}), (std::vector{PieceIndex{3}, PieceIndex{0}}));
  EXPECT_TRUE(fetch.is_here(PieceIndex{2})) << "the piece was never missing";
  EXPECT_FALSE(fetch.begin(PeerId{0, 1}, PieceIndex{2}, {}));
}

std::size_t bytes_of(Fetch& fetch) {
  std::vector<std::byte> bytes;
  archive::Saver saver(bytes);
  saver.all(fetch);
  return bytes.size();
}

TEST(Fetch, RepeatedOffersTakeNoMemory) {
  Lines lines(4);
  Fetch& fetch = lines.fetch;
  fetch.add_source(PeerId{0, 1}, false);
  for (std::uint32_t i = 0; i < 4; ++i) fetch.offered(PeerId{0, 1}, PieceIndex{i});
  const std::size_t before = bytes_of(fetch);
  for (int i = 0; i < 1000; ++i) fetch.offered(PeerId{0, 1}, PieceIndex{1});
  EXPECT_EQ(bytes_of(fetch), before);
}

// The piece was expected from the other source, which had already delivered it.
TEST(Fetch, ADiscardedPieceIsRequestedAgainIfTheLandedOneIsCorrupt) {
  const PeerId quick{0, 1};
  const PeerId slow{0, 2};
  const PieceIndex last{1};
  Lines lines(2);
  Fetch& fetch = lines.fetch;
  fetch.add_source(slow, true);
  fetch.add_source(quick, true);
  ASSERT_EQ(fetch.ask(slow, {}).size(), 2U);
  fetch.remove_source(slow);
  fetch.add_source(slow, true);
  const Instant later = Instant{} + seconds(1);
  ASSERT_EQ(fetch.ask(quick, later).size(), 2U);
  ASSERT_TRUE(fetch.begin(quick, last, later));
  EXPECT_FALSE(fetch.begin(slow, last, later)) << "the piece arrives from the other source";
  fetch.landed(quick, last, later);
  fetch.spoilt(last);
  fetch.remove_source(quick);
  const auto asked = fetch.ask(slow, later);
  EXPECT_NE(std::find(asked.begin(), asked.end(), last), asked.end());
}

// A withdrawn piece was added to the list again each time.
TEST(Fetch, RepeatedWithdrawalsTakeNoMemory) {
  const PeerId liar{0, 1};
  Lines lines(2);
  lines.fetch.add_source(liar, true);
  const std::size_t before = bytes_of(lines.fetch);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(lines.fetch.begin(liar, PieceIndex{1}, {}));
    lines.fetch.lost(liar, PieceIndex{1});
  }
  EXPECT_EQ(bytes_of(lines.fetch), before);
}

// While one honest source stays, all pieces arrive, and each piece is used once.
RC_GTEST_PROP(FetchLaw, AllPiecesArriveWhileOneSourceStays, ()) {
  const auto pieces = *rc::gen::inRange<std::uint32_t>(1, 120);
  Lines lines(pieces, *rc::gen::inRange<std::size_t>(0, pieces));
  const auto moment = [] { return Instant{} + milliseconds(*rc::gen::inRange(1, 3'000)); };
  const auto speed = [] { return *rc::gen::inRange(1, 200) * 1e6; };
  const auto delay = [] { return milliseconds(*rc::gen::inRange(0, 300)); };
  lines.add({.bytes_per_s = speed(), .delay = delay()});
  const int others = *rc::gen::inRange(0, 5);
  for (int i = 0; i < others; ++i) {
    Lines::Source source{.bytes_per_s = speed(), .delay = delay()};
    switch (*rc::gen::inRange(0, 4)) {
      case 0: source.dies = moment(); break;
      case 1: source.stalls = moment(); break;
      case 2: source.lies = *rc::gen::inRange(0, 20); break;
      default: break;
    }
    lines.add(source);
  }
  lines.run();
  RC_ASSERT(lines.fetch.complete());
  RC_ASSERT(lines.fetch.bytes_left() == 0U);
  RC_ASSERT(lines.here.size() == pieces);
  RC_ASSERT(std::set<std::uint32_t>(lines.here.begin(), lines.here.end()).size() == pieces);
}

}  // namespace
}  // namespace lockstep::state

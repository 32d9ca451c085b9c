// Which source is asked for the digests of the elected state, and which answers are accepted (rules 26 and 38).
#include "core/state/digest_query.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::state {
namespace {

constexpr PeerId kAnn{0, 1};
constexpr PeerId kBob{0, 2};

Instant at(int second) { return Instant{} + seconds(second); }

// A state of one tensor of three pieces, and one value.
struct Elected3 {
  Elected3() : pieces({{{"w", DataType::kU8, 3 * std::uint64_t{kStatePieceBytes}, false}}, {{"step"}}}) {
    root = root_of(pieces, digests);
  }
  [[nodiscard]] wire::PieceDigests answer() const { return {{}, {}, 0, digests.pieces, digests.values}; }
  DigestQuery::Answer take(DigestQuery& query, const wire::PieceDigests& in) const {
    return query.on_digests(in, pieces, 1, root, {});
  }

  Pieces pieces;
  Digests digests{{{1, 1}, {2, 2}, {3, 3}}, {7}};
  Digest root;
};

TEST(DigestQuery, ASilentSourceIsAskedAgainAfterAllOthers) {
  DigestQuery query(seconds(1));
  EXPECT_EQ(query.deadline(), kNever);
  EXPECT_EQ(query.begin({kAnn, kBob}, at(0)), kAnn);
  query.on_timer(at(0));
  EXPECT_EQ(query.asked(), kAnn) << "the source still has time";
  query.on_timer(at(1));
  EXPECT_EQ(query.asked(), std::nullopt);
  EXPECT_EQ(query.begin({kAnn, kBob}, at(1)), kBob);
  query.on_timer(at(2));
  EXPECT_EQ(query.begin({kAnn, kBob}, at(2)), kAnn);
  EXPECT_EQ(query.begin({}, at(2)), std::nullopt);
}

TEST(DigestQuery, ALostSourceIsNotWaitedFor) {
  DigestQuery query(seconds(1));
  (void)query.begin({kAnn}, at(0));
  query.forget(kBob);
  EXPECT_EQ(query.asked(), kAnn);
  query.forget(kAnn);
  EXPECT_EQ(query.asked(), std::nullopt);
  EXPECT_EQ(query.deadline(), kNever);
}

TEST(DigestQuery, AcceptsTheDigestsOfTheElectedRoot) {
  const Elected3 elected;
  DigestQuery query(seconds(1));
  (void)query.begin({kAnn}, at(0));
  EXPECT_EQ(elected.take(query, elected.answer()), DigestQuery::Answer::kComplete);
  EXPECT_EQ(query.digests(), elected.digests);
  EXPECT_EQ(query.asked(), std::nullopt);
}

TEST(DigestQuery, RefusesOtherDigests) {
  const Elected3 elected;
  std::vector<wire::PieceDigests> wrong(5, elected.answer());
  wrong[0].first = 1;
  wrong[1].digests.pop_back();
  wrong[2].digests[1].low ^= 1U;
  wrong[3].values[0] ^= 1U;
  wrong[4].values.clear();
  for (const wire::PieceDigests& in : wrong) {
    SCOPED_TRACE(&in - wrong.data());
    DigestQuery query(seconds(1));
    (void)query.begin({kAnn}, at(0));
    EXPECT_EQ(elected.take(query, in), DigestQuery::Answer::kWrong);
  }
}

}  // namespace
}  // namespace lockstep::state

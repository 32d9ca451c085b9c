// What a peer remembers of the requests and offers of other peers.
#include "core/state/requests.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "core/state/fellow_offers.h"
#include "core/wire/limits.h"

namespace lockstep::state {
namespace {

constexpr PeerId kAsker{0, 1};
constexpr PeerId kOtherAsker{0, 2};

TEST(Requests, PiecesAreSentInTheOrderOfTheRequests) {
  Requests requests;
  EXPECT_TRUE(requests.ask_pieces(kAsker, std::vector{4U, 2U, 4U}, 5));
  EXPECT_EQ(requests.next_piece(kOtherAsker), std::nullopt);
  EXPECT_EQ(requests.next_piece(kAsker), PieceIndex{4});
  EXPECT_EQ(requests.next_piece(kAsker), PieceIndex{2});
  EXPECT_EQ(requests.next_piece(kAsker), std::nullopt) << "a repeated request is answered once";
  EXPECT_FALSE(requests.has_pieces());
}

TEST(Requests, RefusesAPieceBeyondTheEnd) {
  Requests requests;
  EXPECT_FALSE(requests.ask_pieces(kAsker, std::vector{5U}, 5));
}

TEST(Requests, AFullQueueForgetsItsOldestRequest) {
  Requests requests;
  std::vector<std::uint32_t> pieces(kMaxPiecesAsked + 1);
  std::iota(pieces.begin(), pieces.end(), 0U);
  EXPECT_TRUE(requests.ask_pieces(kAsker, pieces, kMaxPiecesAsked + 1));
  EXPECT_EQ(requests.next_piece(kAsker), PieceIndex{1});
}

TEST(Requests, ANewLinkForgetsRequestsForPieces) {
  Requests requests;
  EXPECT_TRUE(requests.ask_pieces(kAsker, std::vector{1U}, 5));
  requests.relinked(kAsker);
  EXPECT_FALSE(requests.has_pieces());
}

TEST(Requests, TheLastRequestForDigestsCounts) {
  Requests requests;
  requests.ask_digests(kAsker, 0);
  requests.ask_digests(kAsker, 7);
  requests.ask_digests(kOtherAsker, 1);
  EXPECT_EQ(requests.take_digests(), (std::map<PeerId, std::uint32_t>{{kAsker, 7}, {kOtherAsker, 1}}));
  EXPECT_TRUE(requests.take_digests().empty());
}

TEST(FellowOffers, EachFellowIsToldOfEachPieceOnce) {
  FellowOffers offers;
  std::vector<PieceIndex> here = {PieceIndex{3}, PieceIndex{1}};
  EXPECT_EQ(offers.tell(kAsker, here), (std::vector<std::vector<std::uint32_t>>{{3, 1}}));
  here.push_back(PieceIndex{2});
  EXPECT_EQ(offers.tell(kAsker, here), (std::vector<std::vector<std::uint32_t>>{{2}}));
  EXPECT_TRUE(offers.tell(kAsker, here).empty());
  EXPECT_EQ(offers.tell(kOtherAsker, here), (std::vector<std::vector<std::uint32_t>>{{3, 1, 2}}));
  offers.relinked(kAsker);
  EXPECT_EQ(offers.tell(kAsker, here), (std::vector<std::vector<std::uint32_t>>{{3, 1, 2}}));
}

TEST(FellowOffers, ManyPiecesTakeSeveralMessages) {
  FellowOffers offers;
  const std::vector<PieceIndex> here(kMaxPiecesAsked + 1);
  const auto messages = offers.tell(kAsker, here);
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[0].size(), kMaxPiecesAsked);
  EXPECT_EQ(messages[1].size(), 1U);
}

TEST(FellowOffers, EarlyOffersAreKeptUntilTheyAreTaken) {
  FellowOffers offers;
  offers.keep(kAsker, PieceIndex{3});
  offers.keep(kAsker, PieceIndex{3});
  EXPECT_EQ(offers.take(), (std::map<PeerId, std::set<PieceIndex>>{{kAsker, {PieceIndex{3}}}}));
  EXPECT_TRUE(offers.take().empty());
}

}  // namespace
}  // namespace lockstep::state

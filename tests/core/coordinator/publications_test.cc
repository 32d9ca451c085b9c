#include "core/coordinator/publications.h"

#include <gtest/gtest.h>

#include "core/state/election.h"
#include "core/wire/limits.h"
#include "core/wire/link_key.h"

namespace lockstep::coordinator {
namespace {

constexpr LinkKey kRun{1, 2};
constexpr PeerId kNew{100, 100};
constexpr Digest kRed{7, 7};
constexpr Digest kBlue{8, 8};

wire::Member member(std::uint64_t n) {
  wire::Member made;
  made.id = {n, n};
  made.name = "p" + std::to_string(n);
  made.address = {io::Address::Family::kV4, {10, 0, 0, static_cast<std::uint8_t>(n)}, 4000};
  return made;
}

wire::Descriptor state(std::uint64_t layout = 1) {
  wire::Descriptor what;
  what.collective = wire::Collective::kSync;
  what.layout = layout;
  return what;
}

void publish(Publications& book, std::uint64_t who, std::uint64_t revision, Digest root, std::uint64_t layout = 1) {
  EXPECT_EQ(book.publish(member(who), {Tag{3}, state(layout), revision, root, {}, false}), "");
}
void want(Publications& book, PeerId who = kNew) { EXPECT_EQ(book.want(who, {}, {Tag{3}, state(), false}), ""); }

// The only message that is due.
wire::Published news(Publications& book) {
  const auto all = book.take_news(kRun);
  EXPECT_EQ(all.size(), 1U);
  return all.empty() ? wire::Published{} : all.front().second;
}
std::vector<std::uint64_t> sources(const wire::Published& published) {
  std::vector<std::uint64_t> ids;
  for (const wire::Source& source : published.sources) ids.push_back(source.id.high);
  return ids;
}

TEST(Publications, AWaitingPeerLearnsSourcesAddressesAndItsOwnKey) {
  Publications book;
  publish(book, 1, 4, kRed);
  EXPECT_TRUE(book.take_news(kRun).empty());
  want(book);
  const wire::Published told = news(book);
  EXPECT_EQ(told.revision, 4U);
  EXPECT_EQ(told.root, kRed);
  ASSERT_EQ(told.sources.size(), 1U);
  EXPECT_EQ(told.sources.front().address, member(1).address);
  EXPECT_EQ(told.link_key, wire::prefetcher_key(kRun, kNew));
  EXPECT_FALSE(told.link_key == kRun);
  EXPECT_FALSE(told.link_key == wire::prefetcher_key(kRun, PeerId{100, 101}));
}

TEST(Publications, AnswersWhenNothingIsPublished) {
  Publications book;
  want(book);
  EXPECT_TRUE(news(book).sources.empty());
  EXPECT_TRUE(book.take_news(kRun).empty());
}

TEST(Publications, OffersTheNewestRevisionWithTheMostPopularRoot) {
  Publications book;
  publish(book, 1, 5, kBlue);
  publish(book, 2, 5, kRed);
  publish(book, 3, 5, kBlue);
  publish(book, 4, 4, kRed);
  publish(book, 5, 4, kRed);
  want(book);
  const wire::Published told = news(book);
  EXPECT_EQ(told.root, kBlue);
  EXPECT_EQ(sources(told), (std::vector<std::uint64_t>{1, 3}));
  publish(book, 4, 6, kRed);
  EXPECT_EQ(sources(news(book)), (std::vector<std::uint64_t>{4}));
}

TEST(Publications, IsSentAgainOnlyAfterAChange) {
  Publications book;
  publish(book, 1, 5, kRed);
  want(book);
  (void)news(book);
  publish(book, 1, 5, kRed);
  publish(book, 2, 4, kRed);
  EXPECT_TRUE(book.take_news(kRun).empty());
  publish(book, 2, 5, kRed);
  EXPECT_EQ(sources(news(book)), (std::vector<std::uint64_t>{1, 2}));
  book.gone({1, 1});
  EXPECT_EQ(sources(news(book)), (std::vector<std::uint64_t>{2}));
  EXPECT_EQ(book.publish(member(2), {Tag{3}, state(), 5, kRed, {}, true}), "");
  EXPECT_TRUE(news(book).sources.empty());
}

TEST(Publications, NamesAnotherLayoutUnlessAMemberPublishesThisOne) {
  Publications book;
  publish(book, 1, 9, kRed, 2);
  want(book);
  const wire::Published told = news(book);
  EXPECT_TRUE(told.sources.empty());
  EXPECT_EQ(
      told.text,
      "states differ in tag 3: p1 publishes 0 bytes in 0 tensors, as this peer wants, but with other names, types, "
      "sizes, order or values: state the same tensors and values on both sides");
  publish(book, 2, 4, kBlue);
  const wire::Published now = news(book);
  EXPECT_EQ(now.text, "");
  EXPECT_EQ(sources(now), (std::vector<std::uint64_t>{2}));
}

TEST(Publications, NamesAnotherSize) {
  Publications book;
  wire::Descriptor larger = state(2);
  larger.count = 120;
  larger.tensors = 3;
  EXPECT_EQ(book.publish(member(1), {Tag{3}, larger, 5, kRed, {}, false}), "");
  want(book);
  EXPECT_EQ(news(book).text,
            "states differ in tag 3: p1 publishes 120 bytes in 3 tensors; this peer wants 0 bytes in 0 tensors: state "
            "the same tensors and values on both sides");
}

TEST(Publications, ARepeatedWishIsNotAnsweredAgain) {
  Publications book;
  publish(book, 1, 4, kRed);
  want(book);
  EXPECT_EQ(book.take_news(kRun).size(), 1U);
  want(book);
  EXPECT_TRUE(book.take_news(kRun).empty());
}

TEST(Publications, CountsFetchingPeers) {
  Publications book;
  EXPECT_EQ(book.fetching(), 0U);
  want(book);
  EXPECT_EQ(book.want(kNew, {}, {Tag{4}, state(), false}), "");
  EXPECT_EQ(book.fetching(), 1U) << "it is one peer";
  want(book, {8, 8});
  EXPECT_EQ(book.fetching(), 2U);
  EXPECT_EQ(book.want({8, 8}, {}, {Tag{3}, state(), true}), "");
  book.admitted(kNew);
  EXPECT_EQ(book.fetching(), 0U);
}

TEST(Publications, TellsFetchingPeersFromThoseThatHold) {
  Publications book;
  publish(book, 1, 4, kRed);
  want(book);
  want(book, {8, 8});
  EXPECT_EQ(book.take_news(kRun).size(), 2U);
  EXPECT_EQ(book.want(kNew, {}, {Tag{3}, state(), false, true}), "");
  EXPECT_EQ(book.fetching(), 1U);
  EXPECT_EQ(book.holding(), 1U);
  EXPECT_TRUE(book.take_news(kRun).empty()) << "it knows";
  publish(book, 1, 5, kBlue);
  EXPECT_EQ(book.take_news(kRun).size(), 2U) << "it wants newer ones";
  EXPECT_EQ(book.want(kNew, {}, {Tag{4}, state(), false}), "");
  EXPECT_EQ(book.holding(), 0U) << "it holds a part of what it wants";
  book.gone({8, 8});
  EXPECT_EQ(book.want(kNew, {}, {Tag{4}, state(), true}), "");
  EXPECT_EQ(book.fetching(), 0U);
  EXPECT_EQ(book.holding(), 1U);
  book.admitted(kNew);
  EXPECT_EQ(book.holding(), 0U);
}

TEST(Publications, GroupsAndTagsAreIndependent) {
  Publications book;
  wire::Member other = member(1);
  other.group = GroupId{1};
  EXPECT_EQ(book.publish(other, {Tag{3}, state(), 5, kRed, {}, false}), "");
  EXPECT_EQ(book.publish(member(2), {Tag{4}, state(), 5, kRed, {}, false}), "");
  want(book);
  EXPECT_TRUE(news(book).sources.empty());
}

TEST(Publications, AnAnswerNamesALimitedNumberOfSources) {
  Publications book;
  for (std::uint64_t n = 1; n <= kMaxSources + 5; ++n) publish(book, n, 5, kRed);
  want(book);
  EXPECT_EQ(news(book).sources.size(), kMaxSources);
}

TEST(Publications, AnAdmittedOrLostPeerReceivesNothingMore) {
  Publications book;
  want(book);
  want(book, {101, 101});
  (void)book.take_news(kRun);
  book.admitted(kNew);
  book.gone({101, 101});
  publish(book, 1, 5, kRed);
  EXPECT_TRUE(book.take_news(kRun).empty());
  book.gone({1, 1});
  EXPECT_EQ(book.size(), 0U);
}

TEST(Publications, OnePeerHasALimitedNumberOfPublications) {
  Publications book;
  for (std::uint64_t tag = 0; tag < kMaxShares; ++tag) {
    EXPECT_EQ(book.publish(member(1), {Tag{tag}, state(), 5, kRed, {}, false}), "");
    EXPECT_EQ(book.want(kNew, {}, {Tag{tag}, state(), false}), "");
  }
  EXPECT_EQ(book.publish(member(1), {Tag{0}, state(), 6, kRed, {}, false}), "");
  EXPECT_NE(book.publish(member(1), {Tag{99}, state(), 5, kRed, {}, false}), "");
  EXPECT_NE(book.want(kNew, {}, {Tag{99}, state(), false}), "");
  EXPECT_EQ(book.size(), 2 * kMaxShares);
}

}  // namespace
}  // namespace lockstep::coordinator

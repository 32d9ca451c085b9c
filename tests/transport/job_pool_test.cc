#include "transport/job_pool.h"

#include <gtest/gtest.h>

#include <latch>
#include <semaphore>
#include <set>
#include <thread>

namespace lockstep::transport {
namespace {

JobResult result_of(std::uint64_t checksum) { return {true, checksum, {}}; }

// On a machine with one core the pool has no threads and accepts no jobs; then these tests check nothing.
bool has_threads() { return std::thread::hardware_concurrency() > 1; }

TEST(JobPool, AnswersEachJobOnceAndNotifiesOnTheFirst) {
  if (!has_threads()) GTEST_SKIP();
  std::counting_semaphore<> told(0);
  JobPool pool([&] { told.release(); });
  std::set<std::uint64_t> answered;
  for (std::uint64_t token = 1; token <= 100;) {
    if (pool.give(JobToken{token}, [token] { return result_of(token * 7); })) {
      ++token;
      continue;
    }
    told.acquire();
    for (const peer::JobDone& done : pool.take()) {
      EXPECT_EQ(done.result.checksum, done.token.value * 7);
      EXPECT_TRUE(answered.insert(done.token.value).second);
    }
  }
  pool.join();
  for (const peer::JobDone& done : pool.take()) EXPECT_TRUE(answered.insert(done.token.value).second);
  EXPECT_EQ(answered.size(), 100U);
}

TEST(JobPool, AcceptsNoMoreJobsThanItsThreadsQueue) {
  if (!has_threads()) GTEST_SKIP();
  std::latch go(1);
  JobPool pool([] {});
  std::size_t given = 0;
  while (given < 1000 && pool.give(JobToken{given}, [&] { return go.wait(), result_of(0); })) ++given;
  EXPECT_GT(given, 0U);
  EXPECT_LE(given, 14U);
  go.count_down();
  pool.join();
  EXPECT_EQ(pool.take().size(), given);
}

TEST(JobPool, AcceptsNothingAfterJoin) {
  JobPool pool([] {});
  pool.join();
  EXPECT_FALSE(pool.give(JobToken{1}, [] { return result_of(0); }));
}

}  // namespace
}  // namespace lockstep::transport

// No exception crosses the C API.
#include "bindings/c/guard.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>

namespace lockstep::c {
namespace {

TEST(Guard, ExceptionsBecomeInternalErrorsWithTheirText) {
  const auto status = guard([]() -> lockstep_status { throw std::runtime_error("the disk is on fire"); });
  EXPECT_EQ(status, LOCKSTEP_ERR_INTERNAL);
  EXPECT_STREQ(lockstep_last_error(), "the disk is on fire");
}

TEST(Guard, OtherThrownTypesAreInternalErrors) {
  EXPECT_EQ(guard([]() -> lockstep_status { throw 7; }), LOCKSTEP_ERR_INTERNAL);
  EXPECT_STREQ(lockstep_last_error(), "an exception of unknown type");
}

TEST(Guard, OutOfMemoryHasItsOwnStatus) {
  EXPECT_EQ(guard([]() -> lockstep_status { throw std::bad_alloc(); }), LOCKSTEP_ERR_OUT_OF_MEMORY);
}

TEST(LastError, IsCutToItsBuffer) {
  fail(LOCKSTEP_ERR_ABORTED, std::string(10'000, 'x'));
  EXPECT_EQ(std::string(lockstep_last_error()), std::string(2047, 'x'));
}

TEST(LastError, BelongsToItsThread) {
  fail(LOCKSTEP_ERR_ABORTED, "mine");
  std::thread([] {
    EXPECT_STREQ(lockstep_last_error(), "");
    fail(LOCKSTEP_ERR_ABORTED, "theirs");
  }).join();
  EXPECT_STREQ(lockstep_last_error(), "mine");
}

}  // namespace
}  // namespace lockstep::c

#include "core/peer/validate_call.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "core/peer/input.h"
#include "core/wire/limits.h"

namespace lockstep::peer {
namespace {

Request request_of(Collective collective, std::size_t tensors) {
  Request request;
  request.collective = collective;
  request.type = DataType::kF32;
  request.root = {1, 2};
  request.tensors.resize(tensors);
  return request;
}

void expect_invalid(const Request& request, const std::string& text) {
  const auto error = validate_call(request);
  ASSERT_TRUE(error.has_value()) << text;
  EXPECT_EQ(error->status, Status::kInvalidArgument);
  EXPECT_EQ(error->text, text);
}

TEST(ValidateCall, AcceptsValidCalls) {
  EXPECT_FALSE(validate_call(request_of(Collective::kBarrier, 0)));
  EXPECT_FALSE(validate_call(request_of(Collective::kAllGather, 1)));
  EXPECT_FALSE(validate_call(request_of(Collective::kBroadcast, 3)));
  EXPECT_FALSE(validate_call(request_of(Collective::kAllReduce, kMaxTensorsPerCall)));
}

TEST(ValidateCall, RefusesAnImpossibleNumberOfTensors) {
  expect_invalid(request_of(Collective::kBarrier, 1), "a barrier takes no tensors");
  expect_invalid(request_of(Collective::kAllGather, 0), "all_gather takes exactly one tensor, not 0");
  expect_invalid(request_of(Collective::kAllReduce, kMaxTensorsPerCall + 1),
                 "65537 tensors in one call; at most 65536 are allowed");
}

TEST(ValidateCall, RefusesABroadcastWithoutARoot) {
  Request request = request_of(Collective::kBroadcast, 1);
  request.root = {};
  expect_invalid(request, "a broadcast needs a root: the peer id of a member");
}

TEST(ValidateCall, RefusesANegativeTimeout) {
  Request request = request_of(Collective::kBarrier, 0);
  request.timeout = milliseconds(-1);
  expect_invalid(request, "the timeout is negative; 0 means none");
}

TEST(ValidateCall, OnlyASyncHasAState) {
  const char* const text = "a sync needs a state; other collectives take none";
  expect_invalid(request_of(Collective::kSync, 0), text);
  Request request = request_of(Collective::kAllReduce, 1);
  request.state = std::make_shared<state::Statement>();
  expect_invalid(request, text);
}

TEST(ValidateCall, RefusesAStateWithAnInvalidManifest) {
  auto state = std::make_shared<state::Statement>();
  state->manifest.tensors = {{"w", DataType::kF32, 1, false}, {"w", DataType::kF32, 1, false}};
  Request request = request_of(Collective::kSync, 2);
  request.state = state;
  expect_invalid(request, "the state cannot be shared: tensor 1 has the same name as an earlier one: w");
}

TEST(ValidateCall, RefusesAFormatOfAnotherType) {
  Request request = request_of(Collective::kAllReduce, 1);
  request.type = DataType::kF64;
  request.weight = 1;
  ASSERT_TRUE(validate_call(request).has_value());
}

}  // namespace
}  // namespace lockstep::peer

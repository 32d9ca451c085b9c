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
  Request joined = request_of(Collective::kAllReduce, 1);
  joined.stated = {.tensors = kMaxTensorsPerCall + 1};
  expect_invalid(joined, "65537 tensors in one call; at most 65536 are allowed");
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

TEST(ValidateCall, AnAllReduceOfEveryTypeAndOperationCanChooseItsAlgorithm) {
  for (const DataType type : {DataType::kU8, DataType::kF64, DataType::kF32, DataType::kBool}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
      for (const wire::Algorithm algorithm : {wire::Algorithm::kRing, wire::Algorithm::kDirect}) {
        Request request = request_of(Collective::kAllReduce, 1);
        request.type = type;
        request.op = op;
        request.algorithm = algorithm;
        EXPECT_FALSE(validate_call(request)) << name_of(type) << " " << name_of(op) << " " << name_of(algorithm);
      }
    }
  }
}

TEST(ValidateCall, OtherCollectivesCanAskForTheRingOrAGrid) {
  Request request = request_of(Collective::kBroadcast, 1);
  for (const wire::Algorithm algorithm : {wire::Algorithm::kRing, wire::Algorithm::kGrid}) {
    request.algorithm = algorithm;
    EXPECT_FALSE(validate_call(request));
  }
  request.algorithm = wire::Algorithm::kDirect;
  expect_invalid(request, "broadcast cannot ask for the algorithm direct: only an all-reduce can ask for all of them");
  request = request_of(Collective::kBarrier, 0);
  request.algorithm = wire::Algorithm::kRing;
  expect_invalid(request, "barrier cannot ask for the algorithm ring: only an all-reduce can ask for all of them");
}

TEST(ValidateCall, ResidualsNeedADirectCallOfSumsOfF32) {
  Request request = request_of(Collective::kAllReduce, 1);
  request.tensors.front().residual = {BufferId{20}, 0, 4};
  const char* const text = "residuals need the direct algorithm: around the ring no contribution is encoded on its own";
  expect_invalid(request, text);  // the view may choose the ring
  request.algorithm = wire::Algorithm::kRing;
  expect_invalid(request, text);
  request.algorithm = wire::Algorithm::kDirect;
  EXPECT_FALSE(validate_call(request));
  request.op = ReduceOp::kMax;
  expect_invalid(request, "only an all-reduce of f32 (sum or avg) has residuals, not all_reduce of f32 (max)");
  request.op = ReduceOp::kAvg;
  request.type = DataType::kF64;
  expect_invalid(request, "only an all-reduce of f32 (sum or avg) has residuals, not all_reduce of f64 (avg)");
  request.tensors.front().residual = {};
  EXPECT_FALSE(validate_call(request));
}

TEST(ValidateCall, CoarseFormatsGoDirectUnlessTheCallerAsksForTheRing) {
  Request request = request_of(Collective::kAllReduce, 1);
  request.formats.up = WireFormat::kInt4;
  EXPECT_FALSE(validate_call(request));
  request.algorithm = wire::Algorithm::kDirect;
  EXPECT_FALSE(validate_call(request));
  request.algorithm = wire::Algorithm::kRing;
  expect_invalid(
      request,
      "around the ring contributions are rounded at every member, which is too often for int4: use the direct "
      "algorithm, or a format of 8 bits or more on the way up (int8)");
}

}  // namespace
}  // namespace lockstep::peer

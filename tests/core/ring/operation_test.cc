#include "core/ring/operation.h"

#include <gtest/gtest.h>

namespace lockstep::ring {
namespace {

// An attacker found it: an absurd count was cut into a list of segments first, and the engine stood still for seconds.
TEST(Operation, AnAbsurdCallIsRefusedBeforeItsSegmentsAreListed) {
  constexpr std::uint64_t kBytes = std::uint64_t{1} << 60U;  // as a list, 2^40 segments
  peer::Request request;
  request.type = DataType::kF32;
  request.tensors = {{{BufferId{1}, 0, kBytes}, {BufferId{2}, 0, kBytes}, kBytes / 4}};
  for (const auto collective : {wire::Collective::kAllReduce, wire::Collective::kReduceScatter,
                                wire::Collective::kBroadcast, wire::Collective::kAllGather}) {
    request.collective = collective;
    const std::uint64_t blocks[] = {kBytes / 2, kBytes / 2};
    const auto refusal = Operation::refusal(request, Rank{0}, 2, blocks, 0);
    ASSERT_TRUE(refusal);
    EXPECT_EQ(refusal->status, Status::kInvalidArgument);
    EXPECT_EQ(refusal->text,
              "the call cuts into 1099511627776 segments, more than 131072: split it, or use larger segments");
  }
}

}  // namespace
}  // namespace lockstep::ring

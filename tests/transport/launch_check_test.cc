#include "transport/launch_check.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/ring/schedule.h"

namespace lockstep::transport {
namespace {

using wire::Collective;

LaunchArgs args_of(Collective collective, std::vector<TensorArgs> tensors) {
  LaunchArgs args;
  args.collective = collective;
  args.type = DataType::kF32;
  args.root = {1, 2};
  args.tensors = std::move(tensors);
  return args;
}

void expect_invalid(const LaunchArgs& args, std::string_view what) {
  const auto error = validate_memory(args);
  ASSERT_TRUE(error.has_value()) << what;
  EXPECT_EQ(error->status, Status::kInvalidArgument);
  EXPECT_NE(error->text.find(what), std::string::npos) << error->text;
}

class LaunchCheck : public ::testing::Test {
 protected:
  std::vector<float> memory = std::vector<float>(1000);
  float* a = memory.data();
  float* b = memory.data() + 500;
};

TEST_F(LaunchCheck, AcceptsValidArguments) {
  EXPECT_FALSE(validate_memory(args_of(Collective::kBarrier, {})));
  EXPECT_FALSE(validate_memory(args_of(Collective::kAllReduce, {{a, b, 500, 0}})));
  EXPECT_FALSE(validate_memory(args_of(Collective::kAllReduce, {{a, a, 500, 0}, {b, b, 500, 0}})));
  EXPECT_FALSE(validate_memory(args_of(Collective::kAllReduce, {{nullptr, nullptr, 0, 0}})));
  EXPECT_FALSE(validate_memory(args_of(Collective::kAllReduce, {{a, b, 100, 0}, {a, b + 100, 100, 0}})));  // read twice
  EXPECT_FALSE(validate_memory(args_of(Collective::kReduceScatter, {{a, b, 500, 1000}})));
  EXPECT_FALSE(validate_memory(args_of(Collective::kAllGather, {{a + 100, a, 100, 4000}})));  // inside recv
  EXPECT_FALSE(validate_memory(args_of(Collective::kBroadcast, {{nullptr, a, 1000, 0}})));
}

TEST_F(LaunchCheck, RefusesNullMemory) {
  expect_invalid(args_of(Collective::kAllReduce, {{nullptr, a, 1, 0}}), "send is null");
  expect_invalid(args_of(Collective::kAllReduce, {{a, nullptr, 1, 0}}), "recv is null");
  expect_invalid(args_of(Collective::kAllGather, {{a, nullptr, 1, 4}}), "recv is null");
}

TEST_F(LaunchCheck, RefusesOverlap) {
  expect_invalid(args_of(Collective::kAllReduce, {{a, a + 1, 10, 0}}),
                 "tensor 0: send and recv overlap; give the same pointer");
  expect_invalid(args_of(Collective::kReduce, {{a, a, 10, 40}}), "give memory that does not overlap");
  expect_invalid(args_of(Collective::kAllReduce, {{a, a, 10, 0, a + 1}}),
                 "tensor 0: the residual overlaps send or recv");
  expect_invalid(args_of(Collective::kAllReduce, {{a, b, 10, 0}, {a + 20, b + 9, 10, 0}}), "tensors 0 and 1 overlap");
  expect_invalid(args_of(Collective::kAllReduce, {{a, b, 500, 0}, {b + 499, a, 1, 0}}), "overlap");
  expect_invalid(args_of(Collective::kReduceScatter, {{a, a, 500, 4}}), "overlap");
  expect_invalid(args_of(Collective::kAllGather, {{a + 99, a, 10, 400}}), "overlap");  // extends beyond recv
}

// Written memory lies behind a place that lies inside of another one: the one that ends last counts.
TEST_F(LaunchCheck, RefusesOverlapWithAPlaceThatContainsAnother) {
  expect_invalid(args_of(Collective::kAllReduce, {{a, b, 400, 0}, {a + 10, b + 400, 10, 0}, {b + 450, a + 200, 10, 0}}),
                 "tensors 0 and 2 overlap");
}

TEST_F(LaunchCheck, RefusesMemoryBeyondTheAddressSpace) {
  expect_invalid(args_of(Collective::kAllReduce, {{a, b, std::numeric_limits<std::uint64_t>::max() / 2, 0}}), "fit");
}

// Scratch of a sync depends on its state, and must not be taken for an invalid one.
TEST_F(LaunchCheck, RefusesInvalidCallsBeforeItTakesScratch) {
  const auto refused = [&](const LaunchArgs& args, std::string_view what) {
    Memory names;
    ScratchPool pool;
    Call::Loans loans;
    const auto request = prepare(args, 1, names, pool, loans);
    ASSERT_FALSE(request.ok()) << what;
    EXPECT_EQ(request.error().text, what);
    give_back(loans, names);
    EXPECT_FALSE(snapshot(args, names, pool, loans).ok());
    EXPECT_EQ(pool.footprint().cached, 0U);
  };
  LaunchArgs args = args_of(Collective::kSync, {{nullptr, a, 4, 4}, {nullptr, b, 4, 4}});
  args.type = DataType::kU8;
  refused(args, "a sync needs a state; other collectives take none");
  auto state = std::make_shared<state::Statement>();
  state->staged = true;  // the size of its scratch follows from the manifest
  state->manifest.tensors = {{"w", DataType::kF32, 1, false}, {"w", DataType::kF32, 1, false}};
  args.state = state;
  refused(args, "the state cannot be shared: tensor 1 has the same name as an earlier one: w");
}

// Ten floats that are compared, and ten that may differ.
LaunchArgs state_at(std::span<float> compared, std::span<float> own) {
  auto state = std::make_shared<state::Statement>();
  state->manifest.tensors = {{"w", DataType::kF32, 10, false}, {"own", DataType::kF32, 10, true}};
  LaunchArgs args;
  args.collective = Collective::kSync;
  args.tensors = {{nullptr, compared.data(), 40, 40}, {nullptr, own.data(), 40, 40}};
  args.state = std::move(state);
  return args;
}

TEST_F(LaunchCheck, RefusesValuesOfAStateThatShareMemory) {
  const auto with_values = [&](std::vector<void*> values) {
    LaunchArgs args = state_at({a, 10}, {b, 10});
    auto state = std::make_shared<state::Statement>(*args.state);
    for (const char* name : {"step", "epoch"}) state->manifest.values.push_back({name, state::ValueType::kUint});
    args.state = std::move(state);
    args.values = std::move(values);
    return args;
  };
  constexpr std::string_view kWhy = ": give each tensor and value of a state memory of its own";
  EXPECT_FALSE(validate_memory(with_values({a + 10, a + 12})));
  expect_invalid(with_values({a + 12, a + 12}), "value 1 (epoch) overlaps value 0 (step)");
  expect_invalid(with_values({a + 13, a + 12}), "value 1 (epoch) overlaps value 0 (step)");
  expect_invalid(with_values({a + 12, a + 9}), "value 1 (epoch) overlaps tensor 0 (w)");
  expect_invalid(with_values({b - 1, a + 12}), "value 0 (step) overlaps tensor 1 (own)");
  expect_invalid(with_values({a + 12, b + 4}), kWhy);
  expect_invalid(state_at({a, 10}, {a + 9, 10}), kWhy);
  EXPECT_FALSE(watch_of(with_values({a + 12, a + 12})).ok());
}

TEST_F(LaunchCheck, RefusesACallThatWritesToTheWatchedState) {
  const auto watch = watch_of(state_at({a + 20, 10}, {b, 10}));
  ASSERT_TRUE(watch.ok());
  const auto writes = [&](std::span<float> to) {
    return validate_unwatched(args_of(Collective::kBroadcast, {{nullptr, to.data(), to.size(), 0}}), *watch)
        .has_value();
  };
  EXPECT_FALSE(writes({a, 20}));
  EXPECT_TRUE(writes({a, 21}));
  EXPECT_TRUE(writes({a + 25, 1}));
  EXPECT_TRUE(writes({a + 29, 20}));
  EXPECT_FALSE(writes({a + 30, 20}));
  EXPECT_FALSE(writes({a + 25, 0}));
  EXPECT_FALSE(writes({b, 10})) << "it may differ";
  EXPECT_FALSE(validate_unwatched(args_of(Collective::kAllReduce, {{a + 20, b, 10, 0}}), *watch)) << "it is only read";
  EXPECT_TRUE(validate_unwatched(args_of(Collective::kAllReduce, {{b, b, 10, 0, a + 20}}), *watch))
      << "a residual is written";
}

TEST_F(LaunchCheck, WatchNeedsAState) {
  EXPECT_FALSE(watch_of(args_of(Collective::kAllReduce, {{a, b, 10, 0}})).ok());
  LaunchArgs blank = state_at({a, 10}, {b, 10});
  auto state = std::make_shared<state::Statement>(*blank.state);
  state->blank = true;
  blank.state = std::move(state);
  EXPECT_FALSE(watch_of(blank).ok());
  LaunchArgs less = state_at({a, 10}, {b, 10});
  less.tensors.pop_back();
  EXPECT_FALSE(watch_of(less).ok());
}

TEST_F(LaunchCheck, TheWatchedStateIsLentToTheCall) {
  Memory named;
  ScratchPool pool;
  Call call(CallId{1});
  const auto watch = watch_of(state_at({a, 10}, {b, 10}));
  ASSERT_TRUE(watch.ok());
  const auto request = prepare(args_of(Collective::kBarrier, {}), 1, named, pool, call.loans, &*watch);
  ASSERT_TRUE(request.ok());
  ASSERT_NE(request->watch, nullptr);
  EXPECT_EQ(request->watch->state, watch->args.state);
  ASSERT_EQ(request->watch->memory.size(), 2U);
  EXPECT_EQ(named.at(request->watch->memory[0]).data(), reinterpret_cast<std::byte*>(a));
  EXPECT_EQ(named.at(request->watch->memory[1]).size(), 40U);
  EXPECT_EQ(named.size(), 2U);
  give_back(call.loans, named);
  EXPECT_EQ(named.size(), 0U);
}

TEST_F(LaunchCheck, RegistersEveryPlaceAndReturnsAllOfThem) {
  Memory names;
  ScratchPool pool;
  Call::Loans loans;
  constexpr std::uint64_t kCount = ring::kWholeBytes;  // too many to travel with others
  std::vector<float> large(3 * kCount);
  float* const one = large.data();
  float* const two = one + kCount;
  const LaunchArgs args = args_of(Collective::kAllReduce, {{one, one, kCount, 0}, {two, two + kCount, kCount, 0}});
  ASSERT_FALSE(validate_memory(args));
  const auto request = prepare(args, 1, names, pool, loans);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->tensors[0].send, request->tensors[0].recv);
  EXPECT_EQ(names.at(request->tensors[1].recv).data(), reinterpret_cast<std::byte*>(two + kCount));
  EXPECT_GE(request->scratch.length, kCount * sizeof(float));  // holds the copy of the in-place tensor
  EXPECT_EQ(names.at(request->scratch).size(), request->scratch.length);
  give_back(loans, names);
  EXPECT_EQ(names.size(), 0U);
  EXPECT_EQ(pool.footprint().lent, 0U);
}

// The memory of a call while it is prepared, and after its end.
struct Prepared {
  explicit Prepared(const LaunchArgs& args) : request(prepare(args, 1, names, pool, loans)) {}
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  ~Prepared() { give_back(loans, names); }

  std::span<float> at(const BufferRef& where) {
    const auto bytes = names.at(where);
    return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
  }

  Memory names;
  ScratchPool pool;
  Call::Loans loans;
  Result<ring::Request> request;
};

TEST_F(LaunchCheck, SmallTensorsTravelAsOne) {
  std::vector<TensorArgs> tensors;
  for (std::size_t i = 0; i < 500; ++i) {
    a[i] = static_cast<float>(i);
    tensors.push_back({a + i, i % 2 == 0 ? a + i : b + i, 1, 0});  // some in place
  }
  Prepared call(args_of(Collective::kAllReduce, tensors));
  ASSERT_TRUE(call.request.ok());
  ASSERT_EQ(call.request->tensors.size(), 1U);
  const ring::Tensor& one = call.request->tensors.front();
  EXPECT_EQ(one.count, 500U);
  EXPECT_EQ(call.loans.buffers.size(), 1U) << "no name for each tensor";
  EXPECT_EQ(call.request->stated->tensors, 500U);
  const auto send = call.at(one.send);
  const auto recv = call.at(one.recv);
  for (std::size_t i = 0; i < 500; ++i) {
    EXPECT_EQ(send[i], static_cast<float>(i));
    recv[i] = 10 * send[i];
  }
  EXPECT_EQ(a[4], 4) << "nothing is written before the call has succeeded";
  give_results(call.loans);
  for (std::size_t i = 0; i < 500; ++i) EXPECT_EQ((i % 2 == 0 ? a : b)[i], 10 * static_cast<float>(i));
}

TEST_F(LaunchCheck, LargeTensorsAreLentAsTheyAre) {
  std::vector<float> large(ring::kWholeBytes / sizeof(float) + 1);
  const Prepared call(
      args_of(Collective::kAllReduce,
              {{large.data(), large.data(), large.size(), 0}, {a, a, 3, 0}, {b, b, 4, 0}, {a + 10, a + 10, 0, 0}}));
  ASSERT_TRUE(call.request.ok());
  ASSERT_EQ(call.request->tensors.size(), 2U);
  EXPECT_TRUE(ring::reduces_in_place(*call.request, call.request->tensors[0]));
  EXPECT_EQ(call.request->tensors[1].count, 7U);
  EXPECT_EQ(call.request->scratch.length, large.size() * sizeof(float) + ring::direct_room(*call.request))
      << "a copy of what is in place, and room for contributions";
  EXPECT_EQ(call.names.whole(call.request->tensors[0].recv.id).data(), reinterpret_cast<std::byte*>(large.data()));
}

// The root may have mapped its tensors for reading only.
TEST_F(LaunchCheck, WritesOnlyWhatABroadcastChanges) {
  Prepared call(args_of(Collective::kBroadcast, {{nullptr, a, 3, 0}, {nullptr, b, 3, 0}}));
  ASSERT_TRUE(call.request.ok());
  ASSERT_EQ(call.request->tensors.size(), 1U);
  EXPECT_EQ(call.request->tensors.front().send.length, 0U);
  call.at(call.request->tensors.front().recv)[4] = 5;
  give_results(call.loans);
  EXPECT_EQ(b[1], 5);
}

TEST_F(LaunchCheck, OnlyTheRootOfAReduceHasRoom) {
  const Prepared root(args_of(Collective::kReduce, {{a, b, 3, 12}, {a + 3, b + 3, 3, 12}}));
  const Prepared other(args_of(Collective::kReduce, {{a, nullptr, 3, 0}, {a + 3, nullptr, 3, 0}}));
  EXPECT_EQ(root.request->tensors.front().recv.length, 24U);
  EXPECT_EQ(other.request->tensors.front().recv.length, 0U);
  // The sums; and room for elements that do not divide, for sums of relays, and for contributions of 64 ranks straight
  // to the root.
  EXPECT_EQ(root.request->scratch.length, 24U + 2 * 64 * 4 + 24 / 4 + 64 * 24);
  EXPECT_TRUE(other.loans.joined.empty());
}

}  // namespace
}  // namespace lockstep::transport

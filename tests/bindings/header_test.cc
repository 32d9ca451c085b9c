// The header is valid C++, too. The *_INIT macros name every field, so that no compiler warns about a missing one.
#include <gtest/gtest.h>

#include "lockstep.h"

TEST(Header, InitMacrosSetOnlyTheSize) {
  const lockstep_comm_options options = LOCKSTEP_COMM_OPTIONS_INIT;
  EXPECT_EQ(options.struct_size, sizeof options);
  EXPECT_EQ(options.log_user, nullptr);
  EXPECT_EQ(options.journal_user, nullptr);
  const lockstep_result result = LOCKSTEP_RESULT_INIT;
  EXPECT_EQ(result.struct_size, sizeof result);
  EXPECT_EQ(result.blocks_count, 0U);
  const lockstep_world world = LOCKSTEP_WORLD_INIT;
  EXPECT_EQ(world.struct_size, sizeof world);
  const lockstep_all_reduce_args all_reduce = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
  EXPECT_EQ(all_reduce.struct_size, sizeof all_reduce);
  const lockstep_reduce_scatter_args reduce_scatter = LOCKSTEP_REDUCE_SCATTER_ARGS_INIT;
  EXPECT_EQ(reduce_scatter.struct_size, sizeof reduce_scatter);
  const lockstep_all_gather_args all_gather = LOCKSTEP_ALL_GATHER_ARGS_INIT;
  EXPECT_EQ(all_gather.struct_size, sizeof all_gather);
  const lockstep_reduce_args reduce = LOCKSTEP_REDUCE_ARGS_INIT;
  EXPECT_EQ(reduce.struct_size, sizeof reduce);
  const lockstep_gather_args gather = LOCKSTEP_GATHER_ARGS_INIT;
  EXPECT_EQ(gather.struct_size, sizeof gather);
  const lockstep_scatter_args scatter = LOCKSTEP_SCATTER_ARGS_INIT;
  EXPECT_EQ(scatter.struct_size, sizeof scatter);
  const lockstep_all_to_all_args all_to_all = LOCKSTEP_ALL_TO_ALL_ARGS_INIT;
  EXPECT_EQ(all_to_all.struct_size, sizeof all_to_all);
  const lockstep_broadcast_args broadcast = LOCKSTEP_BROADCAST_ARGS_INIT;
  EXPECT_EQ(broadcast.struct_size, sizeof broadcast);
  const lockstep_barrier_args barrier = LOCKSTEP_BARRIER_ARGS_INIT;
  EXPECT_EQ(barrier.struct_size, sizeof barrier);
  const lockstep_coordinator_options coordinator = LOCKSTEP_COORDINATOR_OPTIONS_INIT;
  EXPECT_EQ(coordinator.struct_size, sizeof coordinator);
}

// A program must work with every later library of the same major version: these sizes grow only by new fields at the
// end.
TEST(Header, StructSizesAreAtLeastThoseOfVersionOne) {
  static_assert(sizeof(void*) == 8);
  EXPECT_EQ(offsetof(lockstep_comm_options, flight_folder), 136U);
  EXPECT_EQ(sizeof(lockstep_comm_options), 192U);
  EXPECT_EQ(sizeof(lockstep_result), 312U);
  EXPECT_EQ(sizeof(lockstep_world), 72U);
  EXPECT_EQ(sizeof(lockstep_all_reduce_args), 128U);
  EXPECT_EQ(sizeof(lockstep_reduce_scatter_args), 72U);
  EXPECT_EQ(sizeof(lockstep_all_gather_args), 72U);
  EXPECT_EQ(sizeof(lockstep_broadcast_args), 88U);
  EXPECT_EQ(sizeof(lockstep_reduce_args), 96U);
  EXPECT_EQ(sizeof(lockstep_block), 24U);
  EXPECT_EQ(sizeof(lockstep_gather_args), 88U);
  EXPECT_EQ(sizeof(lockstep_scatter_args), 96U);
  EXPECT_EQ(sizeof(lockstep_all_to_all_args), 80U);
  EXPECT_EQ(sizeof(lockstep_barrier_args), 32U);
  EXPECT_EQ(sizeof(lockstep_state_tensor), 40U);
  EXPECT_EQ(sizeof(lockstep_state_value), 24U);
  EXPECT_EQ(sizeof(lockstep_sync_state_args), 96U);
  EXPECT_EQ(offsetof(lockstep_coordinator_options, flight_file), 48U);
  EXPECT_EQ(sizeof(lockstep_coordinator_options), 96U);
}

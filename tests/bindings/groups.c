/* Groups reduce separately, gangs join as a whole, newcomers are admitted. */
#include "peers.h"

enum { IN_TIME_MS = 30000 };

static int32_t sum_of(peer* self, int32_t value, lockstep_result* result) {
  lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
  args.send = &value;
  args.recv = &value;
  args.count = 1;
  args.type = LOCKSTEP_I32;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_all_reduce(self->comm, &args, result));
  return value;
}

/* Two replicas of two shards: a gang is a replica, a group all holders of one shard. */
static void as_shards(peer* self) {
  self->options.group = 10 + self->number % 2;
  self->options.gang = 1 + self->number / 2;
  self->options.gang_size = 2;
}

static void groups_reduce_separately(peer* self) {
  lockstep_world world = LOCKSTEP_WORLD_INIT;
  lockstep_group_size sizes[4];
  lockstep_result result = LOCKSTEP_RESULT_INIT;
  size_t count = 0;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_world_get(self->comm, &world));
  CHECK(world.members == 4 && world.groups == 2 && world.world_size == 2 && world.rank < 2);
  CHECK(world.group == self->options.group);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_group_sizes(self->comm, sizes, 4, &count, NULL));
  CHECK(count == 2 && sizes[0].group == 10 && sizes[0].members == 2 && sizes[1].group == 11 && sizes[1].members == 2);
  /* 1 + 4 in one group, 2 + 8 in the other. */
  CHECK(sum_of(self, 1 << self->number, &result) == (self->number % 2 == 0 ? 5 : 10));
  CHECK(result.world_size == 2);
  CHECK(result.members == 4 && result.groups == 2 && result.largest_group == 2 && result.newcomers_count == 0);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_leave(self->comm, IN_TIME_MS));
}

/* The last peer joins later: the other peers found the run. */
static void as_newcomer(peer* self) { self->options.founders = self->peers - 1; }

static void newcomers_are_admitted(peer* self) {
  lockstep_world world = LOCKSTEP_WORLD_INIT;
  lockstep_result result = LOCKSTEP_RESULT_INIT;
  lockstep_stage stage = LOCKSTEP_STAGE_NEW;
  lockstep_peer_id newcomers[MOST_PEERS];
  lockstep_peer_id members[MOST_PEERS];
  size_t count = 0;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_stage_get(self->comm, &stage));
  CHECK(stage == LOCKSTEP_STAGE_MEMBER);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_world_get(self->comm, &world));
  if (world.members < self->peers) {          /* a founder */
    const int names_them = self->number == 0; /* the other founder has no array, and learns how many they are */
    result.newcomers = names_them ? newcomers : NULL;
    result.newcomers_capacity = names_them ? MOST_PEERS : 0;
    CHECK_STATUS(LOCKSTEP_OK, lockstep_wait_for_world(self->comm, self->peers, IN_TIME_MS, &result));
    CHECK(result.world_size == self->peers && result.view > world.view);
    CHECK(result.members == self->peers && result.groups == 1 && result.largest_group == self->peers);
    CHECK_STATUS(LOCKSTEP_OK, lockstep_member_ids(self->comm, 0, members, MOST_PEERS, &count, NULL));
    CHECK(result.newcomers_count == 1);
    if (names_them) {
      CHECK(memcmp(&newcomers[0], &members[count - 1], sizeof newcomers[0]) == 0); /* newcomers come last */
    }
  }
  CHECK(sum_of(self, 1, &result) == (int32_t)self->peers);
  CHECK(result.world_size == self->peers);
  CHECK(result.members == self->peers && result.newcomers_count == 0);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_leave(self->comm, IN_TIME_MS));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_stage_get(self->comm, &stage));
  CHECK(stage == LOCKSTEP_STAGE_OVER);
}

int main(void) {
  with_peers(4, as_shards, groups_reduce_separately);
  with_peers(3, as_newcomer, newcomers_are_admitted);
  return 0;
}

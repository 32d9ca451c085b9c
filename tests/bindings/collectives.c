/* Every collective, blocking and asynchronous, among three peers, and alone. */
#include <math.h>

#include "peers.h"

enum { PEERS = 3 };

static lockstep_world world_of(peer* self) {
  lockstep_world world = LOCKSTEP_WORLD_INIT;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_world_get(self->comm, &world));
  return world;
}

static void the_world_is_the_same_for_all(peer* self) {
  const lockstep_world world = world_of(self);
  lockstep_group_size size;
  lockstep_peer_id ids[MOST_PEERS];
  lockstep_peer_id me;
  size_t count = 0;
  uint64_t view = 0;
  char text[LOCKSTEP_PEER_ID_TEXT_SIZE];

  CHECK(world.world_size == self->peers && world.members == self->peers);
  CHECK(world.rank < world.world_size);
  CHECK(world.groups == 1 && world.group == 0);
  CHECK(world.view != 0 && world.cohort != 0 && world.term != 0);

  CHECK_STATUS(LOCKSTEP_OK, lockstep_group_sizes(self->comm, &size, 1, &count, &view));
  CHECK(count == 1 && size.group == 0 && size.members == self->peers && view == world.view);

  CHECK_STATUS(LOCKSTEP_OK, lockstep_peer_id_self(self->comm, &me));
  CHECK(memcmp(&me, &world.self, sizeof me) == 0);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_member_ids(self->comm, 0, ids, MOST_PEERS, &count, NULL));
  CHECK(count == self->peers);
  CHECK(memcmp(&ids[world.rank], &me, sizeof me) == 0);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_member_ids(self->comm, 7, NULL, 0, &count, NULL));
  CHECK(count == 0); /* no such group */

  CHECK_STATUS(LOCKSTEP_OK, lockstep_peer_id_text(&me, text));
  CHECK(strlen(text) == 32 && strspn(text, "0123456789abcdef") == 32);
}

static void all_reduce_of(peer* self, uint64_t count, int in_place) {
  lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
  lockstep_result result = LOCKSTEP_RESULT_INIT;
  const lockstep_world world = world_of(self);
  lockstep_peer_id contributors[MOST_PEERS];
  float* send = (float*)malloc((size_t)count * sizeof(float) + 1);
  float* recv = in_place ? send : (float*)malloc((size_t)count * sizeof(float) + 1);
  uint64_t i;

  for (i = 0; i < count; ++i) send[i] = (float)(self->number + 1) * (float)(i % 100);
  args.send = send;
  args.recv = recv;
  args.count = count;
  args.type = LOCKSTEP_F32;
  args.tag = 5;
  result.contributors = contributors;
  result.contributors_capacity = MOST_PEERS;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_all_reduce(self->comm, &args, &result));
  for (i = 0; i < count; ++i) CHECK(recv[i] == (float)(self->peers * (self->peers + 1) / 2) * (float)(i % 100));
  if (!in_place) {
    for (i = 0; i < count; ++i) CHECK(send[i] == (float)(self->number + 1) * (float)(i % 100));
  }

  CHECK(result.status == LOCKSTEP_OK);
  CHECK(result.world_size == self->peers && result.contributors_count == self->peers);
  CHECK(result.rank == world.rank);
  CHECK(memcmp(&contributors[result.rank], &world.self, sizeof contributors[0]) == 0);
  CHECK(result.tag == 5 && result.cohort == world.cohort && result.retries == 0);
  CHECK(result.seconds > 0);
  CHECK((result.bytes_sent > 0) == (count > 0 && self->peers > 1)); /* a chunk may be empty; then no peer forwards it */
  /* A loopback is a short path: never BBR. */
  CHECK((result.congestion_control[0] != '\0') == (result.bytes_sent > 0));
  CHECK((result.streams > 0) == (result.bytes_sent > 0));
  CHECK(strncmp(result.congestion_control, "bbr", 3) != 0 && strchr(result.congestion_control, ',') == NULL);
  if (!in_place) free(recv);
  free(send);
}

static void all_reduce_takes_any_count(peer* self) {
  static const uint64_t counts[] = {0, 1, 2, 3, 1000, 300001};
  size_t i;
  for (i = 0; i < sizeof counts / sizeof counts[0]; ++i) {
    all_reduce_of(self, counts[i], 0);
    all_reduce_of(self, counts[i], 1);
  }
}

static void integers_average_toward_zero(peer* self) {
  int32_t value[2];
  lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
  value[0] = self->number == 0 ? 8 : 0;
  value[1] = self->number == 0 ? -8 : 0;
  args.send = value;
  args.recv = value;
  args.count = 2;
  args.type = LOCKSTEP_I32;
  args.op = LOCKSTEP_AVG;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_all_reduce(self->comm, &args, NULL));
  CHECK(value[0] == 8 / (int32_t)self->peers && value[1] == -8 / (int32_t)self->peers);
}

static void a_nan_spreads_to_the_result(peer* self) {
  float value = self->number == 0 ? nanf("") : 1;
  uint32_t bits = 0;
  lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
  if (self->peers == 1) return; /* nothing is folded */
  args.send = &value;
  args.recv = &value;
  args.count = 1;
  args.type = LOCKSTEP_F32;
  args.op = LOCKSTEP_MAX;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_all_reduce(self->comm, &args, NULL));
  memcpy(&bits, &value, sizeof bits);
  CHECK(bits == 0x7fc00000u);
}

static void many_tensors_are_one_round(peer* self) {
  double a[3] = {1, 2, 3}, b[1] = {10}, sum[1] = {0};
  lockstep_tensor tensors[3];
  lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
  lockstep_result result = LOCKSTEP_RESULT_INIT;
  const double n = self->peers;
  tensors[0].send = a;
  tensors[0].recv = a;
  tensors[0].count = 3;
  tensors[1].send = NULL; /* allowed with 0 elements */
  tensors[1].recv = NULL;
  tensors[1].count = 0;
  tensors[2].send = b;
  tensors[2].recv = sum;
  tensors[2].count = 1;
  args.tensors = tensors;
  args.tensors_count = 3;
  args.type = LOCKSTEP_F64;
  args.tag = 6;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_all_reduce(self->comm, &args, &result));
  CHECK(a[0] == n && a[1] == 2 * n && a[2] == 3 * n && b[0] == 10 && sum[0] == 10 * n);
  CHECK(result.use == 0);
}

static void reduce_scatter_gives_each_rank_its_chunk(peer* self) {
  enum { COUNT = 10 };
  int64_t send[COUNT], recv[COUNT];
  lockstep_reduce_scatter_args args = LOCKSTEP_REDUCE_SCATTER_ARGS_INIT;
  lockstep_result result = LOCKSTEP_RESULT_INIT;
  const uint64_t share = COUNT / self->peers, rest = COUNT % self->peers;
  uint64_t i;
  for (i = 0; i < COUNT; ++i) send[i] = (int64_t)(i + 100 * self->number);
  args.send = send;
  args.recv = recv;
  args.count = COUNT;
  args.recv_capacity = COUNT;
  args.type = LOCKSTEP_I64;
  args.op = LOCKSTEP_MAX;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_reduce_scatter(self->comm, &args, &result));
  CHECK(result.chunk_count == share + (result.rank < rest ? 1 : 0));
  CHECK(result.chunk_begin == result.rank * share + (result.rank < rest ? result.rank : rest));
  for (i = 0; i < result.chunk_count; ++i) {
    CHECK(recv[i] == (int64_t)(result.chunk_begin + i + 100 * (self->peers - 1)));
  }
}

static void reduce_scatter_refuses_too_small_a_capacity(peer* self) {
  int64_t send[10] = {0}, recv[1];
  lockstep_reduce_scatter_args args = LOCKSTEP_REDUCE_SCATTER_ARGS_INIT;
  args.send = send;
  args.recv = recv;
  args.count = 10;
  args.recv_capacity = 1;
  args.type = LOCKSTEP_I64;
  args.tag = 9;
  CHECK_STATUS(LOCKSTEP_ERR_BUFFER_TOO_SMALL, lockstep_reduce_scatter(self->comm, &args, NULL));
}

static void all_gather_takes_blocks_of_any_size(peer* self) {
  uint16_t send[MOST_PEERS], recv[64];
  uint64_t blocks[MOST_PEERS];
  lockstep_peer_id contributors[MOST_PEERS];
  lockstep_all_gather_args args = LOCKSTEP_ALL_GATHER_ARGS_INIT;
  lockstep_result result = LOCKSTEP_RESULT_INIT;
  size_t i, k, at = 0;
  for (i = 0; i < self->number; ++i) send[i] = (uint16_t)self->number; /* peer 0 contributes an empty block */
  args.send = send;
  args.recv = recv;
  args.send_count = self->number;
  args.recv_capacity = 64;
  args.type = LOCKSTEP_U16;
  result.blocks = blocks;
  result.blocks_capacity = MOST_PEERS;
  result.contributors = contributors;
  result.contributors_capacity = MOST_PEERS;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_all_gather(self->comm, &args, &result));
  CHECK(result.blocks_count == self->peers);
  CHECK(blocks[result.rank] == self->number);
  for (i = 0; i < self->peers; ++i) {
    for (k = 0; k < blocks[i]; ++k) CHECK(recv[at++] == blocks[i]);
  }
  CHECK(at == self->peers * (self->peers - 1) / 2);
}

static void reduce_gives_the_root_the_sum(peer* self) {
  const lockstep_world world = world_of(self);
  lockstep_peer_id ids[MOST_PEERS];
  size_t count = 0, i;
  int32_t send[1000], recv[1000];
  lockstep_reduce_args args = LOCKSTEP_REDUCE_ARGS_INIT;
  lockstep_result result = LOCKSTEP_RESULT_INIT;
  const unsigned root = self->peers - 1;
  const int32_t sum = (int32_t)(self->peers * (self->peers + 1) / 2);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_member_ids(self->comm, 0, ids, MOST_PEERS, &count, NULL));
  for (i = 0; i < 1000; ++i) send[i] = (int32_t)((world.rank + 1) * (i + 1)), recv[i] = -1;
  args.send = send;
  args.recv = world.rank == root ? recv : NULL;
  args.count = 1000;
  args.root = ids[root];
  args.type = LOCKSTEP_I32;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_reduce(self->comm, &args, &result));
  for (i = 0; i < 1000; ++i) CHECK(recv[i] == (world.rank == root ? sum * (int32_t)(i + 1) : -1));
  for (i = 0; i < 1000; ++i) CHECK(send[i] == (int32_t)((world.rank + 1) * (i + 1)));
  CHECK(result.bytes_sent == (world.rank == root ? 0 : sizeof send));

  args.recv = NULL; /* on the root, too */
  CHECK_STATUS(LOCKSTEP_ERR_BUFFER_TOO_SMALL, lockstep_reduce(self->comm, &args, NULL));
}

/* Rank r sends r + 1 elements. */
static void gather_gives_the_root_all_blocks(peer* self) {
  const lockstep_world world = world_of(self);
  lockstep_peer_id ids[MOST_PEERS];
  size_t count = 0, i, r, at = 0;
  int16_t send[MOST_PEERS], recv[MOST_PEERS * MOST_PEERS];
  uint64_t blocks[MOST_PEERS];
  lockstep_gather_args args = LOCKSTEP_GATHER_ARGS_INIT;
  lockstep_result result = LOCKSTEP_RESULT_INIT;
  const unsigned root = self->peers - 1;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_member_ids(self->comm, 0, ids, MOST_PEERS, &count, NULL));
  for (i = 0; i < MOST_PEERS; ++i) send[i] = (int16_t)(100 * world.rank + i);
  args.send = send;
  args.send_count = world.rank + 1;
  args.recv = world.rank == root ? recv : NULL;
  args.recv_capacity = MOST_PEERS * MOST_PEERS;
  args.root = ids[root];
  args.type = LOCKSTEP_I16;
  result.blocks = blocks;
  result.blocks_capacity = MOST_PEERS;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_gather(self->comm, &args, &result));
  CHECK(result.blocks_count == self->peers);
  for (r = 0; r < self->peers; ++r) {
    CHECK(blocks[r] == (world.rank == root ? r + 1 : 0));
    for (i = 0; i < blocks[r]; ++i) CHECK(recv[at++] == (int16_t)(100 * r + i));
  }

  args.recv_capacity = 1; /* too little, unless the root is alone */
  CHECK_STATUS(self->peers > 1 ? LOCKSTEP_ERR_BUFFER_TOO_SMALL : LOCKSTEP_OK, lockstep_gather(self->comm, &args, NULL));
}

/* Rank r gets r elements; the blocks lie in the reverse order of ranks. */
static void scatter_gives_each_rank_its_block(peer* self) {
  const lockstep_world world = world_of(self);
  lockstep_peer_id ids[MOST_PEERS];
  lockstep_block blocks[MOST_PEERS];
  size_t count = 0, i, r, at = 0;
  double send[MOST_PEERS * MOST_PEERS], recv[MOST_PEERS];
  lockstep_scatter_args args = LOCKSTEP_SCATTER_ARGS_INIT;
  lockstep_result result = LOCKSTEP_RESULT_INIT;
  uint64_t received[MOST_PEERS];
  CHECK_STATUS(LOCKSTEP_OK, lockstep_member_ids(self->comm, 0, ids, MOST_PEERS, &count, NULL));
  for (r = self->peers; r-- > 0;) {
    blocks[self->peers - 1 - r].to = ids[r];
    blocks[self->peers - 1 - r].count = r;
    for (i = 0; i < r; ++i) send[at++] = (double)(100 * r + i);
  }
  args.send = world.rank == 0 ? send : NULL;
  args.blocks = world.rank == 0 ? blocks : NULL;
  args.blocks_count = world.rank == 0 ? self->peers : 0;
  args.recv = recv;
  args.recv_capacity = MOST_PEERS;
  args.root = ids[0];
  args.type = LOCKSTEP_F64;
  result.blocks = received;
  result.blocks_capacity = MOST_PEERS;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_scatter(self->comm, &args, &result));
  CHECK(received[0] == world.rank);
  for (i = 0; i < world.rank; ++i) CHECK(recv[i] == (double)(100 * world.rank + i));
  for (r = 1; r < self->peers; ++r) CHECK(received[r] == 0);
}

/* Rank r sends 2 elements to itself and to each rank after it, and 1000 to each rank before it. */
static void all_to_all_gives_each_pair_its_block(peer* self) {
  const lockstep_world world = world_of(self);
  lockstep_peer_id ids[MOST_PEERS];
  lockstep_block blocks[MOST_PEERS];
  uint32_t send[MOST_PEERS * 1000], recv[MOST_PEERS * 1000];
  size_t count = 0, i, r, at = 0;
  lockstep_all_to_all_args args = LOCKSTEP_ALL_TO_ALL_ARGS_INIT;
  lockstep_result result = LOCKSTEP_RESULT_INIT;
  uint64_t received[MOST_PEERS];
  CHECK_STATUS(LOCKSTEP_OK, lockstep_member_ids(self->comm, 0, ids, MOST_PEERS, &count, NULL));
  for (r = 0; r < self->peers; ++r) {
    blocks[r].to = ids[r];
    blocks[r].count = r < world.rank ? 1000 : 2;
    for (i = 0; i < blocks[r].count; ++i) send[at++] = (uint32_t)(10000 * world.rank + 1000 * r + i);
  }
  args.send = send;
  args.recv = recv;
  args.blocks = blocks;
  args.blocks_count = self->peers;
  args.recv_capacity = MOST_PEERS * 1000;
  args.type = LOCKSTEP_U32;
  result.blocks = received;
  result.blocks_capacity = MOST_PEERS;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_all_to_all(self->comm, &args, &result));
  for (r = 0, at = 0; r < self->peers; ++r) {
    CHECK(received[r] == (world.rank < r ? 1000U : 2U));
    for (i = 0; i < received[r]; ++i) CHECK(recv[at++] == (uint32_t)(10000 * r + 1000 * world.rank + i));
  }

  blocks[0].to = blocks[self->peers - 1].to; /* two blocks for one peer */
  CHECK_STATUS(self->peers > 1 ? LOCKSTEP_ERR_INVALID_ARGUMENT : LOCKSTEP_OK,
               lockstep_all_to_all(self->comm, &args, NULL));
}

static void broadcast_copies_the_root(peer* self) {
  const lockstep_world world = world_of(self);
  lockstep_peer_id ids[MOST_PEERS];
  size_t count = 0;
  uint8_t data[1000], more[1] = {0};
  lockstep_tensor tensors[2];
  lockstep_broadcast_args args = LOCKSTEP_BROADCAST_ARGS_INIT;
  const unsigned root = self->peers - 1;
  size_t i;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_member_ids(self->comm, 0, ids, MOST_PEERS, &count, NULL));
  memset(data, world.rank == root ? 42 : 0, sizeof data);
  args.data = data;
  args.count = sizeof data;
  args.root = ids[root];
  args.type = LOCKSTEP_U8;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_broadcast(self->comm, &args, NULL));
  for (i = 0; i < sizeof data; ++i) CHECK(data[i] == 42);

  if (world.rank == root) more[0] = 7;
  memset(tensors, 0, sizeof tensors);
  tensors[0].recv = data;
  tensors[0].count = 10;
  tensors[1].recv = more;
  tensors[1].count = 1;
  args.data = NULL;
  args.count = 0;
  args.tensors = tensors;
  args.tensors_count = 2;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_broadcast(self->comm, &args, NULL));
  CHECK(data[9] == 42 && more[0] == 7);
}

static void barriers_and_admissions_have_results(peer* self) {
  lockstep_barrier_args args = LOCKSTEP_BARRIER_ARGS_INIT;
  lockstep_result result = LOCKSTEP_RESULT_INIT;
  uint32_t waiting = 99;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_barrier(self->comm, NULL, NULL));
  args.tag = 12;
  args.timeout_ms = 30000;
  args.no_retry = 1;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_barrier(self->comm, &args, &result));
  CHECK(result.world_size == self->peers && result.tag == 12);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_pending(self->comm, &waiting));
  CHECK(waiting == 0);
  waiting = 99;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_agree_pending(self->comm, 30000, &waiting));
  CHECK(waiting == 0);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_admit(self->comm, 30000, &result)); /* no newcomer waits */
  CHECK(result.world_size == self->peers && result.contributors_count == 0);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_wait_for_world(self->comm, self->peers, LOCKSTEP_FOREVER, NULL));
}

/* Four calls in flight; each peer begins them in a different order. */
static void calls_are_matched_by_tag_and_not_by_order(peer* self) {
  enum { CALLS = 4, COUNT = 5000 };
  float* data[CALLS];
  lockstep_work* works[CALLS];
  lockstep_work* open[CALLS];
  unsigned i, done;
  for (i = 0; i < CALLS; ++i) {
    const unsigned call = (i * (2 * self->number + 1) + self->number) % CALLS;
    lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
    unsigned k;
    data[call] = (float*)malloc(COUNT * sizeof(float));
    for (k = 0; k < COUNT; ++k) data[call][k] = (float)(call + 1);
    args.send = data[call];
    args.recv = data[call];
    args.count = COUNT;
    args.type = LOCKSTEP_F32;
    args.tag = 100 + call;
    CHECK_STATUS(LOCKSTEP_OK, lockstep_all_reduce_async(self->comm, &args, &works[call]));
    open[call] = works[call];
  }
  for (done = 0; done < CALLS; ++done) {
    size_t index = CALLS;
    lockstep_result result = LOCKSTEP_RESULT_INIT;
    CHECK_STATUS(LOCKSTEP_OK, lockstep_wait_any(open, CALLS, LOCKSTEP_FOREVER, &index));
    CHECK(index < CALLS && open[index] != NULL);
    CHECK_STATUS(LOCKSTEP_OK, lockstep_test(open[index], &result));
    CHECK(result.tag == 100 + index);
    open[index] = NULL;
  }
  for (i = 0; i < CALLS; ++i) {
    CHECK(data[i][COUNT - 1] == (float)((i + 1) * self->peers));
    CHECK_STATUS(LOCKSTEP_OK, lockstep_wait(works[i], LOCKSTEP_FOREVER, NULL)); /* the same answer */
    lockstep_work_free(works[i]);
    free(data[i]);
  }
}

static void all_other_collectives_have_an_asynchronous_form(peer* self) {
  int32_t in[6] = {0}, out[6 * MOST_PEERS];
  uint8_t byte = self->number == 0;
  lockstep_work* works[4];
  lockstep_work* last = NULL;
  lockstep_reduce_scatter_args scatter = LOCKSTEP_REDUCE_SCATTER_ARGS_INIT;
  lockstep_all_gather_args gather = LOCKSTEP_ALL_GATHER_ARGS_INIT;
  lockstep_broadcast_args broadcast = LOCKSTEP_BROADCAST_ARGS_INIT;
  lockstep_barrier_args barrier = LOCKSTEP_BARRIER_ARGS_INIT;
  int32_t chunk[6];
  size_t i, count = 0;
  scatter.send = in;
  scatter.recv = chunk;
  scatter.count = scatter.recv_capacity = 6;
  scatter.type = LOCKSTEP_I32;
  scatter.tag = 201;
  gather.send = in;
  gather.recv = out;
  gather.send_count = 6;
  gather.recv_capacity = 6 * MOST_PEERS;
  gather.type = LOCKSTEP_I32;
  gather.tag = 202;
  broadcast.data = &byte;
  broadcast.count = 1;
  broadcast.tag = 203;
  barrier.tag = 204;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_member_ids(self->comm, 0, &broadcast.root, 1, &count, NULL));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_reduce_scatter_async(self->comm, &scatter, &works[0]));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_all_gather_async(self->comm, &gather, &works[1]));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_broadcast_async(self->comm, &broadcast, &works[2]));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_barrier_async(self->comm, &barrier, &works[3]));
  for (i = 0; i < 4; ++i) {
    CHECK_STATUS(LOCKSTEP_OK, lockstep_wait(works[i], 30000, NULL));
    lockstep_work_free(works[i]);
  }
  CHECK_STATUS(LOCKSTEP_OK, lockstep_admit_async(self->comm, 30000, &last));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_wait(last, 30000, NULL));
  lockstep_work_free(last);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_wait_for_world_async(self->comm, self->peers, 30000, &last));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_wait(last, 30000, NULL));
  lockstep_work_free(last);
}

static void calls_after_leave_are_refused(peer* self) {
  lockstep_work* work = NULL;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_leave_async(self->comm, 30000, &work));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_wait(work, 30000, NULL));
  lockstep_work_free(work);
  CHECK_STATUS(LOCKSTEP_ERR_NOT_CONNECTED, lockstep_barrier(self->comm, NULL, NULL));
}

static void everything(peer* self) {
  the_world_is_the_same_for_all(self);
  all_reduce_takes_any_count(self);
  integers_average_toward_zero(self);
  a_nan_spreads_to_the_result(self);
  many_tensors_are_one_round(self);
  reduce_scatter_gives_each_rank_its_chunk(self);
  if (self->peers > 1) reduce_scatter_refuses_too_small_a_capacity(self);
  all_gather_takes_blocks_of_any_size(self);
  reduce_gives_the_root_the_sum(self);
  gather_gives_the_root_all_blocks(self);
  scatter_gives_each_rank_its_block(self);
  all_to_all_gives_each_pair_its_block(self);
  broadcast_copies_the_root(self);
  barriers_and_admissions_have_results(self);
  calls_are_matched_by_tag_and_not_by_order(self);
  all_other_collectives_have_an_asynchronous_form(self);
  calls_after_leave_are_refused(self);
}

int main(void) {
  with_peers(PEERS, NULL, everything);
  with_peers(1, NULL, everything);
  return 0;
}

/* Point-to-point transfers: tags in any order, any number at once, any source, sizes, errors, leaving, losses. */
#include "peers.h"

enum { IN_TIME_MS = 30000, TAGS = 64, MANY = 1000, LARGE = 5 << 20 };

/* The peers' ids by number, filled by share_ids(). */
static lockstep_peer_id ids[MOST_PEERS];

static void meet(peer* self) {
  const int met = pthread_barrier_wait(self->meeting);
  CHECK(met == 0 || met == PTHREAD_BARRIER_SERIAL_THREAD);
}

static void share_ids(peer* self) {
  CHECK_STATUS(LOCKSTEP_OK, lockstep_peer_id_self(self->comm, &ids[self->number]));
  meet(self);
}

static lockstep_send_args sending(const float* data, size_t count, lockstep_peer_id to, uint64_t tag) {
  lockstep_send_args args = LOCKSTEP_SEND_ARGS_INIT;
  args.data = data;
  args.count = count;
  args.to = to;
  args.type = LOCKSTEP_F32;
  args.tag = tag;
  args.timeout_ms = IN_TIME_MS;
  return args;
}

static lockstep_recv_args receiving(float* data, size_t count, lockstep_peer_id from, uint64_t tag) {
  lockstep_recv_args args = LOCKSTEP_RECV_ARGS_INIT;
  args.data = data;
  args.count = count;
  args.from = from;
  args.type = LOCKSTEP_F32;
  args.tag = tag;
  args.timeout_ms = IN_TIME_MS;
  return args;
}

static lockstep_work* send_async(peer* self, const float* data, size_t count, lockstep_peer_id to, uint64_t tag) {
  const lockstep_send_args args = sending(data, count, to, tag);
  lockstep_work* work = NULL;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_send_async(self->comm, &args, &work));
  return work;
}

static lockstep_work* recv_async(peer* self, float* data, size_t count, lockstep_peer_id from, uint64_t tag) {
  const lockstep_recv_args args = receiving(data, count, from, tag);
  lockstep_work* work = NULL;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_recv_async(self->comm, &args, &work));
  return work;
}

static void finish(lockstep_work* work, lockstep_status wanted) {
  CHECK_STATUS(wanted, lockstep_wait(work, IN_TIME_MS, NULL));
  lockstep_work_free(work);
}

/* Both sides: tags in one order for sends and in another for receives, small and large tensors, all at once. */
static void tags_in_any_order(peer* self) {
  static float out[2][TAGS][8192];
  static float in[2][TAGS][8192];
  const unsigned me = self->number;
  lockstep_work* works[2 * TAGS];
  unsigned i;
  share_ids(self);
  for (i = 0; i < TAGS; ++i) {
    out[me][i][0] = out[me][i][8191] = (float)(1000 * me + i);
  }
  for (i = 0; i < TAGS; ++i) {
    const unsigned tag = (i * 37 + 11 * me) % TAGS;
    works[i] = recv_async(self, in[me][tag], tag % 2 == 0 ? 3 : 8192, ids[1 - me], tag);
  }
  for (i = 0; i < TAGS; ++i) {
    const unsigned tag = TAGS - 1 - i;
    works[TAGS + i] = send_async(self, out[me][tag], tag % 2 == 0 ? 3 : 8192, ids[1 - me], tag);
  }
  for (i = 0; i < 2 * TAGS; ++i) finish(works[i], LOCKSTEP_OK);
  for (i = 0; i < TAGS; ++i) {
    CHECK(in[me][i][0] == (float)(1000 * (1 - me) + i));
    if (i % 2 != 0) CHECK(in[me][i][8191] == (float)(1000 * (1 - me) + i));
  }
  CHECK_STATUS(LOCKSTEP_OK, lockstep_leave(self->comm, IN_TIME_MS));
}

/* More sends than the library keeps early, in the order of their calls, before and after the receives. */
static void many_at_once(peer* self) {
  static float data[2][MANY];
  lockstep_work* works[MANY];
  unsigned i;
  share_ids(self);
  if (self->number == 1) {
    for (i = 0; i < MANY; ++i) works[i] = recv_async(self, &data[1][i], 1, ids[0], 5);
  }
  for (i = 0; self->number == 0 && i < MANY; ++i) {
    data[0][i] = (float)i;
    works[i] = send_async(self, &data[0][i], 1, ids[1], 5);
  }
  for (i = 0; i < MANY; ++i) finish(works[i], LOCKSTEP_OK);
  for (i = 0; i < MANY; ++i) CHECK(data[self->number][i] == (float)i);

  meet(self);
  for (i = 0; self->number == 0 && i < MANY; ++i) works[i] = send_async(self, &data[0][i], 1, ids[1], i);
  meet(self);
  if (self->number == 1) {
    memset(data[1], 0, sizeof data[1]);
    for (i = MANY; i-- > 0;) finish(recv_async(self, &data[1][i], 1, ids[0], i), LOCKSTEP_OK);
    for (i = 0; i < MANY; ++i) CHECK(data[1][i] == (float)i);
  } else {
    for (i = 0; i < MANY; ++i) finish(works[i], LOCKSTEP_OK);
  }
  CHECK_STATUS(LOCKSTEP_OK, lockstep_leave(self->comm, IN_TIME_MS));
}

static const lockstep_peer_id any_member = {{0}};

static void from_any_member(peer* self) {
  float value = (float)self->number;
  unsigned i;
  unsigned seen = 0;
  share_ids(self);
  if (self->number != 0) {
    const lockstep_send_args args = sending(&value, 1, ids[0], 9);
    lockstep_result result = LOCKSTEP_RESULT_INIT;
    CHECK_STATUS(LOCKSTEP_OK, lockstep_send(self->comm, &args, &result));
    CHECK(memcmp(&result.partner, &ids[0], sizeof ids[0]) == 0 && result.count == 1 && result.tag == 9);
  }
  for (i = 1; self->number == 0 && i < self->peers; ++i) {
    const lockstep_recv_args args = receiving(&value, 1, any_member, 9);
    lockstep_result result = LOCKSTEP_RESULT_INIT;
    unsigned from;
    CHECK_STATUS(LOCKSTEP_OK, lockstep_recv(self->comm, &args, &result));
    for (from = 1; memcmp(&result.partner, &ids[from], sizeof ids[from]) != 0; ++from) CHECK(from + 1 < self->peers);
    CHECK(value == (float)from && result.count == 1);
    seen |= 1U << from;
  }
  if (self->number == 0) CHECK(seen == 14);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_leave(self->comm, IN_TIME_MS));
}

static void differences_name_both_sides(peer* self) {
  float data[8] = {0};
  lockstep_recv_args args;
  share_ids(self);
  if (self->number == 0) {
    args = receiving(data, 2, ids[1], 1);
    meet(self);
    CHECK_STATUS(LOCKSTEP_ERR_MISMATCH, lockstep_recv(self->comm, &args, NULL));
    check_text(__FILE__, __LINE__, "recv", lockstep_last_error(), "peer 1 sends f32 [3], peer 0 receives f32 [2]");
    args = receiving(data, 4, ids[1], 2);
    args.type = LOCKSTEP_I32;
    CHECK_STATUS(LOCKSTEP_ERR_MISMATCH, lockstep_recv(self->comm, &args, NULL));
    check_text(__FILE__, __LINE__, "recv", lockstep_last_error(), "with tag 2 differ: peer 1 sends f32 [4]");
    args = receiving(data, 1, ids[0], 0);
    CHECK_INVALID("this peer itself", lockstep_recv(self->comm, &args, NULL));
    args = receiving(data, 1, any_member, 0);
    args.from.bytes[3] = 1;
    CHECK_INVALID("no member", lockstep_recv(self->comm, &args, NULL));
    args = receiving(data, 1, ids[1], 77);
    args.timeout_ms = 20;
    CHECK_STATUS(LOCKSTEP_ERR_TIMED_OUT, lockstep_recv(self->comm, &args, NULL));
    check_text(__FILE__, __LINE__, "recv", lockstep_last_error(),
               "recv of f32 [1] with tag 77 from peer 1: peer 0 timed out after 20 ms: peer 1 has not sent it");
  } else {
    lockstep_work* first;
    meet(self);
    first = send_async(self, data, 3, ids[0], 1);
    (void)lockstep_wait(first, IN_TIME_MS, NULL); /* the bytes may have gone before the recv was called */
    lockstep_work_free(first);
    (void)lockstep_wait(first = send_async(self, data, 4, ids[0], 2), IN_TIME_MS, NULL);
    lockstep_work_free(first);
  }
  meet(self);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_leave(self->comm, IN_TIME_MS));
}

/* Leave delivers the sends. Calls that wait for a leaver end, and the text names the leaver. */
static void leave_delivers(peer* self) {
  static float out[LARGE];
  static float in[LARGE];
  float small[3] = {0, 0, 0};
  share_ids(self);
  if (self->number == 0) {
    lockstep_work* works[3];
    out[LARGE - 1] = 7;
    small[2] = 3;
    works[0] = send_async(self, small, 3, ids[1], 1);
    works[1] = send_async(self, out, LARGE, ids[1], 2);
    works[2] = send_async(self, small, 0, ids[1], 3);
    CHECK_STATUS(LOCKSTEP_OK, lockstep_leave(self->comm, IN_TIME_MS));
    finish(works[0], LOCKSTEP_OK);
    finish(works[1], LOCKSTEP_OK);
    finish(works[2], LOCKSTEP_OK);
    meet(self);
  } else {
    lockstep_work* never = recv_async(self, small, 1, ids[0], 4);
    finish(recv_async(self, in, LARGE, ids[0], 2), LOCKSTEP_OK);
    CHECK(in[LARGE - 1] == 7);
    CHECK_STATUS(LOCKSTEP_ERR_PEER_LOST, lockstep_wait(never, IN_TIME_MS, NULL));
    check_text(__FILE__, __LINE__, "recv", lockstep_last_error(),
               "recv of f32 [1] with tag 4 from peer 0: peer 0 has left the run");
    lockstep_work_free(never);
    meet(self);
    finish(recv_async(self, small, 3, ids[0], 1), LOCKSTEP_OK); /* after its sender has gone */
    finish(recv_async(self, small, 0, ids[0], 3), LOCKSTEP_OK);
    CHECK(small[2] == 3);
    never = recv_async(self, small, 1, ids[0], 5);
    CHECK_STATUS(LOCKSTEP_ERR_PEER_LOST, lockstep_wait(never, IN_TIME_MS, NULL));
    check_text(__FILE__, __LINE__, "recv", lockstep_last_error(), "peer 0 has left the run");
    lockstep_work_free(never);
    CHECK_STATUS(LOCKSTEP_OK, lockstep_leave(self->comm, IN_TIME_MS));
  }
}

/* The third peer is lost while the other two exchange a large tensor; then one of those two is lost. */
static void losses(peer* self) {
  static float data[3][LARGE];
  lockstep_work* never = NULL;
  share_ids(self);
  if (self->number == 2) {
    meet(self);
    lockstep_comm_close(self->comm);
    meet(self);
    meet(self);
    return;
  }
  if (self->number == 0) {
    lockstep_work* work = send_async(self, data[0], LARGE, ids[1], 0);
    never = recv_async(self, data[2], 1, ids[2], 0);
    meet(self);
    meet(self);
    finish(never, LOCKSTEP_ERR_PEER_LOST);
    finish(work, LOCKSTEP_OK);
    never = recv_async(self, data[2], LARGE, ids[1], 1);
    meet(self);
    CHECK_STATUS(LOCKSTEP_ERR_PEER_LOST, lockstep_wait(never, IN_TIME_MS, NULL));
    check_text(__FILE__, __LINE__, "recv", lockstep_last_error(), "peer 1 was lost");
    lockstep_work_free(never);
    CHECK_STATUS(LOCKSTEP_OK, lockstep_leave(self->comm, IN_TIME_MS));
    return;
  }
  meet(self);
  meet(self);
  finish(recv_async(self, data[1], LARGE, ids[0], 0), LOCKSTEP_OK);
  meet(self);
  lockstep_comm_close(self->comm);
}

/* An abort before the other side has matched takes no use; afterwards the other side learns of it. */
static void aborts(peer* self) {
  static float data[2][LARGE];
  share_ids(self);
  if (self->number == 0) {
    lockstep_work* work = send_async(self, data[0], LARGE, ids[1], 0);
    CHECK_STATUS(LOCKSTEP_OK, lockstep_abort(work, "changed my mind"));
    CHECK_STATUS(LOCKSTEP_ERR_ABORTED, lockstep_wait(work, IN_TIME_MS, NULL));
    check_text(__FILE__, __LINE__, "send", lockstep_last_error(), "aborted by peer 0: changed my mind");
    lockstep_work_free(work);
    data[0][0] = 5;
    finish(send_async(self, data[0], LARGE, ids[1], 0), LOCKSTEP_OK);
  } else {
    lockstep_work* work = recv_async(self, data[1], 1, ids[0], 6);
    CHECK_STATUS(LOCKSTEP_OK, lockstep_abort(work, NULL));
    finish(work, LOCKSTEP_ERR_ABORTED);
    for (;;) { /* the first one may have matched */
      work = recv_async(self, data[1], LARGE, ids[0], 0);
      if (lockstep_wait(work, IN_TIME_MS, NULL) == LOCKSTEP_OK) break;
      lockstep_work_free(work);
    }
    lockstep_work_free(work);
    CHECK(data[1][0] == 5);
  }
  CHECK_STATUS(LOCKSTEP_OK, lockstep_leave(self->comm, IN_TIME_MS));
}

int main(void) {
  with_peers(2, NULL, tags_in_any_order);
  with_peers(2, NULL, many_at_once);
  with_peers(4, NULL, from_any_member);
  with_peers(2, NULL, differences_name_both_sides);
  with_peers(2, NULL, leave_delivers);
  with_peers(3, NULL, losses);
  with_peers(2, NULL, aborts);
  return 0;
}

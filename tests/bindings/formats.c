/* All-reduces whose elements travel in wire formats, and weighted averages. */
#include <fenv.h>
#include <math.h>

#include "peers.h"

enum { IN_TIME_MS = 30000, MOST = 20000 };

/* Values within the range of every format, of a different magnitude in each block. */
static float element(unsigned who, uint64_t i) {
  return (float)((int)((i * 7919 + who * 104729u) % 2001) - 1000) * (i / 64 % 2 == 0 ? 0.001f : 1.0f);
}

/* The largest error of one rounding, relative to the largest element. */
static double step_of(lockstep_wire_format format) {
  static const double steps[] = {0, 1.0 / 256, 1.0 / 2048, 1.0 / 254, 1.0 / 254, 0.5, 1.0 / 14, 1.0 / 3};
  return steps[format] * 1.01 + 1e-6;
}

static void reduce(peer* self, lockstep_wire_format up, lockstep_wire_format down, uint64_t count, int in_place) {
  lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
  lockstep_result result = LOCKSTEP_RESULT_INIT;
  static float send_of[MOST_PEERS][MOST], recv_of[MOST_PEERS][MOST];
  float* send = send_of[self->number];
  float* recv = in_place ? send : recv_of[self->number];
  double bound = 0, weights = 0;
  unsigned who;
  uint64_t i;

  for (i = 0; i < count; ++i) send[i] = element(self->number, i);
  args.send = send;
  args.recv = recv;
  args.count = count;
  args.type = LOCKSTEP_F32;
  args.op = LOCKSTEP_AVG;
  args.tag = 5;
  args.up = up;
  args.down = down;
  if (count != 100) args.algorithm = (up + down) % 2 ? LOCKSTEP_ALGORITHM_DIRECT : LOCKSTEP_ALGORITHM_AUTO;
  args.weighted = count % 2 == 0;
  args.weight = args.weighted ? self->number + 1 : 0;
  for (who = 0; who < self->peers; ++who) weights += args.weighted ? who + 1 : 1;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_all_reduce(self->comm, &args, &result));
  CHECK(result.weight == (args.weighted ? weights : 0.0));
  if (args.algorithm == LOCKSTEP_ALGORITHM_DIRECT || up == LOCKSTEP_WIRE_INT4 || up == LOCKSTEP_WIRE_E3M0) {
    CHECK(result.algorithm == LOCKSTEP_ALGORITHM_DIRECT);
  } else {
    CHECK(result.algorithm == LOCKSTEP_ALGORITHM_RING);
  }
  CHECK(result.rates_count == 0);
  bound = 1000 * (step_of(up) * (self->peers - 1) + step_of(down));
  for (i = 0; i < count; ++i) {
    double want = 0;
    for (who = 0; who < self->peers; ++who) {
      want += (double)element(who, i) * (args.weighted ? who + 1 : 1) / weights;
    }
    CHECK(fabs(recv[i] - want) <= bound);
    if (!in_place) CHECK(send[i] == element(self->number, i));
  }
  if (up >= LOCKSTEP_WIRE_INT8 && up <= LOCKSTEP_WIRE_INT8_MIN_MAX && down == LOCKSTEP_WIRE_INT8 && count == MOST) {
    /* a quarter, and scales */
    CHECK(result.bytes_sent < count * 4 * 2 * (self->peers - 1) / self->peers * 26 / 100 + 1);
  }
}

static void formats_keep_their_error_bounds(peer* self) {
  static const uint64_t counts[] = {0, 1, 100, 4999, MOST};
  int up, down;
  size_t i;
  for (up = LOCKSTEP_WIRE_NATIVE; up <= LOCKSTEP_WIRE_E3M0; ++up) {
    for (down = LOCKSTEP_WIRE_NATIVE; down <= LOCKSTEP_WIRE_E3M0; ++down) {
      for (i = 0; i < sizeof counts / sizeof counts[0]; ++i) {
        reduce(self, (lockstep_wire_format)up, (lockstep_wire_format)down, counts[i], (int)(i + (size_t)down) % 2);
      }
    }
  }
}

/* All peers hold equal bits, including the peer that rounded the result. */
static void all_peers_hold_equal_bits(peer* self) {
  lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
  static float value_of[MOST_PEERS][MOST], all_of[MOST_PEERS][MOST_PEERS * MOST];
  float* value = value_of[self->number];
  lockstep_all_gather_args gather = LOCKSTEP_ALL_GATHER_ARGS_INIT;
  unsigned who;
  uint64_t i;
  for (i = 0; i < MOST; ++i) value[i] = element(self->number, i);
  args.send = args.recv = value;
  args.count = MOST;
  args.type = LOCKSTEP_F32;
  args.up = LOCKSTEP_WIRE_BF16;
  args.down = LOCKSTEP_WIRE_INT4;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_all_reduce(self->comm, &args, NULL));
  gather.send = value;
  gather.recv = all_of[self->number];
  gather.send_count = MOST;
  gather.recv_capacity = MOST_PEERS * MOST;
  gather.type = LOCKSTEP_F32;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_all_gather(self->comm, &gather, NULL));
  for (who = 0; who < self->peers; ++who) {
    CHECK(memcmp(all_of[self->number] + who * MOST, value, sizeof value_of[0]) == 0);
  }
}

static void a_peer_with_weight_0_takes_part(peer* self) {
  lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
  lockstep_result result = LOCKSTEP_RESULT_INIT;
  float value = self->number == 0 && self->peers > 1 ? NAN : 6; /* a peer with weight 0: its elements are not read */
  args.send = args.recv = &value;
  args.count = 1;
  args.type = LOCKSTEP_F32;
  args.op = LOCKSTEP_AVG;
  args.weighted = 1;
  args.weight = self->number == 0 && self->peers > 1 ? 0 : 0.5;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_all_reduce(self->comm, &args, &result));
  CHECK(value == 6);
  CHECK(result.world_size == self->peers);

  args.weight = 0;
  CHECK_STATUS(LOCKSTEP_ERR_INVALID_ARGUMENT, lockstep_all_reduce(self->comm, &args, NULL));
  CHECK(strstr(lockstep_last_error(), "all contributions have weight 0") != NULL);
  CHECK(value == 6);
}

/* Nothing is divided. */
static void a_weighted_sum_is_premultiplied(peer* self) {
  lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
  lockstep_result result = LOCKSTEP_RESULT_INIT;
  float values[3], want[3] = {0, 0, 0};
  unsigned who, i;
  for (i = 0; i < 3; ++i) values[i] = (float)(self->number + i + 1);
  for (who = 0; who < self->peers; ++who) {
    for (i = 0; i < 3; ++i) want[i] += (float)(who + i + 1) * ((float)who + 0.5F);
  }
  args.send = args.recv = values;
  args.count = 3;
  args.type = LOCKSTEP_F32;
  args.op = LOCKSTEP_SUM;
  args.weighted = 1;
  args.weight = self->number + 0.5;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_all_reduce(self->comm, &args, &result));
  CHECK(result.weight == 0); /* an average has the sum of the weights */
  /* a world of 1 encodes nothing, and still multiplies */
  for (i = 0; i < 3; ++i) CHECK(values[i] == want[i]);
}

/* The call is not refused locally: the other peers would wait, or match this peer's next call instead. */
static void an_invalid_weight_ends_the_call_on_every_peer(peer* self) {
  static const double wrong[] = {-1, 1e300, NAN};
  size_t i;
  for (i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
    lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
    float value = 3;
    args.send = args.recv = &value;
    args.count = 1;
    args.type = LOCKSTEP_F32;
    args.op = LOCKSTEP_AVG;
    args.weighted = 1;
    args.weight = self->number == 0 ? wrong[i] : 1;
    CHECK_STATUS(LOCKSTEP_ERR_INVALID_ARGUMENT, lockstep_all_reduce(self->comm, &args, NULL));
    CHECK(strstr(lockstep_last_error(), "a weight is a finite number that is not negative") != NULL);
    CHECK(value == 3);
    args.weight = self->number == 0 ? -0.0 : 1;
    CHECK_STATUS(self->peers == 1 ? LOCKSTEP_ERR_INVALID_ARGUMENT : LOCKSTEP_OK,
                 lockstep_all_reduce(self->comm, &args, NULL));
    CHECK(value == 3);
  }
}

/* A program may change the rounding mode of its threads. */
static void weights_are_the_same_in_any_floating_point_environment(peer* self) {
  const int rounding = self->number == 0 ? FE_DOWNWARD : FE_TONEAREST;
  lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
  lockstep_result result = LOCKSTEP_RESULT_INIT;
  float value = 7;
  CHECK(fesetround(rounding) == 0);
  args.send = args.recv = &value;
  args.count = 1;
  args.type = LOCKSTEP_F32;
  args.op = LOCKSTEP_AVG;
  args.weighted = 1;
  args.weight = self->number == 0 ? 0.5 : self->number == 1 ? 0.5 - 0x1p-25 : 0;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_all_reduce(self->comm, &args, &result));
  CHECK(value == 7);
  CHECK(result.weight == (self->peers == 1 ? 0.5 : 1.0)); /* rounded to nearest */
  CHECK(fesetround(FE_TONEAREST) == 0);
}

static void errors_name_infinite_and_nan_elements(peer* self) {
  lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
  float values[3] = {1, 2, 3};
  if (self->peers == 1) return; /* nothing is encoded */
  if (self->number == 1) values[2] = INFINITY;
  args.send = args.recv = values;
  args.count = 3;
  args.type = LOCKSTEP_F32;
  args.up = args.down = LOCKSTEP_WIRE_BF16;
  CHECK_STATUS(LOCKSTEP_ERR_INVALID_ARGUMENT, lockstep_all_reduce(self->comm, &args, NULL));
  CHECK(strstr(lockstep_last_error(), "tensor 0, element 2: ") != NULL);
  CHECK(values[0] == 1 && values[1] == 2);
  args.up = args.down = LOCKSTEP_WIRE_NATIVE;
  args.algorithm = LOCKSTEP_ALGORITHM_DIRECT;
  CHECK_STATUS(LOCKSTEP_ERR_INVALID_ARGUMENT, lockstep_all_reduce(self->comm, &args, NULL));
  CHECK(strstr(lockstep_last_error(), "tensor 0, element 2: ") != NULL);
  CHECK(values[0] == 1 && values[1] == 2);
}

static void errors_name_different_formats(peer* self) {
  lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
  float value = 1;
  if (self->peers == 1) return;
  args.send = args.recv = &value;
  args.count = 1;
  args.type = LOCKSTEP_F32;
  args.up = LOCKSTEP_WIRE_INT8;
  args.down = self->number == 0 ? LOCKSTEP_WIRE_INT8 : LOCKSTEP_WIRE_E3M0;
  CHECK_STATUS(LOCKSTEP_ERR_MISMATCH, lockstep_all_reduce(self->comm, &args, NULL));
  CHECK(strstr(lockstep_last_error(), "arguments differ in all_reduce with tag 0: down ") != NULL);
  CHECK(value == 1);
  args.down = LOCKSTEP_WIRE_INT8;
  args.algorithm = self->number == 0 ? LOCKSTEP_ALGORITHM_DIRECT : LOCKSTEP_ALGORITHM_RING;
  CHECK_STATUS(LOCKSTEP_ERR_MISMATCH, lockstep_all_reduce(self->comm, &args, NULL));
  CHECK(strstr(lockstep_last_error(), "arguments differ in all_reduce with tag 0: algorithm ") != NULL);
  CHECK(value == 1);
}

/* With residuals, the sum of many results misses only the last error; without residuals every call adds an error. */
static void residuals_carry_rounding_errors_to_the_next_call(peer* self) {
  enum { CALLS = 50, COUNT = 3 * 5000 };
  static float x_of[MOST_PEERS][COUNT], residual_of[MOST_PEERS][COUNT], result_of[MOST_PEERS][COUNT];
  static double sum_of[MOST_PEERS][COUNT], all_of[MOST_PEERS][MOST_PEERS * COUNT], left_of[MOST_PEERS][COUNT];
  lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
  lockstep_all_gather_args gather = LOCKSTEP_ALL_GATHER_ARGS_INIT;
  float* x = x_of[self->number];
  float* residual = residual_of[self->number];
  double* left = left_of[self->number];
  double* all = all_of[self->number];
  const double weight = self->number + 1, weights = self->peers * (self->peers + 1) / 2.0;
  unsigned who;
  int call;
  size_t i, own = 0;

  for (i = 0; i < COUNT; ++i) x[i] = element(self->number, i);
  memset(residual, 0, sizeof residual_of[0]);
  memset(sum_of[self->number], 0, sizeof sum_of[0]);
  args.count = COUNT;
  args.type = LOCKSTEP_F32;
  args.op = LOCKSTEP_AVG;
  args.up = LOCKSTEP_WIRE_INT4;
  args.weighted = 1;
  args.weight = weight;
  args.residual = residual;
  for (call = 0; call < CALLS; ++call) {
    args.recv = result_of[self->number];
    args.send = call % 2 == 0 ? x : args.recv; /* in place, too */
    if (call % 2 != 0) memcpy(args.recv, x, sizeof x_of[0]);
    CHECK_STATUS(LOCKSTEP_OK, lockstep_all_reduce(self->comm, &args, NULL));
    for (i = 0; i < COUNT; ++i) sum_of[self->number][i] += result_of[self->number][i];
  }
  for (i = 0; i < COUNT; ++i) left[i] = weight * residual[i];
  gather.send = left;
  gather.recv = all;
  gather.send_count = COUNT;
  gather.recv_capacity = MOST_PEERS * COUNT;
  gather.type = LOCKSTEP_F64;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_all_gather(self->comm, &gather, NULL));
  for (i = 0; i < COUNT; ++i) {
    double want = 0;
    for (who = 0; who < self->peers; ++who) {
      want += (CALLS * (double)element(who, i) * (who + 1) - all[who * COUNT + i]) / weights;
    }
    CHECK(fabs(sum_of[self->number][i] - want) <= CALLS * 1e-3);
    own += residual[i] == 0;
  }
  /* the residual is 0 in this peer's own chunk, and in few other elements */
  CHECK(self->peers == 1 ? own == COUNT : own >= COUNT / self->peers && own < COUNT / 2);
}

static void invalid_residuals_are_refused(peer* self) {
  lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
  lockstep_tensor tensors[2];
  float values[4] = {1, 2, 3, 4}, residual[4] = {0};
  void* residuals[2] = {NULL, NULL};
  args.send = args.recv = values;
  args.count = 4;
  args.type = LOCKSTEP_F32;
  args.up = LOCKSTEP_WIRE_INT8;
  args.residual = residual;
  CHECK_STATUS(LOCKSTEP_ERR_INVALID_ARGUMENT, lockstep_all_reduce(self->comm, &args, NULL));
  CHECK(strstr(lockstep_last_error(), "residuals need the direct algorithm") != NULL);
  args.algorithm = LOCKSTEP_ALGORITHM_DIRECT;
  args.residual = values + 1;
  args.count = 3;
  CHECK_STATUS(LOCKSTEP_ERR_INVALID_ARGUMENT, lockstep_all_reduce(self->comm, &args, NULL));
  CHECK(strstr(lockstep_last_error(), "tensor 0: the residual overlaps send or recv") != NULL);
  args.residual = (char*)residual + 1;
  CHECK_STATUS(LOCKSTEP_ERR_INVALID_ARGUMENT, lockstep_all_reduce(self->comm, &args, NULL));
  CHECK(strstr(lockstep_last_error(), "args.residual is ") != NULL);
  args.residual = NULL;
  args.residuals = residuals;
  CHECK_STATUS(LOCKSTEP_ERR_INVALID_ARGUMENT, lockstep_all_reduce(self->comm, &args, NULL));
  CHECK(strstr(lockstep_last_error(), "args.residuals is given but args.tensors is NULL") != NULL);
  args.send = args.recv = NULL;
  args.count = 0;
  args.tensors = tensors;
  args.tensors_count = 2;
  tensors[0].send = tensors[0].recv = values;
  tensors[1].send = tensors[1].recv = values + 2;
  tensors[0].count = tensors[1].count = 2;
  residuals[1] = (char*)residual + 2;
  CHECK_STATUS(LOCKSTEP_ERR_INVALID_ARGUMENT, lockstep_all_reduce(self->comm, &args, NULL));
  CHECK(strstr(lockstep_last_error(), "args.residuals[1] is ") != NULL);
  residuals[1] = residual;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_all_reduce(self->comm, &args, NULL));
  residual[1] = INFINITY;
  if (self->peers == 1) return; /* a single peer encodes nothing */
  CHECK_STATUS(LOCKSTEP_ERR_INVALID_ARGUMENT, lockstep_all_reduce(self->comm, &args, NULL));
  CHECK(strstr(lockstep_last_error(), "tensor 1, element 1: ") != NULL);
  CHECK(isinf(residual[1]));
}

static void everything(peer* self) {
  residuals_carry_rounding_errors_to_the_next_call(self);
  invalid_residuals_are_refused(self);
  formats_keep_their_error_bounds(self);
  all_peers_hold_equal_bits(self);
  a_peer_with_weight_0_takes_part(self);
  a_weighted_sum_is_premultiplied(self);
  an_invalid_weight_ends_the_call_on_every_peer(self);
  weights_are_the_same_in_any_floating_point_environment(self);
  errors_name_infinite_and_nan_elements(self);
  errors_name_different_formats(self);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_leave(self->comm, IN_TIME_MS));
}

int main(void) {
  with_peers(3, NULL, everything);
  with_peers(1, NULL, everything);
  return 0;
}

/* Invalid arguments that one peer can detect alone are refused. The text names the parameter, its value and the allowed
 * values; nothing is started. These tests need no run. */
#include <stdint.h>

#include "check.h"

static lockstep_comm* comm;
static float data[64];

static void communicator_options_are_checked(void) {
  lockstep_comm* none = comm;
  lockstep_comm_options options = LOCKSTEP_COMM_OPTIONS_INIT;
  const lockstep_comm_options good = options;
  CHECK_INVALID("comm is NULL", lockstep_comm_create(NULL, NULL));

  options.struct_size = 0;
  CHECK_INVALID("options.struct_size is 0", lockstep_comm_create(&options, &none));
  CHECK(none == NULL);
  options = good;
  options.name = "a name of more than sixty-four characters, which nobody would want to read in a log";
  CHECK_INVALID("options.name is 83 bytes long", lockstep_comm_create(&options, &none));
  options = good;
  options.stripes = 129;
  CHECK_INVALID("options.stripes is 129; allowed: 1 to 128", lockstep_comm_create(&options, &none));
  options = good;
  options.segment_bytes = 2u << 20;
  CHECK_INVALID("options.segment_bytes is 2097152; allowed: 1 to 1048576", lockstep_comm_create(&options, &none));
  options = good;
  options.founders = 1025;
  CHECK_INVALID("options.founders is 1025; allowed: 1 to 1024", lockstep_comm_create(&options, &none));
  options = good;
  options.minimum_world = UINT32_MAX;
  CHECK_INVALID("options.minimum_world is 4294967295; allowed: 1 to 1024", lockstep_comm_create(&options, &none));
  options = good;
  options.gang_size = 2;
  CHECK_INVALID("options.gang_size is 2 but gang is 0", lockstep_comm_create(&options, &none));
  options = good;
  options.last_port = 4000;
  CHECK_INVALID("options.last_port is 4000 but first_port is 0", lockstep_comm_create(&options, &none));
  options = good;
  options.flight_folder = "/no/such/folder";
  CHECK_INVALID("there is no folder /no/such/folder", lockstep_comm_create(&options, &none));
  CHECK(none == NULL);
  setenv("LOCKSTEP_FLIGHT_FOLDER", "/no/such/folder", 1);
  CHECK_INVALID("or LOCKSTEP_FLIGHT_FOLDER", lockstep_comm_create(NULL, &none));
  unsetenv("LOCKSTEP_FLIGHT_FOLDER");
  CHECK(none == NULL);
  options = good;
  options.first_port = 4001;
  options.last_port = 4000;
  CHECK_INVALID("options.last_port is 4000; allowed: first_port (4001)", lockstep_comm_create(&options, &none));
  CHECK(none == NULL);
}

static void null_handles_are_refused(void) {
  lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
  lockstep_world world = LOCKSTEP_WORLD_INIT;
  lockstep_peer_id id;
  char text[LOCKSTEP_PEER_ID_TEXT_SIZE];
  uint32_t count = 0;
  lockstep_stage stage = LOCKSTEP_STAGE_OVER;
  lockstep_work* work = NULL;
  CHECK_INVALID("comm is NULL", lockstep_connect(NULL, "localhost:1", 1));
  CHECK_INVALID("comm is NULL", lockstep_admit(NULL, 1, NULL));
  CHECK_INVALID("comm is NULL", lockstep_wait_for_world(NULL, 1, 1, NULL));
  CHECK_INVALID("comm is NULL", lockstep_leave(NULL, 1));
  CHECK_INVALID("comm is NULL", lockstep_pending(NULL, &count));
  CHECK_INVALID("count is NULL", lockstep_pending(comm, NULL));
  CHECK_INVALID("comm is NULL", lockstep_agree_pending(NULL, 0, &count));
  CHECK_INVALID("count is NULL", lockstep_agree_pending(comm, 0, NULL));
  CHECK_INVALID("timeout_ms is -2", lockstep_agree_pending(comm, -2, &count));
  CHECK_INVALID("comm is NULL", lockstep_fetching(NULL, &count));
  CHECK_INVALID("comm is NULL", lockstep_holding(NULL, &count));
  CHECK_INVALID("comm is NULL", lockstep_stage_get(NULL, &stage));
  CHECK_INVALID("stage is NULL", lockstep_stage_get(comm, NULL));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_stage_get(comm, &stage));
  CHECK(stage == LOCKSTEP_STAGE_NEW);
  CHECK_INVALID("comm is NULL", lockstep_flight_record(NULL, "a.rec"));
  CHECK_INVALID("path is NULL", lockstep_flight_record(comm, NULL));
  CHECK_INVALID("path is empty", lockstep_flight_record(comm, ""));
  CHECK_INVALID("without a flight recorder", lockstep_flight_record(comm, "a.rec"));
  CHECK_INVALID("comm is NULL", lockstep_abort_all(NULL, "why"));
  CHECK_INVALID("comm is NULL", lockstep_world_get(NULL, &world));
  CHECK_INVALID("comm is NULL", lockstep_peer_id_self(NULL, &id));
  CHECK_INVALID("id is NULL", lockstep_peer_id_self(comm, NULL));
  CHECK_INVALID("id is NULL", lockstep_peer_id_text(NULL, text));
  CHECK_INVALID("text is NULL", lockstep_peer_id_text(&id, NULL));
  CHECK_INVALID("comm is NULL", lockstep_all_reduce(NULL, &args, NULL));
  CHECK_INVALID("comm is NULL", lockstep_all_reduce_async(NULL, &args, &work));
  CHECK_INVALID("work is NULL", lockstep_all_reduce_async(comm, &args, NULL));
  CHECK_INVALID("work is NULL", lockstep_connect_async(comm, "localhost:1", 1, NULL));
  CHECK_INVALID("work is NULL", lockstep_admit_async(comm, 1, NULL));
  CHECK_INVALID("work is NULL", lockstep_leave_async(comm, 1, NULL));
  CHECK_INVALID("args is NULL", lockstep_all_reduce(comm, NULL, NULL));
  CHECK_INVALID("args is NULL", lockstep_reduce_scatter(comm, NULL, NULL));
  CHECK_INVALID("args is NULL", lockstep_all_gather(comm, NULL, NULL));
  CHECK_INVALID("args is NULL", lockstep_broadcast(comm, NULL, NULL));
  lockstep_comm_destroy(NULL);
  lockstep_work_free(NULL);
  lockstep_coordinator_stop(NULL);
}

static void time_outs_are_checked(void) {
  lockstep_barrier_args args = LOCKSTEP_BARRIER_ARGS_INIT;
  CHECK_INVALID("timeout_ms is 0; allowed: 1 or more", lockstep_connect(comm, "localhost:1", 0));
  CHECK_INVALID("timeout_ms is -2; allowed: 1 or more", lockstep_admit(comm, -2, NULL));
  CHECK_INVALID("timeout_ms is 0; allowed: 1 or more", lockstep_leave(comm, 0));
  CHECK_INVALID("members is 0; allowed: 1 to 1024", lockstep_wait_for_world(comm, 0, 1, NULL));
  CHECK_INVALID("members is 1025; allowed: 1 to 1024", lockstep_wait_for_world(comm, 1025, 1, NULL));
  args.timeout_ms = -7;
  CHECK_INVALID("args.timeout_ms is -7", lockstep_barrier(comm, &args, NULL));
  args.timeout_ms = 0;
  args.minimum_world = 2000;
  CHECK_INVALID("args.minimum_world is 2000; allowed: 1 to 1024", lockstep_barrier(comm, &args, NULL));
}

static void results_are_checked(void) {
  lockstep_result result = LOCKSTEP_RESULT_INIT;
  result.struct_size = 8;
  CHECK_INVALID("result.struct_size is 8", lockstep_barrier(comm, NULL, &result));
  result.struct_size = sizeof result;
  result.contributors_capacity = 3;
  CHECK_INVALID("result.contributors is NULL but result.contributors_capacity is 3",
                lockstep_barrier(comm, NULL, &result));
  result.contributors_capacity = 0;
  result.blocks_capacity = 4;
  CHECK_INVALID("result.blocks is NULL but result.blocks_capacity is 4", lockstep_barrier(comm, NULL, &result));
  result.blocks_capacity = 0;
  result.newcomers_capacity = 5;
  CHECK_INVALID("result.newcomers is NULL but result.newcomers_capacity is 5", lockstep_admit(comm, 1, &result));
  result.newcomers_capacity = 0;
  result.rates_capacity = 6;
  CHECK_INVALID("result.rates is NULL but result.rates_capacity is 6", lockstep_admit(comm, 1, &result));
}

static void all_reduce_arguments_are_checked(void) {
  lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
  lockstep_tensor tensors[2];
  lockstep_all_reduce_args good;
  args.send = data;
  args.recv = data;
  args.count = 64;
  args.type = LOCKSTEP_F32;
  good = args;

  args.struct_size = 12345678;
  CHECK_INVALID("args.struct_size is 12345678", lockstep_all_reduce(comm, &args, NULL));
  args = good;
  args.type = (lockstep_data_type)13;
  CHECK_INVALID("args.type is 13; allowed: 0 (LOCKSTEP_U8) to 12 (LOCKSTEP_BOOL)",
                lockstep_all_reduce(comm, &args, NULL));
  args = good;
  args.op = (lockstep_op)8;
  CHECK_INVALID("args.op is 8; allowed: 0 (LOCKSTEP_SUM) to 7 (LOCKSTEP_BXOR)", lockstep_all_reduce(comm, &args, NULL));
  args = good;
  args.op = LOCKSTEP_BXOR;
  CHECK_INVALID("f32 has no bxor: bitwise operations need integers or bool", lockstep_all_reduce(comm, &args, NULL));
  args = good;
  args.type = LOCKSTEP_BOOL;
  args.op = LOCKSTEP_AVG;
  CHECK_INVALID("bool has no avg: use sum or bor (any), prod or band (all), or bxor",
                lockstep_all_reduce(comm, &args, NULL));
  args = good;
  args.down = (lockstep_wire_format)8;
  CHECK_INVALID("args.down is 8; allowed: 0 (LOCKSTEP_WIRE_NATIVE) to 7 (LOCKSTEP_WIRE_E3M0)",
                lockstep_all_reduce(comm, &args, NULL));
  args = good;
  args.up = LOCKSTEP_WIRE_INT4;
  args.algorithm = LOCKSTEP_ALGORITHM_RING;
  CHECK_INVALID("rounded at every member, which is too often for int4", lockstep_all_reduce(comm, &args, NULL));
  args = good;
  args.up = LOCKSTEP_WIRE_INT8;
  args.op = LOCKSTEP_MAX;
  CHECK_INVALID("only an all-reduce of f32 (sum or avg) has wire formats", lockstep_all_reduce(comm, &args, NULL));
  args = good;
  args.algorithm = (lockstep_algorithm)4;
  CHECK_INVALID("args.algorithm is 4; allowed: 0 (LOCKSTEP_ALGORITHM_AUTO) to 3 (LOCKSTEP_ALGORITHM_GRID)",
                lockstep_all_reduce(comm, &args, NULL));
  args.algorithm = LOCKSTEP_ALGORITHM_GRID;
  args.up = LOCKSTEP_WIRE_INT8;
  CHECK_INVALID("in a grid contributions go as they are", lockstep_all_reduce(comm, &args, NULL));
  args = good;
  args.weight = 2;
  CHECK_INVALID("args.weight is 2 but args.weighted is 0", lockstep_all_reduce(comm, &args, NULL));
  args.weighted = 1;
  args.op = LOCKSTEP_MAX;
  CHECK_INVALID("only an all-reduce of f32 (sum or avg) has weights", lockstep_all_reduce(comm, &args, NULL));
  args = good;
  args.send = NULL;
  CHECK_INVALID("args.send is NULL but has 64 elements", lockstep_all_reduce(comm, &args, NULL));
  args = good;
  args.recv = NULL;
  CHECK_INVALID("args.recv is NULL but has 64 elements", lockstep_all_reduce(comm, &args, NULL));
  args = good;
  args.count = UINT64_MAX;
  CHECK_INVALID("args.send has 18446744073709551615 elements of f32; allowed: at most",
                lockstep_all_reduce(comm, &args, NULL));
  args = good;
  args.count = 16;
  args.send = (const char*)data + 1;
  CHECK_INVALID("multiples of 4, the size of f32", lockstep_all_reduce(comm, &args, NULL));
  args = good;
  args.count = 32;
  args.recv = data + 16; /* half of recv lies in send */
  CHECK_INVALID("overlap", lockstep_all_reduce(comm, &args, NULL));

  args = good;
  args.tensors = tensors;
  args.tensors_count = 2;
  CHECK_INVALID("give one tensor or many", lockstep_all_reduce(comm, &args, NULL));
  args.send = NULL;
  args.recv = NULL;
  args.count = 0;
  args.tensors_count = 65537;
  CHECK_INVALID("args.tensors_count is 65537; allowed: at most 65536", lockstep_all_reduce(comm, &args, NULL));
  args.tensors_count = 2;
  memset(tensors, 0, sizeof tensors);
  tensors[1].send = data;
  tensors[1].count = 3;
  CHECK_INVALID("args.tensors[1].recv is NULL but has 3 elements", lockstep_all_reduce(comm, &args, NULL));
  args.tensors = NULL;
  CHECK_INVALID("args.tensors is NULL but args.tensors_count is 2", lockstep_all_reduce(comm, &args, NULL));
}

static void other_collectives_are_checked(void) {
  lockstep_reduce_scatter_args scatter = LOCKSTEP_REDUCE_SCATTER_ARGS_INIT;
  lockstep_all_gather_args gather = LOCKSTEP_ALL_GATHER_ARGS_INIT;
  lockstep_broadcast_args broadcast = LOCKSTEP_BROADCAST_ARGS_INIT;
  scatter.type = LOCKSTEP_F32;
  scatter.count = 8;
  CHECK_INVALID("args.send is NULL", lockstep_reduce_scatter(comm, &scatter, NULL));
  scatter.send = data;
  scatter.recv = data + 4;
  scatter.recv_capacity = 8;
  CHECK_INVALID("overlap", lockstep_reduce_scatter(comm, &scatter, NULL));

  gather.type = LOCKSTEP_F32;
  gather.send = data;
  gather.send_count = 8;
  gather.recv = data + 8;
  gather.recv_capacity = 7;
  CHECK_INVALID("args.recv_capacity is 7; allowed: at least args.send_count (8)",
                lockstep_all_gather(comm, &gather, NULL));

  broadcast.type = LOCKSTEP_F32;
  broadcast.data = data;
  broadcast.count = 64;
  CHECK_INVALID("args.root is all zero", lockstep_broadcast(comm, &broadcast, NULL));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_peer_id_self(comm, &broadcast.root));
  broadcast.data = NULL;
  CHECK_INVALID("args.data is NULL but has 64 elements", lockstep_broadcast(comm, &broadcast, NULL));
}

static void states_are_checked(void) {
  lockstep_sync_state_args args = LOCKSTEP_SYNC_STATE_ARGS_INIT;
  lockstep_state_tensor tensors[2] = {{"w", data, 8, LOCKSTEP_F32, 0, 0}, {"b", data + 8, 8, LOCKSTEP_F32, 0, 0}};
  const lockstep_state_tensor good = tensors[1];
  uint64_t counters[2] = {0, 0};
  lockstep_state_value values[2] = {{"step", counters, LOCKSTEP_UINT}, {"epoch", counters + 1, LOCKSTEP_UINT}};
  CHECK_INVALID("args is NULL", lockstep_sync_state(comm, NULL, NULL));
  args.tensors_count = 2;
  CHECK_INVALID("args.tensors is NULL but args.tensors_count is 2", lockstep_sync_state(comm, &args, NULL));
  args.tensors = tensors;
  args.tensors_count = 65537;
  CHECK_INVALID("args.tensors_count is 65537; allowed: at most 65536", lockstep_sync_state(comm, &args, NULL));
  args.tensors_count = 2;
  tensors[1].name = NULL;
  CHECK_INVALID("args.tensors[1].name is NULL", lockstep_sync_state(comm, &args, NULL));
  tensors[1].name = "";
  CHECK_INVALID("tensor 1 has no name", lockstep_sync_state(comm, &args, NULL));
  tensors[1].name = "w";
  CHECK_INVALID("tensor 1 has the same name as an earlier one: w", lockstep_sync_state(comm, &args, NULL));
  tensors[1] = good;
  tensors[1].type = (lockstep_data_type)13;
  CHECK_INVALID("args.tensors[1].type is 13; allowed: 0 (LOCKSTEP_U8) to 12", lockstep_sync_state(comm, &args, NULL));
  tensors[1] = good;
  tensors[1].data = NULL;
  CHECK_INVALID("args.tensors[1].data is NULL but has 8 elements", lockstep_sync_state(comm, &args, NULL));
  tensors[1].data = (char*)data + 33;
  CHECK_INVALID("multiples of 4, the size of f32", lockstep_sync_state(comm, &args, NULL));
  tensors[1].data = data + 7;
  CHECK_INVALID("tensor 1 (b) overlaps tensor 0 (w): ", lockstep_sync_state(comm, &args, NULL));
  tensors[1].may_differ = 1;
  tensors[0].may_differ = 1;
  CHECK_INVALID("give each tensor and value of a state memory of its own", lockstep_sync_state(comm, &args, NULL));
  tensors[0].may_differ = 0;
  tensors[1] = good;
  tensors[1].count = UINT64_MAX;
  CHECK_INVALID("args.tensors[1].data has 18446744073709551615 elements", lockstep_sync_state(comm, &args, NULL));
  tensors[1].count = (uint64_t)1 << 41;
  CHECK_INVALID("all tensors together may have at most 4398046511104 bytes", lockstep_sync_state(comm, &args, NULL));
  tensors[1] = good;

  args.values_count = 1;
  CHECK_INVALID("args.values is NULL but args.values_count is 1", lockstep_sync_state(comm, &args, NULL));
  args.values = values;
  args.values_count = 257;
  CHECK_INVALID("args.values_count is 257; allowed: at most 256", lockstep_sync_state(comm, &args, NULL));
  args.values_count = 2;
  values[1].value = NULL;
  CHECK_INVALID("args.values[1].value is NULL", lockstep_sync_state(comm, &args, NULL));
  values[1].value = counters + 1;
  values[1].type = (lockstep_value_type)3;
  CHECK_INVALID("args.values[1].type is 3; allowed: 0 (LOCKSTEP_INT) to 2", lockstep_sync_state(comm, &args, NULL));
  values[1].type = LOCKSTEP_INT;
  values[1].name = "step";
  CHECK_INVALID("value 1 has the same name as an earlier one: step", lockstep_sync_state(comm, &args, NULL));
  values[1].name = "epoch";
  args.strategy = (lockstep_state_strategy)4;
  CHECK_INVALID("args.strategy is 4; allowed: 0 (LOCKSTEP_STATE_POPULAR) to 3", lockstep_sync_state(comm, &args, NULL));
}

/* Peers would continue with different bytes and without an error. */
static void overlapping_values_are_refused(void) {
  static const char two_values[] = "value 1 (epoch) overlaps value 0 (step)";
  static const char in_a_tensor[] = "value 1 (epoch) overlaps tensor 0 (w)";
  uint64_t memory[4] = {0, 0, 0, 0};
  lockstep_state_tensor tensor = {"w", memory + 2, 4, LOCKSTEP_F32, 0, 0};
  lockstep_state_value values[2] = {{"step", memory, LOCKSTEP_UINT}, {"epoch", memory + 1, LOCKSTEP_UINT}};
  lockstep_sync_state_args args = LOCKSTEP_SYNC_STATE_ARGS_INIT;
  args.tensors = &tensor;
  args.tensors_count = 1;
  args.values = values;
  args.values_count = 2;
  CHECK_STATUS(LOCKSTEP_ERR_NOT_CONNECTED, lockstep_sync_state(comm, &args, NULL));
  values[1].value = memory;
  CHECK_INVALID(two_values, lockstep_sync_state(comm, &args, NULL));
  CHECK_INVALID(two_values, lockstep_prefetch_state(comm, &args, NULL));
  CHECK_INVALID(two_values, lockstep_publish_state(comm, &args));
  CHECK_INVALID(two_values, lockstep_watch_state(comm, &args));
  values[1].value = (char*)memory + 4; /* half of the value lies in the tensor */
  CHECK_INVALID(two_values, lockstep_sync_state(comm, &args, NULL));
  values[1].value = memory + 3;
  CHECK_INVALID(in_a_tensor, lockstep_sync_state(comm, &args, NULL));
  CHECK_INVALID(in_a_tensor, lockstep_prefetch_state(comm, &args, NULL));
  CHECK_INVALID(in_a_tensor, lockstep_publish_state(comm, &args));
  CHECK_INVALID(in_a_tensor, lockstep_watch_state(comm, &args));
}

static void a_blank_state_is_not_published_or_watched(void) {
  lockstep_sync_state_args args = LOCKSTEP_SYNC_STATE_ARGS_INIT;
  lockstep_work* work = NULL;
  args.blank = 1;
  CHECK_INVALID("a blank state cannot be published", lockstep_publish_state(comm, &args));
  CHECK_INVALID("a blank state cannot be published", lockstep_publish_state_async(comm, &args, &work));
  CHECK(work == NULL);
  CHECK_INVALID("a blank state cannot be watched", lockstep_watch_state(comm, &args));
}

static void work_arguments_are_checked(void) {
  lockstep_work* nothing[3] = {NULL, NULL, NULL};
  size_t index = 0;
  CHECK_INVALID("work is NULL", lockstep_wait(NULL, 0, NULL));
  CHECK_INVALID("work is NULL", lockstep_test(NULL, NULL));
  CHECK_INVALID("work is NULL", lockstep_abort(NULL, NULL));
  CHECK_INVALID("works is NULL", lockstep_wait_any(NULL, 0, 0, &index));
  CHECK_INVALID("index is NULL", lockstep_wait_any(nothing, 3, 0, NULL));
  CHECK_INVALID("works has 3 entries and all are NULL", lockstep_wait_any(nothing, 3, 0, &index));
  CHECK_INVALID("timeout_ms is -3; allowed: 0 or more", lockstep_wait_any(nothing, 3, -3, &index));
}

static void coordinator_arguments_are_checked(void) {
  lockstep_coordinator* coordinator = NULL;
  lockstep_coordinator_options options = LOCKSTEP_COORDINATOR_OPTIONS_INIT;
  char address[64];
  CHECK_INVALID("coordinator is NULL", lockstep_coordinator_start(NULL, NULL));
  options.struct_size = 1;
  CHECK_INVALID("options.struct_size is 1", lockstep_coordinator_start(&options, &coordinator));
  CHECK(coordinator == NULL);
  options.struct_size = sizeof options;
  options.silence_ms = 400;
  CHECK_INVALID("options.silence_ms is 400 and options.heartbeat_ms is 500 (its default)",
                lockstep_coordinator_start(&options, &coordinator));
  CHECK(coordinator == NULL);
  options.silence_ms = 0;
  options.heartbeat_ms = 2000;
  CHECK_INVALID("options.silence_ms is 3000 (its default) and options.heartbeat_ms is 2000",
                lockstep_coordinator_start(&options, &coordinator));
  options.heartbeat_ms = 0;
  options.listen = "127.0.0.1:70000";
  CHECK_INVALID("70000", lockstep_coordinator_start(&options, &coordinator));
  options.listen = "no.such.host.invalid:0";
  CHECK_STATUS(LOCKSTEP_ERR_UNREACHABLE, lockstep_coordinator_start(&options, &coordinator));
  CHECK(strstr(lockstep_last_error(), "no.such.host.invalid") != NULL);

  CHECK_INVALID("coordinator is NULL", lockstep_coordinator_address(NULL, address, sizeof address));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_coordinator_start(NULL, &coordinator));
  CHECK_INVALID("address is NULL", lockstep_coordinator_address(coordinator, NULL, 64));
  CHECK_INVALID("coordinator is NULL", lockstep_coordinator_flight_record(NULL, "a.rec"));
  CHECK_INVALID("path is NULL", lockstep_coordinator_flight_record(coordinator, NULL));
  CHECK_INVALID("No such file", lockstep_coordinator_flight_record(coordinator, "/no/such/folder/a.rec"));
  CHECK_INVALID("coordinator is NULL", lockstep_parse_coordinator(NULL, address, sizeof address));
  CHECK_INVALID("addresses is NULL", lockstep_parse_coordinator("127.0.0.1:4000", NULL, 64));
  CHECK_INVALID("nonsense", lockstep_parse_coordinator("nonsense", address, sizeof address));
  CHECK_STATUS(LOCKSTEP_ERR_BUFFER_TOO_SMALL, lockstep_parse_coordinator("127.0.0.1:4000", address, 4));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_parse_coordinator("127.0.0.1:4000", address, sizeof address));
  CHECK(strcmp(address, "127.0.0.1:4000") == 0);
  CHECK_STATUS(LOCKSTEP_ERR_BUFFER_TOO_SMALL, lockstep_coordinator_address(coordinator, address, 4));
  CHECK(strstr(lockstep_last_error(), "size is 4") != NULL);
  lockstep_coordinator_stop(coordinator);
}

/* Bad input from the rest of the world. */
static void errors_name_unusable_addresses(void) {
  lockstep_comm* other = NULL;
  CHECK_INVALID("coordinator is NULL", lockstep_connect(comm, NULL, 1000));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_comm_create(NULL, &other));
  CHECK_INVALID("nonsense", lockstep_connect(other, "nonsense", 1000)); /* does not count as a call of connect */
  CHECK_STATUS(LOCKSTEP_ERR_UNREACHABLE, lockstep_connect(other, "no.such.host.invalid:4000", 2000));
  CHECK(strstr(lockstep_last_error(), "no.such.host.invalid") != NULL);
  lockstep_comm_destroy(other);
}

/* An error text shows no secret, of a token that was mistyped either. */
static void error_texts_show_no_token(void) {
  lockstep_coordinator_options options = LOCKSTEP_COORDINATOR_OPTIONS_INIT;
  lockstep_coordinator* coordinator = NULL;
  char token[LOCKSTEP_TOKEN_BYTES];
  char addresses[LOCKSTEP_TOKEN_BYTES];
  options.listen = ":0";
  options.advertise = "127.0.0.1";
  CHECK_STATUS(LOCKSTEP_OK, lockstep_coordinator_start(&options, &coordinator));
  CHECK_INVALID("token is NULL", lockstep_coordinator_token(coordinator, NULL, 64));
  CHECK_STATUS(LOCKSTEP_ERR_BUFFER_TOO_SMALL, lockstep_coordinator_token(coordinator, token, 4));
  CHECK(strstr(lockstep_last_error(), "lks1_") == NULL);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_coordinator_token(coordinator, token, sizeof token));
  CHECK(strncmp(token, "lks1_", 5) == 0);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_parse_coordinator(token, addresses, sizeof addresses));
  CHECK(strncmp(addresses, "127.0.0.1:", 10) == 0);
  token[20] = token[20] == 'a' ? 'b' : 'a';
  CHECK_INVALID("checksum", lockstep_parse_coordinator(token, addresses, sizeof addresses));
  CHECK(strstr(lockstep_last_error(), token + 5) == NULL);
  lockstep_coordinator_stop(coordinator);
}

/* For programs that quote what their users have typed. */
static void texts_of_programs_can_be_redacted(void) {
  char text[64];
  CHECK_INVALID("text is NULL", lockstep_redact(NULL, text, sizeof text));
  CHECK_INVALID("redacted is NULL", lockstep_redact("lks1_abc", NULL, 64));
  CHECK_STATUS(LOCKSTEP_ERR_BUFFER_TOO_SMALL, lockstep_redact("lks1_abc", text, 8));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_redact("lks1_abc", text, 9));
  CHECK(strcmp(text, "lks1_...") == 0);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_redact("", text, 1));
  CHECK(*text == '\0');
  CHECK_STATUS(LOCKSTEP_OK, lockstep_redact("--join lks1_abc2def --name 'LKS1_x'", text, sizeof text));
  CHECK(strcmp(text, "--join lks1_... --name 'LKS1_...'") == 0);
}

/* A reason appears in logs and error texts: control characters in it are replaced. */
static void control_characters_in_reasons_are_replaced(void) {
  lockstep_comm_options options = LOCKSTEP_COMM_OPTIONS_INIT;
  lockstep_coordinator* coordinator = NULL;
  lockstep_comm* other = NULL;
  lockstep_work* work = NULL;
  char address[64];
  options.founders = 2; /* the other founder never joins */
  CHECK_STATUS(LOCKSTEP_OK, lockstep_coordinator_start(NULL, &coordinator));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_coordinator_address(coordinator, address, sizeof address));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_comm_create(&options, &other));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_connect_async(other, address, LOCKSTEP_FOREVER, &work));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_abort(work, "first\nsecond\x01"));
  CHECK_STATUS(LOCKSTEP_ERR_ABORTED, lockstep_wait(work, LOCKSTEP_FOREVER, NULL));
  check_text(__FILE__, __LINE__, "lockstep_abort", lockstep_last_error(), "first?second?");
  lockstep_work_free(work);
  lockstep_comm_destroy(other);
  lockstep_coordinator_stop(coordinator);
}

static void calls_outside_a_run_are_refused(void) {
  lockstep_world world = LOCKSTEP_WORLD_INIT;
  size_t count = 0;
  CHECK_STATUS(LOCKSTEP_ERR_NOT_CONNECTED, lockstep_world_get(comm, &world));
  CHECK_STATUS(LOCKSTEP_ERR_NOT_CONNECTED, lockstep_group_sizes(comm, NULL, 0, &count, NULL));
  CHECK_STATUS(LOCKSTEP_ERR_NOT_CONNECTED, lockstep_member_ids(comm, 0, NULL, 0, &count, NULL));
  CHECK_INVALID("ids is NULL but capacity is 5", lockstep_member_ids(comm, 0, NULL, 5, &count, NULL));
  CHECK_INVALID("sizes is NULL but capacity is 5", lockstep_group_sizes(comm, NULL, 5, &count, NULL));
  CHECK_INVALID("count is NULL", lockstep_group_sizes(comm, NULL, 0, NULL, NULL));
  CHECK_STATUS(LOCKSTEP_ERR_NOT_CONNECTED, lockstep_barrier(comm, NULL, NULL));
  CHECK_STATUS(LOCKSTEP_ERR_NOT_CONNECTED, lockstep_admit(comm, 1000, NULL));
  CHECK_STATUS(LOCKSTEP_ERR_NOT_CONNECTED, lockstep_leave(comm, 1000));
}

int main(void) {
  communicator_options_are_checked();
  CHECK_STATUS(LOCKSTEP_OK, lockstep_comm_create(NULL, &comm));
  null_handles_are_refused();
  time_outs_are_checked();
  results_are_checked();
  all_reduce_arguments_are_checked();
  other_collectives_are_checked();
  states_are_checked();
  overlapping_values_are_refused();
  a_blank_state_is_not_published_or_watched();
  work_arguments_are_checked();
  coordinator_arguments_are_checked();
  errors_name_unusable_addresses();
  error_texts_show_no_token();
  texts_of_programs_can_be_redacted();
  control_characters_in_reasons_are_replaced();
  calls_outside_a_run_are_refused();
  lockstep_comm_destroy(comm);
  return 0;
}

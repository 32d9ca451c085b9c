/* A process that uses Lockstep forks. The child does not hold or disturb the parent's connections, and its calls on
 * inherited handles are refused. */
#include <dirent.h>
#include <stdint.h>

#include "child.h"
#include "peers.h"

/* The thread sanitizer allows no threads in the child if the parent had threads. */
#if defined(__SANITIZE_THREAD__)
#define THREADS_IN_CHILDREN 0
#else
#define THREADS_IN_CHILDREN 1
#endif

enum { IN_TIME_MS = 30000, MAX_S = 60 };

/* ---- the library in a child */

/* Communicators come and go in other threads: what one had beside sockets, while it was made or destroyed, may be left
 * in a child. */
static int others_come_and_go;

/* Counts the library's descriptors. Pipes and files belong to the test; 0 to 2 may be anything. */
static void no_descriptor_is_inherited(void) {
  DIR* folder = opendir("/proc/self/fd");
  const struct dirent* entry;
  CHECK(folder != NULL);
  while ((entry = readdir(folder)) != NULL) {
    char path[512], target[256];
    ssize_t length;
    if (entry->d_name[0] == '.' || atoi(entry->d_name) <= 2) continue;
    snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
    length = readlink(path, target, sizeof target - 1);
    if (length < 0) continue;
    target[length] = '\0';
    if (strncmp(target, "socket:", 7) != 0 && (others_come_and_go || strncmp(target, "anon_inode:", 11) != 0)) continue;
    fprintf(stderr, "the child has inherited descriptor %s, %s\n", entry->d_name, target);
    exit(1);
  }
  closedir(folder);
}

typedef struct handles {
  lockstep_comm* comm;
  lockstep_work* work; /* still in flight */
  lockstep_coordinator* coordinator;
} handles;

static void every_function_is_refused_after_a_fork(const handles* inherited) {
  lockstep_comm* comm = inherited->comm;
  lockstep_work* work = inherited->work;
  lockstep_all_reduce_args reduce = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
  lockstep_reduce_scatter_args scatter = LOCKSTEP_REDUCE_SCATTER_ARGS_INIT;
  lockstep_all_gather_args gather = LOCKSTEP_ALL_GATHER_ARGS_INIT;
  lockstep_broadcast_args broadcast = LOCKSTEP_BROADCAST_ARGS_INIT;
  lockstep_reduce_args to_root = LOCKSTEP_REDUCE_ARGS_INIT;
  lockstep_gather_args blocks_to_root = LOCKSTEP_GATHER_ARGS_INIT;
  lockstep_scatter_args blocks_of_root = LOCKSTEP_SCATTER_ARGS_INIT;
  lockstep_all_to_all_args exchange = LOCKSTEP_ALL_TO_ALL_ARGS_INIT;
  lockstep_sync_state_args state = LOCKSTEP_SYNC_STATE_ARGS_INIT;
  lockstep_world world = LOCKSTEP_WORLD_INIT;
  lockstep_result result = LOCKSTEP_RESULT_INIT;
  lockstep_peer_id id;
  lockstep_work* fresh = work;
  size_t count;
  uint32_t number;
  lockstep_stage stage;
  uint64_t bytes, of;
  char address[64];

#define FORKED(call) CHECK_STATUS(LOCKSTEP_ERR_FORKED, call)
#define FORKED_ASYNC(call) \
  do {                     \
    FORKED(call);          \
    CHECK(fresh == NULL);  \
    fresh = work;          \
  } while (0)
  FORKED(lockstep_flight_record(comm, "/dev/null/none"));
  FORKED(lockstep_connect(comm, "127.0.0.1:1", 1000));
  FORKED_ASYNC(lockstep_connect_async(comm, "127.0.0.1:1", 1000, &fresh));
  FORKED(lockstep_admit(comm, 1000, &result));
  FORKED_ASYNC(lockstep_admit_async(comm, 1000, &fresh));
  FORKED(lockstep_wait_for_world(comm, 2, 1000, &result));
  FORKED_ASYNC(lockstep_wait_for_world_async(comm, 2, 1000, &fresh));
  FORKED(lockstep_pending(comm, &number));
  FORKED(lockstep_agree_pending(comm, 0, &number));
  FORKED(lockstep_fetching(comm, &number));
  FORKED(lockstep_holding(comm, &number));
  FORKED(lockstep_stage_get(comm, &stage));
  FORKED(lockstep_leave(comm, 1000));
  FORKED_ASYNC(lockstep_leave_async(comm, 1000, &fresh));
  FORKED(lockstep_abort_all(comm, "why"));
  FORKED(lockstep_world_get(comm, &world));
  FORKED(lockstep_group_sizes(comm, NULL, 0, &count, NULL));
  FORKED(lockstep_member_ids(comm, 0, NULL, 0, &count, NULL));
  FORKED(lockstep_peer_id_self(comm, &id));
  FORKED(lockstep_all_reduce(comm, &reduce, &result));
  FORKED_ASYNC(lockstep_all_reduce_async(comm, &reduce, &fresh));
  FORKED(lockstep_reduce_scatter(comm, &scatter, &result));
  FORKED_ASYNC(lockstep_reduce_scatter_async(comm, &scatter, &fresh));
  FORKED(lockstep_all_gather(comm, &gather, &result));
  FORKED_ASYNC(lockstep_all_gather_async(comm, &gather, &fresh));
  FORKED(lockstep_broadcast(comm, &broadcast, &result));
  FORKED(lockstep_reduce(comm, &to_root, &result));
  FORKED_ASYNC(lockstep_reduce_async(comm, &to_root, &fresh));
  FORKED(lockstep_gather(comm, &blocks_to_root, &result));
  FORKED_ASYNC(lockstep_gather_async(comm, &blocks_to_root, &fresh));
  FORKED(lockstep_scatter(comm, &blocks_of_root, &result));
  FORKED_ASYNC(lockstep_scatter_async(comm, &blocks_of_root, &fresh));
  FORKED(lockstep_all_to_all(comm, &exchange, &result));
  FORKED_ASYNC(lockstep_all_to_all_async(comm, &exchange, &fresh));
  FORKED_ASYNC(lockstep_broadcast_async(comm, &broadcast, &fresh));
  FORKED(lockstep_barrier(comm, NULL, &result));
  FORKED_ASYNC(lockstep_barrier_async(comm, NULL, &fresh));
  FORKED(lockstep_sync_state(comm, &state, &result));
  FORKED_ASYNC(lockstep_sync_state_async(comm, &state, &fresh));
  FORKED(lockstep_publish_state(comm, &state));
  FORKED_ASYNC(lockstep_publish_state_async(comm, &state, &fresh));
  FORKED(lockstep_unpublish_state(comm, 0));
  FORKED(lockstep_prefetch_state(comm, &state, &result));
  FORKED_ASYNC(lockstep_prefetch_state_async(comm, &state, &fresh));
  FORKED(lockstep_watch_state(comm, &state));
  check_text(__FILE__, __LINE__, "watch", lockstep_last_error(),
             "the handle belongs to the parent of this forked process");

  FORKED(lockstep_wait(work, LOCKSTEP_FOREVER, &result));
  FORKED(lockstep_progress(work, &bytes, &of));
  FORKED(lockstep_test(work, &result));
  FORKED(lockstep_wait_any(&work, 1, LOCKSTEP_FOREVER, &count));
  FORKED(lockstep_abort(work, "why"));
  FORKED(lockstep_notify(work, NULL, NULL));
  FORKED(lockstep_on_end(work, NULL, NULL));
  CHECK(lockstep_interrupted() == NULL);

  FORKED(lockstep_coordinator_address(inherited->coordinator, address, sizeof address));
  FORKED(lockstep_coordinator_flight_record(inherited->coordinator, "/dev/null/none"));
#undef FORKED
#undef FORKED_ASYNC

  lockstep_work_free(work);
  lockstep_comm_close(comm);
  lockstep_comm_destroy(comm);
  lockstep_comm_destroy(comm);
  lockstep_coordinator_stop(inherited->coordinator);
}

/* A run of one, in a process. */
static void join_alone(handles* fresh) {
  char address[64];
  CHECK_STATUS(LOCKSTEP_OK, lockstep_coordinator_start(NULL, &fresh->coordinator));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_coordinator_address(fresh->coordinator, address, sizeof address));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_comm_create(NULL, &fresh->comm));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_connect(fresh->comm, address, IN_TIME_MS));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_wait_for_world_async(fresh->comm, 1000, LOCKSTEP_FOREVER, &fresh->work));
}

static void end_alone(handles* of) {
  CHECK_STATUS(LOCKSTEP_ERR_PENDING, lockstep_test(of->work, NULL));
  lockstep_work_free(of->work);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_barrier(of->comm, NULL, NULL));
  lockstep_comm_destroy(of->comm);
  lockstep_coordinator_stop(of->coordinator);
}

static int be_a_child(int in, int out, void* user) {
  handles* inherited = (handles*)user;
  handles own;
  (void)in;
  (void)out;
  alarm(MAX_S); /* ends a child that hangs */
  no_descriptor_is_inherited();
  every_function_is_refused_after_a_fork(inherited);
  if (!THREADS_IN_CHILDREN) _exit(0);
  join_alone(&own);
  every_function_is_refused_after_a_fork(inherited);
  end_alone(&own);
  exit(0); /* runs the exit handlers */
}

static void a_child_may_create_its_own_communicator(void) {
  handles mine;
  child started;
  join_alone(&mine);
  started = start_child(be_a_child, &mine);
  CHECK(ended_well(&started));
  end_alone(&mine);
}

/* ---- while other threads are in the library */

typedef struct busy {
  pthread_mutex_t mutex;
  int over;
  const char* coordinator;
} busy;

static int is_over(busy* self) {
  int over;
  pthread_mutex_lock(&self->mutex);
  over = self->over;
  pthread_mutex_unlock(&self->mutex);
  return over;
}

static void* come_and_go(void* argument) {
  busy* self = (busy*)argument;
  while (!is_over(self)) {
    lockstep_comm* comm;
    lockstep_work* work;
    int i;
    CHECK_STATUS(LOCKSTEP_OK, lockstep_comm_create(NULL, &comm));
    CHECK_STATUS(LOCKSTEP_OK, lockstep_connect(comm, self->coordinator, IN_TIME_MS));
    for (i = 0; i < 20; ++i) {
      CHECK_STATUS(LOCKSTEP_OK, lockstep_barrier_async(comm, NULL, &work));
      lockstep_work_free(work);
    }
    lockstep_comm_destroy(comm);
  }
  return NULL;
}

static int never(void* user) {
  (void)user;
  return 0;
}

static void* set_and_abort(void* argument) {
  handles* self = (handles*)argument;
  while (lockstep_abort_all(self->comm, "again and again") == LOCKSTEP_OK) {
    uint64_t bytes, of;
    CHECK_STATUS(LOCKSTEP_OK, lockstep_set_interrupt(never, NULL));
    CHECK_STATUS(LOCKSTEP_OK, lockstep_progress(self->work, &bytes, &of));
  }
  return NULL;
}

/* The runtime of clang 14's address sanitizer does not hold its allocator's locks during a fork: in a child of a
   process whose other threads allocate, a lock may stay taken for ever. This part is left out there; glibc's malloc
   has no such flaw. */
#if defined(__SANITIZE_ADDRESS__)
#define MAY_FORK_BESIDE_MALLOC 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MAY_FORK_BESIDE_MALLOC 0
#endif
#endif
#ifndef MAY_FORK_BESIDE_MALLOC
#define MAY_FORK_BESIDE_MALLOC 1
#endif

static void children_do_not_hang(const char* coordinator) {
  enum { FORKS = 60 };
  busy others;
  handles mine;
  pthread_t threads[2];
  int i;
  others_come_and_go = 1;
  others.over = 0;
  others.coordinator = coordinator;
  CHECK(pthread_mutex_init(&others.mutex, NULL) == 0);
  join_alone(&mine);
  CHECK(pthread_create(&threads[0], NULL, come_and_go, &others) == 0);
  CHECK(pthread_create(&threads[1], NULL, set_and_abort, &mine) == 0);
  for (i = 0; i < FORKS; ++i) {
    child started = start_child(be_a_child, &mine);
    const lockstep_status status = lockstep_barrier(mine.comm, NULL, NULL);
    CHECK(status == LOCKSTEP_OK || status == LOCKSTEP_ERR_ABORTED);
    CHECK(ended_well(&started));
  }
  pthread_mutex_lock(&others.mutex);
  others.over = 1;
  pthread_mutex_unlock(&others.mutex);
  CHECK(pthread_join(threads[0], NULL) == 0);
  others_come_and_go = 0;
  lockstep_comm_destroy(mine.comm);
  CHECK(pthread_join(threads[1], NULL) == 0);
  lockstep_work_free(mine.work);
  lockstep_coordinator_stop(mine.coordinator);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_set_interrupt(NULL, NULL));
}

/* ---- a fork in the interrupt function of a wait */

static int forked_meanwhile;

static int fork_once(void* user) {
  child* started = (child*)user;
  if (started->id != 0) return 0;
  started->id = fork();
  CHECK(started->id >= 0);
  forked_meanwhile = started->id == 0;
  return started->id != 0; /* only the parent interrupts its wait */
}

/* `asked`: how the wait ended during which that function was called. */
static void ends_in_both(lockstep_status asked, const child* started, const handles* mine) {
  int status = -1;
  if (forked_meanwhile) {
    alarm(MAX_S);
    CHECK(asked == LOCKSTEP_ERR_FORKED);
    every_function_is_refused_after_a_fork(mine);
    exit(0);
  }
  if (asked != LOCKSTEP_ERR_INTERRUPTED) CHECK_STATUS(LOCKSTEP_ERR_ABORTED, asked);
  CHECK(waitpid(started->id, &status, 0) == started->id && status == 0);
  lockstep_work_free(lockstep_interrupted());
}

static void a_wait_in_a_child_ends(const char* coordinator) {
  lockstep_comm_options options = LOCKSTEP_COMM_OPTIONS_INIT;
  lockstep_comm* alone;
  handles mine;
  child started;
  size_t index;
  join_alone(&mine);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_set_interrupt(fork_once, &started));
  started.id = 0;
  ends_in_both(lockstep_wait(mine.work, LOCKSTEP_FOREVER, NULL), &started, &mine);
  started.id = 0;
  ends_in_both(lockstep_wait_any(&mine.work, 1, LOCKSTEP_FOREVER, &index), &started, &mine);
  options.founders = 2;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_comm_create(&options, &alone));
  started.id = 0;
  ends_in_both(lockstep_connect(alone, coordinator, LOCKSTEP_FOREVER), &started, &mine);
  lockstep_comm_destroy(alone);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_set_interrupt(NULL, NULL));
  end_alone(&mine);
}

/* ---- a parent that is killed, and a parent that continues */

/* Lives until the test ends. */
static void stay(int in) {
  char byte;
  while (read(in, &byte, 1) > 0) {
  }
  _exit(0);
}

static void join_two(lockstep_comm** comm, const char* coordinator) {
  lockstep_comm_options options = LOCKSTEP_COMM_OPTIONS_INIT;
  options.founders = 2;
  CHECK_STATUS(LOCKSTEP_OK, lockstep_comm_create(&options, comm));
  CHECK_STATUS(LOCKSTEP_OK, lockstep_connect(*comm, coordinator, IN_TIME_MS));
}

enum { CALLS = 50 };

static void reduce_often(lockstep_comm* comm) {
  static float data[100000];
  lockstep_all_reduce_args args = LOCKSTEP_ALL_REDUCE_ARGS_INIT;
  lockstep_result result = LOCKSTEP_RESULT_INIT;
  int i;
  args.send = args.recv = data;
  args.count = 100000;
  args.type = LOCKSTEP_F32;
  for (i = 0; i < CALLS; ++i) {
    CHECK_STATUS(LOCKSTEP_OK, lockstep_all_reduce(comm, &args, &result));
    CHECK(result.world_size == 2 && result.retries == 0);
  }
}

/* One child stays, another child starts and ends. */
static int be_a_parent(int in, int out, void* user) {
  lockstep_comm* comm;
  pid_t idle, brief;
  int status = -1;
  join_two(&comm, (const char*)user);
  reduce_often(comm);
  idle = fork();
  CHECK(idle >= 0);
  if (idle == 0) stay(in);
  reduce_often(comm);
  brief = fork();
  CHECK(brief >= 0);
  if (brief == 0) exit(0);
  CHECK(waitpid(brief, &status, 0) == brief && status == 0);
  reduce_often(comm);
  write_all(out, "r", 1);
  stay(in); /* killed here */
  return 1;
}

/* The coordinator notices the closed connections at once; silence would take 3 s. */
static void a_killed_parent_is_missed_at_once(child* victim, const char* coordinator) {
  lockstep_result result = LOCKSTEP_RESULT_INIT;
  lockstep_comm* comm;
  lockstep_work* work;
  int64_t killed;
  char ready;
  int i;
  join_two(&comm, coordinator);
  for (i = 0; i < 3; ++i) reduce_often(comm);
  read_all(victim->out, &ready, 1);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_barrier_async(comm, NULL, &work));
  CHECK_STATUS(LOCKSTEP_ERR_PENDING, lockstep_test(work, NULL));
  killed = now_ms();
  CHECK(kill(victim->id, SIGKILL) == 0);
  CHECK_STATUS(LOCKSTEP_OK, lockstep_wait(work, IN_TIME_MS, &result));
  CHECK(result.world_size == 1);
  if (now_ms() - killed >= 1000) {
    fprintf(stderr, "the parent's death was noticed after %lld ms\n", (long long)(now_ms() - killed));
    exit(1);
  }
  CHECK(!ended_well(victim));
  lockstep_work_free(work);
  lockstep_comm_destroy(comm);
}

int main(void) {
  char address[ADDRESS_SIZE];
  child coordinator = start_coordinator(NULL, address);
  child victim = start_child(be_a_parent, address);
  a_killed_parent_is_missed_at_once(&victim, address);
  a_child_may_create_its_own_communicator();
  if (MAY_FORK_BESIDE_MALLOC) children_do_not_hang(address);
  a_wait_in_a_child_ends(address);
  CHECK(ended_well(&coordinator));
  return 0;
}

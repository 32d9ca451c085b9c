/* Lockstep: fault-tolerant collectives. The C99 interface.
 *
 * Peers on the public internet join, leave and fail while they all-reduce tensors with each other. In short:
 *
 *   lockstep_comm* comm;
 *   lockstep_comm_create(NULL, &comm);
 *   lockstep_connect(comm, "env:LOCKSTEP_COORDINATOR", LOCKSTEP_FOREVER);
 *   for (;;) {
 *     lockstep_sync_state(comm, &state, &result);      a newcomer takes over model and step
 *     ... compute gradients ...
 *     lockstep_all_reduce(comm, &args, &result);       continues among the survivors when a peer is lost
 *     lockstep_admit(comm, LOCKSTEP_FOREVER, NULL);    lets newcomers in: their lockstep_connect() returns
 *   }
 *   lockstep_leave(comm, 10000);
 *   lockstep_comm_destroy(comm);
 *
 * Words. peer: one process in a run. coordinator: the process that decides the membership; the coordinator never sees a
 * tensor. view: one numbered membership. group: peers that reduce with each other. rank: a peer's place in its group in
 * one view. cohort: the members that a collective is called among: the members since the caller's last admit, less the
 * lost. tag: the caller's name for a collective. The n-th call with a tag meets the n-th call with that tag on every
 * other member of the cohort, so many calls may be in flight at once, launched in any order.
 *
 * Errors. Every function that can fail returns a lockstep_status; after anything but LOCKSTEP_OK, lockstep_last_error()
 * gives this thread a sentence with the cause, the values and a remedy. No function throws, exits or prints.
 *
 * Threads. Any function may be called from any thread at any time, except that lockstep_work_free() must be the last
 * use of its handle. lockstep_comm_destroy() and lockstep_coordinator_stop() may be called while other threads are in
 * functions of the handle: see there.
 *
 * fork(). A child has none of the library's threads and closes its copies of the library's descriptors; the parent
 * continues undisturbed. Every function on an inherited handle returns LOCKSTEP_ERR_FORKED; destroying, stopping or
 * freeing such a handle does nothing. The child may make handles of its own. (vfork() and posix_spawn() need no such
 * care.)
 *
 * Sizes. Structs begin with `struct_size`, set by their *_INIT macro (or by hand to sizeof). A newer library takes
 * fields that the caller does not know as 0. An older library refuses the call if a field that it does not know is not
 * 0. In input structs, 0 or NULL in a field means the field's default, so that C99's designated initializers read well:
 *
 *   lockstep_all_reduce_args args = {
 *       .struct_size = sizeof args, .send = x, .recv = x, .count = n, .type = LOCKSTEP_F32};
 *
 * Time-outs are in milliseconds. A collective's time-out ends the call on every peer (LOCKSTEP_ERR_TIMED_OUT); in a
 * struct 0 means the default, LOCKSTEP_DEFAULT_TIMEOUT_MS: 30 minutes; for a publication or a prefetch, none. A wait's
 * time-out ends only the wait (LOCKSTEP_ERR_PENDING); there 0 means "check once". LOCKSTEP_FOREVER means no
 * time-out everywhere.
 */
#ifndef LOCKSTEP_H
#define LOCKSTEP_H

/* NOLINTBEGIN(modernize-*): this is C */
#include <stddef.h>
#include <stdint.h>

/* The version of this header; lockstep_version_string() is that of the library. */
#define LOCKSTEP_VERSION_MAJOR 0
#define LOCKSTEP_VERSION_MINOR 1
#define LOCKSTEP_VERSION_PATCH 0
#define LOCKSTEP_VERSION_STRING "0.1.0"

#if defined(__GNUC__)
#define LOCKSTEP_API __attribute__((visibility("default")))
#else
#define LOCKSTEP_API
#endif

/* Tags from here on are for layers above this library, such as lockstep.torch: a program that uses lower tags meets
 * none of them. UINT64_MAX is that of lockstep_agree_pending(). */
#define LOCKSTEP_LAYER_TAGS ((uint64_t)1 << 63)

/* No time-out. */
#define LOCKSTEP_FOREVER ((int64_t)-1)
/* What 0 means as the time-out of a collective. */
#define LOCKSTEP_DEFAULT_TIMEOUT_MS ((int64_t)1800000)

#ifdef __cplusplus
extern "C" {
#endif

/* ---- statuses ------------------------------------------------------------------------------------------------------
 * */

/* How a call ended. Numbers never change. To rejoin is to make a new communicator and connect it. */
typedef enum lockstep_status {
  LOCKSTEP_OK = 0,
  /* this call's arguments are invalid: nothing was started, and if it is a collective with a readable tag, it ended on
   * every peer; or the arguments of another peer are invalid, or its weight or element cannot be reduced: the text
   * names that peer and its reason; or the program of a peer wrote to a buffer of the call before the call had ended */
  LOCKSTEP_ERR_INVALID_ARGUMENT = 1,
  LOCKSTEP_ERR_MISMATCH = 2,            /* peers gave different arguments for one round; nothing was reduced */
  LOCKSTEP_ERR_PEER_LOST = 3,           /* a member was lost, and this call does not retry */
  LOCKSTEP_ERR_WORLD_CHANGED = 4,       /* the membership changed, and this call's arguments depend on it */
  LOCKSTEP_ERR_BELOW_MINIMUM = 5,       /* fewer members than minimum_world; lockstep_wait_for_world() waits */
  LOCKSTEP_ERR_ABORTED = 6,             /* a peer aborted the call; the text names the peer and its reason */
  LOCKSTEP_ERR_TIMED_OUT = 7,           /* the time-out of this peer or of another peer ended the call */
  LOCKSTEP_ERR_COHORT_CLOSED = 8,       /* a member called admit before it launched this round */
  LOCKSTEP_ERR_OUTCOME_UNKNOWN = 9,     /* this peer lost the run before it learned the outcome; rejoin */
  LOCKSTEP_ERR_EVICTED = 10,            /* the coordinator removed this peer; the text says why; rejoin */
  LOCKSTEP_ERR_NOT_CONNECTED = 11,      /* the communicator is not part of a run, or no longer */
  LOCKSTEP_ERR_UNREACHABLE = 12,        /* an address could not be resolved or reached; or this call needs a link
                                           between two members of which nobody can dial either: the text names them */
  LOCKSTEP_ERR_REFUSED = 13,            /* the coordinator refused this peer, or shows another key than the run token
                                           names; the text says why */
  LOCKSTEP_ERR_TOO_MANY_IN_FLIGHT = 14, /* no room for another call (lockstep_set_no_wait()), or 16 states published or
                                           fetched: wait for one first, or end one */
  LOCKSTEP_ERR_BUFFER_TOO_SMALL = 15,   /* a receive buffer cannot hold the result; the text says what it needs */
  LOCKSTEP_ERR_OUT_OF_MEMORY = 16,      /* on this peer, or for a collective on the peer that the text names */
  LOCKSTEP_ERR_PROTOCOL = 17,           /* the other side does not speak Lockstep, or another version of it */
  LOCKSTEP_ERR_INTERNAL = 18,        /* results differ, or memory changed during the call and nobody can tell whose: the
                                        text names the place; or a bug in Lockstep: please report it with the text */
  LOCKSTEP_ERR_STATE_UNDEFINED = 19, /* sync: no peer that may send has a state */
  LOCKSTEP_ERR_STATE_CONFLICT = 20,  /* sync: a newcomer's state is ahead of the run's and was not overwritten; the text
                                        gives both revisions */
  LOCKSTEP_ERR_PENDING = 100,        /* from waits only: the call is still in flight */
  LOCKSTEP_ERR_INTERRUPTED = 101,    /* the program ended the wait: see lockstep_set_interrupt() */
  LOCKSTEP_ERR_FORKED = 102          /* the handle belongs to the parent process: make a new one */
} lockstep_status;

/* A short name such as "peer lost"; for a number that is no status, "unknown status". Never NULL; never freed. */
LOCKSTEP_API const char* lockstep_status_string(lockstep_status status);

/* The sentence of this thread's last failure. Empty before the first failure. Valid until the next failure on this
 * thread; a success leaves the sentence unchanged. Never NULL. */
LOCKSTEP_API const char* lockstep_last_error(void);

/* The library's version, such as "0.1.0". */
LOCKSTEP_API const char* lockstep_version_string(void);

/* ---- elements and operations ---------------------------------------------------------------------------------------
 * */

/* Element types, in the byte order of the machine. F16 is IEEE binary16, BF16 the upper half of an F32. BOOL has one
 * byte: 0 is false, every other value is true. Numbers never change. */
typedef enum lockstep_data_type {
  LOCKSTEP_U8 = 0,
  LOCKSTEP_I8 = 1,
  LOCKSTEP_U16 = 2,
  LOCKSTEP_I16 = 3,
  LOCKSTEP_U32 = 4,
  LOCKSTEP_I32 = 5,
  LOCKSTEP_U64 = 6,
  LOCKSTEP_I64 = 7,
  LOCKSTEP_F16 = 8,
  LOCKSTEP_BF16 = 9,
  LOCKSTEP_F32 = 10,
  LOCKSTEP_F64 = 11,
  LOCKSTEP_BOOL = 12
} lockstep_data_type;

/* How elements are folded. The result is defined to the last bit and is the same on every CPU:
 *
 * - Order. Inputs are folded one after the other along the ring of the round, from a start that depends on the
 *   element's place.
 *   Each chunk is folded on one path and then copied to every peer, so all peers hold equal bits. Another ring (another
 *   view) may round floats differently.
 * - Integers wrap (two's complement). AVG of integers is the wrapped sum divided by the number of contributors, toward
 *   zero.
 * - Floats follow IEEE 754, round to nearest, ties to even; denormals are kept, infinities arise and spread as usual.
 *   F16 and
 *   BF16 are folded in F32 and rounded back after every fold. AVG is the sum divided once, at the end.
 * - NaN: any NaN in gives the canonical quiet NaN out (positive, payload zero), also for MIN and MAX.
 * - MIN and MAX take -0.0 as less than +0.0.
 * - BAND, BOR and BXOR act on each bit of integers. Floats do not have them: LOCKSTEP_ERR_INVALID_ARGUMENT.
 * - BOOL: SUM, MAX and BOR are true if any input is true; PROD, MIN and BAND if all are; BXOR if an odd number is. A
 *   folded result is 0 or 1. AVG: LOCKSTEP_ERR_INVALID_ARGUMENT.
 *
 * Numbers never change. */
typedef enum lockstep_op {
  LOCKSTEP_SUM = 0,
  LOCKSTEP_AVG = 1,
  LOCKSTEP_PROD = 2,
  LOCKSTEP_MIN = 3,
  LOCKSTEP_MAX = 4,
  LOCKSTEP_BAND = 5,
  LOCKSTEP_BOR = 6,
  LOCKSTEP_BXOR = 7
} lockstep_op;

/* How the f32 elements of an all-reduce travel. Smaller formats are less exact. Blocks are scaled independently: a
 * large element costs precision in its own block only. The bits are the same on every CPU. Numbers never change.
 *
 *                            bits per element   largest error of an element x, in a block of so many
 *   WIRE_NATIVE              32                 none
 *   WIRE_BF16                16                 |x| / 256
 *   WIRE_F16                 16                 |x| / 2048, at least 2^-25; larger values become 65504 (sums, too: AVG
 *                                               divides last)
 *   WIRE_INT8                8.125   256        largest |x| / 254
 *   WIRE_INT8_MIN_MAX        8.25    256        (largest x - smallest x) / 510
 *   WIRE_INT8_CODEBOOK       10      4096       means of 256 bins around 0, 6 root mean squares / 256 wide;
 *                                               larger outside of the bins
 *   WIRE_INT4                4.5     64         largest |x| / 14
 *   WIRE_E3M0                4.125   64         |x| / 3; values below largest |x| / 64 may become 0
 *
 * A chunk (one rank's share of a tensor) travels unencoded when its encoding would not be smaller. */
typedef enum lockstep_wire_format {
  LOCKSTEP_WIRE_NATIVE = 0,
  LOCKSTEP_WIRE_BF16 = 1,
  LOCKSTEP_WIRE_F16 = 2,
  LOCKSTEP_WIRE_INT8 = 3,
  LOCKSTEP_WIRE_INT8_MIN_MAX = 4,
  LOCKSTEP_WIRE_INT8_CODEBOOK = 5,
  LOCKSTEP_WIRE_INT4 = 6,
  LOCKSTEP_WIRE_E3M0 = 7
} lockstep_wire_format;

/* "native", "bf16", "f16", "int8", "int8-min-max", "int8-codebook", "int4", "e3m0"; "unknown" for a number that is no
 * wire format. Never NULL; never freed. */
LOCKSTEP_API const char* lockstep_wire_format_name(lockstep_wire_format format);

/* How contributions to an all-reduce become its result. Numbers never change.
 *
 * RING: chunks travel around the ring, and each member folds its part in: 2(n-1) hops, links between neighbours. With a
 * wire format, each member rounds the partial sum again. DIRECT: each member sends its part of a chunk straight to the
 * chunk's owner, which folds all parts in the order of the ring and sends the result to every member: 2 hops, as many
 * bytes, links between all pairs. With a wire format, each part is rounded once. GRID: members stand in about sqrt(n)
 * rows. Each sends its part to the member of its own row that stands in the owner's column; that one folds its row, and
 * sends the sum on to the owner: 4 hops, as many bytes, about 2 sqrt(n) links of each member. It folds in an order of
 * its own, so the last bits of floating-point sums may differ from those of RING and DIRECT. Without wire formats and
 * weights only.
 * AUTO: DIRECT if contributions travel in less than 8 bits, which are too few for repeated rounding. Else, where a
 * member is 1 ms or more from the coordinator and all links work: DIRECT in a group of at most 64 members, and in a
 * larger one GRID without wire formats and weights. Else RING. All members choose alike. Reduce-scatter, all-gather,
 * broadcast and reduce are AUTO, too; a broadcast or a reduce of many bytes takes the RING. */
typedef enum lockstep_algorithm {
  LOCKSTEP_ALGORITHM_AUTO = 0,
  LOCKSTEP_ALGORITHM_RING = 1,
  LOCKSTEP_ALGORITHM_DIRECT = 2,
  LOCKSTEP_ALGORITHM_GRID = 3
} lockstep_algorithm;

/* "auto", "ring", "direct", "grid"; "unknown" for a number that is no algorithm. Never NULL; never freed. */
LOCKSTEP_API const char* lockstep_algorithm_name(lockstep_algorithm algorithm);

/* Bytes of one element; 0 for a number that is no data type. */
LOCKSTEP_API size_t lockstep_data_type_size(lockstep_data_type type);
/* "u8" ... "f64"; "unknown" for a number that is no data type. Never NULL; never freed. */
LOCKSTEP_API const char* lockstep_data_type_name(lockstep_data_type type);
/* "sum", "avg", "prod", "min", "max"; "unknown" for a number that is no operation. Never NULL; never freed. */
LOCKSTEP_API const char* lockstep_op_name(lockstep_op op);

/* ---- peers ---------------------------------------------------------------------------------------------------------
 * */

/* One process in a run: random, 128 bits, never reused; all zero means nobody. Compare with memcmp(). */
typedef struct lockstep_peer_id {
  uint8_t bytes[16];
} lockstep_peer_id;

/* Characters of a peer id as text, with the end: 32 hexadecimal digits and a 0. */
#define LOCKSTEP_PEER_ID_TEXT_SIZE 33

/* Writes `id` as 32 hexadecimal digits; logs show the first eight. `text`: room for LOCKSTEP_PEER_ID_TEXT_SIZE
 * characters. */
LOCKSTEP_API lockstep_status lockstep_peer_id_text(const lockstep_peer_id* id, char* text);

/* ---- communicators -------------------------------------------------------------------------------------------------
 * */

/* This process's place in one run. A process may have several. */
typedef struct lockstep_comm lockstep_comm;

/* A call in flight; see "Work". */
typedef struct lockstep_work lockstep_work;

/* Takes one line of log, without an end of line, valid during the call. The library calls the function for one line at
 * a time, on its own thread or on a thread that waits in a blocking call of the same handle. The function must be
 * quick, must not call functions of this header with that handle, or with one that shares its thread, and must not take
 * a lock that the program holds around such a call. */
typedef void (*lockstep_log_fn)(void* user, const char* line);

/* For lockstep_comm_options.spin_us: never. */
#define LOCKSTEP_NO_SPIN UINT32_MAX

/* Certificates of an authority of the user's own, as files in PEM: a peer with one is admitted. The coordinator's
 * certificate must name the host, or the IP address, that peers connect to. The coordinator reads changed files again
 * by itself; a peer reads them when it connects. */
typedef struct lockstep_certificates {
  const char* certificate;     /* of this process; certificates between it and the authority may follow */
  const char* private_key;     /* of this process, without a passphrase */
  const char* authority;       /* certificates of the authorities that both sides trust */
  const char* revocation_list; /* of these authorities. Default: NULL, none */
} lockstep_certificates;

/* How a peer takes part. 0 or NULL in a field: its default. Strings are copied. */
typedef struct lockstep_comm_options {
  size_t struct_size;
  const char* name; /* for people, in logs and `lockstep status`; at most 64 bytes. Default: host and process: "a[42]".
               Control characters and invisible ones are replaced by question marks */

  uint32_t group;         /* peers of one group reduce with each other. Default: 0 */
  uint32_t gang_size;     /* number of peers of the gang; the gang is admitted when all of them wait. Default: 1 */
  uint64_t gang;          /* peers that are admitted and lost together. A tag has one outcome in all groups of the gang,
                             and in groups that other gangs bind to these. A second gang of this number waits until
                             the first is gone. Default: 0, none */
  uint32_t founders;      /* number of waiting peers that found an empty run. Default: 1 */
  uint32_t minimum_world; /* default of the collectives' minimum_world. Default: 1 */
  int auto_admit;         /* not 0: admits newcomers between rounds, without lockstep_admit(). Default: 0 */

  uint16_t first_port;        /* listen on the first free port of first_port..last_port. Default: any port */
  uint16_t last_port;         /* Default: first_port */
  const char* listen_host;    /* address or name to listen on. Default: every address, IPv6 and IPv4 */
  const char* advertise_host; /* address for other peers. Default: the address that the coordinator sees */
  uint16_t advertise_port;    /* port for other peers. Default: the listening port */

  uint16_t stripes;         /* parallel streams to each neighbour, 1 to 128. Default: 2; more where packets are lost */
  uint32_t segment_bytes;   /* pipelined piece of a tensor, up to 1 MiB; equal on all peers. Default: by tensor size */
  uint32_t dial_timeout_ms; /* limit of one attempt to open a stream and be greeted. Default: 5000 */
  uint32_t link_heartbeat_ms; /* interval of heartbeats on an idle stream. Default: 500 */
  uint32_t link_silence_ms;   /* longest silence after which a stream is opened again. Default: 4000 */
  uint32_t link_timeout_ms;   /* time without a working stream after which a neighbour is reported. Default: 8000 */
  uint32_t abort_grace_ms; /* from a time-out without an answer of the coordinator to OUTCOME_UNKNOWN. Default: 10000 */

  /* Congestion control of TCP for all streams, such as "cubic"; a refusal of the system is logged. Default: by the
   * round trip of each stream. From 1 ms on "bbr", which keeps its rate when packets are lost; if the system refuses
   * BBR, its default, and `log` gets one line a process that says what an administrator can do. Below 1 ms the system's
   * default; CUBIC or Reno where that is BBR, which paces. lockstep_result.congestion_control tells what was used. */
  const char* congestion_control;

  /* Default: none; nothing is printed. Similar events give at most 10 lines a minute, then a count. */
  lockstep_log_fn log;
  void* log_user; /* handed to `log`; must stay valid until lockstep_comm_destroy() has returned */

  /* Takes a line of JSON for each call, each end of a call, and each view. `lockstep sim audit FILES` judges the
   * journals of all peers of a run, one file each. A program that cannot write a line (a full disk) ends the file with
   * {"peer":"ID","what":"stopped","why":"..."}, ID as in the other lines, and writes no more: then the audit says that
   * the journal is incomplete. Default: none */
  lockstep_log_fn journal;
  void* journal_user; /* as log_user */

  /* The flight recorder keeps the latest inputs of this peer in memory. The recorder writes them to
   * FOLDER/lockstep-ID.rec (ID: the first eight digits of the peer id) when the run ends before the peer asked to leave
   * (evicted, coordinator lost, a bug of the library). `lockstep sim replay FILE` repeats the recording. The file holds
   * names, addresses and the key of the run, and nearly nothing of tensors; only the user may read it. The recorder
   * costs a small all-reduce a few microseconds. */
  const char* flight_folder; /* must be writable. Default: LOCKSTEP_FLIGHT_FOLDER in the environment; else nowhere */
  uint32_t flight_kib; /* memory of the recorder, up to 512 MiB. Default: 8192 with a folder, else 0: no recorder */

  /* Time to poll before sleeping while a call is in flight, up to 10000, as long as waits are that short and no other
   * program wants the core. LOCKSTEP_NO_SPIN: sleep at once. Default: 50 */
  uint32_t spin_us;

  /* Rate limit of shared states that this peer sends, to all peers together, in pieces of up to 1 MiB; the first piece
   * goes at once. Default: no limit */
  uint64_t state_bytes_per_second;

  /* Not 0: runs on one thread of this process, together with every other communicator and coordinator that has this
   * option. That saves a thread and three descriptors each; large collectives of several communicators take turns.
   * spin_us then applies to waiting calls only. Default: 0, a thread of its own */
  int shared_thread;

  /* Rate limit of the tensors and shared states that this peer sends, to all peers together: the rest of its line is
   * left to others. A segment of a tensor (up to 256 KiB) goes at once. Default: no limit */
  uint64_t bytes_per_second;

  /* Instead of a run token: with certificates, connect to "host:port". Default: NULL, none */
  const lockstep_certificates* certificates;

  /* Not 0: without a run token, streams to and from other machines are not encrypted, and anybody on the way can read
   * and change them. For networks that are trusted, with a coordinator that is insecure, too. Default: 0, such streams
   * are refused */
  int insecure;
} lockstep_comm_options;

#define LOCKSTEP_COMM_OPTIONS_INIT                                                                                     \
  {                                                                                                                    \
    sizeof(lockstep_comm_options), NULL, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, \
        NULL, NULL, NULL, 0, 0, 0, 0, 0, NULL, 0                                                                       \
  }

/* Makes a communicator: a random peer id, a listening port, a thread. Not yet part of a run. `options` NULL: all
 * defaults. *comm: to be destroyed by the caller; NULL on failure. Blocks as long as the system looks up the hosts in
 * `options`. Errors: INVALID_ARGUMENT, UNREACHABLE (unknown host), OUT_OF_MEMORY. */
LOCKSTEP_API lockstep_status lockstep_comm_create(const lockstep_comm_options* options, lockstep_comm** comm);

/* Ends every call in flight and closes every stream. Collectives end with OUTCOME_UNKNOWN, other calls with
 * NOT_CONNECTED; an in-place input holds the bits that it had at the call, and result.state_undefined tells the
 * condition of a state. This takes as long as copying these inputs. Other peers see a lost peer; call lockstep_leave()
 * first to leave politely, and this function then waits, for 2 s at most, until the others have received its last
 * bytes.
 * Other threads may be in functions of this communicator: their waits end, and this function returns after they have
 * returned. Later calls end with NOT_CONNECTED. Inside a callback of the library, such as the function of
 * lockstep_set_interrupt(), this function does not wait for the library function that the thread itself is in. NULL:
 * nothing. */
LOCKSTEP_API void lockstep_comm_close(lockstep_comm* comm);

/* Closes the communicator as lockstep_comm_close(), unless it is closed, then frees all memory. Work handles stay valid
 * until they are freed. NULL: nothing. Using the handle later is an error of the program; the last 1024 destroyed
 * handles answer with NOT_CONNECTED. */
LOCKSTEP_API void lockstep_comm_destroy(lockstep_comm* comm);

/* Writes the flight recording to a file, completely or not at all; replaces a regular file of that name. The run
 * continues. Blocks until the file is written. Errors: INVALID_ARGUMENT (the file cannot be written: the text has the
 * system's words; the name belongs to something else than a regular file; or there is no flight recorder: see
 * flight_kib), OUT_OF_MEMORY. */
LOCKSTEP_API lockstep_status lockstep_flight_record(lockstep_comm* comm, const char* path);

/* ---- results -------------------------------------------------------------------------------------------------------
 * */

/* The result of a call. Set `struct_size` (LOCKSTEP_RESULT_INIT) and, optionally, the arrays; the library fills in all
 * other fields. Fields that do not apply to a call are 0. Functions accept NULL instead of a result. */
typedef struct lockstep_result {
  size_t struct_size;
  lockstep_status status; /* same as returned */
  uint32_t world_size;    /* contributors of a committed round; else members of this peer's group now */
  uint32_t rank;          /* this peer's place among the contributors of a committed round */
  uint32_t retries;       /* attempts that were given up because a member was lost or left */
  uint64_t view;          /* number of the newest view */
  double seconds;         /* from the call to its end, on this peer */
  uint64_t bytes_sent;    /* payload, this call, all attempts */
  uint64_t bytes_received;

  /* The receipt of a committed round, equal on every peer: its name (the use-th call with `tag` in this cohort, from
   * 0), the attempt that committed, the hash of the result and who contributed. */
  uint64_t cohort;
  uint64_t tag;
  uint64_t attempt;
  uint64_t hash;
  uint32_t use;

  uint32_t contributors_count;    /* how many contributed, also if the array is smaller */
  lockstep_peer_id* contributors; /* in: the caller's array, or NULL; filled in rank order as far as it reaches */
  size_t contributors_capacity;   /* in: elements of it */

  uint64_t chunk_begin; /* reduce-scatter: recv holds the elements from here on */
  uint64_t chunk_count; /*                 so many of them */

  uint64_t* blocks;       /* in: the caller's array, or NULL; all-gather, gather, scatter, all-to-all: elements of
                           each rank's block that this peer received */
  size_t blocks_capacity; /* in: elements of it */
  size_t blocks_count;    /* how many blocks, also if the array is smaller */

  uint64_t revision;      /* sync, prefetch: of the state in memory */
  uint64_t state_root[2]; /* sync: its digest (XXH3-128, the high half first); equal for equal states */
  /* sync: not 0: the call failed while it wrote to the state; the state is undefined until a sync succeeds.
   * prefetch: not 0: memory holds a part of the state */
  int state_undefined;

  /* collectives: the difference of the states that contributors watch (lockstep_watch_state()); "": no difference.
   * sync: the members whose states had strayed and were overwritten (lockstep_sync_state()); "": none. Valid until
   * this thread's next call that fills a result */
  const char* state_difference;

  double weight; /* committed weighted averages: the sum of all weights */

  lockstep_peer_id partner; /* send: the receiver; recv: the sender; all zero while a recv from any member waits */
  uint64_t count;           /* send, recv that ended with LOCKSTEP_OK: elements */

  /* The sizes of the run. Committed rounds: in the view in which the attempt began, equal on every contributor; other
   * calls: in the newest view, so after lockstep_admit() equal on every member. */
  uint32_t members;       /* of all groups */
  uint32_t groups;        /* with at least one member */
  uint32_t largest_group; /* members of the group that has the most */

  uint32_t newcomers_count;    /* admit, wait_for_world: how many peers joined, also if the array is smaller */
  lockstep_peer_id* newcomers; /* in: the caller's array, or NULL; filled in the view's order as far as it reaches */
  size_t newcomers_capacity;   /* in: elements of it */

  uint64_t lineage; /* sync, prefetch: of the state in memory */

  /* all-reduce, reduce-scatter, all-gather, reduce and broadcast that were committed: RING, DIRECT or GRID, equal
   * on every peer (lockstep_algorithm); else AUTO */
  lockstep_algorithm algorithm;
  /* The all-reduces in which each peer owned a part by what its line carries: what each contributor's line carries
   * towards the others, in bytes a second, as measured in earlier calls, in rank order; 0: not known. Equal on every
   * peer. A peer with a slow line folds less, or nothing: it carries about the bytes of the tensors once each way */
  uint64_t* rates;       /* in: the caller's array, or NULL; filled in rank order as far as it reaches */
  size_t rates_capacity; /* in: elements of it */
  size_t rates_count;    /* how many rates, also if the array is smaller; 0: all peers own equal parts */

  /* The congestion control of TCP, as the system reports it, of the streams that this peer sent tensors on while the
   * call ran: "bbr"; "bbr, cubic" if the streams differ; "": this peer sent none, or only inside of this process. Valid
   * as state_difference */
  const char* congestion_control;

  /* The number of these streams, to all other peers together, that are open when the call ends. Where a line loses
   * packets it grows from call to call, until more streams carry no more bytes */
  uint32_t streams;
} lockstep_result;

#define LOCKSTEP_RESULT_INIT                                                                                     \
  {                                                                                                              \
    sizeof(lockstep_result), LOCKSTEP_OK, 0, 0, 0, 0, 0.0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, 0, NULL, 0, 0, 0, \
        {0, 0}, 0, NULL, 0.0, {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}, 0, 0, 0, 0, 0, NULL, 0, 0,     \
        LOCKSTEP_ALGORITHM_AUTO, NULL, 0, 0, NULL, 0                                                             \
  }

/* ---- being part of a run -------------------------------------------------------------------------------------------
 * */

/* Joins a run. Blocks until the members have admitted this peer (founders: at once). Once per communicator. timeout_ms:
 * above 0, or LOCKSTEP_FOREVER. `coordinator` is one of:
 *   "lks1_..."      a run token, as `lockstep coordinator` prints it: TLS 1.3 on all streams, to this coordinator only
 *   "host:port"     ("[IPv6 address]:port"; or several with commas) with options.certificates; or without TLS: on this
 *                   machine only, or options.insecure
 *   "file:PATH"     a file whose first line is one of these
 *   "env:NAME"      a variable of the environment with one of these
 *
 * The coordinator may start later: while the coordinator is unreachable, this function looks up the name and tries the
 * addresses again, after 50 ms at first and every second in the end; `log` gets a line after the first attempt. The
 * same holds when the connection ends before the coordinator's greeting, which strangers that fill the port can cause.
 * If all addresses show another key than the run token names, this function returns at once.
 * Errors: INVALID_ARGUMENT, REFUSED, PROTOCOL (another program listens there), UNREACHABLE (not reached within
 * timeout_ms: the text lists how the attempts ended), TIMED_OUT (not admitted within timeout_ms). After an error make a
 * new communicator. */
LOCKSTEP_API lockstep_status lockstep_connect(lockstep_comm* comm, const char* coordinator, int64_t timeout_ms);
LOCKSTEP_API lockstep_status lockstep_connect_async(lockstep_comm* comm, const char* coordinator, int64_t timeout_ms,
                                                    lockstep_work** work);

/* Admits waiting peers. All members call this function at the same place of their program. The call ends in the same
 * new view for all of them (also when nobody waited), and the newcomers' lockstep_connect() ends in that view, too: a
 * program must do the same after both calls. Collectives in flight end among the members that they were called among;
 * later collectives are among the members of the new view. Costs two round trips to the coordinator. timeout_ms:
 * above 0, or LOCKSTEP_FOREVER; the time-out ends the call on this peer alone. A collective that waits for a peer in
 * lockstep_admit() ends with COHORT_CLOSED, because that peer can no longer launch it. `result` names the newcomers,
 * and has the sizes of the new view (members, groups, largest_group).
 * Errors: INVALID_ARGUMENT, TIMED_OUT, NOT_CONNECTED, EVICTED. */
LOCKSTEP_API lockstep_status lockstep_admit(lockstep_comm* comm, int64_t timeout_ms, lockstep_result* result);
LOCKSTEP_API lockstep_status lockstep_admit_async(lockstep_comm* comm, int64_t timeout_ms, lockstep_work** work);

/* lockstep_admit() that waits until the view has at least `members` members, in all groups together (1 to 1024). Until
 * then, collectives of other members that wait for this peer end with COHORT_CLOSED, also with auto_admit. */
LOCKSTEP_API lockstep_status lockstep_wait_for_world(lockstep_comm* comm, uint32_t members, int64_t timeout_ms,
                                                     lockstep_result* result);
LOCKSTEP_API lockstep_status lockstep_wait_for_world_async(lockstep_comm* comm, uint32_t members, int64_t timeout_ms,
                                                           lockstep_work** work);

/* The number of peers that wait for admission. Local and free: never blocks; fails only for NULL or a destroyed handle.
 * */
LOCKSTEP_API lockstep_status lockstep_pending(lockstep_comm* comm, uint32_t* count);

/* Whether anybody waits, as one answer for all: the largest number of waiting peers that a member of this peer's group
 * has heard of, equal on all members, so that all of them call lockstep_admit() or none does. A collective: all members
 * call it. count: lent to the call; after an error it holds this member's own number. timeout_ms: 0: the default.
 * Errors: those of lockstep_all_reduce(). */
LOCKSTEP_API lockstep_status lockstep_agree_pending(lockstep_comm* comm, int64_t timeout_ms, uint32_t* count);

/* The number of waiting peers in lockstep_prefetch_state() that have no state yet: members that publish admit when the
 * number is 0. Local and free, as above. */
LOCKSTEP_API lockstep_status lockstep_fetching(lockstep_comm* comm, uint32_t* count);

/* The number of waiting peers that hold a published state (a staged lockstep_prefetch_state()), and that would go on
 * from it if all members were lost. Local and free, as above. */
LOCKSTEP_API lockstep_status lockstep_holding(lockstep_comm* comm, uint32_t* count);

/* How far a communicator is on its way into a run and out of it. */
typedef enum lockstep_stage {
  LOCKSTEP_STAGE_NEW = 0,      /* lockstep_connect() was not called */
  LOCKSTEP_STAGE_REACHING = 1, /* no coordinator has answered yet: it is not reached */
  LOCKSTEP_STAGE_WAITING = 2,  /* the coordinator knows this peer; the members have not admitted it yet */
  LOCKSTEP_STAGE_MEMBER = 3,   /* part of the run */
  LOCKSTEP_STAGE_LEAVING = 4,  /* in lockstep_leave() */
  LOCKSTEP_STAGE_OVER = 5      /* the run is over for this peer */
} lockstep_stage;

/* Fills `stage`: while lockstep_connect() runs, whether it waits for the coordinator or for the members. Asks the
 * thread that runs the communicator: some microseconds. Errors: INVALID_ARGUMENT. */
LOCKSTEP_API lockstep_status lockstep_stage_get(lockstep_comm* comm, lockstep_stage* stage);

/* Leaves politely: waits for the calls that this peer has launched; the other peers continue without it and see no
 * error. Later calls fail with NOT_CONNECTED. timeout_ms: above 0, or LOCKSTEP_FOREVER. Errors: INVALID_ARGUMENT,
 * TIMED_OUT (this peer has left all the same, and calls in flight may end as for a lost peer), NOT_CONNECTED. */
LOCKSTEP_API lockstep_status lockstep_leave(lockstep_comm* comm, int64_t timeout_ms);
LOCKSTEP_API lockstep_status lockstep_leave_async(lockstep_comm* comm, int64_t timeout_ms, lockstep_work** work);

/* Aborts every call of this communicator that is in flight, blocking ones of other threads included, as
 * lockstep_abort() does. `why`: for the texts of all peers, its first 1024 bytes; may be NULL. Does not wait. */
LOCKSTEP_API lockstep_status lockstep_abort_all(lockstep_comm* comm, const char* why);

/* ---- the world -----------------------------------------------------------------------------------------------------
 * */

/* The newest view, as this peer sees it. */
typedef struct lockstep_world {
  size_t struct_size;
  uint64_t view;         /* its number */
  uint64_t cohort;       /* the view of the newest admission */
  uint64_t term;         /* of its coordinator */
  lockstep_peer_id self; /* this peer */
  uint32_t group;        /* this peer's group */
  uint32_t rank;         /* this peer's place in its group */
  uint32_t world_size;   /* members of its group */
  uint32_t members;      /* members of all groups */
  uint32_t groups;       /* groups with at least one member */
  uint32_t pending;      /* peers that wait for admission */
} lockstep_world;

#define LOCKSTEP_WORLD_INIT \
  { sizeof(lockstep_world), 0, 0, 0, {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}, 0, 0, 0, 0, 0, 0 }

/* Fills `world`. Local; never blocks. NOT_CONNECTED before this peer has joined; after the end of the run the world
 * keeps its last content. A new view may follow at any moment; the lockstep_result of a collective tells the members
 * that took part. */
LOCKSTEP_API lockstep_status lockstep_world_get(lockstep_comm* comm, lockstep_world* world);

/* A group and how many members it has in one view. */
typedef struct lockstep_group_size {
  uint32_t group;
  uint32_t members;
} lockstep_group_size;

/* The groups of the newest view, by ascending number. sizes: room for `capacity` groups, filled as far as it reaches;
 * may be NULL with 0. *count: the number of groups. view: NULL, or where to put the view's number. Errors as
 * lockstep_world_get(). */
LOCKSTEP_API lockstep_status lockstep_group_sizes(lockstep_comm* comm, lockstep_group_size* sizes, size_t capacity,
                                                  size_t* count, uint64_t* view);

/* The members of `group` in the newest view, in rank order. ids: room for `capacity`, filled as far as it reaches; may
 * be NULL with 0. *count: how many there are (0: no such group). view: NULL, or where to put the view's number. Errors
 * as lockstep_world_get(). */
LOCKSTEP_API lockstep_status lockstep_member_ids(lockstep_comm* comm, uint32_t group, lockstep_peer_id* ids,
                                                 size_t capacity, size_t* count, uint64_t* view);

/* This peer's id; known from lockstep_comm_create() on. */
LOCKSTEP_API lockstep_status lockstep_peer_id_self(lockstep_comm* comm, lockstep_peer_id* id);

/* ---- collectives ---------------------------------------------------------------------------------------------------
 *
 * Every member of the cohort's group calls with the same tag and equal arguments; different arguments end the call with
 * LOCKSTEP_ERR_MISMATCH on all of them. The library uses the lent memory from the call to its end, and never outside of
 * that. The blocking form returns at the end of the call; the asynchronous form returns a lockstep_work. Data flows
 * around the ring, over all links at once.
 *
 * One outcome: if one peer gets LOCKSTEP_OK, every peer holds the result. After any other status nothing was reduced,
 * `send` (and `recv` where both are the same memory) holds what it held before, and other `recv` memory is unspecified.
 *
 * If a member is lost in mid-call, all-reduce, barrier (both unless `no_retry`) and sync continue among the survivors.
 * The other collectives end with PEER_LOST or WORLD_CHANGED, because their arguments depend on the members.
 *
 * Common fields:
 *   tag            the call's name; 0 is as good as any other
 *   timeout_ms     time-out of the call, on every peer; 0: 30 minutes; LOCKSTEP_FOREVER: none. While the call waits for
 *                  an admission, this peer's part ends at once, and the other parts end in the new view
 *   minimum_world  fewer contributors end the call with BELOW_MINIMUM; 0: the communicator's; equal on all peers
 *
 * A refused call is an answer, too: if a peer's own side refuses a call (INVALID_ARGUMENT, OUT_OF_MEMORY), the call
 * ends there at once and takes its turn among the calls with its tag. It ends on every other peer within some round
 * trips, with the same status and a text that names the peer and its reason. Excepted are calls whose tag cannot be
 * read: `args` NULL (but for a barrier) or with a wrong struct_size.
 *
 * Common errors: INVALID_ARGUMENT, MISMATCH, BELOW_MINIMUM, ABORTED, TIMED_OUT, COHORT_CLOSED, OUTCOME_UNKNOWN,
 * EVICTED, NOT_CONNECTED, TOO_MANY_IN_FLIGHT, OUT_OF_MEMORY. A world of 1 succeeds at once.
 */

/* One of many tensors in one call. */
typedef struct lockstep_tensor {
  const void* send; /* broadcast: ignored */
  void* recv;
  uint64_t count; /* elements; with 0 the pointers may be NULL */
} lockstep_tensor;

/* Folds `count` elements over all contributors; every peer gets the whole result. */
typedef struct lockstep_all_reduce_args {
  size_t struct_size;
  const void* send;               /* `count` contiguous elements, aligned to their size */
  void* recv;                     /* same; the same pointer as `send` (in place), or no overlap */
  uint64_t count;                 /* elements; 0 is allowed */
  const lockstep_tensor* tensors; /* many tensors as one round, instead of send, recv, count; else NULL */
  size_t tensors_count;           /* at most 65536 */
  lockstep_data_type type;
  lockstep_op op;
  uint64_t tag;
  int64_t timeout_ms;
  uint32_t minimum_world;
  int no_retry; /* not 0: the loss of a member ends the call with PEER_LOST; equal on all peers */

  /* f32, SUM or AVG: formats of contributions (and partial sums around the ring), and of the result. One rank rounds
   * each chunk of the result to `down`, once, and all peers, the rank included, decode the bytes that it sent. Equal on
   * all peers. */
  lockstep_wire_format up;
  lockstep_wire_format down;
  /* f32, AVG or SUM: not 0: this contribution counts `weight` times (finite, not negative, rounded to f32; with 0 the
   * peer takes part and does not count). AVG: the result is the sum of weight * send, divided by the sum of weights.
   * SUM: the result is the sum of weight * send (a premultiplied sum). All peers are weighted, or none; weights may
   * differ. If one weight is invalid, or all weights of an AVG are 0 (of the survivors, too), the call ends on every
   * peer with INVALID_ARGUMENT. A world of 1 encodes nothing; without a weighted SUM, it checks no element. */
  int weighted;
  double weight;
  lockstep_algorithm algorithm; /* RING not with an `up` of less than 8 bits; GRID not with formats or weights;
                                   equal on all peers */
  /* Error feedback, DIRECT only (request DIRECT for an `up` of 8 bits or more): `count` f32, zeros at first, that the
   * caller keeps from call to call; no overlap with other buffers. The residual is added to `send`. If the call ends
   * with LOCKSTEP_OK, the residual becomes what encoding lost of that sum (nothing for this peer's own chunk);
   * otherwise the residual is unchanged. Also unchanged with weight 0 and in a world of 1. NULL: none; each peer may
   * choose. After F. Seide et al., "1-bit stochastic gradient descent", 2014. */
  void* residual;
  void* const* residuals; /* the same with `tensors`: one for each of them, NULL where it has none; or NULL */
} lockstep_all_reduce_args;

#define LOCKSTEP_ALL_REDUCE_ARGS_INIT                                                                \
  {                                                                                                  \
    sizeof(lockstep_all_reduce_args), NULL, NULL, 0, NULL, 0, LOCKSTEP_U8, LOCKSTEP_SUM, 0, 0, 0, 0, \
        LOCKSTEP_WIRE_NATIVE, LOCKSTEP_WIRE_NATIVE, 0, 0.0, LOCKSTEP_ALGORITHM_AUTO, NULL, NULL      \
  }

/* Each peer sends 2(n-1)/n of the tensors' bytes (ring; formula as in nccl-tests doc/PERFORMANCE.md). A tensor of at
 * most 16 KiB travels whole, once or twice (DIRECT: its owner sends it to every peer). A wire format reduces these
 * bytes by its ratio. Memory: in place, a copy of the input (or of its encoded part); out of place, none: give `send`
 * and `recv` of their own where tensors are large. Neighbouring tensors of at most 16 KiB each travel as one where
 * nothing is encoded; they need two copies, and are written only if the call succeeds. DIRECT and AUTO also need room
 * for the contributions of others: as many bytes as the tensors (64 times as many for tensors of at most 16 KiB), but
 * at most the larger of 16 MiB and a sixteenth of the tensors, and at most 64 MiB; DIRECT ends with INVALID_ARGUMENT
 * where that is too little for the number of members. With a wire format, weights, or DIRECT for a sum or average of
 * f32, a NaN or infinite input aborts the call on every peer with INVALID_ARGUMENT; the error names the peer and the
 * element. Errors: common ones, and PEER_LOST with `no_retry`. */
LOCKSTEP_API lockstep_status lockstep_all_reduce(lockstep_comm* comm, const lockstep_all_reduce_args* args,
                                                 lockstep_result* result);
LOCKSTEP_API lockstep_status lockstep_all_reduce_async(lockstep_comm* comm, const lockstep_all_reduce_args* args,
                                                       lockstep_work** work);

/* Folds `count` elements over all contributors; rank r of n gets the r-th of n chunks: count/n elements, one more for
 * r < count % n. The result names the chunk (chunk_begin, chunk_count). */
typedef struct lockstep_reduce_scatter_args {
  size_t struct_size;
  const void* send;       /* `count` contiguous elements */
  void* recv;             /* room for `recv_capacity` elements; no overlap with `send` */
  uint64_t count;         /* elements of `send` */
  uint64_t recv_capacity; /* elements; count/n rounded up always suffices */
  lockstep_data_type type;
  lockstep_op op;
  uint64_t tag;
  int64_t timeout_ms;
  uint32_t minimum_world;
} lockstep_reduce_scatter_args;

#define LOCKSTEP_REDUCE_SCATTER_ARGS_INIT \
  { sizeof(lockstep_reduce_scatter_args), NULL, NULL, 0, 0, LOCKSTEP_U8, LOCKSTEP_SUM, 0, 0, 0 }

/* Each peer sends (n-1)/n of the tensor's bytes. Memory: a copy of the tensor for partial sums, and a quarter of it.
 * Errors: common ones, PEER_LOST, WORLD_CHANGED, BUFFER_TOO_SMALL. */
LOCKSTEP_API lockstep_status lockstep_reduce_scatter(lockstep_comm* comm, const lockstep_reduce_scatter_args* args,
                                                     lockstep_result* result);
LOCKSTEP_API lockstep_status lockstep_reduce_scatter_async(lockstep_comm* comm,
                                                           const lockstep_reduce_scatter_args* args,
                                                           lockstep_work** work);

/* Every peer gets the blocks of all peers, in rank order, without gaps. Blocks may differ in size; the result has the
 * sizes (blocks). */
typedef struct lockstep_all_gather_args {
  size_t struct_size;
  const void* send;       /* this peer's block; no overlap with `recv`, except exactly its own place */
  void* recv;             /* room for `recv_capacity` elements */
  uint64_t send_count;    /* elements; may differ between peers; 0 is allowed */
  uint64_t recv_capacity; /* elements: at least the sum of all blocks */
  lockstep_data_type type;
  uint64_t tag;
  int64_t timeout_ms;
  uint32_t minimum_world;
} lockstep_all_gather_args;

#define LOCKSTEP_ALL_GATHER_ARGS_INIT \
  { sizeof(lockstep_all_gather_args), NULL, NULL, 0, 0, LOCKSTEP_U8, 0, 0, 0 }

/* Each peer sends all blocks but one. Errors: common ones, PEER_LOST, WORLD_CHANGED, BUFFER_TOO_SMALL. */
LOCKSTEP_API lockstep_status lockstep_all_gather(lockstep_comm* comm, const lockstep_all_gather_args* args,
                                                 lockstep_result* result);
LOCKSTEP_API lockstep_status lockstep_all_gather_async(lockstep_comm* comm, const lockstep_all_gather_args* args,
                                                       lockstep_work** work);

/* Every peer gets the root's elements. */
typedef struct lockstep_broadcast_args {
  size_t struct_size;
  void* data;                     /* `count` contiguous elements: read on the root, written elsewhere */
  uint64_t count;                 /* elements */
  const lockstep_tensor* tensors; /* many tensors (recv) as one round, instead of data, count; else NULL */
  size_t tensors_count;           /* at most 65536 */
  lockstep_peer_id root;          /* a peer id and not a rank, since ranks change with the view */
  lockstep_data_type type;
  uint64_t tag;
  int64_t timeout_ms;
  uint32_t minimum_world;
} lockstep_broadcast_args;

#define LOCKSTEP_BROADCAST_ARGS_INIT                                                                       \
  {                                                                                                        \
    sizeof(lockstep_broadcast_args), NULL, 0, NULL, 0, {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}, \
        LOCKSTEP_U8, 0, 0, 0                                                                               \
  }

/* Each peer but the last of the ring sends the tensors' bytes once. Errors: common ones, PEER_LOST, WORLD_CHANGED;
 * INVALID_ARGUMENT if the root is no member of the group. After an error `data` is unspecified, except on the root. */
LOCKSTEP_API lockstep_status lockstep_broadcast(lockstep_comm* comm, const lockstep_broadcast_args* args,
                                                lockstep_result* result);
LOCKSTEP_API lockstep_status lockstep_broadcast_async(lockstep_comm* comm, const lockstep_broadcast_args* args,
                                                      lockstep_work** work);

/* Folds `count` elements over all contributors; the root gets the result. */
typedef struct lockstep_reduce_args {
  size_t struct_size;
  const void* send;               /* `count` contiguous elements */
  void* recv;                     /* on the root room for `count` elements, no overlap with `send`; else ignored */
  uint64_t count;                 /* elements; 0 is allowed */
  const lockstep_tensor* tensors; /* many tensors as one round, instead of send, recv, count; else NULL */
  size_t tensors_count;           /* at most 65536 */
  lockstep_peer_id root;          /* a peer id and not a rank, since ranks change with the view */
  lockstep_data_type type;
  lockstep_op op;
  uint64_t tag;
  int64_t timeout_ms;
  uint32_t minimum_world;
} lockstep_reduce_args;

#define LOCKSTEP_REDUCE_ARGS_INIT                                                                             \
  {                                                                                                           \
    sizeof(lockstep_reduce_args), NULL, NULL, 0, NULL, 0, {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}, \
        LOCKSTEP_U8, LOCKSTEP_SUM, 0, 0, 0                                                                    \
  }

/* Each peer but the root sends the tensors' bytes once. Memory: a copy of the tensors for partial sums, and a quarter
 * of them. Contributions are added in the order of the ring, the root's last; with GRID in an order of its own. Errors:
 * common ones, PEER_LOST, WORLD_CHANGED; BUFFER_TOO_SMALL if the root gives no `recv`; INVALID_ARGUMENT if the root is
 * no member of the group. */
LOCKSTEP_API lockstep_status lockstep_reduce(lockstep_comm* comm, const lockstep_reduce_args* args,
                                             lockstep_result* result);
LOCKSTEP_API lockstep_status lockstep_reduce_async(lockstep_comm* comm, const lockstep_reduce_args* args,
                                                   lockstep_work** work);

/* Gather, scatter and all-to-all. A block has one sender and one receiver, and goes straight from the one to the other:
 * the first such call opens links between every two members. Blocks may differ in size; the result has the sizes of
 * those that this peer received, by rank (blocks). Never retried. */
typedef struct lockstep_block {
  lockstep_peer_id to; /* a member of the group; at most one block for each */
  uint64_t count;      /* elements; 0 is allowed */
} lockstep_block;

/* The root gets the blocks of all peers, in rank order, without gaps. */
typedef struct lockstep_gather_args {
  size_t struct_size;
  const void* send;       /* this peer's block */
  void* recv;             /* on the root room for `recv_capacity` elements, no overlap with `send`; else ignored */
  uint64_t send_count;    /* elements; may differ between peers; 0 is allowed */
  uint64_t recv_capacity; /* elements: on the root at least the sum of all blocks */
  lockstep_peer_id root;  /* a peer id and not a rank, since ranks change with the view */
  lockstep_data_type type;
  uint64_t tag;
  int64_t timeout_ms;
  uint32_t minimum_world;
} lockstep_gather_args;

#define LOCKSTEP_GATHER_ARGS_INIT                                                                                    \
  {                                                                                                                  \
    sizeof(lockstep_gather_args), NULL, NULL, 0, 0, {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}, LOCKSTEP_U8, \
        0, 0, 0                                                                                                      \
  }

/* Each peer but the root sends its block. Errors: common ones, PEER_LOST, WORLD_CHANGED; BUFFER_TOO_SMALL if the blocks
 * do not fit the root's `recv`; INVALID_ARGUMENT if the root is no member of the group. */
LOCKSTEP_API lockstep_status lockstep_gather(lockstep_comm* comm, const lockstep_gather_args* args,
                                             lockstep_result* result);
LOCKSTEP_API lockstep_status lockstep_gather_async(lockstep_comm* comm, const lockstep_gather_args* args,
                                                   lockstep_work** work);

/* Each peer gets the block that the root has for it. */
typedef struct lockstep_scatter_args {
  size_t struct_size;
  const void* send;             /* on the root the blocks, one after the other in the order of `blocks`; else ignored */
  void* recv;                   /* room for `recv_capacity` elements; no overlap with `send` */
  const lockstep_block* blocks; /* on the root who gets how much; a member without a block gets nothing; else ignored */
  size_t blocks_count;          /* at most 1024 */
  uint64_t recv_capacity;       /* elements: at least this peer's block */
  lockstep_peer_id root;        /* a peer id and not a rank, since ranks change with the view */
  lockstep_data_type type;
  uint64_t tag;
  int64_t timeout_ms;
  uint32_t minimum_world;
} lockstep_scatter_args;

#define LOCKSTEP_SCATTER_ARGS_INIT                                                                             \
  {                                                                                                            \
    sizeof(lockstep_scatter_args), NULL, NULL, NULL, 0, 0, {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}, \
        LOCKSTEP_U8, 0, 0, 0                                                                                   \
  }

/* The root sends all blocks but its own. Errors: common ones, PEER_LOST, WORLD_CHANGED, BUFFER_TOO_SMALL;
 * INVALID_ARGUMENT if the root or the receiver of a block is no member of the group. */
LOCKSTEP_API lockstep_status lockstep_scatter(lockstep_comm* comm, const lockstep_scatter_args* args,
                                              lockstep_result* result);
LOCKSTEP_API lockstep_status lockstep_scatter_async(lockstep_comm* comm, const lockstep_scatter_args* args,
                                                    lockstep_work** work);

/* Each peer gets the blocks that all peers have for it, in rank order, without gaps. */
typedef struct lockstep_all_to_all_args {
  size_t struct_size;
  const void* send;             /* this peer's blocks, one after the other in the order of `blocks` */
  void* recv;                   /* room for `recv_capacity` elements; no overlap with `send` */
  const lockstep_block* blocks; /* who gets how much; a member without a block gets nothing */
  size_t blocks_count;          /* at most 1024 */
  uint64_t recv_capacity;       /* elements: at least the sum of the blocks that are for this peer */
  lockstep_data_type type;
  uint64_t tag;
  int64_t timeout_ms;
  uint32_t minimum_world;
} lockstep_all_to_all_args;

#define LOCKSTEP_ALL_TO_ALL_ARGS_INIT \
  { sizeof(lockstep_all_to_all_args), NULL, NULL, NULL, 0, 0, LOCKSTEP_U8, 0, 0, 0 }

/* Each peer sends all its blocks but its own. Errors: common ones, PEER_LOST, WORLD_CHANGED, BUFFER_TOO_SMALL;
 * INVALID_ARGUMENT if the receiver of a block is no member of the group. */
LOCKSTEP_API lockstep_status lockstep_all_to_all(lockstep_comm* comm, const lockstep_all_to_all_args* args,
                                                 lockstep_result* result);
LOCKSTEP_API lockstep_status lockstep_all_to_all_async(lockstep_comm* comm, const lockstep_all_to_all_args* args,
                                                       lockstep_work** work);

/* Ends when every member has called it. */
typedef struct lockstep_barrier_args {
  size_t struct_size;
  uint64_t tag;
  int64_t timeout_ms;
  uint32_t minimum_world;
  int no_retry; /* as in all-reduce */
} lockstep_barrier_args;

#define LOCKSTEP_BARRIER_ARGS_INIT \
  { sizeof(lockstep_barrier_args), 0, 0, 0, 0 }

/* `args` NULL: all defaults. Errors: common ones, and PEER_LOST with `no_retry`. */
LOCKSTEP_API lockstep_status lockstep_barrier(lockstep_comm* comm, const lockstep_barrier_args* args,
                                              lockstep_result* result);
LOCKSTEP_API lockstep_status lockstep_barrier_async(lockstep_comm* comm, const lockstep_barrier_args* args,
                                                    lockstep_work** work);

/* Takes the place of a collective that this peer cannot call, because the program found its arguments invalid itself:
 * takes one turn among the calls with this tag, and ends the round for the other members with INVALID_ARGUMENT. Does
 * not wait. operation, why: for their texts ("rank 1 refused its all_gather with tag 3: 2 outputs for 3 ranks"), the
 * first 1024 bytes; may be NULL. OK also while this peer is no member; then nobody waits for it. */
LOCKSTEP_API lockstep_status lockstep_refuse(lockstep_comm* comm, const char* operation, uint64_t tag, const char* why);

/* ---- shared state --------------------------------------------------------------------------------------------------
 *
 * A shared state is what all peers hold in common: tensors and small values by name, with a revision (a step counter,
 * for example) that the program raises with every change. A sync makes the states of all members of a group equal, bit
 * for bit. The members of the last agreed revision vote; newcomers only receive. The highest revision wins, then the
 * most popular state, then the lower root. At the beginning of the run, and when no member of the last agreement is
 * left, every member votes: check result.revision. If all members return to a lower revision (a checkpoint), the run
 * continues from there. Groups that gangs bind (each group has a shard of the state) continue with the highest revision
 * that has votes in all of them.
 *
 * Progress is not lost in silence. A newcomer whose revision is higher than that of the run (others founded the run
 * anew while it was away) is not overwritten: its sync fails with STATE_CONFLICT, it is out of the run, and the members
 * go on. With LOCKSTEP_STATE_NEWEST its state wins. A state has a lineage: 0 until its first sync, and then equal for
 * states that grew out of one. Keep it with the revision, in checkpoints, too.
 *
 * A peer that differs fetches only the pieces of 1 MiB that differ, from all peers that hold them at once, and checks
 * each piece on arrival. If all states are equal, a sync costs one round trip to the coordinator, and no tensor byte.
 *
 * If a call ends while it takes the state over in place, memory holds a part of a state (result.state_undefined). The
 * communicator remembers that: in later syncs of this tag the peer has no vote and sends nothing, until a sync
 * succeeds, or until `restored` says that the tensors hold a whole state again. Another communicator cannot know: set
 * `blank` there.
 *
 * Programs with a shared state call lockstep_admit(). With auto_admit, members learn of a newcomer from the view in
 * their next result, while the newcomer may already wait in its first sync: calls that wait for each other in different
 * tags end only by their time-outs. */

typedef enum lockstep_state_strategy {
  LOCKSTEP_STATE_POPULAR = 0,      /* votes, and takes over the winner */
  LOCKSTEP_STATE_SEND_ONLY = 1,    /* is never written to: its state wins; if two differ: MISMATCH */
  LOCKSTEP_STATE_RECEIVE_ONLY = 2, /* never votes, never sends */
  LOCKSTEP_STATE_NEWEST = 3 /* like POPULAR; also a newcomer wins if its revision is higher than that of every member */
} lockstep_state_strategy;

typedef struct lockstep_state_tensor {
  const char* name; /* 1 to 256 bytes of text, unique among the tensors */
  void* data;       /* `count` contiguous elements: read, and written where another state wins */
  uint64_t count;   /* elements; with 0 the pointer may be NULL */
  lockstep_data_type type;
  int may_differ; /* not 0: neither compared nor sent; each peer keeps its own */
  int unchanged;  /* not 0: unchanged since this communicator's last successful sync of this tag: not hashed again.
                    If that is not true, peers continue with states that differ */
} lockstep_state_tensor;

typedef enum lockstep_value_type { LOCKSTEP_INT = 0, LOCKSTEP_UINT = 1, LOCKSTEP_REAL = 2 } lockstep_value_type;

typedef struct lockstep_state_value {
  const char* name; /* as above */
  void* value;      /* an int64_t, uint64_t or double, in memory of its own: read, and written if another state wins */
  lockstep_value_type type;
} lockstep_state_value;

typedef struct lockstep_sync_state_args {
  size_t struct_size;
  const lockstep_state_tensor* tensors; /* the same names, types, sizes and flags in the same order on all peers */
  size_t tensors_count;                 /* at most 65536 */
  const lockstep_state_value* values;   /* likewise */
  size_t values_count;                  /* at most 256 */
  uint64_t revision;                    /* of this peer's state; the new one is in the result */
  lockstep_state_strategy strategy;
  int staged; /* not 0: fetched pieces land in memory of the library (as much as differs) and are copied into the
                 tensors after the round has committed. After an error the tensors hold their old state, unless
                 result.state_undefined says that the communicator ran out of memory during the copy. prefetch: holds
                 the newest state until the admission, see lockstep_prefetch_state() */
  uint64_t tag;
  int64_t timeout_ms;
  uint32_t minimum_world;
  int blank;    /* not 0: the tensors hold no state yet. They are not hashed, and the whole elected state is fetched */
  int stable;   /* publish: not 0: the tensors are lent and do not change, so no copy is made. Otherwise ignored */
  int restored; /* not 0: after result.state_undefined: the tensors hold a whole state again, such as a checkpoint */
  uint64_t lineage; /* of this peer's state: the result.lineage of its last sync; 0: it has none yet */
} lockstep_sync_state_args;

#define LOCKSTEP_SYNC_STATE_ARGS_INIT \
  { sizeof(lockstep_sync_state_args), NULL, 0, NULL, 0, 0, LOCKSTEP_STATE_POPULAR, 0, 0, 0, 0, 0, 0, 0, 0 }

/* A member of the last agreed revision that brings other bytes of the winning revision, or a lower revision, has a bug
 * or a broken memory. Its state is overwritten, and result.state_difference says so to all members alike: "state of
 * revision 7 differed on d in 'w' (3 of 12 pieces) and was overwritten with that of a, b". It names no newcomer.
 * Continues with other sources when a source dies, is slow or sends wrong pieces. After an error:
 * result.state_undefined. Errors: common ones; ABORTED also when a peer has no source left: the text names the sources;
 * STATE_UNDEFINED: no peer that may send has a state: load a checkpoint on one of them; or groups that gangs bind have
 * no revision in common: load a checkpoint in all of them; STATE_CONFLICT: see above; MISMATCH: tensors or values
 * differ between peers, or two send-only states differ: the text names the first difference. */
LOCKSTEP_API lockstep_status lockstep_sync_state(lockstep_comm* comm, const lockstep_sync_state_args* args,
                                                 lockstep_result* result);
LOCKSTEP_API lockstep_status lockstep_sync_state_async(lockstep_comm* comm, const lockstep_sync_state_args* args,
                                                       lockstep_work** work);

/* Joining without a stop: members publish a revision and keep training. A newcomer fetches that revision while it waits
 * for its admission, so its first sync moves only the pieces that have changed since. Members lose no step: pieces are
 * sent while none of their rounds has anything to send. */

/* Serves this state (with `revision`) to waiting peers from now on; a newer publication of the tag replaces it. Copies
 * the tensors into memory of the library and returns; the caller may write to the tensors again. With args->stable
 * nothing is copied, and the tensors are lent, unchanged, until lockstep_unpublish_state() has returned. The
 * asynchronous call lasts until it is aborted or replaced, or this peer leaves the run; then the tensors are the
 * caller's again. strategy, staged and minimum_world are ignored; after timeout_ms the publication ends. Costs the copy
 * and one read of every byte. Once lockstep_fetching() is 0, some steps later, newcomers have the state and may be
 * admitted; an admission ends the fetches that still run. Errors: INVALID_ARGUMENT (also for a blank or undefined
 * state), NOT_CONNECTED (not a member), TOO_MANY_IN_FLIGHT (this peer publishes 16 states: end one), OUT_OF_MEMORY. */
LOCKSTEP_API lockstep_status lockstep_publish_state(lockstep_comm* comm, const lockstep_sync_state_args* args);
LOCKSTEP_API lockstep_status lockstep_publish_state_async(lockstep_comm* comm, const lockstep_sync_state_args* args,
                                                          lockstep_work** work);

/* Ends this peer's publication under the tag, if there is one, and waits until its memory is the caller's again. */
LOCKSTEP_API lockstep_status lockstep_unpublish_state(lockstep_comm* comm, uint64_t tag);

/* Between lockstep_connect_async() and the admission: fills the tensors and values, in place, with the newest state
 * that members publish under this tag; waits while no member publishes. OK: the whole state is here (result.revision),
 * or this peer was admitted before. With result.state_undefined memory holds a part of a state, and the first sync
 * completes it. A prefetched state is only a head start: sync before using the tensors, with the revision of the
 * result. strategy, revision and minimum_world are ignored.
 * With args->staged the call holds: it goes on until the admission, and follows what members publish. Pieces land in
 * memory of the library (as much as the state) and are copied into the tensors when all of them are here. At the end
 * the tensors hold the newest state that came whole, or what they held at the call; never a part. The first state that
 * members publish is taken, then newer revisions only; after each, the peer rests as long as the fetch took, at least
 * two heartbeats. If all members are lost, the newcomers found the run anew, and the first sync goes on from the
 * highest revision that one of them brings (result.revision): no state is lost while a newcomer that holds one waits.
 * Errors: INVALID_ARGUMENT, MISMATCH (members publish another layout), TIMED_OUT, ABORTED, NOT_CONNECTED,
 * TOO_MANY_IN_FLIGHT (this peer fetches 16 states: end one), OUT_OF_MEMORY. */
LOCKSTEP_API lockstep_status lockstep_prefetch_state(lockstep_comm* comm, const lockstep_sync_state_args* args,
                                                     lockstep_result* result);
LOCKSTEP_API lockstep_status lockstep_prefetch_state_async(lockstep_comm* comm, const lockstep_sync_state_args* args,
                                                           lockstep_work** work);

/* Watching: from now on every collective except a sync hashes this state, as it is at the call, and the members' hashes
 * are compared when the round commits, at no extra round trip while the hashes are equal. If the hashes differ, the
 * call still succeeds, and result.state_difference tells every contributor which peers differ from the majority, and
 * in which tensor or value first: "the state of c differs from that of a (2 of 3 watch the same) in tag 7: first in
 * tensor 4 (w f32 [10])"; or how the descriptions of the states differ. The program decides what to do, such as a
 * lockstep_sync_state(). Members that watch nothing are not compared.
 *
 * This function reads the values and the revision: call it again when they change. The tensors are lent, and must not
 * change, while a collective is in flight that was called during the watch. A collective must not write to the tensors:
 * end the watch before such a collective. `unchanged` tensors are unchanged since the last collective that was called
 * while this communicator watched, and are not hashed again. A later call replaces an earlier one; `args` NULL ends the
 * watch. strategy, staged, stable, tag, timeout_ms and minimum_world are ignored. Costs one read of every byte per
 * collective; without a watch nothing. Errors: INVALID_ARGUMENT. */
LOCKSTEP_API lockstep_status lockstep_watch_state(lockstep_comm* comm, const lockstep_sync_state_args* args);

/* ---- point to point ------------------------------------------------------------------------------------------------
 *
 * One member sends a tensor to one other member. Neither the coordinator nor the other members take part: the loss of a
 * third member, an admission or a change of the view does not touch a transfer. Any number of transfers may be in
 * flight, in both directions; none waits for another one, except the sends of one member with one tag to one receiver,
 * which are taken in the order of their calls.
 *
 * Matching. A recv takes the first send of its tag from that member, or, from any member, the first that was announced.
 * A send and its recv must have the same type and count; otherwise both end with MISMATCH, and the text names both
 * sides. A send of at most 16 KiB may have ended before its recv is called; then only the recv ends with MISMATCH.
 *
 * A send ends with LOCKSTEP_OK when the receiver has all bytes: in the memory of the recv, or in memory of the library
 * that it keeps for sends of at most 16 KiB (64 from each member; larger sends, and further ones, wait for their recv).
 * After any other status the receiver may have the bytes all the same. A recv ends with LOCKSTEP_OK when the bytes are
 * in its memory and their checksum is right; after any other status the memory is unspecified.
 *
 * Limits. 16384 sends from one member to one other may wait for their recv; further sends wait, in order, until some
 * have been taken. A tensor has at most 128 GiB.
 *
 * The end. A call that is aborted, or times out, before the other side has matched it is as if it had not been called;
 * after that, the other side ends with the same status and a text that names the cause. When the partner is lost or
 * leaves, a transfer that is not complete ends with PEER_LOST, and the text names the partner; what a member sent
 * before it left stays, and may be received later. lockstep_leave() delivers every send first (a time-out of the leave
 * ends what is left), and ends a recv that nobody has sent anything for with NOT_CONNECTED.
 *
 * Fields: to, from: a member of the run, of any group. tag: for matching; independent of the tags of collectives.
 * timeout_ms: time-out of the call; 0: LOCKSTEP_DEFAULT_TIMEOUT_MS; LOCKSTEP_FOREVER: none.
 *
 * Errors: INVALID_ARGUMENT (also for a partner that is no member, or this peer itself), MISMATCH, PEER_LOST, ABORTED,
 * TIMED_OUT, OUTCOME_UNKNOWN, EVICTED, NOT_CONNECTED, INTERNAL (the bytes are wrong again and again), OUT_OF_MEMORY.
 */

typedef struct lockstep_send_args {
  size_t struct_size;
  const void* data;    /* `count` contiguous elements; read only */
  uint64_t count;      /* elements; 0 is allowed */
  lockstep_peer_id to; /* a peer id and not a rank, since ranks change with the view */
  lockstep_data_type type;
  uint64_t tag;
  int64_t timeout_ms;
} lockstep_send_args;

#define LOCKSTEP_SEND_ARGS_INIT \
  { sizeof(lockstep_send_args), NULL, 0, {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}, LOCKSTEP_U8, 0, 0 }

typedef struct lockstep_recv_args {
  size_t struct_size;
  void* data;            /* room for `count` contiguous elements */
  uint64_t count;        /* elements, as many as the send has */
  lockstep_peer_id from; /* all zero: any member; lockstep_result.partner says which */
  lockstep_data_type type;
  uint64_t tag;
  int64_t timeout_ms;
} lockstep_recv_args;

#define LOCKSTEP_RECV_ARGS_INIT \
  { sizeof(lockstep_recv_args), NULL, 0, {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}, LOCKSTEP_U8, 0, 0 }

/* Sends the bytes of the tensor once, and about 0.1 % more. */
LOCKSTEP_API lockstep_status lockstep_send(lockstep_comm* comm, const lockstep_send_args* args,
                                           lockstep_result* result);
LOCKSTEP_API lockstep_status lockstep_send_async(lockstep_comm* comm, const lockstep_send_args* args,
                                                 lockstep_work** work);

LOCKSTEP_API lockstep_status lockstep_recv(lockstep_comm* comm, const lockstep_recv_args* args,
                                           lockstep_result* result);
LOCKSTEP_API lockstep_status lockstep_recv_async(lockstep_comm* comm, const lockstep_recv_args* args,
                                                 lockstep_work** work);

/* ---- work ----------------------------------------------------------------------------------------------------------
 *
 * An asynchronous function that returns LOCKSTEP_OK gives a handle that the caller owns until lockstep_work_free().
 * After an error the handle is NULL, and nothing was started. The call's memory stays lent until a wait or a test says
 * that the call has ended.
 */

/* Waits until the call has ended, at most timeout_ms (0: checks once; LOCKSTEP_FOREVER). Returns the call's status and
 * fills `result` (may be NULL), or returns LOCKSTEP_ERR_PENDING while the call is in flight. May be repeated, from many
 * threads. */
LOCKSTEP_API lockstep_status lockstep_wait(lockstep_work* work, int64_t timeout_ms, lockstep_result* result);

/* The progress of a sync or a prefetch: *bytes of *of bytes that differ have arrived; both 0: not known yet, or another
 * kind of call. Counts whole pieces; after a loss the count begins again with what still differs. Never blocks. */
LOCKSTEP_API lockstep_status lockstep_progress(lockstep_work* work, uint64_t* bytes, uint64_t* of);

/* lockstep_wait() that checks once: never blocks. */
LOCKSTEP_API lockstep_status lockstep_test(lockstep_work* work, lockstep_result* result);

/* Waits until one of `count` calls has ended, at most timeout_ms (0: checks once; LOCKSTEP_FOREVER). NULLs in `works`
 * are skipped; at least one entry must not be NULL. LOCKSTEP_OK: *index is the first call that has ended, with any
 * status; LOCKSTEP_ERR_PENDING: no call has ended. */
LOCKSTEP_API lockstep_status lockstep_wait_any(lockstep_work* const* works, size_t count, int64_t timeout_ms,
                                               size_t* index);

/* Ends a call in flight. A collective is aborted on every peer, unless it has committed; admit ends on this peer alone;
 * aborting connect or leave ends this peer's part in the run. This function does not wait: the call itself tells how it
 * ended. `why`: for the error texts of all peers, its first 1024 bytes; may be NULL. Only the first abort of a call
 * counts. */
LOCKSTEP_API lockstep_status lockstep_abort(lockstep_work* work, const char* why);

/* Called at the end of a call: on a thread of the library, on a thread that waits in a function of this header, or on
 * the thread that registers the function. The function must be quick, must not call functions of this header, and must
 * not take a lock that the program holds around such a call. */
typedef void (*lockstep_end_fn)(void* user);

/* Calls `ended` exactly once, at the end of the call: when lockstep_test() returns the call's status and its memory is
 * the caller's again. If the call has ended already, `ended` is called before this function returns. Destroying the
 * communicator ends the call, too. Several functions may be registered; each of them is called. No function is called
 * after lockstep_work_free() has returned, which aborts a call in flight and waits for these functions. Errors:
 * INVALID_ARGUMENT, OUT_OF_MEMORY (`ended` is not called then). */
LOCKSTEP_API lockstep_status lockstep_notify(lockstep_work* work, lockstep_end_fn ended, void* user);

/* As lockstep_notify(), for a program that will wait for the call. A small transfer begins on the calling thread and
 * goes on in lockstep_wait(): no thread has to wake up. If nobody waits, a thread of the library carries it on, after
 * at most two milliseconds, or at once after lockstep_notify(). */
LOCKSTEP_API lockstep_status lockstep_on_end(lockstep_work* work, lockstep_end_fn ended, void* user);

/* Frees the handle. Aborts a call in flight and waits for its end first, so that the call's memory is the caller's
 * again when this function returns. NULL: nothing. */
LOCKSTEP_API void lockstep_work_free(lockstep_work* work);

/* ---- interrupting waits --------------------------------------------------------------------------------------------
 *
 * For programs that must not block in a wait, such as an interpreter that checks for Ctrl-C. */

/* Returns not 0 to end the wait of the calling thread. May call functions of this header. */
typedef int (*lockstep_interrupt_fn)(void* user);

/* Sets the interrupt function of this process, for waits that begin later; NULL: none, the default. A thread that waits
 * in a function of this header that returns a lockstep_status calls the interrupt function every 50 ms, first 50 ms
 * after the beginning of the wait: a short wait costs nothing more. When the interrupt function returns not 0:
 *
 * - lockstep_wait(), lockstep_wait_any() and lockstep_unpublish_state() return LOCKSTEP_ERR_INTERRUPTED; the call
 *   continues.
 * - a blocking call is aborted ("interrupted") as by lockstep_abort(). If the call ends within 20 ms, the function
 *   returns the
 *   call's status: usually ABORTED, or LOCKSTEP_OK if the call had committed. Otherwise (the coordinator does not
 *   answer) the function returns LOCKSTEP_ERR_INTERRUPTED, the call's memory stays lent until its end, and
 *   lockstep_interrupted() gives its handle.
 *
 * Does not wait for running calls of the previous interrupt function. Always returns LOCKSTEP_OK. */
LOCKSTEP_API lockstep_status lockstep_set_interrupt(lockstep_interrupt_fn interrupt, void* user);

/* The handle of this thread's last blocking call that returned LOCKSTEP_ERR_INTERRUPTED. The caller owns the handle
 * from then on, as that of an asynchronous call. NULL: there is none, or it was taken already. A call continues if its
 * handle is not taken. */
LOCKSTEP_API lockstep_work* lockstep_interrupted(void);

/* ---- many calls at once --------------------------------------------------------------------------------------------
 *
 * Any number of collectives may be launched. 256 of them and more are in flight at once; the others wait in a queue, in
 * launch order, and are calls in every respect: time-outs count from the launch, and aborts end them. Up to 65,536
 * calls may be in flight or wait (fewer where calls have thousands of tensors: 64 MiB of descriptions). A launch beyond
 * that blocks the calling thread until a call ends. The time-out of the call counts meanwhile (TIMED_OUT: the call was
 * not launched), and an interrupt function that returns not 0 ends the wait (LOCKSTEP_ERR_INTERRUPTED: the call was not
 * launched, and lockstep_interrupted() gives nothing). All limits: docs/limits.md. */

/* not 0: a launch of the calling thread that finds no room fails at once with TOO_MANY_IN_FLIGHT, and nothing is
 * launched. 0, the default: it waits. Returns the value before. */
LOCKSTEP_API int lockstep_set_no_wait(int no_wait);

/* ---- embedded coordinator ------------------------------------------------------------------------------------------
 * */

/* A coordinator in this process, with a thread of its own: the same as `lockstep coordinator`. A coordinator needs few
 * resources and may run beside a peer; when its process ends, the run ends. */
typedef struct lockstep_coordinator lockstep_coordinator;

/* 0 or NULL in a field: its default. Strings are copied. */
typedef struct lockstep_coordinator_options {
  size_t struct_size;
  const char* listen;      /* "host:port"; no host: every address; port 0: any free one. Default: "127.0.0.1:0" */
  uint32_t heartbeat_ms;   /* interval of every peer's heartbeats. Default: 500 */
  uint32_t silence_ms;     /* silence after which a peer is lost; at least 2 * heartbeat_ms. Default: 3000 */
  uint32_t greeting_ms;    /* limit for a stranger's first message. Default: 3000 */
  lockstep_log_fn log;     /* Default: none; nothing is printed */
  void* log_user;          /* handed to `log`; must stay valid until lockstep_coordinator_stop() has returned */
  const char* flight_file; /* for the flight recorder if the coordinator fails; its folder is writable. Default: none */
  int shared_thread;       /* as in lockstep_comm_options. Default: 0, a thread of its own */

  /* Security. A coordinator that listens on loopback addresses only, without a token file, needs none. Any other speaks
   * TLS 1.3 only, and admits peers that have a run token of its own (lockstep_coordinator_token()). */
  const char* token_file; /* its key and tokens, for `lockstep token`; made if missing. Default: one token in memory */
  const lockstep_certificates* certificates; /* instead of tokens. Default: NULL, none */
  const char* advertise; /* "host" or "host:port", with commas: addresses in tokens. Default: where it listens */
  int insecure;          /* not 0: no TLS and no token; everybody may join, read and change all. Default: 0 */
  int no_dial_back;      /* not 0: peers are not dialled back, and all count as peers that can be dialled. Default: 0 */
} lockstep_coordinator_options;

#define LOCKSTEP_COORDINATOR_OPTIONS_INIT \
  { sizeof(lockstep_coordinator_options), NULL, 0, 0, 0, NULL, NULL, NULL, 0, NULL, NULL, NULL, 0, 0 }

/* Starts a coordinator, which listens when this function returns. `options` NULL: all defaults. *coordinator: the
 * caller stops it; NULL on failure. Errors: INVALID_ARGUMENT, UNREACHABLE (unknown host, or listening on the address
 * failed). */
LOCKSTEP_API lockstep_status lockstep_coordinator_start(const lockstep_coordinator_options* options,
                                                        lockstep_coordinator** coordinator);

/* Writes the address to connect to from this machine, such as "127.0.0.1:40123" (loopback where it listens on every
 * address). size: bytes of `address`; 64 always suffice, BUFFER_TOO_SMALL otherwise. */
LOCKSTEP_API lockstep_status lockstep_coordinator_address(lockstep_coordinator* coordinator, char* address,
                                                          size_t size);

/* Writes the string that peers connect with: a run token, or the address where the coordinator needs none. The token
 * holds a secret. size: bytes of `token`; LOCKSTEP_TOKEN_BYTES always suffice, BUFFER_TOO_SMALL otherwise. */
#define LOCKSTEP_TOKEN_BYTES 4097
LOCKSTEP_API lockstep_status lockstep_coordinator_token(lockstep_coordinator* coordinator, char* token, size_t size);

/* Writes the addresses of the coordinator that a text names, in any form of lockstep_connect(): "host:port", or several
 * with commas. They hold no secret: a log may show them. size: bytes of `addresses`. Errors: INVALID_ARGUMENT, whose
 * text never repeats a token; BUFFER_TOO_SMALL, never for a token and LOCKSTEP_TOKEN_BYTES. */
LOCKSTEP_API lockstep_status lockstep_parse_coordinator(const char* coordinator, char* addresses, size_t size);

/* Writes a text with the secret of every run token in it replaced by "...", for logs and error texts of programs that
 * take run tokens from users. A token that is mistyped, or broken by white space, counts as one. size: bytes of
 * `redacted`; 2 * strlen(text) + 1 always suffice, BUFFER_TOO_SMALL otherwise. Errors: INVALID_ARGUMENT. */
LOCKSTEP_API lockstep_status lockstep_redact(const char* text, char* redacted, size_t size);

/* As lockstep_flight_record(). */
LOCKSTEP_API lockstep_status lockstep_coordinator_flight_record(lockstep_coordinator* coordinator, const char* path);

/* Stops and frees the coordinator. The run ends for its peers. Other threads may be in functions of the handle, as with
 * lockstep_comm_destroy(). NULL: nothing. */
LOCKSTEP_API void lockstep_coordinator_stop(lockstep_coordinator* coordinator);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-*) */
#endif /* LOCKSTEP_H */

/* NCCL without cards: the calls of the library that the binding makes, between processes, over a shared file. Memory is
 * the host's (see ../cuda/simulated_driver.c), and a call that waits for its peers waits in the caller's thread. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RANKS = 8, ROOM = 1 << 16, SUCCESS = 0, FAILED = 2, INVALID = 5 };

typedef struct {
  atomic_int here, turn;
  char slot[RANKS][ROOM];
  atomic_int full[RANKS][RANKS];
  char mail[RANKS][RANKS][ROOM];
} Shared;
typedef struct {
  Shared* shared;
  int rank, ranks, broken;
  volatile int aborted;
} Comm;
typedef struct {
  int kind, type, op, root;
  const char* from;
  char* to;
  size_t count;
  Comm* comm;
} Call;
typedef struct { char bytes[128]; } Id;
enum { ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, SEND, RECEIVE };

static const char* names[] = {"all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "send", "receive"};
static const size_t widths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
static char log_[1 << 16];
static __thread int depth;
static __thread Call queue[256];
static __thread int queued;
static double factors[64];
static int scaled;
static Comm* last;

const char* simulated_nccl_log(void) { return log_; }
void simulated_nccl_break(void) { last->broken = 1; }

int ncclGetVersion(int* v) { return *v = 22707, 0; }
const char* ncclGetErrorString(int s) { return s == INVALID ? "invalid usage" : s == FAILED ? "system error" : "other"; }
const char* ncclGetLastError(void* c) { return (void)c, ""; }
int ncclGetUniqueId(Id* id) {
  memset(id, 0, sizeof *id);
  return snprintf(id->bytes, 128, "%d-%d", getpid(), rand()), 0;
}
int ncclCommInitRank(Comm** made, int ranks, Id id, int rank) {
  if (getenv("SIMULATED_NCCL_REFUSES")) return INVALID;
  char path[512];
  snprintf(path, sizeof path, "%s/%s", getenv("SIMULATED_NCCL_FOLDER"), id.bytes);
  int file = open(path, O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, sizeof(Shared))) return FAILED;
  Comm* c = calloc(1, sizeof *c);
  c->shared = mmap(NULL, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  c->rank = rank, c->ranks = ranks;
  return *made = last = c, 0;
}
int ncclCommDestroy(Comm* c) { return munmap(c->shared, sizeof(Shared)); }
int ncclCommAbort(Comm* c) { return c->aborted = 1, 0; }
int ncclCommGetAsyncError(Comm* c, int* s) { return *s = c->broken ? FAILED : SUCCESS, 0; }
int ncclRedOpCreatePreMulSum(int* op, const void* value, int type, int on_host, Comm* c) {
  (void)c, (void)on_host;
  factors[scaled] = type == 8 ? *(const double*)value : *(const float*)value;
  return *op = 5 + scaled++, 0;
}
int ncclRedOpDestroy(int op, Comm* c) { return (void)c, factors[op - 5] = 0, 0; }

static int meet(Comm* c) {
  Shared* s = c->shared;
  int turn = s->turn;
  if (atomic_fetch_add(&s->here, 1) == c->ranks - 1) {
    s->here = 0;
    s->turn = turn + 1;
    return 0;
  }
  while (s->turn == turn) {
    if (c->aborted) return FAILED;
    usleep(50);
  }
  return 0;
}
#define REDUCE_AS(T)                                                              \
  for (size_t i = 0; i < n; i++) {                                                \
    T a = ((T*)to)[i], b = ((const T*)from)[i];                                   \
    ((T*)to)[i] = op == 1 ? a * b : op == 2 ? (a > b ? a : b) : op == 3 ? (a < b ? a : b) : a + b; \
  }
static int reduce_into(char* to, const char* from, size_t n, int type, int op) {
  switch (type) {
    case 0: REDUCE_AS(int8_t) break;
    case 1: REDUCE_AS(uint8_t) break;
    case 2: REDUCE_AS(int32_t) break;
    case 4: REDUCE_AS(int64_t) break;
    case 7: REDUCE_AS(float) break;
    case 8: REDUCE_AS(double) break;
    default: return INVALID;
  }
  return 0;
}
static void scale(char* at, size_t n, int type, double by) {
  for (size_t i = 0; i < n; i++) {
    if (type == 7) ((float*)at)[i] *= by;
    if (type == 8) ((double*)at)[i] *= by;
  }
}
static int reduced(Call* k, char* to, size_t first, size_t n) {
  Comm* c = k->comm;
  size_t w = widths[k->type];
  memcpy(to, c->shared->slot[0] + first * w, n * w);
  for (int r = 1; r < c->ranks; r++)
    if (reduce_into(to, c->shared->slot[r] + first * w, n, k->type, k->op)) return INVALID;
  if (k->op == 4) scale(to, n, k->type, 1.0 / c->ranks);
  return 0;
}
static int collective(Call* k) {
  Comm* c = k->comm;
  size_t bytes = k->count * widths[k->type], parts = k->kind == REDUCE_SCATTER ? c->ranks : 1;
  if (bytes * parts > ROOM) return INVALID;
  int status = 0;
  if (k->kind != BROADCAST || c->rank == k->root) memcpy(c->shared->slot[c->rank], k->from, bytes * parts);
  if (k->op > 4) scale(c->shared->slot[c->rank], k->count * parts, k->type, factors[k->op - 5]);
  if (meet(c)) return FAILED;
  if (k->kind == ALL_REDUCE || (k->kind == REDUCE && c->rank == k->root)) status = reduced(k, k->to, 0, k->count);
  if (k->kind == BROADCAST) memcpy(k->to, c->shared->slot[k->root], bytes);
  if (k->kind == REDUCE_SCATTER) status = reduced(k, k->to, c->rank * k->count, k->count);
  for (int r = 0; k->kind == ALL_GATHER && r < c->ranks; r++) memcpy(k->to + r * bytes, c->shared->slot[r], bytes);
  return meet(c) ? FAILED : status;
}
static int message(Call* k) {      /* whether it went */
  Comm* c = k->comm;
  size_t bytes = k->count * widths[k->type];
  int from = k->kind == SEND ? c->rank : k->root, to = k->kind == SEND ? k->root : c->rank;
  if (c->shared->full[from][to] != (k->kind == RECEIVE)) return 0;
  char* room = c->shared->mail[from][to];
  k->kind == SEND ? memcpy(room, k->from, bytes) : memcpy(k->to, room, bytes);
  c->shared->full[from][to] = k->kind == SEND;
  return 1;
}
int ncclGroupStart(void) { return depth++, 0; }
int ncclGroupEnd(void) {
  if (--depth) return 0;
  int left = 0, status = 0;
  for (int i = 0; i < queued; i++) {
    if (queue[i].kind < SEND) status |= collective(&queue[i]);
    else queue[left++] = queue[i];
  }
  queued = 0;
  while (left && !status) {
    for (int i = 0; i < left; i++)
      if (message(&queue[i])) queue[i--] = queue[--left];
    if (left && queue[0].comm->aborted) return FAILED;
    if (left) usleep(50);
  }
  return status;
}
static int call(int kind, const void* from, void* to, size_t count, int type, int op, int root, Comm* c, void* stream) {
  size_t used = strlen(log_);
  snprintf(log_ + used, sizeof log_ - used, "%s stream=%ld depth=%d\n", names[kind], (long)stream, depth);
  if (count * widths[type] > ROOM || queued == 256) return INVALID;
  queue[queued++] = (Call){kind, type, op, root, from, to, count, c};
  if (depth) return 0;
  depth++;
  return ncclGroupEnd();
}
int ncclAllReduce(const void* f, void* t, size_t n, int type, int op, Comm* c, void* s) {
  return call(ALL_REDUCE, f, t, n, type, op, 0, c, s);
}
int ncclReduce(const void* f, void* t, size_t n, int type, int op, int root, Comm* c, void* s) {
  return call(REDUCE, f, t, n, type, op, root, c, s);
}
int ncclBroadcast(const void* f, void* t, size_t n, int type, int root, Comm* c, void* s) {
  return call(BROADCAST, f, t, n, type, 0, root, c, s);
}
int ncclAllGather(const void* f, void* t, size_t n, int type, Comm* c, void* s) {
  return call(ALL_GATHER, f, t, n, type, 0, 0, c, s);
}
int ncclReduceScatter(const void* f, void* t, size_t n, int type, int op, Comm* c, void* s) {
  return call(REDUCE_SCATTER, f, t, n, type, op, 0, c, s);
}
int ncclSend(const void* f, size_t n, int type, int peer, Comm* c, void* s) {
  return call(SEND, f, NULL, n, type, 0, peer, c, s);
}
int ncclRecv(void* t, size_t n, int type, int peer, Comm* c, void* s) {
  return call(RECEIVE, NULL, t, n, type, 0, peer, c, s);
}

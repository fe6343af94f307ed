/* A driver without a device behind it: memory is the host's, work is done when it is asked for, kernels are counted and
 * not run. It checks what can be checked without one: the order of calls, contexts, grids, and what comes back from
 * memory. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int units = 2;
static __thread int current = -1;
static long counts[8];      /* allocations, frees, copies, launches, modules, events made, events destroyed, streams */
static size_t limit = (size_t)1 << 30, used = 0;
static uint64_t allocated[4096];
static char last_ptx[1 << 20];
static unsigned last_grid[2];

long simulated_count(int which) { return counts[which]; }
unsigned simulated_grid(int which) { return last_grid[which]; }
const char* simulated_ptx(void) { return last_ptx; }

static char order[1 << 16];      /* marks made in streams and waited for, as they came */
const char* simulated_order(void) { return order; }
void simulated_order_clear(void) { order[0] = 0; }
static int note(const char* what, void* stream, void* event) {
  size_t used = strlen(order);
  if (used + 64 < sizeof order) sprintf(order + used, "%s %ld %ld\n", what, (long)stream, (long)event);
  return 0;
}

/* What the driver answers from now on where it runs or awaits work: faults are found there. */
static int fault;
void simulated_fault(int code) { fault = code; }

/* Launches that take a while, the first argument of each, and how many were made when another call about a stream came. */
static int slow;
static uint64_t firsts[1 << 14];
static long seen;
void simulated_slow(int microseconds) { slow = microseconds; }
uint64_t simulated_first(int which) { return firsts[which]; }
long simulated_seen(void) { return seen; }
static void look(void) { seen = counts[3]; }

/* Who wants to know of calls, as they end: simulated_cupti.c. */
static void (*trace)(int call, uint64_t begin, const unsigned* shape, long stream, uint64_t bytes);
static uint64_t (*trace_clock)(void);
void simulated_trace(void* f, void* clock) { trace_clock = clock, trace = f; }
static uint64_t begins(void) { return trace ? trace_clock() : 0; }
static int ends(int call, uint64_t begin, const unsigned* shape, void* stream, uint64_t bytes, int code) {
  if (trace && begin) trace(call, begin, shape, (long)stream, bytes);
  return code;
}

int cuInit(unsigned flags) {
  if (getenv("SIMULATED_UNITS")) units = atoi(getenv("SIMULATED_UNITS"));
  if (getenv("SIMULATED_START")) return atoi(getenv("SIMULATED_START"));
  return flags ? 1 : 0;
}
int cuDeviceGetCount(int* n) { return *n = units, 0; }
int cuDriverGetVersion(int* v) { return *v = 13099, 0; }
int cuDeviceGetName(char* text, int n, int unit) { return snprintf(text, n, "Simulated %d", unit), 0; }
int cuDeviceGetUuid(char* text, int unit) { return memset(text, unit, 16), 0; }
int cuDeviceTotalMem_v2(size_t* n, int unit) { return *n = limit, unit >= units; }
int cuDeviceGetAttribute(int* v, int which, int unit) {
  return *v = which == 75 ? 9 : which == 76 ? 0 : which == 16 ? 132 : 1024, unit >= units;
}
int cuDevicePrimaryCtxRetain(void** c, int unit) { return *c = (void*)(intptr_t)(unit + 1), unit >= units; }
int cuCtxSetCurrent(void* c) { return current = (int)(intptr_t)c - 1, 0; }
int cuMemGetInfo_v2(size_t* free_, size_t* all) { return *all = limit, *free_ = limit - used, current < 0 ? 201 : 0; }

int cuMemAlloc_v2(uint64_t* at, size_t n) {
  if (current < 0) return 201;
  if (used + n > limit) return 2;
  int file = memfd_create("simulated", 0);      /* which another process can open by this one's number */
  if (ftruncate(file, n + 512)) return 2;
  size_t* block = mmap(0, n + 512, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  block[0] = n, block[1] = file;
  used += n, counts[0]++;
  size_t slot = 0;
  while (slot < sizeof allocated / sizeof *allocated - 1 && allocated[slot]) slot++;
  allocated[slot] = (uint64_t)block + 512;
  return *at = (uint64_t)block + 512, 0;
}
int cuMemFree_v2(uint64_t at) {
  size_t* block = (size_t*)(at - 512);
  used -= *block, counts[1]++;
  for (size_t slot = 0; slot < sizeof allocated / sizeof *allocated; slot++)
    if (allocated[slot] == at) allocated[slot] = 0;
  close((int)block[1]);
  return munmap(block, block[0] + 512) != 0;
}
struct handle { char text[64]; };
int cuMemGetAddressRange_v2(uint64_t* base, size_t* size, uint64_t at) {
  for (size_t slot = 0; slot < sizeof allocated / sizeof *allocated; slot++) {
    size_t n = allocated[slot] ? *(size_t*)(allocated[slot] - 512) : 0;
    if (n && at >= allocated[slot] && at < allocated[slot] + n) return *base = allocated[slot], *size = n, 0;
  }
  return *base = at, *size = 0, 0;              /* memory of expanding segments, which has no handle */
}
int cuIpcGetMemHandle(struct handle* h, uint64_t at) {
  for (size_t slot = 0; slot < sizeof allocated / sizeof *allocated; slot++)
    if (allocated[slot] == at) return sprintf(h->text, "/proc/%d/fd/%ld", getpid(), ((long*)(at - 512))[1]), 0;
  return 1;
}
static long opened;
long simulated_opened(void) { return opened; }
int cuIpcOpenMemHandle_v2(uint64_t* at, struct handle h, unsigned flags) {
  int file = open(h.text, O_RDWR);
  struct stat about;
  if (file < 0 || fstat(file, &about) || flags != 1) return 1;
  void* found = mmap(0, about.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return close(file), opened++, *at = (uint64_t)found + 512, 0;
}
int cuIpcCloseMemHandle(uint64_t at) { return !at || opened-- < 1; }
int cuIpcGetEventHandle(struct handle* h, void* e) { return sprintf(h->text, "event %ld", (long)e), 0; }
int cuIpcOpenEventHandle(void** e, struct handle h) { return *e = (void*)atol(h.text + 6), strncmp(h.text, "event ", 6); }
int cuMemAllocAsync(uint64_t* at, size_t n, void* s) { return (void)s, cuMemAlloc_v2(at, n); }
int cuMemFreeAsync(uint64_t at, void* s) { return (void)s, cuMemFree_v2(at); }
static int move(uint64_t to, uint64_t from, size_t n) {
  if (current < 0) return 201;
  if (fault) return fault;
  counts[2]++, look();
  return memmove((void*)to, (const void*)from, n), 0;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t n, void* s) {
  uint64_t t = begins();
  return ends(2, t, 0, s, n, move(to, (uint64_t)from, n));
}
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t n, void* s) {
  uint64_t t = begins();
  return ends(3, t, 0, s, n, move((uint64_t)to, from, n));
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, void* s) {
  uint64_t t = begins();
  return ends(4, t, 0, s, n, move(to, from, n));
}
int cuMemcpyPeerAsync(uint64_t to, void* c, uint64_t from, void* d, size_t n, void* s) {
  return (void)c, (void)d, (void)s, move(to, from, n);
}

#define MODULES (1 << 14)
static int bounds[MODULES];      /* threads that the kernel of each module was compiled for */
static char* texts[MODULES];      /* what each module was made of */
int cuModuleLoadDataEx(void** m, const char* ptx, unsigned n, int* options, void** values) {
  (void)n, (void)options;
  if (current < 0) return 201;
  if (!strstr(ptx, ".entry")) return snprintf(values[0], 64, "no entry"), 218;
  strncpy(last_ptx, ptx, sizeof(last_ptx) - 1);
  const char* bound = strstr(ptx, ".maxntid ");
  long number = __atomic_add_fetch(&counts[4], 1, __ATOMIC_SEQ_CST);   /* threads load modules side by side */
  *m = (void*)number;
  free(texts[number % MODULES]);
  texts[number % MODULES] = strdup(ptx);
  bounds[number % MODULES] = bound ? atoi(bound + 9) : 256;   /* small blocks say nothing */
  return 0;
}
/* What it compiles is the text itself: entries of a cache can be told from those of a real driver by its version. */
static char linked[1 << 20];
static long compiled;
long simulated_compiled(void) { return compiled; }
int cuLinkCreate_v2(unsigned n, int* options, void** values, void** linker) {
  (void)n, (void)options;
  return *linker = values[0], current < 0 ? 201 : 0;
}
int cuLinkAddData_v2(void* linker, int type, const char* ptx, size_t size, const char* name, unsigned n, int* options,
                     void** values) {
  (void)name, (void)n, (void)options, (void)values;
  if (type != 1 || size > sizeof(linked) || ptx[size - 1]) return 1;
  if (fault) return fault;
  if (!strstr(ptx, ".entry")) return snprintf(linker, 64, "no entry"), 218;
  return memcpy(linked, ptx, size), 0;
}
int cuLinkComplete(void* linker, void** image, size_t* size) {
  return (void)linker, compiled++, *image = linked, *size = strlen(linked) + 1, 0;
}
int cuLinkDestroy(void* linker) { return (void)linker, 0; }
int cuModuleGetFunction(void** f, void* m, const char* name) {
  return *f = m, strstr(texts[(long)m % MODULES], name) ? 0 : 500;
}
static int most_threads = 1024;
void simulated_most_threads(int n) { most_threads = n; }
static int spilled;              /* bytes of every thread of a block of more than 256 */
void simulated_spilled(int n) { spilled = n; }
static int bound_of(void* f) { return bounds[(long)f % MODULES]; }
int cuFuncGetAttribute(int* value, int which, void* f) {
  *value = which == 0 ? most_threads : which == 3 ? (bound_of(f) > 256 ? spilled : 0) : which == 4 ? 132 : -1;
  return 0;
}
static int launch(void* f, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz, void** args) {
  if (current < 0) return 201;
  if (fault) return fault;
  if (tx > (unsigned)bound_of(f)) return 701;
  if (!x || !y || !z || !tx || tx > (unsigned)most_threads || ty != 1 || tz != 1 || !args) return 1;
  last_grid[0] = x, last_grid[1] = tx;
  if (slow) usleep(slow);
  memcpy(&firsts[counts[3] % (1 << 14)], args[0], 8);
  return counts[3]++, 0;
}
int cuLaunchKernel(void* f, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz, unsigned shared,
                   void* s, void** args, void** extra) {
  (void)shared, (void)extra;
  unsigned shape[] = {x, y, z, tx, ty, tz};
  uint64_t t = begins();
  return ends(1, t, shape, s, 0, launch(f, x, y, z, tx, ty, tz, args));
}

struct configuration { unsigned grid[3], block[3], shared; void* stream; const int* attributes; unsigned count; };
int cuLaunchKernelEx(const struct configuration* c, void* f, void** args, void** extra) {
  if (c->count != 1 || c->attributes[0] != 6 || c->attributes[2] != 1) return 1;      /* kernels that start early */
  return cuLaunchKernel(f, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2], c->shared,
                        c->stream, args, extra);
}

int cuStreamCreateWithPriority(void** s, unsigned flags, int priority) {
  return (void)flags, (void)priority, *s = (void*)(++counts[7] + 100), 0;
}
static int capturing;
/* What is being captured does not run, so nobody can wait for it. */
int cuStreamSynchronize(void* s) {
  uint64_t t = begins();
  return look(), ends(5, t, 0, s, 0, capturing ? 900 : current < 0 ? 201 : fault);
}
int cuCtxSynchronize(void) { return look(), current < 0 ? 201 : fault; }
int cuEventCreate(void** e, unsigned flags) { return (void)flags, *e = (void*)(++counts[5]), 0; }
int cuEventRecord(void* e, void* s) { return look(), note("mark", s, e); }
int cuStreamWaitEvent(void* s, void* e, unsigned flags) { return (void)flags, look(), note("wait", s, e); }
int cuEventSynchronize(void* e) { return (void)e, 0; }
int cuEventQuery(void* e) { return (void)e, 0; }
int cuEventDestroy_v2(void* e) { return (void)e, counts[6]++, 0; }
int cuEventElapsedTime(float* ms, void* a, void* b) { return *ms = (float)((intptr_t)b - (intptr_t)a), 0; }
int cuStreamBeginCapture_v2(void* s, int mode) { return (void)s, look(), mode > 2 || capturing++ ? 1 : 0; }
static int capture_fails;
void simulated_capture_fails(int fails) { capture_fails = fails; }
int cuStreamEndCapture(void* s, void** graph) {
  *graph = capture_fails ? 0 : (void*)7;
  return (void)s, look(), capturing-- != 1 ? 1 : capture_fails ? 901 : 0;
}
/* Graphs: 7 is one that was captured, 8 what runs it. Those made of kernels keep their nodes' grids and first arguments. */
struct kernel_node {
  void* f;
  unsigned grid[3], block[3], shared;
  void **args, **extra, *kernel, *context;
};
struct graph { int count; struct kernel_node nodes[64]; uint64_t firsts[64]; };
static long nodes_set;
long simulated_nodes_set(void) { return nodes_set; }
static int keep(struct graph* g, int i, const struct kernel_node* node) {
  g->nodes[i] = *node;
  return memcpy(&g->firsts[i], node->args[0], 8), current < 0 ? 201 : 0;
}
int cuGraphCreate(void** graph, unsigned flags) { return *graph = calloc(1, sizeof(struct graph)), flags != 0; }
int cuGraphAddKernelNode_v2(void** node, void* graph, void* const* after, size_t count, const struct kernel_node* what) {
  struct graph* g = graph;
  if (g->count == 64 || count != (g->count > 0) || (count && after[0] != &g->nodes[g->count - 1])) return 1;
  return *node = &g->nodes[g->count], keep(g, g->count++, what);
}
int cuGraphExecKernelNodeSetParams_v2(void* exec, void* node, const struct kernel_node* what) {
  struct graph* g = exec;
  return nodes_set++, keep(g, (int)((struct kernel_node*)node - g->nodes), what);
}
int cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long flags) {
  return *exec = graph == (void*)7 ? (void*)8 : graph, flags ? 1 : 0;
}
int cuGraphLaunch(void* exec, void* s) {
  if (exec == (void*)8) return (void)s, look(), counts[3] += 1000, 0;
  struct graph* g = exec;
  if (capturing) return 900;
  uint64_t t = begins();
  for (int i = 0; i < g->count; i++) {
    struct kernel_node* n = &g->nodes[i];
    void* args[] = {&g->firsts[i]};
    int code = launch(n->f, n->grid[0], n->grid[1], n->grid[2], n->block[0], n->block[1], n->block[2], args);
    if (code) return code;
  }
  return ends(6, t, g->nodes[0].grid, s, g->count, 0);      /* as many kernels as bytes */
}
int cuGraphDestroy(void* graph) { return graph != (void*)7; }
int cuGraphExecDestroy(void* exec) { return exec != (void*)8; }
int cuGetErrorName(int code, const char** text) {
  return *text = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR", 0;
}
int cuGetErrorString(int code, const char** text) {
  return *text = code == 2 ? "out of memory" : code == 700 ? "an illegal memory access" : "simulated", 0;
}

int cuMemHostAlloc(void **address, size_t size, unsigned flags) {
  (void)flags;
  *address = aligned_alloc(512, (size + 511) / 512 * 512);
  return *address ? 0 : 2;
}

int cuMemFreeHost(void *address) {
  free(address);
  return 0;
}

static int profiled;
int simulated_profiled(void) { return profiled; }
int cuProfilerStart(void) { return profiled++, 0; }
int cuProfilerStop(void) { return profiled++, 0; }
int cuMemHostRegister_v2(void *address, size_t size, unsigned flags) { return !address || !size || flags != 1; }
int cuMemHostUnregister(void *address) { return !address; }

/* Address space that is filled later. Pages that are not filled cannot be touched. */
#define PAGE ((size_t)2 << 20)
struct properties { int type, handles, place, unit; void* metadata; unsigned char flags[8]; };
struct access { int place, unit, flags; };
static size_t mapped;
size_t simulated_mapped(void) { return mapped; }
int cuMemAddressReserve(uint64_t* at, size_t n, size_t alignment, uint64_t hint, unsigned long long flags) {
  if (current < 0) return 201;
  if (n % PAGE || alignment || hint || flags) return 1;
  void* found = mmap(0, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return *at = (uint64_t)found, found == MAP_FAILED ? 2 : 0;
}
int cuMemCreate(uint64_t* handle, size_t n, const struct properties* p, unsigned long long flags) {
  if (n % PAGE || p->type != 1 || p->place != 1 || p->unit != current || flags) return 1;
  if (used + n > limit) return 2;
  return used += n, mapped += n, *handle = n, 0;
}
int cuMemMap(uint64_t at, size_t n, size_t offset, uint64_t handle, unsigned long long flags) {
  return (void)at, n != handle || offset || flags;
}
int cuMemRelease(uint64_t handle) { return !handle; }
int cuMemSetAccess(uint64_t at, size_t n, const struct access* a, size_t count) {
  if (count != 1 || a->unit != current || a->flags != 3) return 1;
  return mprotect((void*)at, n, PROT_READ | PROT_WRITE) ? 1 : 0;
}
int cuMemUnmap(uint64_t at, size_t n) {
  if (n % PAGE) return 1;
  used -= n, mapped -= n;
  return mprotect((void*)at, n, PROT_NONE) ? 1 : 0;
}

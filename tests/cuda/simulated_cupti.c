/* CUPTI over the simulated driver: what that one is called for becomes records, laid out as CUDA 12's, which a thread of
 * its own hands over when they are flushed. Kernels begin a microsecond after the call that launched them, and take ten.
 * `simulated_record` adds any record as bytes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MEMCPY = 1, MEMSET = 2, DRIVER = 4, RUNTIME = 5, KERNEL = 10, OVERHEAD = 17, PEER = 22, SYNC = 38, KINDS = 64 };
static const int sizes[KINDS] = {[MEMCPY] = 96, [MEMSET] = 88, [DRIVER] = 40, [RUNTIME] = 40, [KERNEL] = 208,
                                 [OVERHEAD] = 56, [PEER] = 96, [SYNC] = 56};
static const char* const driver_calls[] = {
    0, "cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2", "cuStreamSynchronize",
    "cuGraphLaunch", "cuCtxGetDevice"};
#define CALLS ((int)(sizeof driver_calls / sizeof *driver_calls))

static void (*give)(uint8_t**, size_t*, size_t*);
static void (*take)(void*, uint32_t, uint8_t*, size_t, size_t);
static uint64_t (*clock_now)(void);
static int enabled[KINDS], left_out[CALLS], fails_at = -1;
static uint8_t kept[1 << 22];
static size_t used;
static uint32_t correlation;
static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;

void simulated_cupti_fails(int kind) { fails_at = kind; }
int simulated_enabled(int kind) { return enabled[kind]; }

static void put(uint8_t* r, int place, const void* value, int n) { memcpy(r + place, value, n); }
static void put32(uint8_t* r, int place, uint32_t v) { put(r, place, &v, 4); }
static void put64(uint8_t* r, int place, uint64_t v) { put(r, place, &v, 8); }
void simulated_record(const uint8_t* record) {
  pthread_mutex_lock(&one);
  int n = sizes[*(const int*)record];
  memcpy(kept + used, record, n);
  used += n;
  pthread_mutex_unlock(&one);
}

/* A call of the driver, as it ends: what it started on the device comes after it. */
static void traced(int call, uint64_t begin, const unsigned* shape, long stream, uint64_t bytes) {
  uint64_t end = clock_now();
  uint8_t r[256] = {0};
  uint32_t id = ++correlation;
  if (enabled[DRIVER] && !left_out[call]) {
    put32(r, 0, DRIVER), put32(r, 4, call), put64(r, 8, begin), put64(r, 16, end);
    put32(r, 24, getpid()), put32(r, 28, syscall(SYS_gettid)), put32(r, 32, id);
    simulated_record(r);
  }
  memset(r, 0, sizeof r);
  if ((call == 1 || call == 6) && enabled[KERNEL]) {
    uint16_t registers = 40;
    const char* name = "_Z6kernelPfi";
    put32(r, 0, KERNEL), put(r, 6, &registers, 2);
    put32(r, 44, 1), put32(r, 48, 7 + stream), put(r, 52, shape, 24), put32(r, 76, 1024), put32(r, 80, 512);
    put32(r, 92, id), put(r, 104, &name, 8), put32(r, 156, call == 6 ? 3 : 0);
    for (uint64_t k = 0; k < (call == 6 ? bytes : 1); k++) {
      put64(r, 16, end + 1000 + 10000 * k), put64(r, 24, end + 11000 + 10000 * k);
      simulated_record(r);
    }
  } else if (call > 1 && call < 5 && enabled[MEMCPY]) {
    r[4] = call == 2 ? 1 : call == 3 ? 2 : 8, r[5] = call == 2 ? 1 : 3, r[6] = call == 3 ? 1 : 3;
    put32(r, 0, MEMCPY), put64(r, 8, bytes), put64(r, 16, begin + 100), put64(r, 24, end);
    put32(r, 36, 1), put32(r, 40, 7 + stream), put32(r, 44, id);
    simulated_record(r);
  } else if (call == 5 && enabled[SYNC]) {
    put32(r, 0, SYNC), put32(r, 4, 3), put64(r, 8, begin), put64(r, 16, end), put32(r, 24, id), put32(r, 32, 7 + stream);
    simulated_record(r);
  }
}

int cuptiGetVersion(uint32_t* v) { return *v = 28, getenv("SIMULATED_CUPTI") ? atoi(getenv("SIMULATED_CUPTI")) : 0; }
int cuptiGetResultString(int code, const char** text) { return *text = code == 35 ? "not privileged" : "simulated", 0; }
int cuptiActivityRegisterTimestampCallback(uint64_t (*f)(void)) { return clock_now = f, !f; }
int cuptiSetThreadIdType(int type) { return type != 1; }
int cuptiActivityRegisterCallbacks(void* g, void* t) { return give = g, take = t, !g || !t; }
int cuptiGetCallbackName(int domain, uint32_t id, const char** name) {
  *name = domain == 1 && id && id < (uint32_t)CALLS ? driver_calls[id] : domain == 2 && id == 1 ? "cudaLaunchKernel_v7000" : 0;
  return !*name;
}
static void watch(int on) {
  void (*set)(void*, void*) = (void (*)(void*, void*))dlsym(RTLD_DEFAULT, "simulated_trace");
  if (set) set(on ? traced : 0, clock_now);
}
int cuptiActivityEnable(int kind) { return kind == fails_at ? 35 : (enabled[kind] = 1, watch(1), 0); }
int cuptiActivityDisable(int kind) { return enabled[kind] = 0, watch(0), 0; }
int cuptiActivityEnableDriverApi(uint32_t id, uint8_t on) { return id >= (uint32_t)CALLS ? 1 : (left_out[id] = !on, 0); }
int cuptiActivityEnableRuntimeApi(uint32_t id, uint8_t on) { return (void)on, id != 1; }
int cuptiActivityGetNumDroppedRecords(void* c, uint32_t s, size_t* n) { return (void)c, (void)s, *n = 0, 0; }

static void* hand_over(void* none) {
  uint8_t* buffer = 0;
  size_t size = 0, most = 0;
  for (size_t done = 0; done < used;) {
    give(&buffer, &size, &most);
    size_t n = 0;
    while (done + n < used && n + 256 <= size) n += sizes[*(int*)(kept + done + n)];
    memcpy(buffer, kept + done, n);
    take(0, 0, buffer, size, n);
    done += n;
  }
  return used = 0, none;
}
int cuptiActivityFlushAll(uint32_t flag) {
  pthread_t worker;
  return (void)flag, pthread_create(&worker, 0, hand_over, 0) || pthread_join(worker, 0);
}
int cuptiActivityGetNextRecord(uint8_t* buffer, size_t size, uint8_t** record) {
  uint8_t* next = *record ? *record + sizes[*(int*)*record] : buffer;
  return next >= buffer + size ? 15 : (*record = next, 0);
}

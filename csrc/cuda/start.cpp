// See cuda/start.h. Measured on an H200 (driver 580), microseconds of the host: cuLaunchKernel 3.2 to 4.0, with early
// starts (cuLaunchKernelEx) 2.6 to 3.5; a graph of one kernel whose arguments are set anew, 1.8 to 2.7; 0.5 to 1.0 for
// each launch of a graph of several. On the unit, early starts cost least: 0.5 between two small kernels, 1.3 through
// graphs of one. So where small kernels follow each other, which keep the host busy and not the unit, they go through
// graphs, and otherwise they are started early.
#include "cuda/start.h"

#include <algorithm>
#include <atomic>

#include "arena.h"
#include "cuda/queue.h"

namespace rl::cuda {

bool overlaps = false;

namespace {

constexpr unsigned kFewBlocks = 132;         // of a kernel that is small
constexpr int kManySmall = 8;                // in a row: the unit is faster with them than the host
constexpr double kLongProduct = 1 << 27;     // multiplications

// As the driver's interface lays them out.
struct Attribute { int id; int padding; int64_t value[8]; };
struct Configuration {
  unsigned grid[3], block[3], shared;
  Handle stream;
  const Attribute* attributes;
  unsigned num_attributes;
};
struct NodeParams {
  Handle function;
  unsigned grid[3], block[3], shared;
  void **arguments, **extra;
  Handle kernel, context;
};
constexpr int kOutOfResources = 701;
constexpr int kStartsEarly = 6;   // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION

struct Driver {
  int (*launch)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void**, void**);
  int (*launch_with)(const void*, Handle, void**, void**);   // null, as those below, where the driver has none
  int (*new_graph)(Handle*, unsigned);
  int (*add_kernel)(Handle*, Handle, const Handle*, size_t, const void*);
  int (*instantiate)(Handle*, Handle, unsigned long long);
  int (*set_node)(Handle, Handle, const void*);
  int (*launch_graph)(Handle, Handle);
  int (*forget_graph)(Handle);
  int (*set_map)(void*, void*);
} driver;

bool has_graphs = false;
bool is_capturing = false;                   // a graph cannot be part of a graph
std::atomic<int> small_in_a_row{0};
SpinLock one_at_a_time;                      // who sets a node launches it before anybody sets it again

int start(Handle function, unsigned blocks, unsigned threads, unsigned shared, void* stream, void* const* arguments) {
  auto** given = const_cast<void**>(arguments);
  if (!overlaps) return driver.launch(function, blocks, 1, 1, threads, 1, 1, shared, stream, given, nullptr);
  Attribute early{kStartsEarly, 0, {1}};
  Configuration how{{blocks, 1, 1}, {threads, 1, 1}, shared, stream, &early, 1};
  return driver.launch_with(&how, function, given, nullptr);
}

// A launch that the unit has too few registers for, in words.
const char* describe(char* words, size_t size, const char* called, unsigned threads) {
  snprintf(words, size, "launch of %s, %u threads a block", called, threads);
  return words;
}

NodeParams node_of(Handle function, unsigned blocks, unsigned threads, void* const* arguments) {
  return {function, {blocks, 1, 1}, {threads, 1, 1}, 0, const_cast<void**>(arguments), nullptr, nullptr, nullptr};
}

// --- graphs of one launch, by variant
// -------------------------------------------------------------------------------------

bool set_node(Variant* v, const NodeParams& what) {
  if (v->exec) return !driver.set_node(v->exec, v->node, &what);
  Handle graph = nullptr;
  if (driver.new_graph(&graph, 0)) return false;
  bool ok = !driver.add_kernel(&v->node, graph, nullptr, 0, &what) && !driver.instantiate(&v->exec, graph, 0);
  if (!ok) v->exec = nullptr, driver.forget_graph(graph);
  return ok;
}

// False where the driver makes no graph of it: it is started as others are from then on.
bool start_as_graph(Variant* v, unsigned blocks, unsigned threads, void* stream, void* const* arguments, int* code) {
  NodeParams what = node_of(v->function, blocks, threads, arguments);
  one_at_a_time.lock();
  v->has_graph = set_node(v, what);
  if (v->has_graph) *code = driver.launch_graph(v->exec, stream);
  one_at_a_time.unlock();
  return v->has_graph;
}

// --- the queue
// --------------------------------------------------------------------------------------------------------------

int start_queued(Job& job) {
  static char what[320];      // of the first failure, which is the one that is told
  void* arguments[Job::kMostArguments];
  for (int k = 0; k < job.count; k++) arguments[k] = job.bytes + job.offsets[k];
  int code = start(job.function, job.blocks, job.threads, 0, job.stream, arguments);
  if (code == kOutOfResources) job.what = describe(what, sizeof(what), job.called, job.threads);
  return code;
}

struct Batch { Handle exec, nodes[kBatches[0]]; } batches[64][3];      // by unit; the queue's thread has them alone

int start_one_by_one(Job* const* jobs, int size) {
  for (int i = 0; i < size; i++)
    if (int code = start_queued(*jobs[i])) return code;
  return 0;
}

// Launches of one stream as a graph: one after the other, and one call of the driver.
int start_batch(Job* const* jobs, int which) {
  int size = kBatches[which];
  Batch& batch = batches[jobs[0]->unit][which];
  Handle graph = nullptr;
  if (is_capturing || (!batch.exec && driver.new_graph(&graph, 0))) return start_one_by_one(jobs, size);
  int code = 0;
  for (int i = 0; i < size && !code; i++) {
    Job& job = *jobs[i];
    void* arguments[Job::kMostArguments];
    for (int k = 0; k < job.count; k++) arguments[k] = job.bytes + job.offsets[k];
    NodeParams what = node_of(job.function, job.blocks, job.threads, arguments);
    code = graph ? driver.add_kernel(&batch.nodes[i], graph, i ? &batch.nodes[i - 1] : nullptr, i ? 1 : 0, &what)
                 : driver.set_node(batch.exec, batch.nodes[i], &what);
  }
  if (!code && graph) code = driver.instantiate(&batch.exec, graph, 0);
  if (code && graph) batch.exec = nullptr, driver.forget_graph(graph);
  return code ? start_one_by_one(jobs, size) : driver.launch_graph(batch.exec, jobs[0]->stream);
}

bool queue(const Variant* variant, unsigned blocks, unsigned threads, int unit, void* stream, const Arguments& a) {
  if (a.count > static_cast<int>(Job::kMostArguments) || a.bytes > Job::kBytes || variant->shared)
    return drain(), false;
  Job* job = queue_room();
  if (!job) return false;
  job->call = start_queued, job->what = "launch", job->called = variant->called.c_str(), job->joins = blocks <= kFewBlocks;
  job->function = variant->function, job->stream = stream, job->unit = unit;
  job->blocks = blocks, job->threads = threads, job->count = static_cast<uint16_t>(a.count);
  uint16_t at = 0;
  for (int k = 0; k < a.count; k++) {
    memcpy(job->bytes + at, a.at[k], a.sizes[k]);
    job->offsets[k] = at;
    at = static_cast<uint16_t>(at + a.sizes[k]);
  }
  queue_push();
  return true;
}

}  // namespace

int start_kernel(Variant* variant, int64_t blocks, int threads, int unit, void* stream, const Arguments& arguments) {
  unsigned grid = static_cast<unsigned>(blocks), block = static_cast<unsigned>(threads);
  if (queue_is_on) {
    const char* what = nullptr;
    if (int code = queue_error(&what)) return status_of(what, code);
    if (queue(variant, grid, block, unit, stream, arguments)) return RUSHLIGHT_OK;
  }
  int row = grid <= kFewBlocks ? small_in_a_row.load(std::memory_order_relaxed) + 1 : 0, code = 0;
  small_in_a_row.store(row, std::memory_order_relaxed);
  bool as_graph = row > kManySmall && has_graphs && variant->has_graph && !variant->shared && !is_capturing &&
                  start_as_graph(variant, grid, block, stream, arguments.at, &code);
  if (!as_graph) code = start(variant->function, grid, block, variant->shared, stream, arguments.at);
  char words[320];
  return status_of(code == kOutOfResources ? describe(words, sizeof(words), variant->called.c_str(), block) : "launch",
                   code);
}

int set_map(Map* map, const int64_t* words, void* address) {
  constexpr int kNotSupported = 801;
  std::copy(words, words + kMapWords, map->words);
  return status_of("tensor map", driver.set_map ? driver.set_map(map, address) : kNotSupported);
}

void note_long_work() { small_in_a_row.store(0, std::memory_order_relaxed); }

void note_product(double multiplications) {
  if (multiplications >= kLongProduct) note_long_work();
}

bool can_overlap() { return driver.launch_with != nullptr; }

void set_capturing(bool now) {
  drain();
  is_capturing = now;
}

void make_batches(bool wanted) { call_batch = wanted && has_graphs ? start_batch : nullptr; }

bool find_launches() {
  struct { void** place; const char* name; } all[] = {
#define FUNCTION(member, name) {reinterpret_cast<void**>(&driver.member), name}
      FUNCTION(launch, "cuLaunchKernel"),
      FUNCTION(launch_with, "cuLaunchKernelEx"),
      FUNCTION(new_graph, "cuGraphCreate"),
      FUNCTION(add_kernel, "cuGraphAddKernelNode_v2"),
      FUNCTION(instantiate, "cuGraphInstantiateWithFlags"),
      FUNCTION(set_node, "cuGraphExecKernelNodeSetParams_v2"),
      FUNCTION(launch_graph, "cuGraphLaunch"),
      FUNCTION(forget_graph, "cuGraphDestroy"),
      FUNCTION(set_map, "cuTensorMapReplaceAddress")};
#undef FUNCTION
  for (auto& entry : all) *entry.place = find_function(entry.name);
  has_graphs = driver.new_graph && driver.add_kernel && driver.instantiate && driver.set_node && driver.launch_graph &&
               driver.forget_graph;
  return driver.launch != nullptr;
}

}  // namespace rl::cuda

// Host memory that a unit reads and writes by itself (pinned memory), cached: taking it from the driver costs as much
// as copying megabytes. A block that was given back while a copy may still use it waits for the marks of that copy.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "boundary.h"
#include "cuda/device.h"
#include "storage.h"
#include "tensor.h"

namespace rl {

namespace {

constexpr unsigned kPortable = 1;       // for all units
constexpr size_t kLeast = 512, kPage = 4096;

struct Mark {
  Unit* unit;
  void* event;
};

struct Pinned {
  char* data;
  size_t size;
  std::vector<Mark> marks;
  bool is_registered = false;           // the host's own memory, made known to the driver
};

struct Settings {
  bool registers = false;               // take memory from the host and pin it then
  int threads = 1;                      // that touch its pages first
  size_t most_rounded = SIZE_MAX;       // larger requests are not rounded to a power of two,
  size_t most_cached = SIZE_MAX;        // and larger blocks are unpinned when they are free
} settings;

struct Stats {
  size_t allocated = 0, peak_allocated = 0, held = 0, peak_held = 0, allocations = 0, frees = 0, segments = 0;
} stats;

int (*host_allocate)(void**, size_t, unsigned) = nullptr;
int (*host_free)(void*) = nullptr;
int (*host_register)(void*, size_t, unsigned) = nullptr;
int (*host_unregister)(void*) = nullptr;
std::mutex lock;
std::multimap<size_t, Pinned*> idle;
std::vector<Pinned*> waiting;           // given back, with marks that were not reached

bool is_done(Pinned* block) {
  while (!block->marks.empty()) {
    Mark mark = block->marks.back();
    const RushlightDevice* table = mark.unit->table;
    int reached = 0, unit = mark.unit->device.index;
    if (table->query(table->context, unit, mark.event, &reached) || !reached) return false;
    table->forget(table->context, unit, mark.event);
    block->marks.pop_back();
  }
  return true;
}

// Pages are there before the driver is asked to pin them: threads do that at once.
void touch(char* data, size_t size) {
  std::vector<std::thread> others;
  size_t share = (size / static_cast<size_t>(settings.threads) + kPage) / kPage * kPage;
  for (size_t at = share; at < size; at += share)
    others.emplace_back([=] { memset(data + at, 0, std::min(share, size - at)); });
  memset(data, 0, std::min(share, size));
  for (std::thread& t : others) t.join();
}

Pinned* pin(size_t size) {
  void* data = nullptr;
  if (!settings.registers) {
    if (host_allocate(&data, size, kPortable)) return nullptr;
    return new Pinned{static_cast<char*>(data), size, {}};
  }
  if (posix_memalign(&data, kPage, size)) return nullptr;
  touch(static_cast<char*>(data), size);
  if (host_register(data, size, kPortable)) return free(data), nullptr;
  return new Pinned{static_cast<char*>(data), size, {}, true};
}

void unpin(Pinned* block) {
  if (block->is_registered) host_unregister(block->data), free(block->data);
  else host_free(block->data);
  stats.held -= block->size;
  stats.segments--;
  delete block;
}

void keep(Pinned* block) {
  if (block->size > settings.most_cached) unpin(block);
  else idle.emplace(block->size, block);
}

void collect() {
  for (size_t i = 0; i < waiting.size();) {
    if (is_done(waiting[i])) {
      keep(waiting[i]);
      waiting[i] = waiting.back();
      waiting.pop_back();
    } else {
      i++;
    }
  }
}

void free_idle() {
  for (auto& [size, block] : idle) unpin(block);
  idle.clear();
}

void release_pinned(Storage* s) {
  std::lock_guard<std::mutex> guard(lock);
  auto* block = static_cast<Pinned*>(s->context);
  stats.allocated -= block->size;
  stats.frees++;
  if (block->marks.empty()) keep(block);
  else waiting.push_back(block);
}

Pinned* take(size_t nbytes) {
  size_t size = kLeast;
  if (nbytes > settings.most_rounded) size = (nbytes + kLeast - 1) / kLeast * kLeast;
  while (size < nbytes) size *= 2;
  std::lock_guard<std::mutex> guard(lock);
  collect();
  Pinned* block = nullptr;
  if (auto found = idle.find(size); found != idle.end()) {
    block = found->second;
    idle.erase(found);
  } else {
    if (!(block = pin(size))) {
      free_idle();
      if (!(block = pin(size))) return nullptr;
    }
    stats.held += size;
    stats.segments++;
    stats.peak_held = std::max(stats.peak_held, stats.held);
  }
  stats.allocations++;
  stats.allocated += size;
  stats.peak_allocated = std::max(stats.peak_allocated, stats.allocated);
  return block;
}

bool note_use(Storage* s, Stream* stream) {
  if (s->release != release_pinned) return false;
  Unit* unit = stream->unit;
  void* event = nullptr;
  const RushlightDevice* table = unit->table;
  if (table->record(table->context, unit->device.index, stream->handle, &event)) return false;
  std::lock_guard<std::mutex> guard(lock);
  auto* block = static_cast<Pinned*>(s->context);
  if (!block->marks.empty() && block->marks.size() % 64 == 0) is_done(block);   // long-lived memory collects marks
  block->marks.push_back({unit, event});
  return true;
}

// cuda_pinned(nbytes): a tensor of bytes in pinned memory. The device must be open, and a context current.
PyObject* py_pinned(PyObject*, PyObject* number) {
  size_t nbytes = PyLong_AsSize_t(number);
  if (PyErr_Occurred()) return nullptr;
  if (!host_allocate) {
    host_allocate = reinterpret_cast<decltype(host_allocate)>(cuda::find_function("cuMemHostAlloc"));
    host_free = reinterpret_cast<decltype(host_free)>(cuda::find_function("cuMemFreeHost"));
    host_register = reinterpret_cast<decltype(host_register)>(cuda::find_function("cuMemHostRegister_v2"));
    host_unregister = reinterpret_cast<decltype(host_unregister)>(cuda::find_function("cuMemHostUnregister"));
    if (!host_allocate || !host_free || !host_register || !host_unregister)
      return host_allocate = nullptr, PyErr_SetString(PyExc_RuntimeError, "pin_memory: the driver is too old"), nullptr;
    note_pinned = note_use;
  }
  Pinned* block = take(nbytes);
  if (!block)
    return PyErr_Format(OutOfMemoryError,
                        "pin_memory: the driver cannot pin %zu more bytes of host memory; %zu are pinned. Pin less, or "
                        "raise the limit of locked memory.", nbytes, stats.held),
           nullptr;
  int64_t size = static_cast<int64_t>(nbytes);
  Tensor* t = tensor_alloc(TensorType, 1);
  if (!t) return nullptr;
  t->storage = storage_wrap(block->data, nbytes, Device{}, release_pinned, block);
  t->dtype = DType::U8;
  t->geometry[0] = size;
  t->geometry[1] = 1;
  tensor_finish_geometry(t);
  return as_object(t);
}

PyObject* py_is_pinned(PyObject*, PyObject* tensor) {
  if (!is_tensor(tensor)) return PyErr_SetString(PyExc_TypeError, "is_pinned: expected a tensor"), nullptr;
  Storage* storage = as_tensor(tensor)->storage;
  return PyBool_FromLong(storage && storage->release == release_pinned);
}

PyObject* py_stats(PyObject*, PyObject* reset) {
  std::lock_guard<std::mutex> guard(lock);
  if (PyObject_IsTrue(reset)) {
    stats.peak_allocated = stats.allocated;
    stats.peak_held = stats.held;
  }
  return Py_BuildValue("{s:n,s:n,s:n,s:n,s:n,s:n,s:n}", "allocated", stats.allocated, "peak_allocated",
                       stats.peak_allocated, "held", stats.held, "peak_held", stats.peak_held, "allocations",
                       stats.allocations, "frees", stats.frees, "segments", stats.segments);
}

// cuda_pinned_settings(registers, threads, most_rounded, most_cached)
PyObject* py_settings(PyObject*, PyObject* args) {
  int registers, threads;
  unsigned long long most_rounded, most_cached;
  if (!PyArg_ParseTuple(args, "piKK", &registers, &threads, &most_rounded, &most_cached)) return nullptr;
  std::lock_guard<std::mutex> guard(lock);
  settings = {registers != 0, threads, most_rounded, most_cached};
  Py_RETURN_NONE;
}

PyObject* py_empty(PyObject*, PyObject*) {
  std::lock_guard<std::mutex> guard(lock);
  collect();
  if (host_free) free_idle();
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"cuda_pinned", guarded<py_pinned>, METH_O, "cuda_pinned(nbytes): a tensor of bytes in pinned host memory"},
    {"is_pinned", guarded<py_is_pinned>, METH_O, "whether a tensor's memory is pinned"},
    {"cuda_pinned_stats", guarded<py_stats>, METH_O, "cuda_pinned_stats(reset_peak): what is pinned"},
    {"cuda_pinned_settings", guarded<py_settings>, METH_VARARGS,
     "cuda_pinned_settings(registers, threads, most_rounded, most_cached): how host memory is pinned and kept"},
    {"cuda_empty_pinned", guarded<py_empty>, METH_NOARGS, "unpin memory that nobody uses"},
    {}};

}  // namespace

int init_cuda_host(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace rl

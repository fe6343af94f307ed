// Other ways to memory on a CUDA device than a call for each segment: address space that is filled page by page (the
// allocator's expandable segments), and blocks for one tensor each, in a stream's order or at once.
#include "boundary.h"
#include "cuda/device.h"

namespace rl {

namespace {

using namespace cuda;

// As the driver's interface lays them out.
struct Location { int type, id; };
struct Properties { int type, handles; Location where; void* metadata; unsigned char flags[8]; };
struct Access { Location where; int flags; };
constexpr int kPinned = 1, kOfDevice = 1, kReadAndWrite = 3;

struct Driver {
  int (*reserve)(uint64_t*, size_t, size_t, uint64_t, unsigned long long);
  int (*create)(uint64_t*, size_t, const Properties*, unsigned long long);
  int (*map)(uint64_t, size_t, size_t, uint64_t, unsigned long long);
  int (*release)(uint64_t);
  int (*allow)(uint64_t, size_t, const Access*, size_t);
  int (*unmap)(uint64_t, size_t);
  int (*take)(uint64_t*, size_t);
  int (*give)(uint64_t);
  int (*take_queued)(uint64_t*, size_t, Handle);
  int (*give_queued)(uint64_t, Handle);
} driver;

template <typename Function>
bool find(Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(find_function(name));
  return function != nullptr;
}

uint64_t place(const void* address) { return reinterpret_cast<uint64_t>(address); }

int reserve_space(int unit, size_t nbytes, void** address) {
  if (int status = make_current(unit)) return status;
  uint64_t at = 0;
  int status = status_of("reserve address space", driver.reserve(&at, nbytes, 0, 0, 0));
  *address = reinterpret_cast<void*>(at);
  return status;
}

int clear_space(int unit, void* address, size_t nbytes) {
  if (int status = make_current(unit)) return status;
  return status_of("unmap memory", driver.unmap(place(address), nbytes));
}

int fill_page(int unit, uint64_t at, size_t page) {
  Properties wanted{kPinned, 0, {kOfDevice, unit}, nullptr, {}};
  uint64_t memory = 0;
  if (int status = status_of("allocate", driver.create(&memory, page, &wanted, 0))) return status;
  int status = status_of("map memory", driver.map(at, page, 0, memory, 0));
  driver.release(memory);   // what is mapped stays until it is unmapped
  return status;
}

int fill_space(int unit, void* address, size_t nbytes, size_t page) {
  if (int status = make_current(unit)) return status;
  int status = RUSHLIGHT_OK;
  size_t filled = 0;
  while (!status && filled < nbytes) {
    status = fill_page(unit, place(address) + filled, page);
    if (!status) filled += page;
  }
  Access access{{kOfDevice, unit}, kReadAndWrite};
  if (!status) status = status_of("map memory", driver.allow(place(address), nbytes, &access, 1));
  if (status && filled) driver.unmap(place(address), filled);
  return status;
}

// --- blocks for one tensor each
// ---------------------------------------------------------------------------------------------------------------------

void* take_at_once(size_t nbytes, int unit, void*) {
  uint64_t at = 0;
  bool ok = !make_current(unit) && !status_of("allocate", driver.take(&at, nbytes));
  return ok ? reinterpret_cast<void*>(at) : nullptr;
}

void give_at_once(void* address, size_t, int unit, void*) {
  if (!make_current(unit)) driver.give(place(address));
}

void* take_in_order(size_t nbytes, int unit, void* stream) {
  uint64_t at = 0;
  bool ok = !make_current(unit) && !status_of("allocate", driver.take_queued(&at, nbytes, stream));
  return ok ? reinterpret_cast<void*>(at) : nullptr;
}

void give_in_order(void* address, size_t, int unit, void* stream) {
  if (!make_current(unit)) driver.give_queued(place(address), stream);
}

// cuda_memory_source(in_order): the addresses of two functions for `set_memory_source`.
PyObject* py_memory_source(PyObject*, PyObject* in_order) {
  int truth = PyObject_IsTrue(in_order);
  if (truth < 0) return nullptr;
  bool found = truth ? find(driver.take_queued, "cuMemAllocAsync") && find(driver.give_queued, "cuMemFreeAsync")
                     : find(driver.take, "cuMemAlloc_v2") && find(driver.give, "cuMemFree_v2");
  if (!found) return PyErr_SetString(PyExc_RuntimeError, "cuda: the driver is not open, or too old for this"), nullptr;
  auto* take = truth ? take_in_order : take_at_once;
  auto* give = truth ? give_in_order : give_at_once;
  return Py_BuildValue("KK", static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(take)),
                       static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(give)));
}

// cuda_expands(): whether segments can expand here.
PyObject* py_expands(PyObject*, PyObject*) { return PyBool_FromLong(address_space.table != nullptr); }

// cuda_ask_first(wanted): whether the driver is asked for free memory before segments are taken from it.
PyObject* py_ask_first(PyObject*, PyObject* wanted) {
  int truth = PyObject_IsTrue(wanted);
  if (truth < 0) return nullptr;
  asks_first = truth;
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"cuda_memory_source", guarded<py_memory_source>, METH_O,
     "cuda_memory_source(in_order): functions that give each tensor its own memory, in its stream's order or at once"},
    {"cuda_ask_first", guarded<py_ask_first>, METH_O,
     "cuda_ask_first(wanted): whether segments larger than what is free are not asked for"},
    {"cuda_expands", guarded<py_expands>, METH_NOARGS, "whether the driver has address space that can be filled later"},
    {}};

}  // namespace

void cuda::find_address_space(const RushlightDevice* table) {
  bool all = find(driver.reserve, "cuMemAddressReserve") && find(driver.create, "cuMemCreate") &&
             find(driver.map, "cuMemMap") && find(driver.release, "cuMemRelease") &&
             find(driver.allow, "cuMemSetAccess") && find(driver.unmap, "cuMemUnmap");
  if (all) address_space = {table, reserve_space, fill_space, clear_space};
}

int init_cuda_segments(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace rl

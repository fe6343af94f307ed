// Bytes: reference-counted storage.
// Entry points may be called without the interpreter lock unless they say otherwise.
#pragma once
#include <atomic>

#include "arena.h"
#include "types.h"

namespace rl {

struct Storage {
  std::atomic<int64_t> refs{1};
  char* data = nullptr;
  size_t nbytes = 0;
  Device device;
  bool resizable = true;
  bool is_hollow = false;                // `nbytes` were promised, but there are none: of a wrapper subclass
  void (*release)(Storage*) = nullptr;   // returns `data` to whoever lent it
  void* context = nullptr;               // for `release` (an exporter's object, a capsule, ...)
  size_t capacity = 0;                   // what the allocator really gave
  int64_t counted = 0;                   // bytes that a recording saw taken
  int64_t lent = 0;                      // of `refs`, those whose owner does not mind if a gradient keeps the memory
  PyObject* face = nullptr;              // the Python object for it, while there is one; not a reference. Lock held.

  void retain() { refs.fetch_add(1, std::memory_order_relaxed); }
  void drop() {
    if (refs.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy();
  }
  void destroy();
};

// Asked first for the memory of a new CPU storage, where it is set: fills in `data`, `release` and what that needs, or
// returns false. Workers of a data loader use it to have batches made where the loader reads them.
extern bool (*allocate_elsewhere)(Storage*, size_t nbytes);

// New storage of `nbytes` on `device`; null with a Python MemoryError/RuntimeError set on failure. Holds the lock.
Storage* storage_new(size_t nbytes, Device device);
// Wraps memory owned elsewhere; `release` is called when the last tensor dies.
Storage* storage_wrap(char* data, size_t nbytes, Device device, void (*release)(Storage*), void* context);
// Grows or shrinks in place, keeping the leading bytes. Holds the lock.
bool storage_resize(Storage* storage, size_t nbytes);

int init_storage(PyObject* module);

}  // namespace rl

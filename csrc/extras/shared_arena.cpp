// Arenas: one memory file mapped once by two processes, in which one of them (the maker) allocates blocks and hands
// them to the other (the taker). Blocks come back when neither side looks at them any more and are used again, so a
// stream of equal batches costs no system calls and no page faults.
//
// The file is as large as the machine's memory but has pages only where something was written. A block is a header of
// 64 bytes and its data. Both sides count references in the header; whoever lets go last pushes the block onto a
// lock-free list whose head is in the file's first page. The maker empties that list before it allocates.
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <cerrno>
#include <map>
#include <mutex>
#include <vector>

#include "core.h"
#include "shared.h"
#include "boundary.h"

namespace rl {

namespace {

constexpr size_t kHeader = 64, kFirstBlock = 4096;
constexpr size_t kTrim = size_t(64) << 20;  // unused pages worth giving back to the system
constexpr int kWindow = 64;                 // allocations after which the use of pages is looked at again

struct Control {
  std::atomic<uint64_t> released;  // offset of the block let go of last; 0 when there is none
  uint64_t highest;                // no page above was touched; the maker's to change
};

struct SharedBlock {
  std::atomic<int64_t> refs;
  uint64_t next;   // in the list of released blocks
  uint64_t total;  // bytes of the whole block, this header included
};

struct SharedArena {
  std::atomic<int64_t> refs{1};
  char* base = nullptr;
  size_t length = 0;
  int fd = -1;
  // The maker's own books.
  std::map<uint64_t, uint64_t> free;  // offset -> bytes; neighbours are merged
  uint64_t top = kFirstBlock;         // no block in use lies above
  uint64_t recent = kFirstBlock;      // the highest top of this window of allocations
  int allocations = 0;
  uint64_t in_use = 0;
  bool has_pinned = false;  // a block is kept from use for a process that was forked

  Control* control() const { return reinterpret_cast<Control*>(base); }
  SharedBlock* block(uint64_t at) const { return reinterpret_cast<SharedBlock*>(base + at); }
  void drop() {
    if (refs.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      munmap(base, length);
      if (fd >= 0) close(fd);
      delete this;
    }
  }

  void release(uint64_t at) {
    if (block(at)->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    uint64_t head = control()->released.load(std::memory_order_relaxed);
    do block(at)->next = head;
    while (!control()->released.compare_exchange_weak(head, at, std::memory_order_release, std::memory_order_relaxed));
  }

  void put_back(uint64_t at, uint64_t total) {
    auto after = free.lower_bound(at);
    if (after != free.end() && after->first == at + total) total += after->second, after = free.erase(after);
    if (after != free.begin()) {
      auto before = std::prev(after);
      if (before->first + before->second == at) {
        before->second += total;
        return;
      }
    }
    free.emplace(at, total);
  }

  void collect() {
    uint64_t at = control()->released.exchange(0, std::memory_order_acquire);
    while (at) {
      uint64_t next = block(at)->next, total = block(at)->total;
      in_use -= total;
      put_back(at, total);
      at = next;
    }
    if (free.empty()) return;
    auto last = std::prev(free.end());
    if (last->first + last->second != top) return;
    top = last->first;  // a free block at the top is no block: the top comes down, its pages stay warm
    free.erase(last);
  }

  // Pages of free blocks above `from` go back to the system.
  void give_pages_back(uint64_t from) {
    uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE)), first = (from + page - 1) / page * page;
    uint64_t end = (control()->highest + page - 1) / page * page;
    if (end > first) madvise(base + first, end - first, MADV_REMOVE);
    control()->highest = first;
  }

  // Gives back pages that no allocation of the last window reached.
  void trim() {
    if (top > recent) recent = top;
    if (++allocations < kWindow) return;
    uint64_t highest = control()->highest;
    if (highest > 2 * recent && highest - recent > kTrim) give_pages_back(recent);
    allocations = 0;
    recent = top;
  }

  // Offset of a new block with one reference, or 0 when the arena is full. Lowest address first: those pages are warm.
  uint64_t allocate(size_t nbytes) {
    if (nbytes > length) return 0;
    uint64_t total = (nbytes + kHeader + 63) / 64 * 64, at = 0;
    collect();
    for (auto it = free.begin(); it != free.end(); ++it)
      if (it->second >= total) {
        at = it->first;
        uint64_t rest = it->second - total;
        free.erase(it);
        if (rest) free.emplace(at + total, rest);
        break;
      }
    if (!at) {
      if (total > length - top) return 0;
      at = top;
      top += total;
      if (top > control()->highest) control()->highest = top;
    }
    trim();
    in_use += total;
    SharedBlock* b = block(at);
    b->total = total;
    b->refs.store(1, std::memory_order_relaxed);
    return at;
  }
};

// One storage's hold on a block. All of them are listed, for processes about to be forked.
struct Lease {
  SharedArena* arena;
  Storage* storage;
  uint64_t generation;
  Lease *before, *after;
};

std::mutex leases_mutex;
Lease* leases = nullptr;
bool forking_worker = false;          // the next fork makes a process that the leases are kept for in another way
std::atomic<uint64_t> generation{0};  // grows with every fork, on both sides

uint64_t block_of(const SharedArena* arena, const Storage* s) {
  return static_cast<uint64_t>(s->data - arena->base) - kHeader;
}

void release_block(Storage* s) {
  auto* lease = static_cast<Lease*>(s->context);
  {
    std::lock_guard<std::mutex> hold(leases_mutex);
    (lease->before ? lease->before->after : leases) = lease->after;
    if (lease->after) lease->after->before = lease->before;
    // A process forked meanwhile may look at the block, and can never say that it is done: the block is not used again.
    // In the forked process itself the count belongs to its parent.
    if (lease->generation == generation.load(std::memory_order_relaxed))
      lease->arena->release(block_of(lease->arena, s));
    else
      lease->arena->has_pinned = true;
  }
  lease->arena->drop();
  delete lease;
}

// Begins the books anew, for a maker forked after the last one ended: all is free but what this process holds. False if
// another process may hold something too, or this one holds so much that the arena had better go when that does.
bool restart(SharedArena* arena) {
  std::lock_guard<std::mutex> hold(leases_mutex);
  if (arena->has_pinned) return false;
  std::map<uint64_t, int64_t> held;
  for (Lease* lease = leases; lease; lease = lease->after)
    if (lease->arena == arena) held[block_of(arena, lease->storage)]++;
  arena->control()->released.store(0, std::memory_order_relaxed);
  arena->free.clear();
  arena->top = kFirstBlock;
  arena->in_use = 0;
  for (auto [at, count] : held) {
    if (at > arena->top) arena->free.emplace(arena->top, at - arena->top);
    arena->block(at)->refs.store(count, std::memory_order_relaxed);
    arena->top = at + arena->block(at)->total;
    arena->in_use += arena->block(at)->total;
  }
  arena->recent = arena->top;
  arena->allocations = 0;
  if (arena->top > kTrim) return false;
  if (arena->control()->highest > kTrim) arena->give_pages_back(kTrim);
  return true;
}

// Makes `s` hold the block at `at`, one of whose references becomes its own.
void hold_block(Storage* s, SharedArena* arena, uint64_t at) {
  auto* lease = new Lease{arena, s, generation.load(std::memory_order_relaxed), nullptr, nullptr};
  arena->refs.fetch_add(1, std::memory_order_relaxed);
  s->data = arena->base + at + kHeader;
  s->release = release_block;
  s->context = lease;
  s->resizable = false;
  std::lock_guard<std::mutex> hold(leases_mutex);
  lease->after = leases;
  if (leases) leases->before = lease;
  leases = lease;
}

PyObject* lend(SharedArena* arena, uint64_t at, size_t nbytes) {
  Storage* s = storage_wrap(nullptr, nbytes, Device{}, nullptr, nullptr);
  hold_block(s, arena, at);
  PyObject* face = storage_object(s);
  s->drop();
  return face;
}

void before_fork() {
  leases_mutex.lock();
}
void after_fork_parent() {
  if (!forking_worker) generation.fetch_add(1, std::memory_order_relaxed);
  leases_mutex.unlock();
}
void after_fork_child() {
  generation.fetch_add(1, std::memory_order_relaxed);
  leases_mutex.unlock();
}

// --- the Python face --------------------------------------------------------------------------------------------

struct ArenaObject {
  PyObject_HEAD SharedArena* arena;
};
PyTypeObject* ArenaType;
SharedArena* of(PyObject* self) {
  return reinterpret_cast<ArenaObject*>(self)->arena;
}

SharedArena* map_arena(int fd, size_t length) {
  void* p = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (p == MAP_FAILED) return nullptr;
  auto* arena = new SharedArena;
  arena->base = static_cast<char*>(p);
  arena->length = length;
  arena->fd = fd;
  return arena;
}

// A limit on address space leaves a smaller arena, never none because of its size.
SharedArena* new_arena() {
  int fd = memfd_create("rushlight-batches", MFD_CLOEXEC);
  if (fd < 0) return nullptr;
  size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE)),
         length = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * page;
  for (; length >= (size_t(1) << 20); length = length / 2 / page * page) {
    if (ftruncate(fd, static_cast<off_t>(length))) continue;
    if (SharedArena* arena = map_arena(fd, length)) return arena;
  }
  int why = errno;
  close(fd);
  errno = why;
  return nullptr;
}

PyObject* arena_new(PyTypeObject* type, PyObject* args, PyObject*) {
  int fd = -1;
  Py_ssize_t length = 0;
  if (!PyArg_ParseTuple(args, "|in", &fd, &length)) return nullptr;
  auto* o = PyObject_New(ArenaObject, type);
  if (!o) return nullptr;
  o->arena = fd < 0 ? new_arena() : map_arena(fd, static_cast<size_t>(length));
  if (o->arena) return reinterpret_cast<PyObject*>(o);
  PyErr_SetFromErrno(PyExc_OSError);
  Py_DECREF(o);
  return nullptr;
}

void arena_dealloc(PyObject* self) {
  if (of(self)) of(self)->drop();
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

// new(nbytes) -> UntypedStorage, or None when the arena is full.
PyObject* arena_allocate(PyObject* self, PyObject* arg) {
  Py_ssize_t nbytes = PyNumber_AsSsize_t(arg, PyExc_OverflowError);
  if (nbytes < 0)
    return PyErr_Occurred()
               ? nullptr
               : (PyErr_SetString(PyExc_ValueError, "SharedArena.new: size must not be negative"), nullptr);
  uint64_t at = of(self)->allocate(static_cast<size_t>(nbytes));
  if (!at) Py_RETURN_NONE;
  return lend(of(self), at, static_cast<size_t>(nbytes));
}

// give(storage) -> offset to send to the other side, which then has a hold of its own; None for a foreign storage.
PyObject* arena_give(PyObject* self, PyObject* arg) {
  if (Py_TYPE(arg) != StorageType)
    return PyErr_SetString(PyExc_TypeError, "SharedArena.give: expected a storage"), nullptr;
  Storage* s = reinterpret_cast<StorageObject*>(arg)->storage;
  if (s->release != release_block || static_cast<Lease*>(s->context)->arena != of(self)) Py_RETURN_NONE;
  uint64_t at = block_of(of(self), s);
  of(self)->block(at)->refs.fetch_add(1, std::memory_order_relaxed);
  return PyLong_FromUnsignedLongLong(at);
}

// take(offset, nbytes) -> UntypedStorage over what the other side gave.
PyObject* arena_take(PyObject* self, PyObject* args) {
  Py_ssize_t at, nbytes;
  if (!PyArg_ParseTuple(args, "nn", &at, &nbytes)) return nullptr;
  SharedArena* a = of(self);
  bool fits = at >= static_cast<Py_ssize_t>(kFirstBlock) && nbytes >= 0 &&
              static_cast<size_t>(at) + kHeader <= a->length &&
              static_cast<size_t>(nbytes) <= a->length - static_cast<size_t>(at) - kHeader;
  if (!fits)
    return PyErr_Format(PyExc_ValueError, "SharedArena.take: no block of %zd bytes at %zd", nbytes, at), nullptr;
  return lend(a, static_cast<uint64_t>(at), static_cast<size_t>(nbytes));
}

SharedArena* preferred = nullptr;  // where new shared storages of this process come from, in a worker of a loader

PyObject* arena_prefer(PyObject* self, PyObject*) {
  of(self)->refs.fetch_add(1, std::memory_order_relaxed);
  if (preferred) preferred->drop();
  preferred = of(self);
  Py_RETURN_NONE;
}

PyObject* arena_restart(PyObject* self, PyObject*) {
  return PyBool_FromLong(restart(of(self)));
}

thread_local SharedArena* redirect = nullptr;  // where `call` has this thread allocate

bool allocate_in_arena(Storage* s, size_t nbytes) {
  uint64_t at = redirect ? redirect->allocate(nbytes) : 0;
  if (at) hold_block(s, redirect, at);
  return at != 0;
}

// call(function, *args): storages that the function makes are in the arena, as far as they fit.
PyObject* arena_call(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  if (count < 1) return PyErr_SetString(PyExc_TypeError, "SharedArena.call: a function is needed"), nullptr;
  use_allocator(allocate_in_arena);
  SharedArena* before = redirect;
  redirect = of(self);
  PyObject* result = PyObject_Vectorcall(args[0], args + 1, static_cast<size_t>(count - 1), nullptr);
  redirect = before;
  return result;
}

// drop(offset): the other side will never take this one.
PyObject* arena_drop(PyObject* self, PyObject* arg) {
  Py_ssize_t at = PyNumber_AsSsize_t(arg, PyExc_OverflowError);
  if (at < 0) return nullptr;
  of(self)->release(static_cast<uint64_t>(at));
  Py_RETURN_NONE;
}

PyObject* arena_in_use(PyObject* self, void*) {
  of(self)->collect();
  return PyLong_FromUnsignedLongLong(of(self)->in_use);
}
PyObject* arena_fd(PyObject* self, void*) {
  return PyLong_FromLong(of(self)->fd);
}
PyObject* arena_length(PyObject* self, void*) {
  return PyLong_FromSize_t(of(self)->length);
}
PyObject* arena_close(PyObject* self, PyObject*) {
  if (of(self)->fd >= 0) close(of(self)->fd);
  of(self)->fd = -1;
  Py_RETURN_NONE;
}

PyMethodDef arena_methods[] = {
    {"new", guarded<arena_allocate>, METH_O, "new(nbytes): a storage in the arena; None when it is full"},
    {"give", guarded<arena_give>, METH_O,
     "give(storage): where the other side finds it; None if it is not in this arena"},
    {"take", guarded<arena_take>, METH_VARARGS, "take(offset, nbytes): the storage the other side gave"},
    {"drop", guarded<arena_drop>, METH_O, "drop(offset): let go of what was given and will not be taken"},
    {"call", guarded_method<arena_call>(), METH_FASTCALL, "call(function, *args): with what it allocates in the arena"},
    {"prefer", guarded<arena_prefer>, METH_NOARGS, "make UntypedStorage._new_shared of this process allocate here"},
    {"restart", guarded<arena_restart>, METH_NOARGS,
     "whether the arena is ready for another process to allocate in, its last one having ended"},
    {"close", guarded<arena_close>, METH_NOARGS, "close the descriptor; mappings stay"},
    {}};
PyGetSetDef arena_getset[] = {
    {"fd", arena_fd, nullptr, "descriptor of the file, -1 once closed", nullptr},
    {"length", arena_length, nullptr, "bytes of address space", nullptr},
    {"in_use", arena_in_use, nullptr, "bytes of blocks that a side holds; for the allocating side", nullptr},
    {}};
PyType_Slot arena_slots[] = {{Py_tp_new, reinterpret_cast<void*>(guarded<arena_new>)},
                             {Py_tp_dealloc, reinterpret_cast<void*>(arena_dealloc)},
                             {Py_tp_methods, arena_methods},
                             {Py_tp_getset, arena_getset},
                             {Py_tp_doc, const_cast<char*>("Memory that one process allocates in and another reads.")},
                             {0, nullptr}};
PyType_Spec arena_spec = {"rushlight._C.SharedArena", sizeof(ArenaObject), 0, Py_TPFLAGS_DEFAULT, arena_slots};

// Storages over blocks of any arena, held alive by the list: what a forked process may come to look at.
PyObject* py_leased(PyObject*, PyObject*) {
  std::vector<Storage*> held;
  {
    std::lock_guard<std::mutex> hold(leases_mutex);
    for (Lease* lease = leases; lease; lease = lease->after) {
      // One that another thread is about to destroy has no references left to add to.
      int64_t refs = lease->storage->refs.load(std::memory_order_relaxed);
      while (refs > 0 && !lease->storage->refs.compare_exchange_weak(refs, refs + 1)) {
      }
      if (refs > 0) held.push_back(lease->storage);
    }
  }
  Ref all(PyList_New(0));
  for (Storage* s : held) {
    Ref face(storage_object(s));
    s->drop();
    if (all && (!face || PyList_Append(all.p, face.p))) all = Ref();
  }
  return all.release();
}

PyObject* py_forking_worker(PyObject*, PyObject* arg) {
  forking_worker = PyObject_IsTrue(arg);
  Py_RETURN_NONE;
}

// Takes effect when the thread that forked ends, so only processes forked by a main thread should ask for it.
PyObject* py_end_with_parent(PyObject*, PyObject* arg) {
  long signal = PyLong_AsLong(arg);
  if (signal == -1 && PyErr_Occurred()) return nullptr;
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, signal, 0, 0, 0);
#endif
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"end_with_parent", guarded<py_end_with_parent>, METH_O,
     "end_with_parent(signal): have the system send it when the parent dies"},
    {"leased_storages", guarded<py_leased>, METH_NOARGS, "storages over arena blocks that this process holds"},
    {"forking_worker", guarded<py_forking_worker>, METH_O,
     "whether forks from now on keep leased_storages() alive while the child runs"},
    {}};

}  // namespace

bool is_shared_block(const Storage* s) {
  return s->release == release_block;
}

PyObject* shared_block_new(size_t nbytes) {
  uint64_t at = preferred ? preferred->allocate(nbytes) : 0;
  return at ? lend(preferred, at, nbytes) : nullptr;
}

void shared_block_moved(Storage* to) {
  std::lock_guard<std::mutex> hold(leases_mutex);
  static_cast<Lease*>(to->context)->storage = to;
}

int init_shared_arena(PyObject* module) {
  pthread_atfork(before_fork, after_fork_parent, after_fork_child);
  ArenaType = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&arena_spec));
  if (!ArenaType || PyModule_AddObjectRef(module, "SharedArena", reinterpret_cast<PyObject*>(ArenaType))) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace rl

// The life of storages. The bytes of those on the CPU come from arena.cpp.
#include "storage.h"
#include "device.h"
#include "profile.h"

#include <pthread.h>

#include <cstdlib>
#include <new>

namespace rl {

bool (*allocate_elsewhere)(Storage*, size_t) = nullptr;

namespace {

// CPU storages themselves come from a free list too: one is made per op.
struct StorageList {
  SpinLock lock;
  Storage* free_list[256];
  int count = 0;
} spare;

Storage* storage_object_new() {
  spare.lock.lock();
  Storage* s = spare.count ? spare.free_list[--spare.count] : nullptr;
  spare.lock.unlock();
  void* place = s ? s : std::malloc(sizeof(Storage));
  if (!place) return static_cast<Storage*>(nullptr);
  return new (place) Storage;
}

void storage_object_free(Storage* s) {
  s->~Storage();
  spare.lock.lock();
  bool kept = spare.count < 256;
  if (kept) spare.free_list[spare.count++] = s;
  spare.lock.unlock();
  if (!kept) std::free(s);
}

// A child forked while another thread allocates must not inherit a lock that nobody will open.
void before_fork() {
  arena_before_fork();
  device_memory_before_fork();
  spare.lock.lock();
}
void after_fork() {
  spare.lock.unlock();
  device_memory_after_fork();
  arena_after_fork();
}

// Bytes of CPU memory that recordings saw taken and not given back yet.
std::atomic<int64_t> counted_bytes{0};

void count_taken(Storage* s) {
  s->counted = static_cast<int64_t>(s->nbytes);
  profile_memory(s->data, s->counted, counted_bytes.fetch_add(s->counted) + s->counted, s->device);
}

void count_given(Storage* s) {
  int64_t total = counted_bytes.fetch_sub(s->counted) - s->counted;
  if (is_recording()) profile_memory(s->data, -s->counted, total, s->device);
}

void release_cpu(Storage* s) {
  if (__builtin_expect(s->counted != 0, 0)) count_given(s);
  if (s->data) arena_give({s->data, s->capacity, static_cast<Block*>(s->context)});
}

bool allocate(Storage* s, size_t nbytes) {
  s->nbytes = nbytes;
  s->release = nullptr;
  if (kDevices[s->device.type].is_absent && !device_appears(s->device.type)) return false;
  if (nbytes == 0 || !kDevices[s->device.type].has_data) return true;
  if (nbytes > static_cast<size_t>(PY_SSIZE_T_MAX)) {
    PyErr_Format(PyExc_RuntimeError, "cannot allocate %zu bytes: more than the address space holds", nbytes);
    return false;
  }
  if (is_plugged(s->device)) return device_take(s, nbytes);
  if (allocate_elsewhere && allocate_elsewhere(s, nbytes)) return true;
  Lent lent = arena_take(nbytes);
  s->data = lent.data, s->capacity = lent.capacity, s->context = lent.block;
  if (!s->data) {
    PyErr_Format(PyExc_RuntimeError,
                 "not enough memory: you tried to allocate %zu bytes on cpu. Use smaller sizes or free other tensors.",
                 nbytes);
    return false;
  }
  s->release = release_cpu;
  if (is_recording()) count_taken(s);
  return true;
}

}  // namespace

void Storage::destroy() {
  if (release) release(this);
  storage_object_free(this);
}

Storage* storage_new(size_t nbytes, Device device) {
  Storage* s = storage_object_new();
  if (!s) return PyErr_NoMemory(), nullptr;
  s->device = device;
  if (allocate(s, nbytes)) return s;
  s->data = nullptr;
  s->release = nullptr;
  s->drop();
  return nullptr;
}

Storage* storage_wrap(char* data, size_t nbytes, Device device, void (*release)(Storage*), void* context) {
  Storage* s = storage_object_new();
  s->data = data;
  s->nbytes = nbytes;
  s->device = device;
  s->release = release;
  s->context = context;
  s->resizable = false;
  return s;
}

bool storage_resize(Storage* s, size_t nbytes) {
  if (!s->resizable) {
    PyErr_SetString(PyExc_RuntimeError, "resize_: the storage is not resizable: its memory belongs to another object");
    return false;
  }
  if (!kDevices[s->device.type].has_data) {
    s->nbytes = nbytes;
    return true;
  }
  if (nbytes && nbytes <= s->nbytes) {   // memory stays: tensors that still look past the new end must not fault
    s->nbytes = nbytes;
    return true;
  }
  Storage old;
  old.data = s->data, old.nbytes = s->nbytes, old.capacity = s->capacity, old.release = s->release,
  old.device = s->device, old.context = s->context, old.counted = s->counted;
  s->data = nullptr;
  s->counted = 0;
  s->capacity = 0;
  if (!allocate(s, nbytes)) {
    s->data = old.data, s->nbytes = old.nbytes, s->capacity = old.capacity, s->release = old.release,
    s->context = old.context, s->counted = old.counted;
    return false;
  }
  size_t kept = old.nbytes < nbytes ? old.nbytes : nbytes;
  if (old.data && s->data && is_plugged(s->device)) {
    Stream* stream = current_stream(s->device);
    if (!stream || !stream_copy(stream, RUSHLIGHT_WITHIN, s->data, old.data, kept)) {
      s->release(s);
      s->data = old.data, s->nbytes = old.nbytes, s->capacity = old.capacity, s->release = old.release,
      s->context = old.context, s->counted = old.counted;
      return false;
    }
  } else if (old.data && s->data) {
    memcpy(s->data, old.data, kept);
  }
  if (old.release) old.release(&old);
  return true;
}

int init_storage(PyObject*) { return pthread_atfork(before_fork, after_fork, after_fork) ? -1 : 0; }

}  // namespace rl

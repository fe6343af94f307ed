// The caching allocator of plugged-in devices. Memory is got from a device in segments, which are cut into blocks; a
// freed block stays with the stream it was made on and serves that stream again without waiting, since its work is done
// in order. Memory that another stream uses as well (`device_used_on`) waits for that stream too.
//
// No function of a device is called under the lock: one in Python may let another thread run, which would wait for it.
#include <set>

#include "device.h"
#include "storage.h"

namespace rl {

namespace {

constexpr size_t kSmall = size_t(1) << 20;      // requests up to here share small segments
constexpr size_t kMiddle = size_t(10) << 20;    // and up to here larger ones; beyond, a segment each
constexpr size_t kSmallSegment = size_t(2) << 20, kMiddleSegment = size_t(20) << 20;

SpinLock lock;

struct Guard {
  Guard() { lock.lock(); }
  ~Guard() { lock.unlock(); }
};

size_t rounded(size_t n, size_t step) { return (n + step - 1) / step * step; }
Stream* stream_of(Block* b) { return static_cast<Stream*>(b->owner); }

// Who else uses a block, and after it was freed the marks to wait for.
struct Others {
  std::vector<Stream*> streams;
  std::vector<void*> events;   // of streams[i]
};
Others* others_of(Block* b) { return static_cast<Others*>(b->extra); }

// --- with the lock held
// -------------------------------------------------------------------------------------------------

Block* lend(Block* b) {
  UnitStats& stats = stream_of(b)->unit->stats;
  stats.allocated += b->size;
  stats.total_allocated += b->size;
  stats.allocations++;
  if (stats.allocated > stats.peak_allocated) stats.peak_allocated = stats.allocated;
  return b;
}

BlockPool& pool_of(Stream* stream, size_t size) { return stream->pools[size > kSmall]; }

// A segment serves small requests or large ones, which its blocks remember: `warm` is 0 in the small ones.
void put_back(Block* b) { stream_of(b)->pools[b->warm != 0].put(b); }

void empty_bins(Stream* stream) {
  for (auto& bin : stream->bins) {
    for (Block* b : bin) put_back(b);
    bin.clear();
  }
}

Block* take_cached(Stream* stream, size_t want) {
  if (want <= kBinned) {
    auto& bin = stream->bins[want / kDeviceAlign];
    if (!bin.empty()) {
      Block* b = bin.back();
      bin.pop_back();
      return lend(b);
    }
  }
  if (Block* b = pool_of(stream, want).take(want)) return lend(b);
  return nullptr;
}

void give_back(Block* b) {
  Stream* stream = stream_of(b);
  if (b->size <= kBinned && !b->warm) stream->bins[b->size / kDeviceAlign].push_back(b);
  else put_back(b);
}

// --- without the lock
// ---------------------------------------------------------------------------------------------------

// Blocks whose other users have got past them become free; with `wait`, all do.
bool collect_waiting(Stream* stream, bool wait) {
  std::vector<Block*> looked_at;
  {
    Guard guard;
    looked_at.swap(stream->waiting);
  }
  bool ok = true;
  for (Block* b : looked_at) {
    Others* others = others_of(b);
    while (ok && !others->events.empty()) {
      Unit* unit = others->streams.back()->unit;
      const RushlightDevice* table = unit->table;
      int reached = 1;
      void* event = others->events.back();
      int status = wait ? table->finish(table->context, unit->device.index, event)
                        : table->query(table->context, unit->device.index, event, &reached);
      if (!(ok = device_ok(unit, status, "memory")) || !reached) break;
      table->forget(table->context, unit->device.index, event);
      others->events.pop_back();
      others->streams.pop_back();
    }
    Guard guard;
    if (!others->events.empty()) {
      stream->waiting.push_back(b);
      continue;
    }
    delete others;
    b->extra = nullptr;
    give_back(b);
  }
  return ok;
}

std::vector<MemoryPool*> memory_pools;     // by number, from 1 on
thread_local std::vector<MemoryPool*> chosen_pools;   // those of `with use_mem_pool`, the innermost last
thread_local std::vector<Unit*> chosen_units;

MemoryPool* pool_of_part(Stream* part) { return part->pool ? memory_pools[part->pool - 1] : nullptr; }

int segment_take(Stream* stream, size_t size, void** address) {
  Unit* unit = stream->unit;
  MemoryPool* pool = pool_of_part(stream);
  if (!pool || !pool->take) return unit->table->allocate(unit->table->context, unit->device.index, size, address);
  *address = pool->take(size, unit->device.index, stream->handle);
  return *address ? RUSHLIGHT_OK : RUSHLIGHT_OUT_OF_MEMORY;
}

bool segment_give(Stream* stream, void* address, size_t size) {
  Unit* unit = stream->unit;
  MemoryPool* pool = pool_of_part(stream);
  if (pool && pool->give) return pool->give(address, size, unit->device.index, stream->handle), true;
  return device_ok(unit, unit->table->free(unit->table->context, unit->device.index, address, size), "free");
}

bool give_up_segments(Stream* stream) {
  if (stream->is_kept) return true;
  std::vector<Block*> whole;
  {
    Guard guard;
    empty_bins(stream);
    for (BlockPool& pool : stream->pools) {
      for (Block* b : pool)
        if (!b->before && !b->after) whole.push_back(b);
      for (Block* b : whole)
        if (b->is_free) pool.remove(b);
    }
  }
  Unit* unit = stream->unit;
  bool ok = true;
  for (Block* b : whole) {
    ok &= segment_give(stream, b->data, b->size);
    Guard guard;
    std::erase(unit->segments, b);
    unit->stats.reserved -= b->size;
    unit->stats.segments--;
    delete b;
  }
  return ok;
}

Block* new_segment(Stream* stream, size_t size, size_t want, int* status) {
  Unit* unit = stream->unit;
  void* address = nullptr;
  if (size > unit->limit || unit->stats.reserved > unit->limit - size)
    return *status = RUSHLIGHT_OUT_OF_MEMORY, nullptr;
  *status = segment_take(stream, size, &address);
  if (*status) return nullptr;
  bool large = want > kSmall;
  Guard guard;
  UnitStats& stats = unit->stats;
  stats.reserved += size;
  stats.segments++;
  if (stats.reserved > stats.peak_reserved) stats.peak_reserved = stats.reserved;
  auto* whole = new Block{static_cast<char*>(address), size, large ? size : 0, nullptr, nullptr, true, stream};
  unit->segments.push_back(whole);
  stream->pools[large].put(whole);
  return lend(stream->pools[large].take(want));
}

PyObject* history = nullptr;       // history(action, index, address, size): what happens to blocks, while recorded

// Somebody who watches is told; an error of theirs is printed and costs nothing else.
void tell_history(const char* action, Unit* unit, const Block* b) {
  PyGILState_STATE gil = PyGILState_Ensure();
  if (history) {
    Ref told(PyObject_CallFunction(history, "siKK", action, unit->device.index,
                                   static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(b->data)),
                                   static_cast<unsigned long long>(b->size)));
    if (!told) PyErr_WriteUnraisable(history);
  }
  PyGILState_Release(gil);
}

PyObject* full_report = nullptr;   // full_report(type, index): who holds memory, for the message

// A device's complaint that it is full is kept as the cause of ours.
void raise_full(Unit* unit, size_t nbytes) {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  const UnitStats& stats = unit->stats;
  const char* why = !value && unit->table->error ? unit->table->error(unit->table->context) : nullptr;
  Ref holders(full_report ? PyObject_CallFunction(full_report, "si", device_type_name(unit->device.type),
                                                  unit->device.index)
                          : PyUnicode_FromString(""));
  if (!holders || !PyUnicode_Check(holders.p)) return;
  Ref limited(unit->limit != SIZE_MAX ? PyUnicode_FromFormat(", of %zu that this process may hold", unit->limit)
                                      : PyUnicode_FromString(""));
  if (!limited) return;
  Ref said(value ? PyUnicode_FromFormat(" (it says: %S)", value)
           : why && *why ? PyUnicode_FromFormat(" (it says: %s)", why)
                 : PyUnicode_FromString(""));
  if (!said) return;
  PyErr_Format(OutOfMemoryError,
               "device '%s:%d' is out of memory: %zu bytes were asked for; tensors use %zu, and %zu are held from the "
               "device in all%U%U.%U Use smaller sizes, or free other tensors.",
               device_type_name(unit->device.type), unit->device.index, nbytes, stats.allocated, stats.reserved,
               limited.p, said.p, holders.p);
  PyObject *our_type, *ours, *our_trace;
  PyErr_Fetch(&our_type, &ours, &our_trace);
  PyErr_NormalizeException(&our_type, &ours, &our_trace);
  if (value && ours) PyException_SetCause(ours, Py_NewRef(value));
  PyErr_Restore(our_type, ours, our_trace);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
}

Block* take(Stream* stream, size_t nbytes) {
  size_t want = rounded(nbytes, kDeviceAlign);
  if (!stream->waiting.empty() && !collect_waiting(stream, false)) return nullptr;
  {
    Guard guard;
    if (Block* b = take_cached(stream, want)) return b;
    if (want <= kSmall) {
      empty_bins(stream);   // joined, they may do
      if (Block* b = take_cached(stream, want)) return b;
    }
  }
  Unit* unit = stream->unit;
  size_t generous = want <= kSmall ? kSmallSegment : want <= kMiddle ? kMiddleSegment : rounded(want, kSmallSegment);
  int status = 0;
  for (size_t size : {generous, want}) {
    if (Block* b = new_segment(stream, size, want, &status)) return b;
    if (status != RUSHLIGHT_OUT_OF_MEMORY) return device_ok(unit, status, "allocate"), nullptr;
    PyErr_Clear();
  }
  unit->stats.retries++;
  if (!device_empty_cache(unit)) return nullptr;
  if (Block* b = new_segment(stream, want, want, &status)) return b;
  if (status != RUSHLIGHT_OUT_OF_MEMORY) return device_ok(unit, status, "allocate"), nullptr;
  unit->stats.failures++;
  raise_full(unit, nbytes);
  return nullptr;
}

void release_block(Storage* s) {
  auto* b = static_cast<Block*>(s->context);
  Stream* stream = stream_of(b);
  Unit* unit = stream->unit;
  Others* others = others_of(b);
  if (history) tell_history("free_completed", unit, b);
  if (others) {
    PyGILState_STATE gil = PyGILState_Ensure();
    const RushlightDevice* table = unit->table;
    for (size_t i = 0; i < others->streams.size();) {
      void* event = nullptr;
      if (device_ok(unit, table->record(table->context, unit->device.index, others->streams[i]->handle, &event),
                    "memory")) {
        others->events.push_back(event);
        i++;
      } else {
        PyErr_WriteUnraisable(nullptr);
        others->streams.erase(others->streams.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    PyGILState_Release(gil);
  }
  Guard guard;
  unit->stats.allocated -= b->size;
  unit->stats.total_freed += b->size;
  unit->stats.frees++;
  if (others) stream->waiting.push_back(b);
  else give_back(b);
}

}  // namespace

bool device_take(Storage* s, size_t nbytes) {
  Stream* stream = current_stream(s->device);
  if (stream && !chosen_pools.empty()) stream = pool_part(stream);
  Block* b = stream ? take(stream, nbytes) : nullptr;
  if (!b) return false;
  if (history) tell_history("alloc", stream->unit, b);
  s->data = b->data;
  s->capacity = b->size;
  s->context = b;
  s->release = release_block;
  return true;
}

Stream* pool_part(Stream* stream) {
  MemoryPool* pool = nullptr;
  for (size_t i = 0; i < chosen_pools.size(); i++)
    if (chosen_units[i] == stream->unit) pool = chosen_pools[i];
  if (!pool) return stream;
  Guard guard;
  for (Stream* part : pool->parts)
    if (part->unit == stream->unit && part->number == stream->number) return part;
  auto* part = new Stream{stream->unit, stream->handle, stream->number};
  part->pool = pool->number;
  part->is_kept = true;
  pool->parts.push_back(part);
  return part;
}

bool device_empty_cache(Unit* unit) {
  // Memory goes back only when nothing queued can still touch it.
  if (!unit_synchronize(unit)) return false;
  for (size_t i = 0; i < unit->streams.size(); i++)
    if (!collect_waiting(unit->streams[i], true) || !give_up_segments(unit->streams[i])) return false;
  for (MemoryPool* pool : memory_pools)
    for (Stream* part : pool->parts)
      if (part->unit == unit && (!collect_waiting(part, true) || !give_up_segments(part))) return false;
  return true;
}

void device_used_on(Storage* s, Stream* stream) {
  if (s->release != release_block || !stream->unit->table->record) return;
  auto* b = static_cast<Block*>(s->context);
  if (stream_of(b)->unit == stream->unit && stream_of(b)->number == stream->number) return;
  Others* others = others_of(b);
  if (!others) b->extra = others = new Others;
  for (Stream* known : others->streams)
    if (known == stream) return;
  others->streams.push_back(stream);
}

PyObject* device_snapshot(Unit* unit) {
  Ref found(PyList_New(0));
  if (!found) return nullptr;
  Guard guard;
  std::set<const Block*> binned;
  for (Stream* stream : unit->streams)
    for (auto& bin : stream->bins) binned.insert(bin.begin(), bin.end());
  for (MemoryPool* pool : memory_pools)
    for (Stream* part : pool->parts)
      for (auto& bin : part->bins) binned.insert(bin.begin(), bin.end());
  for (Block* first : unit->segments) {
    Ref blocks(PyList_New(0));
    size_t size = 0;
    for (Block* b = first; b; b = b->after) {
      size += b->size;
      const char* state = b->is_free || binned.count(b) ? "inactive"
                          : others_of(b) && !others_of(b)->events.empty() ? "active_pending_free"
                                                                          : "active_allocated";
      Ref one(Py_BuildValue("(NNs)", PyLong_FromVoidPtr(b->data), PyLong_FromSize_t(b->size), state));
      if (!blocks || !one || PyList_Append(blocks.p, one.p)) return nullptr;
    }
    Stream* stream = stream_of(first);
    Ref one(Py_BuildValue("(NNiiOi)", PyLong_FromVoidPtr(first->data), PyLong_FromSize_t(size), stream->number,
                          first->warm != 0, blocks.p, stream->pool));
    if (!one || PyList_Append(found.p, one.p)) return nullptr;
  }
  return Py_NewRef(found.p);
}

// new_memory_pool(take=0, give=0): the number of a pool, whose memory two functions may give and take back.
PyObject* py_new_memory_pool(PyObject*, PyObject* args) {
  unsigned long long take = 0, give = 0;
  if (!PyArg_ParseTuple(args, "|KK", &take, &give)) return nullptr;
  auto* pool = new MemoryPool{static_cast<int>(memory_pools.size()) + 1};
  pool->take = reinterpret_cast<decltype(pool->take)>(take);
  pool->give = reinterpret_cast<decltype(pool->give)>(give);
  memory_pools.push_back(pool);
  return PyLong_FromLong(pool->number);
}

// choose_memory_pool(number, device): where this thread's memory on a unit comes from; 0: as before the last choice.
PyObject* py_choose_memory_pool(PyObject*, PyObject* args) {
  int number;
  PyObject* device;
  Device place;
  if (!PyArg_ParseTuple(args, "iO", &number, &device) || !parse_device(device, &place)) return nullptr;
  Unit* unit = find_unit(place);
  if (!unit) return nullptr;
  if (number < 0 || number > static_cast<int>(memory_pools.size()) || (!number && chosen_pools.empty()))
    return PyErr_Format(PyExc_RuntimeError, "there is no memory pool %d", number), nullptr;
  if (number) {
    chosen_pools.push_back(memory_pools[number - 1]);
    chosen_units.push_back(unit);
  } else {
    chosen_pools.pop_back();
    chosen_units.pop_back();
  }
  Py_RETURN_NONE;
}

// release_memory_pool(number): its memory goes back, now or as tensors let go of it and caches are emptied.
PyObject* py_release_memory_pool(PyObject*, PyObject* given) {
  long number = PyLong_AsLong(given);
  if (PyErr_Occurred()) return nullptr;
  if (number < 1 || number > static_cast<long>(memory_pools.size()))
    return PyErr_Format(PyExc_RuntimeError, "there is no memory pool %ld", number), nullptr;
  MemoryPool* pool = memory_pools[number - 1];
  for (Stream* part : pool->parts) {
    part->is_kept = false;
    if (!unit_synchronize(part->unit) || !collect_waiting(part, true) || !give_up_segments(part)) return nullptr;
  }
  Py_RETURN_NONE;
}

// set_full_report(callable): what the message of a full device adds.
PyObject* py_set_full_report(PyObject*, PyObject* callable) {
  Py_XSETREF(full_report, Py_NewRef(callable));
  Py_RETURN_NONE;
}

// set_memory_history(callable or None)
PyObject* py_set_memory_history(PyObject*, PyObject* callable) {
  PyObject* before = history;
  history = callable == Py_None ? nullptr : Py_NewRef(callable);
  Py_XDECREF(before);
  Py_RETURN_NONE;
}

void device_memory_before_fork() { lock.lock(); }
void device_memory_after_fork() { lock.unlock(); }

}  // namespace rl

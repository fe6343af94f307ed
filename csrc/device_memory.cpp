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
  const RushlightDevice* table = unit->table;
  bool ok = true;
  for (Block* b : whole) {
    ok &= device_ok(unit, table->free(table->context, unit->device.index, b->data, b->size), "free");
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
  *status = unit->table->allocate(unit->table->context, unit->device.index, size, &address);
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
  Block* b = stream ? take(stream, nbytes) : nullptr;
  if (!b) return false;
  if (history) tell_history("alloc", stream->unit, b);
  s->data = b->data;
  s->capacity = b->size;
  s->context = b;
  s->release = release_block;
  return true;
}

bool device_empty_cache(Unit* unit) {
  // Memory goes back only when nothing queued can still touch it.
  if (!unit_synchronize(unit)) return false;
  for (size_t i = 0; i < unit->streams.size(); i++)
    if (!collect_waiting(unit->streams[i], true) || !give_up_segments(unit->streams[i])) return false;
  return true;
}

void device_used_on(Storage* s, Stream* stream) {
  if (s->release != release_block || !stream->unit->table->record) return;
  auto* b = static_cast<Block*>(s->context);
  if (stream_of(b) == stream) return;
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
    Ref one(Py_BuildValue("(NNiiO)", PyLong_FromVoidPtr(first->data), PyLong_FromSize_t(size), stream->number,
                          first->warm != 0, blocks.p));
    if (!one || PyList_Append(found.p, one.p)) return nullptr;
  }
  return Py_NewRef(found.p);
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

// The caching allocator of plugged-in devices. Memory is got from a device in segments, which are cut into blocks; a
// freed block stays with the stream it was made on and serves that stream again without waiting, since its work is done
// in order. Memory that another stream uses as well (`device_used_on`) waits for that stream too.
//
// No function of a device is called under the lock: one in Python may let another thread run, which would wait for it.
#include <algorithm>
#include <bit>
#include <set>
#include <string>

#include "boundary.h"
#include "device_arena.h"
#include "profile.h"
#include "storage.h"

namespace rl {

namespace {

constexpr size_t kSmall = size_t(1) << 20;      // requests up to here share small segments
constexpr size_t kMiddle = size_t(10) << 20;    // and up to here larger ones; beyond, a segment each
constexpr size_t kSmallSegment = size_t(2) << 20;

MemorySettings settings;
MemorySource source;             // of all memory, where somebody gave functions for it
bool source_gives_segments = false;
uint64_t clock_of_frees = 0;
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
  bool large = b->warm != 0;
  stats.add(kAllocation, large, 1);
  stats.add(kAllocatedBytes, large, b->size);
  stats.add(kActive, large, 1);
  stats.add(kActiveBytes, large, b->size);
  return b;
}

void note_request(Block* b, size_t nbytes) {
  b->asked = nbytes;
  stream_of(b)->unit->stats.add(kRequestedBytes, b->warm != 0, nbytes);
}

// The tensor is gone; nothing that is queued uses the memory any more.
void count_free(Block* b) {
  UnitStats& stats = stream_of(b)->unit->stats;
  bool large = b->warm != 0;
  stats.drop(kAllocation, large, 1);
  stats.drop(kAllocatedBytes, large, b->size);
  stats.drop(kRequestedBytes, large, b->asked);
  b->asked = 0;
}

void count_idle(Block* b) {
  UnitStats& stats = stream_of(b)->unit->stats;
  stats.drop(kActive, b->warm != 0, 1);
  stats.drop(kActiveBytes, b->warm != 0, b->size);
}

BlockPool& pool_of(Stream* stream, size_t size) { return stream->pools[size > kSmall]; }

// A segment serves small requests or large ones, which its blocks remember: `warm` is 0 in the small ones.
void put_back(Block* b) { stream_of(b)->pools[b->warm != 0].put(b)->freed_at = ++clock_of_frees; }

std::vector<MemoryPool*> memory_pools;     // by number, from 1 on
MemoryPool* pool_of_part(Stream* part) { return part->pool ? memory_pools[part->pool - 1] : nullptr; }

// A free block for a request, as the settings allow it: large ones are not cut for small requests.
Block* take_free(Stream* stream, BlockPool& pool, size_t want) {
  MemoryPool* own = pool_of_part(stream);
  bool whole = (own && own->is_whole) || want >= settings.most_cut;
  size_t most = want < settings.most_cut ? settings.most_cut - (settings.most_cut != SIZE_MAX)
                                         : want + settings.most_spare;
  return pool.take(want, most, whole);
}

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
  Block* b = take_free(stream, pool_of(stream, want), want);
  return b ? lend(b) : nullptr;
}

void give_back(Block* b) {
  Stream* stream = stream_of(b);
  if (b->size <= kBinned && !b->warm) stream->bins[b->size / kDeviceAlign].push_back(b);
  else put_back(b);
}

// --- without the lock
// ---------------------------------------------------------------------------------------------------

// Blocks whose other users have got past them become free; with `wait`, all do.
PyObject* history = nullptr;       // history(action, index, address, size, stream): what happens to memory, while recorded

// Somebody who watches is told; an error of theirs is printed and costs nothing else.
void tell_history(const char* action, Stream* stream, const void* address, size_t size) {
  PyGILState_STATE gil = PyGILState_Ensure();
  if (history) {
    Ref told(PyObject_CallFunction(history, "siKKi", action, stream->unit->device.index,
                                   static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(address)),
                                   static_cast<unsigned long long>(size), static_cast<int>(stream->number)));
    if (!told) PyErr_WriteUnraisable(history);
  }
  PyGILState_Release(gil);
}

// A block that was lent, or comes back: for histories and profiles.
void tell_of_block(const char* action, Block* b, int64_t bytes) {
  Stream* stream = stream_of(b);
  if (history) tell_history(action, stream, b->data, b->size);
  if (!is_recording()) return;
  auto total = static_cast<int64_t>(stream->unit->stats.allocated());
  profile_memory(b->data, bytes, bytes < 0 ? total + bytes : total, stream->unit->device);
}

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
    if (history && others->events.empty()) tell_history("free_completed", stream, b->data, b->size);
    Guard guard;
    if (!others->events.empty()) {
      stream->waiting.push_back(b);
      continue;
    }
    delete others;
    b->extra = nullptr;
    count_idle(b);
    give_back(b);
  }
  return ok;
}

thread_local std::vector<MemoryPool*> chosen_pools;   // those of `with use_mem_pool`, the innermost last
thread_local std::vector<Unit*> chosen_units;

// Whose functions a stream's segments come from; without any, the device's.
MemorySource source_of(Stream* stream) {
  MemoryPool* pool = pool_of_part(stream);
  if (pool && pool->source.take) return pool->source;
  return source_gives_segments ? source : MemorySource{};
}

int segment_take(Stream* stream, size_t size, void** address) {
  Unit* unit = stream->unit;
  MemorySource from = source_of(stream);
  if (!from.take) return unit->table->allocate(unit->table->context, unit->device.index, size, address);
  *address = from.take(size, unit->device.index, stream->handle);
  return *address ? RUSHLIGHT_OK : RUSHLIGHT_OUT_OF_MEMORY;
}

bool segment_give(Stream* stream, void* address, size_t size) {
  Unit* unit = stream->unit;
  MemorySource from = source_of(stream);
  if (from.give) return from.give(address, size, unit->device.index, stream->handle), true;
  return device_ok(unit, unit->table->free(unit->table->context, unit->device.index, address, size), "free");
}

bool give_up(Block* whole) {
  Stream* stream = stream_of(whole);
  Unit* unit = stream->unit;
  bool ok = segment_give(stream, whole->data, whole->size);
  if (history) tell_history("segment_free", stream, whole->data, whole->size);
  Guard guard;
  std::erase(unit->segments, whole);
  unit->stats.drop(kReservedBytes, whole->warm != 0, whole->size);
  unit->stats.drop(kSegment, whole->warm != 0, 1);
  unit->stats.device_gives++;
  delete whole;
  return ok;
}

bool empty_arena(Stream* stream, bool large) {
  Unit* unit = stream->unit;
  std::vector<Clearing> pages;
  {
    Guard guard;
    pages = plan_clearing(stream->arenas[large], stream->pools[large]);
  }
  bool ok = true;
  for (const Clearing& c : pages) {
    bool done = device_ok(unit, clear(unit, c), "free");
    ok &= done;
    if (done && history) tell_history("segment_unmap", stream, c.block->data + c.begin, c.end - c.begin);
    Guard guard;
    if (done) unit->stats.drop(kReservedBytes, large, c.end - c.begin), unit->stats.device_gives++;
    finish_clearing(c, done, stream->pools[large]);
  }
  return ok;
}

// What a stream holds and nobody uses goes back to the device, the segments that `chosen` allows.
bool give_up_segments(Stream* stream, const std::set<Block*>* chosen = nullptr) {
  if (stream->is_kept) return true;
  std::vector<Block*> whole;
  {
    Guard guard;
    empty_bins(stream);
    for (BlockPool& pool : stream->pools) {
      for (Block* b : pool)
        if (!b->before && !b->after && (!chosen || chosen->count(b))) whole.push_back(b);
      for (Block* b : whole)
        if (b->is_free) pool.remove(b);
    }
  }
  bool ok = true;
  for (Block* b : whole) ok &= give_up(b);
  for (bool large : {false, true})
    if (stream->arenas[large] && !chosen) ok &= empty_arena(stream, large);
  return ok;
}

// Segments that nobody uses go back, those idle for longest first, until `size` more bytes stay below the threshold.
bool collect_garbage(Unit* unit, size_t size) {
  size_t most = unit->limit != SIZE_MAX ? unit->limit : unit->total;
  auto threshold = static_cast<size_t>(settings.collect_at * static_cast<double>(most));
  if (!most || unit->stats.reserved() + size <= threshold) return true;
  if (!unit_synchronize(unit)) return false;
  std::vector<Block*> idle;
  std::set<Block*> chosen;
  {
    Guard guard;
    for (Stream* stream : unit->streams)
      for (BlockPool& pool : stream->pools)
        for (Block* b : pool)
          if (!b->before && !b->after && !stream->is_kept) idle.push_back(b);
    std::sort(idle.begin(), idle.end(), [](Block* a, Block* b) { return a->freed_at < b->freed_at; });
    size_t held = unit->stats.reserved() + size;
    for (Block* b : idle) {
      if (held <= threshold) break;
      held -= b->size;
      chosen.insert(b);
    }
  }
  bool ok = true;
  for (size_t i = 0; i < unit->streams.size(); i++) ok &= give_up_segments(unit->streams[i], &chosen);
  return ok;
}

// More of a stream's address space is filled, so that it has room for `want` bytes.
Block* expand(Stream* stream, size_t want, int* status) {
  Unit* unit = stream->unit;
  bool large = want > kSmall;
  Arena*& arena = stream->arenas[large];
  size_t page = large ? rounded(settings.middle_segment, kSmallSegment) : kSmallSegment;
  if (!arena) {
    if (!(arena = new_arena(unit, unit->total + unit->total / 8, page, stream, large, status))) return nullptr;
    unit->stats.add(kSegment, large, 1);
  }
  Growth growth;
  {
    Guard guard;
    growth = plan_growth(arena, stream->pools[large], want);
  }
  *status = RUSHLIGHT_OUT_OF_MEMORY;
  if (growth.run.empty()) return nullptr;
  bool fits = growth.missing <= unit->limit && unit->stats.reserved() <= unit->limit - growth.missing;
  if (fits) *status = fill(unit, growth);
  for (const Block* b : growth.run)
    if (history && fits && !*status && b->is_absent)
      tell_history("segment_map", stream, b->data, b->size - (b == growth.run.back() ? growth.rest : 0));
  Guard guard;
  if (*status) return undo_growth(growth, stream->pools[large]), nullptr;
  unit->stats.add(kReservedBytes, large, growth.missing);
  unit->stats.device_takes++;
  stream->pools[large].put(finish_growth(growth));
  return lend(stream->pools[large].take(want));
}

bool expands(Stream* stream) {
  MemoryPool* pool = pool_of_part(stream);
  return settings.expands && can_expand(stream->unit) && stream->unit->total && !source_of(stream).take &&
         !(pool && pool->is_whole);
}

}  // namespace

bool is_fresh_memory(Unit* unit, const void* address, size_t nbytes) {
  if (kDevices[unit->device.type].is_native) return true;
  auto begin = reinterpret_cast<uintptr_t>(address), end = begin + nbytes;
  for (const Block* first : unit->segments) {
    const Block* last = first;
    while (last->after) last = last->after;
    auto from = reinterpret_cast<uintptr_t>(first->data), to = reinterpret_cast<uintptr_t>(last->data) + last->size;
    if (begin < to && from < end) {
      PyErr_Format(AcceleratorError,
                   "allocate: device '%s:%d' gave address %p for %zu bytes, but %zu bytes at %p, which it gave before, "
                   "are still in use",
                   device_type_name(unit->device.type), unit->device.index, address, nbytes,
                   static_cast<size_t>(to - from), first->data);
      return false;
    }
  }
  return true;
}

namespace {

Block* new_segment(Stream* stream, size_t size, size_t want, int* status) {
  Unit* unit = stream->unit;
  void* address = nullptr;
  if (size > unit->limit || unit->stats.reserved() > unit->limit - size)
    return *status = RUSHLIGHT_OUT_OF_MEMORY, nullptr;
  *status = segment_take(stream, size, &address);
  if (!*status && !source_of(stream).take && !is_fresh_memory(unit, address, size)) *status = RUSHLIGHT_PYTHON_ERROR;
  if (*status) return nullptr;
  if (history) tell_history("segment_alloc", stream, address, size);
  bool large = want > kSmall;
  Guard guard;
  unit->stats.add(kReservedBytes, large, size);
  unit->stats.add(kSegment, large, 1);
  unit->stats.device_takes++;
  auto* whole = new Block{static_cast<char*>(address), size, large ? size : 0, nullptr, nullptr, true, stream};
  unit->segments.push_back(whole);
  stream->pools[large].put(whole);
  MemoryPool* pool = pool_of_part(stream);
  return lend(stream->pools[large].take(want, SIZE_MAX, (pool && pool->is_whole) || want >= settings.most_cut));
}

PyObject* full_report = nullptr;   // full_report(type, index, bytes): who holds memory, for the message

// Bytes as people read them: "400.00 GiB".
std::string in_units(size_t nbytes) {
  const char* names[] = {"bytes", "KiB", "MiB", "GiB"};
  double count = static_cast<double>(nbytes);
  int unit = 0;
  for (; count >= 1024 && unit < 3; unit++) count /= 1024;
  char text[48];
  snprintf(text, sizeof(text), unit ? "%.2f %s" : "%.0f %s", count, names[unit]);
  return text;
}

// A device's complaint that it is full is kept as the cause of ours.
void raise_full(Unit* unit, size_t nbytes) {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  const UnitStats& stats = unit->stats;
  const char* why = !value && unit->table->error ? unit->table->error(unit->table->context) : nullptr;
  Ref holders(full_report ? PyObject_CallFunction(full_report, "sin", device_type_name(unit->device.type),
                                                  unit->device.index, static_cast<Py_ssize_t>(nbytes))
                          : PyUnicode_FromString(""));
  if (!holders || !PyUnicode_Check(holders.p)) return;
  Ref limited(unit->limit != SIZE_MAX ? PyUnicode_FromFormat(", of %zu that this process may hold", unit->limit)
                                      : PyUnicode_FromString(""));
  if (!limited) return;
  Ref said(value ? PyUnicode_FromFormat(" (it says: %S)", value)
           : why && *why ? PyUnicode_FromFormat(" (it says: %s)", why)
                 : PyUnicode_FromString(""));
  if (!said) return;
  // Programs look for PyTorch's first words, and take a smaller batch.
  char first[96] = "";
  if (!strcmp(device_type_name(unit->device.type), "cuda"))
    snprintf(first, sizeof(first), "CUDA out of memory. Tried to allocate %s. In full: ", in_units(nbytes).c_str());
  PyErr_Format(OutOfMemoryError,
               "%sdevice '%s:%d' is out of memory: %zu bytes were asked for; tensors use %zu, and %zu are held from the "
               "device in all%U%U.%U Use smaller sizes, or free other tensors.",
               first, device_type_name(unit->device.type), unit->device.index, nbytes, stats.allocated(),
               stats.reserved(), limited.p, said.p, holders.p);
  PyObject *our_type, *ours, *our_trace;
  PyErr_Fetch(&our_type, &ours, &our_trace);
  PyErr_NormalizeException(&our_type, &ours, &our_trace);
  if (value && ours) PyException_SetCause(ours, Py_NewRef(value));
  PyErr_Restore(our_type, ours, our_trace);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
}

// Sizes are rounded to whole units of alignment, and to steps between powers of two where settings say so.
size_t rounded_request(size_t nbytes) {
  size_t want = rounded(nbytes, kDeviceAlign);
  if (settings.divisions.empty() || want < kDeviceAlign) return want;
  int power = std::bit_width(nbytes) - 1, from = std::max(0, power - 20);
  size_t steps = settings.divisions[std::min<size_t>(static_cast<size_t>(from), settings.divisions.size() - 1)];
  if (steps <= 1 || nbytes <= kDeviceAlign * steps) return want;
  return rounded(nbytes, std::max(kDeviceAlign, (size_t(1) << power) / steps));
}

// What pools that serve a full device have left.
Block* take_of_pools(Stream* stream, size_t want) {
  Guard guard;
  for (MemoryPool* pool : memory_pools) {
    if (!pool->serves_full) continue;
    for (Stream* part : pool->parts)
      if (part->unit == stream->unit && part->number == stream->number) {
        empty_bins(part);
        if (Block* b = take_cached(part, want)) return b;
      }
  }
  return nullptr;
}

Block* take(Stream* stream, size_t nbytes) {
  size_t want = rounded_request(nbytes);
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
  MemoryPool* pool = pool_of_part(stream);
  size_t generous = pool && pool->is_whole ? want
                    : want <= kSmall       ? kSmallSegment
                    : want <= kMiddle      ? std::max(settings.middle_segment, rounded(want, kSmallSegment))
                                           : rounded(want, kSmallSegment);
  int status = 0;
  if (settings.collect_at > 0 && !collect_garbage(unit, generous)) return nullptr;
  bool grows = expands(stream);
  if (grows) {
    if (Block* b = expand(stream, want, &status)) return b;
    if (status != RUSHLIGHT_OUT_OF_MEMORY) return device_ok(unit, status, "allocate"), nullptr;
  }
  for (size_t size : {generous, want}) {
    if (grows) break;
    if (Block* b = new_segment(stream, size, want, &status)) return b;
    if (status != RUSHLIGHT_OUT_OF_MEMORY) return device_ok(unit, status, "allocate"), nullptr;
    PyErr_Clear();
  }
  unit->stats.retries++;
  if (!device_empty_cache(unit)) return nullptr;
  if (Block* b = grows ? expand(stream, want, &status) : new_segment(stream, want, want, &status)) return b;
  if (status != RUSHLIGHT_OUT_OF_MEMORY) return device_ok(unit, status, "allocate"), nullptr;
  if (!pool)
    if (Block* b = take_of_pools(stream, want)) return PyErr_Clear(), b;
  unit->stats.failures++;
  raise_full(unit, nbytes);
  return nullptr;
}

void release_block(Storage* s) {
  auto* b = static_cast<Block*>(s->context);
  Stream* stream = stream_of(b);
  Unit* unit = stream->unit;
  Others* others = others_of(b);
  tell_of_block("free_requested", b, -static_cast<int64_t>(b->size));
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
  } else if (history) {
    tell_history("free_completed", stream, b->data, b->size);
  }
  Guard guard;
  count_free(b);
  if (others) return stream->waiting.push_back(b);
  count_idle(b);
  give_back(b);
}

// --- memory that is not cached: each block from somebody's functions, and back to them
// ---------------------------------------------------------------------------------------------------------------------

struct Direct {
  Block block;
  MemorySource from;
};

void release_direct(Storage* s) {
  auto* direct = static_cast<Direct*>(s->context);
  Block* b = &direct->block;
  Stream* stream = stream_of(b);
  Unit* unit = stream->unit;
  const RushlightDevice* table = unit->table;
  tell_of_block("free_requested", b, -static_cast<int64_t>(b->size));
  if (history) tell_history("free_completed", stream, b->data, b->size);
  if (Others* others = others_of(b)) {
    PyGILState_STATE gil = PyGILState_Ensure();
    for (Stream* other : others->streams) {   // the stream goes on when the others are past it
      void* event = nullptr;
      int index = unit->device.index;
      if (!device_ok(unit, table->record(table->context, index, other->handle, &event), "memory") ||
          !device_ok(unit, table->wait(table->context, index, stream->handle, event), "memory"))
        PyErr_WriteUnraisable(nullptr);
      if (event) table->forget(table->context, index, event);
    }
    PyGILState_Release(gil);
    delete others;
  }
  direct->from.give(b->data, b->size, unit->device.index, stream->handle);
  Guard guard;
  count_free(b);
  count_idle(b);
  unit->stats.drop(kReservedBytes, b->warm != 0, b->size);
  delete direct;
}

bool take_direct(Stream* stream, Storage* s, size_t nbytes) {
  Unit* unit = stream->unit;
  size_t want = rounded(nbytes, kDeviceAlign);
  bool fits = want <= unit->limit && unit->stats.reserved() <= unit->limit - want;
  void* address = fits ? source.take(want, unit->device.index, stream->handle) : nullptr;
  if (!address) return unit->stats.failures++, raise_full(unit, nbytes), false;
  size_t warm = want > kSmall ? want : 0;
  auto* direct = new Direct{{static_cast<char*>(address), want, warm, nullptr, nullptr, false, stream}, source};
  Block* b = &direct->block;
  {
    Guard guard;
    note_request(lend(b), nbytes);
    unit->stats.add(kReservedBytes, want > kSmall, want);
  }
  tell_of_block("alloc", b, static_cast<int64_t>(b->size));
  s->data = b->data;
  s->capacity = b->size;
  s->context = direct;   // a block comes first in it
  s->release = release_direct;
  return true;
}

}  // namespace

bool device_take(Storage* s, size_t nbytes) {
  Stream* stream = current_stream(s->device);
  if (stream && !chosen_pools.empty()) stream = pool_part(stream);
  if (stream && source.take && nbytes && !stream->pool && !stream->is_kept) return take_direct(stream, s, nbytes);
  Block* b = stream ? take(stream, nbytes) : nullptr;
  if (!b) return false;
  {
    Guard guard;
    note_request(b, nbytes);
  }
  tell_of_block("alloc", b, static_cast<int64_t>(b->size));
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
  unit->stats.waits++;
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
  if ((s->release != release_block && s->release != release_direct) || !stream->unit->table->record) return;
  auto* b = static_cast<Block*>(s->context);
  if (stream_of(b)->unit == stream->unit && stream_of(b)->number == stream->number) return;
  Others* others = others_of(b);
  if (!others) b->extra = others = new Others;
  for (Stream* known : others->streams)
    if (known == stream) return;
  others->streams.push_back(stream);
}

// Blocks from `first` up to an absent one, or the last.
static bool show_segment(PyObject* found, Block* first, const std::set<const Block*>& binned, bool expands) {
  Ref blocks(PyList_New(0));
  size_t size = 0;
  for (Block* b = first; b && !b->is_absent; b = b->after) {
    size += b->size;
    const char* state = b->is_free || binned.count(b) ? "inactive"
                        : others_of(b) && !others_of(b)->events.empty() ? "active_pending_free"
                                                                        : "active_allocated";
    Ref one(Py_BuildValue("(NNsN)", PyLong_FromVoidPtr(b->data), PyLong_FromSize_t(b->size), state,
                          PyLong_FromSize_t(b->asked)));
    if (!blocks || !one || PyList_Append(blocks.p, one.p)) return false;
  }
  Stream* stream = stream_of(first);
  Ref one(Py_BuildValue("(NNiiOiO)", PyLong_FromVoidPtr(first->data), PyLong_FromSize_t(size), stream->number,
                        first->warm != 0, blocks.p, stream->pool, expands ? Py_True : Py_False));
  return one && !PyList_Append(found, one.p);
}

PyObject* device_snapshot(Unit* unit) {
  Ref found(PyList_New(0));
  if (!found) return nullptr;
  Guard guard;
  std::set<const Block*> binned;
  std::vector<Stream*> streams = unit->streams;
  for (MemoryPool* pool : memory_pools)
    for (Stream* part : pool->parts)
      if (part->unit == unit) streams.push_back(part);
  for (Stream* stream : streams)
    for (auto& bin : stream->bins) binned.insert(bin.begin(), bin.end());
  for (Block* first : unit->segments)
    if (!show_segment(found.p, first, binned, false)) return nullptr;
  for (Stream* stream : streams)
    for (Arena* arena : stream->arenas)
      for (Block* b = arena ? arena->first : nullptr; b; b = b->after)   // each run of memory between absences
        if (!b->is_absent && (!b->before || b->before->is_absent) && !show_segment(found.p, b, binned, true))
          return nullptr;
  return Py_NewRef(found.p);
}

static MemorySource source_at(unsigned long long take, unsigned long long give) {
  return {reinterpret_cast<decltype(MemorySource::take)>(take), reinterpret_cast<decltype(MemorySource::give)>(give)};
}

// new_memory_pool(take=0, give=0, serves_full=False, is_whole=False): the number of a pool, whose memory two functions
// may give and take back.
PyObject* py_new_memory_pool(PyObject*, PyObject* args) {
  unsigned long long take = 0, give = 0;
  int serves_full = 0, is_whole = 0;
  if (!PyArg_ParseTuple(args, "|KKpp", &take, &give, &serves_full, &is_whole)) return nullptr;
  memory_pools.push_back(new MemoryPool{static_cast<int>(memory_pools.size()) + 1, source_at(take, give),
                                        serves_full != 0, is_whole != 0, {}});
  return PyLong_FromLong(memory_pools.back()->number);
}

// set_memory_source(take=0, give=0, segments=False): functions that all memory comes from, a call for each tensor's;
// `segments`: also what captured work keeps. Zeros: the caching allocator again.
PyObject* py_set_memory_source(PyObject*, PyObject* args) {
  unsigned long long take = 0, give = 0;
  int segments = 0;
  if (!PyArg_ParseTuple(args, "|KKp", &take, &give, &segments)) return nullptr;
  source = source_at(take, give);
  source_gives_segments = segments != 0;
  Py_RETURN_NONE;
}

// set_memory_settings(most_cut, most_spare, middle_segment, divisions, collect_at, expands)
PyObject* py_set_memory_settings(PyObject*, PyObject* args) {
  unsigned long long most_cut, most_spare, middle;
  PyObject* given;
  double collect_at;
  int expands;
  if (!PyArg_ParseTuple(args, "KKKOdp", &most_cut, &most_spare, &middle, &given, &collect_at, &expands)) return nullptr;
  Ref items(PySequence_Fast(given, "set_memory_settings: expected numbers"));
  std::vector<size_t> divisions;
  for (Py_ssize_t i = 0; items && i < PySequence_Fast_GET_SIZE(items.p); i++)
    divisions.push_back(PyLong_AsSize_t(PySequence_Fast_GET_ITEM(items.p, i)));
  if (PyErr_Occurred()) return nullptr;
  settings = {most_cut, most_spare, middle, divisions, collect_at, expands != 0};
  Py_RETURN_NONE;
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

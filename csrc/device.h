// Devices as the core uses them: their tables, their units, the streams of those, and each thread's current ones.
// Everything here holds the interpreter lock unless it says otherwise. Functions that return bool set an exception on
// false.
#pragma once
#include <deque>
#include <vector>

#include "block_pool.h"
#include "device_table.h"
#include "types.h"

namespace rl {

struct Storage;
struct Tensor;
struct Unit;
struct Arena;

// Checks whose failure a kernel has written down, or will: one cell each, read when the stream is waited for.
struct ErrorCells {
  struct Pending {
    PyObject* on_error;    // callable(code) that raises; or null, and `op` divided by 0
    PyObject* op;
  };
  char* cells = nullptr;   // on the device; zero unless a check failed
  std::deque<Pending> pending;
  size_t first = 0;        // the cell of the first pending one; the others follow, in a ring
  bool is_read = false;    // some thread is about it
};

constexpr size_t kBinned = 16384, kDeviceAlign = 512;

struct Stream {
  Unit* unit;
  void* handle = nullptr;            // the device's name for it
  int number = 0;                    // ours: 0 is the unit's first queue
  uint64_t jobs = 0;                 // how many were queued
  void* asked = nullptr;             // the mark by which it was last asked whether all is done,
  uint64_t asked_at = 0;             // and how many jobs were queued then
  ErrorCells checks;
  // Memory that was used on this stream last, and can be used on it again without waiting.
  BlockPool pools[2];                // of small requests, of large ones
  std::vector<Block*> bins[kBinned / kDeviceAlign + 1];   // small blocks by size, not joined with their neighbours yet
  std::vector<Block*> waiting;       // freed while another stream may still use them
  bool is_kept = false;              // its memory stays: captured work may use it again at any time
  int pool = 0;                      // of which memory pool this is the part on a stream; 0: the stream itself
  Arena* arenas[2] = {};             // of small requests, of large ones, where segments expand
};

// Where memory comes from: the device, or somebody's functions.
struct MemorySource {
  void* (*take)(size_t nbytes, int index, void* stream) = nullptr;
  void (*give)(void* address, size_t nbytes, int index, void* stream) = nullptr;
};

// Memory of a pool's own.
struct MemoryPool {
  int number;
  MemorySource source;
  bool serves_full = false;          // others may have of it what is free, when the device is full
  bool is_whole = false;             // its segments are not cut
  std::vector<Stream*> parts;        // by unit and stream
};
Stream* pool_part(Stream* stream);   // where this thread's memory for a stream comes from

// How the caching allocator goes about it, on all units (cuda/allocator_settings.py).
struct MemorySettings {
  size_t most_cut = SIZE_MAX;                  // blocks of this size and larger are not cut,
  size_t most_spare = size_t(20) << 20;        // and serve requests that leave no more than this unused
  size_t middle_segment = size_t(20) << 20;    // what requests of up to 10 MiB share
  std::vector<size_t> divisions;               // steps between powers of two that sizes are rounded to, from 1 MiB on
  double collect_at = 0;                       // share of the memory from which on idle segments are given back
  bool expands = false;                        // segments are address space that is filled as needed
};

// Address space of a device that is filled with memory piece by piece (device_arena.cpp).
struct AddressSpace {
  const RushlightDevice* table = nullptr;      // whose units have it; null where none does
  int (*reserve)(int index, size_t nbytes, void** address) = nullptr;
  int (*fill)(int index, void* address, size_t nbytes, size_t page) = nullptr;   // pages can be cleared one by one
  int (*clear)(int index, void* address, size_t nbytes) = nullptr;
};
extern AddressSpace address_space;

// Blocks one behind the other over all of a stretch of address space; the last one is absent.
struct Arena {
  char* base;
  size_t page;
  Block* first;
};

// What the allocator counts, of small requests and of large ones: device.cpp has PyTorch's names for them.
enum Counted {
  kAllocation, kAllocatedBytes, kActive, kActiveBytes, kRequestedBytes, kSegment, kReservedBytes, kNumCounted
};

struct Counter {
  size_t current = 0, peak = 0, taken = 0, given = 0;
  void add(size_t n) {
    current += n, taken += n;
    if (current > peak) peak = current;
  }
  void drop(size_t n) { current -= n, given += n; }
};

struct UnitStats {
  Counter of[kNumCounted][3];        // all, small, large
  size_t retries = 0, failures = 0, waits = 0, device_takes = 0, device_gives = 0;
  void add(Counted what, bool large, size_t n) { of[what][0].add(n), of[what][1 + large].add(n); }
  void drop(Counted what, bool large, size_t n) { of[what][0].drop(n), of[what][1 + large].drop(n); }
  size_t allocated() const { return of[kAllocatedBytes][0].current; }
  size_t reserved() const { return of[kReservedBytes][0].current; }
};

struct Unit {
  Device device;
  const RushlightDevice* table;
  UnitStats stats;
  std::vector<Stream*> streams;      // never empty; never shrinks
  std::vector<Block*> segments;      // the first block of each
  size_t limit = SIZE_MAX;           // bytes that may be held from the device
  size_t total = 0;                  // bytes of the device, where somebody said so
};

inline const RushlightDevice* table_of(Device device) { return kDevices[device.type].table; }
inline bool is_plugged(Device device) { return kDevices[device.type].handler != nullptr; }

Unit* find_unit(Device device);                 // null with an exception where the device has no such unit
Stream* current_stream(Device device);          // of this thread; null with an exception
bool device_ok(Unit* unit, int status, const char* what);   // raises what a status means

// Set where host memory can be pinned: notes that a storage is used on a stream until what is queued now is done; false
// where its memory is not pinned.
extern bool (*note_pinned)(Storage* storage, Stream* stream);

// Set where launches may wait in a queue of ours: all that was asked for reaches the device. Those call it who hand out
// what others could queue work with: a stream's handle, an address.
extern void (*flush_launches)();
void flush_device(Device device);    // where it is plugged in

bool stream_copy(Stream* stream, RushlightWay way, void* target, const void* source, size_t nbytes);
bool stream_launch(Stream* stream, PyObject* handle,
                   RushlightLaunch& launch);    // fills in `kernel`; walks outer dims for a device without n-d launches
bool stream_synchronize(Stream* stream);        // then raises what checks found
bool unit_synchronize(Unit* unit);              // all streams

// The cell where a kernel launched next writes its failure. `on_error` and `op` as in ErrorCells. Null with an
// exception.
char* stream_check(Stream* stream, PyObject* on_error, PyObject* op);

// device_memory.cpp. `device_take` fills in data, capacity, release; out of memory raises OutOfMemoryError.
bool device_take(Storage* storage, size_t nbytes);
bool device_empty_cache(Unit* unit);
// Whether memory that a device gave lies clear of what it gave before; raises where it does not. Native devices are
// trusted.
bool is_fresh_memory(Unit* unit, const void* address, size_t nbytes);
PyObject* py_set_memory_history(PyObject*, PyObject* callable);
PyObject* py_set_full_report(PyObject*, PyObject* callable);
PyObject* py_set_memory_settings(PyObject*, PyObject* given);
PyObject* py_set_memory_source(PyObject*, PyObject* args);
PyObject* py_new_memory_pool(PyObject*, PyObject* args);
PyObject* py_choose_memory_pool(PyObject*, PyObject* args);
PyObject* py_release_memory_pool(PyObject*, PyObject* given);
// [(address, size, stream, is_large, [(address, size, state, asked), ...], pool, is_expandable), ...]
PyObject* device_snapshot(Unit* unit);
void device_used_on(Storage* storage,
                    Stream* stream);  // its memory is not reused before what is queued on `stream` at its end is done
void device_memory_before_fork();
void device_memory_after_fork();

// python_device.cpp: a table whose functions call the methods of a Python object.
const RushlightDevice* python_device_table(PyObject* handler);
PyObject* py_set_device_failure(PyObject*, PyObject* callable);
// The table of a device that has its own, from what Device.native() returned: an address, or a capsule. Null with an
// exception.
const RushlightDevice* native_device_table(PyObject* given);

extern PyObject *OutOfMemoryError, *AcceleratorError;
int init_device(PyObject* module);
int init_updates(PyObject* module);   // updates.cpp

}  // namespace rl

// What a program does, written down while it runs: one timeline of events per thread, in blocks that only its own
// thread writes. No lock, no Python object per event; names and arguments are interned.
//
// While nothing records, all this costs one word that a call of an op reads with its mask (`profile_key`). A recording
// belongs to the thread that started it and to the engine's own threads; others take part if it was asked for all
// (kRecordThreads). Everything holds the interpreter lock, but profile_memory, which may be called without it.
#pragma once
#include <atomic>
#include <vector>

#include "call.h"
#include "tape.h"

namespace rl {

enum class EventKind : uint8_t {
  Op,           // an op that the program called
  Inner,        // an op that an op's body, or a derivative, calls
  Evaluate,     // the engine at a node: hooks, the node itself, sums
  Node,         // the node
  User,         // record_function
  Kernel,
  Compile,      // a plan or kernel made for the first time
  Memory,       // an instant: `value` bytes taken or given back
  Python,       // a frame
  PythonCall,   // a function of C
  Module,       // a frame of nn.Module.__call__
  Region,       // a compiled callable
  Collective,
  Step
};

enum RecordFlag : uint32_t {
  kRecordShapes = 1,
  kRecordMemory = 2,
  kRecordStack = 4,
  kRecordModules = 8,
  kRecordThreads = 16,
  kRecordKernels = 32,
  kRecordSources = 64     // where in the program's source events begin
};

constexpr uint32_t kKeyProfile = 1u << 31;             // `profile_key` while something records, beside the bits of Key
extern std::atomic<uint32_t> profile_key;              // kKeyProfile or 0, of the whole process
constexpr uint32_t kNoRow = ~0u;

struct Event {
  int64_t begin;                // nanoseconds, CLOCK_MONOTONIC
  int64_t end;                  // 0 while it is open; Memory: the address
  int64_t sequence;             // -1: none; Memory: bytes, negative when given back
  union {
    struct {
      int32_t inputs;           // of Recording::inputs, -1: none
      union {
        uint32_t forward_thread;  // of a node: the thread that recorded it, 0 unknown
        uint32_t source;          // of anything else: where it was begun (Recording::sources), 0 unknown
      };
    };
    int64_t total;              // Memory: allocated now
  };
  uint32_t name;
  uint32_t parent;              // row of the same timeline, or kNoRow
  EventKind kind;
  uint8_t around;               // what ops were before it (Timeline::inside)
  uint8_t device;               // Memory: type and index of the device
  uint8_t unit;
  uint32_t module;              // the name of the path of modules around it, and 1; 0: none
};
static_assert(sizeof(Event) <= 48);

constexpr uint32_t kBlockEvents = 4096;

// One thread's events, in the order of their begin: parents before children.
struct Timeline {
  std::vector<Event*> blocks;
  uint32_t count = 0;
  uint32_t open = kNoRow;       // the innermost event that is not over
  uint32_t module = 0;          // of events that begin now (Event::module)
  uint8_t inside = 0;           // ops called now are the program's (0), or an op's or a derivative's own (1)
  long native_id = 0;
  uint32_t order = 0;           // of its thread among those that were ever recorded, from 1
  PyObject* name = nullptr;     // of the thread, as Python has it
  std::atomic<bool> writing{false};   // an event is being appended without the interpreter lock
  Event& at(uint32_t row) { return blocks[row / kBlockEvents][row % kBlockEvents]; }
};

// An event that was begun: what ends it. A recording that is over meanwhile makes it mean nothing.
struct Mark {
  uint64_t recording = 0;       // 0: nothing was begun
  Timeline* line = nullptr;
  uint32_t row = kNoRow;
};

enum NameFact : uint8_t {
  kUsers = 1,                   // what such a call does within is the program's
  kNoSequence = 2               // PyTorch's have no number, though they take tensors
};

// Arguments of calls: rows of words, each kept once.
struct InputTable {
  std::vector<uint64_t> words;               // of all rows
  std::vector<std::pair<size_t, size_t>> rows;
  std::vector<uint32_t> slots;               // open addressing: row + 1
  PyObject* shown = nullptr;                 // list: per row what Python made of it at first sight
};

struct Recording {
  uint64_t id = 0;
  uint32_t flags = 0;
  int64_t begin = 0, wall = 0;               // the same moment by both clocks
  std::vector<Timeline*> timelines;
  uint64_t num_blocks = 0;
  std::atomic<uint64_t> dropped{0};
  PyObject* names = nullptr;                 // list of str
  PyObject* numbers = nullptr;               // dict: str -> place in `names`
  PyObject* held = nullptr;                  // list: what the cache of names knows by address
  std::vector<uint8_t> facts;                // by name: NameFact
  std::vector<std::pair<uint32_t, uint32_t>> pairs;   // names of the engine at a node, and of the node
  InputTable inputs;
  PyObject* sources = nullptr;               // dict: (code, instruction) -> number, from 1
};
Recording* profile_recording();              // that which runs (paused or not), or null

int64_t profile_now();
Recording* profile_start(uint32_t flags);    // null with a RuntimeError when one runs
Recording* profile_stop();                   // which is the caller's now; null with a RuntimeError when none runs
void profile_free(Recording* recording);
bool profile_toggle(bool on);                // false with a RuntimeError when none runs
void profile_limit(uint64_t events);         // beyond so many, a recording counts what it drops

// The calling thread's timeline, or null where it takes no part or nothing records.
Timeline* profile_line();
void profile_join();                         // this thread belongs to the engine: it takes part

// The number of a name. `name` is a str.
uint32_t profile_name(PyObject* name);
uint32_t profile_text(const char* name);

uint32_t profile_source(Recording* recording, EventKind kind);   // of an event that begins now; 0 of a node
Mark profile_begin(uint32_t name, EventKind kind, int64_t sequence = -1);
void profile_end(const Mark& mark);
// An event whose times are known.
void profile_add(uint32_t name, EventKind kind, int64_t begin, int64_t end);
void profile_memory(const void* address, int64_t bytes, int64_t total, Device device);

#ifdef RUSHLIGHT_SECOND_MODULE
extern std::atomic<uint32_t>* recording_key;     // the core's profile_key
inline bool is_recording() { return __builtin_expect(recording_key->load(std::memory_order_relaxed) != 0, 0); }
#else
inline bool is_recording() { return __builtin_expect(profile_key.load(std::memory_order_relaxed) != 0, 0); }
#endif

// A stretch of code as an event, begun where something records: `if (is_recording()) record_stretch(&recorded, ...)`.
struct Recorded {
  Mark mark;
  Recorded() = default;
  ~Recorded();
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;
};
// `inside` says what ops within it are: 1 an op's own, 0 the program's, -1 as around it.
void record_stretch(Recorded* r, uint32_t name, EventKind kind, int64_t sequence = -1, int inside = -1);
void record_op(Recorded* r, Overload* op, PyObject* site, PyObject** args, PyObject* out);   // `site`: as it was spelled
// A call that is no op object's: of a method of C++ by PyTorch's name for it (a literal), of a function of Python.
void record_method(Recorded* r, const char* name, PyObject* const* args, size_t count);
void record_function(Recorded* r, PyObject* function, PyObject* args);
// A call of the program's own: its name (a str), the arguments. Ops within are the program's too.
void record_named(Recorded* r, PyObject* name, PyObject* args);
void record_node(Recorded* r, Node* n, bool is_evaluation);
void record_plan(Recorded* r, Overload* op);           // a plan that is made now
void record_kernel(Recorded* r, const void* kernel);   // where kernels are asked for (kRecordKernels)
// The steps that PyTorch takes for the basic part of `t[index]`, which were one here, begun at `begin` and over now.
void record_index(Tensor* t, PyObject* index, int64_t begin);
inline Recorded::~Recorded() {
  if (__builtin_expect(mark.recording != 0, 0)) profile_end(mark);
}

// The row of these arguments in the recording's table (profile_inputs.cpp). `callee` is an Overload, a function, or the
// name of a method.
int32_t profile_inputs(Recording* recording, PyObject* callee, PyObject* site, PyObject* const* args, size_t count,
                       PyObject* out);
uint64_t mixed(uint64_t hash, uint64_t word);

int init_profile(PyObject* module);

}  // namespace rl

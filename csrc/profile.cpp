// Timelines, names, begin and end of events. What Python sees of it is in extras/profile_face.cpp.
#include "profile.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <new>
#include <thread>
#include <unordered_map>

#include "index.h"
#include "second_module.h"
#include "tape.h"

namespace rl {

std::atomic<uint32_t> profile_key{0};

namespace {

Recording* running;              // the recording, paused or not
uint64_t last_id;
uint16_t last_number;            // of threads
uint64_t max_blocks = (uint64_t{1} << 26) / kBlockEvents;   // some 67 million events, 3 GB

struct Mine {                    // of a thread
  uint64_t recording = 0;        // which recording it was last asked about
  Timeline* line = nullptr;      // its timeline there; null: it takes no part
  bool joins = false;            // the engine's own
};
thread_local Mine mine;

// What `threading` calls this thread: new reference, never null.
PyObject* thread_name() {
  Ref module(PyImport_ImportModule("threading"));
  Ref known(module ? PyObject_GetAttrString(module.p, "_active") : nullptr);
  Ref id(PyLong_FromUnsignedLong(PyThread_get_thread_ident()));
  PyObject* thread = known && id ? PyDict_GetItem(known.p, id.p) : nullptr;
  Ref name(thread ? PyObject_GetAttrString(thread, "name") : nullptr);
  if (name) return name.release();
  PyErr_Clear();
  return PyUnicode_FromString("");
}

Timeline* new_line(Recording* r) {
  auto* line = new Timeline;
  line->native_id = syscall(SYS_gettid);
  line->name = thread_name();
  if (!tls.number) tls.number = ++last_number;
  line->order = tls.number;
  r->timelines.push_back(line);
  return line;
}

// A row at the end of the timeline; kNoRow, counted, where there is no room.
uint32_t append(Recording* r, Timeline* line) {
  if (line->count == line->blocks.size() * kBlockEvents) {
    auto* block = r->num_blocks < max_blocks
                      ? static_cast<Event*>(std::malloc(sizeof(Event) * kBlockEvents)) : nullptr;
    if (!block) return r->dropped.fetch_add(1, std::memory_order_relaxed), kNoRow;
    line->blocks.push_back(block);
    r->num_blocks++;
  }
  return line->count++;
}

}  // namespace

int64_t profile_now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<int64_t>(t.tv_sec) * 1000000000 + t.tv_nsec;
}

Recording* profile_recording() { return running; }

// --- the life of a recording ---------------------------------------------------------------------------------------

static void forget_names();

Recording* profile_start(uint32_t flags) {
  if (running)
    return PyErr_SetString(PyExc_RuntimeError, "the profiler is already enabled: one recording runs at a time"),
           nullptr;
  auto* r = new Recording;
  r->id = ++last_id;
  r->flags = flags;
  r->names = PyList_New(0);
  r->numbers = PyDict_New();
  r->held = PyList_New(0);
  r->inputs.shown = PyList_New(0);
  r->sources = PyDict_New();
  if (!r->names || !r->numbers || !r->held || !r->inputs.shown || !r->sources) return profile_free(r), nullptr;
  forget_names();
  running = r;
  mine.recording = r->id;
  mine.line = new_line(r);
  timespec wall;
  r->begin = profile_now();
  clock_gettime(CLOCK_REALTIME, &wall);
  r->wall = static_cast<int64_t>(wall.tv_sec) * 1000000000 + wall.tv_nsec;
  profile_key.store(kKeyProfile);
  return r;
}

Recording* profile_stop() {
  if (!running)
    return PyErr_SetString(PyExc_RuntimeError, "the profiler is not enabled: there is no recording to stop"), nullptr;
  int64_t now = profile_now();
  Recording* r = running;
  running = nullptr;
  profile_key.store(0);
  for (Timeline* line : r->timelines) {
    while (line->writing.load()) std::this_thread::yield();
    for (uint32_t row = line->open; row != kNoRow; row = line->at(row).parent)
      if (!line->at(row).end) line->at(row).end = now;
  }
  return r;
}

void profile_free(Recording* r) {
  for (Timeline* line : r->timelines) {
    for (Event* block : line->blocks) std::free(block);
    Py_XDECREF(line->name);
    delete line;
  }
  Py_XDECREF(r->names);
  Py_XDECREF(r->numbers);
  Py_XDECREF(r->held);
  Py_XDECREF(r->inputs.shown);
  Py_XDECREF(r->sources);
  delete r;
}

bool profile_toggle(bool on) {
  if (!running) return PyErr_SetString(PyExc_RuntimeError, "the profiler is not enabled: nothing to pause"), false;
  profile_key.store(on ? kKeyProfile : 0);
  return true;
}

void profile_limit(uint64_t events) { max_blocks = (events + kBlockEvents - 1) / kBlockEvents; }

// A child goes on without its parent's recording, of which it may have copied a half.
static void after_fork_in_child() {
  running = nullptr;
  profile_key.store(0);
}

// --- threads -------------------------------------------------------------------------------------------------------

Timeline* profile_line() {
  if (!running) return nullptr;
  if (__builtin_expect(mine.recording != running->id, 0)) {
    mine.recording = running->id;
    mine.line = mine.joins || (running->flags & kRecordThreads) ? new_line(running) : nullptr;
    if (mine.line && (running->flags & kRecordStack)) second.watch_thread();
  }
  return mine.line;
}

void profile_join() { mine.joins = true; }

// --- names ---------------------------------------------------------------------------------------------------------

uint32_t profile_name(PyObject* name) {
  Recording* r = running;
  if (PyObject* known = PyDict_GetItemWithError(r->numbers, name)) return PyLong_AsUnsignedLong(known);
  PyErr_Clear();
  auto number = static_cast<uint32_t>(PyList_GET_SIZE(r->names));
  Ref boxed(PyLong_FromUnsignedLong(number));
  if (!boxed || PyList_Append(r->names, name) || PyDict_SetItem(r->numbers, name, boxed.p)) PyErr_Clear();
  return number;
}

uint32_t profile_text(const char* text) {
  Ref name(PyUnicode_FromString(text));
  if (!name) return PyErr_Clear(), 0;
  return profile_name(name.p);
}

uint64_t mixed(uint64_t h, uint64_t word) {
  h = (h ^ word) * 0x9E3779B97F4A7C15ull;
  return h ^ (h >> 29);
}

namespace {

// How a call comes to its name.
enum class Naming : uint32_t { Program, WithOut, Own, Function, Method, OwnMethod };

// What a call is called depends on the overload (or the function, or the literal), on how an op was spelled (`1 - x`),
// and on who calls it.
struct NamedCall {
  const void* callee = nullptr;
  PyObject* site = nullptr;
  Naming naming{};
  uint32_t number = 0;
};
constexpr size_t kNamedCalls = 1024;
NamedCall named_calls[kNamedCalls];       // of the recording that runs; what it points to is held by it
constexpr uint32_t kVaries = ~0u;         // the name depends on the arguments
constexpr uint32_t kHidden = ~0u - 1;     // PyTorch shows no such call

std::unordered_map<uint64_t, uint32_t> named_nodes;     // by what a node's name depends on
std::unordered_map<const void*, uint32_t> named_kernels;

// With what the program may have raised meanwhile put aside.
struct KeptError {
  PyObject *type, *value, *trace;
  KeptError() { PyErr_Fetch(&type, &value, &trace); }
  ~KeptError() { PyErr_Restore(type, value, trace); }
};

// Nothing that Python does to answer us is an event of the program's.
struct Paused {
  uint32_t key = profile_key.exchange(0);
  uint64_t id = running ? running->id : 0;
  ~Paused() {
    if (running && running->id == id) profile_key.store(key);
  }
};

// A str, None where the arguments decide, or null with an exception. "" hides the call.
PyObject* asked_name(const void* callee, PyObject* site, Naming naming, PyObject* args) {
  auto* object = static_cast<PyObject*>(const_cast<void*>(callee));
  auto* text = static_cast<const char*>(callee);
  switch (naming) {
    case Naming::Own:
      return PyUnicode_FromFormat("rushlight::%U", reinterpret_cast<Overload*>(object)->name);
    case Naming::Method:
      return PyUnicode_FromString(text);
    case Naming::OwnMethod:
      return PyUnicode_FromFormat("rushlight::%s", strrchr(text, ':') ? strrchr(text, ':') + 1 : text);
    default:
      break;
  }
  PyObject* ask = PyDict_GetItemString(autograd_callbacks, "call_name");
  if (!ask) return PyUnicode_FromString("?");
  return PyObject_CallFunctionObjArgs(ask, object, site ? site : Py_None, naming == Naming::WithOut ? Py_True : Py_False,
                                      args ? args : Py_None, nullptr);
}

// What a call of this name is like.
void note_facts(uint32_t number, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (!text) return PyErr_Clear();
  size_t length = strlen(text);
  bool is_users = strncmp(text, "aten::", 6) && strncmp(text, "rushlight::", 11);
  bool is_like = length > 5 && !strcmp(text + length - 5, "_like");
  if (running->facts.size() <= number) running->facts.resize(number + 1);
  running->facts[number] = static_cast<uint8_t>((is_users ? kUsers : 0) | (is_like ? kNoSequence : 0));
}

uint32_t name_number(const void* callee, PyObject* site, Naming naming, PyObject* args) {
  KeptError kept;
  Paused paused;
  Ref name(asked_name(callee, site, naming, args));
  if (name.p == Py_None) return kVaries;
  if (!name || !PyUnicode_Check(name.p)) {
    PyErr_Clear();
    return profile_text("?");
  }
  if (!PyUnicode_GET_LENGTH(name.p)) return kHidden;
  uint32_t number = profile_name(name.p);
  return note_facts(number, name.p), number;
}

// Whatever the cache knows by address must live as long as it does.
bool hold(const void* callee, PyObject* site, Naming naming) {
  if (naming == Naming::Method || naming == Naming::OwnMethod) return true;
  auto* object = static_cast<PyObject*>(const_cast<void*>(callee));
  if (PyList_Append(running->held, object) || (site && PyList_Append(running->held, site))) return PyErr_Clear(), false;
  return true;
}

uint32_t call_name(const void* callee, PyObject* site, Naming naming) {
  uint64_t h = mixed(mixed(static_cast<uint64_t>(naming), reinterpret_cast<uint64_t>(callee)),
                     reinterpret_cast<uint64_t>(site));
  NamedCall& slot = named_calls[h % kNamedCalls];
  if (__builtin_expect(slot.callee == callee && slot.site == site && slot.naming == naming, 1)) return slot.number;
  uint32_t number = name_number(callee, site, naming, nullptr);
  if (hold(callee, site, naming)) slot = {callee, site, naming, number};
  return number;
}

// What decides a node's name, short of asking Python: its op, which arguments have edges, sizes of what it was.
uint64_t node_key(Node* n) {
  uint64_t h = mixed(reinterpret_cast<uint64_t>(n->op), n->made ? reinterpret_cast<uint64_t>(n->made->op) : 0);
  h = mixed(h, n->steps);
  for (uint32_t i = 0; i < n->num_edges; i++) h = mixed(h, (n->edges()[i].node ? 2 : 0) + n->edges()[i].input_nr);
  for (uint32_t i = 0; i < n->num_outputs; i++)
    h = mixed(h, (static_cast<uint64_t>(n->outputs()[i].dtype) << 8) + n->outputs()[i].ndim);
  for (uint32_t i = 0; i < n->num_sizes; i++) h = mixed(h, static_cast<uint64_t>(n->sizes()[i]));
  for (uint32_t i = 0; i < n->num_saved; i++) {
    Saved& s = n->saved()[i];
    PyObject* v = s.value;
    h = mixed(h, static_cast<uint64_t>(s.kind));
    if (v && s.kind == SavedKind::Plain && PyLong_Check(v)) h = mixed(h, PyLong_AsUnsignedLongMask(v));
    else if (v && s.kind == SavedKind::Plain) h = mixed(h, reinterpret_cast<uint64_t>(PyUnicode_Check(v) ? v : as_object(Py_TYPE(v))));
  }
  return h;
}

PyObject* asked_node_name(Node* n) {
  if (n->kind != NodeKind::Op || Py_TYPE(n) != NodeType) return node_name(n);
  PyObject* ask = PyDict_GetItemString(autograd_callbacks, "dress");     // not node_name: nobody has to see the node
  Ref answer(ask ? PyObject_CallOneArg(ask, as_object(n)) : nullptr);
  return answer ? PySequence_GetItem(answer.p, 0) : ask ? nullptr : PyUnicode_FromString("Node");
}

// The names of a node and of the engine at it, one after the other.
uint32_t node_number(Node* n) {
  bool is_op = n->kind == NodeKind::Op && Py_TYPE(n) == NodeType;
  uint64_t key = is_op ? node_key(n) : n->kind == NodeKind::Accumulate ? 1 : 0;
  if (key)
    if (auto found = named_nodes.find(key); found != named_nodes.end()) return found->second;
  KeptError kept;
  Paused paused;
  Ref name(asked_node_name(n));
  if (!name || !PyUnicode_Check(name.p)) {
    PyErr_Clear();
    name = Ref(PyUnicode_FromString("Node"));
  }
  if (is_op) PyList_Append(running->held, n->op);
  Ref around(PyUnicode_FromFormat("autograd::engine::evaluate_function: %U", name.p));
  if (!around) return PyErr_Clear(), 0;
  uint32_t pair = profile_name(around.p);
  uint32_t inner = profile_name(name.p);
  auto number = static_cast<uint32_t>(running->pairs.size());
  running->pairs.emplace_back(pair, inner);
  if (key) named_nodes[key] = number;
  return number;
}

}  // namespace

static void forget_names() {
  for (NamedCall& slot : named_calls) slot = {};
  named_nodes.clear();
  named_kernels.clear();
}

// --- events --------------------------------------------------------------------------------------------------------

Mark profile_begin(uint32_t name, EventKind kind, int64_t sequence) {
  Timeline* line = profile_line();
  if (!line) return {};
  uint32_t row = append(running, line);
  if (row == kNoRow) return {};
  Event& e = line->at(row);
  uint32_t source = running->flags & kRecordSources ? profile_source(running, kind) : 0;
  e = {profile_now(), 0, sequence, {{-1, {source}}}, name, line->open, kind, line->inside, 0, 0, line->module};
  line->open = row;
  return {running->id, line, row};
}

void profile_end(const Mark& mark) {
  if (!running || mark.recording != running->id) return;
  Event& e = mark.line->at(mark.row);
  if (e.end) return;
  e.end = profile_now();
  Timeline* line = mark.line;
  uint32_t row = line->open, within = kNoRow;
  for (; row != kNoRow && row > mark.row; row = line->at(row).parent) within = row;
  if (row != mark.row) return;
  // What was begun within it and not ended, as a label in the frame of __enter__, goes on in what is around it.
  if (within == kNoRow) line->open = e.parent;
  else line->at(within).parent = e.parent;
  line->inside = e.around;
}

void profile_add(uint32_t name, EventKind kind, int64_t begin, int64_t end) {
  Timeline* line = profile_line();
  uint32_t row = line ? append(running, line) : kNoRow;
  if (row != kNoRow)
    line->at(row) = {begin, end, -1, {{-1, {0}}}, name, line->open, kind, line->inside, 0, 0, line->module};
}

void profile_memory(const void* address, int64_t bytes, int64_t total, Device device) {
  Mine& me = mine;
  Recording* r = running;
  if (!r || !(r->flags & kRecordMemory)) return;
  if (me.recording != r->id && PyGILState_Check()) profile_line();
  Timeline* line = me.recording == r->id ? me.line : nullptr;
  if (!line) return;
  line->writing.store(true);
  if (running == r) {
    uint32_t row = append(r, line);
    if (row != kNoRow) {
      Event& e = line->at(row);
      e = {profile_now(), static_cast<int64_t>(reinterpret_cast<intptr_t>(address)), bytes, {}, 0, line->open,
           EventKind::Memory, 0, device.type, device.index, 0};
      e.total = total;
    }
  }
  line->writing.store(false);
}

void record_stretch(Recorded* r, uint32_t name, EventKind kind, int64_t sequence, int inside) {
  r->mark = profile_begin(name, kind, sequence);
  if (r->mark.recording && inside >= 0) r->mark.line->inside = static_cast<uint8_t>(inside);
}

// As PyTorch's: calls with tensors carry the number of the node that the next recorded call will get.
static int64_t call_sequence(PyObject* const* args, size_t n) {
  if (!tls.grad_enabled || tls.inference) return -1;
  for (size_t i = 0; i < n; i++) {
    PyObject* o = args[i];
    if ((PyTuple_Check(o) || PyList_Check(o)) && PySequence_Fast_GET_SIZE(o)) o = PySequence_Fast_GET_ITEM(o, 0);
    if (is_tensor(o)) return static_cast<int64_t>(tape_sequence());
  }
  return -1;
}

static void begin_call(Recorded* r, uint32_t name, bool own, PyObject* callee, PyObject* site, PyObject* const* args,
                       size_t n, PyObject* out) {
  bool shapes = running->flags & kRecordShapes;
  if (!callee && shapes) callee = PyList_GET_ITEM(running->names, name);
  int32_t inputs = shapes ? profile_inputs(running, callee, site, args, n, out) : -1;
  uint8_t facts = name < running->facts.size() ? running->facts[name] : 0;
  int64_t sequence = facts & kNoSequence ? -1 : call_sequence(args, n);
  record_stretch(r, name, own ? EventKind::Inner : EventKind::Op, sequence, facts & kUsers ? 0 : 1);
  if (r->mark.recording) r->mark.line->at(r->mark.row).inputs = inputs;
}

void record_op(Recorded* r, Overload* op, PyObject* site, PyObject** args, PyObject* out) {
  Timeline* line = profile_line();
  if (!line) return;
  bool own = line->inside || tls.in_rule;
  if (own) site = nullptr;
  Naming naming = own ? Naming::Own : out ? Naming::WithOut : Naming::Program;
  uint32_t name = call_name(op, site, naming);
  if (__builtin_expect(name == kVaries, 0)) {
    Ref given(args_tuple(op, args));
    if (!given) return PyErr_Clear();
    name = name_number(op, site, naming, given.p);
  }
  if (name != kHidden) begin_call(r, name, own, as_object(op), site, args, op->params->size(), out);
}

void record_method(Recorded* r, const char* literal, PyObject* const* args, size_t count) {
  Timeline* line = profile_line();
  if (!line) return;
  bool own = line->inside || tls.in_rule;
  begin_call(r, call_name(literal, nullptr, own ? Naming::OwnMethod : Naming::Method), own, nullptr, nullptr, args, count,
             nullptr);
}

void record_function(Recorded* r, PyObject* function, PyObject* args) {
  Timeline* line = profile_line();
  if (!line || line->inside || tls.in_rule) return;
  uint32_t name = call_name(function, nullptr, Naming::Function);
  if (name == kVaries) name = name_number(function, nullptr, Naming::Function, args);
  if (name != kHidden)
    begin_call(r, name, false, function, nullptr, &PyTuple_GET_ITEM(args, 0),
               static_cast<size_t>(PyTuple_GET_SIZE(args)), nullptr);
}

void record_named(Recorded* r, PyObject* name, PyObject* args) {
  if (!profile_line()) return;
  uint32_t number = profile_name(name);
  note_facts(number, name);
  begin_call(r, number, false, nullptr, nullptr, &PyTuple_GET_ITEM(args, 0), static_cast<size_t>(PyTuple_GET_SIZE(args)),
             nullptr);
}

void record_plan(Recorded* r, Overload* op) {
  if (!profile_line()) return;
  Ref name(PyUnicode_FromFormat("rushlight::plan: %U", op->name));
  if (!name) return PyErr_Clear();
  record_stretch(r, profile_name(name.p), EventKind::Compile, -1, 1);
}

static uint32_t kernel_number(const void* kernel) {
  if (auto found = named_kernels.find(kernel); found != named_kernels.end()) return found->second;
  KeptError kept;
  Paused paused;
  PyObject* ask = PyDict_GetItemString(autograd_callbacks, "kernel_name");
  Ref address(PyLong_FromVoidPtr(const_cast<void*>(kernel)));
  Ref name(ask && address ? PyObject_CallOneArg(ask, address.p) : nullptr);
  if (!name || !PyUnicode_Check(name.p)) PyErr_Clear();
  return named_kernels[kernel] = name && PyUnicode_Check(name.p) ? profile_name(name.p) : profile_text("kernel");
}

void record_kernel(Recorded* r, const void* kernel) {
  if (!profile_line() || !(running->flags & kRecordKernels)) return;
  record_stretch(r, kernel_number(kernel), EventKind::Kernel, -1, -1);
}

void record_node(Recorded* r, Node* n, bool is_evaluation) {
  if (!profile_line()) return;
  auto [around, inner] = running->pairs[node_number(n)];
  bool users = n->kind == NodeKind::Function || n->kind == NodeKind::Callable;
  int64_t sequence = n->kind == NodeKind::Accumulate ? -1 : static_cast<int64_t>(n->sequence);
  if (is_evaluation) record_stretch(r, around, EventKind::Evaluate, sequence, 0);
  else record_stretch(r, inner, EventKind::Node, sequence, users ? 0 : 1);
  if (r->mark.recording) r->mark.line->at(r->mark.row).forward_thread = n->thread;
}

// --- indices -------------------------------------------------------------------------------------------------------

namespace {

struct IndexStep {
  const char* name;
  Ref args[5];
  int count;
};

// One part of an index as PyTorch applies it to `self` at `dim`; null where nothing is done.
bool index_step(PyObject* self, PyObject* item, bool is_alone, int64_t* dim, IndexStep* step) {
  Tensor* t = as_tensor(self);
  step->args[0] = Ref::borrow(self);
  step->args[1] = Ref(PyLong_FromLongLong(*dim));
  if (item == Py_None || PyBool_Check(item)) return step->name = "aten::unsqueeze", step->count = 2, ++*dim, true;
  bool whole = is_tensor(item) ? as_tensor(item)->ndim == 0 && !is_mask(as_tensor(item)->dtype) : PyIndex_Check(item);
  if (whole) {
    step->args[2] = Ref(PyNumber_Index(item));
    return step->name = "aten::select", step->count = 3, true;
  }
  Py_ssize_t start, stop, by, size = *dim < t->ndim ? t->sizes()[*dim] : 0;
  ++*dim;
  if (!PySlice_Check(item) || PySlice_Unpack(item, &start, &stop, &by)) return false;
  bool all = start == 0 && stop >= size && by == 1 && !is_alone;
  if (stop > size) stop = PY_SSIZE_T_MAX;
  step->args[2] = Ref(PyLong_FromSsize_t(start));
  step->args[3] = Ref(PyLong_FromSsize_t(stop));
  step->args[4] = Ref(PyLong_FromSsize_t(by));
  return step->name = "aten::slice", step->count = 5, !all;
}

int64_t dims_of(PyObject* item) {
  if (item == Py_None || item == Py_Ellipsis || PyBool_Check(item)) return 0;
  return is_tensor(item) && is_mask(as_tensor(item)->dtype) ? as_tensor(item)->ndim : 1;
}

}  // namespace

void record_index(Tensor* t, PyObject* index, int64_t begin) {
  Timeline* line = profile_line();
  if (!line || line->inside || tls.in_rule) return;
  KeptError kept;
  Paused paused;
  int64_t now = profile_now();
  Ref items(is_tuple_like(index) ? PySequence_Tuple(index) : PyTuple_Pack(1, index)), self = Ref::borrow(as_object(t));
  if (!items) return PyErr_Clear();
  Py_ssize_t n = PyTuple_GET_SIZE(items.p);
  int64_t rest = t->ndim, dim = 0;
  for (Py_ssize_t i = 0; i < n; i++) rest -= dims_of(PyTuple_GET_ITEM(items.p, i));
  std::vector<uint32_t> rows;
  bool shapes = running->flags & kRecordShapes, tensors = false;
  auto write = [&](const IndexStep& step) {
    PyObject* args[5];
    for (int k = 0; k < step.count; k++) args[k] = step.args[k].p;
    uint32_t name = call_name(step.name, nullptr, Naming::Method);
    int32_t inputs = shapes ? profile_inputs(running, PyList_GET_ITEM(running->names, name), nullptr, args,
                                             static_cast<size_t>(step.count), nullptr) : -1;
    uint32_t row = append(running, line);
    if (row == kNoRow) return;
    line->at(row) = {begin, now, call_sequence(args, 1), {{inputs, 0}}, name, line->open, EventKind::Op, 0, 0, 0, line->module};
    rows.push_back(row);
  };
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject* item = PyTuple_GET_ITEM(items.p, i);
    IndexStep step;
    if (item == Py_Ellipsis) {
      dim += rest;
      continue;
    }
    bool is_sequence = !is_tensor(item) && !PyIndex_Check(item) && PySequence_Check(item);
    if (is_sequence || (is_tensor(item) && (as_tensor(item)->ndim || is_mask(as_tensor(item)->dtype)))) {
      tensors = true;
      dim += is_sequence ? 1 : dims_of(item);
      continue;
    }
    int64_t at = dim;
    if (!index_step(self.p, item, item == index, &dim, &step)) continue;
    write(step);
    // What the next step applies to.
    Ref part(PyTuple_New(at + 1)), all(PySlice_New(nullptr, nullptr, nullptr));
    for (int64_t k = 0; part && all && k < at; k++) PyTuple_SET_ITEM(part.p, k, Py_NewRef(all.p));
    if (!part || !all) return PyErr_Clear();
    PyTuple_SET_ITEM(part.p, at, Py_NewRef(item));
    GradModeGuard no_grad(false);
    if (i + 1 < n) self = Ref(PyObject_GetItem(self.p, part.p));
    if (!self) return PyErr_Clear();
  }
  if (rows.empty() && !tensors) {
    IndexStep step;
    step.name = "aten::alias", step.args[0] = Ref::borrow(as_object(t)), step.count = 1;
    write(step);
  }
  // They were one step, whose time they share.
  int64_t each = rows.empty() ? 0 : (now - begin) / static_cast<int64_t>(rows.size());
  for (size_t k = 0; k < rows.size(); k++) {
    line->at(rows[k]).begin = begin + static_cast<int64_t>(k) * each;
    line->at(rows[k]).end = k + 1 == rows.size() ? now : begin + static_cast<int64_t>(k + 1) * each;
  }
}

int init_profile(PyObject*) { return pthread_atfork(nullptr, nullptr, after_fork_in_child) ? -1 : 0; }

}  // namespace rl

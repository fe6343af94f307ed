// Timelines, names, begin and end of events. What Python sees of it is in extras/profile_face.cpp.
#include "profile.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <new>
#include <thread>
#include <unordered_map>

#include "second_module.h"
#include "tape.h"

namespace rl {

std::atomic<uint32_t> profile_key{0};

namespace {

Recording* running;              // the recording, paused or not
uint64_t last_id;
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
  line->order = static_cast<uint32_t>(r->timelines.size()) + 1;
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
  if (!r->names || !r->numbers || !r->held || !r->inputs.shown) return profile_free(r), nullptr;
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

namespace {

// What an op is called depends on the overload, on how it was spelled (`1 - x`) and on who calls it.
struct NamedCall {
  Overload* op = nullptr;
  PyObject* site = nullptr;
  uint32_t form = 0;             // 0 the program's, 1 with out=, 2 an op's own
  uint32_t number = 0;
};
constexpr size_t kNamedCalls = 1024;
NamedCall named_calls[kNamedCalls];       // of the recording that runs; what it points to is held by it

std::unordered_map<uint64_t, uint32_t> named_nodes;     // by what a node's name depends on

uint64_t mixed(uint64_t h, uint64_t word) {
  h = (h ^ word) * 0x9E3779B97F4A7C15ull;
  return h ^ (h >> 29);
}

PyObject* asked_name(Overload* op, PyObject* site, uint32_t form) {
  if (form == 2) return PyUnicode_FromFormat("rushlight::%U", op->name);
  PyObject* ask = PyDict_GetItemString(autograd_callbacks, "call_name");
  if (!ask) return PyUnicode_FromFormat("aten::%U", op->name);
  return PyObject_CallFunctionObjArgs(ask, as_object(op), site ? site : Py_None, form ? Py_True : Py_False, nullptr);
}

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

uint32_t call_name(Overload* op, PyObject* site, uint32_t form) {
  uint64_t h = mixed(mixed(form, reinterpret_cast<uint64_t>(op)), reinterpret_cast<uint64_t>(site));
  NamedCall& slot = named_calls[h % kNamedCalls];
  if (__builtin_expect(slot.op == op && slot.site == site && slot.form == form, 1)) return slot.number;
  KeptError kept;
  Paused paused;
  Ref name(asked_name(op, site, form));
  if (!name || !PyUnicode_Check(name.p)) {
    PyErr_Clear();
    name = Ref(PyUnicode_FromFormat("rushlight::%U", op->name));
  }
  if (!name || PyList_Append(running->held, as_object(op)) || (site && PyList_Append(running->held, site)))
    return PyErr_Clear(), profile_text("?");
  uint32_t number = profile_name(name.p);
  slot = {op, site, form, number};
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
}

// --- events --------------------------------------------------------------------------------------------------------

Mark profile_begin(uint32_t name, EventKind kind, int64_t sequence) {
  Timeline* line = profile_line();
  if (!line) return {};
  uint32_t row = append(running, line);
  if (row == kNoRow) return {};
  Event& e = line->at(row);
  e = {profile_now(), 0, sequence, {{-1, 0}}, name, line->open, kind, 0, 0, line->module};
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
}

void profile_add(uint32_t name, EventKind kind, int64_t begin, int64_t end) {
  Timeline* line = profile_line();
  uint32_t row = line ? append(running, line) : kNoRow;
  if (row != kNoRow) line->at(row) = {begin, end, -1, {{-1, 0}}, name, line->open, kind, 0, 0, line->module};
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
           EventKind::Memory, device.type, device.index, 0};
      e.total = total;
    }
  }
  line->writing.store(false);
}

void record_stretch(Recorded* r, uint32_t name, EventKind kind, int64_t sequence, int inside) {
  r->mark = profile_begin(name, kind, sequence);
  if (!r->mark.recording) return;
  r->inside = r->mark.line->inside;
  if (inside >= 0) r->mark.line->inside = inside;
}

void record_op(Recorded* r, Overload* op, PyObject* site, PyObject** args, PyObject* out) {
  Timeline* line = profile_line();
  if (!line) return;
  bool own = line->inside || tls.in_rule;
  uint32_t name = call_name(op, own ? nullptr : site, own ? 2 : out ? 1 : 0);
  int32_t inputs = running->flags & kRecordShapes ? profile_inputs(running, op, site, args, out) : -1;
  int64_t sequence = tls.grad_enabled ? static_cast<int64_t>(tape_sequence()) : -1;
  record_stretch(r, name, own ? EventKind::Inner : EventKind::Op, sequence, 1);
  if (r->mark.recording) line->at(r->mark.row).inputs = inputs;
}

void record_node(Recorded* r, Node* n, bool is_evaluation) {
  if (!profile_line()) return;
  auto [around, inner] = running->pairs[node_number(n)];
  bool users = n->kind == NodeKind::Function || n->kind == NodeKind::Callable;
  int64_t sequence = n->kind == NodeKind::Accumulate ? -1 : static_cast<int64_t>(n->sequence);
  if (is_evaluation) record_stretch(r, around, EventKind::Evaluate, sequence, 0);
  else record_stretch(r, inner, EventKind::Node, sequence, users ? 0 : 1);
}

void record_end(Recorded* r) {
  if (running && r->mark.recording == running->id) r->mark.line->inside = r->inside;
  profile_end(r->mark);
}

// --- arguments -----------------------------------------------------------------------------------------------------

namespace {

enum Word : uint64_t { kTensor = 1, kNone, kInt, kFloat, kBool, kComplex, kText, kList, kDevice, kObject, kDeep };

struct Words {
  std::vector<uint64_t>& all;
  void put(uint64_t w) { all.push_back(w); }

  void tensor(Tensor* t) {
    put(kTensor | static_cast<uint64_t>(t->dtype) << 8 | static_cast<uint64_t>(t->ndim) << 16 |
        static_cast<uint64_t>(t->keys & (kKeySubclass | kKeyFunctorch)) << 32 | static_cast<uint64_t>(t->device.type) << 48);
    for (int i = 0; i < t->ndim; i++) put(static_cast<uint64_t>(t->sizes()[i]));
    for (int i = 0; i < t->ndim; i++) put(static_cast<uint64_t>(t->strides()[i]));
  }
  void text(PyObject* o) {
    Py_ssize_t size;
    const char* p = PyUnicode_AsUTF8AndSize(o, &size);
    if (!p) return PyErr_Clear(), put(kObject);
    put(kText | static_cast<uint64_t>(size) << 8);
    for (Py_ssize_t i = 0; i < size; i += 8) {
      uint64_t w = 0;
      memcpy(&w, p + i, static_cast<size_t>(size - i < 8 ? size - i : 8));
      put(w);
    }
  }
  void list(PyObject* o, int depth) {
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    put(kList | static_cast<uint64_t>(n) << 8);
    for (Py_ssize_t i = 0; i < n; i++) value(PySequence_Fast_ITEMS(o)[i], depth + 1);
  }
  void value(PyObject* o, int depth = 0) {
    uint64_t bits = 0;
    if (is_tensor(o)) tensor(as_tensor(o));
    else if (o == Py_None) put(kNone);
    else if (PyBool_Check(o)) put(kBool | (o == Py_True ? 256 : 0));
    else if (PyLong_CheckExact(o)) put(kInt), put(PyLong_AsUnsignedLongLongMask(o));
    else if (PyFloat_CheckExact(o)) {
      double d = PyFloat_AS_DOUBLE(o);
      memcpy(&bits, &d, 8);
      put(kFloat), put(bits);
    } else if (PyUnicode_CheckExact(o)) text(o);
    else if ((PyTuple_Check(o) || PyList_Check(o)) && depth < 4) list(o, depth);
    else if (is_device(o)) {
      auto* d = reinterpret_cast<DeviceObject*>(o);
      put(kDevice | static_cast<uint64_t>(d->device.type) << 8 | static_cast<uint64_t>(d->device.index) << 16 |
          static_cast<uint64_t>(d->has_index) << 24);
    } else if (is_dtype(o)) put(kObject), put(reinterpret_cast<uint64_t>(o));
    else put(kObject), put(reinterpret_cast<uint64_t>(Py_TYPE(o)));
  }
};

// What is kept of an argument for Python: (sizes, strides, dtype, class) of a tensor, values as they are, the type of
// anything else. New reference.
PyObject* kept_value(PyObject* o, int depth = 0) {
  if (is_tensor(o)) {
    Tensor* t = as_tensor(o);
    Ref sizes(int_tuple(t->sizes(), t->ndim)), strides(int_tuple(t->strides(), t->ndim)), device(device_object(t->device));
    if (!sizes || !strides || !device) return nullptr;
    PyObject* parts[] = {sizes.p, strides.p, dtype_object(t->dtype), device.p, as_object(Py_TYPE(o))};
    Ref made(PyList_New(5));      // a list: no argument that is kept as it is is one
    for (int i = 0; made && i < 5; i++) PyList_SET_ITEM(made.p, i, Py_NewRef(parts[i]));
    return made.release();
  }
  if ((PyTuple_Check(o) || PyList_Check(o)) && depth < 4) {
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    Ref made(PyTuple_New(n));
    for (Py_ssize_t i = 0; made && i < n; i++) {
      PyObject* item = kept_value(PySequence_Fast_ITEMS(o)[i], depth + 1);
      if (!item) return nullptr;
      PyTuple_SET_ITEM(made.p, i, item);
    }
    return made.release();
  }
  bool plain = o == Py_None || PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) ||
               PyUnicode_CheckExact(o) || is_device(o) || is_dtype(o);
  return Py_NewRef(plain ? o : as_object(Py_TYPE(o)));
}

// (overload, op as spelled, values, out)
PyObject* kept_call(Overload* op, PyObject* site, PyObject** args, PyObject* out) {
  size_t n = op->params->size();
  Ref values(PyTuple_New(static_cast<Py_ssize_t>(n))), given(kept_value(out ? out : Py_None));
  for (size_t i = 0; values && i < n; i++) {
    PyObject* item = kept_value(args[i]);
    if (!item) return nullptr;
    PyTuple_SET_ITEM(values.p, static_cast<Py_ssize_t>(i), item);
  }
  if (!values || !given) return nullptr;
  return PyTuple_Pack(4, as_object(op), site ? site : Py_None, values.p, given.p);
}

void grow_slots(InputTable& table) {
  size_t size = table.slots.empty() ? 256 : table.slots.size() * 2;
  table.slots.assign(size, 0);
  for (uint32_t row = 0; row < table.rows.size(); row++) {
    auto [start, count] = table.rows[row];
    uint64_t h = 0;
    for (size_t i = 0; i < count; i++) h = mixed(h, table.words[start + i]);
    size_t at = h & (size - 1);
    while (table.slots[at]) at = (at + 1) & (size - 1);
    table.slots[at] = row + 1;
  }
}

}  // namespace

int32_t profile_inputs(Recording* r, Overload* op, PyObject* site, PyObject** args, PyObject* out) {
  InputTable& table = r->inputs;
  size_t start = table.words.size();
  Words words{table.words};
  words.put(reinterpret_cast<uint64_t>(op));
  words.put(reinterpret_cast<uint64_t>(site));
  for (size_t i = 0; i < op->params->size(); i++) words.value(args[i]);
  if (out) words.value(out);
  size_t count = table.words.size() - start;
  uint64_t h = 0;
  for (size_t i = 0; i < count; i++) h = mixed(h, table.words[start + i]);
  if (table.rows.size() * 2 >= table.slots.size()) grow_slots(table);
  size_t mask = table.slots.size() - 1, at = h & mask;
  for (; table.slots[at]; at = (at + 1) & mask) {
    auto [first, length] = table.rows[table.slots[at] - 1];
    if (length == count && !memcmp(&table.words[first], &table.words[start], count * 8)) {
      table.words.resize(start);
      return static_cast<int32_t>(table.slots[at] - 1);
    }
  }
  KeptError kept;
  Ref shown(kept_call(op, site, args, out));
  if (!shown || PyList_Append(table.shown, shown.p)) return PyErr_Clear(), table.words.resize(start), -1;
  table.rows.emplace_back(start, count);
  table.slots[at] = static_cast<uint32_t>(table.rows.size());
  return static_cast<int32_t>(table.rows.size() - 1);
}

int init_profile(PyObject*) { return pthread_atfork(nullptr, nullptr, after_fork_in_child) ? -1 : 0; }

}  // namespace rl

// The program's stack in a recording. The interpreter tells when frames and functions of C begin and end, by the C
// interface of `sys.setprofile`; calls of modules tell themselves (quick_module.cpp). Per call a clock is read and a
// number written: names are made at first sight of a code object, a function or a module.
//
// Which frames: those of the program and of what it calls, ours included (nn/functional.py), while no op runs
// (Timeline::inside is 0): how an op plans its work is no part of the program. So is what our rooms below the ops and
// the compiler do, with all they call; and the profiler's own frames, whose callees may be the program's (Whose). Frames
// that a recording finds when it starts begin where it does. A thread takes part from its first event on. Everything
// holds the interpreter lock.
#include "profile_stack.h"

#include <frameobject.h>

#include <string>
#include <unordered_map>

#include "boundary.h"
#include "core.h"
#include "quick_module.h"

namespace rl {

namespace {

constexpr uint32_t kUnseen = ~0u;        // a name that stands for: not recorded
constexpr int kNowhere = -2;             // in place of an instruction: only whose file it is

struct Place {                           // where a frame stands when it begins, or goes on
  const PyCodeObject* code;              // held by the recording
  int at;                                // its instruction: generators go on at several
  bool operator==(const Place& o) const { return code == o.code && at == o.at; }
};
struct PlaceHash {
  size_t operator()(const Place& p) const {
    uint64_t h = (reinterpret_cast<uint64_t>(p.code) >> 4 ^ static_cast<uint64_t>(p.at) << 48) * 0x9E3779B97F4A7C15ull;
    return h ^ h >> 32;
  }
};

enum class Whose : uint8_t {
  Program,
  ModuleCall,                            // nn.Module.__call__ itself, which a program called by that name
  Profiler,                              // or the dispatcher: not recorded, nor are the functions of C that it calls
  Inner                                  // not recorded, nor is anything that it calls: but a custom op's own function
};
struct Seen {
  uint32_t name;
  Whose whose;
};

struct KnownModule {
  PyObject* weak;                        // null: the recording holds it
  uint32_t name;
};

struct OpenFrame {
  const void* key;                       // the frame, or one beyond for a function of C that it called
  uint32_t row;
  bool is_module;
  uint32_t around;                       // then: the path of modules outside of it
};

// A thread whose frames are recorded.
struct Watched {
  uint64_t recording = 0;
  unsigned pauses = 0;                   // those it knows of
  Timeline* line = nullptr;
  std::vector<OpenFrame> open;
  std::vector<PyObject*> modules;        // being called, borrowed
  const void* inner = nullptr;           // a frame that runs, within which nothing is recorded
  Py_tracefunc before = nullptr;         // who watched the thread, and is given it back
  PyObject* before_object = nullptr;
};
thread_local Watched here;

// What is known in the recording that runs.
struct Known {
  uint64_t recording = 0;
  uint32_t flags = 0;
  unsigned pauses = 0;
  int64_t paused_at = 0;
  std::unordered_map<Place, Seen, PlaceHash> places;
  std::unordered_map<const void*, uint32_t> functions;           // of C, by their definition
  std::unordered_map<const PyObject*, KnownModule> modules;
  std::unordered_map<const PyTypeObject*, int> counts;           // modules of a class so far
  std::vector<std::string> prefixes;                             // of paths, that names go without; longest first
  std::vector<std::string> own, inner;                           // how paths of files begin: Whose
  std::unordered_map<uint64_t, uint32_t> paths;                  // by path around and module's name: Event::module
};
Known known;
PyObject* watcher;                       // what sys.getprofile() gives meanwhile

constexpr size_t kNear = 1024;
struct {
  Place place;
  Seen seen;
} near_places[kNear];                    // the last seen of each slot

bool takes(uint32_t flags) { return known.recording && (known.flags & flags); }

void hold(PyObject* o) {
  if (PyList_Append(profile_recording()->held, o)) PyErr_Clear();
}

struct KeptError {                       // what the program raised meanwhile
  PyObject *type, *value, *trace;
  KeptError() { PyErr_Fetch(&type, &value, &trace); }
  ~KeptError() { PyErr_Restore(type, value, trace); }
};

// --- names -----------------------------------------------------------------------------------------------------------

// The start that `path` has among some; null where it has none.
const std::string* start_of(const char* path, const std::vector<std::string>& starts) {
  for (const std::string& start : starts)
    if (!strncmp(path, start.c_str(), start.size())) return &start;
  return nullptr;
}

// `file.py(line): function`, the file as programs import it.
Seen first_seen(PyCodeObject* code, int at) {
  KeptError kept;
  hold(reinterpret_cast<PyObject*>(code));
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  if (!file) PyErr_Clear(), file = "?";
  if (start_of(file, known.own)) return {kUnseen, Whose::Profiler};
  if (start_of(file, known.inner)) return {kUnseen, Whose::Inner};
  if (at == kNowhere) return {kUnseen, Whose::Program};
  if (const std::string* start = start_of(file, known.prefixes)) file += start->size();
  int line = PyCode_Addr2Line(code, at);
  Ref name(PyUnicode_FromFormat("%s(%d): %U", file, line < 0 ? code->co_firstlineno : line, code->co_name));
  if (!name) return PyErr_Clear(), Seen{kUnseen, Whose::Profiler};
  bool is_module_call = reinterpret_cast<PyObject*>(code) == module_call_code();
  return {profile_name(name.p), is_module_call ? Whose::ModuleCall : Whose::Program};
}

Seen seen_at(PyCodeObject* code, int at) {
  Place place = {code, at};
  auto& slot = near_places[PlaceHash()(place) % kNear];
  if (__builtin_expect(slot.place == place, 1)) return slot.seen;
  auto found = known.places.find(place);
  if (found == known.places.end()) found = known.places.emplace(place, first_seen(code, at)).first;
  slot = {place, found->second};
  return found->second;
}

// `<built-in function len>`, `<built-in method append of list object at 0x...>`: of the first that was seen.
uint32_t name_of_function(PyObject* function) {
  const void* key = PyCFunction_Check(function)
                        ? static_cast<const void*>(reinterpret_cast<PyCFunctionObject*>(function)->m_ml) : function;
  auto found = known.functions.find(key);
  if (found != known.functions.end()) return found->second;
  KeptError kept;
  hold(function);
  Ref name(PyObject_Repr(function));
  if (!name) PyErr_Clear();
  return known.functions[key] = name ? profile_name(name.p) : kUnseen;
}

// What `parent` calls `child`: `layers.0`. False where it is none of its own.
bool find_child(PyObject* parent, PyObject* child, std::string* path, int depth = 0) {
  Ref attributes(PyObject_GenericGetDict(parent, nullptr));
  PyObject* children =
      attributes && PyDict_Check(attributes.p) ? PyDict_GetItemString(attributes.p, "_modules") : nullptr;
  if (!children || !PyDict_Check(children)) return PyErr_Clear(), false;
  PyObject *key, *value;
  Py_ssize_t place = 0;
  while (PyDict_Next(children, &place, &key, &value)) {
    const char* name = PyUnicode_Check(key) ? PyUnicode_AsUTF8(key) : nullptr;
    if (!name || value == Py_None) continue;
    std::string below;
    if (value != child && (depth >= 8 || !find_child(value, child, &below, depth + 1))) continue;
    *path = below.empty() ? name : std::string(name) + "." + below;
    return true;
  }
  return false;
}

bool is_alive(const KnownModule& entry, PyObject* module) {
  if (!entry.weak) return true;
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* still = nullptr;
  if (PyWeakref_GetRef(entry.weak, &still) < 0) PyErr_Clear();
  Py_XDECREF(still);
  return still == module;
#else
  return PyWeakref_GetObject(entry.weak) == module;
#endif
}

// A module, as it is called for the first time. Null where there is no memory for its name.
const KnownModule* known_module(PyObject* module) {
  auto found = known.modules.find(module);
  if (found != known.modules.end() && is_alive(found->second, module)) return &found->second;
  KeptError kept;
  PyTypeObject* type = Py_TYPE(module);
  if (!known.counts[type]) hold(reinterpret_cast<PyObject*>(type));
  Ref cls(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__name__"));
  Ref name(cls ? PyUnicode_FromFormat("nn.Module: %U_%d", cls.p, known.counts[type]++) : nullptr);
  if (!name) return PyErr_Clear(), nullptr;
  PyObject* weak = PyWeakref_NewRef(module, nullptr);
  if (!weak) PyErr_Clear(), hold(module);
  KnownModule& entry = known.modules[module];
  Py_XDECREF(entry.weak);
  entry = {weak, profile_name(name.p)};
  return &entry;
}

// The path that `module` is at, called within `around`: `TOP(Net)::forward.layers.0(Linear)::forward.`; 0 on failure.
uint32_t path_of(PyObject* module, uint32_t around) {
  KeptError kept;
  std::string child = around ? "" : "TOP";
  if (around && !here.modules.empty()) find_child(here.modules.back(), module, &child);
  Ref outside(around ? Py_NewRef(PyList_GET_ITEM(profile_recording()->names, around - 1)) : PyUnicode_FromString(""));
  Ref cls(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(module)), "__name__"));
  Ref text(outside && cls ? PyUnicode_FromFormat("%U%s(%U)::forward.", outside.p, child.c_str(), cls.p) : nullptr);
  if (!text) return PyErr_Clear(), 0;
  return profile_name(text.p) + 1;
}

// Events that begin now are within `module`. What they were within before, for leave_module.
uint32_t enter_module(Timeline* line, PyObject* module, uint32_t name) {
  uint32_t around = line->module;
  if (known.flags & kRecordModules) {
    uint32_t& path = known.paths[static_cast<uint64_t>(around) << 32 | name];
    if (!path) path = path_of(module, around);
    line->module = path;
  }
  here.modules.push_back(module);
  return around;
}

void leave_module(Timeline* line, uint32_t around) {
  line->module = around;
  if (!here.modules.empty()) here.modules.pop_back();
}

// --- frames ----------------------------------------------------------------------------------------------------------

const void* beyond(PyFrameObject* frame) { return reinterpret_cast<const char*>(frame) + 1; }

void open_frame(const void* key, uint32_t name, EventKind kind) {
  if (name == kUnseen) return;
  Mark mark = profile_begin(name, kind);
  if (mark.recording) here.open.push_back({key, mark.row, false, 0});
}

void open_module(const void* key, PyObject* module) {
  const KnownModule* found = known_module(module);
  Mark mark = found ? profile_begin(found->name, EventKind::Module) : Mark{};
  if (!mark.recording) return;
  here.open.push_back({key, mark.row, true, enter_module(here.line, module, found->name)});
}

void close_last() {
  OpenFrame& last = here.open.back();
  profile_end({known.recording, here.line, last.row});
  if (last.is_module) leave_module(here.line, last.around);
  here.open.pop_back();
}

// Ends the frame, and what was begun within it and did not end. Nothing where it was not recorded.
void close_frame(const void* key) {
  auto& open = here.open;
  size_t at = open.size();
  while (at && open[at - 1].key != key) at--;
  if (!at) return;
  while (open.size() >= at) close_last();
}

PyObject* self_of(PyFrameObject* frame) {      // borrowed: the frame keeps it
  Ref locals(PyFrame_GetLocals(frame));
  PyObject* self = locals ? PyMapping_GetItemString(locals.p, "self") : nullptr;
  if (!self) return PyErr_Clear(), nullptr;
  Py_DECREF(self);
  return self;
}

Seen seen_in(PyFrameObject* frame, int at) {
  PyCodeObject* code = PyFrame_GetCode(frame);
  Seen seen = seen_at(code, at);
  Py_DECREF(code);
  return seen;
}

// Whether the innermost event is an op whose body is the program's.
bool runs_programs_op() {
  Timeline* line = here.line;
  return line->open != kNoRow && line->at(line->open).kind == EventKind::Op;
}

void begin_frame(PyFrameObject* frame) {
  Seen seen = seen_in(frame, PyFrame_GetLasti(frame));
  if (__builtin_expect(seen.whose == Whose::Inner, 0) && !runs_programs_op()) here.inner = frame;
  PyObject* module = __builtin_expect(seen.whose == Whose::ModuleCall, 0) ? self_of(frame) : nullptr;
  if (module) open_module(frame, module);
  else open_frame(frame, seen.name, EventKind::Python);
}

void begin_function(PyFrameObject* caller, PyObject* function) {
  if (function && seen_in(caller, kNowhere).whose == Whose::Program)
    open_frame(beyond(caller), name_of_function(function), EventKind::PythonCall);
}

// The frames that are there already, outermost first.
void open_stack() {
  std::vector<PyFrameObject*> frames;
  auto* frame = PyEval_GetFrame();
  for (Py_XINCREF(frame); frame; frame = PyFrame_GetBack(frame)) frames.push_back(frame);
  for (size_t i = frames.size(); i-- && !here.inner;) begin_frame(frames[i]);
  for (PyFrameObject* one : frames) Py_DECREF(one);
}

// After a pause: what was open ended with it, and what is there now begins.
void go_on() {
  here.pauses = known.pauses;
  here.inner = nullptr;
  while (!here.open.empty()) {
    uint32_t row = here.open.back().row;
    close_last();
    here.line->at(row).end = known.paused_at;
  }
  open_stack();
}

// --- threads ---------------------------------------------------------------------------------------------------------

void put_in() {
  PyThreadState* state = PyThreadState_Get();
  if (state->c_profilefunc == watch_frame) return;
  here.before = state->c_profilefunc;
  Py_XSETREF(here.before_object, Py_XNewRef(state->c_profileobj));
  PyEval_SetProfile(watch_frame, watcher);
}

// Gives the thread back to who watched it; unless another does by now.
void take_out() {
  if (PyThreadState_Get()->c_profilefunc == watch_frame) PyEval_SetProfile(here.before, here.before_object);
  Py_CLEAR(here.before_object);
  here.before = nullptr;
  here.recording = 0;
}

void join() {
  here.recording = known.recording;
  here.pauses = known.pauses;
  here.line = profile_line();
  here.open.clear();
  here.modules.clear();
  here.inner = nullptr;
}

// This thread has begun to take part.
void watch_thread() {
  if (!takes(kRecordStack) || here.recording == known.recording) return;
  join();
  if (!here.line) return;
  open_stack();
  put_in();
}

void see(PyFrameObject* frame, int what, PyObject* arg) {
  if (here.pauses != known.pauses) {
    go_on();
    if (what == PyTrace_CALL) return;      // it is on the stack that was just opened
  }
  if (here.inner) {
    bool is_over = what == PyTrace_RETURN && (frame == here.inner || (!here.open.empty() && here.open.back().key == frame));
    if (!is_over) return;
    here.inner = nullptr;
  }
  if (what == PyTrace_CALL) begin_frame(frame);
  else if (what == PyTrace_RETURN) close_frame(frame);
  else if (what == PyTrace_C_CALL) begin_function(frame, arg);
  else if (what == PyTrace_C_RETURN || what == PyTrace_C_EXCEPTION) close_frame(beyond(frame));
}

void forget() {
  known.recording = 0;
  known.places.clear();
  known.functions.clear();
  for (auto& [module, entry] : known.modules) Py_XDECREF(entry.weak);
  known.modules.clear();
  known.paths.clear();
  known.counts.clear();
  known.prefixes.clear();
  known.own.clear();
  known.inner.clear();
  for (auto& slot : near_places) slot = {};
}

bool read_texts(PyObject* tuple, std::vector<std::string>* texts) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
    const char* text = PyUnicode_AsUTF8(PyTuple_GET_ITEM(tuple, i));
    if (!text) return false;
    texts->push_back(text);
  }
  return true;
}

// Asks Python which parts of paths names go without, and which files are the profiler's own.
bool read_paths() {
  PyObject* ask = PyDict_GetItemString(autograd_helpers(), "frame_paths");
  if (!ask) return true;
  Ref answer(PyObject_CallNoArgs(ask));
  PyObject *prefixes, *own, *inner, *tuple = reinterpret_cast<PyObject*>(&PyTuple_Type);
  if (!answer || !PyArg_ParseTuple(answer.p, "O!O!O!", tuple, &prefixes, tuple, &own, tuple, &inner)) return false;
  return read_texts(prefixes, &known.prefixes) && read_texts(own, &known.own) && read_texts(inner, &known.inner);
}

// --- for Python ------------------------------------------------------------------------------------------------------

// Who takes the interpreter's calls for a while (the compiler does) asks for them to come here again.
PyObject* enable(PyObject*, PyObject*) {
  bool is_watched = takes(kRecordStack) && here.recording == known.recording;
  PyEval_SetProfile(is_watched ? watch_frame : nullptr, is_watched ? watcher : nullptr);
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {{"enable", guarded<enable>, METH_NOARGS, "record frames of this thread again"}, {}};
PyType_Slot slots[] = {{Py_tp_methods, methods},
                       {Py_tp_doc, const_cast<char*>("What sys.getprofile() gives while the profiler records frames.")},
                       {}};
PyType_Spec spec = {"rushlight._FrameRecorder", sizeof(PyObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

}  // namespace

int watch_frame(PyObject*, PyFrameObject* frame, int what, PyObject* arg) {
  if (__builtin_expect(!is_recording(), 0)) {      // paused, or over
    if (!profile_recording() || here.recording != known.recording) take_out();
    return 0;
  }
  if (__builtin_expect(here.recording != known.recording, 0)) return take_out(), 0;
  if (here.line->inside) return 0;
  try {
    see(frame, what, arg);
  } catch (const std::bad_alloc&) {      // the frame is not recorded; the program goes on
  }
  return 0;
}

bool stacks_start(uint32_t flags) {
  forget();
  if (!(flags & (kRecordStack | kRecordModules))) return true;
  if (!read_paths()) return false;
  known.recording = profile_recording()->id;
  known.flags = flags;
  Py_tracefunc before = PyThreadState_Get()->c_profilefunc;
  if ((flags & kRecordStack) && before && before != watch_frame &&
      PyErr_WarnEx(PyExc_UserWarning,
                   "with_stack: another profiler is set (sys.setprofile). It sees no calls of this thread until the "
                   "recording ends; then it is set again.", 1))
    return false;
  watch_thread();
  return true;
}

void stacks_toggle(bool on) {
  if (!takes(kRecordStack)) return;
  if (!on) known.paused_at = profile_now();
  else known.pauses++;
}

void stacks_stop() {
  if (here.recording) take_out();
  forget();
}

ModuleCall::ModuleCall(PyObject* module) {
  if (!takes(kRecordStack | kRecordModules)) return;
  Timeline* mine = profile_line();
  if (!mine || mine->inside) return;
  if (here.recording != known.recording) join();
  const KnownModule* found = known_module(module);
  if (!found) return;
  mark = known.flags & kRecordStack ? profile_begin(found->name, EventKind::Module) : Mark{known.recording};
  if (!mark.recording) return;
  line = mine;
  around = enter_module(line, module, found->name);
}

ModuleCall::~ModuleCall() {
  if (!mark.recording || mark.recording != known.recording || mark.recording != here.recording) return;
  leave_module(line, around);
  if (mark.line) profile_end(mark);
}

int init_profile_stack(PyObject*) {
  Ref type(PyType_FromSpec(&spec));
  if (!type) return -1;
  watcher = PyType_GenericAlloc(reinterpret_cast<PyTypeObject*>(type.p), 0);
  for_core().watch_thread = watch_thread;
  return watcher ? 0 : -1;
}

}  // namespace rl

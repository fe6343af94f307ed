// CompiledCallable: a function that runs what was compiled for its arguments. A call is bound to the function's
// parameters as one flat array of locals; the entries' guards are asked, the last one that held first; the entry's
// function gets the locals, all positional. Where no guards hold, Python is asked (rushlight/dynamo/convert.py). Code
// that ended a graph early returns a TailCall: what is to be called next, from here, so that loops do not pile up
// frames. Everything holds the interpreter lock.
#include <algorithm>
#include <memory>
#include <vector>

#include "boundary.h"
#include "frame_hook.h"
#include "guards.h"
#include "profile.h"

#include <structmember.h>

#if PY_VERSION_HEX >= 0x030d0000      // exported still, but for its own modules only
extern "C" int _PyTraceback_Add(const char* function, const char* file, int line);
#endif

namespace rl {

namespace {

// A function that only calls a graph, and returns one of its results, is left out where the guards know the inputs.
struct Direct {
  Ref graph;                 // called with the list of its inputs; null: there is none
  std::vector<int> inputs;   // each a node of the guards, or ~k for the local k
  Py_ssize_t result = 0;
};

struct Entry {
  Ref tree, function;
  std::shared_ptr<const Direct> direct;
  int number = 0;            // of the function's entries, in the order in which they were made
};

struct Compiled {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject* function;        // the original
  PyObject* parameters;      // names of the flat locals
  PyObject* on_miss;         // on_miss(self, locals, called): a function to run on them, or None: the one called runs
  PyObject* on_frame;        // asked about frames that the original enters as it is (frame_hook.h); null: they are its own
  std::vector<Entry>* entries;
  PyObject* dict;
  PyObject* weakrefs;
  int positional, keyword;   // how many parameters of each kind
  int positional_only;
  bool varargs, varkw;
  int number;                // among functions that were compiled; -1 until then
  int num_made;              // of its entries
  bool as_is;                // never compiled: calls go to the original
};

struct TailCall {
  PyObject_VAR_HEAD
  PyObject* items[1];        // callable, arguments
};

PyTypeObject* CompiledType;
PyTypeObject* TailCallType;
thread_local bool disabled_here;      // disable(): this thread runs everything as it is
int num_compiled;                     // functions that have an entry, or had one
bool disabled_everywhere;             // set_stance("force_eager")
bool skips_guards;                    // set_stance(skip_guard_eval_unsafe=True)
thread_local bool modes_are_open;     // whether compiled code may run under the modes that are active on this thread

Compiled* compiled(PyObject* o) { return reinterpret_cast<Compiled*>(o); }

// Tracers and transforms around a call must see its ops: it then runs as it is. Modes of the program that see calls
// are captured with it.
bool is_all_off() {
  constexpr uint32_t seen_by_others = kKeyMode | kKeyFunctorch | kKeyFunctionalize | kKeyTracer;
  const ThreadState& now = thread_state();
  uint32_t seen = now.keys & ~now.excluded & seen_by_others;
  return disabled_here || disabled_everywhere || (seen && !(seen == kKeyMode && modes_are_open));
}

// Frames that a function enters which is not compiled itself are.
void watch_frames_of(const Compiled* c, PyObject* called) {
  if (c->as_is && c->on_frame) watch_frames(c->on_frame, called);
}

// --- binding ---------------------------------------------------------------------------------------------------------

// Flat locals of a call: borrowed from the arguments and defaults, but for what was made here.
struct Bound {
  std::vector<PyObject*> spilled;
  PyObject* inlined[16];
  PyObject** flat;
  Ref rest, named;      // *args and **kwargs
  explicit Bound(size_t n) {
    if (n > 16) spilled.resize(n);
    flat = n > 16 ? spilled.data() : inlined;
    std::fill(flat, flat + n, nullptr);
  }
};

Py_ssize_t parameter_named(const Compiled* c, PyObject* name) {
  Py_ssize_t first = c->positional_only, last = c->positional + c->keyword;
  for (Py_ssize_t i = first; i < last; i++)
    if (PyTuple_GET_ITEM(c->parameters, i) == name) return i;
  for (Py_ssize_t i = first; i < last; i++)
    if (PyUnicode_Compare(PyTuple_GET_ITEM(c->parameters, i), name) == 0) return i;
  return -1;
}

// False where the call does not fit, or an exception is set: the original function then says what is wrong.
bool bind(const Compiled* c, Bound& b, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  Py_ssize_t given = std::min<Py_ssize_t>(nargs, c->positional);
  for (Py_ssize_t i = 0; i < given; i++) b.flat[i] = args[i];
  Py_ssize_t fixed = c->positional + c->keyword;
  if (c->varargs) {
    b.rest = Ref(PyTuple_New(nargs - given));
    if (!b.rest) return false;
    for (Py_ssize_t i = given; i < nargs; i++) PyTuple_SET_ITEM(b.rest.p, i - given, Py_NewRef(args[i]));
    b.flat[fixed] = b.rest.p;
  } else if (nargs > given) {
    return false;
  }
  if (c->varkw) {
    b.named = Ref(PyDict_New());
    if (!b.named) return false;
    b.flat[fixed + c->varargs] = b.named.p;
  }
  Py_ssize_t keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  for (Py_ssize_t k = 0; k < keywords; k++) {
    PyObject* name = PyTuple_GET_ITEM(kwnames, k);
    Py_ssize_t i = parameter_named(c, name);
    if (i >= 0 ? b.flat[i] != nullptr : !c->varkw) return false;
    if (i >= 0)
      b.flat[i] = args[nargs + k];
    else if (PyDict_SetItem(b.named.p, name, args[nargs + k]))
      return false;
  }
  auto* f = reinterpret_cast<PyFunctionObject*>(c->function);
  Py_ssize_t defaults = f->func_defaults ? PyTuple_GET_SIZE(f->func_defaults) : 0;
  for (Py_ssize_t i = given; i < c->positional; i++) {
    if (b.flat[i]) continue;
    Py_ssize_t at = i - (c->positional - defaults);
    if (at < 0) return false;
    b.flat[i] = PyTuple_GET_ITEM(f->func_defaults, at);
  }
  for (Py_ssize_t i = c->positional; i < fixed; i++) {
    if (b.flat[i]) continue;
    PyObject* name = PyTuple_GET_ITEM(c->parameters, i);
    if (!f->func_kwdefaults || !(b.flat[i] = PyDict_GetItemWithError(f->func_kwdefaults, name))) return false;
  }
  return true;
}

// The original function, or another of its code, on flat locals.
PyObject* call_original(const Compiled* c, PyObject* function, PyObject* const* flat) {
  if (!c->keyword && !c->varargs && !c->varkw) return PyObject_Vectorcall(function, flat, c->positional, nullptr);
  Py_ssize_t fixed = c->positional + c->keyword;
  PyObject* rest = c->varargs ? flat[fixed] : nullptr;
  Py_ssize_t extra = rest ? PyTuple_GET_SIZE(rest) : 0;
  Ref args(PyTuple_New(c->positional + extra));
  Ref kwargs(c->varkw ? PyDict_Copy(flat[fixed + c->varargs]) : PyDict_New());
  if (!args || !kwargs) return nullptr;
  for (Py_ssize_t i = 0; i < c->positional; i++) PyTuple_SET_ITEM(args.p, i, Py_NewRef(flat[i]));
  for (Py_ssize_t i = 0; i < extra; i++)
    PyTuple_SET_ITEM(args.p, c->positional + i, Py_NewRef(PyTuple_GET_ITEM(rest, i)));
  for (Py_ssize_t i = c->positional; i < fixed; i++)
    if (PyDict_SetItem(kwargs.p, PyTuple_GET_ITEM(c->parameters, i), flat[i])) return nullptr;
  return PyObject_Call(function, args.p, kwargs.p);
}

// --- running ---------------------------------------------------------------------------------------------------------

// Functions of one code that have cells of their own share what was compiled: `cells`, where it is not null, are those
// of the function that is called, in place of the original's. The function of an entry has further cells behind them.
PyObject* with_cells(PyObject* function, PyObject* cells) {
  auto* f = reinterpret_cast<PyFunctionObject*>(function);
  if (!cells || !f->func_closure || f->func_closure == cells) return Py_NewRef(function);
  Py_ssize_t own = PyTuple_GET_SIZE(cells), all = PyTuple_GET_SIZE(f->func_closure);
  Ref closure(PyTuple_New(all));
  if (!closure) return nullptr;
  for (Py_ssize_t i = 0; i < all; i++)
    PyTuple_SET_ITEM(closure.p, i, Py_NewRef(PyTuple_GET_ITEM(i < own ? cells : f->func_closure, i)));
  Ref copy(PyFunction_New(f->func_code, f->func_globals));
  if (!copy || PyFunction_SetClosure(copy.p, closure.p)) return nullptr;
  return copy.release();
}

// The inputs of an entry's graph, right after its guards were asked; null where they do not know one of them.
PyObject* known_inputs(const Entry& entry, PyObject* const* flat) {
  const std::vector<int>& places = entry.direct->inputs;
  Ref list(PyList_New(static_cast<Py_ssize_t>(places.size())));
  for (size_t i = 0; list && i < places.size(); i++) {
    PyObject* value = places[i] < 0 ? flat[~places[i]] : guard_value(entry.tree.p, places[i]);
    if (!value) return nullptr;
    PyList_SET_ITEM(list.p, i, Py_NewRef(value));
  }
  return list ? list.release() : (PyErr_Clear(), nullptr);
}

// What an entry's function would return, and where it stands in tracebacks.
PyObject* call_graph(const Direct& direct, PyObject* list, PyObject* function) {
  Ref results(PyObject_Vectorcall(direct.graph.p, &list, 1, nullptr));
  if (results) return PySequence_GetItem(results.p, direct.result);
  auto* code = reinterpret_cast<PyCodeObject*>(reinterpret_cast<PyFunctionObject*>(function)->func_code);
  _PyTraceback_Add(PyUnicode_AsUTF8(code->co_name), PyUnicode_AsUTF8(code->co_filename), code->co_firstlineno);
  return nullptr;
}

// Where the function that was found need not run: its graph, and the list of inputs.
struct Found {
  Ref list;
  std::shared_ptr<const Direct> direct;
  int number = -1;
};

// The function that serves these locals; null without an exception: the original does. A new reference. `found`, where
// it is not null, gets what may run instead.
PyObject* find_entry(Compiled* c, PyObject* const* flat, Py_ssize_t count, PyObject* cells, Found* found) {
  auto* f = reinterpret_cast<PyFunctionObject*>(c->function);
  for (size_t i = 0; i < c->entries->size(); i++) {
    Ref tree = Ref::borrow((*c->entries)[i].tree.p), function = Ref::borrow((*c->entries)[i].function.p);
    bool is_taken = skips_guards && c->entries->size() == 1;
    bool known = false;
    if (!is_taken && !guards_hold(tree.p, flat, count, f->func_globals, cells ? cells : f->func_closure, &known))
      continue;
    if (found && known && i < c->entries->size() && (*c->entries)[i].tree.p == tree.p && (*c->entries)[i].direct) {
      found->list = Ref(known_inputs((*c->entries)[i], flat));
      found->direct = (*c->entries)[i].direct;
    }
    auto& entries = *c->entries;
    if (found && i < entries.size()) found->number = entries[i].number;
    if (i && i < entries.size() && entries[i].function.p == function.p)
      std::rotate(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(i),
                  entries.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return with_cells(function.p, cells);
  }
  Ref locals(PyTuple_New(count));
  if (!locals) return nullptr;
  for (Py_ssize_t i = 0; i < count; i++) PyTuple_SET_ITEM(locals.p, i, Py_NewRef(flat[i]));
  Ref called(with_cells(c->function, cells));
  if (!called) return nullptr;
  PyObject* args[] = {reinterpret_cast<PyObject*>(c), locals.p, called.p};
  Ref miss = Ref::borrow(c->on_miss);
  PyObject* function = PyObject_Vectorcall(miss.p, args, 3, nullptr);
  if (function == Py_None) Py_CLEAR(function);
  return function;
}

// As PyTorch calls it: which function, which of its entries. Ops in it are the program's, but for those of graphs.
void record_region(Recorded* recorded, const Compiled* c, const Found& found) {
  if (!profile_line()) return;
  int entry = found.number >= 0 ? found.number : c->num_made - 1;
  Ref name(PyUnicode_FromFormat("Torch-Compiled Region: %d/%d", c->number, entry < 0 ? 0 : entry));
  if (!name) return PyErr_Clear();
  record_stretch(recorded, profile_name(name.p), EventKind::Region, -1, -1);
}

PyObject* run_flat(Compiled* c, PyObject* const* flat, Py_ssize_t count, PyObject* cells) {
  FrameScope scope;
  bool is_off = is_all_off();
  Found found;
  Ref function(c->as_is || is_off ? nullptr : find_entry(c, flat, count, cells, &found));
  Recorded region;
  if (is_recording() && function) record_region(&region, c, found);
  if (function && found.list) return call_graph(*found.direct, found.list.p, function.p);
  if (function) return PyObject_Vectorcall(function.p, flat, static_cast<size_t>(count), nullptr);
  if (PyErr_Occurred()) return nullptr;
  Ref called(with_cells(c->function, cells));
  if (!called) return nullptr;
  if (!is_off) watch_frames_of(c, called.p);
  return call_original(c, called.p, flat);
}

// Call what compiled code says comes next, until there is a result: the rests of one function, which have its cells.
PyObject* run_on(PyObject* result, PyObject* cells) {
  while (result && Py_TYPE(result) == TailCallType) {
    Ref next(result);
    auto* call = reinterpret_cast<TailCall*>(result);
    Py_ssize_t count = Py_SIZE(call) - 1;
    if (Py_TYPE(call->items[0]) == CompiledType)
      result = run_flat(compiled(call->items[0]), call->items + 1, count, cells);
    else
      result = PyObject_Vectorcall(call->items[0], call->items + 1, static_cast<size_t>(count), nullptr);
  }
  return result;
}

PyObject* compiled_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  Compiled* c = compiled(self);
  if (c->as_is || is_all_off()) {
    if (!c->on_frame || is_all_off()) return PyObject_Vectorcall(c->function, args, nargsf, kwnames);
    Ref alive = Ref::borrow(self);
    FrameScope scope;
    watch_frames_of(c, c->function);
    return PyObject_Vectorcall(c->function, args, nargsf, kwnames);
  }
  Py_ssize_t count = PyTuple_GET_SIZE(c->parameters);
  Bound b(static_cast<size_t>(count));
  if (!bind(c, b, args, PyVectorcall_NARGS(nargsf), kwnames)) {
    if (PyErr_Occurred()) return nullptr;
    return PyObject_Vectorcall(c->function, args, nargsf, kwnames);
  }
  Ref alive = Ref::borrow(self);
  return run_on(run_flat(c, b.flat, count, nullptr), nullptr);
}

// --- the type --------------------------------------------------------------------------------------------------------

PyObject* compiled_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *function, *on_miss;
  if (!PyArg_ParseTuple(args, "O!O", &PyFunction_Type, &function, &on_miss)) return nullptr;
  auto* code = reinterpret_cast<PyCodeObject*>(reinterpret_cast<PyFunctionObject*>(function)->func_code);
  bool varargs = code->co_flags & CO_VARARGS, varkw = code->co_flags & CO_VARKEYWORDS;
  Py_ssize_t count = code->co_argcount + code->co_kwonlyargcount + varargs + varkw;
  Ref names(PyCode_GetVarnames(code));
  Ref parameters(names ? PyTuple_GetSlice(names.p, 0, count) : nullptr);
  Ref result(parameters ? type->tp_alloc(type, 0) : nullptr);
  if (!result) return nullptr;
  Compiled* c = compiled(result.p);
  c->vectorcall = guarded<compiled_vectorcall>;
  c->function = Py_NewRef(function);
  c->parameters = parameters.release();
  c->on_miss = Py_NewRef(on_miss);
  c->entries = new std::vector<Entry>();
  c->positional = code->co_argcount;
  c->positional_only = code->co_posonlyargcount;
  c->keyword = code->co_kwonlyargcount;
  c->number = -1;
  c->varargs = varargs, c->varkw = varkw;
  return result.release();
}

int compiled_traverse(PyObject* self, visitproc visit, void* arg) {
  Compiled* c = compiled(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(c->function);
  Py_VISIT(c->parameters);
  Py_VISIT(c->on_miss);
  Py_VISIT(c->on_frame);
  Py_VISIT(c->dict);
  if (c->entries)
    for (const Entry& e : *c->entries) {
      Py_VISIT(e.tree.p);
      Py_VISIT(e.function.p);
      if (e.direct && e.direct.use_count() == 1) Py_VISIT(e.direct->graph.p);
    }
  return 0;
}

void drop_entries(Compiled* c) {
  std::vector<Entry> old;
  if (c->entries) old.swap(*c->entries);      // what is freed may call back
}

int compiled_clear(PyObject* self) {      // the function stays: it is called as long as there is a reference
  Compiled* c = compiled(self);
  drop_entries(c);
  Py_CLEAR(c->dict);
  return 0;
}

void compiled_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  Compiled* c = compiled(self);
  if (c->weakrefs) PyObject_ClearWeakRefs(self);
  drop_entries(c);
  delete c->entries;
  Py_CLEAR(c->dict);
  Py_CLEAR(c->function);
  Py_CLEAR(c->parameters);
  Py_CLEAR(c->on_miss);
  Py_CLEAR(c->on_frame);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* compiled_bind(PyObject* self, PyObject* object, PyObject*) {
  return !object || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
}

PyObject* compiled_repr(PyObject* self) {
  return PyUnicode_FromFormat("<compiled %U>",
                              reinterpret_cast<PyFunctionObject*>(compiled(self)->function)->func_qualname);
}

// (graph, inputs, number of the result)
std::shared_ptr<const Direct> read_direct(PyObject* given, Py_ssize_t locals) {
  PyObject *graph, *inputs;
  auto direct = std::make_shared<Direct>();
  if (!PyArg_ParseTuple(given, "OO!n", &graph, &PyTuple_Type, &inputs, &direct->result)) return nullptr;
  direct->graph = Ref::borrow(graph);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); i++) {
    direct->inputs.push_back(static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(inputs, i))));
    if (PyErr_Occurred()) return nullptr;
    if (direct->inputs.back() < 0 && ~direct->inputs.back() >= locals)
      return PyErr_SetString(PyExc_IndexError, "add_entry: no such local"), nullptr;
  }
  return direct;
}

PyObject* compiled_add_entry(PyObject* self, PyObject* args) {
  PyObject *tree, *function, *direct = Py_None;
  if (!PyArg_ParseTuple(args, "OO!|O", &tree, &PyFunction_Type, &function, &direct)) return nullptr;
  if (!is_guard_tree(tree)) return PyErr_SetString(PyExc_TypeError, "add_entry: expected a GuardTree"), nullptr;
  Entry entry{Ref::borrow(tree), Ref::borrow(function), nullptr};
  if (direct != Py_None && !(entry.direct = read_direct(direct, PyTuple_GET_SIZE(compiled(self)->parameters))))
    return nullptr;
  auto& entries = *compiled(self)->entries;
  if (compiled(self)->number < 0) compiled(self)->number = num_compiled++;
  entry.number = compiled(self)->num_made++;
  entries.insert(entries.begin(), std::move(entry));
  Py_RETURN_NONE;
}

PyObject* compiled_clear_entries(PyObject* self, PyObject*) {
  drop_entries(compiled(self));
  compiled(self)->as_is = false;
  Py_RETURN_NONE;
}

PyObject* compiled_entries(PyObject* self, PyObject*) {
  auto& entries = *compiled(self)->entries;
  Ref list(PyList_New(0));
  for (size_t i = 0; list && i < entries.size(); i++) {
    Ref pair(PyTuple_Pack(2, entries[i].tree.p, entries[i].function.p));
    if (!pair || PyList_Append(list.p, pair.p)) return nullptr;
  }
  return list.release();
}

// find(*args, **kwargs): the flat locals of a call, or None where it does not fit.
PyObject* compiled_flatten(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  Compiled* c = compiled(self);
  Py_ssize_t count = PyTuple_GET_SIZE(c->parameters);
  Bound b(static_cast<size_t>(count));
  if (!bind(c, b, args, nargs, kwnames)) {
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NONE;
  }
  Ref flat(PyTuple_New(count));
  for (Py_ssize_t i = 0; flat && i < count; i++) PyTuple_SET_ITEM(flat.p, i, Py_NewRef(b.flat[i]));
  return flat.release();
}

PyMethodDef methods[] = {
    {"add_entry", guarded<compiled_add_entry>, METH_VARARGS, "add_entry(tree, function): run it where the guards hold"},
    {"clear_entries", guarded<compiled_clear_entries>, METH_NOARGS, "forget what was compiled"},
    {"entries", guarded<compiled_entries>, METH_NOARGS, "pairs of guard tree and function, the last used first"},
    {"flatten", guarded_method<compiled_flatten>(), METH_FASTCALL | METH_KEYWORDS,
     "the flat locals of a call; None where it does not fit the function"},
    {}};

PyMemberDef members[] = {
    {"function", T_OBJECT, offsetof(Compiled, function), READONLY, "the original function"},
    {"parameters", T_OBJECT, offsetof(Compiled, parameters), READONLY, "the names of the flat locals"},
    {"on_miss", T_OBJECT, offsetof(Compiled, on_miss), READONLY, "who is asked where no guards hold"},
    {"on_frame", T_OBJECT, offsetof(Compiled, on_frame), 0, "who is asked about frames that the original enters"},
    {"as_is", T_BOOL, offsetof(Compiled, as_is), 0, "whether calls go to the original without a look"},
    {"__dictoffset__", T_PYSSIZET, offsetof(Compiled, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Compiled, weakrefs), READONLY, nullptr},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Compiled, vectorcall), READONLY, nullptr},
    {}};

PyGetSetDef getset[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr}, {}};

PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(guarded<compiled_new>)},
                       {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                       {Py_tp_traverse, reinterpret_cast<void*>(compiled_traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(compiled_clear)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(compiled_dealloc)},
                       {Py_tp_descr_get, reinterpret_cast<void*>(compiled_bind)},
                       {Py_tp_repr, reinterpret_cast<void*>(compiled_repr)},
                       {Py_tp_methods, methods},
                       {Py_tp_members, members},
                       {Py_tp_getset, getset},
                       {0, nullptr}};
PyType_Spec spec = {"rushlight._C.CompiledCallable", sizeof(Compiled), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
                    slots};

// --- tail calls ------------------------------------------------------------------------------------------------------

int tail_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  for (Py_ssize_t i = 0; i < Py_SIZE(self); i++) Py_VISIT(reinterpret_cast<TailCall*>(self)->items[i]);
  return 0;
}

void tail_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  for (Py_ssize_t i = 0; i < Py_SIZE(self); i++) Py_XDECREF(reinterpret_cast<TailCall*>(self)->items[i]);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyType_Slot tail_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(tail_traverse)},
                            {Py_tp_dealloc, reinterpret_cast<void*>(tail_dealloc)},
                            {0, nullptr}};
PyType_Spec tail_spec = {"rushlight._C.TailCall", offsetof(TailCall, items), sizeof(PyObject*),
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, tail_slots};

// tail_call(callable, *args): returned by compiled code; whoever called that calls this next.
PyObject* py_tail_call(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  if (nargs < 1) return PyErr_SetString(PyExc_TypeError, "tail_call: expected a callable"), nullptr;
  PyObject* result = TailCallType->tp_alloc(TailCallType, nargs);
  if (!result) return nullptr;
  for (Py_ssize_t i = 0; i < nargs; i++) reinterpret_cast<TailCall*>(result)->items[i] = Py_NewRef(args[i]);
  return result;
}

PyObject* py_disable_here(PyObject*, PyObject* on) {
  bool before = disabled_here;
  disabled_here = PyObject_IsTrue(on) == 1;
  return PyBool_FromLong(before);
}

PyObject* py_disable_everywhere(PyObject*, PyObject* on) {
  bool before = disabled_everywhere;
  disabled_everywhere = PyObject_IsTrue(on) == 1;
  return PyBool_FromLong(before);
}

PyObject* py_skip_guards(PyObject*, PyObject* on) {
  bool before = skips_guards;
  skips_guards = PyObject_IsTrue(on) == 1;
  return PyBool_FromLong(before);
}

PyObject* py_open_modes(PyObject*, PyObject* on) {
  modes_are_open = PyObject_IsTrue(on) == 1;
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"open_modes", guarded<py_open_modes>, METH_O,
     "open_modes(on): whether compiled functions may run under the modes of this thread"},
    {"tail_call", guarded_method<py_tail_call>(), METH_FASTCALL, "tail_call(callable, *args): to be called next"},
    {"disable_compiled_here", guarded<py_disable_here>, METH_O,
     "whether compiled functions run as they are on this thread; returns what it was"},
    {"disable_compiled", guarded<py_disable_everywhere>, METH_O,
     "whether compiled functions run as they are; returns what it was"},
    {"skip_guards", guarded<py_skip_guards>, METH_O,
     "skip_guards(on): run what was compiled once without a look; what it was before"},
    {}};

}  // namespace

bool are_compiled_functions_off() { return is_all_off(); }

bool serves_function(PyObject* callable, PyObject* function) {
  auto* own = reinterpret_cast<PyFunctionObject*>(compiled(callable)->function);
  auto* other = reinterpret_cast<PyFunctionObject*>(function);
  return own->func_code == other->func_code && own->func_globals == other->func_globals;
}

bool is_as_it_is(PyObject* callable) { return compiled(callable)->as_is; }

PyObject* find_for_frame(PyObject* callable, PyObject* const* flat, Py_ssize_t count, PyObject* cells) {
  return guarded<find_entry>(compiled(callable), flat, count, cells, nullptr);
}

PyObject* run_for_frame(PyObject* found, PyObject* const* flat, Py_ssize_t count, PyObject* cells) {
  return guarded<run_on>(PyObject_Vectorcall(found, flat, static_cast<size_t>(count), nullptr), cells);
}

bool is_compiled_callable(PyObject* o) { return Py_TYPE(o) == CompiledType; }

int init_compiled_callable(PyObject* module) {
  CompiledType = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  TailCallType = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&tail_spec));
  if (!CompiledType || !TailCallType) return -1;
  if (PyModule_AddObjectRef(module, "CompiledCallable", reinterpret_cast<PyObject*>(CompiledType)) ||
      PyModule_AddObjectRef(module, "TailCall", reinterpret_cast<PyObject*>(TailCallType)))
    return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace rl

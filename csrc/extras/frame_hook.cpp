// The hook into the interpreter's evaluation of frames (PEP 523). It is in place only while some thread runs code that
// a compiled function did not capture: the instruction at which a graph ended, and functions that run as they are. What
// such code calls through native code (`sorted(key=f)`, a third library) is seen here, and run compiled. In between,
// and in programs that compile nothing, the interpreter has no hook: it costs nothing then. Generators, frames under a
// tracer or a profiler, module and class bodies are left alone. Deep recursion too: with a hook, each frame of Python
// takes a frame of C.
#include "interpreter_frame.h"      // first: it says how Python.h is read

#include <new>

#include "boundary.h"
#include "frame_hook.h"
#include "profile_stack.h"
#include "tensor.h"

namespace rl {

namespace {

constexpr int kDeepest = 150;      // frames in a row, beyond which the hook steps aside

struct Here {
  PyObject* asked = nullptr;       // owned; null: frames are not looked at
  PyObject* passed = nullptr;      // borrowed, compared only
  int depth = 0;
};
thread_local Here here;

// What is known of a code object, kept with it.
struct Seen {
  unsigned epoch;
  bool is_skipped;
  PyObject* callable;              // weak reference to the one for the function that was last seen; may be null
  PyObject* asked;                 // whom it came from; compared only
};

int watching;                      // threads whose frames are looked at
unsigned epoch = 1;                // what was learned before is void
Py_ssize_t extra_index = -1;
bool is_placed;                    // the hook is the interpreter's, or another's that was put on top calls it
_PyFrameEvalFunction before;       // who evaluated frames when the hook was put in
PyObject* kinds;                   // a tuple of classes: frames without any of their objects are not worth a look

PyObject* evaluate(PyThreadState* thread, Frame* frame, int throws);

void put_in() {
  PyInterpreterState* interpreter = PyInterpreterState_Get();
  _PyFrameEvalFunction now = _PyInterpreterState_GetEvalFrameFunc(interpreter);
  if (now == evaluate || (is_placed && now != _PyEval_EvalFrameDefault)) return;
  before = now;
  is_placed = true;
  _PyInterpreterState_SetEvalFrameFunc(interpreter, evaluate);
}

void take_out() {      // unless another hook was put on top, which goes on to call this one
  PyInterpreterState* interpreter = PyInterpreterState_Get();
  if (_PyInterpreterState_GetEvalFrameFunc(interpreter) != evaluate) return;
  _PyInterpreterState_SetEvalFrameFunc(interpreter, before);
  is_placed = false;
}

// Takes the reference `asked`; gives back the one before.
PyObject* exchange(PyObject* asked) {
  PyObject* old = here.asked;
  here.asked = asked;
  if (!old && asked && watching++ == 0) put_in();
  if (old && !asked && --watching == 0) take_out();
  return old;
}

PyObject* go_on(PyThreadState* thread, Frame* frame, int throws) {
  return before ? before(thread, frame, throws) : _PyEval_EvalFrameDefault(thread, frame, throws);
}

PyObject* run_as_it_is(PyThreadState* thread, Frame* frame) {
  here.depth++;
  PyObject* result;
  if (here.depth > kDeepest) {
    FrameScope quiet;
    result = go_on(thread, frame, 0);
  } else {
    result = go_on(thread, frame, 0);
  }
  here.depth--;
  return result;
}

// --- which frames ----------------------------------------------------------------------------------------------------

bool is_of_kinds(PyObject* o) {
  if (is_tensor(o)) return true;
  for (Py_ssize_t i = 0; kinds && i < PyTuple_GET_SIZE(kinds); i++)
    if (PyType_IsSubtype(Py_TYPE(o), reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(kinds, i)))) return true;
  return false;
}

// Whether a value is a tensor or a module, or holds one: in a container, or as an attribute.
bool holds_tensors(PyObject* o, int deeper) {
  if (!o) return false;
  if (is_of_kinds(o)) return true;
  if (!deeper) return false;
  if (PyTuple_Check(o) || PyList_Check(o)) {
    bool is_list = PyList_Check(o);
    Py_ssize_t count = is_list ? PyList_GET_SIZE(o) : PyTuple_GET_SIZE(o);
    for (Py_ssize_t i = 0; i < count && i < 16; i++)
      if (holds_tensors(is_list ? PyList_GET_ITEM(o, i) : PyTuple_GET_ITEM(o, i), deeper - 1)) return true;
    return false;
  }
  Ref attributes;
  if (!PyDict_Check(o)) {
    PyTypeObject* type = Py_TYPE(o);
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || PyType_Check(o) || type->tp_dictoffset == 0) return false;
    attributes = Ref(PyObject_GenericGetDict(o, nullptr));
    if (!attributes || !PyDict_Check(attributes.p)) return PyErr_Clear(), false;
    o = attributes.p;
  }
  Py_ssize_t place = 0, seen = 0;
  for (PyObject *key, *value; seen < 16 && PyDict_Next(o, &place, &key, &value); seen++)
    if (holds_tensors(value, deeper - 1)) return true;
  return false;
}

bool is_worth_a_look(PyObject* const* flat, Py_ssize_t count, PyObject* function) {
  for (Py_ssize_t i = 0; i < count; i++)
    if (holds_tensors(flat[i], 2)) return true;
  PyObject* cells = reinterpret_cast<PyFunctionObject*>(function)->func_closure;
  for (Py_ssize_t i = 0; cells && i < PyTuple_GET_SIZE(cells); i++) {
    PyObject* cell = PyTuple_GET_ITEM(cells, i);
    if (PyCell_Check(cell) && holds_tensors(PyCell_GET(cell), 1)) return true;
  }
  return false;
}

void free_seen(void* extra) {
  Seen* seen = static_cast<Seen*>(extra);
  if (!seen) return;
  Py_XDECREF(seen->callable);
  delete seen;
}

Seen* seen_of(PyCodeObject* code) {
  void* extra = nullptr;
  auto* o = reinterpret_cast<PyObject*>(code);
  if (get_extra(o, extra_index, &extra)) return nullptr;
  if (!extra) {
    extra = new (std::nothrow) Seen{epoch, false, nullptr, nullptr};
    if (!extra) return PyErr_NoMemory(), nullptr;
    if (set_extra(o, extra_index, extra)) return free_seen(extra), nullptr;
  }
  Seen* seen = static_cast<Seen*>(extra);
  if (seen->epoch != epoch) {
    seen->epoch = epoch;
    seen->is_skipped = false;
    Py_CLEAR(seen->callable);
  }
  return seen;
}

// The callable for a frame's function: a new reference. Null without an exception: there is none.
PyObject* callable_for(Seen* seen, PyCodeObject* code, PyObject* function) {
  if (seen->callable && seen->asked == here.asked) {
    Ref known(referent(seen->callable));
    if (known && serves_function(known.p, function)) return known.release();
  }
  Ref asked = Ref::borrow(here.asked);
  Ref held = Ref::borrow(reinterpret_cast<PyObject*>(code));
  FrameScope quiet;
  Ref found(PyObject_CallOneArg(asked.p, function));
  if (!found) return nullptr;
  seen = seen_of(code);      // asking may have reset it
  if (!seen) return nullptr;
  if (found.p == Py_None) {
    seen->is_skipped = true;
    return nullptr;
  }
  if (!is_compiled_callable(found.p))
    return PyErr_Format(PyExc_TypeError, "watch_frames: expected a CompiledCallable or None, got %R", found.p), nullptr;
  Ref weak(PyWeakref_NewRef(found.p, nullptr));
  if (!weak) return nullptr;
  Py_XSETREF(seen->callable, weak.release());
  seen->asked = asked.p;
  return found.release();
}

// --- a frame ---------------------------------------------------------------------------------------------------------

PyObject* run_compiled(PyThreadState* thread, Frame* frame, PyObject* callable, PyObject* const* flat,
                       Py_ssize_t count) {
  Ref asked = Ref::borrow(here.asked);
  FrameScope quiet;
  Ref cells = Ref::borrow(reinterpret_cast<PyFunctionObject*>(function_of(frame))->func_closure);
  Ref function(find_for_frame(callable, flat, count, cells.p));
  if (!function && !PyErr_Occurred()) {
    if (is_as_it_is(callable)) watch_frames(asked.p, nullptr);
    return run_as_it_is(thread, frame);
  }
  PyObject* result = function ? run_for_frame(function.p, flat, count, cells.p) : nullptr;
  abandon(thread, frame);
  return result;
}

PyObject* look_at(PyThreadState* thread, Frame* frame) {
  constexpr int generators = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
  constexpr int plain = CO_OPTIMIZED | CO_NEWLOCALS;
  PyCodeObject* code = code_of(frame);
  if (!is_of_thread(frame) || (code->co_flags & (plain | generators)) != plain || is_traced(thread, watch_frame))
    return run_as_it_is(thread, frame);
  PyObject* function = function_of(frame);
  if (!function || !PyFunction_Check(function)) return run_as_it_is(thread, frame);
  if (here.passed == function) {
    here.passed = nullptr;
    return run_as_it_is(thread, frame);
  }
  Seen* seen = are_compiled_functions_off() ? nullptr : seen_of(code);
  if (!seen && PyErr_Occurred()) return abandon(thread, frame), nullptr;
  if (!seen || seen->is_skipped) return run_as_it_is(thread, frame);
  constexpr Py_ssize_t most = 64;
  PyObject* flat[most];
  Py_ssize_t count = code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS) +
                     !!(code->co_flags & CO_VARKEYWORDS);
  if (count > most) return run_as_it_is(thread, frame);
  for (Py_ssize_t i = 0; i < count; i++)
    if (!(flat[i] = parameter_of(frame, i))) return run_as_it_is(thread, frame);
  if (!is_worth_a_look(flat, count, function)) return run_as_it_is(thread, frame);
  Ref callable(callable_for(seen, code, function));
  if (!callable && PyErr_Occurred()) return abandon(thread, frame), nullptr;
  if (!callable || is_as_it_is(callable.p)) return run_as_it_is(thread, frame);
  return run_compiled(thread, frame, callable.p, flat, count);
}

PyObject* evaluate(PyThreadState* thread, Frame* frame, int throws) {
  if (!here.asked || throws) return go_on(thread, frame, throws);
  return look_at(thread, frame);
}

// --- for Python ------------------------------------------------------------------------------------------------------

PyObject* py_watch_frames(PyObject*, PyObject* asked) {
  watch_frames(asked == Py_None ? nullptr : asked, nullptr);
  Py_RETURN_NONE;
}

PyObject* py_frame_kinds(PyObject*, PyObject* classes) {
  if (!PyTuple_Check(classes)) return PyErr_SetString(PyExc_TypeError, "frame_kinds: expected classes"), nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(classes); i++)
    if (!PyType_Check(PyTuple_GET_ITEM(classes, i)))
      return PyErr_SetString(PyExc_TypeError, "frame_kinds: expected classes"), nullptr;
  Py_XSETREF(kinds, Py_NewRef(classes));
  Py_RETURN_NONE;
}

PyObject* py_forget_frames(PyObject*, PyObject*) {
  epoch++;
  Py_RETURN_NONE;
}

PyObject* py_frames_after_fork(PyObject*, PyObject*) {
  watching = here.asked ? 1 : 0;
  if (!watching) take_out();
  Py_RETURN_NONE;
}

PyObject* py_are_frames_watched(PyObject*, PyObject*) {
  return PyBool_FromLong(_PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) == evaluate);
}

PyMethodDef functions[] = {
    {"watch_frames", guarded<py_watch_frames>, METH_O,
     "watch_frames(ask): from here to the end of the compiled function that calls it, frames of this thread run as"
     " ask(function) says: a CompiledCallable, or None for as they are"},
    {"frame_kinds", guarded<py_frame_kinds>, METH_O, "classes whose objects make a frame worth a look, beside tensors"},
    {"forget_frames", guarded<py_forget_frames>, METH_NOARGS, "ask again about every function"},
    {"frames_after_fork", guarded<py_frames_after_fork>, METH_NOARGS, "only this thread is left"},
    {"are_frames_watched", guarded<py_are_frames_watched>, METH_NOARGS, "whether the hook is in place now"},
    {}};

}  // namespace

FrameScope::FrameScope() : asked(exchange(nullptr)), passed(here.passed) { here.passed = nullptr; }

FrameScope::~FrameScope() {
  Py_XDECREF(exchange(asked));
  here.passed = passed;
}

void watch_frames(PyObject* asked, PyObject* passed) {
  if (!kHasFrameHook) return;
  Py_XDECREF(exchange(Py_XNewRef(asked)));
  here.passed = passed;
}

int init_frame_hook(PyObject* module) {
  extra_index = request_extra(free_seen);
  if (PyModule_AddObjectRef(module, "has_frame_hook", kHasFrameHook && extra_index >= 0 ? Py_True : Py_False)) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace rl

// What the frame hook reads of the interpreter's own frames, the only place that knows how they are laid out: CPython
// 3.11 to 3.14, whose headers are internal ones. Only frames that are about to begin are asked about: owned by their
// thread, their parameters in the first places, nothing else bound.
#pragma once
#define Py_BUILD_CORE_MODULE 1
#include <Python.h>

#undef HAVE_STD_ATOMIC      // 3.12's headers would use C's atomics, which are not C++'s
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <internal/pycore_frame.h>
#if PY_VERSION_HEX >= 0x030C0000
#include <internal/pycore_interp.h>
#endif
#if PY_VERSION_HEX >= 0x030D0000
#include <internal/pycore_ceval.h>
#endif
#if PY_VERSION_HEX >= 0x030E0000
#include <internal/pycore_interpframe.h>
#endif
#pragma GCC diagnostic pop

namespace rl {

using Frame = _PyInterpreterFrame;

// Without the interpreter lock any thread may run frames while another puts the hook in: it is left out there.
#if defined(Py_GIL_DISABLED) || PY_VERSION_HEX >= 0x030F0000
constexpr bool kHasFrameHook = false;
#else
constexpr bool kHasFrameHook = true;
#endif

inline PyCodeObject* code_of(Frame* frame) {
#if PY_VERSION_HEX >= 0x030D0000
  return _PyFrame_GetCode(frame);
#else
  return frame->f_code;
#endif
}

inline PyObject* function_of(Frame* frame) {
#if PY_VERSION_HEX >= 0x030E0000
  return PyStackRef_AsPyObjectBorrow(frame->f_funcobj);
#elif PY_VERSION_HEX >= 0x030C0000
  return frame->f_funcobj;
#else
  return reinterpret_cast<PyObject*>(frame->f_func);
#endif
}

inline PyObject* parameter_of(Frame* frame, Py_ssize_t i) {
#if PY_VERSION_HEX >= 0x030E0000
  return PyStackRef_AsPyObjectBorrow(frame->localsplus[i]);
#else
  return frame->localsplus[i];
#endif
}

inline bool is_of_thread(Frame* frame) { return frame->owner == FRAME_OWNED_BY_THREAD; }

// Names that changed.
#if PY_VERSION_HEX >= 0x030C0000
inline Py_ssize_t request_extra(freefunc frees) { return PyUnstable_Eval_RequestCodeExtraIndex(frees); }
inline int get_extra(PyObject* code, Py_ssize_t i, void** extra) { return PyUnstable_Code_GetExtra(code, i, extra); }
inline int set_extra(PyObject* code, Py_ssize_t i, void* extra) { return PyUnstable_Code_SetExtra(code, i, extra); }
#else
inline Py_ssize_t request_extra(freefunc frees) { return _PyEval_RequestCodeExtraIndex(frees); }
inline int get_extra(PyObject* code, Py_ssize_t i, void** extra) { return _PyCode_GetExtra(code, i, extra); }
inline int set_extra(PyObject* code, Py_ssize_t i, void* extra) { return _PyCode_SetExtra(code, i, extra); }
#endif

// What a weak reference refers to, as a new reference; null where it is gone.
inline PyObject* referent(PyObject* weak) {
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* found = nullptr;
  return PyWeakref_GetRef(weak, &found) < 0 ? (PyErr_Clear(), nullptr) : found;
#else
  PyObject* found = PyWeakref_GetObject(weak);
  return found == Py_None ? nullptr : Py_NewRef(found);
#endif
}

// Whether a tracer, a profiler or a tool of sys.monitoring must see frames begin and end. `ours` need not: a frame that
// runs compiled neither begins nor ends for it.
inline bool is_traced(PyThreadState* thread, Py_tracefunc ours) {
  bool is_ours = thread->c_profilefunc == ours;
  if (thread->c_tracefunc || (thread->c_profilefunc && !is_ours)) return true;
#if PY_VERSION_HEX >= 0x030C0000
  constexpr uint8_t profiler = 1 << 6;      // the tool that sys.setprofile stands on (PY_MONITORING_SYS_PROFILE_ID)
  for (uint8_t tools : thread->interp->monitors.tools)
    if (tools & ~(is_ours ? profiler : 0)) return true;
#endif
  return false;
}

// Ends a frame that never began, as the function does that evaluates one. An exception that is set stays.
inline void abandon(PyThreadState* thread, Frame* frame) {
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* raised = PyErr_GetRaisedException();
  _PyEval_FrameClearAndPop(thread, frame);
  PyErr_SetRaisedException(raised);
#elif PY_VERSION_HEX >= 0x030C0000
  // 3.12 keeps that to itself. An exception thrown into a frame before its first instruction finds no handler there,
  // and the frame is ended as any other that it leaves.
  PyObject* raised = PyErr_GetRaisedException();
  PyErr_SetNone(PyExc_StopIteration);
  Py_XDECREF(_PyEval_EvalFrameDefault(thread, frame, 1));
  PyErr_Clear();
  PyErr_SetRaisedException(raised);
#else
  (void)thread, (void)frame;      // 3.11: whoever made the frame ends it
#endif
}

}  // namespace rl

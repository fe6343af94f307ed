// Frames that compiled functions reach without a call of their own: while code that was not captured runs, this thread's
// new frames are looked at, and run compiled where they can be. Everything holds the interpreter lock.
#pragma once
#include "types.h"

namespace rl {

// While one is alive, frames of this thread are not looked at, or as `watch_frames` says; afterwards as before.
class FrameScope {
 public:
  FrameScope();
  ~FrameScope();
  FrameScope(const FrameScope&) = delete;
  FrameScope& operator=(const FrameScope&) = delete;

 private:
  PyObject *asked, *passed;
};

// From now on, to the end of the scope around: `asked(function)` gives the compiled callable for a frame, or None. The
// next frame of `passed` (may be null) runs as it is.
void watch_frames(PyObject* asked, PyObject* passed);

// For the hook, of a CompiledCallable. Whether it serves frames of this function, or runs as it is; what it runs for the
// locals of a frame and the cells of its function (null without an exception: the frame itself), and the result of that.
bool is_compiled_callable(PyObject* o);
bool serves_function(PyObject* callable, PyObject* function);
bool is_as_it_is(PyObject* callable);
bool are_compiled_functions_off();
PyObject* find_for_frame(PyObject* callable, PyObject* const* flat, Py_ssize_t count, PyObject* cells);
PyObject* run_for_frame(PyObject* found, PyObject* const* flat, Py_ssize_t count, PyObject* cells);

int init_frame_hook(PyObject* module);

}  // namespace rl

// Frames of Python, functions of C and calls of modules in a recording (profile.h): with_stack and with_modules.
#pragma once
#include "profile.h"

namespace rl {

bool stacks_start(uint32_t flags);     // a recording began on this thread; false with an exception
void stacks_toggle(bool on);           // it pauses, or goes on
void stacks_stop();                    // it is about to end

// What the interpreter calls while frames are recorded: nothing for other tools to mind.
int watch_frame(PyObject* self, PyFrameObject* frame, int what, PyObject* arg);

// A call of a module as an event, where modules are recorded.
struct ModuleCall {
  Mark mark;
  Timeline* line = nullptr;
  uint32_t around = 0;                 // the path of modules outside of it
  explicit ModuleCall(PyObject* module);
  ~ModuleCall();
  ModuleCall(const ModuleCall&) = delete;
  ModuleCall& operator=(const ModuleCall&) = delete;
};

int init_profile_stack(PyObject* module);

}  // namespace rl

// Calls that are written down instead of run: what happens on a device that has no memory of its own until somebody looks
// (rushlight/lazy). Everything here holds the interpreter lock.
#pragma once
#include "call.h"

namespace rl {

// Calls of one thread on one kind of device, in order, as words that compare and hash as they are (recording.cpp says
// how they are read). A storage has a number in it from the first call that names it.
struct Recording;

inline bool is_recorded(Device device) { return kDevices[device.type].records; }

// Writes a call and its results down. False with an exception set.
bool record_call(Overload* op, PyObject** args, PyObject* result);
// The arguments as plans are made for: tensors of recording devices, and the devices themselves, as meta has them.
// Null with an exception set.
PyObject* planned_arguments(PyObject* args);

int init_recording(PyObject* module);

}  // namespace rl

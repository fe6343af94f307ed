// What the files of the runtime share. Everything here is called with the interpreter lock held.
#pragma once
#include <rushlight/core_calls.h>
#include <rushlight/python.h>
#include <rushlight/tensor_layout.h>

namespace rushlight {

struct State {
  PyObject* package;                    // the module `rushlight`
  PyTypeObject *tensor, *dtype, *device;
  PyObject* dtypes[64];                 // by c10::ScalarType
  int8_t scalar_types[64];              // by the core's number
  int8_t device_types[256];             // c10::DeviceType by the core's number; -1: not asked yet
};
const CoreCalls& core_calls();          // needs no lock once it was called
State& state();                         // imports the package when first asked
inline const TensorFields* fields(const void* object) { return static_cast<const TensorFields*>(object); }
PyObject* argument(const Argument& given);   // of `call`; null without an error: leave it out

}  // namespace rushlight

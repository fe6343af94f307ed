// What the core itself asks of tensors while it records, walks back and reads them, by role. Which op plays a role is
// told by Python (rushlight/op/roles.py): none is named here. Everything holds the interpreter lock.
#pragma once
#include "types.h"

namespace rl {

enum class Role : uint8_t {
  Sum,            // of two tensors
  AddInto,        // in place
  Reduce,         // (dims, keepdim): the sum over some dims
  Copy,           // new memory, recorded
  CopyInto,       // in place
  Clear,          // to zeros, in place
  Fill,           // with a number, in place
  Detach,
  Convert,        // to a dtype or a device
  ToHost,
  Reshape,        // (sizes): a view
  Strided,        // (sizes, strides, offset): a view
  NewStrided,     // (sizes, strides): uninitialised, of the same class
  RealPart,
  ComplexAsPairs,
  PairsAsComplex,
  Rows,           // the parts along the first dim
  Element,        // the only one, as a number
  Conjugated,     // a view with the conjugates
  Negated,        // a view with the negatives
  Count
};

// Calls what plays the role with `self` and up to three arguments, as the tape's own call: no __torch_function__ sees
// it.
PyObject* call_role(Role role, PyObject* self, PyObject* a = nullptr, PyObject* b = nullptr, PyObject* c = nullptr);
// The same as the user's call, which modes and subclasses see.
PyObject* ask_role(Role role, PyObject* self, PyObject* a = nullptr);

int init_roles(PyObject* module);

}  // namespace rl

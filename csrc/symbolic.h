// Symbolic numbers, as far as the core knows them: three types that Python's SymInt, SymFloat and SymBool derive from.
#pragma once
#include "types.h"

namespace rl {

extern PyTypeObject *SymbolicIntType, *SymbolicFloatType, *SymbolicBoolType;

inline bool is_symbolic_int(PyObject* o) { return PyObject_TypeCheck(o, SymbolicIntType); }
inline bool is_symbolic_number(PyObject* o) { return is_symbolic_int(o) || PyObject_TypeCheck(o, SymbolicFloatType); }
inline bool is_symbolic_bool(PyObject* o) { return PyObject_TypeCheck(o, SymbolicBoolType); }

// A tensor of a function transform may stand for a fake one: then Python answers what is asked of its device, and of its
// layout where sizes are symbols. Null without an exception where the core's own answer holds.
PyObject* ask_behind(PyObject* tensor, const char* question);

int init_symbolic(PyObject* module);

}  // namespace rl

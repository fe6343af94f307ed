// The native guard tree: what a captured graph relies on, checked before each call of it.
#pragma once
#include "types.h"

namespace rl {

// Whether all guards of a tree (a `_C.GuardTree`) hold for flat locals, globals (a dict) and cells (a tuple or null).
// Never raises: what cannot be followed does not hold. The interpreter lock is held.
// `known`, where it is not null, says whether `guard_value` may be asked until other code runs.
bool guards_hold(PyObject* tree, PyObject* const* locals, Py_ssize_t count, PyObject* globals, PyObject* cells,
                 bool* known = nullptr);
PyObject* guard_value(PyObject* tree, int node);   // what was found at a node: borrowed, null where it was not kept
bool is_guard_tree(PyObject* o);

int init_guards(PyObject* module);
int init_compiled_callable(PyObject* module);
int init_call_key(PyObject* module);      // keys for caches of compiled functions

}  // namespace rl

// Tensors put together by the core itself: calls of any number of pieces, without a plan.
#pragma once
#include "call.h"

namespace rl {

// The result of a call whose arguments are a list and a dim, of an op that joins them. Null without an exception: its
// plan knows what to do (or what to refuse).
PyObject* join_tensors(Overload* op, PyObject** args);

// The definitions of the ops that put tensors one after another, and side by side along a new dim.
extern PyObject* joins_along;
extern PyObject* joins_anew;
inline bool is_join(const Overload* op) { return op->definition == joins_along || op->definition == joins_anew; }

}  // namespace rl

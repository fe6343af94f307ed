// Regions: a compiled function as the tape sees it. One native call runs the forward and records one node, one runs the
// backward.
#pragma once
#include "tape.h"

namespace rl {

// Gradients of a region's inputs from those of its results. As node_apply.
bool region_apply(Node* n, PyObject** grads, PyObject** out);
int init_region(PyObject* module);

}  // namespace rl

// Nodes of custom functions, from Python and from extensions.
#pragma once
#include "tape.h"

namespace rl {

int init_function_node(PyObject* module);
const char* native_name(Node* n);        // the class of an extension's function; null: the node is of another kind
PyObject* saved_values(PyObject* node);  // everything that a node saved, in order: a tuple (node_face.cpp)

}  // namespace rl

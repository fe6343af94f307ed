// What the runtime of extensions asks of the core without going through Python: C functions, whose addresses are in the
// capsule `rushlight._C._native_calls`. Both sides are compiled with this file; neither sees other headers of the other.
// Everything here holds the interpreter lock. What fails has set Python's error.
#pragma once
#include <Python.h>

#include <cstddef>
#include <cstdint>

#include "modes.h"

namespace rushlight {

constexpr uint32_t kCoreCallsVersion = 1;          // differs where the functions below do

struct GraphEdge {
  PyObject* node;                                  // strong; null: no gradient goes there
  uint32_t output;
};

// The derivative of one call, owned by its node.
struct NativeDerivative {
  // `grads`: one per output of forward, `count`, null where there is none. `out`: one per edge, new references, or null.
  bool (*run)(void* context, PyObject* node, PyObject* const* grads, size_t count, PyObject** out);
  void (*free)(void* context);
  void* context;
  const char* name;                                // lives as long as the process
};

enum class OutputRole : int { kFresh, kDirty, kConstant };

struct NodeRequest {
  NativeDerivative derivative;
  GraphEdge* edges;                                // taken over
  size_t num_edges;
  PyObject* const* outputs;
  const OutputRole* roles;
  size_t num_outputs;
  PyObject* const* saved;                          // tensors or None
  size_t num_saved;
};

enum class Recording : int { kUnwanted, kWanted, kAskPython };

struct CoreCalls {
  uint32_t version;
  Recording (*recording)(PyObject* const* tensors, size_t count);        // of a call with these, which may be None
  bool (*mode)(Mode mode);                                               // of the calling thread
  bool (*set_mode)(Mode mode, bool on);                                  // what it was
  bool (*collect_edges)(PyObject* const* tensors, size_t count, GraphEdge* edges);
  PyObject* (*alias)(PyObject* tensor);                                  // of the same elements, without a history
  bool (*is_differentiable)(PyObject* tensor);
  PyObject* (*make_node)(const NodeRequest* request);                    // attached to its outputs; frees the context if it fails
  bool (*is_needed)(PyObject* node, size_t edge);                        // whether the running backward pass follows it
  PyObject* (*saved)(PyObject* node);                                    // a tuple
  PyObject* (*zeros)(PyObject* node, size_t output);                     // of an output's sizes and type; None: it has no gradient
};

}  // namespace rushlight

// The tape: graph nodes recorded by op calls, and the iterative engine that walks them backwards.
// Everything here holds the interpreter lock.
#pragma once
#include <vector>

#include "tensor.h"

namespace rl {

struct Overload;

struct Edge {
  Node* node = nullptr;          // strong
  uint32_t input_nr = 0;
};

// Shape and type of one forward output: what its gradient must look like.
struct OutputMeta {
  DType dtype = DType::F32;
  Device device;
  bool defined = false;
  std::vector<int64_t> sizes;    // replaced by inline storage if it shows in a profile
};

// A tensor kept for the backward pass, with the version it had.
struct Saved {
  PyObject* value = nullptr;     // strong: Tensor, any Python object (non-tensor argument), or a packed object (hooks)
  PyObject* unpack = nullptr;    // strong: unpack hook when saved_tensors_hooks were active
  uint32_t version = 0;
  int8_t kind = 0;               // 0 empty, 1 tensor, 2 plain object, 3 the node's own output, 4 list of tensors, 5 packed by a hook
  uint8_t output_nr = 0;
};

enum class NodeKind : uint8_t { Op, Accumulate, Function, CopySlices, Error, Other };

struct Node {
  PyObject_HEAD
  uint64_t sequence;
  NodeKind kind;
  bool released;                 // saved tensors were freed by a backward pass without retain_graph
  uint16_t num_edges;
  uint16_t num_outputs;          // of the forward op: gradients it receives
  uint16_t num_saved;
  Edge* edges;
  OutputMeta* outputs;
  Saved* saved;                  // by parameter index, then the results
  PyObject* op;                  // Op: the Overload; Function: the Python Function context; Accumulate: the leaf (strong)
  uint64_t needs;                // Op: bit per edge that wants a gradient
  PyObject* hooks;               // dict or null: post hooks
  PyObject* pre_hooks;           // dict or null: pre hooks (including tensor hooks moved here)
  PyObject* metadata;            // dict (anomaly traceback lives here)
  PyObject* weakrefs;
  // Engine scratch, valid while `task` is the running task's id.
  uint64_t task;
  uint32_t pending;
  PyObject** buffer;
};

extern PyTypeObject* NodeType;

// The node whose backward yields t's gradient, remade if t is a view of a base written in place. Borrowed; may be null.
Node* tape_grad_fn(Tensor* t);
// Edge to use when t is an input of a recorded op: grad_fn or the leaf's accumulator. {null} if no gradient is needed.
Edge tape_edge(Tensor* t);
inline bool tape_requires_grad(Tensor* t) { return t->requires_grad() || (t->view && tape_grad_fn(t)); }

// Records `op` applied to the bound arguments `args` (one per parameter; tensors, lists of tensors, others).
// `result` is a Tensor or a tuple of Tensors. Called only when some differentiable input requires grad and grad mode is on.
bool tape_record(Overload* op, PyObject** args, PyObject* result);
// In-place forms: `self` is args[0]. check before the write; rebase after (bumps nothing: the caller bumps the version).
bool tape_check_inplace(Tensor* self, const char* op_name);
bool tape_rebase(Overload* op, PyObject** args, Tensor* self);
// Marks `out` as a view of `base` made now. For differentiable views tape_record follows.
bool tape_set_view(Tensor* out, Tensor* base, bool multi_output);

void tape_free_autograd(Tensor* t);   // drops grad_fn, grad, view, extra when a tensor dies

int init_tape(PyObject* module);

}  // namespace rl

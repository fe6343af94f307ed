// The tape: graph nodes recorded by op calls, and the iterative engine that walks them backwards.
// tape.cpp makes and frees nodes, inplace.cpp follows writes and views, engine.cpp walks; the Python face is in
// extras/tape_face.cpp. Everything here holds the interpreter lock.
#pragma once
#include <vector>

#include "roles.h"
#include "tensor.h"

namespace rl {

struct Overload;

struct Edge {
  Node* node = nullptr;          // strong
  uint32_t input_nr = 0;         // kNoTensor where there is no node because the argument is no tensor: a number, None
};
constexpr uint32_t kNoTensor = 1;

// Shape and type of one forward output: what its gradient must look like. Sizes live in the node's tail.
struct OutputMeta {
  DType dtype;
  Device device;
  uint8_t ndim;
  bool defined;                  // false: this output is not differentiable
  uint32_t first_size;           // index into Node::sizes()
};

enum class SavedKind : uint8_t {
  Empty,
  Input,       // strong Tensor, checked against the version it had
  Plain,       // strong: any Python object; stays when the node's tensors are freed
  Freed,       // the same, but freed with them: what stands in a tensor's place
  Output,      // weak Tensor: the node's own output, still alive (strong would be a cycle)
  OutputCopy,  // strong detached Tensor: the output died or moved on to another node
  List,        // strong tuple of Tensors; `version` is the sum of theirs
  Packed,      // strong tuple made by pack_saved(): saved_tensors_hooks were active
};

// One value kept for the backward pass.
struct Saved {
  PyObject* value = nullptr;
  uint32_t version = 0;
  SavedKind kind = SavedKind::Empty;
  uint16_t output_nr = 0;        // Output, OutputCopy: which output
};

// Face: no part of what the engine runs. It shows Python one step of a node that takes several at once (see dress).
enum class NodeKind : uint8_t { Op, Accumulate, Function, CopySlices, Error, Callable, Region, Face };

// An argument of a call that a node remembers: a tensor by its edge, sizes and type, others as they are.
struct MadeArgument {
  PyObject* value = nullptr;     // strong; null: a tensor
  Edge edge;
  DType dtype;
  Device device;
  uint8_t ndim = 0;
  int64_t* geometry = nullptr;   // sizes, then strides
};
struct Made {
  Overload* op;                  // strong
  uint32_t count;
  MadeArgument args[];           // one per parameter; geometries follow
};

// Rarely used state of a node.
struct NodeExtra {
  PyObject* hooks = nullptr;         // dict: post hooks
  PyObject* pre_hooks = nullptr;     // dict: pre hooks
  PyObject* tensor_hooks = nullptr;  // list of (output_nr, dict)
  PyObject* retained = nullptr;      // list of (output_nr, weakref to the tensor that retains its gradient)
  PyObject* metadata = nullptr;      // dict (anomaly traceback lives here)
  PyObject* shown = nullptr;  // tuple: next functions as Python sees them, where they are not the edges: places of
                              // edges (-1: none), or pairs (node, output_nr)
};

// What a backward pass keeps about one node while it runs.
struct Scratch {
  uint32_t pending = 0;          // gradients still to come
  uint32_t marks = 0;
  PyObject** buffer = nullptr;   // the gradient itself (num_outputs == 1), or an array of them; strong
};

// A node and everything it owns is one allocation: the header, then edges, saved values, output metadata, sizes
// of the outputs and lengths of the list parameters. ob_size is the number of bytes after the header.
struct Node {
  PyObject_VAR_HEAD
  uint64_t sequence;             // creation order within the process; accumulators sort before everything
  NodeKind kind;
  bool released;                 // saved tensors were freed by a backward pass without retain_graph
  bool has_lists;                // some tensor parameter is a list: list_lengths() is valid
  bool weak_outputs;             // some Saved has kind Output
  uint8_t steps;                 // recorded last by the body of an op that counts its nodes (Shows::Steps): how many
  bool busy;                     // Accumulate: a thread is writing the gradient with the lock released
  uint16_t thread;               // that recorded it (ThreadState::number)
  uint32_t num_outputs;          // of the forward op: gradients it receives
  uint32_t num_saved;
  uint32_t num_edges;
  uint32_t num_sizes;
  PyObject* op;  // Op: the Overload; Function: the context; Accumulate: the leaf; CopySlices: inner Node; Region
  NodeExtra* extra;
  Made* made;                    // the call of several ops whose result this is (see tape_mark); mostly null
  PyObject* weakrefs;
  // Engine scratch, valid while `task` is the id of a live task.
  uint64_t task;
  Scratch scratch;

  Edge* edges() { return reinterpret_cast<Edge*>(this + 1); }
  Saved* saved() { return reinterpret_cast<Saved*>(edges() + num_edges); }
  OutputMeta* outputs() { return reinterpret_cast<OutputMeta*>(saved() + num_saved); }
  int64_t* sizes() {
    auto end = reinterpret_cast<uintptr_t>(outputs() + num_outputs);
    return reinterpret_cast<int64_t*>((end + 7) & ~uintptr_t{7});
  }
  uint32_t* list_lengths() { return reinterpret_cast<uint32_t*>(sizes() + num_sizes); }
};

extern PyTypeObject* NodeType;
extern PyTypeObject* FunctionNodeType;   // same layout, seen by the collector: its context may refer back to it

inline bool is_node(PyObject* o) {
  return PyObject_TypeCheck(o, NodeType) || PyObject_TypeCheck(o, FunctionNodeType);
}
inline Node* as_node(PyObject* o) { return reinterpret_cast<Node*>(o); }

// What the tape derived from one overload, made at its first recording (Overload::tape).
struct DerivedVjp {
  Overload* op = nullptr;                // strong; null when every gradient is `g` itself
  std::vector<int> params;               // what to pass after the gradients: parameter index, -1 for the result
  PyObject* zeros =
      nullptr;  // strong, may be null: given op's arguments, says as bits which of its results are 0 whatever they hold
  std::vector<int> outputs;  // per needed parameter: position in op's result, -1: g itself, -2: none, -3 - k: position
                             // k, without its graph
};

struct TapeInfo {
  std::vector<int> tensor_params;        // parameters that have edges
  std::vector<int> saved_params;         // explicit vjp: parameters kept
  bool has_lists = false;
  bool saves_self = false;               // an explicit vjp reads the data of parameter 0
  DerivedVjp* derived[8] = {};           // by needs mask over tensor_params, for the usual small masks
  std::vector<std::pair<uint64_t, DerivedVjp*>> more;
  void* transcripts = nullptr;           // explicit vjp: what it did before (transcript.cpp)
};
TapeInfo* tape_info(Overload* op);                              // null with an exception
DerivedVjp* tape_derived(Overload* op, TapeInfo* info, uint64_t mask);   // null with an exception

// ---- recording (tape.cpp) ----

Node* node_new(NodeKind kind, PyObject* op, uint32_t edges, uint32_t saved, uint32_t outputs, uint32_t sizes,
               uint32_t lists = 0);
NodeExtra* node_extra(Node* n);
void node_set_output(Node* n, uint32_t i, Tensor* t, uint32_t* next_size);   // metadata only
void node_release(Node* n);       // frees what was saved of tensors; where there was any, later use is an error
void refuse_released(Node* n);                                  // words that error
PyObject* node_name(Node* n);                                   // as PyTorch has it; new reference
// A type for nodes that Python has seen: the same layout, another name. New reference.
PyTypeObject* node_subtype(const char* name, bool collected);
bool saved_pack_input(Saved* s, PyObject* value);               // through hooks when active
bool saved_pack_list(Saved* s, PyObject* value);
bool saved_pack_output(Node* n, Saved* s, Tensor* t, uint32_t output_nr);
PyObject* saved_unpack(Node* n, Saved* s, const char* what);    // new reference
void saved_clear(Saved* s);
void saved_keep_output(Node* n, Tensor* t);                     // t leaves its node n: n keeps the data by itself
void tape_set_grad_fn(Tensor* t, Node* n, uint32_t output_nr);  // replaces, keeping the old node's saved output valid

// The node whose backward yields t's gradient, remade if t is a view of a base written in place. Borrowed; may be null.
Node* tape_grad_fn_slow(Tensor* t);
inline Node* tape_grad_fn(Tensor* t) { return t->view ? tape_grad_fn_slow(t) : t->grad_fn; }
// Edge to use when t is an input of a recorded op: grad_fn or the leaf's accumulator. {null} if no gradient is needed.
// The node is a new reference.
Edge tape_edge(Tensor* t);   // no node: there is none to have, or an exception is set
inline bool tape_requires_grad(Tensor* t) { return t->requires_grad() || (t->view && tape_grad_fn(t)); }

// Records `op` applied to the bound arguments `args` (one per parameter; tensors, lists of tensors, others).
// `result` is a Tensor or a tuple of Tensors. Called only when some differentiable input requires grad and grad mode is
// on.
bool tape_record(Overload* op, PyObject** args, PyObject* result);

uint64_t tape_sequence();            // of the next node
// `result` came out of several recorded ops that PyTorch has as one: the node recorded last, if it is not older than
// `since`, remembers the call (its op, sizes and edges of tensors, other arguments), for those who look at the graph.
bool tape_mark(Overload* op, PyObject** args, PyObject* result, uint64_t since);

// The node tape_record would attach to `result`, not attached. Null without an exception: nothing to record.
Node* tape_make_node(Overload* op, PyObject** args, PyObject* result, PyObject* kept_self);

// ---- in-place writes and views (inplace.cpp) ----

// In-place forms: `self` is args[0]. Check before the write; then write; then bump the version once; then rebase.
bool tape_check_inplace(Tensor* self, const char* op_name);
// A copy of `self` where the derivative reads its old data (new reference), else null; call before the write, hand to
// tape_rebase. Null with an exception on failure.
PyObject* tape_keep_self(Overload* op, PyObject** args);
bool tape_rebase(Overload* op, PyObject** args, Tensor* self, PyObject* kept_self = nullptr);
// Gives `self` (a view or not) the history of `n`, whose edge 0 is self's own old edge.
bool tape_rebase_node(Tensor* self, Node* n);
// A written tensor gets a new node: hooks stay with the old one, a retained gradient follows.
void tape_give_history(Tensor* t, Node* n, uint32_t output_nr);
// Marks `out` as a view of `base` made now. For differentiable views tape_record follows.
bool tape_set_view(Tensor* out, Tensor* base, bool multi_output);
// Results of a body (a Tensor or a tuple) that are views of a tensor it made, which nobody else holds, become plain
// tensors with the history they have; `hidden`: views of its arguments do too.
void tape_plain_results(PyObject* result, Tensor** args, int num_args, bool hidden);
// Runs a CopySlices node. grads and out as for node_apply.
bool copy_slices_apply(Node* n, PyObject** grads, PyObject** out);

void tape_free_autograd(Tensor* t);   // drops grad_fn, grad, view, extra when a tensor dies
// For the tensor type's collector slots: what hangs off the autograd state.
int tape_traverse(Tensor* t, visitproc visit, void* arg);

// ---- engine (engine.cpp) ----

struct BackwardCall {
  std::vector<Edge> roots;          // borrowed nodes
  std::vector<PyObject*> gradients; // borrowed; null: none
  bool keep_graph = false, create_graph = false;
  bool accumulate = true;           // into .grad of leaves (of `inputs` only, where given); else capture
  bool has_inputs = false;
  std::vector<Edge> inputs;         // borrowed nodes; null node: unreachable
};
// Runs it. `captured` gets one new reference (or null) per input when !accumulate.
bool engine_run(BackwardCall& call, std::vector<PyObject*>* captured);
// Applies one node to gradients (borrowed, null allowed). `needs`: bit per edge, all ones for every one. `out` gets new
// references.
bool node_apply(Node* n, PyObject** grads, PyObject** out, uint64_t needs);
bool accumulate_grad(Node* n, PyObject* grad);
uint64_t engine_current_task();     // id of the innermost backward pass of this thread; 0: none
bool engine_call_at_end(PyObject* function);   // whether a backward pass is running here that will call it
bool engine_has_inputs();           // it asks for certain inputs only
bool engine_will_run(Node* n);      // the innermost backward pass of this thread delivers a gradient to n
uint64_t& engine_current_needs();   // needs of the vjp being run on this thread, over tensor parameters

// The hook stack of saved_tensors_hooks on this thread: strong (pack, unpack) tuples, or None to suspend those below.
std::vector<PyObject*>& saved_hooks();
PyObject* saved_hooks_top();        // borrowed; null: none is active

extern PyObject* autograd_callbacks;   // dict of Python helpers set by rushlight.autograd

int init_tape(PyObject* module);

}  // namespace rl

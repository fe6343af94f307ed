// Nodes of custom functions: those of autograd.Function, whose rule is Python's, and those of torch::autograd::Function,
// whose rule is an extension's and never passes through Python. Everything holds the lock.
#include <Python.h>
#include <structmember.h>

#include "boundary.h"
#include "call.h"
#include "core.h"
#include "faces.h"
#include "function_node.h"
#include "rushlight/core_calls.h"

#include <optional>
#include <utility>

namespace rl {

using rushlight::OutputRole;

static Edge edge_of_argument(PyObject* a) {
  bool has_edge = is_tensor(a) && is_differentiable(as_tensor(a)->dtype);
  return has_edge ? tape_edge(as_tensor(a)) : Edge{};
}

static bool attach_output(Node* n, Tensor* t, uint32_t i, OutputRole role) {
  if (role == OutputRole::kDirty && t->view && t->view->is_grad_view) {
    if (n->num_outputs != 1)
      return PyErr_SetString(PyExc_RuntimeError,
                             "a Function with several outputs may not modify a view in place: return a new tensor"),
             false;
    return tape_rebase_node(t, n);
  }
  tape_give_history(t, n, i);
  if (t->view) t->view->seen_version = t->current_version();
  return true;
}

static uint32_t count_dims(PyObject* const* outputs, const OutputRole* roles, size_t count) {
  uint32_t dims = 0;
  for (size_t i = 0; i < count; i++)
    if (roles[i] != OutputRole::kConstant) dims += as_tensor(outputs[i])->ndim;
  return dims;
}

static bool attach_outputs(Node* n, PyObject* const* outputs, const OutputRole* roles, bool collected) {
  uint32_t next = 0;
  for (uint32_t i = 0; i < n->num_outputs; i++) {
    if (roles[i] == OutputRole::kConstant) continue;
    Tensor* t = as_tensor(outputs[i]);
    node_set_output(n, i, t, &next);
    if (collected) tensor_track(t);   // the context may keep its own output: only the collector can free that
    if (!attach_output(n, t, i, roles[i])) return false;
  }
  return true;
}

static bool keep_saved(Node* n, PyObject* const* outputs, const OutputRole* roles, PyObject* const* saved) {
  for (uint32_t k = 0; k < n->num_saved; k++) {
    std::optional<uint32_t> own;
    for (uint32_t i = 0; i < n->num_outputs; i++)
      if (saved[k] == outputs[i] && roles[i] != OutputRole::kConstant && as_tensor(saved[k])->grad_fn == n) own = i;
    bool ok = own ? saved_pack_output(n, n->saved() + k, as_tensor(saved[k]), *own)
                  : saved_pack_input(n->saved() + k, saved[k]);
    if (!ok) return false;
  }
  return true;
}

// --- from Python ---------------------------------------------------------------------------------------------------

// Edges of arguments, taken before a forward that may write them: one (node or None, nr) each.
static PyObject* py_collect_edges(PyObject*, PyObject* args) {
  PyObject* tuple = PyTuple_New(PyTuple_GET_SIZE(args));
  for (Py_ssize_t i = 0; tuple && i < PyTuple_GET_SIZE(args); i++) {
    Edge e = edge_of_argument(PyTuple_GET_ITEM(args, i));
    PyObject* node = e.node ? as_object(e.node) : Py_None;   // not dressed: nobody looks at these
    PyObject* pair = e.node || !PyErr_Occurred() ? Py_BuildValue("(OI)", node, e.input_nr) : nullptr;
    Py_XDECREF(e.node);
    if (!pair) return Py_DECREF(tuple), nullptr;
    PyTuple_SET_ITEM(tuple, i, pair);
  }
  return tuple;
}

// (context, edges, outputs, roles, saved, kind) -> node, attached to its outputs
static PyObject* py_function_node(PyObject*, PyObject* args) {
  PyObject *context, *edges, *outputs, *roles, *saved;
  int callable = 0;
  if (!PyArg_ParseTuple(args, "OO!O!O!O!|p", &context, &PyTuple_Type, &edges, &PyTuple_Type, &outputs, &PyTuple_Type,
                        &roles, &PyTuple_Type, &saved, &callable))
    return nullptr;
  auto count = [](PyObject* tuple) { return static_cast<uint32_t>(PyTuple_GET_SIZE(tuple)); };
  auto items = [](PyObject* tuple) { return reinterpret_cast<PyTupleObject*>(tuple)->ob_item; };
  std::vector<OutputRole> role;
  for (uint32_t i = 0; i < count(outputs); i++) {
    bool differs = is_tensor(items(outputs)[i]);
    role.push_back(differs ? static_cast<OutputRole>(PyLong_AsLong(items(roles)[i])) : OutputRole::kConstant);
  }
  Node* n = node_new(callable ? NodeKind::Callable : NodeKind::Function, context, count(edges), count(saved),
                     count(outputs), count_dims(items(outputs), role.data(), role.size()));
  if (!n) return nullptr;
  Ref holder(as_object(n));
  for (uint32_t i = 0; i < n->num_edges; i++)
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(edges, i), "OI", &n->edges()[i].node, &n->edges()[i].input_nr)) {
      n->edges()[i].node = nullptr;
      return nullptr;
    } else if (as_object(n->edges()[i].node) == Py_None) {
      n->edges()[i].node = nullptr;
    } else {
      Py_INCREF(n->edges()[i].node);
    }
  if (!attach_outputs(n, items(outputs), role.data(), true)) return nullptr;
  return keep_saved(n, items(outputs), role.data(), items(saved)) ? holder.release() : nullptr;
}

// --- from extensions (rushlight/core_calls.h) ----------------------------------------------------------------------

// What a node of an extension has for its op: the engine calls it with gradients, as the rule of any Callable.
struct NativeRule {
  PyObject_HEAD
  vectorcallfunc call;
  Node* node;                        // owns this
  rushlight::NativeDerivative derivative;
};
static PyTypeObject* NativeRuleType;

static void rule_free(PyObject* self) {
  auto& derivative = reinterpret_cast<NativeRule*>(self)->derivative;
  derivative.free(derivative.context);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

const char* native_name(Node* n) {
  bool is_native = n->kind == NodeKind::Callable && n->op && Py_TYPE(n->op) == NativeRuleType;
  return is_native ? reinterpret_cast<NativeRule*>(n->op)->derivative.name : nullptr;
}

// Gradients in, a tuple with one per edge out.
static PyObject* rule_call(PyObject* self, PyObject* const* args, size_t flags, PyObject*) {
  auto* rule = reinterpret_cast<NativeRule*>(self);
  Node* n = rule->node;
  auto count = static_cast<size_t>(PyVectorcall_NARGS(flags));
  std::vector<PyObject*> grads(args, args + count);
  for (PyObject*& g : grads)
    if (g == Py_None) g = nullptr;
  Ref all(PyTuple_New(n->num_edges));
  if (!all) return nullptr;
  PyObject** out = reinterpret_cast<PyTupleObject*>(all.p)->ob_item;
  bool ok = rule->derivative.run(rule->derivative.context, as_object(n), grads.data(), count, out);
  for (uint32_t i = 0; i < n->num_edges; i++)
    if (!out[i]) out[i] = Py_NewRef(Py_None);
  return ok ? all.release() : nullptr;
}

// Transforms have rules of their own for functions, which are Python's.
static rushlight::Recording recording(PyObject* const* tensors, size_t count) {
  const ThreadState& now = thread_state();
  if (now.keys & kKeyFunctorch) return rushlight::Recording::kAskPython;
  if (!now.grad_enabled) return rushlight::Recording::kUnwanted;
  for (size_t i = 0; i < count; i++)
    if (is_tensor(tensors[i]) && tape_requires_grad(as_tensor(tensors[i]))) return rushlight::Recording::kWanted;
  return rushlight::Recording::kUnwanted;
}

static thread_local bool is_below_autograd;

static bool* mode_flag(rushlight::Mode mode) {
  if (mode == rushlight::Mode::kBelowAutograd) return &is_below_autograd;
  return mode == rushlight::Mode::kGrad ? &thread_state().grad_enabled : &thread_state().inference;
}
static bool mode_of_thread(rushlight::Mode mode) { return *mode_flag(mode); }
static bool set_mode_of_thread(rushlight::Mode mode, bool on) { return std::exchange(*mode_flag(mode), on); }

static bool collect_edges(PyObject* const* tensors, size_t count, rushlight::GraphEdge* edges) {
  for (size_t i = 0; i < count; i++) {
    Edge e = edge_of_argument(tensors[i]);
    edges[i] = {as_object(e.node), e.input_nr};
    if (e.node || !PyErr_Occurred()) continue;
    for (size_t k = 0; k < i; k++) Py_CLEAR(edges[k].node);
    return false;
  }
  return true;
}

static PyObject* alias(PyObject* tensor) {
  static PyObject* name = PyUnicode_InternFromString("detach");
  return PyObject_CallMethodNoArgs(tensor, name);
}

static PyObject* make_native_node(const rushlight::NodeRequest* request) {
  const rushlight::NodeRequest& r = *request;
  auto* rule = PyObject_New(NativeRule, NativeRuleType);
  Ref owned(reinterpret_cast<PyObject*>(rule));
  if (rule) rule->call = rule_call, rule->node = nullptr, rule->derivative = r.derivative;
  else r.derivative.free(r.derivative.context);
  Node* n = rule ? node_new(NodeKind::Callable, owned.p, static_cast<uint32_t>(r.num_edges),
                            static_cast<uint32_t>(r.num_saved), static_cast<uint32_t>(r.num_outputs),
                            count_dims(r.outputs, r.roles, r.num_outputs))
                 : nullptr;
  if (!n) {
    for (size_t i = 0; i < r.num_edges; i++) Py_CLEAR(r.edges[i].node);
    return nullptr;
  }
  Ref holder(as_object(n));
  rule->node = n;
  for (size_t i = 0; i < r.num_edges; i++)
    n->edges()[i] = {reinterpret_cast<Node*>(std::exchange(r.edges[i].node, nullptr)), r.edges[i].output};
  if (!attach_outputs(n, r.outputs, r.roles, false)) return nullptr;
  return keep_saved(n, r.outputs, r.roles, r.saved) ? holder.release() : nullptr;
}

static bool is_needed(PyObject* node, size_t edge) {
  Node* n = as_node(node);
  Node* next = edge < n->num_edges ? n->edges()[edge].node : nullptr;
  return next && (!engine_current_task() || engine_will_run(next));
}

static PyObject* zeros_of_output(PyObject* node, size_t output) {
  Node* n = as_node(node);
  OutputMeta& m = n->outputs()[output];
  if (!m.defined) Py_RETURN_NONE;
  Ref meta(new_meta(n->sizes() + m.first_size, m.ndim, m.dtype, m.device));
  return meta ? PyObject_CallMethod(meta.p, "zeros", nullptr) : nullptr;
}

static bool has_gradients(PyObject* tensor) { return is_differentiable(as_tensor(tensor)->dtype); }

static rushlight::CoreCalls calls = {rushlight::kCoreCallsVersion,
                                     recording,
                                     mode_of_thread,
                                     set_mode_of_thread,
                                     collect_edges,
                                     alias,
                                     has_gradients,
                                     make_native_node,
                                     is_needed,
                                     saved_values,
                                     zeros_of_output};

static PyObject* py_set_below(PyObject*, PyObject* on) {
  int truth = PyObject_IsTrue(on);
  return truth < 0 ? nullptr : PyBool_FromLong(std::exchange(is_below_autograd, truth > 0));
}
static PyObject* py_is_below(PyObject*, PyObject*) { return PyBool_FromLong(is_below_autograd); }

static PyMethodDef functions[] = {
    {"_collect_edges", guarded<py_collect_edges>, METH_VARARGS, "an edge per argument"},
    {"_function_node", guarded<py_function_node>, METH_VARARGS,
     "(context, edges, outputs, roles, saved, callable=False)"},
    {"_set_below_autograd", guarded<py_set_below>, METH_O,
     "whether calls of this thread pass by what back ends registered for autograd; returns what it was"},
    {"_is_below_autograd", guarded<py_is_below>, METH_NOARGS, nullptr},
    {}};

static PyObject* rule_name(PyObject*, void*) { return PyUnicode_FromString("CppFunction"); }
static PyGetSetDef rule_getset[] = {{"_node_name", rule_name, nullptr, nullptr, nullptr}, {}};
static PyMemberDef rule_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(NativeRule, call), READONLY, nullptr}, {}};
static PyType_Slot rule_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(rule_free)},
                                   {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                   {Py_tp_getset, rule_getset},
                                   {Py_tp_members, rule_members},
                                   {0, nullptr}};
static PyType_Spec rule_spec = {
    "rushlight._C.NativeRule", sizeof(NativeRule), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, rule_slots};

int init_function_node(PyObject* module) {
  NativeRuleType = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&rule_spec));
  if (!NativeRuleType) return -1;
  Ref capsule(PyCapsule_New(&calls, "rushlight._C._native_calls", nullptr));
  if (!capsule || PyModule_AddObjectRef(module, "_native_calls", capsule.p)) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace rl

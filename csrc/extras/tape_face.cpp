// The tape as Python sees it: attributes of nodes, tensor metadata, thread modes, and the engine's entry point.
// Everything holds the lock.
#include "boundary.h"
#include "call.h"
#include "core.h"
#include "faces.h"
#include "geometry.h"

#include <utility>

namespace rl {

static PyTypeObject* TensorMetaType;

// Geometry, dtype and device of a tensor the backward pass needs no data of. ob_size counts dims.
struct TensorMeta {
  PyObject_VAR_HEAD
  DType dtype;
  Device device;
  bool requires_grad;
  int64_t offset;
  int64_t sizes[1];              // sizes, then strides
  int64_t* strides() { return sizes + ob_base.ob_size; }
};

// --- nodes ---------------------------------------------------------------------------------------------------------

static PyObject* edge_object(Node* node, uint32_t nr) {
  return Py_BuildValue("(OI)", node ? as_object(node) : Py_None, nr);
}

static PyObject* n_name(PyObject* self, PyObject*) { return node_name(as_node(self)); }
static PyObject* n_sequence(PyObject* self, PyObject*) { return PyLong_FromUnsignedLongLong(as_node(self)->sequence); }

static PyObject* n_next_functions(PyObject* self, void*) {
  Node* n = as_node(self);
  PyObject* tuple = PyTuple_New(n->num_edges);
  for (uint32_t i = 0; tuple && i < n->num_edges; i++) {
    PyObject* pair = edge_object(n->edges()[i].node, n->edges()[i].input_nr);
    if (!pair) return Py_DECREF(tuple), nullptr;
    PyTuple_SET_ITEM(tuple, i, pair);
  }
  return tuple;
}

static PyObject* n_metadata(PyObject* self, void*) {
  NodeExtra* x = node_extra(as_node(self));
  if (!x->metadata && !(x->metadata = PyDict_New())) return nullptr;
  return Py_NewRef(x->metadata);
}

static PyObject* n_variable(PyObject* self, void*) {
  Node* n = as_node(self);
  if (n->kind == NodeKind::Accumulate && n->op) return Py_NewRef(n->op);
  PyErr_SetString(PyExc_AttributeError, "only AccumulateGrad has a variable");
  return nullptr;
}

static PyObject* n_context(PyObject* self, void*) {
  Node* n = as_node(self);
  return Py_NewRef(n->kind == NodeKind::Function && n->op ? n->op : Py_None);
}

static PyObject* n_released(PyObject* self, void*) { return PyBool_FromLong(as_node(self)->released); }

static PyObject* meta_new(const int64_t* sizes, int ndim, DType dtype, Device device);
static PyObject* tensor_meta(Tensor* t);

static PyObject* n_input_metadata(PyObject* self, void*) {
  Node* n = as_node(self);
  PyObject* list = PyList_New(n->num_outputs);
  for (uint32_t i = 0; list && i < n->num_outputs; i++) {
    OutputMeta& m = n->outputs()[i];
    PyObject* item;
    if (n->kind == NodeKind::Accumulate) item = tensor_meta(as_tensor(n->op));
    else item = m.defined ? meta_new(n->sizes() + m.first_size, m.ndim, m.dtype, m.device) : Py_NewRef(Py_None);
    if (!item) return Py_DECREF(list), nullptr;
    PyList_SET_ITEM(list, i, item);
  }
  return list;
}

static PyObject** hook_slot(Node* n, const char* which) {
  NodeExtra* x = node_extra(n);
  if (!strcmp(which, "post")) return &x->hooks;
  if (!strcmp(which, "pre")) return &x->pre_hooks;
  PyErr_Format(PyExc_ValueError, "hooks are \"pre\" or \"post\", got %s", which);
  return nullptr;
}

static PyObject* n_get_hooks(PyObject* self, PyObject* which) {
  const char* text = PyUnicode_AsUTF8(which);
  PyObject** slot = text ? hook_slot(as_node(self), text) : nullptr;
  return slot ? Py_NewRef(*slot ? *slot : Py_None) : nullptr;
}

static PyObject* n_set_hooks(PyObject* self, PyObject* args) {
  const char* which;
  PyObject* dict;
  if (!PyArg_ParseTuple(args, "sO!", &which, &PyDict_Type, &dict)) return nullptr;
  PyObject** slot = hook_slot(as_node(self), which);
  if (!slot) return nullptr;
  Py_XSETREF(*slot, Py_NewRef(dict));
  Py_RETURN_NONE;
}

static PyObject* n_saved_values(PyObject* self, PyObject*) {
  Node* n = as_node(self);
  if (n->released) return refuse_released(n), nullptr;
  PyObject* tuple = PyTuple_New(n->num_saved);
  for (uint32_t i = 0; tuple && i < n->num_saved; i++) {
    PyObject* value = saved_unpack(n, n->saved() + i, "saved tensor");
    if (!value) return Py_DECREF(tuple), nullptr;
    PyTuple_SET_ITEM(tuple, i, value);
  }
  return tuple;
}

// What a node does, for those who run it otherwise: (the op, or None for a leaf's), or None where only the engine can.
static PyObject* n_rule(PyObject* self, PyObject*) {
  Node* n = as_node(self);
  NodeExtra* x = n->extra;
  bool watched = x && (x->hooks || x->pre_hooks || x->tensor_hooks || x->retained);
  if (watched || n->released || (n->kind != NodeKind::Op && n->kind != NodeKind::Accumulate)) Py_RETURN_NONE;
  return PyTuple_Pack(1, n->kind == NodeKind::Op ? n->op : Py_None);
}

static PyObject* n_release(PyObject* self, PyObject*) {
  node_release(as_node(self));
  Py_RETURN_NONE;
}

// Names of what an op's node keeps, in the order of its saved values.
static std::vector<int> saved_order(Node* n) {
  auto* op = reinterpret_cast<Overload*>(n->op);
  TapeInfo* info = tape_info(op);
  std::vector<int> order;
  if (!info) return order;
  if (op->mask_vjp) {
    uint64_t mask = 0;
    for (uint32_t k = 0; k < n->num_edges && k < 64; k++)
      if (n->edges()[k].node) mask |= uint64_t{1} << k;
    DerivedVjp* derived = tape_derived(op, info, mask);
    return derived ? derived->params : order;
  }
  order = info->saved_params;
  while (order.size() < n->num_saved) order.push_back(-1);
  return order;
}

static PyObject* saved_attribute(Node* n, const char* name) {
  auto* op = reinterpret_cast<Overload*>(n->op);
  std::vector<int> order = saved_order(n);
  for (size_t i = 0; i < order.size(); i++) {
    const char* param = order[i] < 0 ? "result" : PyUnicode_AsUTF8((*op->params)[order[i]].name);
    if (strcmp(name, param)) continue;
    GradModeGuard attached(true);
    return saved_unpack(n, n->saved() + i, param);
  }
  PyErr_Format(PyExc_AttributeError, "this node saved no value named %s", name);
  return nullptr;
}

static PyObject* n_dir(PyObject* self, PyObject*) {
  Node* n = as_node(self);
  Ref base(PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__dir__", "O", self));
  Ref list(base ? PySequence_List(base.p) : nullptr);
  if (!list || n->kind != NodeKind::Op) return list.release();
  for (int p : saved_order(n)) {
    Ref name(PyUnicode_FromFormat(
        "_saved_%s", p < 0 ? "result" : PyUnicode_AsUTF8((*reinterpret_cast<Overload*>(n->op)->params)[p].name)));
    if (!name || PyList_Append(list.p, name.p)) return nullptr;
  }
  return list.release();
}

static PyObject* node_getattro(PyObject* self, PyObject* name) {
  PyObject* found = PyObject_GenericGetAttr(self, name);
  Node* n = as_node(self);
  if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  if (n->kind == NodeKind::Function && n->op) {
    PyErr_Clear();
    return PyObject_GetAttr(n->op, name);   // a custom Function's node stands for its context
  }
  const char* text = PyUnicode_AsUTF8(name);
  if (!text || n->kind != NodeKind::Op || strncmp(text, "_saved_", 7)) return nullptr;
  PyErr_Clear();
  return saved_attribute(n, text + 7);
}

static PyObject* node_repr(PyObject* self) {
  Ref name(node_name(as_node(self)));
  return name ? PyUnicode_FromFormat("<%U object at %p>", name.p, self) : nullptr;
}

static PyObject* node_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  Node* n = as_node(self);
  if (kwargs && PyDict_GET_SIZE(kwargs))
    return PyErr_SetString(PyExc_TypeError, "a node takes gradients, no keywords"), nullptr;
  if (PyTuple_GET_SIZE(args) != n->num_outputs)
    return PyErr_Format(PyExc_TypeError, "expected %u gradients, got %zd", n->num_outputs, PyTuple_GET_SIZE(args)),
           nullptr;
  std::vector<PyObject*> grads(n->num_outputs ? n->num_outputs : 1), out(n->num_edges ? n->num_edges : 1, nullptr);
  for (uint32_t i = 0; i < n->num_outputs; i++) {
    PyObject* g = PyTuple_GET_ITEM(args, i);
    if (g != Py_None && !is_tensor(g))
      return PyErr_Format(PyExc_TypeError, "expected a Tensor or None, got %s", Py_TYPE(g)->tp_name), nullptr;
    grads[i] = g == Py_None ? nullptr : g;
  }
  if (!node_apply(n, grads.data(), out.data(), ~uint64_t{0})) {
    for (PyObject* o : out) Py_XDECREF(o);
    return nullptr;
  }
  if (n->kind == NodeKind::Accumulate) Py_RETURN_NONE;
  if (n->num_edges == 1) return out[0] ? out[0] : Py_NewRef(Py_None);
  PyObject* tuple = PyTuple_New(n->num_edges);
  for (uint32_t i = 0; i < n->num_edges; i++) {
    if (tuple) PyTuple_SET_ITEM(tuple, i, out[i] ? out[i] : Py_NewRef(Py_None));
    else Py_XDECREF(out[i]);
  }
  return tuple;
}

static PyMethodDef node_methods[] = {
    {"name", guarded<n_name>, METH_NOARGS, "what this node undoes, as AddBackward0"},
    {"_sequence_nr", guarded<n_sequence>, METH_NOARGS, "order of recording"},
    {"_get_hooks", guarded<n_get_hooks>, METH_O, "_get_hooks(\"pre\" or \"post\") -> dict or None"},
    {"_set_hooks", guarded<n_set_hooks>, METH_VARARGS, "_set_hooks(which, dict)"},
    {"_rule", guarded<n_rule>, METH_NOARGS, "(op,), (None,) for a leaf's, None where hooks or other code take part"},
    {"_release", guarded<n_release>, METH_NOARGS, "free saved values, as backward() does behind a node"},
    {"_saved_values", guarded<n_saved_values>, METH_NOARGS, "everything this node saved, in order"},
    {"__dir__", guarded<n_dir>, METH_NOARGS, nullptr},
    {}};
static PyGetSetDef node_getset[] = {
    {"next_functions", n_next_functions, nullptr, "((node, output_nr), ...) that gradients go to", nullptr},
    {"metadata", n_metadata, nullptr, "a dict to keep things in", nullptr},
    {"variable", n_variable, nullptr, "AccumulateGrad: the leaf", nullptr},
    {"_context", n_context, nullptr, "a custom Function's context, or None", nullptr},
    {"_released", n_released, nullptr, "saved values were freed", nullptr},
    {"_input_metadata", n_input_metadata, nullptr, "shape, dtype and device of each gradient it receives", nullptr},
    {}};

// --- TensorMeta ----------------------------------------------------------------------------------------------------

static TensorMeta* meta_alloc(int ndim, DType dtype, Device device) {
  auto* m = PyObject_NewVar(TensorMeta, TensorMetaType, ndim);
  if (!m) return nullptr;
  m->dtype = dtype;
  m->device = device;
  m->requires_grad = false;
  m->offset = 0;
  return m;
}

static PyObject* meta_new(const int64_t* sizes, int ndim, DType dtype, Device device) {
  TensorMeta* m = meta_alloc(ndim, dtype, device);
  if (!m) return nullptr;
  memcpy(m->sizes, sizes, sizeof(int64_t) * ndim);
  contiguous_strides(sizes, ndim, m->strides());
  return reinterpret_cast<PyObject*>(m);
}

static PyObject* tensor_meta(Tensor* t) {
  TensorMeta* m = meta_alloc(t->ndim, t->dtype, t->device);
  if (!m) return nullptr;
  memcpy(m->sizes, t->geometry, sizeof(int64_t) * 2 * t->ndim);
  m->requires_grad = tape_requires_grad(t);
  m->offset = t->offset;
  return reinterpret_cast<PyObject*>(m);
}

static TensorMeta* as_meta(PyObject* o) { return reinterpret_cast<TensorMeta*>(o); }
static void meta_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}
static PyObject* meta_shape(PyObject* self, void*) {
  return size_object(as_meta(self)->sizes, static_cast<int>(Py_SIZE(self)));
}
static PyObject* meta_dtype(PyObject* self, void*) { return Py_NewRef(dtype_object(as_meta(self)->dtype)); }
static PyObject* meta_device(PyObject* self, void*) { return device_object(as_meta(self)->device); }
static PyObject* meta_ndim(PyObject* self, void*) { return PyLong_FromSsize_t(Py_SIZE(self)); }
static PyObject* meta_requires_grad(PyObject* self, void*) { return PyBool_FromLong(as_meta(self)->requires_grad); }
static PyObject* meta_dim(PyObject* self, PyObject*) { return PyLong_FromSsize_t(Py_SIZE(self)); }
static PyObject* meta_numel(PyObject* self, PyObject*) {
  int64_t n = 1;
  for (Py_ssize_t i = 0; i < Py_SIZE(self); i++) n *= as_meta(self)->sizes[i];
  return PyLong_FromLongLong(n);
}
static PyObject* meta_is_floating(PyObject* self, PyObject*) { return PyBool_FromLong(is_float(as_meta(self)->dtype)); }
static PyObject* meta_is_complex(PyObject* self, PyObject*) {
  return PyBool_FromLong(is_complex(as_meta(self)->dtype));
}
static PyObject* one_or_all(PyObject* self, PyObject* args, const int64_t* values, const char* what) {
  PyObject* dim = Py_None;
  if (!PyArg_ParseTuple(args, "|O", &dim)) return nullptr;
  if (dim == Py_None)
    return values == as_meta(self)->sizes ? meta_shape(self, nullptr)
                                          : int_tuple(values, static_cast<int>(Py_SIZE(self)));
  Py_ssize_t d = PyNumber_AsSsize_t(dim, PyExc_IndexError), n = Py_SIZE(self);
  if (d == -1 && PyErr_Occurred()) return nullptr;
  if (d < -n || d >= n)
    return PyErr_Format(PyExc_IndexError, "%s: dimension %zd out of range for %zd dimensions", what, d, n), nullptr;
  return PyLong_FromLongLong(values[d < 0 ? d + n : d]);
}
static PyObject* meta_size(PyObject* self, PyObject* args) {
  return one_or_all(self, args, as_meta(self)->sizes, "size");
}
static PyObject* meta_stride(PyObject* self, PyObject* args) {
  return one_or_all(self, args, as_meta(self)->strides(), "stride");
}
static PyObject* meta_offset(PyObject* self, PyObject*) { return PyLong_FromLongLong(as_meta(self)->offset); }
static PyObject* meta_empty(PyObject* self, PyObject*) {
  TensorMeta* m = as_meta(self);
  return as_object(tensor_empty(m->sizes, nullptr, static_cast<int>(Py_SIZE(self)), m->dtype, m->device));
}
// zeros(shape=None): of this shape, or of another with the same dtype and device
static PyObject* meta_zeros(PyObject* self, PyObject* args) {
  PyObject* shape = Py_None;
  if (!PyArg_ParseTuple(args, "|O:zeros", &shape)) return nullptr;
  TensorMeta* m = as_meta(self);
  int64_t sizes[kMaxDims];
  int n = shape == Py_None ? static_cast<int>(Py_SIZE(self)) : read_ints(shape, sizes, kMaxDims, "zeros");
  if (n < 0) return nullptr;
  Ref t(as_object(tensor_empty(shape == Py_None ? m->sizes : sizes, nullptr, n, m->dtype, m->device)));
  return t ? call_role(Role::Clear, t.p) : nullptr;
}
static PyObject* meta_full(PyObject* self, PyObject* value) {
  Ref t(meta_empty(self, nullptr));
  return t ? call_role(Role::Fill, t.p, value) : nullptr;
}
// like(shape=None, dtype=None): the same, with something changed
static PyObject* meta_like(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"shape", "dtype", nullptr};
  PyObject *shape = Py_None, *dtype = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO", const_cast<char**>(names), &shape, &dtype)) return nullptr;
  TensorMeta* m = as_meta(self);
  int64_t sizes[kMaxDims];
  int n = static_cast<int>(Py_SIZE(self));
  memcpy(sizes, m->sizes, sizeof(int64_t) * n);
  if (shape != Py_None && (n = read_ints(shape, sizes, kMaxDims, "like")) < 0) return nullptr;
  if (dtype != Py_None && !is_dtype(dtype))
    return PyErr_Format(PyExc_TypeError, "like: expected a dtype, got %s", Py_TYPE(dtype)->tp_name), nullptr;
  return meta_new(sizes, n, dtype == Py_None ? m->dtype : dtype_of(dtype), m->device);
}
static PyObject* meta_repr(PyObject* self) {
  Ref shape(meta_shape(self, nullptr));
  return shape ? PyUnicode_FromFormat("TensorMeta(%R, %s)", shape.p, info(as_meta(self)->dtype).name) : nullptr;
}

static PyGetSetDef meta_getset[] = {
    {"shape", meta_shape, nullptr, nullptr, nullptr},
    {"dtype", meta_dtype, nullptr, nullptr, nullptr},
    {"device", meta_device, nullptr, nullptr, nullptr},
    {"ndim", meta_ndim, nullptr, nullptr, nullptr},
    {"requires_grad", meta_requires_grad, nullptr, "whether the tensor wanted a gradient", nullptr},
    {}};
static PyMethodDef meta_methods[] = {
    {"dim", guarded<meta_dim>, METH_NOARGS, nullptr},
    {"numel", guarded<meta_numel>, METH_NOARGS, nullptr},
    {"size", guarded<meta_size>, METH_VARARGS, nullptr},
    {"stride", guarded<meta_stride>, METH_VARARGS, nullptr},
    {"storage_offset", guarded<meta_offset>, METH_NOARGS, nullptr},
    {"is_floating_point", guarded<meta_is_floating>, METH_NOARGS, nullptr},
    {"is_complex", guarded<meta_is_complex>, METH_NOARGS, nullptr},
    {"empty", guarded<meta_empty>, METH_NOARGS, "an uninitialised tensor of this description"},
    {"zeros", guarded<meta_zeros>, METH_VARARGS, "zeros(shape=None): a tensor of zeros of this description"},
    {"full", guarded<meta_full>, METH_O, "a tensor of this description filled with a value"},
    {"like", guarded_method<meta_like>(), METH_VARARGS | METH_KEYWORDS, "like(shape=None, dtype=None)"},
    {}};
static PyType_Slot meta_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(meta_dealloc)},
    {Py_tp_getset, meta_getset},
    {Py_tp_methods, meta_methods},
    {Py_tp_repr, reinterpret_cast<void*>(meta_repr)},
    {Py_tp_doc, const_cast<char*>("Shape, dtype and device of a tensor whose data is not kept.")},
    {0, nullptr}};
static PyType_Spec meta_spec = {"rushlight._C.TensorMeta", sizeof(TensorMeta) - sizeof(int64_t), 2 * sizeof(int64_t),
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, meta_slots};

// --- thread modes --------------------------------------------------------------------------------------------------

static bool truth(PyObject* o, bool* out) {
  int on = PyObject_IsTrue(o);
  *out = on > 0;
  return on >= 0;
}
static PyObject* py_is_grad_enabled(PyObject*, PyObject*) { return PyBool_FromLong(thread_state().grad_enabled); }
static PyObject* py_set_grad_enabled(PyObject*, PyObject* on) {
  if (!truth(on, &thread_state().grad_enabled)) return nullptr;
  Py_RETURN_NONE;
}
static PyObject* py_is_inference(PyObject*, PyObject*) { return PyBool_FromLong(thread_state().inference); }
static PyObject* py_set_inference(PyObject*, PyObject* on) {
  if (!truth(on, &thread_state().inference)) return nullptr;
  Py_RETURN_NONE;
}
static PyObject* py_is_anomaly(PyObject*, PyObject*) { return PyBool_FromLong(anomalies()); }
static PyObject* py_set_anomaly(PyObject*, PyObject* on) {
  if (!truth(on, &anomalies())) return nullptr;
  Py_RETURN_NONE;
}
static PyObject* py_vjp_needs(PyObject*, PyObject*) { return PyLong_FromUnsignedLongLong(engine_current_needs()); }
static PyObject* py_set_vjp_needs(PyObject*, PyObject* value) {
  uint64_t needs = PyLong_AsUnsignedLongLongMask(value);
  if (needs == ~uint64_t{0} && PyErr_Occurred()) return nullptr;
  return PyLong_FromUnsignedLongLong(std::exchange(engine_current_needs(), needs));
}

static thread_local PyObject* hooks_disabled = nullptr;  // strong message, while saved_tensors_hooks are forbidden

static PyObject* py_push_hooks(PyObject*, PyObject* args) {
  PyObject *pack, *unpack;
  if (!PyArg_ParseTuple(args, "OO", &pack, &unpack)) return nullptr;
  if (hooks_disabled) return PyErr_SetObject(PyExc_RuntimeError, hooks_disabled), nullptr;
  PyObject* pair = pack == Py_None ? Py_NewRef(Py_None) : PyTuple_Pack(2, pack, unpack);
  if (!pair) return nullptr;
  saved_hooks().push_back(pair);
  thread_state().saved_hooks = saved_hooks_top() != nullptr;
  Py_RETURN_NONE;
}
static PyObject* py_pop_hooks(PyObject*, PyObject*) {
  if (saved_hooks().empty()) return PyErr_SetString(PyExc_RuntimeError, "no saved_tensors_hooks are active"), nullptr;
  PyObject* top = saved_hooks().back();
  saved_hooks().pop_back();
  thread_state().saved_hooks = saved_hooks_top() != nullptr;
  Py_DECREF(top);
  Py_RETURN_NONE;
}
// Sets (a message) or lifts (None) the ban; returns what was there.
static PyObject* py_disable_hooks(PyObject*, PyObject* message) {
  if (message != Py_None && !saved_hooks().empty()) return PyErr_SetObject(PyExc_RuntimeError, message), nullptr;
  PyObject* old = hooks_disabled ? hooks_disabled : Py_NewRef(Py_None);
  hooks_disabled = message == Py_None ? nullptr : Py_NewRef(message);
  return old;
}

// --- the engine ----------------------------------------------------------------------------------------------------

// A tensor, or (node, output_nr): the edge a gradient goes to. The node is a new reference.
static bool edge_of(PyObject* o, Edge* edge) {
  if (is_tensor(o)) {
    *edge = tape_edge(as_tensor(o));
    return edge->node || !PyErr_Occurred();
  }
  if (PyTuple_Check(o) && PyTuple_GET_SIZE(o) >= 2 && is_node(PyTuple_GET_ITEM(o, 0))) {
    edge->node = as_node(Py_NewRef(PyTuple_GET_ITEM(o, 0)));
    edge->input_nr = static_cast<uint32_t>(PyLong_AsUnsignedLong(PyTuple_GET_ITEM(o, 1)));
    if (PyErr_Occurred()) return false;
    if (edge->input_nr < edge->node->num_outputs) return true;
    PyErr_Format(PyExc_IndexError, "output %u of a node with %u outputs", edge->input_nr, edge->node->num_outputs);
    return false;
  }
  PyErr_Format(PyExc_TypeError, "expected a Tensor or a GradientEdge, got %s", Py_TYPE(o)->tp_name);
  return false;
}

namespace {
struct EdgeHolder {
  std::vector<Edge>& edges;
  ~EdgeHolder() {
    for (Edge& e : edges) Py_XDECREF(e.node);
  }
};
}  // namespace

// (roots, gradients, keep_graph, create_graph, inputs or None, accumulate) -> None, or captured gradients
static PyObject* py_run_backward(PyObject*, PyObject* args) {
  PyObject *roots, *gradients, *inputs;
  int keep, create, accumulate;
  if (!PyArg_ParseTuple(args, "O!O!ppOp", &PyTuple_Type, &roots, &PyTuple_Type, &gradients, &keep, &create, &inputs,
                        &accumulate))
    return nullptr;
  BackwardCall call;
  call.keep_graph = keep;
  call.create_graph = create;
  call.accumulate = accumulate;
  EdgeHolder hold_roots{call.roots}, hold_inputs{call.inputs};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(roots); i++) {
    Edge e;
    if (!edge_of(PyTuple_GET_ITEM(roots, i), &e)) return Py_XDECREF(e.node), nullptr;
    if (!e.node)
      return PyErr_Format(PyExc_RuntimeError,
                          "element %zd of tensors does not require grad and does not have a grad_fn", i),
             nullptr;
    call.roots.push_back(e);
    PyObject* g = PyTuple_GET_ITEM(gradients, i);
    call.gradients.push_back(g == Py_None ? nullptr : g);
  }
  if (inputs != Py_None) {
    call.has_inputs = true;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); i++) {
      Edge e;
      if (!edge_of(PyTuple_GET_ITEM(inputs, i), &e)) return Py_XDECREF(e.node), nullptr;
      call.inputs.push_back(e);
      if (!e.node) return PyErr_SetString(PyExc_RuntimeError, "grad: an input does not require grad"), nullptr;
    }
  }
  std::vector<PyObject*> captured(call.inputs.size(), nullptr);
  bool ok = engine_run(call, &captured);
  if (!ok || accumulate) {
    for (PyObject* o : captured) Py_XDECREF(o);
    if (!ok) return nullptr;
    Py_RETURN_NONE;
  }
  PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(captured.size()));
  for (size_t i = 0; i < captured.size(); i++) {
    if (tuple) PyTuple_SET_ITEM(tuple, i, captured[i] ? captured[i] : Py_NewRef(Py_None));
    else Py_XDECREF(captured[i]);
  }
  return tuple;
}

static PyObject* py_current_backward(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLongLong(engine_current_task());
}
static PyObject* py_queue_callback(PyObject*, PyObject* function) {
  if (!PyCallable_Check(function))
    return PyErr_Format(PyExc_TypeError, "queue_callback: expected a function, got %s", Py_TYPE(function)->tp_name);
  if (!engine_call_at_end(function))
    return PyErr_Format(PyExc_RuntimeError, "queue_callback: no backward pass is running in this thread");
  Py_RETURN_NONE;
}

static PyObject* py_backward_has_inputs(PyObject*, PyObject*) { return PyBool_FromLong(engine_has_inputs()); }
static PyObject* py_will_run(PyObject*, PyObject* node) {
  if (!is_node(node)) return PyErr_Format(PyExc_TypeError, "expected a node, got %s", Py_TYPE(node)->tp_name), nullptr;
  return PyBool_FromLong(engine_will_run(as_node(node)));
}

static PyObject* py_gradient_edge(PyObject*, PyObject* tensor) {
  if (!is_tensor(tensor))
    return PyErr_Format(PyExc_TypeError, "expected a Tensor, got %s", Py_TYPE(tensor)->tp_name), nullptr;
  Edge e = tape_edge(as_tensor(tensor));
  if (!e.node && PyErr_Occurred()) return nullptr;
  PyObject* pair = edge_object(e.node, e.input_nr);
  Py_XDECREF(e.node);
  return pair;
}

// --- custom functions ----------------------------------------------------------------------------------------------

// Edges of arguments, taken before a forward that may write them: one (node or None, nr) each.
static PyObject* py_collect_edges(PyObject*, PyObject* args) {
  PyObject* tuple = PyTuple_New(PyTuple_GET_SIZE(args));
  for (Py_ssize_t i = 0; tuple && i < PyTuple_GET_SIZE(args); i++) {
    PyObject* a = PyTuple_GET_ITEM(args, i);
    Edge e;
    if (is_tensor(a) && is_differentiable(as_tensor(a)->dtype)) e = tape_edge(as_tensor(a));
    PyObject* pair = e.node || !PyErr_Occurred() ? edge_object(e.node, e.input_nr) : nullptr;
    Py_XDECREF(e.node);
    if (!pair) return Py_DECREF(tuple), nullptr;
    PyTuple_SET_ITEM(tuple, i, pair);
  }
  return tuple;
}

enum OutputRole { kFresh = 0, kDirty = 1, kNotDifferentiable = 2 };

static bool attach_output(Node* n, Tensor* t, uint32_t i, int role) {
  if (role == kDirty && t->view && t->view->is_grad_view) {
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

// (context, edges, outputs, roles, saved, kind) -> node, attached to its outputs
static PyObject* py_function_node(PyObject*, PyObject* args) {
  PyObject *context, *edges, *outputs, *roles, *saved;
  int callable = 0;
  if (!PyArg_ParseTuple(args, "OO!O!O!O!|p", &context, &PyTuple_Type, &edges, &PyTuple_Type, &outputs, &PyTuple_Type,
                        &roles, &PyTuple_Type, &saved, &callable))
    return nullptr;
  auto count = [](PyObject* tuple) { return static_cast<uint32_t>(PyTuple_GET_SIZE(tuple)); };
  std::vector<long> role;
  uint32_t dims = 0;
  for (uint32_t i = 0; i < count(outputs); i++) {
    PyObject* o = PyTuple_GET_ITEM(outputs, i);
    role.push_back(is_tensor(o) ? PyLong_AsLong(PyTuple_GET_ITEM(roles, i)) : static_cast<long>(kNotDifferentiable));
    if (is_tensor(o)) dims += as_tensor(o)->ndim;
  }
  Node* n = node_new(callable ? NodeKind::Callable : NodeKind::Function, context, count(edges), count(saved),
                     count(outputs), dims);
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
  uint32_t next = 0;
  for (uint32_t i = 0; i < n->num_outputs; i++) {
    if (role[i] == kNotDifferentiable) continue;
    Tensor* t = as_tensor(PyTuple_GET_ITEM(outputs, i));
    node_set_output(n, i, t, &next);
    tensor_track(t);   // the context may keep its own output: only the collector can free that
    if (!attach_output(n, t, i, static_cast<int>(role[i]))) return nullptr;
  }
  for (uint32_t k = 0; k < n->num_saved; k++) {
    PyObject* value = PyTuple_GET_ITEM(saved, k);
    int own = -1;
    for (uint32_t i = 0; i < n->num_outputs; i++)
      if (value == PyTuple_GET_ITEM(outputs, i) && role[i] != kNotDifferentiable && as_tensor(value)->grad_fn == n)
        own = static_cast<int>(i);
    bool ok = own >= 0 ? saved_pack_output(n, n->saved() + k, as_tensor(value), static_cast<uint32_t>(own))
                       : saved_pack_input(n->saved() + k, value);
    if (!ok) return nullptr;
  }
  return holder.release();
}

static PyMethodDef functions[] = {
    {"is_grad_enabled", guarded<py_is_grad_enabled>, METH_NOARGS, "whether ops are recorded on this thread"},
    {"_set_grad_enabled", guarded<py_set_grad_enabled>, METH_O, nullptr},
    {"is_inference_mode_enabled", guarded<py_is_inference>, METH_NOARGS, nullptr},
    {"_set_inference", guarded<py_set_inference>, METH_O, nullptr},
    {"is_anomaly_enabled", guarded<py_is_anomaly>, METH_NOARGS, nullptr},
    {"_set_anomaly_enabled", guarded<py_set_anomaly>, METH_O, nullptr},
    {"vjp_needs", guarded<py_vjp_needs>, METH_NOARGS,
     "inside a vjp: bit k set when tensor parameter k needs a gradient"},
    {"_set_vjp_needs", guarded<py_set_vjp_needs>, METH_O, "for a vjp called by hand; returns what was set before"},
    {"_push_saved_hooks", guarded<py_push_hooks>, METH_VARARGS, "(pack, unpack), or (None, None) to suspend"},
    {"_pop_saved_hooks", guarded<py_pop_hooks>, METH_NOARGS, nullptr},
    {"_disable_saved_hooks", guarded<py_disable_hooks>, METH_O,
     "message, or None to allow again; returns the previous one"},
    {"_run_backward", guarded<py_run_backward>, METH_VARARGS,
     "(roots, gradients, keep_graph, create_graph, inputs, accumulate)"},
    {"_current_backward", guarded<py_current_backward>, METH_NOARGS,
     "id of the backward pass running on this thread, 0 outside one"},
    {"queue_callback", guarded<py_queue_callback>, METH_O, nullptr},
    {"_backward_has_inputs", guarded<py_backward_has_inputs>, METH_NOARGS,
     "whether the running backward pass asks for certain inputs only"},
    {"_will_run", guarded<py_will_run>, METH_O, "whether the running backward pass reaches this node"},
    {"_gradient_edge", guarded<py_gradient_edge>, METH_O, "(node or None, output_nr) of a tensor"},
    {"_collect_edges", guarded<py_collect_edges>, METH_VARARGS, "an edge per argument"},
    {"_function_node", guarded<py_function_node>, METH_VARARGS,
     "(context, edges, outputs, roles, saved, callable=False)"},
    {}};

int init_tape_face(PyObject* module) {
  TensorMetaType = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&meta_spec));
  if (!TensorMetaType || PyModule_AddObjectRef(module, "TensorMeta", as_object(TensorMetaType))) return -1;
  for (PyTypeObject* type : {NodeType, FunctionNodeType})
    if (add_attributes(type, node_methods, node_getset)) return -1;
  for_core().tensor_meta = tensor_meta;
  for_core().node_repr = node_repr;
  for_core().node_getattro = node_getattro;
  for_core().node_call = node_call;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace rl

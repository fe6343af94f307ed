// The tape as Python sees it: tensor metadata, thread modes, and the engine's entry point.
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

PyObject* new_meta(const int64_t* sizes, int ndim, DType dtype, Device device, const int64_t* strides) {
  TensorMeta* m = meta_alloc(ndim, dtype, device);
  if (!m) return nullptr;
  memcpy(m->sizes, sizes, sizeof(int64_t) * ndim);
  if (strides) memcpy(m->strides(), strides, sizeof(int64_t) * ndim);
  else contiguous_strides(sizes, ndim, m->strides());
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
static int meta_words(PyObject* o, uint64_t* words) {
  if (Py_TYPE(o) != TensorMetaType) return 0;
  TensorMeta* m = as_meta(o);
  auto n = static_cast<size_t>(Py_SIZE(o));
  words[0] = static_cast<uint64_t>(m->dtype) | static_cast<uint64_t>(m->device.type) << 8 |
             static_cast<uint64_t>(m->device.index) << 16 | static_cast<uint64_t>(m->requires_grad) << 24 | n << 32;
  words[1] = static_cast<uint64_t>(m->offset);
  memcpy(words + 2, m->sizes, sizeof(int64_t) * 2 * n);
  return static_cast<int>(2 + 2 * n);
}
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
  Tensor* t = tensor_empty(m->sizes, nullptr, static_cast<int>(Py_SIZE(self)), m->dtype, m->device);
  note_fresh(t);
  return as_object(t);
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
  if (t) note_fresh(as_tensor(t.p));
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
  return new_meta(sizes, n, dtype == Py_None ? m->dtype : dtype_of(dtype), m->device);
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
    if (edge->node->kind == NodeKind::Face)
      return PyErr_Format(PyExc_NotImplementedError,
                          "%s is one of several steps that run as one here: gradients can start or end at tensors, "
                          "and at the first of the steps",
                          Py_TYPE(edge->node)->tp_name),
             false;
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
    {}};

int init_tape_face(PyObject* module) {
  TensorMetaType = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&meta_spec));
  if (!TensorMetaType || PyModule_AddObjectRef(module, "TensorMeta", as_object(TensorMetaType))) return -1;
  for_core().meta_words = meta_words;
  for_core().tensor_meta = tensor_meta;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace rl

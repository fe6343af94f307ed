// The autograd attributes of Tensor: grad, grad_fn, requires_grad, detach, backward and their neighbours.
// Installed on the type after it exists, so that tensor.cpp need not know them. Everything holds the lock.
#include <atomic>

#include "boundary.h"
#include "core.h"
#include "faces.h"
#include "profile.h"

namespace rl {

// --- history -------------------------------------------------------------------------------------------------------

static PyObject* get_grad_fn(PyObject* self, void*) {
  Node* n = tape_grad_fn(as_tensor(self));
  if (!n) Py_RETURN_NONE;
  // A stale view that may not be followed: say so now rather than at backward.
  if (n->kind == NodeKind::Error && as_tensor(self)->view) return PyErr_SetObject(PyExc_RuntimeError, n->op), nullptr;
  return dress_node(n) ? Py_NewRef(as_object(n)) : nullptr;
}

static PyObject* get_is_leaf(PyObject* self, void*) { return PyBool_FromLong(!tape_grad_fn(as_tensor(self))); }
static PyObject* get_output_nr(PyObject* self, void*) {
  tape_grad_fn(as_tensor(self));
  return PyLong_FromUnsignedLong(as_tensor(self)->output_nr);
}

static PyObject* get_requires_grad(PyObject* self, void*) {
  return PyBool_FromLong(tape_requires_grad(as_tensor(self)));
}

static bool change_requires_grad(Tensor* t, bool on) {
  if (tape_grad_fn(t)) {
    if (on) return true;
    PyErr_SetString(PyExc_RuntimeError,
                    "requires_grad: expected a leaf, got the result of an operation. To use it as a constant, take "
                    "x.detach().");
    return false;
  }
  if (on && !is_differentiable(t->dtype)) {
    PyErr_Format(PyExc_RuntimeError, "requires_grad: expected a floating point or complex dtype, got %s",
                 info(t->dtype).name);
    return false;
  }
  if (on && (t->flags & kInference) && !thread_state().inference) {
    PyErr_SetString(
        PyExc_RuntimeError,
        "requires_grad: an inference tensor cannot require gradients outside InferenceMode. Clone it first.");
    return false;
  }
  if (on) t->flags |= kRequiresGrad;
  else t->flags &= ~kRequiresGrad;
  return true;
}

static int set_requires_grad(PyObject* self, PyObject* value, void*) {
  if (!value) return PyErr_SetString(PyExc_AttributeError, "requires_grad cannot be deleted"), -1;
  if (!PyBool_Check(value))
    return PyErr_Format(PyExc_RuntimeError, "requires_grad must be a bool, got %s", Py_TYPE(value)->tp_name), -1;
  return change_requires_grad(as_tensor(self), value == Py_True) ? 0 : -1;
}

static PyObject* m_requires_grad_(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"requires_grad", nullptr};
  PyObject* on = Py_True;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:requires_grad_", const_cast<char**>(names), &on)) return nullptr;
  if (!PyBool_Check(on))
    return PyErr_Format(PyExc_TypeError, "requires_grad_(): argument 'requires_grad' must be bool, not %s",
                        Py_TYPE(on)->tp_name),
           nullptr;
  return change_requires_grad(as_tensor(self), on == Py_True) ? Py_NewRef(self) : nullptr;
}

static PyObject* get_base(PyObject* self, void*) {
  ViewInfo* v = as_tensor(self)->view;
  return Py_NewRef(v ? as_object(v->base) : Py_None);
}
static PyObject* m_is_view(PyObject* self, PyObject*) { return PyBool_FromLong(as_tensor(self)->view != nullptr); }

// --- gradients -----------------------------------------------------------------------------------------------------

static PyObject* get_grad(PyObject* self, void*) {
  Tensor* t = as_tensor(self);
  if (t->grad) return Py_NewRef(t->grad);
  if (t->grad_fn && !(t->extra && t->extra->retains_grad)) {
    if (PyErr_WarnEx(PyExc_UserWarning,
                     ".grad: this Tensor is not a leaf Tensor, and its gradient is not kept by backward() "
                     "unless retain_grad() was called on it before.",
                     1))
      return nullptr;
  }
  Py_RETURN_NONE;
}

static bool check_grad(Tensor* t, PyObject* value) {
  if (!is_tensor(value)) {
    PyErr_Format(PyExc_TypeError, "grad: expected a Tensor or None, got %s", Py_TYPE(value)->tp_name);
    return false;
  }
  Tensor* g = as_tensor(value);
  if (g == t) return PyErr_SetString(PyExc_RuntimeError, "grad: a tensor cannot be its own gradient"), false;
  if (g->dtype != t->dtype) {
    PyErr_Format(PyExc_RuntimeError, "grad: got dtype %s for a tensor of dtype %s: they must be the same",
                 info(g->dtype).name, info(t->dtype).name);
    return false;
  }
  if (g->device != t->device) {
    Ref want(device_object(t->device)), got(device_object(g->device));
    PyErr_Format(PyExc_RuntimeError, "grad: got one on device %S for a tensor on device %S: they must be the same",
                 got.p, want.p);
    return false;
  }
  if (g->ndim != t->ndim || memcmp(g->sizes(), t->sizes(), sizeof(int64_t) * t->ndim)) {
    Ref want(int_tuple(t->sizes(), t->ndim)), got(int_tuple(g->sizes(), g->ndim));
    PyErr_Format(PyExc_RuntimeError, "grad: got size %R for a tensor of size %R: they must be the same", got.p, want.p);
    return false;
  }
  return true;
}

static int set_grad(PyObject* self, PyObject* value, void*) {
  Tensor* t = as_tensor(self);
  if (value && value != Py_None) {
    if (!check_grad(t, value)) return -1;
    tensor_track(t);
    Py_XSETREF(t->grad, Py_NewRef(value));
  } else {
    Py_CLEAR(t->grad);
  }
  return 0;
}

static PyObject* get_retains_grad(PyObject* self, void*) {
  AutogradExtra* x = as_tensor(self)->extra;
  return PyBool_FromLong(x && x->retains_grad && as_tensor(self)->grad_fn);
}

static PyObject* m_retain_grad(PyObject* self, PyObject*) {
  Tensor* t = as_tensor(self);
  if (!tape_requires_grad(t))
    return PyErr_SetString(PyExc_RuntimeError,
                           "retain_grad: the Tensor has requires_grad=False, so there is no gradient to keep"),
           nullptr;
  Node* n = tape_grad_fn(t);
  AutogradExtra* x = tensor_extra(t);
  if (!n || x->retains_grad) Py_RETURN_NONE;
  Ref weak(PyWeakref_NewRef(self, nullptr));
  Ref entry(weak ? Py_BuildValue("(IO)", t->output_nr, weak.p) : nullptr);
  NodeExtra* on_node = node_extra(n);
  if (!on_node->retained) on_node->retained = PyList_New(0);
  if (!entry || !on_node->retained || PyList_Append(on_node->retained, entry.p)) return nullptr;
  x->retains_grad = true;
  Py_RETURN_NONE;
}

// --- hooks ---------------------------------------------------------------------------------------------------------

static PyObject* get_hooks(PyObject* self, void*) {
  AutogradExtra* x = as_tensor(self)->extra;
  return Py_NewRef(x && x->hooks ? x->hooks : Py_None);
}

// A leaf's hooks stay with the tensor; others belong to one output of its node.
static int set_hooks(PyObject* self, PyObject* value, void*) {
  Tensor* t = as_tensor(self);
  AutogradExtra* x = tensor_extra(t);
  if (!value || value == Py_None) {
    Py_CLEAR(x->hooks);
    return 0;
  }
  if (!PyDict_Check(value))
    return PyErr_Format(PyExc_TypeError, "hooks must be a dict, got %s", Py_TYPE(value)->tp_name), -1;
  if (Node* n = tape_grad_fn(t)) {
    Ref entry(Py_BuildValue("(IO)", t->output_nr, value));
    NodeExtra* on_node = node_extra(n);
    if (!on_node->tensor_hooks) on_node->tensor_hooks = PyList_New(0);
    if (!entry || !on_node->tensor_hooks || PyList_Append(on_node->tensor_hooks, entry.p)) return -1;
  }
  Py_XSETREF(x->hooks, Py_NewRef(value));
  return 0;
}

static PyObject* get_post_hooks(PyObject* self, void*) {
  AutogradExtra* x = as_tensor(self)->extra;
  return Py_NewRef(x && x->post_accumulate ? x->post_accumulate : Py_None);
}
static int set_post_hooks(PyObject* self, PyObject* value, void*) {
  AutogradExtra* x = tensor_extra(as_tensor(self));
  if (value && value != Py_None && !PyDict_Check(value))
    return PyErr_SetString(PyExc_TypeError, "hooks must be a dict"), -1;
  Py_XSETREF(x->post_accumulate, value && value != Py_None ? Py_NewRef(value) : nullptr);
  return 0;
}

// What stands behind a tensor of a function transform: the level and the values it works on, or None.
static PyObject* get_wrapped(PyObject* self, void*) {
  AutogradExtra* x = as_tensor(self)->extra;
  return Py_NewRef(x && x->wrapped ? x->wrapped : Py_None);
}
static int set_wrapped(PyObject* self, PyObject* value, void*) {
  Tensor* t = as_tensor(self);
  AutogradExtra* x = tensor_extra(t);
  bool on = value && value != Py_None;
  Py_XSETREF(x->wrapped, on ? Py_NewRef(value) : nullptr);
  if (on) t->keys |= kKeyFunctorch;
  else t->keys &= ~static_cast<uint32_t>(kKeyFunctorch);
  return 0;
}

// What the integers of a quantized tensor mean, or None. Views keep it.
static PyObject* get_quantizer(PyObject* self, void*) {
  AutogradExtra* x = as_tensor(self)->extra;
  return Py_NewRef(x && x->quantizer ? x->quantizer : Py_None);
}
static int set_quantizer(PyObject* self, PyObject* value, void*) {
  tensor_quantize(as_tensor(self), value == Py_None ? nullptr : value);
  return 0;
}

// --- leaving the graph ---------------------------------------------------------------------------------------------

// Tensors of a function transform leave the graph at every level: Python knows the levels.
static PyObject* call_wrapped(const char* what, PyObject* self) {
  PyObject* handler = PyDict_GetItemString(autograd_helpers(), what);
  if (!handler) return PyErr_Format(PyExc_RuntimeError, "%s: function transforms are not loaded", what), nullptr;
  return PyObject_CallOneArg(handler, self);
}

static PyObject* m_detach(PyObject* self, PyObject*) {
  Recorded recorded;
  if (is_recording()) record_method(&recorded, "aten::detach", &self, 1);
  if (as_tensor(self)->keys & kKeyFunctorch) return call_wrapped("wrapped_detach", self);
  if (as_tensor(self)->keys & (kKeySubclass | kKeyPrivate) || thread_state().keys & kKeyAten) return call_wrapped("seen_detach", self);
  Tensor* t = tensor_shallow_copy(as_tensor(self), true);
  note_alias(as_tensor(self), t);
  return as_object(t);
}

// mark_view(out, base, multi_output): `out`, made by a handler, is a view of `base` as far as the tape knows.
static PyObject* py_mark_view(PyObject*, PyObject* args) {
  PyObject *out, *base;
  int multi = 0;
  if (!PyArg_ParseTuple(args, "O!O!|p", TensorType, &out, TensorType, &base, &multi)) return nullptr;
  if (out == base || thread_state().inference) Py_RETURN_NONE;
  tensor_share_version(as_tensor(base), as_tensor(out));
  if (!tape_set_view(as_tensor(out), as_tensor(base), multi)) return nullptr;
  Py_RETURN_NONE;
}

static PyObject* m_detach_(PyObject* self, PyObject*) {
  Recorded recorded;
  if (is_recording()) record_method(&recorded, "aten::detach_", &self, 1);
  Tensor* t = as_tensor(self);
  if (t->view && t->view->is_grad_view) {
    PyErr_SetString(PyExc_RuntimeError, "detach_: a view cannot leave the graph in place. Use detach().");
    return nullptr;
  }
  tape_set_grad_fn(t, nullptr, 0);
  t->flags &= ~kRequiresGrad;
  return Py_NewRef(self);
}

// --- backward ------------------------------------------------------------------------------------------------------

template <typename T>
static PyObject* filled(Tensor* like, T value) {
  Tensor* t = tensor_empty(like->sizes(), nullptr, like->ndim, like->dtype, like->device);
  if (t) memcpy(t->data(), &value, sizeof(T));
  return as_object(t);
}

// A gradient of one for a one-element tensor, without an op call where the type is common.
static PyObject* one_like(Tensor* t) {
  Recorded recorded;
  PyObject* self = as_object(t);
  if (is_recording()) record_method(&recorded, "aten::ones_like", &self, 1);
  if (t->device.type == kCPU && t->numel == 1) {
    if (t->dtype == DType::F32) return filled<float>(t, 1.0f);
    if (t->dtype == DType::F64) return filled<double>(t, 1.0);
    if (t->dtype == DType::BF16) return filled<uint16_t>(t, 0x3f80);
    if (t->dtype == DType::F16) return filled<uint16_t>(t, 0x3c00);
  }
  Ref empty(as_object(tensor_empty(t->sizes(), nullptr, t->ndim, t->dtype, t->device)));
  Ref one(PyLong_FromLong(1));
  return empty && one ? call_role(Role::Fill, empty.p, one.p) : nullptr;
}

// The gradient a plain call starts from: the one given, if it fits as it is, or one for a scalar. Null without an
// exception: the general path must look at it.
static PyObject* starting_gradient(Tensor* t, PyObject* args) {
  if (!is_float(t->dtype)) return nullptr;
  if (!PyTuple_GET_SIZE(args)) return t->numel == 1 ? one_like(t) : nullptr;
  PyObject* given = PyTuple_GET_ITEM(args, 0);
  if (PyTuple_GET_SIZE(args) != 1 || !is_tensor(given)) return nullptr;
  Tensor* g = as_tensor(given);
  bool fits = !g->keys && g->dtype == t->dtype && g->ndim == t->ndim &&
              !memcmp(g->sizes(), t->sizes(), sizeof(int64_t) * t->ndim);
  return fits ? Py_NewRef(given) : nullptr;
}

static std::atomic<int> python_backwards{0};   // blocks in which Python is asked how backward() runs

static PyObject* py_ask_backward(PyObject*, PyObject* by) {
  long change = PyLong_AsLong(by);
  if (change == -1 && PyErr_Occurred()) return nullptr;
  python_backwards += static_cast<int>(change);
  Py_RETURN_NONE;
}

static PyObject* m_backward(PyObject* self, PyObject* args, PyObject* kwargs) {
  Tensor* t = as_tensor(self);
  bool plain = !python_backwards && (!kwargs || !PyDict_GET_SIZE(kwargs)) && !t->keys && !(thread_state().keys & ~kKeyAutocast);
  if (plain && tape_grad_fn(t)) {
    Ref start(starting_gradient(t, args));
    if (!start && PyErr_Occurred()) return nullptr;
    if (start) {
      BackwardCall call;
      call.roots.push_back({t->grad_fn, t->output_nr});
      call.gradients.push_back(start.p);
      if (!engine_run(call, nullptr)) return nullptr;
      Py_RETURN_NONE;
    }
  }
  PyObject* general = PyDict_GetItemString(autograd_helpers(), "tensor_backward");
  if (!general) return PyErr_SetString(PyExc_RuntimeError, "rushlight.autograd is not loaded"), nullptr;
  Ref first(PyTuple_Pack(1, self));
  Ref all(first ? PySequence_Concat(first.p, args) : nullptr);
  return all ? PyObject_Call(general, all.p, kwargs) : nullptr;
}

static AskedAttribute asked_attributes[] = {
    {"grad", get_grad, set_grad, "the accumulated gradient, or None", {}},
    {"_grad", get_grad, set_grad, nullptr, {}},
    {"grad_fn", get_grad_fn, nullptr, "the node that made this tensor, or None for a leaf", {}},
    {"is_leaf", get_is_leaf, nullptr, "made by the user, not by a recorded op", {}},
    {"output_nr", get_output_nr, nullptr, "which output of grad_fn", {}},
    {"requires_grad", get_requires_grad, set_requires_grad, "whether ops on this tensor are recorded", {}},
    {"retains_grad", get_retains_grad, nullptr, "a non-leaf whose gradient is kept", {}},
    {"_base", get_base, nullptr, "the tensor this one is a view of, or None", {}},
    {"_backward_hooks", get_hooks, set_hooks, nullptr, {}},
    {"_post_accumulate_grad_hooks", get_post_hooks, set_post_hooks, nullptr, {}},
    {}};
static PyGetSetDef tensor_getset[] = {
    {"_quantizer", get_quantizer, set_quantizer, "what the integers of a quantized tensor mean, or None", nullptr},
    {"_wrapped", get_wrapped, set_wrapped, "what a function transform keeps behind this tensor, or None", nullptr},
    {}};

static PyMethodDef tensor_methods[] = {
    {"requires_grad_", guarded_method<asked_with<"requires_grad_", m_requires_grad_>>(), METH_VARARGS | METH_KEYWORDS,
     "requires_grad_($self, requires_grad=True)\n--\n\nchange the flag, return self"},
    {"retain_grad", guarded<asked<"retain_grad", m_retain_grad>>, METH_NOARGS,
     "retain_grad($self, /)\n--\n\nkeep the gradient of this non-leaf in .grad"},
    {"_is_view", guarded<asked<"_is_view", m_is_view>>, METH_NOARGS, nullptr},
    {"detach", guarded<asked<"detach", m_detach>>, METH_NOARGS, "detach($self, /)\n--\n\nthe same data, outside the graph"},
    {"detach_", guarded<asked<"detach_", m_detach_>>, METH_NOARGS, "detach_($self, /)\n--\n\nleave the graph in place"},
    {"backward", guarded_method<m_backward>(), METH_VARARGS | METH_KEYWORDS,
     "backward($self, gradient=None, retain_graph=None, create_graph=False, "
     "inputs=None)\n--\n\nbackward(gradient=None, retain_graph=None, create_graph=False, inputs=None)"},
    {}};

static PyMethodDef tensor_functions[] = {
    {"mark_view", guarded<py_mark_view>, METH_VARARGS, "mark_view(out, base, multi_output=False)"},
    {"_ask_python_for_backward", guarded<py_ask_backward>, METH_O, "+1 or -1: blocks in which every backward() asks"},
    {}};

int init_tape_tensor(PyObject* module) {
  bool failed = add_attributes(TensorType, tensor_methods, tensor_getset) || add_asked_attributes(asked_attributes) ||
                PyModule_AddFunctions(module, tensor_functions);
  return failed ? -1 : 0;
}

}  // namespace rl

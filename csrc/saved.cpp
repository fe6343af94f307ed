// Saved values: what a node keeps of its call, how it is checked, and how saved_tensors_hooks get a say.
// Enters: arguments and results of a recorded call. Leaves: the same values at backward time, or an error that
// says what changed in between. Everything holds the lock.
#include "tape.h"

namespace rl {

std::vector<PyObject*>& saved_hooks() {
  static thread_local std::vector<PyObject*> stack;
  return stack;
}

PyObject* saved_hooks_top() {
  PyObject* top = saved_hooks().empty() ? nullptr : saved_hooks().back();
  return top == Py_None ? nullptr : top;
}

void saved_clear(Saved* s) {
  PyObject* value = s->value;
  bool owned = s->kind != SavedKind::Output && s->kind != SavedKind::Empty;
  s->value = nullptr;
  s->kind = SavedKind::Empty;
  if (owned) Py_XDECREF(value);
}

static bool refuse_inference(Tensor* t) {
  if (!(t->flags & kInference)) return false;
  PyErr_SetString(PyExc_RuntimeError,
                  "save_for_backward: an inference tensor cannot be saved. Clone it outside inference_mode, "
                  "or make it under no_grad.");
  return true;
}

// Packed: (packed, unpack, node or None, output_nr, own output). The node is where the unpacked tensor is attached.
static PyObject* pack_through_hooks(Tensor* t, bool own_output, uint32_t output_nr) {
  PyObject* hooks = saved_hooks_top();
  Ref pair = Ref::borrow(hooks);
  Ref bare(as_object(tensor_shallow_copy(t, true)));
  if (!bare) return nullptr;
  uint32_t before = t->current_version();
  Ref packed;
  {
    GradModeGuard guard(false);
    packed = Ref(PyObject_CallOneArg(PyTuple_GET_ITEM(pair.p, 0), bare.p));
  }
  if (!packed) return nullptr;
  if (t->current_version() != before) {
    PyErr_SetString(
        PyExc_RuntimeError,
        "saved_tensors_hooks: the pack hook changed its argument in place. Return a new object and leave the "
        "tensor as it is.");
    return nullptr;
  }
  Edge e;
  if (!own_output && tape_requires_grad(t)) e = tape_edge(t);
  if (!e.node && PyErr_Occurred()) return nullptr;
  Ref node(e.node ? as_object(e.node) : Py_NewRef(Py_None));
  return Py_BuildValue("(OOOIO)", packed.p, PyTuple_GET_ITEM(pair.p, 1), node.p, own_output ? output_nr : e.input_nr,
                       own_output ? Py_True : Py_False);
}

bool saved_pack_list(Saved* s, PyObject* value) {
  Ref tuple(PySequence_Tuple(value));
  if (!tuple) return false;
  uint32_t sum = 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.p); i++) {
    PyObject* item = PyTuple_GET_ITEM(tuple.p, i);
    if (!is_tensor(item)) continue;
    if (refuse_inference(as_tensor(item))) return false;
    sum += as_tensor(item)->current_version();
  }
  s->value = tuple.release();
  s->kind = SavedKind::List;
  s->version = sum;
  return true;
}

bool saved_pack_input(Saved* s, PyObject* value) {
  if (!is_tensor(value)) {
    s->value = Py_NewRef(value);
    s->kind = SavedKind::Plain;
    return true;
  }
  Tensor* t = as_tensor(value);
  if (refuse_inference(t)) return false;
  if (tls.saved_hooks && saved_hooks_top()) {
    s->value = pack_through_hooks(t, false, 0);
    s->kind = s->value ? SavedKind::Packed : SavedKind::Empty;
    return s->value != nullptr;
  }
  s->value = Py_NewRef(value);
  s->kind = SavedKind::Input;
  s->version = t->current_version();
  return true;
}

// A type that is more than the core's fields (symbolic sizes, tensors inside) says itself what to keep: a copy without
// history.
static const char* copying_method(Tensor* t) {
  if (!t->keys || Py_TYPE(t) == TensorType) return nullptr;
  if (PyObject_HasAttrString(as_object(Py_TYPE(t)), "_tape_copy")) return "_tape_copy";
  return has_torch_dispatch(Py_TYPE(t)) ? "detach" : nullptr;
}

bool saved_pack_output(Node* n, Saved* s, Tensor* t, uint32_t output_nr) {
  if (output_nr > UINT16_MAX)
    return PyErr_SetString(PyExc_RuntimeError, "only the first 65536 outputs of an op can be saved for backward"),
           false;
  s->output_nr = static_cast<uint16_t>(output_nr);
  if (tls.saved_hooks && saved_hooks_top()) {
    s->value = pack_through_hooks(t, true, output_nr);
    s->kind = s->value ? SavedKind::Packed : SavedKind::Empty;
    return s->value != nullptr;
  }
  if (const char* method = copying_method(t)) {
    s->value = PyObject_CallMethod(as_object(t), method, nullptr);
    s->kind = s->value ? SavedKind::OutputCopy : SavedKind::Empty;
    s->version = t->current_version();
    return s->value != nullptr;
  }
  s->value = as_object(t);
  s->kind = SavedKind::Output;
  s->version = t->current_version();
  n->weak_outputs = true;
  return true;
}

// The tensor leaves its node (it dies, or an in-place op gives it a new one): the node keeps the data by itself.
void saved_keep_output(Node* n, Tensor* t) {
  Saved* s = n->saved();
  for (uint32_t i = 0; i < n->num_saved; i++)
    if (s[i].kind == SavedKind::Output && s[i].value == as_object(t)) {
      s[i].value = as_object(tensor_shallow_copy(t, t->version != nullptr));
      s[i].kind = SavedKind::OutputCopy;
      if (!s[i].value) PyErr_Clear();
    }
}

void tape_set_grad_fn(Tensor* t, Node* n, uint32_t output_nr) {
  Node* old = t->grad_fn;
  if (old && old != n && old->weak_outputs) saved_keep_output(old, t);
  Py_XINCREF(n);
  t->grad_fn = n;
  t->output_nr = output_nr;
  if (n) t->flags &= ~kRequiresGrad;
  Py_XDECREF(old);
}

static bool wrong_version(Node* n, Tensor* t, uint32_t expected, const char* what) {
  Ref name(node_name(n)), shape(size_object(t->sizes(), t->ndim));
  if (!name || !shape) return false;
  // A result that was kept when its tensor got another history is a copy without one: its producer is this very node.
  bool is_result = !t->grad_fn && !strcmp(what, "result");
  Ref producer(t->grad_fn ? node_name(t->grad_fn) : is_result ? Py_NewRef(name.p) : nullptr);
  Ref origin(producer ? PyUnicode_FromFormat(", output %u of %U,", t->output_nr, producer.p)
                      : PyUnicode_FromString(""));
  if (!origin) return false;
  PyErr_Format(PyExc_RuntimeError,
               "%U: one of the variables needed for gradient computation has been modified by an inplace operation: "
               "`%s`, %s of shape %S%U is at version %u; expected version %u instead. Hint: "
               "set_detect_anomaly(True) shows the forward call whose gradient could not be computed.",
               name.p, what, info(t->dtype).name, shape.p, origin.p, t->current_version(), expected);
  return false;
}

static PyObject* attach(Tensor* t, Node* n, uint32_t output_nr) {
  const char* method = copying_method(t);
  PyObject* copy = method ? PyObject_CallMethod(as_object(t), method, nullptr)
                          : as_object(tensor_shallow_copy(t, true));
  if (copy) tape_set_grad_fn(as_tensor(copy), n, output_nr);
  return copy;
}

// What comes back has the history of what went in, whatever the grad mode: rules ask it whether a gradient is needed.
static PyObject* unpack_through_hooks(Node* n, Saved* s) {
  Ref record = Ref::borrow(s->value);
  Ref value(PyObject_CallOneArg(PyTuple_GET_ITEM(record.p, 1), PyTuple_GET_ITEM(record.p, 0)));
  if (!value) return nullptr;
  if (!is_tensor(value.p)) {
    PyErr_Format(PyExc_TypeError, "saved_tensors_hooks: expected unpack_hook to return a Tensor, got %s",
                 Py_TYPE(value.p)->tp_name);
    return nullptr;
  }
  Tensor* t = as_tensor(value.p);
  PyObject* node = PyTuple_GET_ITEM(record.p, 2);
  auto output_nr = static_cast<uint32_t>(PyLong_AsUnsignedLong(PyTuple_GET_ITEM(record.p, 3)));
  Node* target = PyTuple_GET_ITEM(record.p, 4) == Py_True ? n : (node == Py_None ? nullptr : as_node(node));
  if (!target || (t->grad_fn == target && t->output_nr == output_nr)) return value.release();
  return attach(t, target, output_nr);
}

void refuse_released(Node* n) {
  Ref name(node_name(n));
  if (name)
    PyErr_Format(
        PyExc_RuntimeError,
        "Trying to backward through the graph a second time (or to read saved tensors after they have already been "
        "freed): %U gave up what it saved in an earlier backward pass. Specify retain_graph=True in the "
        "first backward() or grad() to keep it.",
        name.p);
}

PyObject* saved_unpack(Node* n, Saved* s, const char* what) {
  if (s->kind == SavedKind::Empty) return refuse_released(n), nullptr;
  switch (s->kind) {
    case SavedKind::Plain:
    case SavedKind::Freed:
      return Py_NewRef(s->value);
    case SavedKind::Packed:
      return unpack_through_hooks(n, s);
    case SavedKind::List: {
      uint32_t sum = 0;
      Tensor* last = nullptr;
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(s->value); i++) {
        PyObject* item = PyTuple_GET_ITEM(s->value, i);
        if (is_tensor(item)) sum += (last = as_tensor(item))->current_version();
      }
      if (sum != s->version) return wrong_version(n, last, last->current_version() - (sum - s->version), what), nullptr;
      return Py_NewRef(s->value);
    }
    default: {
      Tensor* t = as_tensor(s->value);
      if (!t) return PyErr_NoMemory();
      if (t->current_version() != s->version) return wrong_version(n, t, s->version, what), nullptr;
      if (s->kind == SavedKind::OutputCopy && tls.grad_enabled) return attach(t, n, s->output_nr);
      return Py_NewRef(s->value);
    }
  }
}

}  // namespace rl

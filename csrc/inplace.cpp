// In-place writes and views: how a write through a view reaches the history of its base, and how other views of
// that base find out. Enters: a tensor about to be written, or just written. Leaves: histories that say so.
//
// Note [view histories]. A view keeps the version at which its grad_fn was made. A write through any alias bumps
// the shared version, so a stale view is recognised when its grad_fn is next wanted and gets a new one: the same
// geometry taken from the base's present history. Everything holds the lock.
#include "call.h"
#include "tape.h"

namespace rl {

// --- making and following views ------------------------------------------------------------------------------------

bool tape_set_view(Tensor* out, Tensor* base, bool multi_output) {
  if (out->view) return true;
  ViewInfo* parent = base->view;
  auto* view = static_cast<ViewInfo*>(PyObject_Malloc(sizeof(ViewInfo)));
  if (!view) return PyErr_NoMemory(), false;
  Tensor* root = parent ? parent->base : base;
  view->base = reinterpret_cast<Tensor*>(Py_NewRef(as_object(root)));
  view->seen_version = out->current_version();
  view->is_grad_view = is_differentiable(out->dtype) && !(base->flags & kInference);
  view->multi_output = multi_output || (parent && parent->multi_output);
  view->no_grad_creation = !tls.grad_enabled || (parent && parent->no_grad_creation);
  out->view = view;
  return true;
}

// (sizes, strides, offset, dtype, bits) of a tensor, as it shows them.
static PyObject* geometry_tuple(Tensor* t) {
  if (t->keys && Py_TYPE(t) != TensorType) {   // sizes may be symbols, of which the core knows nothing
    PyObject* o = as_object(t);
    Ref shape(PyObject_GetAttrString(o, "shape")), steps(PyObject_CallMethod(o, "stride", nullptr));
    Ref offset(PyObject_CallMethod(o, "storage_offset", nullptr));
    Ref sizes(shape ? PySequence_Tuple(shape.p) : nullptr), strides(steps ? PySequence_Tuple(steps.p) : nullptr);
    if (!sizes || !strides || !offset) return nullptr;
    return Py_BuildValue("(OOOOI)", sizes.p, strides.p, offset.p, dtype_object(t->dtype), t->keys & kKeyBits);
  }
  Ref sizes(int_tuple(t->sizes(), t->ndim)), strides(int_tuple(t->strides(), t->ndim));
  if (!sizes || !strides) return nullptr;
  return Py_BuildValue("(OOLOI)", sizes.p, strides.p, static_cast<long long>(t->offset), dtype_object(t->dtype),
                       t->keys & kKeyBits);
}

// A view of `source` that differs in these bits. New reference.
static PyObject* toggled(PyObject* source, uint32_t bits) {
  Ref view = Ref::borrow(source);
  if (view && (bits & kKeyConjugate)) view = Ref(call_role(Role::Conjugated, view.p));
  if (view && (bits & kKeyNegative)) view = Ref(call_role(Role::Negated, view.p));
  return view.release();
}

// A view of `source`, which has no bits, that covers what `like` covers of its base. `shift` is added to like's offset
// (in like's elements).
static PyObject* strided_like(PyObject* source, Tensor* like, int64_t shift) {
  DType from = as_tensor(source)->dtype;
  bool pack = is_complex(like->dtype) && !is_complex(from);
  Ref unpacked = Ref::borrow(source);
  if (is_complex(from) && !is_complex(like->dtype)) unpacked = Ref(call_role(Role::ComplexAsPairs, source));
  if (!unpacked) return nullptr;
  if (like->keys && Py_TYPE(like) != TensorType && !pack && unpacked.p == source) {
    Ref shown(geometry_tuple(like)), by(PyLong_FromLongLong(shift));
    Ref offset(shown && by ? PyNumber_Add(PyTuple_GET_ITEM(shown.p, 2), by.p) : nullptr);
    if (!offset) return nullptr;
    return call_role(Role::Strided, source, PyTuple_GET_ITEM(shown.p, 0), PyTuple_GET_ITEM(shown.p, 1), offset.p);
  }
  int64_t sizes[kMaxDims + 1], strides[kMaxDims + 1];
  int n = like->ndim;
  int64_t factor = pack ? 2 : 1;
  for (int i = 0; i < n; i++) {
    sizes[i] = like->sizes()[i];
    strides[i] = like->strides()[i] * factor;
  }
  if (pack) {
    sizes[n] = 2;
    strides[n++] = 1;
  }
  Ref size(int_tuple(sizes, n)), stride(int_tuple(strides, n)),
      offset(PyLong_FromLongLong((like->offset + shift) * factor));
  if (!size || !stride || !offset) return nullptr;
  Ref strided(call_role(Role::Strided, unpacked.p, size.p, stride.p, offset.p));
  if (!strided || !pack) return strided.release();
  return call_role(Role::PairsAsComplex, strided.p);
}

// The same, where the base has `bits` and the view those of `like`: from shown elements to what the memory holds, and
// back. Conjugates and negatives are their own inverses, so gradients take this way too. Recorded like any op when grad
// mode is on.
static PyObject* alias_like(PyObject* source, uint32_t bits, Tensor* like, int64_t shift) {
  Ref stored(toggled(source, bits));
  Ref view(stored ? strided_like(stored.p, like, shift) : nullptr);
  return view ? toggled(view.p, like->keys & kKeyBits) : nullptr;
}

static const char* kMultiOutput =
    "It is one of multiple views that one function returned, and such views may not be "
    "modified inplace. Use the out-of-place form of the operation.";

// Why a view may not be written in place (or its base be): the text, or null when it may.
static PyObject* view_objection(Tensor* t, const char* event) {
  if (t->view->multi_output) {
    Ref name(t->grad_fn ? node_name(t->grad_fn) : PyUnicode_FromString("a view op"));
    return name ? PyUnicode_FromFormat("Output %u of %U is a view and %s modified inplace. %s", t->output_nr, name.p,
                                       event, kMultiOutput)
                : nullptr;
  }
  return PyUnicode_FromFormat(
      "A view was created in no_grad mode and %s modified inplace with grad mode enabled, so its history is ambiguous. "
      "Make the "
      "view and the modification both inside no_grad (not tracked) or both outside (tracked).",
      event);
}

static void move_retained(Tensor* t, Node* from, Node* to, uint32_t output_nr);

static bool remake(Tensor* t) {
  ViewInfo* v = t->view;
  uint32_t now = t->current_version();
  if (v->multi_output || v->no_grad_creation) {
    Ref text(view_objection(t, "its base or another view of its base has been"));
    Node* n = text ? node_new(NodeKind::Error, text.p, 0, 0, 1, t->ndim) : nullptr;
    if (!n) return false;
    uint32_t next = 0;
    node_set_output(n, 0, t, &next);
    tape_set_grad_fn(t, n, 0);
    Py_DECREF(n);
  } else {
    GradModeGuard recording(true);
    Ref alias(alias_like(as_object(v->base), v->base->keys & kKeyBits, t, 0));
    if (!alias) return false;
    Tensor* fresh = as_tensor(alias.p);
    Node* old = t->grad_fn;
    Py_XINCREF(old);
    tape_set_grad_fn(t, fresh->grad_fn, fresh->output_nr);
    if (old && t->grad_fn) move_retained(t, old, t->grad_fn, t->output_nr);
    Py_XDECREF(old);
  }
  v->seen_version = now;
  return true;
}

// A history that could not be remade: who asks for it cannot be told (it is asked in passing, of every argument of
// every op), so the history itself becomes the error, raised when a gradient reaches it. An interrupt is passed on.
static void remember_failure(Tensor* t) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Ref kind(type), reason(value), where(traceback);
  bool interrupted = kind && !PyErr_GivenExceptionMatches(kind.p, PyExc_Exception);
  Ref text(PyUnicode_FromFormat(
      "the history of a view could not be remade after a write through another alias of its memory: %S",
      reason ? reason.p : Py_None));
  Node* n = text && !interrupted ? node_new(NodeKind::Error, text.p, 0, 0, 1, t->ndim) : nullptr;
  if (n) {
    uint32_t next = 0;
    node_set_output(n, 0, t, &next);
    tape_set_grad_fn(t, n, 0);
    Py_DECREF(n);
    t->view->seen_version = t->current_version();
    return;
  }
  PyErr_Clear();
  if (interrupted) PyErr_SetInterrupt();
  else
    PyErr_Restore(kind.release(), reason.release(), where.release()),
        PyErr_WriteUnraisable(as_object(t));  // no memory even for that
}

Node* tape_grad_fn_slow(Tensor* t) {
  ViewInfo* v = t->view;
  if (!v->is_grad_view || v->seen_version == t->current_version()) return t->grad_fn;
  if (!t->grad_fn && !v->base->requires_grad()) return nullptr;
  if (!t->grad_fn && !v->base->grad_fn && v->no_grad_creation) return nullptr;
  if (!remake(t)) remember_failure(t);
  return t->grad_fn;
}

// --- writes --------------------------------------------------------------------------------------------------------

bool tape_check_inplace(Tensor* self, const char* op_name) {
  if ((self->flags & kInference) && !tls.inference) {
    PyErr_Format(PyExc_RuntimeError,
                 "%s: an inference tensor cannot be written in place outside InferenceMode. Clone it first.", op_name);
    return false;
  }
  if (!tls.grad_enabled) return true;
  if (self->view && self->view->is_grad_view) {
    Node* n = tape_grad_fn(self);
    if (self->view->multi_output || self->view->no_grad_creation) {
      if (n || self->view->base->requires_grad()) {
        Ref text(view_objection(self, "is being"));
        if (text) PyErr_Format(PyExc_RuntimeError, "%s: %U", op_name, text.p);
        return false;
      }
    }
    if (self->view->base->flags & kRequiresGrad) {
      PyErr_Format(PyExc_RuntimeError,
                   "%s: in-place operation on a view of a leaf Variable that requires grad. Use the out-of-place "
                   "form, or write under no_grad.",
                   op_name);
      return false;
    }
  }
  if ((self->flags & kRequiresGrad) && !self->grad_fn) {
    PyErr_Format(PyExc_RuntimeError,
                 "%s: in-place operation on a leaf Variable that requires grad. Use the out-of-place form, or "
                 "write under no_grad.",
                 op_name);
    return false;
  }
  return true;
}

static uint64_t needs_mask(TapeInfo* info, PyObject** args) {
  uint64_t mask = 0;
  for (size_t k = 0; k < info->tensor_params.size() && k < 64; k++) {
    PyObject* value = args[info->tensor_params[k]];
    if (is_tensor(value) && is_differentiable(as_tensor(value)->dtype) && tape_requires_grad(as_tensor(value)))
      mask |= uint64_t{1} << k;
  }
  return mask;
}

PyObject* tape_keep_self(Overload* op, PyObject** args) {
  TapeInfo* info = tape_info(op);
  if (!info) return nullptr;
  bool reads = info->saves_self && op->vjp;
  if (op->mask_vjp) {
    uint64_t mask = needs_mask(info, args);
    DerivedVjp* derived = mask ? tape_derived(op, info, mask) : nullptr;
    if (mask && !derived) return nullptr;
    reads = false;
    if (derived)
      for (int p : derived->params) reads |= p == 0;
  }
  return reads ? call_role(Role::Copy, args[0]) : nullptr;
}

// Versions as they were before the write, for as long as the node is being made: see Note [view histories].
struct BeforeWrite {
  Version* version;
  explicit BeforeWrite(Tensor* t) : version(t->current_version() ? t->version : nullptr) {
    if (version) version->value--;
  }
  ~BeforeWrite() {
    if (version) version->value++;
  }
};

bool tape_rebase(Overload* op, PyObject** args, Tensor* self, PyObject* kept_self) {
  Node* n;
  {
    BeforeWrite then(self);
    n = tape_make_node(op, args, as_object(self), kept_self);
  }
  if (!n) return !PyErr_Occurred();
  Saved* saved = n->saved();
  for (uint32_t i = 0; i < n->num_saved; i++)
    if (saved[i].kind == SavedKind::Output || saved[i].kind == SavedKind::OutputCopy)
      saved[i].version = self->current_version();
  // A view's own grad_fn is remade from its base, so it never tells this node when it dies.
  if (self->view && self->view->is_grad_view) saved_keep_output(n, self);
  bool ok = tape_rebase_node(self, n);
  Py_DECREF(n);
  return ok;
}

// Entries of NodeExtra::retained that belong to t follow it to its new node.
static void move_retained(Tensor* t, Node* from, Node* to, uint32_t output_nr) {
  if (!t->extra || !t->extra->retains_grad || !from->extra || !from->extra->retained) return;
  PyObject* list = from->extra->retained;
  for (Py_ssize_t i = PyList_GET_SIZE(list) - 1; i >= 0; i--) {
    PyObject* entry = PyList_GET_ITEM(list, i);
    Ref held(PyObject_CallNoArgs(PyTuple_GET_ITEM(entry, 1)));
    if (held.p != as_object(t)) continue;
    Ref moved(Py_BuildValue("(IO)", output_nr, PyTuple_GET_ITEM(entry, 1)));
    NodeExtra* x = node_extra(to);
    if (!x->retained) x->retained = PyList_New(0);
    if (!moved || !x->retained || PyList_Append(x->retained, moved.p) || PySequence_DelItem(list, i)) PyErr_Clear();
  }
}

void tape_give_history(Tensor* t, Node* n, uint32_t output_nr) {
  Node* old = t->grad_fn;
  Py_XINCREF(old);
  // Hooks registered so far belong to the value t had: they stay with the old node.
  if (t->extra) Py_CLEAR(t->extra->hooks);
  tape_set_grad_fn(t, n, output_nr);
  if (old) move_retained(t, old, n, output_nr);
  Py_XDECREF(old);
}

bool tape_rebase_node(Tensor* self, Node* n) {
  if (!self->view || !self->view->is_grad_view) {
    tape_give_history(self, n, 0);
    return true;
  }
  Tensor* base = self->view->base;
  Node* copy = node_new(NodeKind::CopySlices, as_object(n), n->num_edges ? n->num_edges : 1, 2, 1, base->ndim);
  if (!copy) return false;
  uint32_t next = 0;
  node_set_output(copy, 0, base, &next);
  {
    BeforeWrite then(self);
    copy->edges()[0] = tape_edge(base);
  }
  if (!copy->edges()[0].node && PyErr_Occurred()) return Py_DECREF(copy), false;
  for (uint32_t i = 1; i < n->num_edges; i++) {
    copy->edges()[i] = n->edges()[i];
    Py_XINCREF(copy->edges()[i].node);
  }
  Saved* saved = copy->saved();
  for (int i = 0; i < 2; i++) {
    saved[i].value = geometry_tuple(i ? self : base);
    saved[i].kind = SavedKind::Plain;
    if (!saved[i].value) {
      Py_DECREF(copy);
      return false;
    }
  }
  tape_give_history(base, copy, 0);
  Py_DECREF(copy);
  self->view->seen_version = self->current_version() - 1;   // stale: remade from the base when next wanted
  return true;
}

// --- the backward of a write through a view ------------------------------------------------------------------------

static uint32_t bits_of(PyObject* geometry) {
  return static_cast<uint32_t>(PyLong_AsUnsignedLong(PyTuple_GET_ITEM(geometry, 4)));
}

static bool read_geometry(PyObject* tuple, int64_t* sizes, int64_t* strides, int* ndim, int64_t* offset, DType* dtype) {
  *ndim = read_ints(PyTuple_GET_ITEM(tuple, 0), sizes, kMaxDims, "CopySlices");
  if (*ndim < 0 || read_ints(PyTuple_GET_ITEM(tuple, 1), strides, kMaxDims, "CopySlices") < 0) return false;
  *offset = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, 2));
  *dtype = dtype_of(PyTuple_GET_ITEM(tuple, 3));
  return true;
}

// Whether a geometry consists of numbers: not where sizes are symbols.
static bool is_plain(PyObject* geometry) {
  bool plain = PyLong_Check(PyTuple_GET_ITEM(geometry, 2));
  for (int k = 0; k < 2; k++) {
    PyObject* numbers = PyTuple_GET_ITEM(geometry, k);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(numbers); i++) plain &= PyLong_Check(PyTuple_GET_ITEM(numbers, i)) != 0;
  }
  return plain;
}

// A copy of the gradient that lies as the base did, and the part of it that the view showed.
static bool symbolic_slice(PyObject* grad, PyObject* base, PyObject* view, Ref* result, Ref* slice) {
  *result = Ref(call_role(Role::NewStrided, grad, PyTuple_GET_ITEM(base, 0), PyTuple_GET_ITEM(base, 1)));
  Ref copied(*result ? call_role(Role::CopyInto, result->p, grad) : nullptr);
  Ref offset(copied ? PyNumber_Subtract(PyTuple_GET_ITEM(view, 2), PyTuple_GET_ITEM(base, 2)) : nullptr);
  Ref stored(offset ? toggled(result->p, bits_of(base)) : nullptr);
  if (!stored) return false;
  Ref part(call_role(Role::Strided, stored.p, PyTuple_GET_ITEM(view, 0), PyTuple_GET_ITEM(view, 1), offset.p));
  *slice = Ref(part ? toggled(part.p, bits_of(view)) : nullptr);
  return static_cast<bool>(*slice);
}

static bool plain_slice(Node* n, PyObject* grad, Ref* result, Ref* slice) {
  int64_t base_sizes[kMaxDims], base_strides[kMaxDims], sizes[kMaxDims], strides[kMaxDims], base_offset, offset;
  int base_ndim, ndim;
  DType base_dtype, dtype;
  if (!read_geometry(n->saved()[0].value, base_sizes, base_strides, &base_ndim, &base_offset, &base_dtype))
    return false;
  if (!read_geometry(n->saved()[1].value, sizes, strides, &ndim, &offset, &dtype)) return false;
  if (as_tensor(grad)->keys & ~kKeyBits) {   // of a subclass or a level: what is written below must be one too
    Ref size(int_tuple(base_sizes, base_ndim)), stride(int_tuple(base_strides, base_ndim));
    *result = Ref(size && stride ? call_role(Role::NewStrided, grad, size.p, stride.p) : nullptr);
  } else {
    *result = Ref(as_object(tensor_empty(base_sizes, base_strides, base_ndim, base_dtype, as_tensor(grad)->device)));
  }
  if (!*result) return false;
  Ref copied(call_role(Role::CopyInto, result->p, grad));
  if (!copied) return false;
  // A stand-in with the view's geometry: alias_like reads nothing else of it.
  Ref like(as_object(tensor_alloc(TensorType, ndim)));
  if (!like) return false;
  Tensor* shape = as_tensor(like.p);
  shape->storage = as_tensor(result->p)->storage;
  shape->storage->retain();
  shape->dtype = dtype;
  shape->keys |= bits_of(n->saved()[1].value);
  tensor_set_geometry(shape, sizes, strides, ndim, offset);
  int64_t factor = is_complex(base_dtype) && !is_complex(dtype) ? 2 : 1;
  int64_t divisor = !is_complex(base_dtype) && is_complex(dtype) ? 2 : 1;
  *slice = Ref(alias_like(result->p, bits_of(n->saved()[0].value), shape, -base_offset * factor / divisor));
  return static_cast<bool>(*slice);
}

bool copy_slices_apply(Node* n, PyObject** grads, PyObject** out) {
  if (n->released || !n->op) return refuse_released(n), false;
  if (!grads[0]) return true;
  PyObject *base = n->saved()[0].value, *view = n->saved()[1].value;
  Ref result, slice;
  bool is_shown = is_plain(base) && is_plain(view) ? plain_slice(n, grads[0], &result, &slice)
                                                   : symbolic_slice(grads[0], base, view, &result, &slice);
  if (!is_shown) return false;
  Ref inner_grad(call_role(Role::Copy, slice.p));
  if (!inner_grad) return false;
  auto* inner = as_node(n->op);
  std::vector<PyObject*> inner_out(inner->num_edges ? inner->num_edges : 1, nullptr);
  bool ok = node_apply(inner, &inner_grad.p, inner_out.data(), ~uint64_t{0});
  if (ok) {
    Ref written(inner_out[0] ? call_role(Role::CopyInto, slice.p, inner_out[0]) : call_role(Role::Clear, slice.p));
    ok = static_cast<bool>(written);
  }
  Py_XDECREF(inner_out[0]);
  if (ok && n->edges()[0].node) out[0] = result.release();
  for (size_t i = 1; i < inner_out.size(); i++) {
    if (ok) out[i] = inner_out[i];
    else Py_XDECREF(inner_out[i]);
  }
  return ok;
}

}  // namespace rl

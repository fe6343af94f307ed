// One node, applied: gradients of its outputs in, gradients of its inputs out. Derivatives are ops and Python rules;
// this file only hands them what was saved and sorts what they return. Everything holds the lock.

#include <optional>

#include "call.h"
#include "second_module.h"
#include "tape.h"
#include "transcript.h"
#include "unlocked.h"

namespace rl {

static thread_local uint64_t current_needs = ~uint64_t{0};
uint64_t& engine_current_needs() { return current_needs; }

namespace {
struct NeedsGuard {
  uint64_t previous = current_needs;
  explicit NeedsGuard(uint64_t needs) { current_needs = needs; }
  ~NeedsGuard() { current_needs = previous; }
};

// Arguments of one call, owned, on the stack for all but long lists.
struct Arguments {
  PyObject* inline_[16];
  std::vector<PyObject*> spill;
  size_t count = 0;
  ~Arguments() {
    for (size_t i = 0; i < count; i++) Py_XDECREF(data()[i]);
  }
  PyObject** data() { return spill.empty() ? inline_ : spill.data(); }
  bool push(PyObject* owned) {
    if (!owned) return false;
    if (count == 16 && spill.empty()) spill.assign(inline_, inline_ + 16);
    if (spill.empty()) inline_[count] = owned;
    else spill.push_back(owned);
    count++;
    return true;
  }
};
}  // namespace

static const char* param_text(Overload* op, int p) {
  return p < 0 ? "result" : PyUnicode_AsUTF8((*op->params)[p].name);
}

// A gradient that did not arrive counts as zeros where a kernel must read it. Where tensors have no elements, they are
// made of one that did arrive: it may be a fake, which knows its device and symbolic sizes.
static PyObject* zeros_for(Node* n, uint32_t i, PyObject** grads) {
  OutputMeta& m = n->outputs()[i];
  for (uint32_t k = 0; m.device.type == kMeta && k < n->num_outputs; k++) {
    Tensor* g = grads[k] ? as_tensor(grads[k]) : nullptr;
    if (!g || g->dtype != m.dtype || g->ndim != m.ndim) continue;
    if (m.ndim && memcmp(g->sizes(), n->sizes() + m.first_size, sizeof(int64_t) * m.ndim)) continue;
    Ref plain(call_role(Role::Detach, grads[k]));
    Ref t(plain ? call_role(Role::Copy, plain.p) : nullptr);
    return t ? call_role(Role::Clear, t.p) : nullptr;
  }
  Ref t(as_object(tensor_empty(n->sizes() + m.first_size, nullptr, m.ndim, m.dtype, m.device)));
  return t ? call_role(Role::Clear, t.p) : nullptr;
}

// --- derivatives derived from a pointwise expression ---------------------------------------------------------------

static uint64_t recorded_mask(Node* n) {
  uint64_t mask = 0;
  for (uint32_t k = 0; k < n->num_edges && k < 64; k++)
    if (n->edges()[k].node) mask |= uint64_t{1} << k;
  return mask;
}

static int position(const std::vector<int>& params, int p) {
  for (size_t i = 0; i < params.size(); i++)
    if (params[i] == p) return static_cast<int>(i);
  return -1;
}

// The rule for the gradients wanted now, if what was saved is enough for it; else the rule at recording.
static DerivedVjp* choose_rule(Overload* op, TapeInfo* info, uint64_t recorded, uint64_t wanted, DerivedVjp* full) {
  if (recorded == wanted) return full;
  DerivedVjp* fewer = tape_derived(op, info, wanted);
  if (!fewer) return nullptr;
  for (int p : fewer->params)
    if (position(full->params, p) < 0) return full;
  return fewer;
}

// Which results (as bits) are 0 with these settings, whatever the numbers are: those have no graph. Asked only where a
// graph was made.
static bool find_zeros(DerivedVjp* rule, Arguments& args, PyObject* result, uint64_t* zeros) {
  *zeros = 0;
  PyObject* first = PyTuple_Check(result) ? PyTuple_GET_ITEM(result, 0) : result;
  if (!rule->zeros || !tape_requires_grad(as_tensor(first))) return true;
  Ref bits(PyObject_Vectorcall(rule->zeros, args.data(), rule->op->params->size(), nullptr));
  if (!bits) return false;
  *zeros = PyLong_AsUnsignedLongLong(bits.p);
  return !PyErr_Occurred();
}

static bool apply_derived(Node* n, Overload* op, TapeInfo* info, PyObject** grads, PyObject** out, uint64_t needs) {
  uint64_t recorded = recorded_mask(n), wanted = recorded & needs;
  DerivedVjp* full = tape_derived(op, info, recorded);
  DerivedVjp* rule = full ? choose_rule(op, info, recorded, wanted, full) : nullptr;
  if (!rule) return false;
  uint64_t mask = rule == full ? recorded : wanted;
  Ref result;
  uint64_t zeros = 0;
  if (rule->op) {
    Arguments args;
    for (uint32_t i = 0; i < n->num_outputs; i++)
      if (!args.push(grads[i] ? Py_NewRef(grads[i]) : zeros_for(n, i, grads))) return false;
    for (int p : rule->params)
      if (!args.push(saved_unpack(n, n->saved() + position(full->params, p), param_text(op, p)))) return false;
    result = Ref(overload_call(rule->op, args.data()));
    if (!result || !find_zeros(rule, args, result.p, &zeros)) return false;
  }
  size_t j = 0;
  for (uint32_t k = 0; k < n->num_edges; k++) {
    if (!(mask >> k & 1)) continue;
    int which = rule->outputs[j++];
    if (which == -2 || !(wanted >> k & 1)) continue;
    bool alone = which <= -3;
    if (alone) which = -3 - which;
    else alone = which >= 0 && (zeros >> which & 1);
    PyObject* g = which == -1 ? grads[0] : PyTuple_Check(result.p) ? PyTuple_GET_ITEM(result.p, which) : result.p;
    out[k] = alone && tape_requires_grad(as_tensor(g)) ? call_role(Role::Detach, g) : Py_XNewRef(g);
    if (alone && !out[k]) return false;
  }
  return true;
}

// --- explicit derivatives ------------------------------------------------------------------------------------------

static bool wrong_answer(Overload* op, PyObject* result, const char* expected) {
  PyErr_Format(PyExc_RuntimeError, "%U: its vjp must return %s, got %R", op->name, expected, result);
  return false;
}

static bool take(PyObject* item, PyObject** slot, Edge& edge) {
  if (item == Py_None || !edge.node) return true;
  if (!is_tensor(item))
    return PyErr_Format(PyExc_TypeError, "a vjp must return tensors or None, got %s", Py_TYPE(item)->tp_name), false;
  *slot = Py_NewRef(item);
  return true;
}

// Sorts a vjp's answer (by name or one item per tensor parameter; a list for list parameters) into gradients per edge.
static bool distribute(Node* n, Overload* op, TapeInfo* info, PyObject* result, PyObject** out) {
  size_t params = info->tensor_params.size();
  bool by_name = PyDict_Check(result);
  bool aligned = PyTuple_Check(result) && static_cast<size_t>(PyTuple_GET_SIZE(result)) == params;
  if (!aligned && !by_name && params != 1)
    return wrong_answer(op, result, "one gradient (or None) per tensor parameter");
  Edge* edges = n->edges();
  uint32_t e = 0;
  for (size_t k = 0; k < params; k++) {
    PyObject* item = aligned ? PyTuple_GET_ITEM(result, k) : result;
    if (by_name) {
      item = PyDict_GetItemWithError(result, (*op->params)[info->tensor_params[k]].name);
      if (!item && PyErr_Occurred()) return false;
      if (!item) item = Py_None;
    }
    ParamType type = (*op->params)[info->tensor_params[k]].type;
    if (type != ParamType::TensorList && type != ParamType::OptTensorList) {
      if (!take(item, out + e, edges[e])) return false;
      e++;
      continue;
    }
    uint32_t length = n->list_lengths()[k];
    if (item != Py_None) {
      Ref fast(PySequence_Fast(item, "a vjp must return a list for a Tensor[] parameter"));
      if (!fast) return false;
      if (PySequence_Fast_GET_SIZE(fast.p) != static_cast<Py_ssize_t>(length))
        return wrong_answer(op, result, "as many gradients as the list had tensors");
      for (uint32_t i = 0; i < length; i++)
        if (!take(PySequence_Fast_GET_ITEM(fast.p, i), out + e + i, edges[e + i])) return false;
    }
    e += length;
  }
  return true;
}

static uint64_t needs_by_param(Node* n, TapeInfo* info, uint64_t needs) {
  Edge* edges = n->edges();
  auto wanted = [&](uint32_t e) { return edges[e].node && (e >= 64 || (needs >> e & 1)); };
  uint64_t mask = 0;
  uint32_t e = 0;
  for (size_t k = 0; k < info->tensor_params.size(); k++) {
    uint32_t length = n->has_lists ? n->list_lengths()[k] : 1;
    for (uint32_t i = 0; i < length; i++, e++)
      if (wanted(e)) mask |= uint64_t{1} << (k & 63);
  }
  return mask;
}

static PyObject* gradients_tuple(PyObject** grads, uint32_t n) {
  PyObject* tuple = PyTuple_New(n);
  for (uint32_t i = 0; tuple && i < n; i++) PyTuple_SET_ITEM(tuple, i, Py_NewRef(grads[i] ? grads[i] : Py_None));
  return tuple;
}

// The saved results: bare for one output, a tuple for several.
static PyObject* saved_results(Node* n, size_t first) {
  if (n->num_outputs == 1) return saved_unpack(n, n->saved() + first, "result");
  Ref tuple(PyTuple_New(n->num_outputs));
  for (uint32_t i = 0; tuple && i < n->num_outputs; i++) {
    PyObject* value = saved_unpack(n, n->saved() + first + i, "result");
    if (!value) return nullptr;
    PyTuple_SET_ITEM(tuple.p, i, value);
  }
  return tuple.release();
}

static bool apply_vjp(Node* n, Overload* op, TapeInfo* info, PyObject** grads, PyObject** out, uint64_t needs) {
  Arguments args;
  if (!args.push(n->num_outputs == 1 ? Py_NewRef(grads[0]) : gradients_tuple(grads, n->num_outputs))) return false;
  size_t from_params = info->saved_params.size();
  for (size_t i = 0; i < from_params && i < n->num_saved; i++)
    if (!args.push(saved_unpack(n, n->saved() + i, param_text(op, info->saved_params[i])))) return false;
  if (n->num_saved > from_params && !args.push(saved_results(n, from_params))) return false;
  RuleCall call{op, info, n, args.data(), args.count, needs_by_param(n, info, needs)};
  RuleKey key;
  RuleGuard own(true);
  if (Ref known(find_transcript(call, key)); known) return repeat_transcript(known.p, call, out);
  NeedsGuard guard(call.needs);
  std::optional<Noting> noting;
  if (key.is_kept) noting.emplace(call);
  Ref result(PyObject_Vectorcall(op->vjp, args.data(), args.count, nullptr));
  if (!result || !distribute(n, op, info, result.p, out)) return false;
  if (noting) noting->keep(key, out);
  return true;
}

// --- Python nodes --------------------------------------------------------------------------------------------------

static bool apply_python(Node* n, PyObject** grads, PyObject** out) {
  Ref tuple(gradients_tuple(grads, n->num_outputs));
  if (!tuple) return false;
  if (!n->op)
    return PyErr_SetString(PyExc_RuntimeError, "this node's context was already cleared by the garbage collector"),
           false;
  RuleGuard users(false);
  Ref result(n->kind == NodeKind::Function ? PyObject_CallMethod(n->op, "_run_backward", "(O)", tuple.p)
                                           : PyObject_Call(n->op, tuple.p, nullptr));
  if (!result) return false;
  if (is_tensor(result.p) || result.p == Py_None) {
    if (n->num_edges && n->edges()[0].node && result.p != Py_None) out[0] = result.release();
    return true;
  }
  if (!PyTuple_Check(result.p) || PyTuple_GET_SIZE(result.p) != static_cast<Py_ssize_t>(n->num_edges))
    return PyErr_Format(PyExc_RuntimeError, "a backward callable must return a tuple of %u gradients, got %R",
                        n->num_edges, result.p),
           false;
  for (uint32_t i = 0; i < n->num_edges; i++)
    if (!take(PyTuple_GET_ITEM(result.p, i), out + i, n->edges()[i])) return false;
  return true;
}

bool node_apply(Node* n, PyObject** grads, PyObject** out, uint64_t needs) {
  switch (n->kind) {
    case NodeKind::Op: {
      bool any = false;
      for (uint32_t i = 0; i < n->num_outputs; i++) any |= grads[i] != nullptr;
      if (!any) return true;
      if (n->released) return refuse_released(n), false;
      auto* op = reinterpret_cast<Overload*>(n->op);
      TapeInfo* info = tape_info(op);
      if (!info) return false;
      return op->mask_vjp ? apply_derived(n, op, info, grads, out, needs) : apply_vjp(n, op, info, grads, out, needs);
    }
    case NodeKind::CopySlices:
      return copy_slices_apply(n, grads, out);
    case NodeKind::Error:
      return PyErr_SetObject(PyExc_RuntimeError, n->op), false;
    case NodeKind::Function:
    case NodeKind::Callable:
      return apply_python(n, grads, out);
    case NodeKind::Region:
      if (n->released) return refuse_released(n), false;
      return second.region_apply(n, grads, out);
    case NodeKind::Accumulate:
      return accumulate_grad(n, grads[0]);
    case NodeKind::Face:
      return PyErr_SetString(PyExc_RuntimeError, "a step that another node takes cannot be run by itself"), false;
  }
  return true;
}

// --- the gradient of a leaf ----------------------------------------------------------------------------------------

static bool same_geometry(Tensor* a, Tensor* b) {
  return a->ndim == b->ndim && !memcmp(a->geometry, b->geometry, sizeof(int64_t) * 2 * a->ndim);
}

// Strides a gradient should have: the leaf's where those are dense, else row-major.
static bool follows_layout(Tensor* g, Tensor* leaf) {
  if (!(leaf->flags & kDenseNonOverlapping)) return g->contiguous();
  if (leaf->contiguous() && g->contiguous()) return true;
  return same_geometry(g, leaf);
}

static bool has_run_post_hooks(Tensor* leaf) {
  PyObject* hooks = leaf->extra ? leaf->extra->post_accumulate : nullptr;
  if (!hooks || !PyDict_GET_SIZE(hooks)) return true;
  Ref values(PyDict_Values(hooks));
  for (Py_ssize_t i = 0; values && i < PyList_GET_SIZE(values.p); i++) {
    Ref done(PyObject_CallOneArg(PyList_GET_ITEM(values.p, i), as_object(leaf)));
    if (!done) return false;
  }
  return static_cast<bool>(values);
}

// Where a mode or a subclass may look, Python decides by which calls a leaf gets its gradient; None: by none of its own.
static PyObject* first_gradient_seen(Tensor* leaf, PyObject* grad) {
  bool can_take = Py_REFCNT(grad) == 1 && follows_layout(as_tensor(grad), leaf);
  PyObject* rule = PyDict_GetItemString(autograd_callbacks, "first_gradient");
  if (!rule) return Py_NewRef(Py_None);
  return PyObject_CallFunctionObjArgs(rule, as_object(leaf), grad, can_take ? Py_True : Py_False, nullptr);
}

static PyObject* first_gradient(Tensor* leaf, PyObject* grad) {
  Tensor* g = as_tensor(grad);
  if (tls.grad_enabled) return call_role(Role::Copy, grad);
  if (is_seen(g)) {
    Ref taken(first_gradient_seen(leaf, grad));
    if (!taken || taken.p != Py_None) return taken.release();
  }
  // The engine's buffer holds the only reference (and the caller's array borrows it): nobody can see the tensor change
  // owner.
  if (Py_REFCNT(grad) == 1 && g->storage &&
      g->storage->refs.load(std::memory_order_relaxed) == 1 + g->storage->lent && !g->grad_fn &&
      follows_layout(g, leaf))
    return Py_NewRef(grad);
  bool dense = leaf->flags & kDenseNonOverlapping;
  Ref fresh(as_object(tensor_empty(leaf->sizes(), dense ? leaf->strides() : nullptr, leaf->ndim, g->dtype, g->device)));
  bool plain = !(g->keys & ~kKeyBits);
  if (!fresh || !plain) return plain ? nullptr : call_role(Role::Copy, grad);
  // PyTorch keeps a gradient that nobody else holds, and its bits with it.
  if (Py_REFCNT(grad) == 1 && follows_layout(g, leaf)) as_tensor(fresh.p)->keys |= g->keys & kKeyBits;
  Ref done(call_role(Role::CopyInto, fresh.p, grad));
  return done ? fresh.release() : nullptr;
}

bool accumulate_grad(Node* n, PyObject* grad) {
  if (!grad) return true;
  Tensor* leaf = as_tensor(n->op);
  if (!leaf) return true;
  // Two threads may reach one leaf; a large addition releases the lock halfway.
  while (n->busy) {
    Unlocked others_run;
  }
  struct Busy {
    Node* n;
    explicit Busy(Node* node) : n(node) { n->busy = true; }
    ~Busy() { n->busy = false; }
  };
  Ref keep = Ref::borrow(as_object(leaf));
  {
    Busy busy(n);
    if (!leaf->grad) {
      PyObject* first = first_gradient(leaf, grad);
      if (!first) return false;
      Py_XSETREF(leaf->grad, first);
      tensor_track(leaf);
    } else if (!tls.grad_enabled) {
      Ref old = Ref::borrow(leaf->grad);
      Ref done(call_role(Role::AddInto, old.p, grad));
      if (!done) return false;
    } else {
      Ref old = Ref::borrow(leaf->grad);
      PyObject* sum = call_role(Role::Sum, old.p, grad);
      if (!sum) return false;
      Py_XSETREF(leaf->grad, sum);
    }
  }
  return has_run_post_hooks(leaf);
}

}  // namespace rl

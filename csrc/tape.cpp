// Nodes: how op calls become them, what they keep for the backward pass, and how they die without recursion.
// Enters: a bound call and its result. Leaves: results whose grad_fn is a new node. Everything holds the lock.
#include "tape.h"
#include "boundary.h"

#include <structmember.h>

#include "call.h"
#include "second_module.h"
#include "symbolic.h"

namespace rl {

PyTypeObject* NodeType;
PyTypeObject* FunctionNodeType;
PyObject* autograd_callbacks;

static uint64_t next_sequence = 0;

// --- what an overload means to the tape ----------------------------------------------------------------------------

static bool has_edge(ParamType type) {
  switch (type) {
    case ParamType::Tensor:
    case ParamType::OptTensor:
    case ParamType::TensorList:
    case ParamType::OptTensorList:
    case ParamType::TensorOrScalar:
    case ParamType::OptTensorOrScalar:
      return true;
    default:
      return false;
  }
}

static bool is_list(ParamType type) { return type == ParamType::TensorList || type == ParamType::OptTensorList; }

TapeInfo* tape_info(Overload* op) {
  if (op->tape) return static_cast<TapeInfo*>(op->tape);
  auto* info = new TapeInfo;
  for (size_t i = 0; i < op->params->size(); i++) {
    const Param& p = (*op->params)[i];
    if (has_edge(p.type)) info->tensor_params.push_back(static_cast<int>(i));
    if (is_list(p.type)) info->has_lists = true;
    if (p.save != Save::No) info->saved_params.push_back(static_cast<int>(i));
    if (i == 0 && p.save == Save::Data) info->saves_self = true;
  }
  op->tape = info;
  return info;
}

static bool read_int_vector(PyObject* seq, std::vector<int>* out) {
  Ref fast(PySequence_Fast(seq, "mask_vjp: expected a sequence of ints"));
  if (!fast) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.p); i++) {
    long v = PyLong_AsLong(PySequence_Fast_GET_ITEM(fast.p, i));
    if (v == -1 && PyErr_Occurred()) return false;
    out->push_back(static_cast<int>(v));
  }
  return true;
}

// Asks Python once per set of tensor parameters that need a gradient. See DerivedVjp for what the answer says.
static DerivedVjp* ask_derived(Overload* op, TapeInfo* info, uint64_t mask) {
  int needed = __builtin_popcountll(mask);
  Ref bits(PyLong_FromUnsignedLongLong(mask));
  Ref answer(bits ? PyObject_CallOneArg(op->mask_vjp, bits.p) : nullptr);
  if (!answer) return nullptr;
  if (!PyTuple_Check(answer.p) || PyTuple_GET_SIZE(answer.p) < 2) {
    PyErr_Format(PyExc_RuntimeError, "%U: mask_vjp must return (overload, params[, outputs[, zeros]]), got %R",
                 op->name, answer.p);
    return nullptr;
  }
  auto derived = std::make_unique<DerivedVjp>();
  PyObject* overload = PyTuple_GET_ITEM(answer.p, 0);
  if (overload != Py_None) {
    if (!PyObject_TypeCheck(overload, OverloadType)) {
      PyErr_Format(PyExc_RuntimeError, "%U: mask_vjp must return an overload first, got %s", op->name,
                   Py_TYPE(overload)->tp_name);
      return nullptr;
    }
    derived->op = reinterpret_cast<Overload*>(Py_NewRef(overload));
  }
  if (!read_int_vector(PyTuple_GET_ITEM(answer.p, 1), &derived->params)) return nullptr;
  if (PyTuple_GET_SIZE(answer.p) > 2) {
    if (!read_int_vector(PyTuple_GET_ITEM(answer.p, 2), &derived->outputs)) return nullptr;
  } else {
    for (int i = 0; i < needed; i++) derived->outputs.push_back(i);
  }
  if (PyTuple_GET_SIZE(answer.p) > 3 && PyTuple_GET_ITEM(answer.p, 3) != Py_None)
    derived->zeros = Py_NewRef(PyTuple_GET_ITEM(answer.p, 3));
  if (static_cast<int>(derived->outputs.size()) != needed) {
    PyErr_Format(PyExc_RuntimeError, "%U: mask_vjp answered for %zu gradients, %d were asked for", op->name,
                 derived->outputs.size(), needed);
    return nullptr;
  }
  return derived.release();
}

DerivedVjp* tape_derived(Overload* op, TapeInfo* info, uint64_t mask) {
  if (mask < 8) {
    if (!info->derived[mask]) info->derived[mask] = ask_derived(op, info, mask);
    return info->derived[mask];
  }
  for (auto& [key, value] : info->more)
    if (key == mask) return value;
  DerivedVjp* result = ask_derived(op, info, mask);
  if (result) info->more.emplace_back(mask, result);
  return result;
}

// --- nodes: life ---------------------------------------------------------------------------------------------------

static inline size_t tail_bytes(uint32_t edges, uint32_t saved, uint32_t outputs, uint32_t sizes, uint32_t lists) {
  return edges * sizeof(Edge) + saved * sizeof(Saved) + ((outputs * sizeof(OutputMeta) + 7) & ~size_t{7}) +
         sizes * sizeof(int64_t) + lists * sizeof(uint32_t);
}

Node* node_new(NodeKind kind, PyObject* op, uint32_t edges, uint32_t saved, uint32_t outputs, uint32_t sizes,
               uint32_t lists) {
  size_t tail = tail_bytes(edges, saved, outputs, sizes, lists);
  Node* n;
  if (kind == NodeKind::Function) {
    n = PyObject_GC_NewVar(Node, FunctionNodeType, static_cast<Py_ssize_t>(tail));
    if (!n) return nullptr;
  } else {
    n = static_cast<Node*>(PyObject_Malloc(sizeof(Node) + tail));
    if (!n) return PyErr_NoMemory(), nullptr;
    PyObject_InitVar(reinterpret_cast<PyVarObject*>(n), NodeType, static_cast<Py_ssize_t>(tail));
  }
  memset(reinterpret_cast<char*>(n) + sizeof(PyVarObject), 0, sizeof(Node) - sizeof(PyVarObject) + tail);
  n->sequence = kind == NodeKind::Accumulate ? UINT64_MAX : next_sequence++;
  n->kind = kind;
  n->thread = tls.number;
  n->num_edges = edges;
  n->num_saved = saved;
  n->num_outputs = outputs;
  n->num_sizes = sizes;
  n->has_lists = lists != 0;
  n->op = Py_XNewRef(op);
  if (kind == NodeKind::Function) PyObject_GC_Track(n);
  return n;
}

NodeExtra* node_extra(Node* n) {
  if (!n->extra) n->extra = new NodeExtra;
  return n->extra;
}

// Shapes and numbers stay: a rule that reads no tensor of its call can run again. What other kinds keep is known to
// themselves, and they look at `released`.
void node_release(Node* n) {
  if (n->kind == NodeKind::Accumulate) return;
  n->released |= n->kind != NodeKind::Op;
  n->weak_outputs = false;
  Saved* s = n->saved();
  for (uint32_t i = 0; i < n->num_saved; i++) {
    if (n->kind == NodeKind::Op && s[i].kind == SavedKind::Plain) continue;
    n->released |= s[i].kind != SavedKind::Empty;
    saved_clear(s + i);
  }
  if (n->kind == NodeKind::CopySlices) Py_CLEAR(n->op);
}

static void extra_free(Node* n) {
  NodeExtra* x = n->extra;
  n->extra = nullptr;
  if (!x) return;
  Py_XDECREF(x->hooks);
  Py_XDECREF(x->pre_hooks);
  Py_XDECREF(x->tensor_hooks);
  Py_XDECREF(x->retained);
  Py_XDECREF(x->metadata);
  Py_XDECREF(x->shown);
  delete x;
}

static void made_free(Made* made);

static int node_clear(PyObject* self) {
  Node* n = as_node(self);
  Saved* s = n->saved();
  for (uint32_t i = 0; i < n->num_saved; i++) saved_clear(s + i);
  n->weak_outputs = false;
  extra_free(n);
  if (Made* made = n->made) {
    n->made = nullptr;
    made_free(made);
  }
  PyObject* op = n->op;
  n->op = nullptr;
  if (op) {
    if (n->kind == NodeKind::Accumulate && as_tensor(op)->extra && as_tensor(op)->extra->accumulator == n)
      as_tensor(op)->extra->accumulator = nullptr;
    Py_DECREF(op);
  }
  Edge* e = n->edges();
  for (uint32_t i = 0; i < n->num_edges; i++) {
    Node* next = e[i].node;
    e[i].node = nullptr;
    Py_XDECREF(next);
  }
  return 0;
}

// Freeing a node drops the nodes before it, and so on down the whole graph: the outermost call loops over what
// the inner ones queue (through `scratch.buffer`, unused by then) instead of letting them recurse.
static Node* doomed = nullptr;
static bool dooming = false;

static void node_dealloc(PyObject* self) {
  Node* n = as_node(self);
  if (n->kind == NodeKind::Function) PyObject_GC_UnTrack(self);
  if (n->weakrefs) PyObject_ClearWeakRefs(self);
  n->scratch.buffer = reinterpret_cast<PyObject**>(doomed);
  doomed = n;
  if (dooming) return;
  dooming = true;
  while (doomed) {
    Node* victim = doomed;
    doomed = reinterpret_cast<Node*>(victim->scratch.buffer);
    node_clear(as_object(victim));
    PyTypeObject* type = Py_TYPE(victim);
    if (victim->kind == NodeKind::Function) PyObject_GC_Del(victim);
    else PyObject_Free(victim);
    Py_DECREF(type);
  }
  dooming = false;
}

static int node_traverse(PyObject* self, visitproc visit, void* arg) {
  Node* n = as_node(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(n->op);
  Saved* s = n->saved();
  for (uint32_t i = 0; i < n->num_saved; i++)
    if (s[i].kind != SavedKind::Output) Py_VISIT(s[i].value);
  Edge* e = n->edges();
  for (uint32_t i = 0; i < n->num_edges; i++) Py_VISIT(e[i].node);
  if (n->extra) {
    Py_VISIT(n->extra->hooks);
    Py_VISIT(n->extra->pre_hooks);
    Py_VISIT(n->extra->tensor_hooks);
    Py_VISIT(n->extra->metadata);
  }
  return 0;
}

int tape_traverse(Tensor* t, visitproc visit, void* arg) {
  Py_VISIT(t->grad_fn);
  // A native node is invisible to the collector. When only this tensor owns it, what it holds is held by the tensor.
  Node* n = t->grad_fn;
  if (n && n->kind != NodeKind::Function && Py_REFCNT(n) == 1 && n->extra) {
    Py_VISIT(n->extra->hooks);
    Py_VISIT(n->extra->pre_hooks);
    Py_VISIT(n->extra->tensor_hooks);
    Py_VISIT(n->extra->metadata);
  }
  Py_VISIT(t->grad);
  if (t->view) Py_VISIT(t->view->base);
  if (t->extra) {
    Py_VISIT(t->extra->hooks);
    Py_VISIT(t->extra->post_accumulate);
    Py_VISIT(t->extra->wrapped);
    Py_VISIT(t->extra->quantizer);
  }
  return 0;
}

PyObject* node_name(Node* n) { return second.node_name(n); }

void node_set_output(Node* n, uint32_t i, Tensor* t, uint32_t* next_size) {
  OutputMeta& m = n->outputs()[i];
  m.dtype = t->dtype;
  m.device = t->device;
  m.ndim = t->ndim;
  m.defined = true;
  m.first_size = *next_size;
  memcpy(n->sizes() + *next_size, t->sizes(), sizeof(int64_t) * t->ndim);
  *next_size += t->ndim;
}

// --- edges ---------------------------------------------------------------------------------------------------------

Edge tape_edge(Tensor* t) {
  Node* n = tape_grad_fn(t);
  if (n) {
    Py_INCREF(n);
    return {n, t->output_nr};
  }
  if (!(t->flags & kRequiresGrad)) return {};
  AutogradExtra* x = tensor_extra(t);
  if (x->accumulator) {
    Py_INCREF(x->accumulator);
    return {x->accumulator, 0};
  }
  n = node_new(NodeKind::Accumulate, as_object(t), 0, 0, 1, 0);
  if (!n) return {};   // with its exception: a gradient that quietly goes nowhere would be worse
  n->outputs()[0].defined = true;
  x->accumulator = n;
  return {n, 0};
}

// --- recording -----------------------------------------------------------------------------------------------------

namespace {

// The edges of a call under construction; on the stack for all but long lists.
struct EdgeList {
  alignas(Edge) char storage[16 * sizeof(Edge)];   // raw: clearing it would cost as much as the rest
  std::vector<Edge> spill;
  uint32_t count = 0;
  bool any = false;
  ~EdgeList() {
    for (uint32_t i = 0; i < count; i++) Py_XDECREF(at(i).node);
  }
  Edge& at(uint32_t i) { return i < 16 ? reinterpret_cast<Edge*>(storage)[i] : spill[i - 16]; }
  void push(Edge e) {
    if (count < 16) new (storage + count * sizeof(Edge)) Edge(e);
    else spill.push_back(e);
    count++;
    any |= e.node != nullptr;
  }
  void push_value(PyObject* value) {
    if (is_tensor(value) && is_differentiable(as_tensor(value)->dtype)) push(tape_edge(as_tensor(value)));
    else push({nullptr, is_tensor(value) ? 0 : kNoTensor});
  }
  void move_into(Node* n) {
    Edge* e = n->edges();
    for (uint32_t i = 0; i < count; i++) e[i] = at(i);
    count = 0;
  }
};

// Results of a call as an array of tensors; null where an output is None.
struct Results {
  Tensor* inline_[8];
  std::vector<Tensor*> spill;
  uint32_t count = 0, dims = 0;
  bool any = false;
  Tensor** items() { return spill.empty() ? inline_ : spill.data(); }
  bool read(PyObject* result) {
    if (is_tensor(result)) {
      inline_[0] = as_tensor(result);
      count = 1;
      return check();
    }
    if (!PyTuple_Check(result) && !PyList_Check(result)) return false;
    auto n = static_cast<uint32_t>(PySequence_Fast_GET_SIZE(result));
    if (n > 8) spill.resize(n);
    for (count = 0; count < n; count++) {
      PyObject* item = PySequence_Fast_GET_ITEM(result, count);
      items()[count] = is_tensor(item) ? as_tensor(item) : nullptr;
    }
    return check();
  }
  bool check() {
    for (uint32_t i = 0; i < count; i++) {
      Tensor* t = items()[i];
      if (!t || !is_differentiable(t->dtype)) continue;
      any = true;
      dims += t->ndim;
    }
    return any;
  }
};

}  // namespace

// Shape and type of a tensor. A subclass that knows more of them than the core (symbolic sizes) answers itself.
static PyObject* meta_to_save(PyObject* value) {
  if (Py_TYPE(value) != TensorType && PyObject_HasAttrString(as_object(Py_TYPE(value)), "_tape_meta"))
    return PyObject_CallMethod(value, "_tape_meta", nullptr);
  if (__builtin_expect(as_tensor(value)->keys & kKeyFunctorch, 0)) {
    PyObject* answer = ask_behind(value, "meta");
    if (answer || PyErr_Occurred()) return answer;
  }
  return second.tensor_meta(as_tensor(value));
}

// A number given for a tensor is freed as the tensor would be: whether a graph can be walked twice is not to hang on it.
static bool save_operand(Saved* s, ParamType type, PyObject* value) {
  if (!saved_pack_input(s, value)) return false;
  bool in_place_of_tensor = type == ParamType::TensorOrScalar || type == ParamType::OptTensorOrScalar;
  if (s->kind == SavedKind::Plain && in_place_of_tensor && value != Py_None) s->kind = SavedKind::Freed;
  return true;
}

static bool holds_tensor(PyObject* list) {
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list); i++)
    if (is_tensor(PySequence_Fast_GET_ITEM(list, i))) return true;
  return false;
}

static bool save_param(Saved* s, const Param& param, PyObject* value) {
  Save how = param.save;
  if ((how == Save::Meta || how == Save::FreedMeta) && is_tensor(value)) {
    s->value = meta_to_save(value);
    s->kind = how == Save::Meta ? SavedKind::Plain : SavedKind::Freed;
    return s->value != nullptr;
  }
  if (PyList_Check(value) || PyTuple_Check(value)) {
    bool tensors = holds_tensor(value);
    if (tensors && how == Save::Data) return saved_pack_list(s, value);
    if (tensors && how == Save::Meta) {
      Ref list(PyTuple_New(PySequence_Fast_GET_SIZE(value)));
      for (Py_ssize_t i = 0; list && i < PySequence_Fast_GET_SIZE(value); i++) {
        PyObject* item = PySequence_Fast_GET_ITEM(value, i);
        PyObject* kept = is_tensor(item) ? meta_to_save(item) : Py_NewRef(item);
        if (!kept) return false;
        PyTuple_SET_ITEM(list.p, i, kept);
      }
      s->value = list.release();
      s->kind = SavedKind::Plain;
      return s->value != nullptr;
    }
  }
  return save_operand(s, param.type, value);
}

static bool keeps_result(Overload* op, uint32_t i) { return op->saves_result >> (i < 63 ? i : 63) & 1; }

static bool save_result(Node* n, Saved* s, Tensor* t, uint32_t i) {
  if (!t) return saved_pack_input(s, Py_None);
  if (!is_differentiable(t->dtype)) return saved_pack_input(s, as_object(t));
  return saved_pack_output(n, s, t, i);
}

// `kept` stands in for parameter 0 where an in-place write has replaced its data.
static bool save_all(Node* n, Overload* op, TapeInfo* info, DerivedVjp* derived, PyObject** args, Results& results,
                     PyObject* kept) {
  Saved* s = n->saved();
  auto value = [&](int p) { return p == 0 && kept ? kept : args[p]; };
  if (derived) {
    for (int p : derived->params)
      if (!(p < 0 ? save_result(n, s++, results.items()[0], 0) : save_operand(s++, (*op->params)[p].type, value(p))))
        return false;
    return true;
  }
  for (int p : info->saved_params)
    if (!save_param(s++, (*op->params)[p], value(p))) return false;
  if (op->saves_result)
    for (uint32_t i = 0; i < results.count; i++)
      if (!save_result(n, s++, keeps_result(op, i) ? results.items()[i] : nullptr, i)) return false;
  return true;
}

static void remember_stack(Node* n) {
  PyObject* note = autograd_callbacks ? PyDict_GetItemString(autograd_callbacks, "remember_stack") : nullptr;
  if (!note) return;
  Ref done(PyObject_CallOneArg(note, as_object(n)));
  if (!done) PyErr_WriteUnraisable(note);
}

// The node of one call, with edges, saved values and output metadata; results are not attached yet. Null without an
// exception: nothing to record.
static Node* make_node(Overload* op, PyObject** args, Results& results, PyObject* kept_self) {
  TapeInfo* info = tape_info(op);
  if (!info) return nullptr;
  EdgeList edges;
  uint64_t mask = 0;
  for (size_t k = 0; k < info->tensor_params.size(); k++) {
    PyObject* value = args[info->tensor_params[k]];
    if (info->has_lists && is_list((*op->params)[info->tensor_params[k]].type)) {
      if (value == Py_None) continue;
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); i++)
        edges.push_value(PySequence_Fast_GET_ITEM(value, i));
    } else {
      edges.push_value(value);
      if (edges.at(edges.count - 1).node) mask |= uint64_t{1} << (k & 63);
    }
  }
  if (PyErr_Occurred() || !edges.any) return nullptr;   // an edge that found no memory leaves its exception
  DerivedVjp* derived = nullptr;
  uint32_t num_saved = 0;
  bool known = op->mask_vjp || op->vjp;
  if (op->mask_vjp) {
    derived = tape_derived(op, info, mask);
    if (!derived) return nullptr;
    num_saved = static_cast<uint32_t>(derived->params.size());
  } else if (op->vjp) {
    num_saved = static_cast<uint32_t>(info->saved_params.size()) + (op->saves_result ? results.count : 0);
  }
  Ref message;
  if (!known) {
    message = Ref(PyUnicode_FromFormat("derivative for %U is not implemented", op->name));
    if (!message) return nullptr;
  }
  Node* n = node_new(known ? NodeKind::Op : NodeKind::Error, known ? as_object(op) : message.p, edges.count, num_saved,
                     results.count, results.dims,
                     known && info->has_lists ? static_cast<uint32_t>(info->tensor_params.size()) : 0);
  if (!n) return nullptr;
  edges.move_into(n);
  uint32_t next_size = 0;
  for (uint32_t i = 0; i < results.count; i++) {
    Tensor* t = results.items()[i];
    if (t && is_differentiable(t->dtype)) node_set_output(n, i, t, &next_size);
  }
  if (n->has_lists)
    for (size_t k = 0; k < info->tensor_params.size(); k++) {
      PyObject* value = args[info->tensor_params[k]];
      bool list = is_list((*op->params)[info->tensor_params[k]].type);
      n->list_lengths()[k] = !list ? 1 : value == Py_None ? 0 : static_cast<uint32_t>(PySequence_Fast_GET_SIZE(value));
    }
  if (known && !save_all(n, op, info, derived, args, results, kept_self)) {
    Py_DECREF(n);
    return nullptr;
  }
  if (anomaly_enabled) remember_stack(n);
  return n;
}

// The usual call: one result, no lists, a rule already known, nothing watching. False: not that call after all, and
// nothing was done.
static bool record_plainly(Overload* op, PyObject** args, Tensor* out, bool* ok) {
  auto* info = static_cast<TapeInfo*>(op->tape);
  *ok = true;
  size_t params = info->tensor_params.size();
  if (params > 3 || info->has_lists || tls.saved_hooks || anomaly_enabled || !is_differentiable(out->dtype))
    return false;
  Edge edges[3];
  uint64_t mask = 0;
  for (size_t k = 0; k < params; k++) {
    PyObject* value = args[info->tensor_params[k]];
    if (!is_tensor(value)) {
      edges[k].input_nr = kNoTensor;
      continue;
    }
    Tensor* t = as_tensor(value);
    if (!(t->grad_fn || t->view || (t->flags & kRequiresGrad)) || !is_differentiable(t->dtype)) continue;
    edges[k] = tape_edge(t);
    if (edges[k].node) mask |= uint64_t{1} << k;
    else *ok = !PyErr_Occurred();
    if (!*ok) break;
  }
  DerivedVjp* derived = op->mask_vjp ? info->derived[mask] : nullptr;
  const std::vector<int>& kept = derived ? derived->params : info->saved_params;
  bool known = mask && (derived || !op->mask_vjp), keeps_own = !derived && op->saves_result & 1;
  Node* n =
      known && *ok ? node_new(NodeKind::Op, as_object(op), params, kept.size() + keeps_own, 1, out->ndim) : nullptr;
  if (!n) {
    for (Edge& e : edges) Py_XDECREF(e.node);
    *ok = *ok && !known;
    return !*ok;   // no memory: nothing else to try
  }
  Edge* mine = n->edges();
  for (size_t k = 0; k < params; k++) mine[k] = edges[k];
  uint32_t next_size = 0;
  node_set_output(n, 0, out, &next_size);
  out->grad_fn = n;
  out->output_nr = 0;
  Saved* s = n->saved();
  for (int p : kept) {
    if (p < 0) *ok = saved_pack_output(n, s, out, 0);
    else *ok = derived ? save_operand(s, (*op->params)[p].type, args[p]) : save_param(s, (*op->params)[p], args[p]);
    if (!*ok) return true;
    s++;
  }
  if (keeps_own) *ok = saved_pack_output(n, s, out, 0);
  return true;
}

bool tape_record(Overload* op, PyObject** args, PyObject* result) {
  bool ok;
  if (op->tape && (op->mask_vjp || op->vjp) && is_tensor(result) && !as_tensor(result)->grad_fn &&
      !(as_tensor(result)->flags & kRequiresGrad) && record_plainly(op, args, as_tensor(result), &ok))
    return ok;
  Results results;
  if (!results.read(result)) return true;
  // An op may hand back an argument unchanged (contiguous, to): its history is already right.
  for (uint32_t i = 0; i < results.count; i++)
    if (results.items()[i] && (results.items()[i]->grad_fn || (results.items()[i]->flags & kRequiresGrad))) return true;
  Node* n = make_node(op, args, results, nullptr);
  if (!n) return !PyErr_Occurred();
  for (uint32_t i = 0; i < results.count; i++) {
    Tensor* t = results.items()[i];
    if (!t || !is_differentiable(t->dtype)) continue;
    Py_INCREF(n);
    t->grad_fn = n;
    t->output_nr = i;
  }
  Py_DECREF(n);
  return true;
}

Node* tape_make_node(Overload* op, PyObject** args, PyObject* result, PyObject* kept_self) {
  Results results;
  return results.read(result) ? make_node(op, args, results, kept_self) : nullptr;
}

uint64_t tape_sequence() { return next_sequence; }

// A list of tensors as a list of (sizes and type, node or None, output_nr), other values as they are.
static PyObject* described(PyObject* value) {
  if (is_tensor(value)) {
    Ref meta(meta_to_save(value));
    Edge e;
    if (is_differentiable(as_tensor(value)->dtype)) e = tape_edge(as_tensor(value));
    Ref node(e.node ? as_object(e.node) : PyErr_Occurred() ? nullptr : Py_NewRef(Py_None));
    return meta && node ? Py_BuildValue("(OOI)", meta.p, node.p, e.input_nr) : nullptr;
  }
  bool tensors = (PyList_Check(value) || PyTuple_Check(value)) && PySequence_Fast_GET_SIZE(value) &&
                 is_tensor(PySequence_Fast_GET_ITEM(value, 0));
  if (!tensors) return Py_NewRef(value);
  Py_ssize_t count = PySequence_Fast_GET_SIZE(value);
  Ref list(PyList_New(count));
  for (Py_ssize_t i = 0; list && i < count; i++) {
    PyObject* item = described(PySequence_Fast_GET_ITEM(value, i));
    if (!item) return nullptr;
    PyList_SET_ITEM(list.p, i, item);
  }
  return list.release();
}

static void made_free(Made* made) {
  for (uint32_t i = 0; i < made->count; i++) {
    Py_XDECREF(made->args[i].value);
    Py_XDECREF(made->args[i].edge.node);
  }
  Py_DECREF(as_object(made->op));
  PyMem_Free(made);
}

static bool made_argument(Made* made, PyObject* value, int64_t** tail) {
  MadeArgument& a = made->args[made->count];
  a = MadeArgument{};
  if (Py_TYPE(value) != TensorType) {
    a.value = described(value);      // numbers, lists; a subclass tells its sizes itself
    made->count += a.value != nullptr;
    return a.value != nullptr;
  }
  Tensor* t = as_tensor(value);
  if (is_differentiable(t->dtype)) a.edge = tape_edge(t);
  a.dtype = t->dtype;
  a.device = t->device;
  a.ndim = t->ndim;
  a.geometry = *tail;
  memcpy(*tail, t->geometry, sizeof(int64_t) * 2 * t->ndim);
  *tail += 2 * t->ndim;
  made->count++;
  return a.edge.node || !PyErr_Occurred();
}

bool tape_mark(Overload* op, PyObject** args, PyObject* result, uint64_t since) {
  PyObject* first = PyTuple_Check(result) && PyTuple_GET_SIZE(result) ? PyTuple_GET_ITEM(result, 0) : result;
  Node* n = is_tensor(first) ? as_tensor(first)->grad_fn : nullptr;
  if (!n || n->sequence < since || n->kind == NodeKind::Accumulate) return true;
  size_t count = op->params->size(), dims = 0;
  for (size_t i = 0; i < count; i++)
    if (Py_TYPE(args[i]) == TensorType) dims += as_tensor(args[i])->ndim;
  size_t head = sizeof(Made) + count * sizeof(MadeArgument);
  auto* made = static_cast<Made*>(PyMem_Malloc(head + 2 * dims * sizeof(int64_t)));
  if (!made) return PyErr_NoMemory(), false;
  made->op = reinterpret_cast<Overload*>(Py_NewRef(as_object(op)));
  made->count = 0;
  auto* tail = reinterpret_cast<int64_t*>(reinterpret_cast<char*>(made) + head);
  bool ok = true;
  for (size_t i = 0; ok && i < count; i++) ok = made_argument(made, args[i], &tail);
  if (!ok) return made_free(made), false;
  std::swap(n->made, made);
  if (made) made_free(made);      // of an op inside this one
  return true;
}

static void drop_view(Tensor* t) {
  ViewInfo* view = t->view;
  if (!view) return;
  t->view = nullptr;
  Py_DECREF(view->base);
  PyObject_Free(view);
}

static void plain_result(Tensor* t, Tensor** args, int num_args, bool hidden) {
  if (!t->view || (!hidden && Py_REFCNT(as_object(t->view->base)) != 1)) return;
  for (int i = 0; i < num_args && !hidden; i++)
    if (args[i]->storage == t->storage) return;
  tape_grad_fn(t);        // remade from the base where that was written since
  drop_view(t);
}

void tape_plain_results(PyObject* result, Tensor** args, int num_args, bool hidden) {
  if (is_tensor(result)) return plain_result(as_tensor(result), args, num_args, hidden);
  if (!PyTuple_Check(result)) return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result); i++)
    if (is_tensor(PyTuple_GET_ITEM(result, i)))
      plain_result(as_tensor(PyTuple_GET_ITEM(result, i)), args, num_args, hidden);
}

void tape_free_autograd(Tensor* t) {
  Node* n = t->grad_fn;
  t->grad_fn = nullptr;
  if (n) {
    if (n->weak_outputs && Py_REFCNT(n) > 1) saved_keep_output(n, t);
    Py_DECREF(n);
  }
  Py_CLEAR(t->grad);
  drop_view(t);
  if (AutogradExtra* x = t->extra) {
    t->extra = nullptr;
    Py_XDECREF(x->hooks);
    Py_XDECREF(x->post_accumulate);
    Py_XDECREF(x->wrapped);
    Py_XDECREF(x->quantizer);
    delete x;
  }
}

// --- types ---------------------------------------------------------------------------------------------------------

static PyObject* node_repr(PyObject* self) { return second.node_repr(self); }
static PyObject* node_getattro(PyObject* self, PyObject* name) { return second.node_getattro(self, name); }
static PyObject* node_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  return second.node_call(self, args, kwargs);
}

static PyMemberDef node_members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(Node, weakrefs), READONLY, nullptr},
                                     {}};

static PyTypeObject* make_type(const char* name, bool collected, PyTypeObject* base) {
  std::vector<PyType_Slot> slots = {
      {Py_tp_dealloc, reinterpret_cast<void*>(node_dealloc)},
      {Py_tp_members, node_members},
      {Py_tp_repr, reinterpret_cast<void*>(node_repr)},
      {Py_tp_getattro, reinterpret_cast<void*>(node_getattro)},
      {Py_tp_call, reinterpret_cast<void*>(guarded<node_call>)},
      {Py_tp_doc, const_cast<char*>("One recorded operation: call it with gradients of its outputs.")}};
  if (collected) {
    slots.push_back({Py_tp_traverse, reinterpret_cast<void*>(node_traverse)});
    slots.push_back({Py_tp_clear, reinterpret_cast<void*>(node_clear)});
  }
  slots.push_back({0, nullptr});
  PyType_Spec spec = {name, sizeof(Node), 1,
                      static_cast<unsigned>(Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION |
                                            (collected ? Py_TPFLAGS_HAVE_GC : 0) | (base ? 0 : Py_TPFLAGS_BASETYPE)),
                      slots.data()};
  return reinterpret_cast<PyTypeObject*>(PyType_FromSpecWithBases(&spec, base ? as_object(base) : nullptr));
}

PyTypeObject* node_subtype(const char* name, bool collected) {
  return make_type(name, collected, collected ? FunctionNodeType : NodeType);
}

int init_tape(PyObject* module) {
  NodeType = make_type("rushlight.Node", false, nullptr);
  FunctionNodeType = make_type("rushlight.FunctionNode", true, nullptr);
  autograd_callbacks = PyDict_New();
  if (!NodeType || !FunctionNodeType || !autograd_callbacks) return -1;
  if (PyModule_AddObjectRef(module, "Node", as_object(NodeType))) return -1;
  if (PyModule_AddObjectRef(module, "FunctionNode", as_object(FunctionNodeType))) return -1;
  if (PyModule_AddObjectRef(module, "_autograd_callbacks", autograd_callbacks)) return -1;
  return 0;
}

}  // namespace rl

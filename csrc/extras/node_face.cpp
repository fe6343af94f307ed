// Nodes as Python sees them: their types and names, next functions, saved values, hooks. Everything holds the lock.
#include "boundary.h"
#include "call.h"
#include "core.h"
#include "faces.h"
#include "function_node.h"

namespace rl {

// Note [dressing]. The engine's nodes all have one type and one node per op call. When Python first sees one it is
// dressed: it gets a type named as PyTorch's node is, and, where PyTorch has other edges or several nodes, next
// functions of its own (NodeExtra::shown), which may lead through nodes that only exist to be looked at (NodeKind::Face).
// What to wear is decided in Python (`autograd_callbacks["dress"]`); nodes that nobody looks at pay nothing.

static PyObject* node_types;     // dict: (name, seen by the collector) -> type

static PyTypeObject* type_named(PyObject* name, bool collected) {
  Ref key(Py_BuildValue("(Oi)", name, collected));
  if (!key) return nullptr;
  if (PyObject* found = PyDict_GetItemWithError(node_types, key.p)) return reinterpret_cast<PyTypeObject*>(found);
  if (PyErr_Occurred()) return nullptr;
  Ref full(PyUnicode_FromFormat("%s.%U", collected ? "torch.autograd.function" : "rushlight", name));
  const char* text = full ? PyUnicode_AsUTF8(full.p) : nullptr;
  Ref type(text ? as_object(node_subtype(text, collected)) : nullptr);
  if (!type) return nullptr;
  if (!collected) {     // as PyTorch's are: of no module
    Ref home(PyUnicode_FromString("builtins"));
    if (!home || PyObject_SetAttrString(type.p, "__module__", home.p)) return nullptr;
    auto* made = reinterpret_cast<PyTypeObject*>(type.p);
    made->tp_name = strrchr(made->tp_name, '.') + 1;
  }
  return PyDict_SetItem(node_types, key.p, type.p) ? nullptr : reinterpret_cast<PyTypeObject*>(type.p);
}

static void wear(Node* n, PyTypeObject* type) {
  PyTypeObject* old = Py_TYPE(n);
  Py_INCREF(type);
  Py_SET_TYPE(n, type);
  Py_DECREF(old);
}

// What kinds other than ops are called; null without an exception: ask Python.
static PyObject* fixed_name(Node* n) {
  switch (n->kind) {
    case NodeKind::Accumulate:
      return PyUnicode_FromString("AccumulateGrad");
    case NodeKind::CopySlices:
      return PyUnicode_FromString("CopySlices");
    case NodeKind::Error:
      return PyUnicode_FromString("Error");
    case NodeKind::Region:
      return PyUnicode_FromString("CompiledFunctionBackward");
    case NodeKind::Function:
    case NodeKind::Callable: {
      PyObject* named = n->op ? PyObject_GetAttrString(n->op, "_node_name") : nullptr;
      if (named) return named;
      PyErr_Clear();
      return PyUnicode_FromFormat("%sBackward", n->op ? Py_TYPE(n->op)->tp_name : "Function");
    }
    default:
      return nullptr;
  }
}

// See Note [dressing]. False with an exception.
bool dress_node(Node* n) {
  if (Py_TYPE(n) != NodeType && Py_TYPE(n) != FunctionNodeType) return true;
  Ref name(n->made ? nullptr : fixed_name(n));
  if (!name) {
    if (PyErr_Occurred()) return false;
    PyObject* ask = PyDict_GetItemString(autograd_helpers(), "dress");
    Ref answer(ask ? PyObject_CallOneArg(ask, as_object(n)) : Py_BuildValue("(sO)", "Node", Py_None));
    PyObject *called, *shown;
    if (!answer || !PyArg_ParseTuple(answer.p, "UO", &called, &shown)) return false;
    name = Ref::borrow(called);
    if (shown != Py_None) Py_XSETREF(node_extra(n)->shown, Py_NewRef(shown));
  }
  PyTypeObject* type = type_named(name.p, PyType_IS_GC(Py_TYPE(n)));
  if (!type) return false;
  wear(n, type);
  return true;
}

PyObject* edge_object(Node* node, uint32_t nr) {
  if (node && !dress_node(node)) return nullptr;
  return Py_BuildValue("(OI)", node ? as_object(node) : Py_None, node ? nr : 0);
}

static PyObject* dressed_name(Node* n) {
  if (const char* type = native_name(n)) return PyUnicode_FromFormat("torch::autograd::CppNode<%s>", type);
  if (!dress_node(n)) return nullptr;
  const char* dot = strrchr(Py_TYPE(n)->tp_name, '.');
  const char* name = dot ? dot + 1 : Py_TYPE(n)->tp_name;
  bool general = n->kind == NodeKind::Accumulate || n->kind == NodeKind::CopySlices || n->kind == NodeKind::Error;
  return PyUnicode_FromFormat("%s%s", general ? "torch::autograd::" : "", name);
}

static PyObject* n_name(PyObject* self, PyObject*) { return dressed_name(as_node(self)); }
static PyObject* n_sequence(PyObject* self, PyObject*) { return PyLong_FromUnsignedLongLong(as_node(self)->sequence); }

// What the engine follows: pairs (node or None, output_nr), not dressed; (None, kNoTensor) for what is no tensor.
static PyObject* n_edges(PyObject* self, void*) {
  Node* n = as_node(self);
  Ref tuple(PyTuple_New(n->num_edges));
  for (uint32_t i = 0; tuple && i < n->num_edges; i++) {
    Edge& e = n->edges()[i];
    PyObject* pair = Py_BuildValue("(OI)", e.node ? as_object(e.node) : Py_None, e.input_nr);
    if (!pair) return nullptr;
    PyTuple_SET_ITEM(tuple.p, i, pair);
  }
  return tuple.release();
}

static PyObject* shown_functions(Node* n, PyObject* shown) {
  Py_ssize_t count = PyTuple_GET_SIZE(shown);
  Ref tuple(PyTuple_New(count));
  for (Py_ssize_t i = 0; tuple && i < count; i++) {
    PyObject* item = PyTuple_GET_ITEM(shown, i);
    Edge e;
    if (PyLong_Check(item)) {
      long place = PyLong_AsLong(item);
      if (place >= 0) e = n->edges()[place];
    } else {
      PyObject* node;
      if (!PyArg_ParseTuple(item, "OI", &node, &e.input_nr)) return nullptr;
      e.node = node == Py_None ? nullptr : as_node(node);
    }
    PyObject* pair = edge_object(e.node, e.input_nr);
    if (!pair) return nullptr;
    PyTuple_SET_ITEM(tuple.p, i, pair);
  }
  return tuple.release();
}

static PyObject* n_next_functions(PyObject* self, void*) {
  Node* n = as_node(self);
  if (!dress_node(n)) return nullptr;
  if (n->extra && n->extra->shown) return shown_functions(n, n->extra->shown);
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

static PyObject* n_made(PyObject* self, void*) {
  Made* made = as_node(self)->made;
  if (!made) Py_RETURN_NONE;
  Ref call(PyTuple_New(made->count + 1));
  if (!call) return nullptr;
  PyTuple_SET_ITEM(call.p, 0, Py_NewRef(as_object(made->op)));
  for (uint32_t i = 0; i < made->count; i++) {
    MadeArgument& a = made->args[i];
    Ref meta(a.value ? nullptr : new_meta(a.geometry, a.ndim, a.dtype, a.device, a.geometry + a.ndim));
    PyObject* node = a.edge.node ? as_object(a.edge.node) : Py_None;
    PyObject* item = a.value ? Py_NewRef(a.value) : nullptr;
    if (meta) item = Py_BuildValue("(OOI)", meta.p, node, a.edge.input_nr);
    if (!item) return nullptr;
    PyTuple_SET_ITEM(call.p, i + 1, item);
  }
  return call.release();
}

static PyObject* n_overload(PyObject* self, void*) {
  Node* n = as_node(self);
  return Py_NewRef(n->kind == NodeKind::Op ? n->op : Py_None);
}

static PyObject* n_steps(PyObject* self, void*) { return PyLong_FromLong(as_node(self)->steps); }

static PyObject* n_shown(PyObject* self, void*) {
  NodeExtra* x = as_node(self)->extra;
  return Py_NewRef(x && x->shown ? x->shown : Py_None);
}

// A face: the node it shows a step of, and what Python keeps about the step; (None, None) for other nodes.
static PyObject* n_step(PyObject* self, void*) {
  Node* n = as_node(self);
  if (n->kind != NodeKind::Face) return Py_BuildValue("(OO)", Py_None, Py_None);
  return Py_BuildValue("(OO)", n->op, n->saved()[0].value);
}

static PyObject* n_released(PyObject* self, void*) { return PyBool_FromLong(as_node(self)->released); }

static PyObject* n_input_metadata(PyObject* self, void*) {
  Node* n = as_node(self);
  PyObject* list = PyTuple_New(n->num_outputs);
  for (uint32_t i = 0; list && i < n->num_outputs; i++) {
    OutputMeta& m = n->outputs()[i];
    PyObject* item;
    if (n->kind == NodeKind::Accumulate) item = for_core().tensor_meta(as_tensor(n->op));
    else item = m.defined ? new_meta(n->sizes() + m.first_size, m.ndim, m.dtype, m.device) : Py_NewRef(Py_None);
    if (!item) return Py_DECREF(list), nullptr;
    PyTuple_SET_ITEM(list, i, item);
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

PyObject* saved_values(PyObject* node) {
  Node* n = as_node(node);
  if (n->released) return refuse_released(n), nullptr;
  PyObject* tuple = PyTuple_New(n->num_saved);
  for (uint32_t i = 0; tuple && i < n->num_saved; i++) {
    PyObject* value = saved_unpack(n, n->saved() + i, "saved tensor");
    if (!value) return Py_DECREF(tuple), nullptr;
    PyTuple_SET_ITEM(tuple, i, value);
  }
  return tuple;
}

static PyObject* n_kept_values(PyObject* self, PyObject*) { return saved_values(self); }

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

static PyObject* kept_name(Node* n, int param) {
  if (param < 0) return PyUnicode_FromString("result");
  return Py_NewRef((*reinterpret_cast<Overload*>(n->op)->params)[param].name);
}

// Names of what an op's node keeps, by our parameters, in order.
static PyObject* n_kept_names(PyObject* self, PyObject*) {
  Node* n = as_node(self);
  Ref list(PyList_New(0));
  if (!list || n->kind != NodeKind::Op) return list.release();
  for (int p : saved_order(n)) {
    Ref name(kept_name(n, p));
    if (!name || PyList_Append(list.p, name.p)) return nullptr;
  }
  return PyErr_Occurred() ? nullptr : list.release();
}

static Saved* saved_at(Node* n, PyObject* place) {
  long at = PyLong_AsLong(place);
  if (at == -1 && PyErr_Occurred()) return nullptr;
  if (at >= 0 && at < static_cast<long>(n->num_saved)) return n->saved() + at;
  PyErr_Format(PyExc_IndexError, "saved value %ld of a node that has %u", at, n->num_saved);
  return nullptr;
}

// One saved value, with its place in the graph.
static PyObject* n_kept(PyObject* self, PyObject* place) {
  Node* n = as_node(self);
  Saved* s = saved_at(n, place);
  if (!s) return nullptr;
  Ref name(n->kind == NodeKind::Op ? kept_name(n, saved_order(n)[s - n->saved()]) : PyUnicode_FromString("saved tensor"));
  GradModeGuard attached(true);
  return name ? saved_unpack(n, s, PyUnicode_AsUTF8(name.p)) : nullptr;
}

// As _kept, but sizes and types instead of tensors, and no hook is asked: None where only a hook knows.
static PyObject* n_kept_meta(PyObject* self, PyObject* place) {
  Saved* s = saved_at(as_node(self), place);
  if (!s) return nullptr;
  if (s->kind == SavedKind::Plain) return Py_NewRef(s->value);
  bool tensor = s->value && s->kind != SavedKind::Packed && is_tensor(s->value);
  return tensor ? for_core().tensor_meta(as_tensor(s->value)) : Py_NewRef(Py_None);
}

// The parameter that each edge belongs to.
static PyObject* n_edge_names(PyObject* self, PyObject*) {
  Node* n = as_node(self);
  Ref list(PyList_New(0));
  TapeInfo* info = list && n->kind == NodeKind::Op ? tape_info(reinterpret_cast<Overload*>(n->op)) : nullptr;
  for (size_t k = 0; info && k < info->tensor_params.size(); k++) {
    uint32_t count = n->has_lists ? n->list_lengths()[k] : 1;
    for (uint32_t i = 0; i < count; i++) {
      Ref name(kept_name(n, info->tensor_params[k]));
      if (PyList_Append(list.p, name.p)) return nullptr;
    }
  }
  return list.release();
}

// (place, pack, unpack): a saved tensor goes through hooks after all.
static PyObject* n_pack_again(PyObject* self, PyObject* args) {
  PyObject *place, *pack, *unpack;
  if (!PyArg_ParseTuple(args, "OOO", &place, &pack, &unpack)) return nullptr;
  Node* n = as_node(self);
  Saved* s = saved_at(n, place);
  if (!s) return nullptr;
  if (s->kind == SavedKind::Packed)
    return PyErr_SetString(PyExc_RuntimeError, "register_hooks: this saved tensor has hooks already"), nullptr;
  bool own = s->kind == SavedKind::Output || s->kind == SavedKind::OutputCopy;
  if (!own && s->kind != SavedKind::Input)
    return PyErr_SetString(PyExc_RuntimeError, "register_hooks: nothing is saved here, or it has been freed"), nullptr;
  Ref pair(PyTuple_Pack(2, pack, unpack)), held = Ref::borrow(s->value);
  if (!pair) return nullptr;
  bool& active = thread_state().saved_hooks;
  bool before = active;
  saved_hooks().push_back(pair.p);
  active = true;
  Saved fresh;
  bool ok = own ? saved_pack_output(n, &fresh, as_tensor(held.p), s->output_nr) : saved_pack_input(&fresh, held.p);
  saved_hooks().pop_back();
  active = before;
  if (!ok) return nullptr;
  if (s->kind != SavedKind::Output) Py_DECREF(s->value);
  *s = fresh;
  Py_RETURN_NONE;
}

// Steps of PyTorch's that this node takes at once, as nodes to look at: (owner, name, edges, info) -> node
static PyObject* py_face(PyObject*, PyObject* args) {
  PyObject *owner, *name, *edges, *info;
  if (!PyArg_ParseTuple(args, "OUO!O", &owner, &name, &PyTuple_Type, &edges, &info)) return nullptr;
  Ref weak(PyWeakref_NewRef(owner, nullptr));
  Node* n = weak ? node_new(NodeKind::Face, weak.p, static_cast<uint32_t>(PyTuple_GET_SIZE(edges)), 1, 1, 0) : nullptr;
  Ref holder(as_object(n));
  if (!n) return nullptr;
  n->saved()[0].value = Py_NewRef(info);
  n->saved()[0].kind = SavedKind::Plain;
  for (uint32_t i = 0; i < n->num_edges; i++) {
    PyObject* next;
    uint32_t nr;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(edges, i), "OI", &next, &nr)) return nullptr;
    if (next != Py_None) n->edges()[i] = {as_node(Py_NewRef(next)), nr};
  }
  PyTypeObject* type = type_named(name, false);
  if (!type) return nullptr;
  wear(n, type);
  n->sequence = as_node(owner)->sequence;
  return holder.release();
}

static PyObject* ask_about_saved(PyObject* self, PyObject* name) {
  PyObject* ask = PyDict_GetItemString(autograd_helpers(), "saved_attribute");
  if (!ask) return PyErr_Format(PyExc_AttributeError, "%S", name);
  return PyObject_CallFunctionObjArgs(ask, self, name, nullptr);
}

static PyObject* n_dir(PyObject* self, PyObject*) {
  Node* n = as_node(self);
  Ref base(PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__dir__", "O", self));
  Ref list(base ? PySequence_List(base.p) : nullptr);
  if (!list || (n->kind != NodeKind::Op && n->kind != NodeKind::Face)) return list.release();
  Ref more(ask_about_saved(self, Py_None));
  return more ? PySequence_Concat(list.p, more.p) : nullptr;
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
  if (!text || (n->kind != NodeKind::Op && n->kind != NodeKind::Face)) return nullptr;
  if (strncmp(text, "_saved_", 7) && strncmp(text, "_raw_saved_", 11)) return nullptr;
  PyErr_Clear();
  return dress_node(n) ? ask_about_saved(self, name) : nullptr;
}

static PyObject* node_repr(PyObject* self) {
  if (!dress_node(as_node(self))) return nullptr;
  return PyUnicode_FromFormat("<%s object at %p>", Py_TYPE(self)->tp_name, self);
}

// What a node makes of gradients, in the order of its edges, or of the next functions that are `shown`.
static PyObject* applied(Node* n, PyObject* args, PyObject* shown) {
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
  Ref all(PyTuple_New(n->num_edges));
  for (uint32_t i = 0; i < n->num_edges; i++) {
    if (all) PyTuple_SET_ITEM(all.p, i, out[i] ? out[i] : Py_NewRef(Py_None));
    else Py_XDECREF(out[i]);
  }
  if (all && shown) {     // in the order of the next functions
    Ref chosen(PyTuple_New(PyTuple_GET_SIZE(shown)));
    for (Py_ssize_t i = 0; chosen && i < PyTuple_GET_SIZE(shown); i++) {
      long place = PyLong_AsLong(PyTuple_GET_ITEM(shown, i));
      PyTuple_SET_ITEM(chosen.p, i, Py_NewRef(place < 0 ? Py_None : PyTuple_GET_ITEM(all.p, place)));
    }
    all = std::move(chosen);
  }
  return all && PyTuple_GET_SIZE(all.p) == 1 ? Py_NewRef(PyTuple_GET_ITEM(all.p, 0)) : all.release();
}

// _apply(*gradients): for those who run the tape themselves, edge by edge (`_edges`).
static PyObject* n_apply(PyObject* self, PyObject* args) {
  Node* n = as_node(self);
  if (PyTuple_GET_SIZE(args) != n->num_outputs || n->kind == NodeKind::Face)
    return PyErr_Format(PyExc_TypeError, "expected %u gradients of a node that runs", n->num_outputs), nullptr;
  return applied(n, args, nullptr);
}

static PyObject* node_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  Node* n = as_node(self);
  if (kwargs && PyDict_GET_SIZE(kwargs))
    return PyErr_SetString(PyExc_TypeError, "a node takes gradients, no keywords"), nullptr;
  if (PyTuple_GET_SIZE(args) != n->num_outputs)
    return PyErr_Format(PyExc_TypeError, "expected %u gradients, got %zd", n->num_outputs, PyTuple_GET_SIZE(args)),
           nullptr;
  if (!dress_node(n)) return nullptr;
  PyObject* shown = n->extra ? n->extra->shown : nullptr;
  bool several = shown && PyTuple_GET_SIZE(shown) && !PyLong_Check(PyTuple_GET_ITEM(shown, 0));
  if (n->kind == NodeKind::Face || several)
    return PyErr_SetString(PyExc_RuntimeError,
                           "this node is one of several steps that run as one here, so it cannot be called by itself: "
                           "take gradients with autograd.grad"),
           nullptr;
  return applied(n, args, shown);
}

static PyMethodDef node_methods[] = {
    {"name", guarded<n_name>, METH_NOARGS, "what this node undoes, as AddBackward0"},
    {"_sequence_nr", guarded<n_sequence>, METH_NOARGS, "order of recording"},
    {"_get_hooks", guarded<n_get_hooks>, METH_O, "_get_hooks(\"pre\" or \"post\") -> dict or None"},
    {"_set_hooks", guarded<n_set_hooks>, METH_VARARGS, "_set_hooks(which, dict)"},
    {"_rule", guarded<n_rule>, METH_NOARGS, "(op,), (None,) for a leaf's, None where hooks or other code take part"},
    {"_release", guarded<n_release>, METH_NOARGS, "free saved values, as backward() does behind a node"},
    {"_kept_names", guarded<n_kept_names>, METH_NOARGS, "names of saved values, by our parameters"},
    {"_kept", guarded<n_kept>, METH_O, "one saved value, by place"},
    {"_kept_meta", guarded<n_kept_meta>, METH_O, "one saved value, by place; of tensors their sizes and types"},
    {"_edge_names", guarded<n_edge_names>, METH_NOARGS, "the parameter that each edge belongs to"},
    {"_pack_again", guarded<n_pack_again>, METH_VARARGS, "(place, pack, unpack): hooks for one saved tensor"},
    {"_apply", guarded<n_apply>, METH_VARARGS, "the gradients that go along `_edges`, whatever steps are shown"},
    {"_kept_values", guarded<n_kept_values>, METH_NOARGS, "everything this node saved, in order"},
    {"__dir__", guarded<n_dir>, METH_NOARGS, nullptr},
    {}};
static PyGetSetDef node_getset[] = {
    {"next_functions", n_next_functions, nullptr, "((node, output_nr), ...) that gradients go to", nullptr},
    {"_edges", n_edges, nullptr, "((node, output_nr), ...) as the engine has them", nullptr},
    {"_made", n_made, nullptr, "the call of several ops whose result this is, or None", nullptr},
    {"_overload", n_overload, nullptr, "the op that recorded it, or None", nullptr},
    {"_steps", n_steps, nullptr, "how many nodes the op recorded whose last this is; 0: not counted", nullptr},
    {"_shown", n_shown, nullptr, "next functions that are not the edges, or None", nullptr},
    {"_step", n_step, nullptr, "of a step that another node takes: (weak reference to that node, info)", nullptr},
    {"metadata", n_metadata, nullptr, "a dict to keep things in", nullptr},
    {"variable", n_variable, nullptr, "AccumulateGrad: the leaf", nullptr},
    {"_context", n_context, nullptr, "a custom Function's context, or None", nullptr},
    {"_released", n_released, nullptr, "saved values were freed", nullptr},
    {"_input_metadata", n_input_metadata, nullptr, "shape, dtype and device of each gradient it receives", nullptr},
    {}};

static PyMethodDef node_functions[] = {
    {"_face", guarded<py_face>, METH_VARARGS, "(owner, name, edges, info): a node to look at"},
    {}};

int init_node_face(PyObject* module) {
  node_types = PyDict_New();
  if (!node_types) return -1;
  for (PyTypeObject* type : {NodeType, FunctionNodeType})
    if (add_attributes(type, node_methods, node_getset)) return -1;
  for_core().node_name = dressed_name;
  for_core().node_repr = node_repr;
  for_core().node_getattro = node_getattro;
  for_core().node_call = node_call;
  return PyModule_AddFunctions(module, node_functions);
}

}  // namespace rl

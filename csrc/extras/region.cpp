// A compiled function: its two graphs, what is kept between them, and the node that joins them on the tape. In Python
// (an autograd.Function) this took longer than a small network takes to run. Everything holds the lock.
#include "region.h"
#include "core.h"
#include "profile.h"

#include "boundary.h"
#include "plan.h"

#include <structmember.h>

namespace rl {
namespace {

// One compiled graph: a plan and what it is called with, or a function of the list of inputs.
struct Graph {
  PyObject* function = nullptr;          // null where `plan` is there
  PlanObject* plan = nullptr;
  PlanObject* preparation = nullptr;     // makes what depends on static inputs alone
  PyObject* constants = nullptr;         // tuple: inputs of the plan behind those of the graph
  PyObject* kept = nullptr;              // tuple: what the preparation made, the last inputs of the plan
  PyObject* others = nullptr;            // tuple: results of the graph that no plan makes
  std::vector<int> used, statics, taken; // inputs of the graph that the plan reads; which of them are static; results
                                         // of the preparation that are kept
  std::vector<int> order;                // of each result of the graph, its place among the plan's; -1 - k: the k-th
                                         // of `others`. Empty: as the plan has them
  std::vector<PyObject*> seen;           // the static inputs that were prepared, strong
  std::vector<PyObject*> memory;         // and their memory, which `t.data = other` exchanges; strong
  std::vector<uint32_t> versions;
  bool exists() const { return function || plan; }
};

enum class Place : uint8_t { Input, Result, Extra };
struct Kept {
  Place place;
  int index;
};

struct Region {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  Graph forward, backward;
  PyObject* make_backward;               // callable() -> what `read_graph` reads; asked when it is first needed
  PyObject* refuse;                      // callable(gradients, results, node): results whose history refuses to go on
  std::vector<bool>* differentiable;     // of each result
  std::vector<Kept>* saved;
  std::vector<int>* gradients;           // which input each result of the backward belongs to
};
PyTypeObject* RegionType;

bool read_ints(PyObject* tuple, std::vector<int>* out) {
  if (!PyTuple_Check(tuple)) return PyErr_SetString(PyExc_TypeError, "Region: expected a tuple of ints"), false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++)
    out->push_back(static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(tuple, i))));
  return !PyErr_Occurred();
}

// Where each result comes from: ints, and (value,) for what no plan makes.
bool read_order(PyObject* given, Graph* g) {
  Ref others(PyList_New(0));
  if (!others) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); i++) {
    PyObject* item = PyTuple_GET_ITEM(given, i);
    if (!PyTuple_Check(item)) {
      g->order.push_back(static_cast<int>(PyLong_AsLong(item)));
      if (PyErr_Occurred()) return false;
      if (g->order.back() < 0) return PyErr_SetString(PyExc_ValueError, "Region: no such result"), false;
      continue;
    }
    if (PyTuple_GET_SIZE(item) != 1) return PyErr_SetString(PyExc_ValueError, "Region: expected one value"), false;
    if (PyList_Append(others.p, PyTuple_GET_ITEM(item, 0)) < 0) return false;
    g->order.push_back(-static_cast<int>(PyList_GET_SIZE(others.p)));
  }
  g->others = PyList_AsTuple(others.p);
  return g->others != nullptr;
}

// A callable, or (plan, used, constants, preparation or None, statics, taken, order).
bool read_graph(PyObject* given, Graph* g) {
  if (!PyTuple_Check(given)) {
    if (!PyCallable_Check(given)) return PyErr_SetString(PyExc_TypeError, "Region: a graph is no callable"), false;
    g->function = Py_NewRef(given);
    return true;
  }
  PyObject *plan, *used, *constants, *preparation, *statics, *taken, *order;
  if (!PyArg_ParseTuple(given, "O!OO!OOOO!", PlanType, &plan, &used, &PyTuple_Type, &constants, &preparation, &statics,
                        &taken, &PyTuple_Type, &order))
    return false;
  if (!read_order(order, g)) return false;
  if (!read_ints(used, &g->used) || !read_ints(statics, &g->statics) || !read_ints(taken, &g->taken)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); i++)
    if (!is_tensor(PyTuple_GET_ITEM(constants, i)))
      return PyErr_SetString(PyExc_TypeError, "Region: constants must be tensors"), false;
  g->plan = reinterpret_cast<PlanObject*>(Py_NewRef(plan));
  g->constants = Py_NewRef(constants);
  if (preparation != Py_None) {
    if (Py_TYPE(preparation) != PlanType) return PyErr_SetString(PyExc_TypeError, "Region: expected a Plan"), false;
    g->preparation = reinterpret_cast<PlanObject*>(Py_NewRef(preparation));
  }
  return true;
}

void clear(Graph& g) {
  Py_CLEAR(g.function);
  Py_CLEAR(g.plan);
  Py_CLEAR(g.preparation);
  Py_CLEAR(g.constants);
  Py_CLEAR(g.others);
  Py_CLEAR(g.kept);
  for (auto* list : {&g.seen, &g.memory}) {
    for (PyObject* o : *list) Py_DECREF(o);
    list->clear();
  }
}

// What depends on static inputs is made again where one of them is another tensor, or was written to.
bool prepare(Graph& g, Tensor** inputs, int count) {
  bool same = g.kept && g.seen.size() == g.statics.size();
  for (size_t i = 0; same && i < g.statics.size(); i++) {
    Tensor* t = inputs[g.statics[i]];
    same = g.seen[i] == as_object(t) && g.versions[i] == t->current_version() &&
           as_tensor(g.memory[i])->data() == t->data() && !(t->flags & kInference);   // those count no writes
  }
  if (same) return true;
  Ref result(plan_run(g.preparation, inputs, count));
  if (!result) return false;
  PyObject* kept = PyTuple_New(static_cast<Py_ssize_t>(g.taken.size()));
  if (!kept) return false;
  for (size_t i = 0; i < g.taken.size(); i++)
    PyTuple_SET_ITEM(kept, i, Py_NewRef(PyTuple_GET_ITEM(result.p, g.taken[i])));
  Ref made_kept(kept);
  std::vector<PyObject*> seen, memory;
  std::vector<uint32_t> versions;
  for (int k : g.statics) {
    PyObject* alias = call_role(Role::Detach, as_object(inputs[k]));
    if (!alias) {
      for (auto* list : {&seen, &memory})
        for (PyObject* o : *list) Py_DECREF(o);
      return false;
    }
    memory.push_back(alias);
    seen.push_back(Py_NewRef(as_object(inputs[k])));
    versions.push_back(inputs[k]->current_version());
  }
  g.versions.swap(versions);
  g.seen.swap(seen);
  g.memory.swap(memory);
  Py_XSETREF(g.kept, made_kept.release());
  for (auto* list : {&seen, &memory})
    for (PyObject* o : *list) Py_DECREF(o);
  return true;
}

// The plan's results as the graph returns them.
PyObject* ordered(const Graph& g, PyObject* results) {
  if (!results || g.order.empty()) return results;
  Ref own(results), list(PyList_New(static_cast<Py_ssize_t>(g.order.size())));
  if (!list) return nullptr;
  for (size_t i = 0; i < g.order.size(); i++) {
    PyObject* from = g.order[i] < 0 ? g.others : own.p;
    Py_ssize_t at = g.order[i] < 0 ? -1 - g.order[i] : g.order[i];
    if (at >= PyTuple_GET_SIZE(from))
      return PyErr_SetString(PyExc_RuntimeError, "a compiled graph returned fewer results than it has"), nullptr;
    PyList_SET_ITEM(list.p, i, Py_NewRef(PyTuple_GET_ITEM(from, at)));
  }
  return list.release();
}

// The results, as a list or tuple. Inputs are borrowed.
PyObject* run(Graph& g, PyObject* const* inputs, Py_ssize_t count) {
  GradModeGuard no_grad(false);
  if (g.function) {
    Ref list(PyList_New(count));
    if (!list) return nullptr;
    for (Py_ssize_t i = 0; i < count; i++) PyList_SET_ITEM(list.p, i, Py_NewRef(inputs[i]));
    Ref result(PyObject_CallOneArg(g.function, list.p));
    if (!result) return nullptr;
    return PySequence_Fast(result.p, "a compiled graph must return a list of results");
  }
  ShownInputs shown;
  std::vector<Tensor*>& given = shown.tensors;
  given.reserve(g.used.size() + 8);
  for (int k : g.used) {
    if (k >= count || !is_tensor(inputs[k]))
      return PyErr_Format(PyExc_TypeError, "a compiled graph expected a tensor as input %d", k), nullptr;
    if (!shown.add(inputs[k])) return nullptr;
  }
  auto add = [&](PyObject* tuple) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) given.push_back(as_tensor(PyTuple_GET_ITEM(tuple, i)));
  };
  add(g.constants);
  Ref kept;                              // another thread may prepare anew meanwhile
  if (g.preparation) {
    if (!prepare(g, given.data(), static_cast<int>(given.size()))) return nullptr;
    kept = Ref(Py_NewRef(g.kept));
    add(kept.p);
  }
  return ordered(g, plan_run(g.plan, given.data(), static_cast<int>(given.size())));
}

Region* as_region(PyObject* o) { return reinterpret_cast<Region*>(o); }

struct Values {
  std::vector<PyObject*> items;
  ~Values() {
    for (PyObject* o : items) Py_XDECREF(o);
  }
  bool add(PyObject* owned) { return owned && (items.push_back(owned), true); }
};

// --- recording ------------------------------------------------------------------------------------------------------

// Node::sizes() of a region: sizes of the results that get a gradient, then their strides (-1: not dense).
bool attach_results(Region* r, Node* n, PyObject** results, uint32_t dims) {
  uint32_t next = 0;
  for (uint32_t i = 0; i < n->num_outputs; i++) {
    if (!(*r->differentiable)[i]) continue;
    Tensor* t = as_tensor(results[i]);
    int64_t* strides = n->sizes() + dims + next;
    node_set_output(n, i, t, &next);
    if (t->flags & kDenseNonOverlapping) memcpy(strides, t->strides(), sizeof(int64_t) * t->ndim);
    else if (t->ndim) strides[0] = -1;
    tape_give_history(t, n, i);
  }
  return true;
}

bool save(Region* r, Node* n, PyObject* const* inputs, PyObject** result) {
  Saved* s = n->saved();
  for (const Kept& kept : *r->saved) {
    bool ok;
    if (kept.place == Place::Result && (*r->differentiable)[kept.index])
      ok = saved_pack_output(n, s++, as_tensor(result[kept.index]), static_cast<uint32_t>(kept.index));
    else
      ok = saved_pack_input(s++, kept.place == Place::Input    ? inputs[kept.index]
                                 : kept.place == Place::Result ? result[kept.index]
                                                               : result[n->num_outputs + kept.index]);
    if (!ok) return false;
  }
  return true;
}

bool record(Region* r, PyObject* const* inputs, Py_ssize_t count, std::vector<Edge>& edges, PyObject** result) {
  auto results = static_cast<uint32_t>(r->differentiable->size());
  uint32_t dims = 0;
  for (uint32_t i = 0; i < results; i++) {
    if (!(*r->differentiable)[i]) continue;
    if (!is_tensor(result[i])) return PyErr_SetString(PyExc_TypeError, "a result with a gradient is no tensor"), false;
    dims += as_tensor(result[i])->ndim;
  }
  Node* n = node_new(NodeKind::Region, reinterpret_cast<PyObject*>(r), static_cast<uint32_t>(count),
                     static_cast<uint32_t>(r->saved->size()), results, 2 * dims);
  if (!n) return false;
  Ref holder(as_object(n));
  for (Py_ssize_t i = 0; i < count; i++) std::swap(n->edges()[i], edges[i]);
  return attach_results(r, n, result, dims) && save(r, n, inputs, result);
}

struct EdgeList {
  std::vector<Edge> edges;
  ~EdgeList() {
    for (Edge& e : edges) Py_XDECREF(e.node);
  }
};

// A result that is an input, or has a history from elsewhere, is another tensor to the caller.
bool detach_results(Region* r, PyObject* results, PyObject* const* inputs, Py_ssize_t count) {
  PyObject** items = PySequence_Fast_ITEMS(results);
  for (size_t i = 0; i < r->differentiable->size(); i++) {
    if (!is_tensor(items[i])) continue;
    bool is_own = !as_tensor(items[i])->requires_grad() && !as_tensor(items[i])->view;
    for (Py_ssize_t k = 0; is_own && k < count; k++) is_own = items[i] != inputs[k];
    if (is_own) continue;
    PyObject* bare = call_role(Role::Detach, items[i]);
    if (!bare) return false;
    Py_SETREF(items[i], bare);
  }
  return true;
}

// region(inputs) -> [results that are the function's, ...] where inputs is a list
PyObject* region_call(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  if (PyVectorcall_NARGS(nargsf) != 1 || !PyList_Check(args[0]) || (kwnames && PyTuple_GET_SIZE(kwnames)))
    return PyErr_SetString(PyExc_TypeError, "Region: expected one list of inputs, and nothing else"), nullptr;
  Region* r = as_region(self);
  Values hold;   // a graph that is a function may empty its list
  Py_ssize_t count = PyList_GET_SIZE(args[0]);
  hold.items.reserve(static_cast<size_t>(count));
  for (Py_ssize_t i = 0; i < count; i++) hold.add(Py_NewRef(PyList_GET_ITEM(args[0], i)));
  const std::vector<PyObject*>& inputs = hold.items;
  bool records = false;
  if (thread_state().grad_enabled)
    for (bool wants : *r->differentiable) records |= wants;
  EdgeList before;   // taken first: graphs may write to inputs
  if (records) {
    records = false;
    for (PyObject* o : inputs) {
      Edge e;
      if (is_tensor(o) && is_differentiable(as_tensor(o)->dtype)) e = tape_edge(as_tensor(o));
      if (!e.node && PyErr_Occurred()) return nullptr;
      records |= e.node != nullptr;
      before.edges.push_back(e);
    }
  }
  Ref result;
  {
    Recorded recorded;
    if (is_recording() && profile_line())
      record_stretch(&recorded, profile_text("rushlight::compiled graph"), EventKind::Inner, -1, 1);
    result = Ref(run(r->forward, inputs.data(), count));
  }
  if (!result) return nullptr;
  auto results = static_cast<Py_ssize_t>(r->differentiable->size());
  if (PySequence_Fast_GET_SIZE(result.p) < results)
    return PyErr_SetString(PyExc_RuntimeError, "a compiled graph returned fewer results than it has"), nullptr;
  if (records) {
    if (!detach_results(r, result.p, inputs.data(), count)) return nullptr;
    if (!record(r, inputs.data(), count, before.edges, PySequence_Fast_ITEMS(result.p))) return nullptr;
  }
  Ref own(PyList_New(results));
  for (Py_ssize_t i = 0; own && i < results; i++)
    PyList_SET_ITEM(own.p, i, Py_NewRef(PySequence_Fast_GET_ITEM(result.p, i)));
  return own.release();
}

// --- the backward ---------------------------------------------------------------------------------------------------

// A gradient in memory as the backward was traced for: as the result is, where that is dense.
PyObject* laid_out(Node* n, uint32_t i, PyObject* grad, uint32_t dims) {
  const OutputMeta& m = n->outputs()[i];
  const int64_t* strides = n->sizes() + dims + m.first_size;
  bool is_dense = !m.ndim || strides[0] >= 0;
  if (!grad) {   // one that did not arrive counts as zeros
    Ref t(as_object(tensor_empty(n->sizes() + m.first_size, is_dense ? strides : nullptr, m.ndim, m.dtype, m.device)));
    return t ? call_role(Role::Clear, t.p) : nullptr;
  }
  Tensor* g = as_tensor(grad);
  bool fits = is_dense || g->contiguous();
  for (int d = 0; fits && is_dense && d < m.ndim; d++) fits = g->sizes()[d] == 1 || g->strides()[d] == strides[d];
  if (fits) return Py_NewRef(grad);
  Ref copy(as_object(tensor_empty(g->sizes(), is_dense ? strides : nullptr, g->ndim, g->dtype, g->device)));
  return copy ? call_role(Role::CopyInto, copy.p, grad) : nullptr;
}

PyObject* gradients_of(Region* r, Node* n, PyObject** grads) {
  GradModeGuard no_grad(false);
  uint32_t dims = n->num_sizes / 2;
  Values values;
  for (uint32_t i = 0; i < n->num_saved; i++)
    if (!values.add(saved_unpack(n, n->saved() + i, "a tensor of the compiled function"))) return nullptr;
  for (uint32_t i = 0; i < n->num_outputs; i++)
    if ((*r->differentiable)[i] && !values.add(laid_out(n, i, grads[i], dims))) return nullptr;
  if (!r->backward.exists()) {
    Ref result(PyObject_CallNoArgs(r->make_backward));
    if (!result || (!r->backward.exists() && !read_graph(result.p, &r->backward))) return nullptr;
  }
  return run(r->backward, values.items.data(), static_cast<Py_ssize_t>(values.items.size()));
}

// For gradients of gradients, which are refused when they are wanted.
PyObject* refusing(Region* r, Node* n, PyObject** grads, PyObject* all_gradients) {
  Ref given(PyTuple_New(n->num_outputs));
  for (uint32_t i = 0; given && i < n->num_outputs; i++)
    PyTuple_SET_ITEM(given.p, i, Py_NewRef(grads[i] ? grads[i] : Py_None));
  Ref all(given ? PySequence_Tuple(all_gradients) : nullptr);
  Ref result(all ? PyObject_CallFunctionObjArgs(r->refuse, given.p, all.p, as_object(n), nullptr) : nullptr);
  return result ? PySequence_Fast(result.p, "expected a tuple of gradients") : nullptr;
}

}  // namespace

static bool region_apply(Node* n, PyObject** grads, PyObject** out) {
  Region* r = as_region(n->op);
  Ref result(gradients_of(r, n, grads));
  if (result && thread_state().grad_enabled) result = Ref(refusing(r, n, grads, result.p));
  if (!result) return false;
  if (PySequence_Fast_GET_SIZE(result.p) < static_cast<Py_ssize_t>(r->gradients->size()))
    return PyErr_SetString(PyExc_RuntimeError, "a compiled backward returned fewer gradients than it has"), false;
  for (size_t k = 0; k < r->gradients->size(); k++) {
    PyObject* g = PySequence_Fast_GET_ITEM(result.p, static_cast<Py_ssize_t>(k));
    auto at = static_cast<uint32_t>((*r->gradients)[k]);
    if (is_tensor(g) && at < n->num_edges && n->edges()[at].node) Py_XSETREF(out[at], Py_NewRef(g));
  }
  return true;
}

namespace {

// --- module ---------------------------------------------------------------------------------------------------------

bool read_saved(PyObject* list, std::vector<Kept>* saved) {
  Ref fast(PySequence_Fast(list, "Region: saved must be a sequence"));
  if (!fast) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.p); i++) {
    int place, index;
    if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(fast.p, i), "ii", &place, &index)) return false;
    if (place < 0 || place > 2 || index < 0) return PyErr_SetString(PyExc_ValueError, "Region: no such place"), false;
    saved->push_back({static_cast<Place>(place), index});
  }
  return true;
}

// Region(forward, differentiable, saved, gradients, make_backward, refuse)
PyObject* region_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *forward, *differentiable, *saved, *gradients, *make_backward, *refuse;
  if (!PyArg_ParseTuple(args, "OO!OOOO:Region", &forward, &PyTuple_Type, &differentiable, &saved, &gradients,
                        &make_backward, &refuse))
    return nullptr;
  Ref result(type->tp_alloc(type, 0));
  if (!result) return nullptr;
  Region* r = as_region(result.p);
  r->vectorcall = guarded<region_call>;
  new (&r->forward) Graph;
  new (&r->backward) Graph;
  r->differentiable = new std::vector<bool>;
  r->saved = new std::vector<Kept>;
  r->gradients = new std::vector<int>;
  r->make_backward = Py_NewRef(make_backward);
  r->refuse = Py_NewRef(refuse);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(differentiable); i++)
    r->differentiable->push_back(PyTuple_GET_ITEM(differentiable, i) == Py_True);
  if (!read_graph(forward, &r->forward) || !read_saved(saved, r->saved) || !read_ints(gradients, r->gradients))
    return nullptr;
  return result.release();
}

int region_traverse(PyObject* self, visitproc visit, void* arg) {
  Region* r = as_region(self);
  Py_VISIT(Py_TYPE(self));
  for (Graph* g : {&r->forward, &r->backward}) {
    Py_VISIT(g->function);
    Py_VISIT(g->plan);
    Py_VISIT(g->constants);
    Py_VISIT(g->others);
  }
  Py_VISIT(r->make_backward);
  Py_VISIT(r->refuse);
  return 0;
}

int region_clear(PyObject* self) {
  Region* r = as_region(self);
  clear(r->forward);
  clear(r->backward);
  Py_CLEAR(r->make_backward);
  Py_CLEAR(r->refuse);
  return 0;
}

void region_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  region_clear(self);
  Region* r = as_region(self);
  r->forward.~Graph();
  r->backward.~Graph();
  delete r->differentiable;
  delete r->saved;
  delete r->gradients;
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* region_true(PyObject*, void*) { Py_RETURN_TRUE; }

PyGetSetDef getset[] = {{"_boxed_call", region_true, nullptr, "its arguments are one list", nullptr}, {}};
PyMemberDef members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(Region, vectorcall), READONLY, nullptr}, {}};
PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(guarded<region_new>)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(region_dealloc)},
                       {Py_tp_traverse, reinterpret_cast<void*>(region_traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(region_clear)},
                       {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                       {Py_tp_getset, getset},
                       {Py_tp_members, members},
                       {Py_tp_doc, const_cast<char*>("A compiled forward and backward: one node on the tape.")},
                       {0, nullptr}};
PyType_Spec spec = {"rushlight._C.Region", sizeof(Region), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};

}  // namespace

int init_region(PyObject* module) {
  RegionType = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  for_core().region_apply = region_apply;
  return RegionType ? PyModule_AddObjectRef(module, "Region", as_object(RegionType)) : -1;
}

}  // namespace rl

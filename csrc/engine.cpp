// The backward engine: counts what each node waits for, then runs nodes as they become ready, latest recorded
// first. Iterative, so depth costs no stack; a task's bookkeeping lives in the nodes themselves unless another live
// task already uses them. Enters: roots with gradients. Leaves: .grad of leaves, or captured gradients.
// Everything holds the interpreter lock; other threads may run while a kernel or a hook releases it.
#include <algorithm>
#include <thread>
#include <unordered_map>

#include "profile.h"
#include "tape.h"
#include "unlocked.h"

namespace rl {

namespace {

enum Mark : uint32_t { kSeen = 1, kNeeded = 2, kCapture = 4, kSearched = 8, kRoot = 16 };

std::vector<uint64_t> live_tasks;
uint64_t next_task = 1;
thread_local int depth = 0;
constexpr int kMaxDepth = 40;   // beyond this, a nested backward continues on a thread of its own with a fresh stack

bool is_live(uint64_t id) { return id && std::find(live_tasks.begin(), live_tasks.end(), id) != live_tasks.end(); }

struct Ready {
  uint64_t sequence;
  Node* node;
  bool operator<(const Ready& o) const { return sequence < o.sequence; }
};

struct Task {
  uint64_t id = next_task++;
  BackwardCall& call;
  std::vector<PyObject*>* captured;
  std::vector<Node*> visited;
  std::vector<Ready> ready;
  std::unordered_map<Node*, Scratch> foreign;   // nodes another live task is using
  std::vector<PyObject*> at_end;                // what to call when all has run
  bool failed = true;

  Task(BackwardCall& c, std::vector<PyObject*>* out) : call(c), captured(out) { live_tasks.push_back(id); }
  ~Task() {
    if (failed)
      for (Node* n : visited) drop_buffer(n, find(n));
    for (PyObject* function : at_end) Py_DECREF(function);
    live_tasks.erase(std::find(live_tasks.begin(), live_tasks.end(), id));
  }

  bool reaches(Node* n) {
    const Scratch* s = nullptr;
    if (n->task == id) s = &n->scratch;
    else if (auto it = foreign.find(n); it != foreign.end()) s = &it->second;
    return s && (s->marks & kSeen) && (!call.has_inputs || (s->marks & (kNeeded | kCapture)));
  }
  Scratch& find(Node* n) { return n->task == id ? n->scratch : foreign[n]; }
  // As find, for a node that may not have been met yet.
  Scratch& claim(Node* n) {
    if (n->task == id) return n->scratch;
    if (n->task && is_live(n->task)) return foreign[n];
    n->task = id;
    n->scratch = Scratch{};
    return n->scratch;
  }
  static void drop_buffer(Node* n, Scratch& s) {
    PyObject** buffer = s.buffer;
    s.buffer = nullptr;
    if (!buffer) return;
    if (n->num_outputs == 1) {
      Py_DECREF(reinterpret_cast<PyObject*>(buffer));
      return;
    }
    for (uint32_t i = 0; i < n->num_outputs; i++) Py_XDECREF(buffer[i]);
    PyMem_Free(buffer);
  }

  bool finish();
  void count();
  void search();
  bool seed();
  bool loop();
  bool run(Node* n);
  bool deliver(Node* n, PyObject** out);
  void capture(Node* n, PyObject** grads);
};

// --- preparation ---------------------------------------------------------------------------------------------------

// How many edges lead to each node reachable from the roots.
void Task::count() {
  for (Edge& root : call.roots) {
    Scratch& s = claim(root.node);
    if (!(s.marks & kSeen)) visited.push_back(root.node);
    s.marks |= kSeen | kRoot;
  }
  for (size_t i = 0; i < visited.size(); i++) {
    Edge* edges = visited[i]->edges();
    for (uint32_t k = 0; k < visited[i]->num_edges; k++) {
      Node* next = edges[k].node;
      if (!next) continue;
      Scratch& s = claim(next);
      s.pending++;
      if (s.marks & kSeen) continue;
      s.marks |= kSeen;
      visited.push_back(next);
    }
  }
}

// Marks the nodes from which some wanted input can be reached; nothing else will run.
void Task::search() {
  for (Edge& input : call.inputs)
    if (input.node) {
      Scratch& s = claim(input.node);
      if (s.marks & kSeen) s.marks |= call.accumulate ? kNeeded : kCapture;
    }
  std::vector<std::pair<Node*, uint32_t>> stack;
  for (Edge& root : call.roots) {
    if (find(root.node).marks & kSearched) continue;
    find(root.node).marks |= kSearched;
    stack.emplace_back(root.node, 0);
    while (!stack.empty()) {
      auto& [n, at] = stack.back();
      if (at == n->num_edges) {
        bool reaches = find(n).marks & (kNeeded | kCapture);
        stack.pop_back();
        if (reaches && !stack.empty()) find(stack.back().first).marks |= kNeeded;
        continue;
      }
      Node* next = n->edges()[at++].node;
      if (!next) continue;
      Scratch& s = find(next);
      if (!(s.marks & kSearched)) {
        s.marks |= kSearched;
        stack.emplace_back(next, 0);
      } else if (s.marks & (kNeeded | kCapture)) {
        find(n).marks |= kNeeded;
      }
    }
  }
}

// --- gradients on their way ----------------------------------------------------------------------------------------

struct Expected {
  const int64_t* sizes;
  int ndim;
  DType dtype;
  Device device;
};

bool expected_of(Node* n, uint32_t nr, Expected* e) {
  if (n->kind == NodeKind::Accumulate) {
    Tensor* leaf = as_tensor(n->op);
    *e = {leaf->sizes(), leaf->ndim, leaf->dtype, leaf->device};
    return true;
  }
  OutputMeta& m = n->outputs()[nr];
  *e = {n->sizes() + m.first_size, m.ndim, m.dtype, m.device};
  return m.defined;
}

// Whether a tensor stands for others with sizes that only elements can tell: those the core holds mean nothing.
bool has_hidden_sizes(Tensor* t) {
  if (!t->keys || Py_TYPE(t) == TensorType) return false;
  Ref answer(PyObject_GetAttrString(as_object(t), "_has_hidden_sizes"));
  if (!answer) PyErr_Clear();
  return answer && PyObject_IsTrue(answer.p) == 1;
}

bool reducible(Tensor* g, const Expected& e) {
  if (g->ndim < e.ndim) return false;
  for (int i = 0; i < e.ndim; i++) {
    int64_t want = e.sizes[e.ndim - 1 - i], got = g->sizes()[g->ndim - 1 - i];
    if (want != got && want != 1) return has_hidden_sizes(g);
  }
  return true;
}

bool same_shape(const Tensor* g, const Expected& e) {
  if (g->ndim != e.ndim) return false;
  for (int i = 0; i < e.ndim; i++)
    if (g->sizes()[i] != e.sizes[i]) return false;
  return true;
}

bool invalid_gradient(Node* from, uint32_t index, const char* format, PyObject* got, PyObject* want) {
  Ref name(from ? node_name(from) : PyUnicode_FromString("backward"));
  Ref detail(name && got && want ? PyUnicode_FromFormat(format, got, want) : nullptr);
  if (detail)
    PyErr_Format(PyExc_RuntimeError, "Function %U returned an invalid gradient at index %u - %U", name.p, index,
                 detail.p);
  return false;
}

// The sum over what broadcasting repeated, in the shape of the tensor that was broadcast.
PyObject* sum_broadcast(PyObject* grad, const Expected& e) {
  Tensor* g = as_tensor(grad);
  int64_t dims[kMaxDims];
  int count = 0, lead = g->ndim - e.ndim;
  for (int i = 0; i < lead; i++) dims[count++] = i;
  for (int i = 0; i < e.ndim; i++)
    if (e.sizes[i] == 1 && g->sizes()[lead + i] != 1) dims[count++] = lead + i;
  if (!count) return Py_NewRef(grad);
  if (!e.ndim && is_seen(g)) return call_role(Role::Reduce, grad);
  Ref over(int_tuple(dims, count));
  if (!over) return nullptr;
  if (!lead || (count == lead && !is_seen(g))) return call_role(Role::Reduce, grad, over.p, lead ? Py_False : Py_True);
  Ref summed(call_role(Role::Reduce, grad, over.p, Py_True)), shape(int_tuple(e.sizes, e.ndim));
  if (!summed || !shape) return nullptr;
  if (!has_hidden_sizes(g)) return call_role(Role::Reshape, summed.p, shape.p);
  for (int i = 0; i < lead; i++) dims[i] = i;      // one by one: the sizes of the others are not known here
  Ref leading(int_tuple(dims, lead));
  return leading ? call_role(Role::Reduce, summed.p, leading.p, Py_False) : nullptr;
}

// Makes a gradient fit the tensor it belongs to: sums what was broadcast, casts, or explains why it cannot fit.
bool fit(Node* from, uint32_t index, Node* to, uint32_t nr, Ref* grad) {
  Expected e;
  Tensor* g = as_tensor(grad->p);
  if (!expected_of(to, nr, &e)) return true;
  if (g->dtype == e.dtype && g->device == e.device && same_shape(g, e)) return true;
  if (!same_shape(g, e)) {
    if (!reducible(g, e)) {
      Ref want(int_tuple(e.sizes, e.ndim)), got(int_tuple(g->sizes(), g->ndim));
      return invalid_gradient(from, index, "got shape %R but expected shape compatible with %R", got.p, want.p);
    }
    *grad = Ref(sum_broadcast(grad->p, e));
    if (!*grad) return false;
    g = as_tensor(grad->p);
  }
  if (g->device != e.device) {
    Ref want(device_object(e.device)), got(device_object(g->device));
    if (g->ndim) return invalid_gradient(from, index, "got device %S but expected device %S", got.p, want.p);
    *grad = Ref(call_role(Role::Convert, grad->p, want.p));
    if (!*grad) return false;
    g = as_tensor(grad->p);
  }
  if (g->dtype != e.dtype) {
    if (is_complex(g->dtype) && !is_complex(e.dtype)) {
      *grad = Ref(call_role(Role::RealPart, grad->p));
      if (!*grad) return false;
      g = as_tensor(grad->p);
    }
    if (g->dtype != e.dtype) *grad = Ref(call_role(Role::Convert, grad->p, dtype_object(e.dtype)));
  }
  return static_cast<bool>(*grad);
}

// Nobody but the buffer can see this tensor, so a sum may overwrite it.
bool is_private(PyObject* o) {
  Tensor* t = as_tensor(o);
  return Py_REFCNT(o) == 1 && Py_TYPE(o) == TensorType && !t->keys && !t->grad_fn &&
         (t->flags & kDenseNonOverlapping) && t->storage && t->storage->refs.load(std::memory_order_relaxed) == 1;
}

bool add_into(PyObject** slot, PyObject* grad) {
  if (!*slot) {
    *slot = grad;
    return true;
  }
  Ref owned(grad);
  if (!tls.grad_enabled && !is_seen(as_tensor(*slot)) && is_private(*slot)) {
    Ref done(call_role(Role::AddInto, *slot, grad));
    return static_cast<bool>(done);
  }
  PyObject* sum = call_role(Role::Sum, *slot, grad);
  if (!sum) return false;
  Py_SETREF(*slot, sum);
  return true;
}

bool buffer_add(Node* n, Scratch& s, uint32_t nr, PyObject* grad) {
  if (n->num_outputs == 1) return add_into(reinterpret_cast<PyObject**>(&s.buffer), grad);
  if (!s.buffer) {
    s.buffer = static_cast<PyObject**>(PyMem_Calloc(n->num_outputs ? n->num_outputs : 1, sizeof(PyObject*)));
    if (!s.buffer) {
      Py_DECREF(grad);
      return PyErr_NoMemory(), false;
    }
  }
  return add_into(s.buffer + nr, grad);
}

// --- hooks ---------------------------------------------------------------------------------------------------------

bool replace_gradient(PyObject** slot, PyObject* returned) {
  Ref owned(returned);
  if (!returned) return false;
  if (returned == Py_None) return true;
  if (!is_tensor(returned))
    return PyErr_Format(PyExc_TypeError, "expected Tensor, but hook returned '%s'", Py_TYPE(returned)->tp_name), false;
  Tensor* old = as_tensor(*slot);
  Expected e{old->sizes(), old->ndim, old->dtype, old->device};
  if (!same_shape(as_tensor(returned), e))
    return PyErr_SetString(PyExc_RuntimeError,
                           "hook has changed the size of value: it must return a gradient of the same shape"),
           false;
  if (as_tensor(returned)->dtype != old->dtype)
    return PyErr_SetString(PyExc_RuntimeError,
                           "hook has changed the type of value: it must return a gradient of the same dtype"),
           false;
  Py_SETREF(*slot, owned.release());
  return true;
}

bool run_tensor_dict(PyObject* dict, PyObject** slot) {
  if (!dict || !PyDict_GET_SIZE(dict)) return true;
  Ref hooks(PyDict_Values(dict));
  for (Py_ssize_t i = 0; hooks && i < PyList_GET_SIZE(hooks.p); i++)
    if (*slot && !replace_gradient(slot, PyObject_CallOneArg(PyList_GET_ITEM(hooks.p, i), *slot))) return false;
  return static_cast<bool>(hooks);
}

bool keep_gradient(PyObject* tensor, PyObject* grad) {
  Tensor* t = as_tensor(tensor);
  Ref old = Ref::borrow(t->grad);   // others may drop it while the sum is made
  PyObject* kept = old ? call_role(Role::Sum, old.p, grad) : call_role(Role::Copy, grad);
  if (!kept) return false;
  Py_XSETREF(t->grad, kept);
  tensor_track(t);
  return true;
}

bool run_tensor_hooks(Node* n, PyObject** grads) {
  if (n->kind == NodeKind::Accumulate) {
    AutogradExtra* x = as_tensor(n->op)->extra;
    if (x && !run_tensor_dict(x->hooks, grads)) return false;
  }
  if (!n->extra) return true;
  Ref hooks(n->extra->tensor_hooks ? PySequence_List(n->extra->tensor_hooks) : nullptr);
  for (Py_ssize_t i = 0; hooks && i < PyList_GET_SIZE(hooks.p); i++) {
    PyObject* pair = PyList_GET_ITEM(hooks.p, i);
    if (!run_tensor_dict(PyTuple_GET_ITEM(pair, 1), grads + PyLong_AsLong(PyTuple_GET_ITEM(pair, 0)))) return false;
  }
  Ref retained(n->extra->retained ? PySequence_List(n->extra->retained) : nullptr);
  for (Py_ssize_t i = 0; retained && i < PyList_GET_SIZE(retained.p); i++) {
    PyObject* pair = PyList_GET_ITEM(retained.p, i);
    Ref tensor(PyObject_CallNoArgs(PyTuple_GET_ITEM(pair, 1)));
    if (!tensor) return false;
    PyObject* grad = grads[PyLong_AsLong(PyTuple_GET_ITEM(pair, 0))];
    if (grad && tensor.p != Py_None && !keep_gradient(tensor.p, grad)) return false;
  }
  return !PyErr_Occurred();
}

PyObject* as_tuple(PyObject** grads, uint32_t n) {
  PyObject* tuple = PyTuple_New(n);
  for (uint32_t i = 0; tuple && i < n; i++) PyTuple_SET_ITEM(tuple, i, Py_NewRef(grads[i] ? grads[i] : Py_None));
  return tuple;
}

// A hook on a node answers None, or a tuple that replaces all gradients.
bool replace_all(PyObject** grads, uint32_t n, PyObject* returned) {
  Ref owned(returned);
  if (!returned) return false;
  if (returned == Py_None) return true;
  Ref fast(is_tensor(returned) ? PyTuple_Pack(1, returned) : PySequence_Tuple(returned));
  if (!fast)
    return PyErr_Format(PyExc_TypeError, "hook must return None or a tuple of tensors, got %s",
                        Py_TYPE(returned)->tp_name),
           false;
  if (PyTuple_GET_SIZE(fast.p) != static_cast<Py_ssize_t>(n))
    return PyErr_Format(PyExc_RuntimeError,
                        "hook: expected it to return as many values as it was given, got %zd, expected %u",
                        PyTuple_GET_SIZE(fast.p), n),
           false;
  for (uint32_t i = 0; i < n; i++) {
    PyObject* item = PyTuple_GET_ITEM(fast.p, i);
    if (item != Py_None && !is_tensor(item))
      return PyErr_Format(PyExc_TypeError, "expected Tensor or None, but hook returned '%s'", Py_TYPE(item)->tp_name),
             false;
    Py_XSETREF(grads[i], item == Py_None ? nullptr : Py_NewRef(item));
  }
  return true;
}

bool run_pre_hooks(Node* n, PyObject** grads) {
  if (!n->extra || !n->extra->pre_hooks) return true;
  Ref hooks(PyDict_Values(n->extra->pre_hooks));
  for (Py_ssize_t i = 0; hooks && i < PyList_GET_SIZE(hooks.p); i++) {
    Ref tuple(as_tuple(grads, n->num_outputs));
    if (!tuple || !replace_all(grads, n->num_outputs, PyObject_CallOneArg(PyList_GET_ITEM(hooks.p, i), tuple.p)))
      return false;
  }
  return static_cast<bool>(hooks);
}

// Gradients in the order of the next functions that Python sees, where those are edges in another order; and back.
struct ShownOrder {
  PyObject** out;
  std::vector<long> places;
  std::vector<PyObject*> chosen;   // of `out`, strong
  ShownOrder(Node* n, PyObject** all) : out(all) {
    PyObject* shown = n->extra->shown;
    Py_ssize_t count = shown ? PyTuple_GET_SIZE(shown) : 0;
    bool order = count && PyLong_Check(PyTuple_GET_ITEM(shown, 0));
    for (Py_ssize_t i = 0; i < (order ? count : n->num_edges); i++)
      places.push_back(order ? PyLong_AsLong(PyTuple_GET_ITEM(shown, i)) : static_cast<long>(i));
    for (long place : places) chosen.push_back(place < 0 ? nullptr : Py_XNewRef(all[place]));
  }
  ~ShownOrder() {
    for (size_t i = 0; i < places.size(); i++)
      if (places[i] < 0) Py_XDECREF(chosen[i]);
      else Py_XSETREF(out[places[i]], chosen[i]);
  }
};

bool run_post_hooks(Node* n, PyObject** grads, PyObject** out) {
  if (!n->extra || !n->extra->hooks) return true;
  Ref hooks(PyDict_Values(n->extra->hooks)), received(as_tuple(grads, n->num_outputs));
  ShownOrder order(n, out);
  auto count = static_cast<uint32_t>(order.chosen.size());
  for (Py_ssize_t i = 0; hooks && received && i < PyList_GET_SIZE(hooks.p); i++) {
    Ref result(as_tuple(order.chosen.data(), count));
    if (!result || !replace_all(order.chosen.data(), count,
                              PyObject_CallFunctionObjArgs(PyList_GET_ITEM(hooks.p, i), result.p, received.p, nullptr)))
      return false;
  }
  return hooks && received;
}

// --- running -------------------------------------------------------------------------------------------------------

bool call_anomaly(const char* which, Node* n, PyObject* extra) {
  PyObject* f = PyDict_GetItemString(autograd_callbacks, which);
  if (!f) return true;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  Ref done(PyObject_CallFunctionObjArgs(f, as_object(n), extra, nullptr));
  if (!type) return static_cast<bool>(done);
  if (!done) PyErr_WriteUnraisable(f);
  PyErr_Restore(type, value, trace);
  return false;
}

bool Task::seed() {
  for (size_t i = 0; i < call.roots.size(); i++) {
    Edge& root = call.roots[i];
    if (!call.gradients[i]) continue;
    Ref grad = Ref::borrow(call.gradients[i]);
    if (!fit(nullptr, static_cast<uint32_t>(i), root.node, root.input_nr, &grad)) return false;
    if (!buffer_add(root.node, find(root.node), root.input_nr, grad.release())) return false;
  }
  for (Edge& root : call.roots) {
    Scratch& s = find(root.node);
    if (s.pending || !(s.marks & kRoot)) continue;
    s.marks &= ~kRoot;   // a root given twice is queued once
    ready.push_back({root.node->sequence, root.node});
  }
  std::make_heap(ready.begin(), ready.end());
  return true;
}

void Task::capture(Node* n, PyObject** grads) {
  for (size_t i = 0; i < call.inputs.size(); i++)
    if (call.inputs[i].node == n) {
      PyObject* g = grads[call.inputs[i].input_nr];
      Py_XSETREF((*captured)[i], Py_XNewRef(g));
    }
}

bool Task::deliver(Node* n, PyObject** out) {
  Edge* edges = n->edges();
  for (uint32_t i = 0; i < n->num_edges; i++) {
    Node* next = edges[i].node;
    if (!next) continue;
    Scratch& s = find(next);
    if (call.has_inputs && !(s.marks & (kNeeded | kCapture))) continue;
    if (out[i]) {
      Ref grad(out[i]);
      out[i] = nullptr;
      if (!fit(n, i, next, edges[i].input_nr, &grad) || !buffer_add(next, s, edges[i].input_nr, grad.release()))
        return false;
    }
    if (--s.pending == 0) {
      ready.push_back({next->sequence, next});
      std::push_heap(ready.begin(), ready.end());
    }
  }
  return true;
}

// Gradients of one node while it runs: what arrived, and what it returned. Dropped on every way out.
struct Running {
  Node* node;
  PyObject* single = nullptr;
  PyObject** grads;
  PyObject* few[8] = {};
  std::vector<PyObject*> many;
  PyObject** out = few;
  Running(Node* n, Scratch& s) : node(n) {
    if (n->num_outputs == 1) {
      single = reinterpret_cast<PyObject*>(s.buffer);
      grads = &single;
    } else {
      grads = s.buffer ? s.buffer
                       : static_cast<PyObject**>(PyMem_Calloc(n->num_outputs ? n->num_outputs : 1, sizeof(PyObject*)));
    }
    s.buffer = nullptr;
    if (n->num_edges > 8) {
      many.resize(n->num_edges, nullptr);
      out = many.data();
    }
  }
  ~Running() {
    for (uint32_t i = 0; i < node->num_edges; i++) Py_XDECREF(out[i]);
    if (node->num_outputs == 1) {
      Py_XDECREF(single);
      return;
    }
    for (uint32_t i = 0; i < node->num_outputs; i++) Py_XDECREF(grads[i]);
    PyMem_Free(grads);
  }
};

bool apply_recorded(Node* n, PyObject** grads, PyObject** out, uint64_t needs) {
  Recorded recorded;
  if (is_recording()) record_node(&recorded, n, grads);
  return node_apply(n, grads, out, needs);
}

bool Task::run(Node* n) {
  Scratch& s = find(n);
  Recorded evaluation;
  if (is_recording()) record_node(&evaluation, n, nullptr);
  Running r(n, s);
  uint64_t needs = ~uint64_t{0};
  // As PyTorch: a captured gradient is the one before its tensor's hooks when the node itself runs too, else after.
  bool captures = s.marks & kCapture, runs = !call.has_inputs || (s.marks & kNeeded);
  if (captures && runs) capture(n, r.grads);
  if ((n->extra || n->kind == NodeKind::Accumulate) && !run_tensor_hooks(n, r.grads)) return false;
  if (captures && !runs) capture(n, r.grads);
  if (!runs) return true;
  if (call.has_inputs) {
    for (uint32_t i = 0; i < n->num_edges && i < 64; i++)
      if (Node* next = n->edges()[i].node)
        if (!(find(next).marks & (kNeeded | kCapture))) needs &= ~(uint64_t{1} << i);
  }
  if (!run_pre_hooks(n, r.grads)) return false;
  if (anomaly_enabled && !call_anomaly("begin_node", n, nullptr)) return false;
  bool applied = apply_recorded(n, r.grads, r.out, needs);
  if (anomaly_enabled) {
    if (!applied) call_anomaly("explain_failure", n, nullptr);
    if (!call_anomaly("end_node", n, nullptr)) applied = false;
  }
  if (!applied) return false;
  if (anomaly_enabled && n->num_edges) {
    Ref result(as_tuple(r.out, n->num_edges));
    if (!result || !call_anomaly("check_gradients", n, result.p)) return false;
  }
  if (!call.keep_graph) node_release(n);
  if (!run_post_hooks(n, r.grads, r.out)) return false;
  return deliver(n, r.out);
}

bool Task::loop() {
  for (uint32_t ran = 1; !ready.empty(); ran++) {
    if (ran % 256 == 0 && PyErr_CheckSignals()) return false;
    std::pop_heap(ready.begin(), ready.end());
    Node* n = ready.back().node;
    ready.pop_back();
    if (!run(n)) return false;
  }
  return true;
}

// Calls what was queued meanwhile, in order; such a call may queue another.
bool Task::finish() {
  for (size_t i = 0; i < at_end.size(); i++) {
    PyObject* result = PyObject_CallNoArgs(at_end[i]);
    if (!result) return false;
    Py_DECREF(result);
  }
  return true;
}

thread_local Task* current = nullptr;

bool run_here(BackwardCall& call, std::vector<PyObject*>* captured) {
  GradModeGuard mode(call.create_graph);
  Task task(call, captured);
  struct Nest {
    Task* outer = current;
    explicit Nest(Task* t) {
      current = t;
      depth++;
    }
    ~Nest() {
      current = outer;
      depth--;
    }
  } nest(&task);
  task.count();
  if (call.has_inputs) task.search();
  task.failed = !(task.seed() && task.loop() && task.finish());
  return !task.failed;
}

}  // namespace

uint64_t engine_current_task() { return current ? current->id : 0; }
bool engine_call_at_end(PyObject* function) {
  if (!current) return false;
  current->at_end.push_back(Py_NewRef(function));
  return true;
}
bool engine_has_inputs() { return current && current->call.has_inputs; }
bool engine_will_run(Node* n) { return current && current->reaches(n); }

static void use_saved_hooks(const std::vector<PyObject*>& stack) {
  for (PyObject* o : stack) Py_INCREF(o);
  for (PyObject* o : saved_hooks()) Py_DECREF(o);
  saved_hooks() = stack;
}

bool engine_run(BackwardCall& call, std::vector<PyObject*>* captured) {
  for (Edge& root : call.roots) Py_INCREF(root.node);
  struct Roots {
    BackwardCall& call;
    ~Roots() {
      for (Edge& root : call.roots) Py_DECREF(root.node);
    }
  } roots{call};
  if (depth < kMaxDepth) return run_here(call, captured);
  ThreadState inherited = tls;
  bool is_recorded = is_recording() && profile_line();
  std::vector<PyObject*> hooks = saved_hooks();
  bool ok = false;
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  std::thread worker([&] {
    PyGILState_STATE state = PyGILState_Ensure();
    tls = inherited;
    if (is_recorded) profile_join();
    use_saved_hooks(hooks);
    ok = run_here(call, captured);
    if (!ok) PyErr_Fetch(&type, &value, &trace);
    use_saved_hooks({});
    PyGILState_Release(state);
  });
  {
    Unlocked others_run;
    worker.join();
  }
  if (!ok) PyErr_Restore(type, value, trace);
  return ok;
}

}  // namespace rl

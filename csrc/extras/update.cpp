// Multi-tensor updates: what an optimizer's step does after Python has written its rule as one scalar expression. A
// call walks the parameters, finds each gradient and state tensor afresh (nothing is remembered about tensors, so
// replaced parameters, loaded state and new gradients need no notice), and runs one kernel over all their elements,
// split over the threads by elements. What the kernel cannot take (a subclass, another device, an unusual layout,
// missing state) is left, and its places in the list returned. C++ because the walk costs 0.1 µs per parameter here and
// 3 µs in Python.
#include "update.h"
#include "boundary.h"

#include <algorithm>
#include <vector>

#include "core.h"
#include "plan.h"
#include "pool.h"
#include "profile.h"
#include "unlocked.h"

namespace rl {

namespace {

constexpr int kMaxTensors = 8;           // parameter, gradient and state
constexpr int kMaxScalars = 4;           // state of one element: step counts and the like
constexpr int kMaxNumbers = 24;          // what the kernel reads beside tensors
constexpr int64_t kAlign = 64;  // where tensors begin among all elements, so that chunks cut each at multiples of it:
                                // vectors stay whole, and what an element gets does not depend on other tensors
constexpr int64_t kAlone = 16384;        // fewer elements than this run without waking the pool

struct Combination {                     // a kernel for one combination of element types
  uint64_t types;
  Kernel kernel;                         // null: there is none
  bool wide;                             // reads its numbers as float64
};

struct UpdateObject {
  PyObject_HEAD
  PyObject* tensor_keys;                 // names of the state tensors shaped like the parameter
  PyObject* scalar_keys;                 // names of the state tensors of one element
  PyObject* numbers;                     // callable(hyper, *scalars) -> new scalars, then what the kernel reads
  PyObject* compile;                     // callable(dtypes) -> (kernel, wide), or None
  std::vector<Combination>* kernels;
};

struct Numbers {                         // shared by parameters whose scalars are equal
  double scalars[kMaxScalars], next[kMaxScalars];
  double wide[kMaxNumbers];
  float narrow[kMaxNumbers];
};

struct Entry {
  Tensor* tensors[kMaxTensors];          // owned: others may drop gradients and state while the lock is not held
  Tensor* scalars[kMaxScalars];
  Kernel kernel;
  int64_t begin, count;                  // place among all elements; complex numbers count twice
  int block;                             // which Numbers
  bool wide;
};

struct Walk {
  std::vector<Entry> entries;
  std::vector<Numbers> blocks;
  std::vector<Py_ssize_t> left;
  int64_t total = 0;
  int num_tensors, num_scalars;
  Walk(int tensors, int scalars) : num_tensors(tensors), num_scalars(scalars) {}
  Walk(const Walk&) = delete;
  ~Walk() {
    for (Entry& e : entries) drop(e);
  }
  void hold(Entry& e) const {
    for (int k = 0; k < num_tensors; k++) Py_INCREF(as_object(e.tensors[k]));
    for (int k = 0; k < num_scalars; k++) Py_INCREF(as_object(e.scalars[k]));
  }
  void drop(Entry& e) const {
    for (int k = 0; k < num_tensors; k++) Py_DECREF(as_object(e.tensors[k]));
    for (int k = 0; k < num_scalars; k++) Py_DECREF(as_object(e.scalars[k]));
  }
};

bool is_plain(Tensor* t) {
  return !(t->keys & ~thread_state().excluded) && t->device.type == kCPU && (t->storage->data || !t->numel) &&
         !(t->flags & kInference);
}

bool same_layout(Tensor* a, Tensor* b) {
  if (a->ndim != b->ndim || a->numel != b->numel) return false;
  if (a->contiguous() && b->contiguous()) return !memcmp(a->sizes(), b->sizes(), sizeof(int64_t) * a->ndim);
  return !memcmp(a->geometry, b->geometry, sizeof(int64_t) * 2 * a->ndim);
}

double read_scalar(Tensor* t) {
  if (t->dtype == DType::F64) return *reinterpret_cast<double*>(t->data());
  return *reinterpret_cast<float*>(t->data());
}

void write_scalar(Tensor* t, double value) {
  if (t->dtype == DType::F64) *reinterpret_cast<double*>(t->data()) = value;
  else *reinterpret_cast<float*>(t->data()) = static_cast<float>(value);
  tensor_bump(t);
}

// The kernel for the entry's types: -1 on error, 0 if there is none.
int find_kernel(UpdateObject* self, Entry& e, int num) {
  uint64_t types = 0;
  bool complex = is_complex(e.tensors[0]->dtype);
  for (int k = 0; k < num; k++) {
    DType d = e.tensors[k]->dtype;
    if (is_complex(d) != complex || d == DType::C32) return 0;
    types |= (static_cast<uint64_t>(complex ? part_of(d) : d) + 1) << (8 * k);
  }
  for (const Combination& c : *self->kernels)
    if (c.types == types) return e.kernel = c.kernel, e.wide = c.wide, c.kernel != nullptr;
  Ref codes(PyTuple_New(num));
  if (!codes) return -1;
  for (int k = 0; k < num; k++)
    PyTuple_SET_ITEM(codes.p, k, Py_NewRef(dtype_object(static_cast<DType>((types >> 8 * k & 255) - 1))));
  Ref result(PyObject_CallOneArg(self->compile, codes.p));
  if (!result) return -1;
  Combination c{types, nullptr, false};
  if (result.p != Py_None) {
    long long address;
    int wide;
    if (!PyArg_ParseTuple(result.p, "Lp", &address, &wide)) return -1;
    c.kernel = reinterpret_cast<Kernel>(static_cast<intptr_t>(address));
    c.wide = wide;
  }
  self->kernels->push_back(c);
  return e.kernel = c.kernel, e.wide = c.wide, c.kernel != nullptr;
}

// Which block holds the numbers for these scalars, asking Python for a new one if there is none. -1 on error.
int find_block(UpdateObject* self, Walk& walk, PyObject* hyper, const double* scalars, int num) {
  for (int b = static_cast<int>(walk.blocks.size()) - 1, looked = 0; b >= 0 && looked < 16; b--, looked++)
    if (!memcmp(walk.blocks[b].scalars, scalars, sizeof(double) * num)) return b;
  PyObject* args[kMaxScalars + 1] = {hyper};
  Ref owned[kMaxScalars];
  for (int k = 0; k < num; k++) {
    owned[k] = Ref(PyFloat_FromDouble(scalars[k]));
    if (!(args[k + 1] = owned[k].p)) return -1;
  }
  Ref result(PyObject_Vectorcall(self->numbers, args, num + 1, nullptr));
  if (!result) return -1;
  if (!PyTuple_Check(result.p) || PyTuple_GET_SIZE(result.p) < num || PyTuple_GET_SIZE(result.p) > num + kMaxNumbers)
    return PyErr_Format(PyExc_RuntimeError, "update: its numbers must be a tuple of %d to %d, got %R", num,
                        num + kMaxNumbers, result.p),
           -1;
  walk.blocks.emplace_back();
  Numbers& block = walk.blocks.back();
  memcpy(block.scalars, scalars, sizeof(double) * num);
  for (int k = 0; k < static_cast<int>(PyTuple_GET_SIZE(result.p)); k++) {
    double value = PyFloat_AsDouble(PyTuple_GET_ITEM(result.p, k));
    if (value == -1 && PyErr_Occurred()) return -1;
    if (k < num) block.next[k] = value;
    else block.wide[k - num] = value, block.narrow[k - num] = static_cast<float>(value);
  }
  return static_cast<int>(walk.blocks.size()) - 1;
}

// The state of a parameter as an entry's tensors: -1 on error, 0 if some of it is missing or unusual.
int find_state(UpdateObject* self, PyObject* state, Tensor* param, Entry& e) {
  Py_ssize_t tensors = PyTuple_GET_SIZE(self->tensor_keys), scalars = PyTuple_GET_SIZE(self->scalar_keys);
  if (!tensors && !scalars) return 1;
  PyObject* own = PyDict_GetItemWithError(state, as_object(param));
  if (!own) return PyErr_Occurred() ? -1 : 0;
  if (!PyDict_Check(own)) return 0;
  for (Py_ssize_t k = 0; k < tensors + scalars; k++) {
    PyObject* key =
        k < tensors ? PyTuple_GET_ITEM(self->tensor_keys, k) : PyTuple_GET_ITEM(self->scalar_keys, k - tensors);
    PyObject* item = PyDict_GetItemWithError(own, key);
    if (!item) return PyErr_Occurred() ? -1 : 0;
    if (!is_tensor(item) || !is_plain(as_tensor(item))) return 0;
    Tensor* t = as_tensor(item);
    if (k < tensors) {
      if (!same_layout(param, t)) return 0;
      e.tensors[2 + k] = t;
    } else {
      if (t->numel != 1 || (t->dtype != DType::F32 && t->dtype != DType::F64)) return 0;
      e.scalars[k - tensors] = t;
    }
  }
  return 1;
}

// One parameter into the walk: -1 on error, 0 if it is left.
int visit(UpdateObject* self, Walk& walk, PyObject* param, PyObject* grad, PyObject* state, PyObject* hyper) {
  if (!is_tensor(param) || !is_tensor(grad)) return 0;
  Tensor *p = as_tensor(param), *g = as_tensor(grad);
  if (!is_plain(p) || !is_plain(g) || !(p->flags & kDenseNonOverlapping) || !same_layout(p, g)) return 0;
  Entry e;
  e.tensors[0] = p;
  e.tensors[1] = g;
  int found = find_state(self, state, p, e);
  if (found <= 0) return found;
  walk.hold(e);
  double scalars[kMaxScalars];
  for (int k = 0; k < walk.num_scalars; k++) scalars[k] = read_scalar(e.scalars[k]);
  found = find_kernel(self, e, walk.num_tensors);
  if (found > 0 && (e.block = find_block(self, walk, hyper, scalars, walk.num_scalars)) < 0) found = -1;
  if (found <= 0) return walk.drop(e), found;
  e.begin = walk.total;
  e.count = p->numel * (is_complex(p->dtype) ? 2 : 1);
  walk.total += (e.count + kAlign - 1) / kAlign * kAlign;
  walk.entries.push_back(e);
  return 1;
}

void run_chunk(void* context, int64_t begin, int64_t end) {
  auto* walk = static_cast<const Walk*>(context);
  const std::vector<Entry>& entries = walk->entries;
  auto at = std::upper_bound(entries.begin(), entries.end(), begin,
                             [](int64_t where, const Entry& e) { return where < e.begin; }) -
            1;
  for (; at != entries.end() && at->begin < end; ++at) {
    int64_t first = std::max<int64_t>(begin - at->begin, 0), last = std::min(end - at->begin, at->count);
    if (first >= last) continue;
    char* ptrs[kMaxTensors + 1];
    for (int k = 0; k < walk->num_tensors; k++) ptrs[k] = at->tensors[k]->data();
    const Numbers& block = walk->blocks[at->block];
    ptrs[walk->num_tensors] = const_cast<char*>(
        reinterpret_cast<const char*>(at->wide ? static_cast<const void*>(block.wide) : block.narrow));
    at->kernel(ptrs, nullptr, first, last);
  }
}

void launch(Walk& walk) {
  Recorded recorded;
  if (is_recording() && walk.total)
    record_kernel(&recorded, reinterpret_cast<const void*>(walk.entries.front().kernel));
  if (walk.total <= kAlone) {
    if (walk.total) run_chunk(&walk, 0, walk.total);
    return;
  }
  Unlocked others_run;
  parallel_for(walk.total, kGrain, run_chunk, &walk);
}

PyObject* left_over(const std::vector<Py_ssize_t>& left) {
  if (left.empty()) Py_RETURN_NONE;
  Ref list(PyList_New(static_cast<Py_ssize_t>(left.size())));
  for (size_t k = 0; list && k < left.size(); k++) {
    PyObject* place = PyLong_FromSsize_t(left[k]);
    if (!place) return nullptr;
    PyList_SET_ITEM(list.p, static_cast<Py_ssize_t>(k), place);
  }
  return list.release();
}

// update(params, grads, state, hyper): lists or tuples; grads None means each parameter's own.
PyObject* update_call(PyObject* object, PyObject* args, PyObject*) {
  auto* self = reinterpret_cast<UpdateObject*>(object);
  PyObject *given, *given_grads, *state, *hyper;
  if (!PyArg_ParseTuple(args, "OOOO", &given, &given_grads, &state, &hyper)) return nullptr;
  Ref params(PySequence_Fast(given, "update: params must be a list of tensors"));
  Ref grads(given_grads == Py_None || !params
                ? nullptr
                : PySequence_Fast(given_grads, "update: grads must be None or a list of tensors"));
  if (!params || (given_grads != Py_None && !grads)) return nullptr;
  if (grads && PySequence_Fast_GET_SIZE(grads.p) != PySequence_Fast_GET_SIZE(params.p))
    return PyErr_SetString(PyExc_ValueError, "update: grads must be as many as params"), nullptr;
  // A mode or a transform wants to see every op; autocast has no say in these.
  const ThreadState& thread = thread_state();
  bool leave = (thread.keys & ~thread.excluded & ~static_cast<uint32_t>(kKeyAutocast)) || !PyDict_Check(state);
  Walk walk(2 + static_cast<int>(PyTuple_GET_SIZE(self->tensor_keys)),
            static_cast<int>(PyTuple_GET_SIZE(self->scalar_keys)));
  walk.entries.reserve(static_cast<size_t>(PySequence_Fast_GET_SIZE(params.p)));
  // Sizes are asked again in every turn: the rule's Python may run in between.
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(params.p); i++) {
    PyObject* param = PySequence_Fast_GET_ITEM(params.p, i);
    PyObject* grad = nullptr;
    if (!grads) grad = is_tensor(param) ? as_tensor(param)->grad : nullptr;
    else if (i < PySequence_Fast_GET_SIZE(grads.p)) grad = PySequence_Fast_GET_ITEM(grads.p, i);
    if (!grad || grad == Py_None) continue;
    int done = leave ? 0 : visit(self, walk, param, grad, state, hyper);
    if (done < 0) return nullptr;
    if (!done) walk.left.push_back(i);
  }
  for (Entry& e : walk.entries) {
    for (int k = 0; k < walk.num_scalars; k++) write_scalar(e.scalars[k], walk.blocks[e.block].next[k]);
    for (int k = 0; k < walk.num_tensors; k++)
      if (k != 1) tensor_bump(e.tensors[k]);
  }
  launch(walk);
  return left_over(walk.left);
}

PyObject* update_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *tensor_keys, *scalar_keys, *numbers, *compile;
  if (!PyArg_ParseTuple(args, "O!O!OO", &PyTuple_Type, &tensor_keys, &PyTuple_Type, &scalar_keys, &numbers, &compile))
    return nullptr;
  if (PyTuple_GET_SIZE(tensor_keys) > kMaxTensors - 2 || PyTuple_GET_SIZE(scalar_keys) > kMaxScalars)
    return PyErr_Format(PyExc_ValueError, "MultiTensorUpdate: at most %d state tensors and %d scalars", kMaxTensors - 2,
                        kMaxScalars),
           nullptr;
  auto* self = reinterpret_cast<UpdateObject*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->tensor_keys = Py_NewRef(tensor_keys);
  self->scalar_keys = Py_NewRef(scalar_keys);
  self->numbers = Py_NewRef(numbers);
  self->compile = Py_NewRef(compile);
  self->kernels = new std::vector<Combination>;
  return as_object(self);
}

int update_traverse(PyObject* object, visitproc visit, void* arg) {
  auto* self = reinterpret_cast<UpdateObject*>(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->numbers);
  Py_VISIT(self->compile);
  return 0;
}

int update_clear(PyObject* object) {
  auto* self = reinterpret_cast<UpdateObject*>(object);
  Py_CLEAR(self->numbers);
  Py_CLEAR(self->compile);
  return 0;
}

void update_dealloc(PyObject* object) {
  auto* self = reinterpret_cast<UpdateObject*>(object);
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  update_clear(object);
  Py_CLEAR(self->tensor_keys);
  Py_CLEAR(self->scalar_keys);
  delete self->kernels;
  type->tp_free(object);
  Py_DECREF(type);
}

// Every p.grad = None, as zero_grad does by default.
PyObject* clear_grads(PyObject*, PyObject* given) {
  Ref params(PySequence_Fast(given, "clear_grads: expected a list of tensors"));
  if (!params) return nullptr;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(params.p); i++) {
    PyObject* item = PySequence_Fast_GET_ITEM(params.p, i);
    if (!is_tensor(item))
      return PyErr_Format(PyExc_TypeError, "clear_grads: expected tensors, got %s", Py_TYPE(item)->tp_name), nullptr;
    Py_CLEAR(as_tensor(item)->grad);
  }
  Py_RETURN_NONE;
}

// --- parameters of a plugged-in device -------------------------------------------------------------------------------

// A parameter, its gradient and state as a tuple; its cells, tensors of one element on the host, and their values.
// -1 on error, 0 where something is missing or unusual.
int device_row(PyObject* param, PyObject* state, PyObject* tensor_keys, PyObject* scalar_keys, PyObject** row,
               PyObject* cells, double* values) {
  PyObject* grad = is_tensor(param) ? as_tensor(param)->grad : nullptr;
  if (!grad || !is_tensor(grad)) return 0;
  PyObject* own = PyDict_GetItemWithError(state, param);
  if (!own || !PyDict_Check(own) || !PyDict_GET_SIZE(own)) return PyErr_Occurred() ? -1 : 0;
  Py_ssize_t tensors = PyTuple_GET_SIZE(tensor_keys);
  Ref found(PyTuple_New(2 + tensors));
  if (!found) return -1;
  PyTuple_SET_ITEM(found.p, 0, Py_NewRef(param));
  PyTuple_SET_ITEM(found.p, 1, Py_NewRef(grad));
  for (Py_ssize_t k = 0; k < tensors; k++) {
    PyObject* item = PyDict_GetItemWithError(own, PyTuple_GET_ITEM(tensor_keys, k));
    if (!item || !is_tensor(item)) return PyErr_Occurred() ? -1 : 0;
    PyTuple_SET_ITEM(found.p, 2 + k, Py_NewRef(item));
  }
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(scalar_keys); k++) {
    PyObject* item = PyDict_GetItemWithError(own, PyTuple_GET_ITEM(scalar_keys, k));
    if (!item || !is_tensor(item)) return PyErr_Occurred() ? -1 : 0;
    Tensor* cell = as_tensor(item);
    if (!is_plain(cell) || cell->numel != 1 || (cell->dtype != DType::F32 && cell->dtype != DType::F64)) return 0;
    values[k] = read_scalar(cell);
    if (PyList_Append(cells, item)) return -1;
  }
  *row = found.release();
  return 1;
}

bool same_types(PyObject* row, PyObject* first) {
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(row); k++)
    if (as_tensor(PyTuple_GET_ITEM(row, k))->dtype != as_tensor(PyTuple_GET_ITEM(first, k))->dtype) return false;
  return true;
}

// update_rows(params, state, tensor_keys, scalar_keys): (rows for update_many, cells, the values of each parameter's
// cells) where all parameters have gradients and state and are alike in types and values; None otherwise.
PyObject* update_rows(PyObject*, PyObject* args) {
  PyObject *given, *state, *tensor_keys, *scalar_keys;
  if (!PyArg_ParseTuple(args, "OO!O!O!", &given, &PyDict_Type, &state, &PyTuple_Type, &tensor_keys, &PyTuple_Type,
                        &scalar_keys))
    return nullptr;
  Ref params(PySequence_Fast(given, "update_rows: params must be a list of tensors"));
  Ref rows(PyList_New(0)), cells(PyList_New(0));
  Py_ssize_t num = PyTuple_GET_SIZE(scalar_keys);
  if (!params || !rows || !cells) return nullptr;
  if (num > kMaxScalars) Py_RETURN_NONE;
  double first[kMaxScalars] = {}, values[kMaxScalars] = {};
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(params.p); i++) {
    PyObject* row = nullptr;
    int found = device_row(PySequence_Fast_GET_ITEM(params.p, i), state, tensor_keys, scalar_keys, &row, cells.p,
                           i ? values : first);
    Ref owned(row);
    if (found < 0 || (found && PyList_Append(rows.p, row))) return nullptr;
    if (!found || (i && memcmp(first, values, sizeof(double) * num)) || !same_types(row, PyList_GET_ITEM(rows.p, 0)))
      Py_RETURN_NONE;
  }
  Ref numbers(PyTuple_New(num));
  for (Py_ssize_t k = 0; numbers && k < num; k++) {
    PyObject* value = PyFloat_FromDouble(first[k]);
    if (!value) return nullptr;
    PyTuple_SET_ITEM(numbers.p, k, value);
  }
  return numbers ? Py_BuildValue("OOO", rows.p, cells.p, numbers.p) : nullptr;
}

// write_cells(cells, values): the values over and over into the cells that update_rows gave.
PyObject* write_cells(PyObject*, PyObject* args) {
  PyObject *cells, *given;
  if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &cells, &PyTuple_Type, &given)) return nullptr;
  Py_ssize_t num = PyTuple_GET_SIZE(given);
  if (num < 1 || num > kMaxScalars)
    return PyErr_Format(PyExc_ValueError, "write_cells: expected 1 to %d values, got %zd", kMaxScalars, num), nullptr;
  double values[kMaxScalars];
  for (Py_ssize_t k = 0; k < num; k++) {
    values[k] = PyFloat_AsDouble(PyTuple_GET_ITEM(given, k));
    if (values[k] == -1 && PyErr_Occurred()) return nullptr;
  }
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(cells); i++) {
    PyObject* cell = PyList_GET_ITEM(cells, i);
    if (!is_tensor(cell) || !is_plain(as_tensor(cell)) || as_tensor(cell)->numel != 1)
      return PyErr_SetString(PyExc_TypeError, "write_cells: expected tensors of one element on the host"), nullptr;
    write_scalar(as_tensor(cell), values[i % num]);
  }
  Py_RETURN_NONE;
}

PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(guarded<update_new>)},
                       {Py_tp_call, reinterpret_cast<void*>(guarded<update_call>)},
                       {Py_tp_traverse, reinterpret_cast<void*>(update_traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(update_clear)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(update_dealloc)},
                       {Py_tp_doc, const_cast<char*>("MultiTensorUpdate(tensor_keys, scalar_keys, numbers, compile): "
                                                     "an update rule the core runs on lists of tensors")},
                       {0, nullptr}};
PyType_Spec spec = {"rushlight._C.MultiTensorUpdate", sizeof(UpdateObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                    slots};

PyMethodDef functions[] = {{"clear_grads", guarded<clear_grads>, METH_O, "drop the gradient of every tensor of a list"},
                           {"update_rows", guarded<update_rows>, METH_VARARGS,
                            "update_rows(params, state, tensor_keys, scalar_keys): (rows for update_many, cells, their "
                            "values) of parameters that are alike, or None"},
                           {"write_cells", guarded<write_cells>, METH_VARARGS,
                            "write_cells(cells, values): new values for the cells of update_rows"},
                           {}};

}  // namespace

int init_update(PyObject* module) {
  Ref type(PyType_FromSpec(&spec));
  if (!type || PyModule_AddObjectRef(module, "MultiTensorUpdate", type.p) < 0) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace rl

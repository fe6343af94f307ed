// Indexing beyond views: index tensors and masks, assignment. Everything holds the interpreter lock.
#include "index.h"

#include "boundary.h"
#include "core.h"
#include "build.h"
#include "faces.h"
#include "profile.h"

namespace rl {

static PyObject* slow_set;      // callable(self, index, value): modes, subclasses, tracers
static PyObject* advanced_get;  // callable(input, indices)
static PyObject* advanced_set;  // callable(input, indices, value): writes in place
static PyObject* assign;        // callable(view, value): broadcasting copy in place
static PyObject* str_fill;

constexpr int64_t kDirectFill = 64;    // up to here, writing elements beats calling an op
constexpr int64_t kDirectScatter = 4096;
constexpr int64_t kDirectMask = 8192;  // up to here, looking through a mask beats calling the kernels that do

namespace {

// The basic part alone of an index that also holds tensors: every tensor or mask replaced by whole slices.
Ref basic_part(PyObject* index) {
  Ref items(is_tuple_like(index) ? PySequence_List(index) : Py_BuildValue("[O]", index));
  Ref whole(items ? PySlice_New(nullptr, nullptr, nullptr) : nullptr);
  Ref result(whole ? PyList_New(0) : nullptr);
  for (Py_ssize_t i = 0; result && i < PyList_GET_SIZE(items.p); i++) {
    PyObject* item = PyList_GET_ITEM(items.p, i);
    PyObject* stand_in = item;
    int copies = 1;
    if (is_tensor(item)) {
      Tensor* t = as_tensor(item);
      bool scalar = t->ndim == 0 && !is_differentiable(t->dtype);
      if (scalar && is_mask(t->dtype)) stand_in = Py_None;
      else if (!scalar) stand_in = whole.p, copies = is_mask(t->dtype) ? t->ndim : 1;
    } else if (PyBool_Check(item)) {
      stand_in = Py_None;
    } else if (PySequence_Check(item) && !is_number(item)) {
      Ref tensor = index_tensor(item, Device{});
      if (!tensor) return Ref();
      stand_in = whole.p, copies = is_mask(as_tensor(tensor.p)->dtype) ? as_tensor(tensor.p)->ndim : 1;
    }
    for (; copies > 0; copies--)
      if (PyList_Append(result.p, stand_in)) return Ref();
  }
  return Ref(result ? PySequence_Tuple(result.p) : nullptr);
}

// What the index tensors apply to: the input itself unless basic indices come with them.
Ref advanced_input(const Parsed& p, Tensor* t, PyObject* index) {
  if (!p.basic) return Ref::borrow(as_object(t));
  Ref part = basic_part(index);
  return part ? index_view(p, t, part.p) : Ref();
}

// --- masks ----------------------------------------------------------------------------------------------------------

// Calls visit(position) for every true element of a mask, in order.
template <class Visit>
void visit_true(const Tensor* mask, const char* at, int dim, int64_t* position, Visit& visit) {
  int64_t n = mask->sizes()[dim], step = mask->strides()[dim];   // one byte per element
  for (int64_t i = 0; i < n; i++, at += step) {
    position[dim] = i;
    if (dim + 1 < mask->ndim) visit_true(mask, at, dim + 1, position, visit);
    else if (*at) visit(position);
  }
}

// A mask over k dims is k index tensors: the positions of its true elements. Here rather than in an op, because how
// many there are decides every shape that follows. Appends them to `list`; false with an exception set.
bool append_positions(PyObject* list, const Tensor* mask) {
  int64_t position[kMaxDims], count = 0;
  if (mask->numel) {
    auto add_one = [&](const int64_t*) { count++; };
    visit_true(mask, mask->data(), 0, position, add_one);
  }
  int64_t* columns[kMaxDims];
  for (int d = 0; d < mask->ndim; d++) {
    Ref column(as_object(tensor_empty(&count, nullptr, 1, DType::I64, Device{})));
    if (!column || PyList_Append(list, column.p)) return false;
    columns[d] = reinterpret_cast<int64_t*>(as_tensor(column.p)->storage->data);
  }
  if (!count) return true;
  int64_t row = 0;
  auto store = [&](const int64_t* at) {
    for (int d = 0; d < mask->ndim; d++) columns[d][row] = at[d];
    row++;
  };
  visit_true(mask, mask->data(), 0, position, store);
  return true;
}

bool mask_fits(const Tensor* mask, const Tensor* input, int dim) {
  for (int d = 0; d < mask->ndim; d++) {
    if (dim + d < input->ndim && mask->sizes()[d] == input->sizes()[dim + d]) continue;
    Ref have(int_tuple(mask->sizes(), mask->ndim)), want(int_tuple(input->sizes(), input->ndim));
    Ref shown(have ? PySequence_List(have.p) : nullptr), other(want ? PySequence_List(want.p) : nullptr);
    if (shown && other)
      PyErr_Format(PyExc_IndexError,
                   "index: the mask of shape %R at index %d does not fit the tensor of shape %R at dimension %d",
                   shown.p, d, other.p, dim + d);
    return false;
  }
  return true;
}

// The index list with small masks replaced by positions, where everything is in host memory; else the list itself,
// whose masks the ops look through with generated kernels (definitions/indexed/masks.py).
Ref without_masks(PyObject* indices, const Tensor* input) {
  bool any = false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(indices); i++) {
    PyObject* item = PyList_GET_ITEM(indices, i);
    if (!is_tensor(item)) continue;
    if (as_tensor(item)->device.type != kCPU || as_tensor(item)->keys) return Ref::borrow(indices);
    if (!is_mask(as_tensor(item)->dtype)) continue;
    if (as_tensor(item)->numel > kDirectMask) return Ref::borrow(indices);
    any = true;
  }
  if (!any || input->device.type != kCPU) return Ref::borrow(indices);
  Ref list(PyList_New(0));
  int dim = 0;
  for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(indices); i++) {
    PyObject* item = PyList_GET_ITEM(indices, i);
    if (!is_tensor(item) || !is_mask(as_tensor(item)->dtype)) {
      if (PyList_Append(list.p, item)) return Ref();
      dim++;
      continue;
    }
    Tensor* mask = as_tensor(item);
    if (!mask_fits(mask, input, dim) || !check_host_data(mask, "index") || !append_positions(list.p, mask))
      return Ref();
    dim += mask->ndim;
  }
  return list;
}

}  // namespace

static PyObject* index_tensors(const Parsed& p, Tensor* t, PyObject* index) {
  if (!advanced_get)
    return PyErr_SetString(PyExc_RuntimeError, "indexing with tensors needs the op library, which is not loaded"),
           nullptr;
  Ref input = advanced_input(p, t, index);
  Ref indices = input ? without_masks(p.indices.p, as_tensor(input.p)) : Ref();
  if (!indices) return nullptr;
  return PyObject_CallFunctionObjArgs(advanced_get, input.p, indices.p, nullptr);
}

// --- assignment -----------------------------------------------------------------------------------------------------

static void fill_geometry(const Parsed& p, char* at, int dim, const char* element, int size) {
  if (dim == p.ndim) {
    memcpy(at, element, size);
    return;
  }
  for (int64_t i = 0; i < p.sizes[dim]; i++) fill_geometry(p, at + i * p.strides[dim] * size, dim + 1, element, size);
}

// A few elements of a tensor outside any graph are written here; false: leave it to fill_.
static bool can_fill_directly(const Parsed& p, Tensor* t) {
  int64_t n = 1;
  for (int i = 0; i < p.ndim; i++) {
    n *= p.sizes[i];
    if (p.strides[i] == 0 && p.sizes[i] > 1) return false;   // fill_ explains why overlapping elements are refused
  }
  if (n > kDirectFill || t->device.type != kCPU || (t->flags & kInference)) return false;
  bool wants = tape_requires_grad(t) || (t->view && t->view->base->requires_grad());
  if (wants && thread_state().grad_enabled) return false;
  return n == 0 || check_host_data(t, "__setitem__");
}

// The bytes of an assigned number. It has to fit as a Scalar argument does, but narrow floats may become infinite, and
// an int beyond 64 bits is refused as data is.
static bool assigned_element(Tensor* t, PyObject* value, char* element) {
  if (PyFloat_CheckExact(value) && (t->dtype == DType::F32 || t->dtype == DType::F64))
    return store_rounded(value, t->dtype, t->dtype, element, Overflow::Fit);
  bool narrow = is_float(t->dtype) && itemsize(t->dtype) < 4;
  int beyond = 0;
  if (PyLong_Check(value)) PyLong_AsLongLongAndOverflow(value, &beyond);
  if (beyond) return PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long"), false;
  if (number_fits(value, narrow ? DType::F32 : t->dtype)) return store_number(value, t->dtype, element, Overflow::Wrap);
  PyErr_Format(PyExc_RuntimeError, "value %R cannot be converted to type %s without overflow", value,
               info(t->dtype).name);
  return false;
}

// The value as a tensor: numbers become 0-d tensors of the destination's dtype. New reference, null with an exception.
static Ref value_tensor(Tensor* t, PyObject* value) {
  if (is_tensor(value)) return Ref::borrow(value);
  if (!is_number(value)) {
    PyErr_Format(PyExc_TypeError, "can't assign a %s to a %U.%sTensor", Py_TYPE(value)->tp_name, shown_module(),
                 info(t->dtype).legacy);
    return Ref();
  }
  alignas(16) char element[16];
  Ref number(assigned_element(t, value, element) ? load_number(element, t->dtype) : nullptr);
  Ref scalar(number ? as_object(tensor_from_data(number.p, &t->dtype, Device{})) : nullptr);
  if (!scalar || t->device.type == kCPU) return scalar;
  Ref target(device_object(t->device));
  return Ref(target ? call_role(Role::Convert, scalar.p, target.p) : nullptr);
}

static int set_number(const Parsed& p, Tensor* t, PyObject* index, PyObject* value) {
  alignas(16) char element[16];
  if (!assigned_element(t, value, element)) return -1;
  if (can_fill_directly(p, t)) {
    Recorded recorded;
    PyObject* shown[] = {as_object(t), value};
    if (is_recording()) record_method(&recorded, "aten::fill_", shown, 2);
    int size = itemsize(t->dtype);
    if (t->storage->data) fill_geometry(p, t->storage->data + p.offset * size, 0, element, size);
    tensor_bump(t);
    return 0;
  }
  if (PyErr_Occurred()) return -1;
  Ref view = index_view(p, t, index);
  if (!view) return -1;
  Ref number(load_number(element, t->dtype));   // as the type holds it: fill_ would refuse what becomes infinite
  return number && Ref(PyObject_CallMethodOneArg(view.p, str_fill, number.p)) ? 0 : -1;
}

// To modes, subclasses and tracers, step by step.
static int assign_slowly(PyObject* self, PyObject* index, PyObject* value) {
  Ref done(PyObject_CallFunctionObjArgs(slow_set, self, index, value, nullptr));
  return done ? 0 : -1;
}

// A refusal before anything was written; objects with __torch_function__ may still take the assignment.
static int refused(PyObject* self, PyObject* index, PyObject* value) {
  if (!slow_set || !(takes_functions(index) || takes_functions(value))) return -1;
  PyErr_Clear();
  return assign_slowly(self, index, value);
}

static int assign_index(PyObject* self, PyObject* index, PyObject* value) {
  if (!value) return PyErr_SetString(PyExc_TypeError, "Tensor does not support deleting items"), -1;
  Tensor* t = as_tensor(self);
  if ((leaves_index_path(t) || (is_tensor(value) && leaves_index_path(as_tensor(value)))) && slow_set)
    return assign_slowly(self, index, value);
  // PyTorch's order of complaints: the value's type first, then the index.
  Ref tensor;
  bool number = PyFloat_CheckExact(value) || PyLong_CheckExact(value) || is_number(value);
  if (!number && !(tensor = value_tensor(t, value))) return refused(self, index, value);
  Parsed p;
  int64_t begin = is_recording() ? profile_now() : 0;
  if (!parse_index(p, t, index)) return refused(self, index, value);
  if (begin && p.basic) record_index(t, index, begin);
  if (!p.indices && number) return set_number(p, t, index, value);
  if (!assign || !advanced_set)
    return PyErr_SetString(PyExc_RuntimeError, "assigning tensors needs the op library, which is not loaded"), -1;
  if (!tensor && !(tensor = value_tensor(t, value))) return -1;
  Ref target = p.indices ? advanced_input(p, t, index) : index_view(p, t, index);
  if (!target) return -1;
  if (!p.indices) return Ref(PyObject_CallFunctionObjArgs(assign, target.p, tensor.p, nullptr)) ? 0 : -1;
  // One value under one mask is masked_fill_, which needs no positions.
  bool fills = as_tensor(tensor.p)->ndim == 0 && PyList_GET_SIZE(p.indices.p) == 1;
  Ref indices = fills ? Ref::borrow(p.indices.p) : without_masks(p.indices.p, as_tensor(target.p));
  if (!indices) return -1;
  return Ref(PyObject_CallFunctionObjArgs(advanced_set, target.p, indices.p, tensor.p, nullptr)) ? 0 : -1;
}

// --- module functions -----------------------------------------------------------------------------------------------

static PyObject* py_set_index_hooks(PyObject*, PyObject* args) {
  PyObject *set, *index, *put, *copy;
  if (!PyArg_ParseTuple(args, "OOOO:_set_index_hooks", &set, &index, &put, &copy)) return nullptr;
  slow_set = Py_NewRef(set);
  advanced_get = Py_NewRef(index);
  advanced_set = Py_NewRef(put);
  assign = Py_NewRef(copy);
  Py_RETURN_NONE;
}

// (sizes, strides, offset) of tensor[index] for an index that makes a view; None for one that needs index tensors.
static PyObject* py_index_geometry(PyObject*, PyObject* args) {
  PyObject *tensor, *index;
  if (!PyArg_ParseTuple(args, "O!O:index_geometry", TensorType, &tensor, &index)) return nullptr;
  Parsed p;
  if (!parse_index(p, as_tensor(tensor), index)) return nullptr;
  if (p.indices) Py_RETURN_NONE;
  Ref sizes(int_tuple(p.sizes, p.ndim)), strides(int_tuple(p.strides, p.ndim));
  if (!sizes || !strides) return nullptr;
  return Py_BuildValue("OOL", sizes.p, strides.p, static_cast<long long>(p.offset));
}

// What slow paths need: (the basic part of the index or None, the index tensors or None).
static PyObject* py_split_index(PyObject*, PyObject* args) {
  PyObject *tensor, *index;
  if (!PyArg_ParseTuple(args, "O!O:split_index", TensorType, &tensor, &index)) return nullptr;
  Parsed p;
  if (!parse_index(p, as_tensor(tensor), index)) return nullptr;
  Ref part(p.indices ? (p.basic ? basic_part(index).release() : Py_NewRef(Py_None)) : frozen_index(index).release());
  if (!part) return nullptr;
  return PyTuple_Pack(2, part.p, p.indices ? p.indices.p : Py_None);
}

static void copy_geometry(const Parsed& p, char* to, const Tensor* from, const char* at, int dim, int size) {
  if (dim == p.ndim) {
    memcpy(to, at, size);
    return;
  }
  int64_t n = p.sizes[dim], step = p.strides[dim] * size, from_step = from->strides()[dim] * size;
  if (dim + 1 == p.ndim && step == size && from_step == size) {
    memcpy(to, at, n * size);
    return;
  }
  for (int64_t i = 0; i < n; i++) copy_geometry(p, to + i * step, from, at + i * from_step, dim + 1, size);
}

// scatter_basic(values, size, index): zeros of `size` with `values` at `index`, the gradient of a basic index. Copies
// bytes itself when there are few: the ops it would call cost more than they do.
static PyObject* scatter_basic(PyObject*, PyObject* args) {
  PyObject *values, *size, *index;
  if (!PyArg_ParseTuple(args, "O!OO:scatter_basic", TensorType, &values, &size, &index)) return nullptr;
  Ref shown(resolved(values));
  if (!shown) return nullptr;
  Tensor* v = as_tensor(values = shown.p);
  int64_t sizes[kMaxDims];
  int ndim = read_ints(size, sizes, kMaxDims, "scatter_basic");
  if (ndim < 0) return nullptr;
  Ref out(as_object(tensor_empty(sizes, nullptr, ndim, v->dtype, v->device)));
  if (!out || v->device.type == kMeta) return out.release();
  Tensor* o = as_tensor(out.p);
  Parsed p;
  if (!parse_index(p, o, index)) return nullptr;
  bool fits = !p.indices && p.ndim == v->ndim && memcmp(p.sizes, v->sizes(), sizeof(int64_t) * p.ndim) == 0;
  if (!fits)
    return PyErr_SetString(PyExc_RuntimeError,
                           "scatter_basic: the values do not have the shape of the indexed elements"),
           nullptr;
  if (o->numel == 0) return out.release();
  if (o->device.type == kCPU && o->numel <= kDirectScatter && check_host_data(v, "scatter_basic")) {
    int bytes = itemsize(o->dtype);
    memset(o->data(), 0, o->numel * bytes);
    if (v->numel) copy_geometry(p, o->storage->data + p.offset * bytes, v, v->data(), 0, bytes);
    return out.release();
  }
  if (PyErr_Occurred()) return nullptr;
  Ref zeroed(call_role(Role::Clear, out.p));
  Ref view(zeroed ? PyObject_GetItem(out.p, index) : nullptr);
  Ref done(view ? call_role(Role::CopyInto, view.p, values) : nullptr);
  return done ? out.release() : nullptr;
}

static PyObject* py_scatter_basic(PyObject* self, PyObject* args) {
  PyObject* made;
  {
    NotingPause pause;
    made = scatter_basic(self, args);
  }
  note_function(scatter_basic, args, made);
  return made;
}

static PyMethodDef functions[] = {{"scatter_basic", guarded<py_scatter_basic>, METH_VARARGS,
                                   "scatter_basic(values, size, index): zeros with values at a basic index"},
                                  {"_set_index_hooks", guarded<py_set_index_hooks>, METH_VARARGS,
                                   "(slow set, index, index_put_, assign)"},
                                  {"index_geometry", guarded<py_index_geometry>, METH_VARARGS,
                                   "(sizes, strides, offset) of tensor[index], or None if it is no view"},
                                  {"split_index", guarded<py_split_index>, METH_VARARGS,
                                   "(basic part, index tensors) of an index; None for a part it does not have"},
                                  {}};

int init_index_face(PyObject* module) {
  for_core().index_tensors = index_tensors;
  for_core().assign_index = assign_index;
  str_fill = PyUnicode_InternFromString("fill_");
  return str_fill ? PyModule_AddFunctions(module, functions) : -1;
}

}  // namespace rl

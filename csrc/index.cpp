// The index parser. One pass over the index yields the geometry of the basic part and the list of index tensors.
#include "index.h"
#include "boundary.h"

#include "build.h"
#include "call.h"
#include "tape.h"

namespace rl {

// The ops that record a view made here, by the last step PyTorch would have taken; asked of Python when first needed.
enum ViewStep { kAlias, kSelect, kSlice, kUnsqueeze, kNumSteps };
static Overload* view_ops[kNumSteps];
static PyObject* recorder;      // callable(step): the overload for view_ops
static PyObject* slow_get;      // callable(self, index): modes, subclasses, tracers
static PyObject* slow_set;      // callable(self, index, value)
static PyObject* advanced_get;  // callable(input, indices)
static PyObject* advanced_set;  // callable(input, indices, value): writes in place
static PyObject* assign;        // callable(view, value): broadcasting copy in place
static PyObject* str_fill;

constexpr int kSequenceAsTuple = 32;   // longer lists are always data, never a tuple of indices
constexpr int64_t kDirectFill = 64;    // up to here, writing elements beats calling an op
constexpr int64_t kDirectScatter = 4096;

namespace {

struct Parsed {
  int64_t sizes[kMaxDims], strides[kMaxDims], offset;
  int ndim = 0;
  int source = 0;               // next dim of the input
  int slot = 0;                 // next position in `indices`
  bool basic = false;           // the geometry differs from the input's, or may
  bool plain = true;            // the index is made of immutable parts, so the tape may keep it
  ViewStep last = kAlias;
  Ref indices;                  // list of index tensors and None, or null while there is none
};

bool fail_index(const char* text) {
  PyErr_SetString(PyExc_IndexError, text);
  return false;
}

bool emit(Parsed& p, int64_t size, int64_t stride) {
  if (p.ndim == kMaxDims) return fail_index("indexing would make more dimensions than supported");
  p.sizes[p.ndim] = size;
  p.strides[p.ndim++] = stride;
  return true;
}

bool keep_dims(Parsed& p, const Tensor* t, int count) {
  for (; count > 0 && p.source < t->ndim; count--, p.source++, p.slot++)
    if (!emit(p, t->sizes()[p.source], t->strides()[p.source])) return false;
  return true;
}

bool select(Parsed& p, const Tensor* t, int64_t i) {
  int64_t size = p.source < t->ndim ? t->sizes()[p.source] : 0;
  if (i < -size || i >= size) {
    PyErr_Format(PyExc_IndexError, "index %lld is out of bounds for dimension %d with size %lld",
                 static_cast<long long>(i), p.source, static_cast<long long>(size));
    return false;
  }
  p.offset += (i < 0 ? i + size : i) * t->strides()[p.source++];
  p.basic = true;
  p.last = kSelect;
  return true;
}

bool take_slice(Parsed& p, const Tensor* t, PyObject* slice) {
  Py_ssize_t start, stop, step;
  if (PySlice_Unpack(slice, &start, &stop, &step)) return false;
  if (step < 0) return PyErr_SetString(PyExc_ValueError, "step must be greater than zero"), false;
  if (p.source >= t->ndim) return fail_index("slice: a 0-dim tensor has no dimension to slice.");
  int64_t size = t->sizes()[p.source], stride = t->strides()[p.source];
  Py_ssize_t length = PySlice_AdjustIndices(size, &start, &stop, step);
  p.offset += start * stride;
  p.source++;
  p.slot++;
  p.basic = true;
  p.last = kSlice;
  return emit(p, length, stride * step);
}

bool add_dim(Parsed& p, const Tensor* t) {
  p.basic = true;
  p.last = kUnsqueeze;
  bool inner = p.source < t->ndim;   // a dim of one may have any stride; this is the one PyTorch reports
  return emit(p, 1, inner ? t->sizes()[p.source] * t->strides()[p.source] : 1);
}

bool add_index(Parsed& p, PyObject* tensor, int dims, const Tensor* t) {
  if (!p.indices && !(p.indices = Ref(PyList_New(0)))) return false;
  while (PyList_GET_SIZE(p.indices.p) < p.slot)
    if (PyList_Append(p.indices.p, Py_None)) return false;
  if (PyList_Append(p.indices.p, tensor)) return false;
  int slot = p.slot;
  if (!keep_dims(p, t, dims)) return false;
  p.slot = slot + 1;   // a mask over several dims is one entry of the list
  return true;
}

// True selects everything once, False nothing: a dim of one, indexed by [0] or by [].
bool add_truth(Parsed& p, const Tensor* t, bool truth) {
  int64_t n = truth ? 1 : 0;
  Ref index(as_object(tensor_empty(&n, nullptr, 1, DType::I64, t->device)));
  if (!index) return false;
  if (truth && t->device.type == kCPU) *reinterpret_cast<int64_t*>(as_tensor(index.p)->data()) = 0;
  if (!add_dim(p, t)) return false;
  return add_index(p, index.p, 0, t);
}

bool is_mask(DType d) { return d == DType::Bool || d == DType::U8; }

bool take_tensor(Parsed& p, const Tensor* t, PyObject* object) {
  Tensor* index = as_tensor(object);
  p.plain = false;
  if (index->ndim == 0 && !is_differentiable(index->dtype)) {
    Ref number(tensor_item(index));
    if (!number) return false;
    if (is_mask(index->dtype)) return add_truth(p, t, PyObject_IsTrue(number.p));
    return select(p, t, PyLong_AsLongLong(number.p));
  }
  if (!is_mask(index->dtype) && index->dtype != DType::I64 && index->dtype != DType::I32)
    return fail_index("index: expected tensors of dtype int64, int32, uint8 or bool");
  return add_index(p, object, is_mask(index->dtype) ? index->ndim : 1, t);
}

// Lists, ranges and arrays are indices as tensors are: masks if they hold bools, else integers.
Ref index_tensor(PyObject* sequence, Device device) {
  Ref found(as_object(tensor_from_data(sequence, nullptr, Device{})));
  if (!found) return found;
  DType integer = DType::I64, have = as_tensor(found.p)->dtype;
  if (!is_mask(have) && have != DType::I64) found = Ref(as_object(tensor_from_data(sequence, &integer, Device{})));
  if (!found || device.type == kCPU || device.type == kMeta) return found;
  Ref target(device_object(device));
  return Ref(target ? PyObject_CallMethod(found.p, "to", "O", target.p) : nullptr);
}

bool take_other(Parsed& p, const Tensor* t, PyObject* item) {
  p.plain = false;
  if (PySequence_Check(item) && !is_number(item)) {
    Ref tensor = index_tensor(item, t->device);
    return tensor && take_tensor(p, t, tensor.p);
  }
  Ref number(PyIndex_Check(item) ? PyNumber_Index(item) : nullptr);
  if (!number) {
    PyErr_Format(PyExc_IndexError,
                 "index: expected integers, slices, `...`, None or tensors of integers or bools, got %s",
                 Py_TYPE(item)->tp_name);
    return false;
  }
  long long i = PyLong_AsLongLong(number.p);
  return !(i == -1 && PyErr_Occurred()) && select(p, t, i);
}

bool take_int(Parsed& p, const Tensor* t, PyObject* item) {
  int overflow;
  long long i = PyLong_AsLongLongAndOverflow(item, &overflow);
  if (overflow) return PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long"), false;
  return select(p, t, i);
}

// How many dims of the input an index names: what an ellipsis leaves is the rest.
int dims_named(PyObject* const* items, Py_ssize_t n) {
  int count = 0;
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject* item = items[i];
    if (item == Py_None || item == Py_Ellipsis || PyBool_Check(item)) continue;
    if (is_tensor(item) && is_mask(as_tensor(item)->dtype)) count += as_tensor(item)->ndim;
    else count++;
  }
  return count;
}

bool parse_item(Parsed& p, const Tensor* t, PyObject* item, int rest) {
  if (PyLong_CheckExact(item)) return take_int(p, t, item);
  if (PySlice_Check(item)) return take_slice(p, t, item);
  if (item == Py_None) return add_dim(p, t) && (p.slot++, true);
  if (item == Py_Ellipsis) return keep_dims(p, t, rest);
  if (PyBool_Check(item)) return add_truth(p, t, item == Py_True);
  if (is_tensor(item)) return take_tensor(p, t, item);
  if (PyLong_Check(item)) return take_int(p, t, item);
  return take_other(p, t, item);
}

bool parse_items(Parsed& p, const Tensor* t, PyObject* const* items, Py_ssize_t n) {
  p.offset = t->offset;
  int named = dims_named(items, n);
  if (named > t->ndim && !(n == 1 && t->ndim == 0 && !is_tensor(items[0]))) {
    PyErr_Format(PyExc_IndexError, "too many indices for tensor of dimension %d", t->ndim);
    return false;
  }
  for (Py_ssize_t i = 0; i < n; i++)
    if (!parse_item(p, t, items[i], t->ndim - named)) return false;
  return keep_dims(p, t, t->ndim);
}

// A short list holding anything that only makes sense as a separate index is read as a tuple, as PyTorch still does.
bool is_tuple_like(PyObject* index) {
  if (PyTuple_Check(index)) return true;
  if (!PyList_Check(index)) return false;
  Py_ssize_t n = PyList_GET_SIZE(index);
  if (n >= kSequenceAsTuple) return false;
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject* item = PyList_GET_ITEM(index, i);
    if (is_tensor(item) || PySlice_Check(item) || item == Py_Ellipsis || item == Py_None || PySequence_Check(item))
      return true;
  }
  return false;
}

bool parse(Parsed& p, const Tensor* t, PyObject* index) {
  if (PyLong_CheckExact(index) && t->ndim == 0)
    return fail_index("invalid index of a 0-dim tensor: it has no dimension. tensor.item() gives its number");
  if (PyTuple_CheckExact(index)) return parse_items(p, t, &PyTuple_GET_ITEM(index, 0), PyTuple_GET_SIZE(index));
  if (PyLong_CheckExact(index) || PySlice_Check(index) || !is_tuple_like(index)) return parse_items(p, t, &index, 1);
  // As PyTorch does; it says the same of its own.
  if (!PyTuple_Check(index) &&
      PyErr_WarnEx(PyExc_UserWarning, "x[seq] with a non-tuple sequence is deprecated: write x[tuple(seq)].", 1))
    return false;
  Ref items(PySequence_Tuple(index));
  if (!items) return false;
  p.plain = false;
  return parse_items(p, t, &PyTuple_GET_ITEM(items.p, 0), PyTuple_GET_SIZE(items.p));
}

// A copy of the index that later changes to its parts cannot reach: 0-d tensors and NumPy integers become ints.
Ref frozen_index(PyObject* index) {
  Ref items(is_tuple_like(index) ? PySequence_Tuple(index) : PyTuple_Pack(1, index));
  if (!items) return items;
  Py_ssize_t n = PyTuple_GET_SIZE(items.p), kept = 0;
  Ref result(PyTuple_New(n));
  for (Py_ssize_t i = 0; result && i < n; i++, kept++) {
    PyObject* item = PyTuple_GET_ITEM(items.p, i);
    bool as_is = PyLong_Check(item) || PySlice_Check(item) || item == Py_None || item == Py_Ellipsis;
    PyObject* frozen = as_is ? Py_NewRef(item) : PyNumber_Index(item);
    if (!frozen) return Ref();
    PyTuple_SET_ITEM(result.p, i, frozen);
  }
  return result;
}

// With index tensors the basic part keeps only its own indices: whole slices where the tensors are.
bool record_view(const Parsed& p, Tensor* base, Tensor* view, PyObject* index, Overload* op) {
  PyObject* args[2] = {as_object(base), index};
  Ref frozen;
  if (!p.plain) {
    frozen = frozen_index(index);
    if (!frozen) return false;
    args[1] = frozen.p;
  }
  return tape_record(op, args, as_object(view));
}

static Overload* view_op(ViewStep step) {
  if (view_ops[step]) return view_ops[step];
  Ref made(PyObject_CallFunction(recorder, "i", step));
  if (!made) return nullptr;
  if (Py_TYPE(made.p) != OverloadType)
    return PyErr_Format(PyExc_TypeError, "index views: not an Overload: %R", made.p), nullptr;
  if (!view_ops[step]) view_ops[step] = reinterpret_cast<Overload*>(made.release());   // else another thread was faster
  return view_ops[step];
}

Ref make_view(const Parsed& p, Tensor* t, PyObject* index) {
  Ref view(as_object(tensor_alias(t, p.sizes, p.strides, p.ndim, p.offset, t->dtype)));
  if (!view) return view;
  Tensor* v = as_tensor(view.p);
  if (!(t->flags & kInference)) tensor_share_version(t, v);
  if (!tape_set_view(v, t, false)) return Ref();
  if (tls.grad_enabled && recorder && tape_requires_grad(t)) {
    Overload* op = view_op(p.last);
    if (!op || !record_view(p, t, v, index, op)) return Ref();
  }
  return view;
}

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
  return part ? make_view(p, t, part.p) : Ref();
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

// The index list with masks replaced by positions, where everything is in host memory; else the list itself.
Ref without_masks(PyObject* indices, const Tensor* input) {
  bool any = false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(indices); i++) {
    PyObject* item = PyList_GET_ITEM(indices, i);
    if (!is_tensor(item)) continue;
    if (as_tensor(item)->device.type != kCPU || as_tensor(item)->keys) return Ref::borrow(indices);
    any |= is_mask(as_tensor(item)->dtype);
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

bool leaves_fast_path(const Tensor* t) {
  return (t->keys | tls.keys) & ~tls.excluded & ~kKeyAutocast;
}  // indexing is never cast

}  // namespace

PyObject* tensor_subscript(PyObject* self, PyObject* index) {
  Tensor* t = as_tensor(self);
  if (leaves_fast_path(t) && slow_get) return PyObject_CallFunctionObjArgs(slow_get, self, index, nullptr);
  Parsed p;
  if (!parse(p, t, index)) return nullptr;
  if (!p.indices) return make_view(p, t, index).release();
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
  if (tls.grad_enabled && (tape_requires_grad(t) || (t->view && t->view->base->requires_grad()))) return false;
  return n == 0 || check_host_data(t, "__setitem__");
}

// A complex number does not fit a real tensor: the same refusal as for one that is too large.
static bool number_fits(Tensor* t, PyObject* value) {
  if (!PyComplex_Check(value) || is_complex(t->dtype) || t->dtype == DType::Bool) return true;
  PyErr_Format(PyExc_RuntimeError, "value cannot be converted to type %s without overflow", info(t->dtype).name);
  return false;
}

// The value as a tensor: numbers become 0-d tensors of the destination's dtype. New reference, null with an exception.
static Ref value_tensor(Tensor* t, PyObject* value) {
  if (is_tensor(value)) return Ref::borrow(value);
  if (!is_number(value)) {
    PyErr_Format(PyExc_TypeError, "can't assign a %s to a %U.%sTensor", Py_TYPE(value)->tp_name, display_module,
                 info(t->dtype).legacy);
    return Ref();
  }
  if (!number_fits(t, value)) return Ref();
  Ref scalar(as_object(tensor_from_data(value, &t->dtype, Device{})));
  if (!scalar || t->device.type == kCPU) return scalar;
  Ref target(device_object(t->device));
  return Ref(target ? PyObject_CallMethod(scalar.p, "to", "O", target.p) : nullptr);
}

static int set_number(const Parsed& p, Tensor* t, PyObject* index, PyObject* value) {
  alignas(16) char element[16];
  if (!number_fits(t, value) || !store_number(value, t->dtype, element)) return -1;
  if (can_fill_directly(p, t)) {
    int size = itemsize(t->dtype);
    if (t->storage->data) fill_geometry(p, t->storage->data + p.offset * size, 0, element, size);
    tensor_bump(t);
    return 0;
  }
  if (PyErr_Occurred()) return -1;
  Ref view = make_view(p, t, index);
  if (!view) return -1;
  Ref done(PyObject_CallMethodOneArg(view.p, str_fill, value));
  return done ? 0 : -1;
}

int tensor_ass_subscript(PyObject* self, PyObject* index, PyObject* value) {
  if (!value) return PyErr_SetString(PyExc_TypeError, "Tensor does not support deleting items"), -1;
  Tensor* t = as_tensor(self);
  if ((leaves_fast_path(t) || (is_tensor(value) && leaves_fast_path(as_tensor(value)))) && slow_set) {
    Ref done(PyObject_CallFunctionObjArgs(slow_set, self, index, value, nullptr));
    return done ? 0 : -1;
  }
  // PyTorch's order of complaints: the value's type first, then the index.
  Ref tensor;
  bool number = is_number(value);
  if (!number && !(tensor = value_tensor(t, value))) return -1;
  Parsed p;
  if (!parse(p, t, index)) return -1;
  if (!p.indices && number) return set_number(p, t, index, value);
  if (!assign || !advanced_set)
    return PyErr_SetString(PyExc_RuntimeError, "assigning tensors needs the op library, which is not loaded"), -1;
  if (!tensor && !(tensor = value_tensor(t, value))) return -1;
  Ref target = p.indices ? advanced_input(p, t, index) : make_view(p, t, index);
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
  PyObject *get, *set, *index, *put, *copy, *record;
  if (!PyArg_ParseTuple(args, "OOOOOO:_set_index_hooks", &get, &set, &index, &put, &copy, &record)) return nullptr;
  slow_get = Py_NewRef(get);
  slow_set = Py_NewRef(set);
  advanced_get = Py_NewRef(index);
  advanced_set = Py_NewRef(put);
  assign = Py_NewRef(copy);
  recorder = Py_NewRef(record);
  Py_RETURN_NONE;
}

// (sizes, strides, offset) of tensor[index] for an index that makes a view; None for one that needs index tensors.
static PyObject* py_index_geometry(PyObject*, PyObject* args) {
  PyObject *tensor, *index;
  if (!PyArg_ParseTuple(args, "O!O:index_geometry", TensorType, &tensor, &index)) return nullptr;
  Parsed p;
  if (!parse(p, as_tensor(tensor), index)) return nullptr;
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
  if (!parse(p, as_tensor(tensor), index)) return nullptr;
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
static PyObject* py_scatter_basic(PyObject*, PyObject* args) {
  PyObject *values, *size, *index;
  if (!PyArg_ParseTuple(args, "O!OO:scatter_basic", TensorType, &values, &size, &index)) return nullptr;
  Tensor* v = as_tensor(values);
  int64_t sizes[kMaxDims];
  int ndim = read_ints(size, sizes, kMaxDims, "scatter_basic");
  if (ndim < 0) return nullptr;
  Ref out(as_object(tensor_empty(sizes, nullptr, ndim, v->dtype, v->device)));
  if (!out || v->device.type == kMeta) return out.release();
  Tensor* o = as_tensor(out.p);
  Parsed p;
  if (!parse(p, o, index)) return nullptr;
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
  Ref zeroed(PyObject_CallMethod(out.p, "zero_", nullptr));
  Ref view(zeroed ? PyObject_GetItem(out.p, index) : nullptr);
  Ref done(view ? PyObject_CallMethod(view.p, "copy_", "O", values) : nullptr);
  return done ? out.release() : nullptr;
}

static PyMethodDef functions[] = {{"scatter_basic", guarded<py_scatter_basic>, METH_VARARGS,
                                   "scatter_basic(values, size, index): zeros with values at a basic index"},
                                  {"_set_index_hooks", guarded<py_set_index_hooks>, METH_VARARGS,
                                   "(slow get, slow set, index, index_put_, assign, overload that records a view)"},
                                  {"index_geometry", guarded<py_index_geometry>, METH_VARARGS,
                                   "(sizes, strides, offset) of tensor[index], or None if it is no view"},
                                  {"split_index", guarded<py_split_index>, METH_VARARGS,
                                   "(basic part, index tensors) of an index; None for a part it does not have"},
                                  {}};

int init_index(PyObject* module) {
  str_fill = PyUnicode_InternFromString("fill_");
  return str_fill ? PyModule_AddFunctions(module, functions) : -1;
}

}  // namespace rl

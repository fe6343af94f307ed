// The index parser. One pass over the index yields the geometry of the basic part and the list of index tensors.
#include "index.h"
#include "boundary.h"

#include "element.h"
#include "second_module.h"
#include "call.h"
#include "profile.h"
#include "tape.h"
#include "transcript.h"

namespace rl {

static Overload* view_ops[kNumSteps];
static PyObject* recorder;      // callable(step): the overload for view_ops
static PyObject* slow_get;      // callable(self, index): modes, subclasses, tracers
constexpr int kSequenceAsTuple = 32;   // longer lists are always data, never a tuple of indices

// Lists, ranges and arrays are indices as tensors are: masks if they hold bools, else integers.
Ref index_tensor(PyObject* sequence, Device device) {
  Ref found(as_object(second.tensor_from_data(sequence, nullptr, Device{})));
  if (!found) return found;
  DType integer = DType::I64, have = as_tensor(found.p)->dtype;
  if (!is_mask(have) && have != DType::I64)
    found = Ref(as_object(second.tensor_from_data(sequence, &integer, Device{})));
  if (!found || device.type == kCPU || device.type == kMeta) return found;
  Ref target(device_object(device));
  return Ref(target ? call_role(Role::Convert, found.p, target.p) : nullptr);
}

namespace {

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

}  // namespace

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

bool parse_index(Parsed& p, const Tensor* t, PyObject* index) {
  if (PyLong_CheckExact(index) && t->ndim == 0)
    return PyErr_SetString(PyExc_IndexError, "invalid index of a 0-dim tensor: it has no dimension. tensor.item() "
                                             "gives its number"), false;
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

namespace {

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

Overload* view_op(ViewStep step) {
  if (view_ops[step]) return view_ops[step];
  Ref found(PyObject_CallFunction(recorder, "i", step));
  if (!found) return nullptr;
  if (Py_TYPE(found.p) != OverloadType)
    return PyErr_Format(PyExc_TypeError, "index views: not an Overload: %R", found.p), nullptr;
  if (!view_ops[step]) view_ops[step] = reinterpret_cast<Overload*>(found.release());  // else another thread was faster
  return view_ops[step];
}

}  // namespace

Ref index_view(const Parsed& p, Tensor* t, PyObject* index) {
  Ref view(as_object(tensor_alias(t, p.sizes, p.strides, p.ndim, p.offset, t->dtype)));
  if (!view) return view;
  Tensor* v = as_tensor(view.p);
  if (!(t->flags & kInference)) tensor_share_version(t, v);
  if (!tape_set_view(v, t, false)) return Ref();
  if (tls.grad_enabled && recorder && tape_requires_grad(t)) {
    Overload* op = view_op(p.last);
    if (!op || !record_view(p, t, v, index, op)) return Ref();
  }
  note_alias(t, v);
  return view;
}

bool takes_functions(PyObject* o) {
  if (PyTuple_Check(o) || PyList_Check(o)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); i++)
      if (takes_functions(PySequence_Fast_GET_ITEM(o, i))) return true;
    return false;
  }
  PyObject *type, *value, *trace;   // of the refusal that is looked into
  PyErr_Fetch(&type, &value, &trace);
  bool takes = !is_tensor(o) && PyObject_HasAttrString(as_object(Py_TYPE(o)), "__torch_function__");
  PyErr_Restore(type, value, trace);
  return takes;
}

PyObject* tensor_subscript(PyObject* self, PyObject* index) {
  Tensor* t = as_tensor(self);
  if (leaves_index_path(t) && slow_get) return PyObject_CallFunctionObjArgs(slow_get, self, index, nullptr);
  Parsed p;
  int64_t begin = is_recording() ? profile_now() : 0;
  if (!parse_index(p, t, index)) {
    if (!takes_functions(index) || !slow_get) return nullptr;
    PyErr_Clear();
    return PyObject_CallFunctionObjArgs(slow_get, self, index, nullptr);
  }
  if (p.indices) {
    if (begin && p.basic) record_index(t, index, begin);
    return second.index_tensors(p, t, index);
  }
  Ref view = index_view(p, t, index);
  if (begin && view) record_index(t, index, begin);
  return view.release();
}

int tensor_ass_subscript(PyObject* self, PyObject* index, PyObject* value) {
  return second.assign_index(self, index, value);
}

// (slow get, recorder); the other hooks are the second module's
static PyObject* py_set_view_hooks(PyObject*, PyObject* args) {
  PyObject *get, *record;
  if (!PyArg_ParseTuple(args, "OO:_set_view_hooks", &get, &record)) return nullptr;
  Py_XSETREF(slow_get, Py_NewRef(get));
  Py_XSETREF(recorder, Py_NewRef(record));
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"_set_view_hooks", guarded<py_set_view_hooks>, METH_VARARGS,
                                   "(slow get, overload that records a view by its last step)"},
                                  {}};

int init_index(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace rl

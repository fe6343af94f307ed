// Kernels of plugged-in devices over the elements of tensors that are written to: what optimizers launch.
#include <algorithm>
#include <bit>

#include "boundary.h"
#include "device.h"
#include "geometry.h"
#include "tensor.h"

namespace rl {

namespace {

// Whether a kernel may write through a tensor as it lies: nobody intercepts it, and all its elements are a run of
// memory.
bool is_plain_run(const Tensor* t, Device device) {
  return !(t->keys & ~tls.excluded) && t->device == device && t->contiguous() && t->storage->data &&
         !(t->flags & kInference);
}

// update_elements(kernel, tensors, written, params): a device's kernel over the elements of tensors of one shape, side
// by side, of which the numbers in `written` are written to. False, and nothing done, where they are not plain runs of
// memory on one device.
PyObject* py_update_elements(PyObject*, PyObject* args) {
  PyObject *kernel, *given, *written, *numbers;
  if (!PyArg_ParseTuple(args, "OO!O!O!", &kernel, &PyTuple_Type, &given, &PyTuple_Type, &written, &PyTuple_Type,
                        &numbers))
    return nullptr;
  constexpr int kMost = 16;
  int n = static_cast<int>(PyTuple_GET_SIZE(given)), m = static_cast<int>(PyTuple_GET_SIZE(numbers));
  bool plain = n > 0 && n <= kMost && m <= kMost && !(tls.keys & ~tls.excluded & ~static_cast<uint32_t>(kKeyAutocast));
  Tensor* tensors[kMost];
  for (int i = 0; plain && i < n; i++) {
    PyObject* o = PyTuple_GET_ITEM(given, i);
    if (!is_tensor(o)) return PyErr_SetString(PyExc_TypeError, "update_elements: expected tensors"), nullptr;
    tensors[i] = as_tensor(o);
    plain = is_plain_run(tensors[i], tensors[0]->device) && tensors[i]->numel == tensors[0]->numel;
  }
  if (!plain || !is_plugged(tensors[0]->device)) Py_RETURN_FALSE;
  void* operands[kMost];
  int32_t constant_bytes[kMost] = {};
  int64_t params[kMost];
  for (int i = 0; i < n; i++) operands[i] = tensors[i]->data();
  for (int i = 0; i < m; i++) params[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(numbers, i));
  Stream* stream = PyErr_Occurred() ? nullptr : current_stream(tensors[0]->device);
  if (!stream) return nullptr;
  RushlightLaunch launch{nullptr,           n,  m, operands, constant_bytes, params, 0,
                         tensors[0]->numel, -1, 0, nullptr,  nullptr};
  if (!stream_launch(stream, kernel, launch)) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(written); i++) {
    long which = PyLong_AsLong(PyTuple_GET_ITEM(written, i));
    if (which >= 0 && which < n) tensor_bump(tensors[which]);
  }
  return PyErr_Occurred() ? nullptr : Py_NewRef(Py_True);
}

// Whether a kernel may go through the elements of two tensors in the order of memory.
bool lies_alike(const Tensor* t, const Tensor* first) {
  if (t->numel != first->numel || t->ndim != first->ndim) return false;
  if (t->contiguous() && first->contiguous()) return true;
  for (int d = 0; d < t->ndim; d++)
    if (t->sizes()[d] != first->sizes()[d] || (t->sizes()[d] != 1 && t->strides()[d] != first->strides()[d]))
      return false;
  return is_dense_nonoverlapping(t->sizes(), t->strides(), t->ndim);
}

// Launches a kernel that takes `most` tuples of tensors at a time, in items of `block` elements; those that are missing
// behind the last have no elements.
bool launch_by_rows(Stream* stream, PyObject* kernel, const std::vector<void*>& operands,
                    const std::vector<int64_t>& params, size_t num_numbers, int64_t most, int64_t block) {
  size_t count = params.size() - num_numbers, each = operands.size() / count;
  std::vector<int32_t> constant_bytes(each * most);
  for (size_t first = 0; first < count; first += most) {
    std::vector<void*> own(each * most);
    std::vector<int64_t> numbers(params.begin(), params.begin() + num_numbers);
    int64_t items = 0;
    for (int64_t k = 0; k < most; k++) {
      bool is_there = first + k < count;
      size_t row = is_there ? first + k : first;
      std::copy_n(operands.begin() + row * each, each, own.begin() + k * each);
      numbers.push_back(is_there ? params[num_numbers + row] : 0);
      items += (numbers.back() + block - 1) / block;
    }
    RushlightLaunch launch{nullptr,        static_cast<int>(own.size()), static_cast<int>(numbers.size()), own.data(),
                           constant_bytes.data(), numbers.data(), 0, items, -1, 0, nullptr, nullptr};
    if (items && !stream_launch(stream, kernel, launch)) return false;
  }
  return true;
}

// update_many(kernel, rows, written, numbers, has_table=False, most=0, block=0): a kernel of Device.load_many over tuples
// of tensors, those of a tuple of one shape and layout; but for the last where it `has_table`, which is a run of numbers.
// The others are its parameters, doubles by their bits. With `most` the kernel is one that launch_by_rows takes. False,
// and nothing done, where some tensors are not runs of memory on one device, or some numbers are tensors.
PyObject* py_update_many(PyObject*, PyObject* args) {
  PyObject *kernel, *rows, *written, *numbers;
  int has_table = 0, most = 0, block = 0;
  if (!PyArg_ParseTuple(args, "OO!O!O!|pii", &kernel, &PyList_Type, &rows, &PyTuple_Type, &written, &PyTuple_Type,
                        &numbers, &has_table, &most, &block))
    return nullptr;
  if (tls.keys & ~tls.excluded & ~static_cast<uint32_t>(kKeyAutocast)) Py_RETURN_FALSE;
  std::vector<Tensor*> tensors;
  std::vector<void*> operands;
  std::vector<int64_t> params;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(numbers); i++) {
    PyObject* number = PyTuple_GET_ITEM(numbers, i);
    if (!PyFloat_Check(number) && !PyLong_Check(number)) Py_RETURN_FALSE;
    params.push_back(std::bit_cast<int64_t>(PyFloat_AsDouble(number)));
  }
  if (PyErr_Occurred()) return nullptr;
  for (Py_ssize_t r = 0; r < PyList_GET_SIZE(rows); r++) {
    PyObject* row = PyList_GET_ITEM(rows, r);
    if (!PyTuple_Check(row)) return PyErr_SetString(PyExc_TypeError, "update_many: expected tuples"), nullptr;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(row); k++) {
      PyObject* o = PyTuple_GET_ITEM(row, k);
      if (!is_tensor(o)) return PyErr_SetString(PyExc_TypeError, "update_many: expected tensors"), nullptr;
      Tensor* t = as_tensor(o);
      tensors.push_back(t);
      bool plain = !(t->keys & ~tls.excluded) && t->device == tensors[0]->device && !(t->flags & kInference);
      bool is_table = has_table && k == PyTuple_GET_SIZE(row) - 1;
      bool fits = is_table ? t->contiguous() : lies_alike(t, as_tensor(PyTuple_GET_ITEM(row, 0)));
      if (!plain || (t->numel && !t->storage->data) || !fits) Py_RETURN_FALSE;
      operands.push_back(t->data());
    }
    params.push_back(as_tensor(PyTuple_GET_ITEM(row, 0))->numel);
  }
  if (tensors.empty() || !is_plugged(tensors[0]->device)) Py_RETURN_FALSE;
  Stream* stream = current_stream(tensors[0]->device);
  if (!stream) return nullptr;
  if (most > 0) {
    size_t num_numbers = static_cast<size_t>(PyTuple_GET_SIZE(numbers));
    if (!launch_by_rows(stream, kernel, operands, params, num_numbers, most, block)) return nullptr;
  }
  std::vector<int32_t> constant_bytes(operands.size());
  RushlightLaunch launch{nullptr,       static_cast<int>(operands.size()), static_cast<int>(params.size()),
                         operands.data(), constant_bytes.data(),           params.data(), 0, 1, -1, 0, nullptr, nullptr};
  if (most <= 0 && !stream_launch(stream, kernel, launch)) return nullptr;
  size_t each = tensors.size() / PyList_GET_SIZE(rows);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(written); i++) {
    size_t which = PyLong_AsSize_t(PyTuple_GET_ITEM(written, i));
    for (size_t k = which; which < each && k < tensors.size(); k += each) tensor_bump(tensors[k]);
  }
  return PyErr_Occurred() ? nullptr : Py_NewRef(Py_True);
}

PyMethodDef functions[] = {
    {"update_elements", guarded<py_update_elements>, METH_VARARGS,
     "update_elements(kernel, tensors, written, params): a device's kernel over tensors' elements; False where that "
     "does not reach"},
    {"update_many", guarded<py_update_many>, METH_VARARGS,
     "update_many(kernel, rows, written, numbers, has_table=False, most=0, block=0): the same over many tuples of tensors"},
    {}};

}  // namespace

int init_updates(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace rl

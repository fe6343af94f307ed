// cuDNN's graphs, run: what devices/cuda/cudnn.py prepared, over the tensors of a call. A run costs the host one pack
// of addresses; everything else was described when the graph was prepared.
#include <dlfcn.h>

#include "boundary.h"
#include "cuda/device.h"
#include "tensor.h"

namespace rl {

namespace {

using cuda::Handle;

// Kinds of descriptors, attributes and values, as the library's interface counts them.
constexpr int kPack = 16, kIds = 1000, kPointers = 1001, kSpace = 1003, kNumber = 3, kAddress = 6;

struct Dnn {
  int (*create)(int, Handle*) = nullptr;
  int (*set)(Handle, int, int, int64_t, const void*) = nullptr;
  int (*finalize)(Handle) = nullptr;
  int (*execute)(Handle, Handle, Handle) = nullptr;
  int (*destroy)(Handle) = nullptr;
  void (*last_error)(char*, size_t) = nullptr;
} dnn;

// A graph that can run: the plan, the bytes it needs for itself, the numbers of its tensors, and numbers by value.
struct Prepared {
  Handle plan;
  int64_t space;
  std::vector<int64_t> ids;
  std::vector<float> values;
};

// cudnn_open(path): OSError where it is not the library.
PyObject* py_open(PyObject*, PyObject* path) {
  const char* text = PyUnicode_AsUTF8(path);
  void* library = text ? dlopen(text, RTLD_NOW | RTLD_GLOBAL) : nullptr;
  if (!library) return text ? PyErr_Format(PyExc_OSError, "cuda: no cuDNN: %s", dlerror()) : nullptr, nullptr;
  struct { void** place; const char* name; } all[] = {
      {reinterpret_cast<void**>(&dnn.create), "cudnnBackendCreateDescriptor"},
      {reinterpret_cast<void**>(&dnn.set), "cudnnBackendSetAttribute"},
      {reinterpret_cast<void**>(&dnn.finalize), "cudnnBackendFinalize"},
      {reinterpret_cast<void**>(&dnn.execute), "cudnnBackendExecute"},
      {reinterpret_cast<void**>(&dnn.destroy), "cudnnBackendDestroyDescriptor"},
      {reinterpret_cast<void**>(&dnn.last_error), "cudnnGetLastErrorString"}};
  for (auto& entry : all)
    if (!(*entry.place = dlsym(library, entry.name)))
      return PyErr_Format(PyExc_OSError, "cuda: this cuDNN has no %s", entry.name), nullptr;
  Py_RETURN_NONE;
}

// cudnn_prepared(plan, space, ids, values): a graph for `cudnn_run`; it stays until `cudnn_forget`.
PyObject* py_prepared(PyObject*, PyObject* args) {
  unsigned long long plan;
  long long space;
  PyObject *ids, *values;
  if (!PyArg_ParseTuple(args, "KLO!O!", &plan, &space, &PyTuple_Type, &ids, &PyTuple_Type, &values)) return nullptr;
  auto made = std::make_unique<Prepared>(Prepared{reinterpret_cast<Handle>(plan), space, {}, {}});
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(ids); i++)
    made->ids.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(ids, i)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(values); i++)
    made->values.push_back(static_cast<float>(PyFloat_AsDouble(PyTuple_GET_ITEM(values, i))));
  return PyErr_Occurred() ? nullptr : PyLong_FromVoidPtr(made.release());
}

PyObject* py_forget(PyObject*, PyObject* number) {
  delete static_cast<Prepared*>(PyLong_AsVoidPtr(number));
  Py_RETURN_NONE;
}

PyObject* refused(int status) {
  char why[1024] = "";
  dnn.last_error(why, sizeof(why));
  return PyErr_Format(PyExc_RuntimeError, "cudnn: a graph does not run (%d): %s", status, why), nullptr;
}

// cudnn_run(prepared, handle, *tensors): queue a graph on the handle's stream. Memory it needs for itself is the
// device's cache's, which gives it away again only behind this on the same stream.
PyObject* py_run(PyObject*, PyObject* const* args, Py_ssize_t count) {
  auto* graph = count >= 3 ? static_cast<Prepared*>(PyLong_AsVoidPtr(args[0])) : nullptr;
  if (!graph && !PyErr_Occurred())
    PyErr_SetString(PyExc_TypeError, "cudnn_run: expected a graph, a handle and tensors");
  if (!graph) return nullptr;
  Handle handle = PyLong_AsVoidPtr(args[1]), pack = nullptr;
  size_t tensors = static_cast<size_t>(count - 2), all = graph->ids.size();
  if (tensors + graph->values.size() != all || all > 32)
    return PyErr_Format(PyExc_TypeError, "cudnn_run: a graph of %zu tensors and numbers got %zu tensors", all, tensors),
           nullptr;
  const void* pointers[32];
  for (size_t i = 0; i < tensors; i++) {
    if (!is_tensor(args[2 + i])) return PyErr_SetString(PyExc_TypeError, "cudnn_run: expected tensors"), nullptr;
    pointers[i] = as_tensor(args[2 + i])->data();
  }
  for (size_t i = 0; i < graph->values.size(); i++) pointers[tensors + i] = &graph->values[i];
  Ref space;
  const void* at = nullptr;
  if (graph->space) {
    space = Ref(as_object(tensor_empty(&graph->space, nullptr, 1, DType::U8, as_tensor(args[2])->device)));
    if (!space) return nullptr;
    at = as_tensor(space.p)->data();
  }
  int status = dnn.create(kPack, &pack);
  if (status) return refused(status);
  status = dnn.set(pack, kIds, kNumber, static_cast<int64_t>(all), graph->ids.data());
  if (!status) status = dnn.set(pack, kPointers, kAddress, static_cast<int64_t>(all), pointers);
  if (!status) status = dnn.set(pack, kSpace, kAddress, 1, &at);
  if (!status) status = dnn.finalize(pack);
  if (!status) status = dnn.execute(handle, graph->plan, pack);
  PyObject* answer = status ? refused(status) : Py_NewRef(Py_None);
  dnn.destroy(pack);
  return answer;
}

PyMethodDef functions[] = {
    {"cudnn_open", guarded<py_open>, METH_O, "cudnn_open(path): open cuDNN for graphs that run"},
    {"cudnn_prepared", guarded<py_prepared>, METH_VARARGS,
     "cudnn_prepared(plan, space, ids, values): a prepared graph, as cudnn_run takes it"},
    {"cudnn_forget", guarded<py_forget>, METH_O, "cudnn_forget(prepared): the end of a prepared graph"},
    {"cudnn_run", guarded_method<py_run>(), METH_FASTCALL, "cudnn_run(prepared, handle, *tensors): queue a graph"},
    {}};

}  // namespace

int init_cuda_dnn(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace rl

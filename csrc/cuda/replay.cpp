// Replays of compiled graphs: whether a recorded call serves the tensors that are given now, its launch, and new tensors
// over its results (rushlight/inductor/replay.py). In Python that took longer than the driver takes to launch.
#include "boundary.h"
#include "cuda/device.h"
#include "tensor.h"

namespace rl {

namespace {

bool is_at(PyObject* given, PyObject* addresses) {
  Py_ssize_t count = PySequence_Fast_GET_SIZE(given);
  if (count != PyTuple_GET_SIZE(addresses)) return false;
  for (Py_ssize_t k = 0; k < count; k++) {
    PyObject* o = PySequence_Fast_GET_ITEM(given, k);
    if (!is_tensor(o)) return false;
    auto at = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(as_tensor(o)->data()));
    if (at != PyLong_AsUnsignedLongLongMask(PyTuple_GET_ITEM(addresses, k))) return false;
  }
  return true;
}

bool is_held(PyObject* results, PyObject* holders) {
  Py_ssize_t which = 0;
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(results); k++) {
    PyObject* o = PyTuple_GET_ITEM(results, k);
    if (!is_tensor(o)) continue;
    const Storage* storage = as_tensor(o)->storage;
    if (which >= PyTuple_GET_SIZE(holders)) return true;
    if (PyLong_AsLongLong(PyTuple_GET_ITEM(holders, which++)) != storage->refs.load(std::memory_order_relaxed))
      return true;
  }
  return false;
}

// cuda_replay(graph, device, given, addresses, results, holders, prepare): new tensors over the results of a recorded
// call, its work queued on the device's first stream, after `prepare` was called unless it is None. False where the
// tensors given are elsewhere than it was recorded with, or another stream is current; None where somebody else holds
// its results.
PyObject* replay(PyObject*, PyObject* args) {
  PyObject *device, *given, *addresses, *results, *holders, *prepare;
  unsigned long long graph;
  Device d;
  if (!PyArg_ParseTuple(args, "KOOO!O!O!O", &graph, &device, &given, &PyTuple_Type, &addresses, &PyTuple_Type, &results,
                        &PyTuple_Type, &holders, &prepare) ||
      !parse_device(device, &d))
    return nullptr;
  Ref items(PySequence_Fast(given, "cuda_replay: expected tensors"));
  Stream* stream = items ? current_stream(d) : nullptr;
  if (!stream) return nullptr;
  if (stream->number || !is_at(items.p, addresses)) Py_RETURN_FALSE;
  if (is_held(results, holders)) Py_RETURN_NONE;
  Ref own(PyList_New(PyTuple_GET_SIZE(results)));
  for (Py_ssize_t k = 0; own && k < PyTuple_GET_SIZE(results); k++) {
    PyObject* o = PyTuple_GET_ITEM(results, k);
    o = is_tensor(o) ? as_object(tensor_shallow_copy(as_tensor(o), true)) : Py_NewRef(o);
    if (!o) return nullptr;
    PyList_SET_ITEM(own.p, k, o);
  }
  if (!own || (prepare != Py_None && !Ref(PyObject_CallNoArgs(prepare)))) return nullptr;
  stream->jobs++;
  int status = cuda::launch_graph(d.index, reinterpret_cast<void*>(graph), stream->handle);
  return device_ok(stream->unit, status, "replay") ? own.release() : nullptr;
}

PyMethodDef functions[] = {{"cuda_replay", guarded<replay>, METH_VARARGS,
                            "cuda_replay(graph, device, given, addresses, results, holders, prepare): a recorded call's "
                            "results again; False where it does not serve, None where they are held"},
                           {}};

}  // namespace

int init_cuda_replay(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace rl

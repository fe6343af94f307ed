// Fourier transforms on CUDA devices by cuFFT, as steps of plans: a kernel of form kTransform. The library's plans are
// made in Python (rushlight/devices/cuda/fourier.py), which hands their numbers to the steps.
#include <dlfcn.h>

#include <mutex>

#include "boundary.h"
#include "cuda/device.h"

namespace rl {

namespace {

using cuda::Handle;

struct Fft {
  int (*set_stream)(int, Handle) = nullptr;
  int (*set_room)(int, void*) = nullptr;
  int (*complex_single)(int, void*, void*, int) = nullptr;
  int (*complex_double)(int, void*, void*, int) = nullptr;
  int (*real_single)(int, void*, void*) = nullptr;
  int (*real_double)(int, void*, void*) = nullptr;
  int (*back_single)(int, void*, void*) = nullptr;
  int (*back_double)(int, void*, void*) = nullptr;
} fft;

std::mutex running;   // a plan has one stream and one room at a time

}  // namespace

namespace cuda {

// operands: source, result, room; params: the library's plan, the kind as it numbers them, the direction.
int launch_transform(void* stream, const RushlightLaunch& l, const char** why) {
  int plan = static_cast<int>(l.params[0]), direction = static_cast<int>(l.params[2]);
  void *source = l.operands[0], *result = l.operands[1];
  std::lock_guard<std::mutex> lock(running);
  if (fft.set_stream(plan, stream) || fft.set_room(plan, l.operands[2]))
    return *why = "cuFFT does not take the stream or the room of a transform", RUSHLIGHT_FAILED;
  int status = 1;
  switch (l.params[1]) {
    case 0x29: status = fft.complex_single(plan, source, result, direction); break;
    case 0x69: status = fft.complex_double(plan, source, result, direction); break;
    case 0x2a: status = fft.real_single(plan, source, result); break;
    case 0x6a: status = fft.real_double(plan, source, result); break;
    case 0x2c: status = fft.back_single(plan, source, result); break;
    case 0x6c: status = fft.back_double(plan, source, result); break;
  }
  if (status) *why = "cuFFT refused a transform";
  return status ? RUSHLIGHT_FAILED : RUSHLIGHT_OK;
}

}  // namespace cuda

namespace {

// cuda_fft(path): opens the library; OSError where it is not one.
PyObject* py_fft(PyObject*, PyObject* path) {
  const char* text = PyUnicode_AsUTF8(path);
  void* library = text ? dlopen(text, RTLD_NOW | RTLD_GLOBAL) : nullptr;
  if (!library) return text ? PyErr_Format(PyExc_OSError, "cuda: no cuFFT: %s", dlerror()) : nullptr, nullptr;
  Fft found;
  std::pair<void**, const char*> names[] = {
      {reinterpret_cast<void**>(&found.set_stream), "cufftSetStream"},
      {reinterpret_cast<void**>(&found.set_room), "cufftSetWorkArea"},
      {reinterpret_cast<void**>(&found.complex_single), "cufftExecC2C"},
      {reinterpret_cast<void**>(&found.complex_double), "cufftExecZ2Z"},
      {reinterpret_cast<void**>(&found.real_single), "cufftExecR2C"},
      {reinterpret_cast<void**>(&found.real_double), "cufftExecD2Z"},
      {reinterpret_cast<void**>(&found.back_single), "cufftExecC2R"},
      {reinterpret_cast<void**>(&found.back_double), "cufftExecZ2D"}};
  for (auto& [place, name] : names)
    if (!(*place = dlsym(library, name))) return PyErr_Format(PyExc_OSError, "cuda: this cuFFT has no %s", name);
  fft = found;
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"cuda_fft", guarded<py_fft>, METH_O, "cuda_fft(path): open cuFFT for transforms in plans"}, {}};

}  // namespace

int init_cuda_fft(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace rl

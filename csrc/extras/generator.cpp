// `_C.Generator` and `_C.sample`: the Python face of random.h. Every entry point is called with the interpreter
// lock held; sampling releases it.
#include "build.h"
#include "boundary.h"
#include "device.h"
#include "random.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <new>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "tensor.h"
#include "unlocked.h"

#include <structmember.h>

namespace rl {

namespace {

using random::Generator;
using random::Region;

// Numbers of other devices than the CPU are a function of a seed and of how many were drawn, which is all that is kept
// for them; kernels there do the rest.
struct GeneratorObject {
  PyObject_HEAD
  Generator* generator;              // null: of another device
  PyObject* weakrefs;
  Device device;
  uint64_t seed, offset;
};

constexpr uint64_t kFirstSeed = 67280421310721;
constexpr int64_t kDeviceState = 16;             // bytes: seed, offset
uint64_t device_seed = kFirstSeed;               // of generators of devices that are not made yet
std::vector<PyObject*> device_generators;        // the default ones

PyTypeObject* generator_type = nullptr;
PyObject* default_generator = nullptr;

GeneratorObject* object_of(PyObject* self) { return reinterpret_cast<GeneratorObject*>(self); }
Generator& of(PyObject* self) { return *object_of(self)->generator; }
bool elsewhere(PyObject* self) { return !object_of(self)->generator; }

void start(PyObject* self, uint64_t seed) {
  if (elsewhere(self)) object_of(self)->seed = seed, object_of(self)->offset = 0;
  else of(self).manual_seed(seed);
}

// PyTorch's class of error where a generator's device is not there; other uses of it raise AssertionError.
PyObject* as_runtime_error() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Ref text(value ? PyObject_Str(value) : nullptr);
  if (text) PyErr_SetObject(PyExc_RuntimeError, text.p);
  Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(traceback);
  return nullptr;
}

PyObject* generator_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"device", nullptr};
  PyObject* device_arg = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:Generator", const_cast<char**>(names), &device_arg))
    return nullptr;
  Device device;
  if (device_arg != Py_None && !parse_device(device_arg, &device)) return nullptr;
  if (device.type == kMeta)
    return PyErr_SetString(PyExc_RuntimeError, "Generator: device 'meta' draws no numbers, so it has none"), nullptr;
  if (device.type != kCPU && !find_unit(device))
    return PyErr_ExceptionMatches(PyExc_NotImplementedError) ? nullptr : as_runtime_error();
  auto* self = reinterpret_cast<GeneratorObject*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->device = device, self->seed = kFirstSeed, self->offset = 0;
  if (device.type != kCPU) return as_object(self);
  self->generator = new (std::nothrow) Generator();
  if (self->generator == nullptr) {
    Py_DECREF(self);
    return PyErr_NoMemory();
  }
  return as_object(self);
}

void generator_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  auto* object = reinterpret_cast<GeneratorObject*>(self);
  if (object->weakrefs != nullptr) PyObject_ClearWeakRefs(self);
  delete object->generator;
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* generator_manual_seed(PyObject* self, PyObject* value) {
  if (!PyLong_CheckExact(value)) {
    PyErr_Format(PyExc_RuntimeError, "manual_seed: expected an int, got %s", Py_TYPE(value)->tp_name);
    return nullptr;
  }
  // Whatever fits 64 bits either way; a negative seed keeps its two's complement bits.
  uint64_t seed = PyLong_AsUnsignedLongLong(value);
  if (PyErr_Occurred()) {
    PyErr_Clear();
    seed = static_cast<uint64_t>(PyLong_AsLongLong(value));
  }
  if (PyErr_Occurred()) {
    PyErr_Clear();
    PyErr_Format(PyExc_ValueError, "manual_seed: expected a seed in [-2**63, 2**64 - 1], got %R (overflow)", value);
    return nullptr;
  }
  start(self, seed);
  return Py_NewRef(self);
}

PyObject* generator_seed(PyObject* self, PyObject*) {
  std::random_device device;
  const uint64_t high = device();
  const uint64_t seed = high << 32 | device();
  start(self, seed);
  return PyLong_FromUnsignedLongLong(seed);
}

PyObject* generator_initial_seed(PyObject* self, PyObject*) {
  if (elsewhere(self)) return PyLong_FromUnsignedLongLong(object_of(self)->seed);
  const std::lock_guard lock(of(self).mutex);
  return PyLong_FromUnsignedLongLong(of(self).engine.seed());
}

PyObject* generator_get_state(PyObject* self, PyObject*) {
  const int64_t size = elsewhere(self) ? kDeviceState : static_cast<int64_t>(random::kStateBytes);
  Tensor* state = tensor_empty(&size, nullptr, 1, DType::U8, Device{});
  if (state != nullptr && elsewhere(self)) memcpy(state->data(), &object_of(self)->seed, kDeviceState);
  else if (state != nullptr) of(self).write_state(reinterpret_cast<unsigned char*>(state->data()));
  return as_object(state);
}

PyObject* generator_set_state(PyObject* self, PyObject* value) {
  if (!is_tensor(value)) {
    PyErr_Format(PyExc_TypeError, "set_state: expected a uint8 Tensor, got %s", Py_TYPE(value)->tp_name);
    return nullptr;
  }
  Tensor* state = as_tensor(value);
  if (state->dtype != DType::U8 || state->device.type != kCPU || !state->contiguous()) {
    PyErr_Format(PyExc_TypeError, "set_state: RNG state must be a contiguous uint8 tensor on the CPU, got %s on %s",
                 info(state->dtype).name, device_type_name(state->device.type));
    return nullptr;
  }
  const int64_t size = elsewhere(self) ? kDeviceState : static_cast<int64_t>(random::kStateBytes);
  if (state->numel != size) {
    PyErr_Format(PyExc_RuntimeError, "set_state: expected a state of %lld bytes, got %lld",
                 static_cast<long long>(size), static_cast<long long>(state->numel));
    return nullptr;
  }
  if (!tensor_readable(state, "set_state")) return nullptr;
  if (elsewhere(self)) return memcpy(&object_of(self)->seed, state->data(), kDeviceState), Py_NewRef(self);
  if (!of(self).read_state(reinterpret_cast<unsigned char*>(state->data()))) {
    PyErr_SetString(PyExc_RuntimeError, "set_state: invalid mt19937 state");
    return nullptr;
  }
  return Py_NewRef(self);
}

PyObject* generator_clone_state(PyObject* self, PyObject*) {
  Ref device(device_object(object_of(self)->device));
  PyObject* copy = device ? PyObject_CallOneArg(as_object(Py_TYPE(self)), device.p) : nullptr;
  if (copy == nullptr) return nullptr;
  if (elsewhere(self))
    return object_of(copy)->seed = object_of(self)->seed, object_of(copy)->offset = object_of(self)->offset, copy;
  unsigned char bytes[random::kStateBytes];
  of(self).write_state(bytes);
  of(copy).read_state(bytes);
  return copy;
}

PyObject* no_offset() {
  PyErr_SetString(PyExc_RuntimeError,
                  "Generator: a CPU generator does not use an offset. Use get_state and set_state.");
  return nullptr;
}

PyObject* generator_get_offset(PyObject* self, PyObject*) {
  return elsewhere(self) ? PyLong_FromUnsignedLongLong(object_of(self)->offset) : no_offset();
}

PyObject* generator_set_offset(PyObject* self, PyObject* value) {
  if (!elsewhere(self)) return no_offset();
  const uint64_t offset = PyLong_AsUnsignedLongLong(value);
  if (PyErr_Occurred()) return nullptr;
  if (offset % 4) return PyErr_SetString(PyExc_RuntimeError, "set_offset: offset must be a multiple of 4"), nullptr;
  object_of(self)->offset = offset;
  Py_RETURN_NONE;
}

PyObject* no_graphsafe() {
  PyErr_SetString(PyExc_NotImplementedError, "Generator: a CPU generator has no graph-safe state. "
                                             "Use get_state and set_state.");
  return nullptr;
}

PyObject* generator_graphsafe_get(PyObject* self, PyObject*) {
  return elsewhere(self) ? generator_clone_state(self, nullptr) : no_graphsafe();
}

PyObject* generator_graphsafe_set(PyObject* self, PyObject* other) {
  if (!elsewhere(self)) return no_graphsafe();
  if (!PyObject_TypeCheck(other, generator_type) || !elsewhere(other))
    return PyErr_SetString(PyExc_TypeError, "graphsafe_set_state: expected a generator of a device"), nullptr;
  object_of(self)->seed = object_of(other)->seed, object_of(self)->offset = object_of(other)->offset;
  return Py_NewRef(self);
}

// Pickles as PyTorch does: (type, (device,), (seed, offset, state)).
PyObject* generator_reduce(PyObject* self, PyObject*) {
  Ref device(device_object(object_of(self)->device)), seed(generator_initial_seed(self, nullptr)),
      state(generator_get_state(self, nullptr));
  if (!device || !seed || !state) return nullptr;
  return Py_BuildValue("O(O)(OOO)", Py_TYPE(self), device.p, seed.p, Py_None, state.p);
}

PyObject* generator_setstate(PyObject* self, PyObject* value) {
  PyObject *seed, *offset, *state;
  if (!PyArg_ParseTuple(value, "OOO:__setstate__", &seed, &offset, &state)) return nullptr;
  Ref done(generator_set_state(self, state));
  if (!done) return nullptr;
  Py_RETURN_NONE;
}

PyObject* generator_device(PyObject* self, void*) { return device_object(object_of(self)->device); }

// device_generator(device): the default generator of a unit.
PyObject* py_device_generator(PyObject*, PyObject* given) {
  Device device;
  if (!parse_device(given, &device)) return nullptr;
  if (device.type == kCPU) return Py_NewRef(default_generator);
  for (PyObject* known : device_generators)
    if (object_of(known)->device == device) return Py_NewRef(known);
  PyObject* result = PyObject_CallOneArg(as_object(generator_type), given);
  if (result == nullptr) return nullptr;
  object_of(result)->seed = device_seed;
  device_generators.push_back(result);
  return Py_NewRef(result);
}

// seed_device_generators(seed): those that are, and those to come.
PyObject* py_seed_devices(PyObject*, PyObject* value) {
  const uint64_t seed = PyLong_AsUnsignedLongLongMask(value);
  if (PyErr_Occurred()) return nullptr;
  device_seed = seed;
  for (PyObject* known : device_generators) start(known, seed);
  Py_RETURN_NONE;
}

PyMethodDef generator_methods[] = {
    {"manual_seed", guarded<generator_manual_seed>, METH_O, "Restart the stream from `seed`; returns the generator."},
    {"seed", guarded<generator_seed>, METH_NOARGS, "Restart from a seed the system chose; returns it."},
    {"initial_seed", guarded<generator_initial_seed>, METH_NOARGS, "The seed the stream was started from."},
    {"get_state", guarded<generator_get_state>, METH_NOARGS,
     "The state as a uint8 tensor of 5056 elements, in PyTorch's layout."},
    {"set_state", guarded<generator_set_state>, METH_O,
     "Continue from a state that get_state (here or in PyTorch) returned."},
    {"clone_state", guarded<generator_clone_state>, METH_NOARGS, "A new generator that continues as this one would."},
    {"get_offset", guarded<generator_get_offset>, METH_NOARGS,
     "How many numbers a device's generator has drawn; a CPU generator has no offset."},
    {"set_offset", guarded<generator_set_offset>, METH_O, "Continue a device's generator behind so many numbers."},
    {"graphsafe_get_state", guarded<generator_graphsafe_get>, METH_NOARGS, "A device's generator's state, as one."},
    {"graphsafe_set_state", guarded<generator_graphsafe_set>, METH_O, "Continue as another device's generator."},
    {"__reduce__", guarded<generator_reduce>, METH_NOARGS, nullptr},
    {"__setstate__", guarded<generator_setstate>, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef generator_attributes[] = {{"device", generator_device, nullptr, "Whose numbers it draws.", nullptr},
                                      {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMemberDef generator_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(GeneratorObject, weakrefs), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyType_Slot generator_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(guarded<generator_new>)},
    {Py_tp_dealloc, reinterpret_cast<void*>(generator_dealloc)},
    {Py_tp_methods, generator_methods},
    {Py_tp_getset, generator_attributes},
    {Py_tp_members, generator_members},
    {Py_tp_doc, const_cast<char*>("Generator(device='cpu'): a stream of random numbers equal to PyTorch's.")},
    {0, nullptr}};
PyType_Spec generator_spec = {"rushlight._C.Generator", sizeof(GeneratorObject), 0,
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, generator_slots};

// ---- sample(generator, name, tensors, a, b) -------------------------------------------------------------------

// False with an exception if these are no tensors, without one if some live on another device.
bool are_on_host(PyObject* tensors) {
  if (!PyTuple_Check(tensors) || PyTuple_GET_SIZE(tensors) == 0) {
    PyErr_SetString(PyExc_TypeError, "sample: expected a non-empty tuple of tensors");
    return false;
  }
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(tensors); ++k) {
    PyObject* item = PyTuple_GET_ITEM(tensors, k);
    if (!is_tensor(item)) {
      PyErr_Format(PyExc_TypeError, "sample: expected tensors, got %s", Py_TYPE(item)->tp_name);
      return false;
    }
    if (as_tensor(item)->device.type != kCPU) return false;
  }
  return true;
}

// Whether tensors of one shape are dense rows, all of them: then they are one row, and nothing has to find that out.
bool is_one_row(PyObject* tensors) {
  Tensor* first = as_tensor(PyTuple_GET_ITEM(tensors, 0));
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(tensors); ++k) {
    Tensor* t = as_tensor(PyTuple_GET_ITEM(tensors, k));
    if (!t->contiguous() || t->ndim != first->ndim || t->ndim < 2) return false;
    if (!std::equal(t->sizes(), t->sizes() + t->ndim, first->sizes())) return false;
  }
  return true;
}

bool read_region(PyObject* tensors, Region* region) {
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(tensors); ++k) {
    Tensor* t = as_tensor(PyTuple_GET_ITEM(tensors, k));
    if (!check_host_data(t, "sample")) return false;   // a wrapper has sizes but no bytes
    const random::Kind kind = random::kind_of(info(t->dtype).code);
    if (kind == random::Kind::unknown) {
      PyErr_Format(PyExc_NotImplementedError, "sample: not implemented for %s", info(t->dtype).name);
      return false;
    }
    if (k == 0) {
      region->sizes.assign(t->sizes(), t->sizes() + t->ndim);
      for (int d = 0; d < t->ndim; ++d) {
        if (t->strides()[d] != 0 || t->sizes()[d] < 2) continue;
        PyErr_SetString(PyExc_RuntimeError, "sample: several elements of the written-to tensor refer to a single "
                                            "memory location. Write to tensor.clone().");
        return false;
      }
    }
    // multinomial's weights have their own last size; everything else is read at the written element's index.
    if (static_cast<size_t>(t->ndim) != region->sizes.size()) {
      PyErr_SetString(PyExc_ValueError, "sample: the tensors must have one number of dimensions");
      return false;
    }
    thread_state().noting = 0;
    random::Operand operand = {t->data(), kind, std::vector<int64_t>(t->strides(), t->strides() + t->ndim)};
    for (int64_t& stride : operand.strides) stride *= itemsize(t->dtype);
    region->operands.push_back(std::move(operand));
  }
  return true;
}

struct Sampler {
  std::string_view name;
  size_t operands;
  const char* (*run)(Generator&, Region&, double, double);
  bool one_by_one = true;            // each element by itself, wherever it lies
};

const Sampler samplers[] = {
    {"uniform", 1, random::uniform},
    {"normal", 1, random::normal},
    {"log_normal", 1, random::log_normal},
    {"cauchy", 1, random::cauchy},
    {"exponential", 1, [](Generator& g, Region& r, double a, double) { return random::exponential(g, r, a); }},
    {"geometric", 1, [](Generator& g, Region& r, double a, double) { return random::geometric(g, r, a); }},
    {"bernoulli", 1, random::bernoulli},
    {"bits64", 1, [](Generator& g, Region& r, double, double) { return random::random_bits64(g, r); }},
    {"full", 1, [](Generator& g, Region& r, double, double) { return random::random_full(g, r); }},
    {"permutation", 1, [](Generator& g, Region& r, double, double) { return random::permutation(g, r); }},
    {"bernoulli_tensor", 2, [](Generator& g, Region& r, double, double) { return random::bernoulli_tensor(g, r); }},
    {"poisson", 2, [](Generator& g, Region& r, double, double) { return random::poisson(g, r); }},
    {"gamma", 2, [](Generator& g, Region& r, double, double) { return random::standard_gamma(g, r); }},
    {"dirichlet", 2, [](Generator& g, Region& r, double, double) { return random::dirichlet(g, r); }, false},
    {"binomial", 3, [](Generator& g, Region& r, double, double) { return random::binomial(g, r); }},
    {"rrelu", 3, random::rrelu},
    {"multinomial", 2,
     [](Generator& g, Region& r, double a, double) { return random::multinomial(g, r, static_cast<int64_t>(a)); },
     false},
};

const Sampler* find_sampler(std::string_view name, size_t operands) {
  for (const Sampler& candidate : samplers) {
    if (candidate.name == name && candidate.operands == operands) return &candidate;
  }
  return nullptr;
}

constexpr int64_t kFew = 1024;

// "range" takes exact integers (how many values, the first of them); every other sampler takes doubles.
PyObject* sample(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count < 3 || count > 5) return PyErr_SetString(PyExc_TypeError, "sample: expected 3 to 5 arguments"), nullptr;
  PyObject *generator = args[0], *tensors = args[2];
  PyObject *a = count > 3 ? args[3] : nullptr, *b = count > 4 ? args[4] : nullptr;
  const char* name = PyUnicode_AsUTF8(args[1]);
  if (name == nullptr) return nullptr;
  if (generator == Py_None) generator = default_generator;
  if (!PyObject_TypeCheck(generator, generator_type)) {
    PyErr_Format(PyExc_TypeError, "generator: expected a Generator, got %s", Py_TYPE(generator)->tp_name);
    return nullptr;
  }
  if (!are_on_host(tensors)) return PyErr_Occurred() ? nullptr : Py_NewRef(Py_False);
  if (elsewhere(generator)) {
    PyErr_Format(PyExc_RuntimeError, "Expected a 'cpu' device type for generator but found '%s'",
                 device_type_name(object_of(generator)->device.type));
    return nullptr;
  }
  Region region;
  if (!read_region(tensors, &region)) return nullptr;
  const bool is_range = std::string_view(name) == "range";
  const Sampler* sampler = find_sampler(name, region.operands.size());
  if ((is_range || (sampler != nullptr && sampler->one_by_one)) && is_one_row(tensors)) region.flatten();
  if (!is_range && sampler == nullptr) {
    PyErr_Format(PyExc_ValueError, "sample: no sampler '%s' with %zu operands", name, region.operands.size());
    return nullptr;
  }
  double first = 0, second = 0;
  uint64_t range = 1;
  int64_t base = 0;
  if (is_range) {
    if (a != nullptr) range = PyLong_AsUnsignedLongLong(a);
    if (b != nullptr) base = PyLong_AsLongLong(b);
  } else {
    if (a != nullptr) first = PyFloat_AsDouble(a);
    if (b != nullptr) second = PyFloat_AsDouble(b);
  }
  if (PyErr_Occurred()) return nullptr;
  const char* error;
  {
    std::optional<Unlocked> others_run;   // a few numbers are drawn sooner than the lock changes hands
    if (as_tensor(PyTuple_GET_ITEM(tensors, 0))->numel > kFew) others_run.emplace();
    error = is_range ? random::random_range(of(generator), region, range, base)
                     : sampler->run(of(generator), region, first, second);
  }
  if (error != nullptr) {
    PyErr_SetString(PyExc_RuntimeError, error);
    return nullptr;
  }
  Py_RETURN_TRUE;
}

// A step of a plan: fills its operand from the default generator. The parameters: a sampler's number, the elements'
// kind, the bits of both numbers that the sampler takes, how many dims there are, their sizes, and strides in bytes.
void draw_step(char** ptrs, const int64_t* params, int64_t begin, int64_t end) {
  if (begin >= end) return;
  const int64_t ndim = params[4];
  Region region;
  region.sizes.assign(params + 5, params + 5 + ndim);
  region.operands.push_back({ptrs[0], static_cast<random::Kind>(params[1]), {params + 5 + ndim, params + 5 + 2 * ndim}});
  samplers[params[0]].run(of(default_generator), region, std::bit_cast<double>(params[2]),
                          std::bit_cast<double>(params[3]));
}

// drawing_step(sampler, dtype) -> (address of a kernel, the sampler's number, the dtype's kind)
PyObject* drawing_step(PyObject*, PyObject* args) {
  const char *name, *code;
  if (!PyArg_ParseTuple(args, "ss:drawing_step", &name, &code)) return nullptr;
  const Sampler* sampler = find_sampler(name, 1);
  const random::Kind kind = random::kind_of(code);
  if (sampler == nullptr || kind == random::Kind::unknown) {
    return PyErr_Format(PyExc_ValueError, "drawing_step: no sampler '%s' of one operand for dtype '%s'", name, code);
  }
  return Py_BuildValue("Kni", static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(&draw_step)),
                       static_cast<Py_ssize_t>(sampler - samplers), static_cast<int>(kind));
}

PyMethodDef functions[] = {
    {"drawing_step", guarded<drawing_step>, METH_VARARGS,
     "drawing_step(sampler, dtype code): the kernel that fills an operand from the default generator, and what it takes "
     "for the sampler and the dtype"},
    {"sample", guarded_method<sample>(), METH_FASTCALL,
     "sample(generator, name, tensors, a=0, b=0): fill tensors[0], reading the others. None: the default generator. "
     "False, with nothing drawn, where a tensor is not on the CPU."},
    {"device_generator", guarded<py_device_generator>, METH_O, "device_generator(device): the default one of a unit"},
    {"seed_device_generators", guarded<py_seed_devices>, METH_O,
     "seed_device_generators(seed): restart the default ones of all units but the CPU"},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

int init_random(PyObject* module) {
  PyObject* type = PyType_FromSpec(&generator_spec);
  if (type == nullptr) return -1;
  generator_type = reinterpret_cast<PyTypeObject*>(type);
  default_generator = PyObject_CallNoArgs(type);
  if (default_generator == nullptr) return -1;
  if (PyModule_AddObjectRef(module, "Generator", type) < 0) return -1;
  if (PyModule_AddObjectRef(module, "default_generator", default_generator) < 0) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace rl

// Exchanging tensors through DLPack capsules without copying.
#include "build.h"
#include "boundary.h"
#include "dlpack.h"

#include "device.h"

#include "geometry.h"
#include "tape.h"

namespace rl {

namespace {

// --- the ABI --------------------------------------------------------------------------------------------------------

struct DLDevice {
  int32_t device_type, device_id;
};
struct DLDataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct Managed {
  DLTensor tensor;
  void* context;
  void (*deleter)(Managed*);
};
struct ManagedVersioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(ManagedVersioned*);
  uint64_t flags;
  DLTensor tensor;
};

enum : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBoolean = 6, kE4M3FN = 10, kE5M2 = 12 };
enum : uint64_t { kReadOnly = 1, kCopied = 2 };
constexpr int32_t kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3;
constexpr uint32_t kMajor = 1, kMinor = 0;

const char* const kName = "dltensor";
const char* const kUsed = "used_dltensor";
const char* const kNameVersioned = "dltensor_versioned";
const char* const kUsedVersioned = "used_dltensor_versioned";

DLDataType to_dl(DType d) {
  uint8_t bits = static_cast<uint8_t>(itemsize(d) * 8);
  switch (d) {
    case DType::Bool: return {kBoolean, 8, 1};
    case DType::BF16: return {kBfloat, 16, 1};
    case DType::F8E4M3FN: return {kE4M3FN, 8, 1};
    case DType::F8E5M2: return {kE5M2, 8, 1};
    default: break;
  }
  uint8_t code = is_complex(d) ? kComplex : is_float(d) ? kFloat : info(d).is_signed ? kInt : kUInt;
  return {code, bits, 1};
}

bool from_dl(DLDataType dl, DType* out) {
  for (int i = 0; i < static_cast<int>(DType::FirstOpaque); i++) {
    DLDataType mine = to_dl(static_cast<DType>(i));
    if (mine.code == dl.code && mine.bits == dl.bits && dl.lanes == 1) return *out = static_cast<DType>(i), true;
  }
  PyErr_Format(PyExc_BufferError, "from_dlpack: unsupported element type (code %d, %d bits, %d lanes)", dl.code,
               dl.bits, dl.lanes);
  return false;
}

// --- out ------------------------------------------------------------------------------------------------------------

// Lives until the consumer's deleter call: owns a reference to the storage, not to the Python tensor, so that any
// thread may let go of it without the interpreter.
template <class M>
struct Export {
  M managed;
  Storage* storage;
  int64_t geometry[2 * kMaxDims];
};

template <class M>
void delete_export(M* managed) {
  auto* e = static_cast<Export<M>*>(managed->context);
  e->storage->drop();
  delete e;
}

template <class M>
M* make_export(Tensor* t) {
  auto* e = new Export<M>{};
  e->storage = t->storage;
  e->storage->retain();
  e->storage->resizable = false;   // the consumer holds an address
  memcpy(e->geometry, t->geometry, sizeof(int64_t) * 2 * t->ndim);
  for (int i = 0; i < t->ndim; i++)
    if (t->sizes()[i] <= 1) e->geometry[t->ndim + i] = 1;   // consumers may test strides even where they mean nothing
  e->managed.context = e;
  e->managed.deleter = delete_export<M>;
  DLTensor& d = e->managed.tensor;
  flush_device(t->device);
  thread_state().noting = 0;
  d.data = t->storage->data ? t->data() : nullptr;
  d.device = {t->device.type == kCPU ? kDLCPU : kDLCUDA, t->device.type == kCPU ? 0 : t->device.index};
  d.ndim = t->ndim;
  d.dtype = to_dl(t->dtype);
  d.shape = e->geometry;
  d.strides = e->geometry + t->ndim;
  d.byte_offset = 0;
  return &e->managed;
}

template <class M>
void drop_capsule(PyObject* capsule, const char* name) {
  if (!PyCapsule_IsValid(capsule, name)) return;   // renamed: the consumer took it over
  auto* managed = static_cast<M*>(PyCapsule_GetPointer(capsule, name));
  if (managed->deleter) managed->deleter(managed);
}
void drop_plain(PyObject* capsule) { drop_capsule<Managed>(capsule, kName); }
void drop_versioned(PyObject* capsule) { drop_capsule<ManagedVersioned>(capsule, kNameVersioned); }

PyObject* py_to_dlpack(PyObject*, PyObject* args) {
  PyObject* tensor;
  int versioned = 0, copied = 0;
  if (!PyArg_ParseTuple(args, "O!|pp:to_dlpack", TensorType, &tensor, &versioned, &copied)) return nullptr;
  Tensor* t = as_tensor(tensor);
  if (tape_requires_grad(t))
    return PyErr_SetString(
               PyExc_BufferError,
               "__dlpack__: the tensor requires a gradient, which DLPack does not carry. Use tensor.detach()"),
           nullptr;
  if (t->keys & kKeyBits)
    return PyErr_Format(PyExc_BufferError,
                        "__dlpack__: cannot export a tensor with the %s bit set, which DLPack does not carry. Use "
                        "tensor.%s()",
                        t->keys & kKeyConjugate ? "conjugate" : "negative",
                        t->keys & kKeyConjugate ? "resolve_conj" : "resolve_neg"),
           nullptr;
  bool on_cuda = !strcmp(device_type_name(t->device.type), "cuda");
  if (t->device.type != kCPU && !on_cuda)
    return PyErr_Format(PyExc_BufferError, "__dlpack__: cannot export a tensor on device '%s'",
                        device_type_name(t->device.type)),
           nullptr;
  if (is_opaque(t->dtype))
    return PyErr_Format(PyExc_BufferError, "__dlpack__: %s has no DLPack type", info(t->dtype).name), nullptr;
  if (!on_cuda && !check_host_data(t, "__dlpack__")) return nullptr;   // wrappers have sizes but no bytes
  if (!versioned) return PyCapsule_New(make_export<Managed>(t), kName, drop_plain);
  ManagedVersioned* managed = make_export<ManagedVersioned>(t);
  managed->major = kMajor;
  managed->minor = kMinor;
  managed->flags = copied ? static_cast<uint64_t>(kCopied) : 0;
  return PyCapsule_New(managed, kNameVersioned, drop_versioned);
}

// --- in -------------------------------------------------------------------------------------------------------------

template <class M>
void release_import(Storage* s) {
  auto* managed = static_cast<M*>(s->context);
  if (!managed->deleter || !Py_IsInitialized()) return;
  PyGILState_STATE gil = PyGILState_Ensure();   // a Python producer's deleter may assume the lock
  managed->deleter(managed);
  PyGILState_Release(gil);
}

Tensor* make_import(const DLTensor& d, void (*release)(Storage*), void* managed) {
  DType dtype;
  Device place{};
  if (d.device.device_type == kDLCUDA) {
    Ref name(PyUnicode_FromFormat("cuda:%d", d.device.device_id));
    if (!name || !parse_device(name.p, &place)) return nullptr;
  } else if (d.device.device_type != kDLCPU && d.device.device_type != kDLCUDAHost) {
    return PyErr_Format(PyExc_BufferError, "from_dlpack: unsupported device type %d", d.device.device_type), nullptr;
  }
  if (!from_dl(d.dtype, &dtype)) return nullptr;
  if (d.ndim < 0 || d.ndim > kMaxDims)
    return PyErr_Format(PyExc_BufferError, "from_dlpack: %d dimensions are not supported", d.ndim), nullptr;
  int64_t strides[kMaxDims];
  if (checked_numel(d.shape, d.ndim) < 0)
    return PyErr_SetString(PyExc_BufferError, "from_dlpack: sizes out of range"), nullptr;
  if (d.strides) memcpy(strides, d.strides, sizeof(int64_t) * d.ndim);
  else contiguous_strides(d.shape, d.ndim, strides);
  for (int i = 0; i < d.ndim; i++)
    if (strides[i] < 0)
      return PyErr_SetString(PyExc_BufferError,
                             "from_dlpack: negative strides are not supported. Copy the array first."),
             nullptr;
  int64_t span = span_elements(d.shape, strides, d.ndim);
  if (span < 0) return PyErr_SetString(PyExc_BufferError, "from_dlpack: sizes or strides out of range"), nullptr;
  Tensor* t = tensor_alloc(TensorType, d.ndim);
  if (!t) return nullptr;
  char* data = static_cast<char*>(d.data);
  if (data) data += d.byte_offset;
  t->storage = storage_wrap(data, static_cast<size_t>(span) * itemsize(dtype), place, release, managed);
  t->device = place;
  t->dtype = dtype;
  memcpy(t->geometry, d.shape, sizeof(int64_t) * d.ndim);
  memcpy(t->geometry + d.ndim, strides, sizeof(int64_t) * d.ndim);
  tensor_finish_geometry(t);
  return t;
}

// (tensor, read_only). The capsule is spent only when this succeeds.
template <class M>
PyObject* import_capsule(PyObject* capsule, const char* name, const char* used, bool read_only) {
  auto* managed = static_cast<M*>(PyCapsule_GetPointer(capsule, name));
  Ref t(as_object(make_import(managed->tensor, release_import<M>, managed)));
  if (!t) return nullptr;
  if (PyCapsule_SetName(capsule, used)) return nullptr;
  return Py_BuildValue("OO", t.p, read_only ? Py_True : Py_False);
}

PyObject* py_from_dlpack(PyObject*, PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kName)) return import_capsule<Managed>(capsule, kName, kUsed, false);
  if (PyCapsule_IsValid(capsule, kNameVersioned)) {
    auto* managed = static_cast<ManagedVersioned*>(PyCapsule_GetPointer(capsule, kNameVersioned));
    if (managed->major > kMajor)
      return PyErr_Format(PyExc_BufferError, "from_dlpack: DLPack version %u.%u is newer than the supported %u.%u",
                          managed->major, managed->minor, kMajor, kMinor),
             nullptr;
    return import_capsule<ManagedVersioned>(capsule, kNameVersioned, kUsedVersioned, managed->flags & kReadOnly);
  }
  PyErr_SetString(PyExc_RuntimeError,
                  "from_dlpack: expected a fresh DLPack capsule. One can be consumed only once, "
                  "and this one may have been.");
  return nullptr;
}

void release_owner(Storage* s) {
  if (!Py_IsInitialized()) return;
  PyGILState_STATE gil = PyGILState_Ensure();
  Py_DECREF(static_cast<PyObject*>(s->context));
  PyGILState_Release(gil);
}

// wrap_memory(address, shape, strides or None, dtype, device, owner): a tensor over a CUDA device's memory, which
// `owner` keeps.
PyObject* py_wrap_memory(PyObject*, PyObject* args) {
  unsigned long long address;
  PyObject *shape, *strides, *dtype, *device, *owner;
  Device place;
  if (!PyArg_ParseTuple(args, "KO!OO!OO", &address, &PyTuple_Type, &shape, &strides, DTypeType, &dtype, &device,
                        &owner) ||
      !parse_device(device, &place))
    return nullptr;
  Py_ssize_t ndim = PyTuple_GET_SIZE(shape);
  if (ndim > kMaxDims || (strides != Py_None && (!PyTuple_Check(strides) || PyTuple_GET_SIZE(strides) != ndim)))
    return PyErr_SetString(PyExc_ValueError, "wrap_memory: expected as many strides as sizes"), nullptr;
  int64_t geometry[2 * kMaxDims];
  for (Py_ssize_t i = 0; i < ndim; i++) {
    geometry[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i));
    if (strides != Py_None) geometry[ndim + i] = PyLong_AsLongLong(PyTuple_GET_ITEM(strides, i));
  }
  if (PyErr_Occurred()) return nullptr;
  DLTensor d{reinterpret_cast<void*>(address), {kDLCUDA, place.index}, static_cast<int32_t>(ndim), to_dl(dtype_of(dtype)),
             geometry, strides == Py_None ? nullptr : geometry + ndim, 0};
  Tensor* t = make_import(d, release_owner, owner);
  if (t) Py_INCREF(owner);
  return t ? as_object(t) : nullptr;
}

PyMethodDef functions[] = {
    {"wrap_memory", guarded<py_wrap_memory>, METH_VARARGS,
     "wrap_memory(address, shape, strides, dtype, device, owner): a tensor over memory that `owner` keeps"},
    {"to_dlpack", guarded<py_to_dlpack>, METH_VARARGS,
     "to_dlpack(tensor, versioned=False, copied=False): a capsule over the tensor's memory"},
    {"from_dlpack", guarded<py_from_dlpack>, METH_O, "(tensor over the capsule's memory, whether it is read-only)"},
    {}};

}  // namespace

int init_dlpack(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace rl

// The core's vocabulary: element types, devices, thread-local modes. Knows nothing of ops.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>
#include <cstring>

struct RushlightDevice;   // device_table.h

namespace rl {

enum class DType : uint8_t {
  Bool,
  U8,
  I8,
  I16,
  I32,
  I64,
  F16,
  F32,
  F64,
  C64,
  C128,
  BF16,
  U16,
  U32,
  U64,
  F8E4M3FN,
  F8E5M2,
  C32,
  F8E4M3FNUZ,
  F8E5M2FNUZ,
  F8E8M0FNU,
  FirstOpaque,  // from here on: types that are stored and named but not computed with
  F4E2M1FNX2 = FirstOpaque,
  QI8,
  QU8,
  QI32,
  QU4X2,
  QU2X4,
  BITS1X8,
  BITS2X4,
  BITS4X2,
  BITS8,
  BITS16,
  I1,
  I2,
  I3,
  I4,
  I5,
  I6,
  I7,
  U1,
  U2,
  U3,
  U4,
  U5,
  U6,
  U7,
  Count
};

struct DTypeInfo {
  const char* name;   // PyTorch's name: "float32"
  const char* code;   // the loop language's name: "f32"
  const char* legacy; // in the names of PyTorch's oldest tensor types: "Float"
  uint8_t itemsize;
  bool floating, complex, is_signed;
};

extern PyObject*
    display_module;  // the module users know names by (a str): "rushlight", or "torch" while Rushlight serves it
extern const DTypeInfo
    kDTypes[static_cast<int>(DType::Count)];  // facts about dtypes are columns of this table, never tables of their own
inline const DTypeInfo& info(DType d) { return kDTypes[static_cast<int>(d)]; }
inline int itemsize(DType d) { return info(d).itemsize; }
inline bool is_float(DType d) { return info(d).floating; }
inline bool is_opaque(DType d) { return d >= DType::FirstOpaque; }
inline bool is_complex(DType d) { return info(d).complex; }
inline DType part_of(DType d) {
  return d == DType::C64 ? DType::F32 : d == DType::C128 ? DType::F64 : DType::F16;
}  // of a complex type
inline bool is_differentiable(DType d) { return info(d).floating || info(d).complex; }

struct DTypeObject {
  PyObject_HEAD
  DType id;
};
extern PyTypeObject* DTypeType;
PyObject* dtype_object(DType d);                       // borrowed singleton
inline bool is_dtype(PyObject* o) { return Py_TYPE(o) == DTypeType; }
PyObject* python_type_dtype(
    PyObject* o);  // borrowed: the dtype a Python number type stands for (float: float64); null for anything else
inline DType dtype_of(PyObject* o) { return reinterpret_cast<DTypeObject*>(o)->id; }

// Device types are numbered at registration: 0 cpu, 1 meta, then whatever is plugged in.
struct Device {
  uint8_t type = 0;
  uint8_t index = 0;
  bool operator==(const Device& o) const { return type == o.type && index == o.index; }
  bool operator!=(const Device& o) const { return !(*this == o); }
};
constexpr uint8_t kCPU = 0, kMeta = 1;

struct DeviceObject {
  PyObject_HEAD
  Device device;
  bool has_index;
};
extern PyTypeObject* DeviceType;
PyObject* device_object(Device d);                     // new reference
// The GPU that a number stands for: a new reference; null, without an error, for what is no such number.
PyObject* unit_device(PyObject* o);
inline bool is_device(PyObject* o) { return Py_TYPE(o) == DeviceType; }
bool parse_device(PyObject* o, Device* out);           // str, device or int; sets an exception on failure
const char* device_type_name(uint8_t type);

// What a registered device provides. The core's own (cpu, meta) leave `handler` null.
struct DeviceEntry {
  char name[32];
  PyObject* handler = nullptr;   // the Python object: loads kernels, names library functions
  const ::RushlightDevice* table = nullptr;   // device_table.h: memory, copies, launches, streams
  bool is_native = false;        // the table is the device's own: no Python, no interpreter lock
  bool has_data = true;          // meta has none
  bool records = false;          // calls are written down (recording.h); it has no data then
  bool is_absent = false;        // a name PyTorch programs know, without a package here: devices can be named, not used
};
constexpr int kMostDevices = 256;
extern DeviceEntry kDevices[kMostDevices];
extern int num_devices;
bool device_appears(uint8_t type);   // asks whoever may know how to find it; false with an exception where it stays away
extern thread_local uint8_t
    current_units[kMostDevices];  // by device type: what a device named without an index means on this thread

// Bits that leave the fast path. A tensor carries its own; a thread carries those of its modes.
enum Key : uint32_t {
  kKeySubclass = 1u << 0,        // tensor subclass with __torch_function__ / __torch_dispatch__
  kKeyMode = 1u << 1,            // a TorchFunctionMode or TorchDispatchMode is active
  kKeyFunctorch = 1u << 2,       // a vmap, grad or jvp level is active, or a tensor belongs to one
  kKeyFunctionalize = 1u << 3,
  kKeyAutocast = 1u << 4,
  kKeyTracer = 1u << 5,
  kKeyAten = 1u << 6,            // the innermost mode is a program's: it sees ATen's calls
  kKeyShow = 1u << 7,            // RUSHLIGHT_SHOW=dispatch
  kKeyOverride = 1u << 8,        // the op itself has registered kernels (library.impl)
  kKeyConjugate = 1u << 9,       // the elements are the conjugates of what the memory holds (complex tensors)
  kKeyNegative = 1u << 10,       // the elements are the negatives of what the memory holds
  kKeyFunction = 1u << 11,        // a __torch_function__ of the program sees attributes too; comes with one of the first two
  kKeyQuantized = 1u << 12,      // the elements are integers that a quantizer gives a meaning (AutogradExtra::quantizer)
  kKeyPrivate = 1u << 13,        // the tensor lies on PyTorch's device of others (PrivateUse1): registered kernels compute
};
constexpr uint32_t kKeyNoting = 1u << 30;   // in ThreadState::noting alone
constexpr uint32_t kKeyBits = kKeyConjugate | kKeyNegative;

struct ThreadState {
  bool grad_enabled = true;
  bool inference = false;
  uint32_t keys = 0;             // active mode bits (Key)
  uint32_t excluded = 0;         // bits masked out while a handler runs below its own level
  bool saved_hooks = false;      // saved_tensors_hooks active: saving goes through Python
  uint8_t default_device = 0;    // number of this thread's default device: plans made under others do not apply
  uint16_t number = 0;           // of the thread among those that a recording saw, from 1
  bool in_rule = false;          // a derivative rule or the engine itself calls ops: no __torch_function__
  uint32_t noting = 0;           // kKeyNoting while a rule's calls are written down (transcript.h)
};
extern thread_local ThreadState tls;
#ifdef RUSHLIGHT_SECOND_MODULE
ThreadState& thread_state();     // of the calling thread: the core's, which this module asks (core_table.h)
#else
inline ThreadState& thread_state() { return tls; }
#endif
extern bool anomaly_enabled;     // of the whole process, as PyTorch's; read and written under the interpreter lock

struct GradModeGuard {           // RAII: set grad mode, restore on exit
  bool previous;
  explicit GradModeGuard(bool enabled) : previous(thread_state().grad_enabled) {
    thread_state().grad_enabled = enabled;
  }
  ~GradModeGuard() { thread_state().grad_enabled = previous; }
};

struct RuleGuard {               // RAII: ops called now are the tape's own, or (false) the user's again
  bool previous;
  explicit RuleGuard(bool own) : previous(thread_state().in_rule) { thread_state().in_rule = own; }
  ~RuleGuard() { thread_state().in_rule = previous; }
};

struct ExcludeGuard {            // RAII: mask out some of the thread's keys
  uint32_t previous;
  explicit ExcludeGuard(uint32_t keys) : previous(thread_state().excluded) { thread_state().excluded |= keys; }
  ~ExcludeGuard() { thread_state().excluded = previous; }
};

// Owning reference to a Python object.
struct Ref {
  PyObject* p = nullptr;
  Ref() = default;
  explicit Ref(PyObject* stolen) : p(stolen) {}
  Ref(Ref&& o) noexcept : p(o.p) { o.p = nullptr; }
  Ref(const Ref&) = delete;
  Ref& operator=(Ref&& o) noexcept { PyObject* old = p; p = o.p; o.p = nullptr; Py_XDECREF(old); return *this; }
  ~Ref() { Py_XDECREF(p); }
  explicit operator bool() const { return p != nullptr; }
  PyObject* release() { PyObject* r = p; p = nullptr; return r; }
  static Ref borrow(PyObject* o) { Py_XINCREF(o); return Ref(o); }
};

int init_types(PyObject* module);   // dtype, device; every init_* adds its names to the module, -1 on error

}  // namespace rl

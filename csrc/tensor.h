// Tensor: geometry over a storage, plus its place in the autograd graph. A CPython type that Python subclasses.
// Everything here holds the interpreter lock.
#pragma once
#include <memory>
#include <vector>

#include "geometry.h"
#include "storage.h"

namespace rl {

struct Node;

// Shared by a tensor and its views; bumped by every in-place write. A tensor without one is at version 0.
struct Version {
  int64_t refs = 1;
  uint32_t value = 0;
};

struct Tensor;

// How a tensor aliases another: kept so that in-place writes through views reach the base's gradient.
struct ViewInfo {
  Tensor* base;              // strong; never itself a view
  uint32_t seen_version;     // the version at which grad_fn was last made
  bool is_grad_view;         // made while recording: in-place writes on it rebase the base's history
  bool multi_output;         // one of several views (split, unbind): in-place is an error
  bool no_grad_creation;     // made under no_grad: in-place with grad is an error
};

// Rarely used state.
struct AutogradExtra {
  PyObject* hooks = nullptr;              // dict: tensor hooks (backward_hooks)
  PyObject* post_accumulate = nullptr;    // dict: post-accumulate-grad hooks
  Node* accumulator = nullptr;            // weak: the leaf's AccumulateGrad node while one lives
  PyObject* wrapped = nullptr;  // what a function transform's level keeps behind this tensor (dispatch/levels)
  PyObject* quantizer = nullptr;  // what the integers of a quantized tensor mean (rushlight/base/quantizers.py)
  bool retains_grad = false;
};

constexpr int kInlineDims = 5;

enum TensorFlag : uint8_t {
  kRequiresGrad = 1,       // meaningful for leaves
  kContiguous = 2,         // row-major dense
  kInference = 4,
  kWrappedNumber = 8,      // made from a Python number: weak in promotion
  kDenseNonOverlapping = 16,
};

struct Tensor {
  PyObject_HEAD
  Storage* storage;
  int64_t* geometry;             // sizes[ndim], strides[ndim]; points at `inline_geometry` for few dims
  int64_t offset;                // in elements
  int64_t numel;
  Version* version;              // null: never shared, never written
  Node* grad_fn;                 // strong
  PyObject* grad;                // Tensor or null
  ViewInfo* view;
  AutogradExtra* extra;
  PyObject* dict;
  PyObject* weakrefs;
  uint32_t output_nr;            // which output of grad_fn
  uint32_t keys;                 // Key bits of this tensor
  uint8_t ndim;
  DType dtype;
  Device device;
  uint8_t flags;
  int64_t inline_geometry[2 * kInlineDims];

  const int64_t* sizes() const { return geometry; }
  const int64_t* strides() const { return geometry + ndim; }
  char* data() const { return storage->data + offset * itemsize(dtype); }
  bool contiguous() const { return flags & kContiguous; }
  uint32_t current_version() const { return version ? version->value : 0; }
  bool requires_grad() const { return (flags & kRequiresGrad) || grad_fn; }
  bool is_leaf() const { return !grad_fn; }   // call tape_grad_fn first for views
};

extern PyTypeObject* TensorType;
// Subclasses are heap types; numbers, strings and lists are not, and need no walk through their bases.
inline bool is_tensor(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  return type == TensorType || ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) && PyType_IsSubtype(type, TensorType));
}
inline Tensor* as_tensor(PyObject* o) { return reinterpret_cast<Tensor*>(o); }
inline PyObject* as_object(void* t) { return reinterpret_cast<PyObject*>(t); }

// Elements without bytes (a wrapper subclass, a storage resized to nothing): false with an exception set.
bool tensor_has_data(Tensor* t, const char* op);
inline bool tensor_readable(Tensor* t, const char* op) {
  return t->storage->data || !t->numel || tensor_has_data(t, op);
}

// How the bytes of two tensors meet. Tensors with gaps in the same storage are too hard to tell apart cheaply.
enum class Overlap : uint8_t { None, Full, Partial, TooHard };
Overlap shared_overlap(Tensor* a, Tensor* b);                       // of tensors in one storage
inline Overlap memory_overlap(Tensor* a, Tensor* b) {
  return a == b ? Overlap::Full : a->storage != b->storage ? Overlap::None : shared_overlap(a, b);
}

// All constructors return a new reference, or null with an exception set.
Tensor* tensor_alloc(PyTypeObject* type, int ndim);                 // geometry allocated, not filled
void tensor_finish_geometry(Tensor* t);                             // numel and flags from sizes/strides
Tensor* tensor_empty(const int64_t* sizes, const int64_t* strides, int ndim, DType dtype,
                     Device device);  // strides null: contiguous
Tensor* tensor_alias(Tensor* base, const int64_t* sizes, const int64_t* strides, int ndim, int64_t offset, DType dtype);
Tensor* tensor_shallow_copy(Tensor* t, bool share_version);         // same storage, geometry and level, no history
// The bits with which a view of `base` that has elements of this type starts: only complex numbers have conjugates.
inline uint32_t view_bits(const Tensor* base, DType dtype) {
  return base->keys & (is_complex(dtype) ? kKeyBits | kKeyPrivate : static_cast<uint32_t>(kKeyNegative | kKeyPrivate));
}
Version* tensor_version(Tensor* t);                                 // makes one if there is none
void tensor_share_version(Tensor* from, Tensor* to);
inline void tensor_bump(Tensor* t) { (t->version ? t->version : tensor_version(t))->value++; }
void tensor_set_geometry(Tensor* t, const int64_t* sizes, const int64_t* strides, int ndim, int64_t offset);
AutogradExtra* tensor_extra(Tensor* t);                             // makes one if there is none
void tensor_keep_attributes(Tensor* from, Tensor* to);              // of one whose class holds its elements in them
void tensor_quantize(Tensor* t, PyObject* quantizer);               // gives the integers this meaning; null: none
void tensor_track(Tensor* t);                                       // the collector must see it from now on
// Whether a __torch_function__ may want to see what is done with a tensor, where that is no op's call.
#ifdef RUSHLIGHT_SECOND_MODULE
extern bool function_modes;   // a mode that sees functions was entered in this process; until then no thread is asked
#else
constexpr bool function_modes = true;
#endif
inline bool may_ask(const Tensor* t) {
  if (__builtin_expect(!function_modes && !(t->keys & kKeyFunction), 1)) return false;
  const ThreadState& now = thread_state();
  return __builtin_expect((t->keys | now.keys) & ~now.excluded & kKeyFunction, 0) && !now.in_rule;
}
// What the handlers make of Tensor's `name` ("dim", "shape.__get__"); NotImplemented (a new reference) where none takes
// it, null with an exception set. `args` is a tuple or null.
PyObject* ask_access(const char* name, PyObject* self, PyObject* args = nullptr, PyObject* kwargs = nullptr);
bool is_seen(const Tensor* t);                                      // whether a program's handlers see calls of it
bool has_torch_dispatch(PyTypeObject* type);                        // whether the type computes by itself
uint32_t subclass_keys(PyTypeObject* type);                         // kKeySubclass if the type overrides dispatch

PyObject* size_object(const int64_t* sizes, int ndim);              // rushlight.Size
PyObject* int_tuple(const int64_t* values, int n);
// Reads an int sequence (list, tuple, Size; ints, index-ables or 0-d integer tensors). -1 with exception on failure.
int read_ints(PyObject* seq, int64_t* out, int max, const char* what);

bool bad_size(const int64_t* sizes, int ndim);                      // raises: a negative size, or too many elements

int init_tensor(PyObject* module);

}  // namespace rl

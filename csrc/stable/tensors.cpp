// What a kernel asks of a tensor, and how it makes one of memory of its own.
#include <climits>
#include <cstdlib>

#include "stable.h"

namespace rl::stable {

static Ref sizes_tuple(const int64_t* values, int64_t count) {
  Ref found(PyTuple_New(count));
  for (int64_t i = 0; found && i < count; i++) PyTuple_SET_ITEM(found.p, i, PyLong_FromLongLong(values[i]));
  return found;
}

static PyObject* dtype_of_number(int32_t code) {
  DType dtype;
  if (dtype_of_code(code, &dtype)) return core.dtype_object(dtype);
  return PyErr_Format(PyExc_RuntimeError, "%d is the number of no dtype", code);
}

static int data_of(Handle* handle, void** into, const char* function) {
  Tensor* t = tensor_behind(handle, function);
  if (!t) return 1;
  if (!t->storage->data && t->numel) {
    Locked lock;
    if (!core.tensor_has_data(t, function)) return fail_python();
  }
  *into = t->storage->data ? t->data() : nullptr;
  return 0;
}

static int along(Handle* handle, int64_t dim, bool strides, int64_t* into, const char* function) {
  Tensor* t = tensor_behind(handle, function);
  if (!t) return 1;
  int64_t at = dim < 0 ? dim + t->ndim : dim;
  if (at < 0 || at >= t->ndim)
    return fail("%s: dim %lld is out of range for a tensor of %d dims", function, static_cast<long long>(dim), t->ndim);
  *into = (strides ? t->strides() : t->sizes())[at];
  return 0;
}

// --- memory of others -----------------------------------------------------------------------------------------------

struct Lent {
  void (*deleter)(void* data, void* context);
  void* data;
  void* context;
};

static void give_back(Storage* storage) {
  auto* lent = static_cast<Lent*>(storage->context);
  if (lent->deleter) {
    Caught thrown = call_range(
        [](int64_t, int64_t, void* one) {
          auto* inner = static_cast<Lent*>(one);
          inner->deleter(inner->data, inner->context);
        },
        0, 0, lent);
    free(thrown.text);
  }
  free(lent);
}

int from_blob(void* data, int64_t ndim, const int64_t* sizes, const int64_t* strides, int64_t offset, int32_t code,
              int32_t device_type, int32_t device_index, Handle** into, int32_t layout,
              void (*deleter)(void*, void*), void* context) {
  const char* name = "torch_from_blob";
  DType dtype;
  if (!dtype_of_code(code, &dtype)) return fail("%s: %d is the number of no dtype", name, code);
  if (layout != 0) return fail("%s: only strided tensors can be made of memory, got layout %d", name, layout);
  if (ndim < 0 || ndim > kMaxDims) return fail("%s: %lld dims are not supported", name, static_cast<long long>(ndim));
  if (offset < 0) return fail("%s: the storage offset is negative", name);
  int dims = static_cast<int>(ndim);
  int64_t numel = checked_numel(sizes, dims);
  if (numel < 0) return fail("%s: sizes out of range", name);
  for (int i = 0; i < dims; i++)
    if (strides[i] < 0) return fail("%s: negative strides are not supported", name);
  int64_t span = numel ? span_elements(sizes, strides, dims) : 0;
  if (span < 0) return fail("%s: sizes or strides out of range", name);
  if (!data && numel) return fail("%s: the memory is null", name);
  Locked lock;
  Ref device(device_of_codes(device_type, device_index));
  Device place{};
  if (!device || !core.parse_device(device.p, &place)) return fail_python();
  auto* lent = static_cast<Lent*>(malloc(sizeof(Lent)));
  Ref made(lent ? as_object(core.tensor_alloc(TensorType, dims)) : PyErr_NoMemory());
  if (!made) return free(lent), fail_python();
  *lent = {deleter, data, context};
  Tensor* t = as_tensor(made.p);
  t->storage = core.storage_wrap(static_cast<char*>(data), static_cast<size_t>(offset + span) * itemsize(dtype), place,
                                 give_back, lent);
  t->storage->resizable = false;
  t->device = place;
  t->dtype = dtype;
  t->offset = offset;
  memcpy(t->geometry, sizes, sizeof(int64_t) * dims);
  memcpy(t->geometry + dims, strides, sizeof(int64_t) * dims);
  core.tensor_finish_geometry(t);
  return give_tensor(std::move(made), into, name);
}

}  // namespace rl::stable

using namespace rl::stable;
using rl::Ref;
using rl::Tensor;

// --- questions ------------------------------------------------------------------------------------------------------

#define ASK_TENSOR(function, type, expression)         \
  STABLE_API int function(Handle* handle, type* into) { \
    Tensor* t = tensor_behind(handle, #function);       \
    if (!t) return 1;                                   \
    *into = expression;                                 \
    return 0;                                           \
  }

ASK_TENSOR(aoti_torch_get_dim, int64_t, t->ndim)
ASK_TENSOR(aoti_torch_get_numel, int64_t, t->numel)
ASK_TENSOR(aoti_torch_get_sizes, int64_t*, t->geometry)
ASK_TENSOR(aoti_torch_get_strides, int64_t*, t->geometry + t->ndim)
ASK_TENSOR(aoti_torch_get_dtype, int32_t, code_of_dtype(t->dtype))
ASK_TENSOR(aoti_torch_get_device_type, int32_t, device_code(t->device))
ASK_TENSOR(aoti_torch_get_device_index, int32_t,
           t->device.type == rl::kCPU || t->device.type == rl::kMeta ? -1 : t->device.index)
ASK_TENSOR(aoti_torch_get_storage_offset, int64_t, t->offset)
ASK_TENSOR(aoti_torch_get_storage_size, int64_t, static_cast<int64_t>(t->storage->nbytes))
ASK_TENSOR(aoti_torch_get_storage_numel, int64_t, static_cast<int64_t>(t->storage->nbytes) / rl::itemsize(t->dtype))
ASK_TENSOR(aoti_torch_is_contiguous, bool, t->contiguous())

STABLE_API int aoti_torch_get_layout(Handle* handle, int32_t* into) {
  Tensor* t = tensor_behind(handle, "aoti_torch_get_layout");
  if (!t) return 1;
  *into = 0;
  if (!(t->keys & rl::kKeySubclass)) return 0;
  Locked lock;                                         // sparse and nested tensors are subclasses
  Ref layout(PyObject_GetAttrString(rl::as_object(t), "layout"));
  Ref number = layout ? ask("number_of_layout", "(O)", layout.p) : Ref();
  if (!number) return fail_python();
  *into = static_cast<int32_t>(PyLong_AsLong(number.p));
  return 0;
}

STABLE_API int aoti_torch_get_size(Handle* handle, int64_t dim, int64_t* into) {
  return along(handle, dim, false, into, "aoti_torch_get_size");
}
STABLE_API int aoti_torch_get_stride(Handle* handle, int64_t dim, int64_t* into) {
  return along(handle, dim, true, into, "aoti_torch_get_stride");
}
STABLE_API int aoti_torch_get_data_ptr(Handle* handle, void** into) {
  return data_of(handle, into, "aoti_torch_get_data_ptr");
}
STABLE_API int torch_get_mutable_data_ptr(Handle* handle, void** into) {
  return data_of(handle, into, "torch_get_mutable_data_ptr");
}
STABLE_API int torch_get_const_data_ptr(Handle* handle, const void** into) {
  return data_of(handle, const_cast<void**>(into), "torch_get_const_data_ptr");
}

// --- tensors made here ----------------------------------------------------------------------------------------------

STABLE_API int torch_from_blob(void* data, int64_t ndim, const int64_t* sizes, const int64_t* strides, int64_t offset,
                               int32_t dtype, int32_t device_type, int32_t device_index, Handle** into, int32_t layout,
                               const uint8_t*, int64_t, void (*deleter)(void*, void*), void* context) {
  return from_blob(data, ndim, sizes, strides, offset, dtype, device_type, device_index, into, layout, deleter,
                   context);
}
STABLE_API int aoti_torch_create_tensor_from_blob(void* data, int64_t ndim, const int64_t* sizes,
                                                  const int64_t* strides, int64_t offset, int32_t dtype,
                                                  int32_t device_type, int32_t device_index, Handle** into) {
  return from_blob(data, ndim, sizes, strides, offset, dtype, device_type, device_index, into, 0, nullptr, nullptr);
}
STABLE_API int aoti_torch_create_tensor_from_blob_v2(void* data, int64_t ndim, const int64_t* sizes,
                                                     const int64_t* strides, int64_t offset, int32_t dtype,
                                                     int32_t device_type, int32_t device_index, Handle** into,
                                                     int32_t layout, const uint8_t*, int64_t) {
  return from_blob(data, ndim, sizes, strides, offset, dtype, device_type, device_index, into, layout, nullptr,
                   nullptr);
}

static int empty_strided(int64_t ndim, const int64_t* sizes, const int64_t* strides, int32_t dtype, int32_t device_type,
                         int32_t device_index, bool pinned, Handle** into) {
  Locked lock;
  PyObject* kind = dtype_of_number(dtype);
  Ref device(kind ? device_of_codes(device_type, device_index) : nullptr);
  if (!device) return fail_python();
  Ref shape = sizes_tuple(sizes, ndim), steps = sizes_tuple(strides, ndim);
  return give_tensor(ask("empty_strided", "(OOOOi)", shape.p, steps.p, kind, device.p, pinned), into,
                     "aoti_torch_empty_strided");
}
STABLE_API int aoti_torch_empty_strided(int64_t ndim, const int64_t* sizes, const int64_t* strides, int32_t dtype,
                                        int32_t device_type, int32_t device_index, Handle** into) {
  return empty_strided(ndim, sizes, strides, dtype, device_type, device_index, false, into);
}
STABLE_API int aoti_torch_empty_strided_pinned(int64_t ndim, const int64_t* sizes, const int64_t* strides,
                                               int32_t dtype, int32_t device_type, int32_t device_index,
                                               Handle** into) {
  return empty_strided(ndim, sizes, strides, dtype, device_type, device_index, true, into);
}

#define OF_TENSOR(handle, function)                    \
  Locked lock;                                         \
  PyObject* object = object_behind(handle, function);  \
  if (!object) return 1;

STABLE_API int aoti_torch__reinterpret_tensor(Handle* self, int64_t ndim, const int64_t* sizes, const int64_t* strides,
                                              int64_t more, Handle** into) {
  OF_TENSOR(self, "aoti_torch__reinterpret_tensor")
  Ref shape = sizes_tuple(sizes, ndim), steps = sizes_tuple(strides, ndim);
  return give_tensor(ask("reinterpret_tensor", "(OOOL)", object, shape.p, steps.p, static_cast<long long>(more)), into,
                     "aoti_torch__reinterpret_tensor");
}
STABLE_API int aoti_torch__alloc_from_pool(Handle* self, int64_t bytes, int32_t dtype, int64_t ndim,
                                           const int64_t* sizes, const int64_t* strides, Handle** into) {
  OF_TENSOR(self, "aoti_torch__alloc_from_pool")
  PyObject* kind = dtype_of_number(dtype);
  if (!kind) return fail_python();
  Ref shape = sizes_tuple(sizes, ndim), steps = sizes_tuple(strides, ndim);
  return give_tensor(ask("alloc_from_pool", "(OLOOO)", object, static_cast<long long>(bytes), kind, shape.p, steps.p),
                     into, "aoti_torch__alloc_from_pool");
}
STABLE_API int aoti_torch_as_strided(Handle* self, const int64_t* sizes, const int64_t* strides, Handle** into) {
  Tensor* t = tensor_behind(self, "aoti_torch_as_strided");
  if (!t) return 1;
  Locked lock;
  Ref shape = sizes_tuple(sizes, t->ndim), steps = sizes_tuple(strides, t->ndim);
  return give_tensor(ask("as_strided", "(OOO)", t, shape.p, steps.p), into, "aoti_torch_as_strided");
}

// --- ops of both headers that have an entry of their own ------------------------------------------------------------

static int done(Ref answer) { return answer ? 0 : fail_python(); }

STABLE_API int aoti_torch_clone(Handle* self, Handle** into) {
  OF_TENSOR(self, "aoti_torch_clone")
  return give_tensor(ask("clone", "(O)", object), into, "aoti_torch_clone");
}
STABLE_API int aoti_torch_clone_preserve_strides(Handle* self, Handle** into) {
  OF_TENSOR(self, "aoti_torch_clone_preserve_strides")
  return give_tensor(ask("clone_preserve_strides", "(O)", object), into, "aoti_torch_clone_preserve_strides");
}
STABLE_API int aoti_torch_copy_(Handle* self, Handle* from, int32_t non_blocking) {
  OF_TENSOR(self, "aoti_torch_copy_")
  PyObject* source = object_behind(from, "aoti_torch_copy_");
  return source ? done(ask("copy_", "(OOi)", object, source, non_blocking)) : 1;
}
STABLE_API int aoti_torch_tensor_copy_(Handle* from, Handle* to) { return aoti_torch_copy_(to, from, 0); }
STABLE_API int aoti_torch_zero_(Handle* self) {
  OF_TENSOR(self, "aoti_torch_zero_")
  return done(ask("zero_", "(O)", object));
}
STABLE_API int aoti_torch_aten_fill__Scalar(Handle* self, double value) {
  OF_TENSOR(self, "aoti_torch_aten_fill__Scalar")
  return done(ask("fill_", "(Od)", object, value));
}
STABLE_API int aoti_torch_aten_amax(Handle* self, const int64_t* dims, int64_t count, int32_t keepdim, Handle** into) {
  OF_TENSOR(self, "aoti_torch_aten_amax")
  Ref along = sizes_tuple(dims, count);
  return give_tensor(ask("amax", "(OOi)", object, along.p, keepdim), into, "aoti_torch_aten_amax");
}
STABLE_API int aoti_torch_aten_narrow(Handle* self, int64_t dim, int64_t start, int64_t length, Handle** into) {
  OF_TENSOR(self, "aoti_torch_aten_narrow")
  return give_tensor(ask("narrow", "(OLLL)", object, static_cast<long long>(dim), static_cast<long long>(start),
                         static_cast<long long>(length)),
                     into, "aoti_torch_aten_narrow");
}
STABLE_API int aoti_torch_aten_subtract_Tensor(Handle* self, Handle* other, double alpha, Handle** into) {
  OF_TENSOR(self, "aoti_torch_aten_subtract_Tensor")
  PyObject* second = object_behind(other, "aoti_torch_aten_subtract_Tensor");
  return second ? give_tensor(ask("subtract", "(OOd)", object, second, alpha), into, "aoti_torch_aten_subtract_Tensor")
                : 1;
}

// dtype, layout, device and pin_memory as the generated entries have them: null where they are not given.
static Ref placement(int32_t* dtype, int32_t* layout, int32_t* device, int32_t index, int32_t* pinned) {
  Ref kind(dtype ? Py_XNewRef(dtype_of_number(*dtype)) : Py_NewRef(Py_None));
  Ref place(kind && device ? device_of_codes(*device, index) : Py_NewRef(Py_None));
  Ref form(place && layout ? ask("layout_of_number", "(i)", *layout).release() : Py_NewRef(Py_None));
  if (!kind || !place || !form) return Ref();
  return Ref(Py_BuildValue("(OOOO)", kind.p, form.p, place.p, !pinned ? Py_None : *pinned ? Py_True : Py_False));
}
STABLE_API int aoti_torch_aten_full(const int64_t* sizes, int64_t count, double value, int32_t* dtype, int32_t* layout,
                                    int32_t* device, int32_t index, int32_t* pinned, Handle** into) {
  Locked lock;
  Ref shape = sizes_tuple(sizes, count), rest = placement(dtype, layout, device, index, pinned);
  if (!rest) return fail_python();
  return give_tensor(ask("full", "(OdO)", shape.p, value, rest.p), into, "aoti_torch_aten_full");
}
static int new_like(const char* what, Handle* self, const int64_t* sizes, int64_t count, int32_t* dtype,
                    int32_t* layout, int32_t* device, int32_t index, int32_t* pinned, Handle** into) {
  OF_TENSOR(self, what)
  Ref shape = sizes_tuple(sizes, count), rest = placement(dtype, layout, device, index, pinned);
  if (!rest) return fail_python();
  return give_tensor(ask(what, "(OOO)", object, shape.p, rest.p), into, what);
}
STABLE_API int aoti_torch_aten_new_empty(Handle* self, const int64_t* sizes, int64_t count, int32_t* dtype,
                                         int32_t* layout, int32_t* device, int32_t index, int32_t* pinned,
                                         Handle** into) {
  return new_like("new_empty", self, sizes, count, dtype, layout, device, index, pinned, into);
}
STABLE_API int aoti_torch_aten_new_zeros(Handle* self, const int64_t* sizes, int64_t count, int32_t* dtype,
                                         int32_t* layout, int32_t* device, int32_t index, int32_t* pinned,
                                         Handle** into) {
  return new_like("new_zeros", self, sizes, count, dtype, layout, device, index, pinned, into);
}
STABLE_API int aoti_torch_aten_pad(Handle* self, const int64_t* pad, int64_t count, const char* mode, double* value,
                                   Handle** into) {
  OF_TENSOR(self, "aoti_torch_aten_pad")
  Ref widths = sizes_tuple(pad, count), filler(value ? PyFloat_FromDouble(*value) : Py_NewRef(Py_None));
  return give_tensor(ask("pad", "(OOsO)", object, widths.p, mode, filler.p), into, "aoti_torch_aten_pad");
}

STABLE_API int torch_set_requires_grad(Handle* self, bool requires_grad) {
  OF_TENSOR(self, "torch_set_requires_grad")
  return done(ask("set_requires_grad", "(Oi)", object, requires_grad));
}
STABLE_API int aoti_torch_check_inf_and_nan(const char* name, Handle* self) {
  OF_TENSOR(self, "aoti_torch_check_inf_and_nan")
  return done(ask("check_inf_and_nan", "(sO)", name, object));
}
STABLE_API void aoti_torch_print_tensor_handle(Handle* self, const char* text) {
  Locked lock;
  PyObject* object = object_behind(self, "aoti_torch_print_tensor_handle");
  if (object && !ask("print_tensor", "(Os)", object, text ? text : "")) keep_for_later();
}
STABLE_API int aoti_torch__mm_plus_mm_out(Handle* out, Handle* a, Handle* b, Handle* c, Handle* d) {
  Locked lock;
  PyObject* all[5];
  Handle* given[] = {out, a, b, c, d};
  for (int i = 0; i < 5; i++)
    if (!(all[i] = object_behind(given[i], "aoti_torch__mm_plus_mm_out"))) return 1;
  return done(ask("mm_plus_mm_out", "(OOOOO)", all[0], all[1], all[2], all[3], all[4]));
}
STABLE_API int aoti_torch_scatter_reduce_out(Handle* out, Handle* self, int64_t dim, Handle* index, Handle* source,
                                             const char* reduce, int32_t include_self) {
  Locked lock;
  PyObject* all[4];
  Handle* given[] = {out, self, index, source};
  for (int i = 0; i < 4; i++)
    if (!(all[i] = object_behind(given[i], "aoti_torch_scatter_out"))) return 1;
  return done(ask("scatter_out", "(OOLOOzi)", all[0], all[1], static_cast<long long>(dim), all[2], all[3], reduce,
                  include_self));
}
STABLE_API int aoti_torch_scatter_out(Handle* out, Handle* self, int64_t dim, Handle* index, Handle* source) {
  return aoti_torch_scatter_reduce_out(out, self, dim, index, source, nullptr, 1);
}
STABLE_API int aoti_torch_index_put_out(Handle* out, Handle* self, Handle* const* indices, uint32_t count,
                                        Handle* values, bool accumulate) {
  Locked lock;
  Ref all(PyList_New(count));
  for (uint32_t i = 0; all && i < count; i++) {
    PyObject* one = indices[i] ? object_behind(indices[i], "aoti_torch_index_put_out") : Py_None;
    if (!one) return 1;
    PyList_SET_ITEM(all.p, i, Py_NewRef(one));
  }
  PyObject *target = object_behind(out, "aoti_torch_index_put_out"),
           *object = object_behind(self, "aoti_torch_index_put_out"),
           *given = object_behind(values, "aoti_torch_index_put_out");
  if (!all || !target || !object || !given) return all ? 1 : fail_python();
  return done(ask("index_put_out", "(OOOOi)", target, object, all.p, given, accumulate));
}

// --- numbers --------------------------------------------------------------------------------------------------------

static Ref item_of(Handle* handle, const char* function) {
  PyObject* object = object_behind(handle, function);
  if (!object) return PyErr_SetString(PyExc_RuntimeError, last_error()), Ref();
  return Ref(PyObject_CallMethod(object, "item", nullptr));
}

#define ITEM(name, type, conversion)                                                    \
  STABLE_API int aoti_torch_item_##name(Handle* handle, type* into) {                    \
    Locked lock;                                                                         \
    Ref item = item_of(handle, "aoti_torch_item_" #name);                                \
    if (!item) return fail_python();                                                     \
    *into = static_cast<type>(conversion(item.p));                                       \
    return PyErr_Occurred() ? fail_python() : 0;                                         \
  }                                                                                      \
  STABLE_API int aoti_torch_scalar_to_tensor_##name(type value, Handle** into)

#define INTEGER_ITEM(name, type)                                                         \
  ITEM(name, type, PyLong_AsLongLong) {                                                  \
    Locked lock;                                                                         \
    return give_tensor(ask("scalar_tensor", "(Ls)", static_cast<long long>(value), #name), into, \
                       "aoti_torch_scalar_to_tensor_" #name);                            \
  }
#define FLOAT_ITEM(name, type)                                                           \
  ITEM(name, type, PyFloat_AsDouble) {                                                   \
    Locked lock;                                                                         \
    return give_tensor(ask("scalar_tensor", "(ds)", static_cast<double>(value), #name), into,    \
                       "aoti_torch_scalar_to_tensor_" #name);                            \
  }
FLOAT_ITEM(float32, float)
FLOAT_ITEM(float64, double)
INTEGER_ITEM(uint8, uint8_t)
INTEGER_ITEM(uint16, uint16_t)
INTEGER_ITEM(uint32, uint32_t)
INTEGER_ITEM(int8, int8_t)
INTEGER_ITEM(int16, int16_t)
INTEGER_ITEM(int32, int32_t)
INTEGER_ITEM(int64, int64_t)
ITEM(bool, bool, PyObject_IsTrue) {
  Locked lock;
  return give_tensor(ask("scalar_tensor", "(is)", value, "bool"), into, "aoti_torch_scalar_to_tensor_bool");
}
ITEM(uint64, uint64_t, PyLong_AsUnsignedLongLong) {
  Locked lock;
  return give_tensor(ask("scalar_tensor", "(Ks)", static_cast<unsigned long long>(value), "uint64"), into,
                     "aoti_torch_scalar_to_tensor_uint64");
}

// The halves travel as their 16 bits, complex numbers as two parts.
static int item_bits(Handle* handle, const char* dtype, uint16_t* into, const char* function) {
  Locked lock;
  PyObject* object = object_behind(handle, function);
  if (!object) return 1;
  Ref bits = ask("item_bits", "(Os)", object, dtype);
  if (!bits) return fail_python();
  *into = static_cast<uint16_t>(PyLong_AsLong(bits.p));
  return 0;
}
STABLE_API int aoti_torch_item_float16(Handle* handle, uint16_t* into) {
  return item_bits(handle, "float16", into, "aoti_torch_item_float16");
}
STABLE_API int aoti_torch_item_bfloat16(Handle* handle, uint16_t* into) {
  return item_bits(handle, "bfloat16", into, "aoti_torch_item_bfloat16");
}
STABLE_API int aoti_torch_item_complex64(Handle* handle, float* into) {
  Locked lock;
  Ref item = item_of(handle, "aoti_torch_item_complex64");
  if (!item) return fail_python();
  Py_complex number = PyComplex_AsCComplex(item.p);
  if (PyErr_Occurred()) return fail_python();
  into[0] = static_cast<float>(number.real);
  into[1] = static_cast<float>(number.imag);
  return 0;
}
struct Complex64 {
  float real, imag;
};
struct Complex128 {
  double real, imag;
};
static int complex_tensor(double real, double imag, const char* dtype, Handle** into) {
  Locked lock;
  Py_complex number{real, imag};
  return give_tensor(ask("scalar_tensor", "(Ds)", &number, dtype), into, "aoti_torch_scalar_to_tensor_complex");
}
STABLE_API int aoti_torch_scalar_to_tensor_complex64(Complex64 value, Handle** into) {
  return complex_tensor(value.real, value.imag, "complex64", into);
}
STABLE_API int aoti_torch_scalar_to_tensor_complex128(Complex128 value, Handle** into) {
  return complex_tensor(value.real, value.imag, "complex128", into);
}

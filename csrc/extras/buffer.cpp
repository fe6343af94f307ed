// The buffer protocol, both ways: tensors over other objects' memory, and other objects over a tensor's.
#include <string>

#include "build.h"
#include "geometry.h"

namespace rl {

// --- in -------------------------------------------------------------------------------------------------------------

static void release_owner(Storage* s) {
  // At interpreter shutdown the owner can no longer be told: leaking it is the only safe choice.
  if (!Py_IsInitialized()) return;
  PyGILState_STATE gil = PyGILState_Ensure();
  Py_DECREF(static_cast<PyObject*>(s->context));
  PyGILState_Release(gil);
}

static Storage* storage_of_object(char* data, size_t nbytes, PyObject* owner) {
  return storage_wrap(data, nbytes, Device{}, release_owner, Py_NewRef(owner));
}

static bool integer_dtype(size_t size, bool is_signed, DType* out) {
  switch (size) {
    case 1: return *out = is_signed ? DType::I8 : DType::U8, true;
    case 2: return *out = is_signed ? DType::I16 : DType::U16, true;
    case 4: return *out = is_signed ? DType::I32 : DType::U32, true;
    case 8: return *out = is_signed ? DType::I64 : DType::U64, true;
    default: return false;
  }
}

// struct-module format of one element to dtype. Bytes in the other order are refused by the caller.
static bool format_dtype(const char* format, Py_ssize_t size, DType* out) {
  if (!format) return *out = DType::U8, size == 1;
  if (strchr("@=<>!^", *format) && *format) format++;
  bool is_complex = *format == 'Z';
  if (is_complex) format++;
  if (format[0] == 0 || format[1] != 0) return false;
  if (is_complex)
    return *out = size == 8 ? DType::C64 : DType::C128, (*format == 'f' && size == 8) || (*format == 'd' && size == 16);
  switch (*format) {
    case '?': return *out = DType::Bool, size == 1;
    case 'e': return *out = DType::F16, size == 2;
    case 'f': return *out = DType::F32, size == 4;
    case 'd': return *out = DType::F64, size == 8;
    case 'b': case 'h': case 'i': case 'l': case 'q': case 'n': return integer_dtype(size, true, out);
    case 'B': case 'H': case 'I': case 'L': case 'Q': case 'N': return integer_dtype(size, false, out);
    default: return false;
  }
}

static bool other_byte_order(const char* format, Py_ssize_t size) {
  if (!format || size == 1) return false;
  bool little = true;
  uint16_t probe = 1;
  memcpy(&little, &probe, 1);
  return little ? (*format == '>' || *format == '!') : *format == '<';
}

static bool refuse_element(PyObject* object, const char* format) {
  if (!is_numpy_array(object)) {
    PyErr_Format(PyExc_TypeError, "cannot make a tensor over a %s of format '%s'", Py_TYPE(object)->tp_name,
                 format ? format : "");
    return false;
  }
  Ref dtype(PyObject_GetAttrString(object, "dtype"));
  Ref type(dtype ? PyObject_GetAttrString(dtype.p, "type") : nullptr);
  if (type && PyType_Check(type.p))
    PyErr_Format(PyExc_TypeError,
                 "from_numpy: expected an array of numbers or bool, got np.ndarray of type %s. Supported: float16 to "
                 "float64, complex64, complex128, "
                 "int8 to int64, uint8 to uint64, bool.",
                 reinterpret_cast<PyTypeObject*>(type.p)->tp_name);
  return false;
}

// Geometry of a buffer in elements; false with an exception for what a tensor cannot express.
static bool buffer_geometry(const Py_buffer& view, int64_t* sizes, int64_t* strides) {
  if (view.ndim > kMaxDims) {
    PyErr_Format(PyExc_ValueError, "from_numpy: at most %d dimensions are supported, got %d", kMaxDims, view.ndim);
    return false;
  }
  for (int i = 0; i < view.ndim; i++) {
    sizes[i] = view.shape[i];
    Py_ssize_t bytes = view.strides[i];
    if (bytes < 0) {
      PyErr_SetString(PyExc_ValueError,
                      "from_numpy: a stride of the numpy array is negative, which tensors cannot have. "
                      "Pass array.copy().");
      return false;
    }
    if (bytes % view.itemsize) {
      PyErr_Format(PyExc_ValueError,
                   "from_numpy: a stride of the numpy array is not a multiple of its element size. Pass array.copy().");
      return false;
    }
    strides[i] = bytes / view.itemsize;
  }
  return true;
}

struct BufferGuard {
  Py_buffer view{};
  bool held = false;
  ~BufferGuard() {
    if (held) PyBuffer_Release(&view);
  }
};

Tensor* tensor_from_buffer(PyObject* object) {
  BufferGuard guard;
  // An array whose elements have no buffer format (text, dates) fails here; its type is the better explanation.
  if (PyObject_GetBuffer(object, &guard.view, PyBUF_STRIDED_RO | PyBUF_FORMAT)) {
    if (is_numpy_array(object) && PyErr_ExceptionMatches(PyExc_ValueError)) {
      PyErr_Clear();
      refuse_element(object, nullptr);
    }
    return nullptr;
  }
  guard.held = true;
  const Py_buffer& view = guard.view;
  if (other_byte_order(view.format, view.itemsize))
    return PyErr_SetString(PyExc_ValueError,
                           "from_numpy: the numpy array has the byte order of another machine. "
                           "Pass array.astype(array.dtype.newbyteorder('='))."), nullptr;
  DType dtype;
  if (!format_dtype(view.format, view.itemsize, &dtype)) return refuse_element(object, view.format), nullptr;
  int64_t sizes[kMaxDims], strides[kMaxDims];
  if (!buffer_geometry(view, sizes, strides)) return nullptr;
  int64_t span = span_elements(sizes, strides, view.ndim);
  // An array keeps its own memory; anything else (a bytearray) must see the buffer held, or it may move it.
  Ref owner(is_numpy_array(object) ? Py_NewRef(object) : PyMemoryView_FromObject(object));
  Tensor* t = owner ? tensor_alloc(TensorType, view.ndim) : nullptr;
  if (!t) return nullptr;
  t->storage = storage_of_object(static_cast<char*>(view.buf), static_cast<size_t>(span) * view.itemsize, owner.p);
  t->dtype = dtype;
  memcpy(t->geometry, sizes, sizeof(int64_t) * view.ndim);
  memcpy(t->geometry + view.ndim, strides, sizeof(int64_t) * view.ndim);
  tensor_finish_geometry(t);
  return t;
}

// --- out ------------------------------------------------------------------------------------------------------------

static const char* dtype_format(DType dtype) {
  switch (dtype) {
    case DType::Bool: return "?";
    case DType::U8: return "B";
    case DType::I8: return "b";
    case DType::I16: return "h";
    case DType::U16: return "H";
    case DType::I32: return "i";
    case DType::U32: return "I";
    case DType::I64: return "q";
    case DType::U64: return "Q";
    case DType::F16: return "e";
    case DType::F32: return "f";
    case DType::F64: return "d";
    case DType::C64: return "Zf";
    case DType::C128: return "Zd";
    default: return nullptr;
  }
}

static int refuse_buffer(Py_buffer* view, const char* text) {
  view->obj = nullptr;
  PyErr_SetString(PyExc_BufferError, text);
  return -1;
}

static int tensor_get_buffer(PyObject* self, Py_buffer* view, int flags) {
  Tensor* t = as_tensor(self);
  const char* format = dtype_format(t->dtype);
  if (t->requires_grad()) return refuse_buffer(view, "buffer: the tensor requires grad; use tensor.detach()");
  if (t->keys & kKeyBits)
    return refuse_buffer(view, "buffer: the memory holds conjugates or negatives of the elements; use "
                               "tensor.resolve_conj().resolve_neg()");
  if (!format)
    return refuse_buffer(view, "buffer: this dtype has no buffer format; view it as an integer dtype of the same size");
  if (!check_host_data(t, "buffer")) {
    PyErr_Clear();
    return refuse_buffer(view, "buffer: the tensor has no memory on the host; use tensor.cpu()");
  }
  bool wants_strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
  if (!wants_strides && !t->contiguous())
    return refuse_buffer(view, "buffer: the tensor is not contiguous and the consumer takes no strides");
  if ((flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS && !t->contiguous())
    return refuse_buffer(view, "buffer: the tensor is not contiguous");
  if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && !(t->contiguous() && t->ndim <= 1))
    return refuse_buffer(view, "buffer: the tensor is not contiguous in column-major order");
  int size = itemsize(t->dtype);
  auto* numbers = static_cast<Py_ssize_t*>(PyMem_Malloc(sizeof(Py_ssize_t) * (2 * t->ndim + 1)));
  if (!numbers) return PyErr_NoMemory(), view->obj = nullptr, -1;
  for (int i = 0; i < t->ndim; i++) {
    numbers[i] = t->sizes()[i];
    numbers[t->ndim + i] = t->strides()[i] * size;
  }
  static char nothing[16];
  view->obj = Py_NewRef(self);
  view->buf = t->storage->data ? t->data() : nothing;
  view->len = t->numel * size;
  view->readonly = 0;
  view->itemsize = size;
  view->format = (flags & PyBUF_FORMAT) ? const_cast<char*>(format) : nullptr;
  view->ndim = t->ndim;
  view->shape = (flags & PyBUF_ND) ? numbers : nullptr;
  view->strides = wants_strides ? numbers + t->ndim : nullptr;
  view->suboffsets = nullptr;
  // The consumer holds an address: the memory may no longer move, even if the tensor is pointed elsewhere meanwhile.
  t->storage->resizable = false;
  t->storage->retain();
  numbers[2 * t->ndim] = reinterpret_cast<Py_ssize_t>(t->storage);
  view->internal = numbers;
  return 0;
}

static void tensor_release_buffer(PyObject*, Py_buffer* view) {
  auto* numbers = static_cast<Py_ssize_t*>(view->internal);
  reinterpret_cast<Storage*>(numbers[2 * view->ndim])->drop();
  PyMem_Free(numbers);
}

int init_buffer(PyObject*) {
  TensorType->tp_as_buffer->bf_getbuffer = tensor_get_buffer;   // before there are subclasses, which take them over
  TensorType->tp_as_buffer->bf_releasebuffer = tensor_release_buffer;
  return 0;
}

}  // namespace rl

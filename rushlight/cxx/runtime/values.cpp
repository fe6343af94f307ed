// Values in both directions, and calls of ops by name.
#include "runtime.h"

namespace rushlight {

namespace {

constexpr const char* kLayouts[] = {"strided", "sparse_coo", "sparse_csr", "_mkldnn", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged"};
constexpr const char* kFormats[] = {"contiguous_format", "preserve_format", "channels_last", "channels_last_3d"};

template <class List, class Make>
PyObject* listed(const List& values, Make make, bool as_tuple) {
  const auto count = static_cast<Py_ssize_t>(values.size());
  PyObject* result = as_tuple ? PyTuple_New(count) : PyList_New(count);
  if (!result) throw_python();
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* one = make(values[i]);
    if (as_tuple) PyTuple_SET_ITEM(result, i, one);
    else PyList_SET_ITEM(result, i, one);
  }
  return result;
}

PyObject* none() { Py_RETURN_NONE; }

[[noreturn]] void wrong_type(const char* wanted, PyObject* got) {
  throw c10::TypeError(std::string("expected ") + wanted + ", got " + Py_TYPE(got)->tp_name);
}

template <class T>
PyObject* optional(const void* at) {
  const auto& value = *static_cast<const std::optional<T>*>(at);
  return value ? wrap(*value) : nullptr;
}

void add_options(const c10::TensorOptions& options, std::vector<PyObject*>& values, std::vector<const char*>& names) {
  auto add = [&](const char* name, PyObject* value) { names.push_back(name); values.push_back(value); };
  if (auto value = options.scalar_type_opt()) add("dtype", wrap(*value));
  if (auto value = options.device_opt()) add("device", wrap(*value));
  if (auto value = options.layout_opt(); value && *value != c10::kStrided) add("layout", wrap(*value));
  if (options.pinned_memory()) add("pin_memory", wrap(true));
  if (options.requires_grad()) add("requires_grad", wrap(true));
}

}  // namespace

PyObject* wrap(const at::Tensor& tensor) {
  PyObject* object = tensor.defined() ? static_cast<PyObject*>(tensor.object()) : Py_None;
  Py_INCREF(object);
  return object;
}
PyObject* wrap(int64_t value) { return PyLong_FromLongLong(value); }
PyObject* wrap(double value) { return PyFloat_FromDouble(value); }
PyObject* wrap(bool value) { return PyBool_FromLong(value); }
PyObject* wrap(std::string_view value) { return checked(PyUnicode_FromStringAndSize(value.data(), static_cast<Py_ssize_t>(value.size()))).release(); }
PyObject* wrap(const c10::Scalar& value) {
  if (value.isFloatingPoint()) return wrap(value.toDouble());
  if (value.isBoolean()) return wrap(value.toBool());
  if (value.isComplex()) {
    auto z = value.toComplexDouble();
    return PyComplex_FromDoubles(z.real(), z.imag());
  }
  return value.isUnsigned() ? PyLong_FromUnsignedLongLong(value.to<uint64_t>()) : wrap(value.toLong());
}
PyObject* wrap(c10::ScalarType value) {
  const auto number = static_cast<int>(value);
  PyObject* found = number >= 0 && number < 64 ? state().dtypes[number] : nullptr;
  TORCH_CHECK_TYPE(found, "dtype ", c10::toString(value), " has no counterpart in Python");
  Py_INCREF(found);
  return found;
}
PyObject* wrap(c10::Device value) {
  Object text(wrap(std::string_view(value.str())));
  return checked(PyObject_CallOneArg(reinterpret_cast<PyObject*>(state().device), text.get())).release();
}
PyObject* wrap(c10::Layout value) { return Object::borrowed(part(kLayouts[static_cast<int>(value)])).release(); }
PyObject* wrap(c10::MemoryFormat value) { return Object::borrowed(part(kFormats[static_cast<int>(value)])).release(); }
PyObject* wrap(const at::Generator& value) {
  auto* object = static_cast<PyObject*>(value.object());
  return Object::borrowed(object ? object : Py_None).release();
}
PyObject* wrap(c10::IntArrayRef values) { return listed(values, [](int64_t v) { return wrap(v); }, true); }
PyObject* wrap(c10::ArrayRef<at::Tensor> values) { return listed(values, [](const at::Tensor& t) { return wrap(t); }, false); }
PyObject* wrap(c10::ArrayRef<at::indexing::TensorIndex> at) {
  using at::indexing::TensorIndex;
  return listed(at, [](const TensorIndex& one) -> PyObject* {
    switch (one.kind) {
      case TensorIndex::kNone: return none();
      case TensorIndex::kEllipsis: return Object::borrowed(Py_Ellipsis).release();
      case TensorIndex::kInteger: return wrap(one.number);
      case TensorIndex::kBoolean: return wrap(one.number != 0);
      case TensorIndex::kTensor: return wrap(one.tensor);
      case TensorIndex::kSlice: break;
    }
    auto bound = [](const std::optional<int64_t>& value) { return Object(value ? wrap(*value) : none()); };
    Object from = bound(one.slice.start), to = bound(one.slice.stop), by = bound(one.slice.step);
    return checked(PySlice_New(from.get(), to.get(), by.get())).release();
  }, true);
}

bool is_tensor(PyObject* object) { return PyObject_TypeCheck(object, state().tensor); }
at::Tensor tensor_from(PyObject* object) {
  if (object == Py_None) return {};
  if (!is_tensor(object)) wrong_type("a Tensor", object);
  return at::Tensor::borrowed(object);
}
int64_t int_from(PyObject* object) {
  Object number;
  if (is_tensor(object)) number = checked(PyObject_CallMethod(object, "item", nullptr));
  else if (PyFloat_Check(object)) wrong_type("an int", object);
  else number = Object(PyNumber_Index(object));
  if (!number) {
    PyErr_Clear();
    wrong_type("an int", object);
  }
  const int64_t value = PyLong_AsLongLong(number.get());
  if (value == -1 && PyErr_Occurred()) throw_python();
  return value;
}
double double_from(PyObject* object) {
  if (!PyFloat_Check(object) && !PyNumber_Check(object)) wrong_type("a float", object);
  const double value = PyFloat_AsDouble(object);
  if (value == -1 && PyErr_Occurred()) throw_python();
  return value;
}
bool bool_from(PyObject* object) {
  if (PyBool_Check(object)) return object == Py_True;
  if (is_tensor(object) || PyLong_Check(object)) {
    const int truth = PyObject_IsTrue(object);
    if (truth < 0) throw_python();
    return truth;
  }
  wrong_type("a bool", object);
}
std::string text_from(PyObject* object) {
  Py_ssize_t size = 0;
  if (PyBytes_Check(object)) return {PyBytes_AS_STRING(object), static_cast<size_t>(PyBytes_GET_SIZE(object))};
  if (!PyUnicode_Check(object)) wrong_type("a str", object);
  const char* text = PyUnicode_AsUTF8AndSize(object, &size);
  if (!text) throw_python();
  return {text, static_cast<size_t>(size)};
}
c10::Scalar scalar_from(PyObject* object) {
  if (PyBool_Check(object)) return object == Py_True;
  if (PyLong_Check(object)) {
    int overflow = 0;
    const int64_t value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow > 0) {
      const uint64_t large = PyLong_AsUnsignedLongLong(object);
      if (large == static_cast<uint64_t>(-1) && PyErr_Occurred()) throw_python();
      return large;
    }
    if (overflow) throw c10::ValueError("the int is too small for 64 bits");
    return value;
  }
  if (PyFloat_Check(object)) return PyFloat_AS_DOUBLE(object);
  if (PyComplex_Check(object)) return std::complex<double>(PyComplex_RealAsDouble(object), PyComplex_ImagAsDouble(object));
  if (is_tensor(object)) return scalar_from(checked(PyObject_CallMethod(object, "item", nullptr)).get());
  if (PyIndex_Check(object)) return int_from(object);
  if (PyNumber_Check(object) && PyObject_HasAttrString(object, "__float__")) return double_from(object);   // NumPy's
  wrong_type("a number", object);
}
c10::ScalarType dtype_from(PyObject* object) {
  if (Py_TYPE(object) == state().dtype) return static_cast<c10::ScalarType>(state().scalar_types[reinterpret_cast<DTypeFields*>(object)->id]);
  if (PyLong_Check(object) && !PyBool_Check(object)) return static_cast<c10::ScalarType>(int_from(object));   // of schemas
  wrong_type("a dtype", object);
}
c10::Device device_from(PyObject* object) {
  if (PyUnicode_Check(object)) return c10::Device(text_from(object));
  if (Py_TYPE(object) != state().device) wrong_type("a device", object);
  return c10::Device(text_from(checked(PyObject_Str(object)).get()));
}
c10::Layout layout_from(PyObject* object) {
  for (int i = 0; i < static_cast<int>(c10::Layout::NumOptions); ++i) {
    Object known(PyObject_GetAttrString(module(), kLayouts[i]));
    if (!known) PyErr_Clear();      // Python has no MKLDNN tensors
    else if (object == known.get()) return static_cast<c10::Layout>(i);
  }
  if (PyLong_Check(object)) return static_cast<c10::Layout>(int_from(object));
  wrong_type("a layout", object);
}
c10::MemoryFormat memory_format_from(PyObject* object) {
  for (int i = 0; i < static_cast<int>(c10::MemoryFormat::NumOptions); ++i)
    if (object == part(kFormats[i])) return static_cast<c10::MemoryFormat>(i);
  if (PyLong_Check(object)) return static_cast<c10::MemoryFormat>(int_from(object));
  wrong_type("a memory format", object);
}
at::Generator generator_from(PyObject* object) {
  if (object == Py_None) return {};
  const int is_one = PyObject_IsInstance(object, part("Generator"));
  if (is_one <= 0) wrong_type("a Generator", object);
  Py_INCREF(object);
  return at::Generator(c10::make_intrusive<c10::TensorImpl>(object));
}
namespace {
template <class T, class Read>
std::vector<T> sequence(PyObject* object, const char* wanted, Read read) {
  if (PyUnicode_Check(object) || is_tensor(object) || !PySequence_Check(object)) wrong_type(wanted, object);
  Object items = checked(PySequence_Fast(object, wanted));
  std::vector<T> result;
  result.reserve(PySequence_Fast_GET_SIZE(items.get()));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) result.push_back(read(PySequence_Fast_GET_ITEM(items.get(), i)));
  return result;
}
}  // namespace
std::vector<int64_t> ints_from(PyObject* object) { return sequence<int64_t>(object, "a list of ints", int_from); }
std::vector<double> doubles_from(PyObject* object) { return sequence<double>(object, "a list of floats", double_from); }
std::vector<at::Tensor> tensors_from(PyObject* object) { return sequence<at::Tensor>(object, "a list of tensors", tensor_from); }

// --- calls of ops -----------------------------------------------------------------------------------------------------

PyObject* argument(const Argument& given) {
  const void* at = given.at;
  switch (given.kind) {
    case kTensor: return wrap(*static_cast<const at::Tensor*>(at));
    case kOptionalTensor: return optional<at::Tensor>(at);
    case kTensorList: return wrap(*static_cast<const at::TensorList*>(at));
    case kOptionalTensorList:
      return listed(*static_cast<const std::vector<std::optional<at::Tensor>>*>(at), [](const auto& t) { return t ? wrap(*t) : none(); }, false);
    case kScalar: return wrap(*static_cast<const c10::Scalar*>(at));
    case kOptionalScalar: return optional<c10::Scalar>(at);
    case kInt: return wrap(*static_cast<const int64_t*>(at));
    case kOptionalInt: return optional<int64_t>(at);
    case kFloat: return wrap(*static_cast<const double*>(at));
    case kOptionalFloat: return optional<double>(at);
    case kBool: return wrap(*static_cast<const bool*>(at));
    case kOptionalBool: return optional<bool>(at);
    case kIntList: return wrap(*static_cast<const c10::IntArrayRef*>(at));
    case kOptionalIntList: {
      const auto& value = *static_cast<const c10::OptionalIntArrayRef*>(at);
      return value.has_value() ? wrap(value.value()) : nullptr;
    }
    case kFloatList: return listed(*static_cast<const c10::ArrayRef<double>*>(at), [](double v) { return wrap(v); }, true);
    case kOptionalFloatList: {
      const auto& value = *static_cast<const std::optional<c10::ArrayRef<double>>*>(at);
      return value ? listed(*value, [](double v) { return wrap(v); }, true) : nullptr;
    }
    case kScalarList: return listed(*static_cast<const c10::ArrayRef<c10::Scalar>*>(at), [](const c10::Scalar& v) { return wrap(v); }, false);
    case kBoolList: return listed(*static_cast<const c10::ArrayRef<bool>*>(at), [](bool v) { return wrap(v); }, false);
    case kText: return wrap(*static_cast<const std::string_view*>(at));
    case kOptionalText: return optional<std::string_view>(at);
    case kType: return wrap(*static_cast<const c10::ScalarType*>(at));
    case kOptionalType: return optional<c10::ScalarType>(at);
    case kDevice: return wrap(*static_cast<const c10::Device*>(at));
    case kOptionalDevice: return optional<c10::Device>(at);
    case kLayout: return wrap(*static_cast<const c10::Layout*>(at));
    case kOptionalLayout: return optional<c10::Layout>(at);
    case kMemoryFormat: return wrap(*static_cast<const c10::MemoryFormat*>(at));
    case kOptionalMemoryFormat: return optional<c10::MemoryFormat>(at);
    case kOptionalGenerator: return optional<at::Generator>(at);
    case kStorage: {
      const auto& owner = static_cast<const c10::Storage*>(at)->owner();
      TORCH_CHECK(owner, "expected a storage, got none");
      return checked(PyObject_CallMethod(static_cast<PyObject*>(owner->object), "untyped_storage", nullptr)).release();
    }
    case kOptions: break;
  }
  return nullptr;
}

namespace {

bool is_usual(const Argument& given) {
  if (given.usual == kNoDefault) return false;
  switch (given.kind) {
    case kScalar: {
      const auto& value = *static_cast<const c10::Scalar*>(given.at);
      return value.isIntegral() && value.toLong() == given.usual;
    }
    case kInt: return *static_cast<const int64_t*>(given.at) == given.usual;
    case kBool: return *static_cast<const bool*>(given.at) == (given.usual != 0);
    default: return false;
  }
}

PyObject* find(Op& op, const Argument* arguments) {
  if (op.overload && !*op.overload) return checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(state().tensor), op.name)).release();
  if (!op.overload) return Object::borrowed(part(op.name)).release();
  Object ops = checked(PyObject_GetAttrString(part("ops"), "aten"));
  Object packet = checked(PyObject_GetAttrString(ops.get(), op.name));
  return checked(PyObject_GetAttrString(packet.get(), op.overload)).release();
}

struct References {
  std::vector<PyObject*> values;
  ~References() { for (PyObject* value : values) Py_XDECREF(value); }
};

PyObject* run(Op& op, const Argument* arguments, int count, PyObject* outs) {
  if (!op.target) op.target = find(op, arguments);
  int keywords = 0;
  for (const char* c = op.keywords; *c; ++c) keywords += *c == ',';
  References passed;
  passed.values.reserve(count + 6);
  std::vector<const char*> names;
  const int places = count - keywords;
  for (int i = 0; i < places; ++i) {
    PyObject* value = argument(arguments[i]);
    if (!value && PyErr_Occurred()) throw_python();
    passed.values.push_back(value ? value : none());
  }
  std::string text = op.keywords;
  char* word = text.data();
  for (int i = places; i < count; ++i) {
    char* end = std::strchr(word, ',');
    *end = 0;
    if (arguments[i].kind == kOptions) {
      add_options(*static_cast<const c10::TensorOptions*>(arguments[i].at), passed.values, names);
    } else if (!is_usual(arguments[i])) {
      PyObject* value = argument(arguments[i]);
      if (!value && PyErr_Occurred()) throw_python();
      if (value) passed.values.push_back(value), names.push_back(word);
    }
    word = end + 1;
  }
  if (outs) Py_INCREF(outs), passed.values.push_back(outs), names.push_back("out");
  Object kwnames;
  if (!names.empty()) {
    kwnames = Object(PyTuple_New(static_cast<Py_ssize_t>(names.size())));
    for (size_t i = 0; i < names.size(); ++i) PyTuple_SET_ITEM(kwnames.get(), i, PyUnicode_InternFromString(names[i]));
  }
  PyObject* result = PyObject_Vectorcall(static_cast<PyObject*>(op.target), passed.values.data(), passed.values.size() - names.size(), kwnames.get());
  if (!result) throw_python();
  return result;
}

}  // namespace

void* call(Op& op, const Argument* arguments, int count) {
  Lock lock;
  return run(op, arguments, count, nullptr);
}

namespace {
void run_out(Op& op, const Argument* arguments, int count, Object out) {
  if (!op.target) {
    Object name(wrap(std::string_view(op.name)));
    Object function = op.overload ? Object(wrap(std::string_view(op.overload))) : Object::borrowed(part(op.name));
    op.target = call_runtime("out_function", {name.get(), function.get()}).release();
  }
  Object(run(op, arguments, count, out.get()));
}
}  // namespace

void call_out(Op& op, const Argument* arguments, int count, at::Tensor* const* outs, int out_count) {
  Lock lock;
  Object out(out_count == 1 ? wrap(*outs[0]) : PyTuple_New(out_count));
  for (int i = 0; out_count > 1 && i < out_count; ++i) PyTuple_SET_ITEM(out.get(), i, wrap(*outs[i]));
  run_out(op, arguments, count, std::move(out));
}
void call_out(Op& op, const Argument* arguments, int count, c10::ArrayRef<at::Tensor> outs) {
  Lock lock;
  run_out(op, arguments, count, Object(wrap(outs)));
}

at::Tensor tensor_of(void* object) {
  auto* result = static_cast<PyObject*>(object);
  Lock lock;
  if (result == Py_None) return Py_DECREF(result), at::Tensor();
  if (is_tensor(result)) return at::Tensor::stolen(result);
  Object owned(result);
  wrong_type("a Tensor as the op's result", result);
}
std::vector<at::Tensor> tensors_of(void* object) {
  Lock lock;
  Object owned(static_cast<PyObject*>(object));
  return tensors_from(owned.get());
}
void unpack(void* object, at::Tensor* into, int count) {
  Lock lock;
  Object owned(static_cast<PyObject*>(object));
  std::vector<at::Tensor> parts = tensors_from(owned.get());
  TORCH_CHECK(static_cast<int>(parts.size()) == count, "expected ", count, " results of an op, got ", parts.size());
  for (int i = 0; i < count; ++i) into[i] = std::move(parts[i]);
}
#define RUSHLIGHT_RESULT(type, name, read)                \
  type name(void* object) {                               \
    Lock lock;                                            \
    Object owned(static_cast<PyObject*>(object));         \
    return read(owned.get());                             \
  }
RUSHLIGHT_RESULT(int64_t, int_of, int_from)
RUSHLIGHT_RESULT(double, double_of, double_from)
RUSHLIGHT_RESULT(bool, bool_of, bool_from)
RUSHLIGHT_RESULT(c10::Scalar, scalar_of, scalar_from)
RUSHLIGHT_RESULT(c10::ScalarType, dtype_of, dtype_from)
#undef RUSHLIGHT_RESULT
void forget(void* object) {
  Lock lock;
  Py_XDECREF(static_cast<PyObject*>(object));
}

}  // namespace rushlight

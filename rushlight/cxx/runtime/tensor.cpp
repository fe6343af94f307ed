// at::Tensor's own methods, storages, generators, and what is known of types and devices.
#include <iostream>

#include "runtime.h"

using namespace rushlight;

namespace c10 {

TensorImpl::~TensorImpl() {
  if (!object || !Py_IsInitialized()) return;   // at the end of a process: Python has gone before
  Lock lock;
  Py_DECREF(static_cast<PyObject*>(object));
}
IntArrayRef TensorImpl::sizes() const { return {fields(object)->sizes(), fields(object)->ndim}; }
IntArrayRef TensorImpl::strides() const { return {fields(object)->strides(), fields(object)->ndim}; }
int64_t TensorImpl::numel() const { return fields(object)->numel; }
int64_t TensorImpl::dim() const { return fields(object)->ndim; }

void* Storage::mutable_data() const { return owner_ ? fields(owner_->object)->storage->data : nullptr; }
size_t Storage::nbytes() const { return owner_ ? fields(owner_->object)->storage->nbytes : 0; }
bool Storage::is_alias_of(const Storage& o) const { return owner_ && o.owner_ && fields(owner_->object)->storage == fields(o.owner_->object)->storage; }
Device Storage::device() const { return at::Tensor(owner_).device(); }

size_t elementSize(ScalarType type) {
  switch (type) {
#define X(cpp, name, number) case ScalarType::name: return sizeof(cpp);
    AT_FORALL_SCALAR_TYPES_WITH_COMPLEX_AND_QINTS(X)
#undef X
    case ScalarType::QUInt4x2: case ScalarType::QUInt2x4: case ScalarType::Bits1x8: case ScalarType::Bits2x4: case ScalarType::Bits4x2: case ScalarType::Bits8: return 1;
    case ScalarType::Bits16: return 2;
    default: throw TypeError(std::string("elementSize: ") + toString(type) + " has no size");
  }
}
std::string TypeMeta::name() const {
  static constexpr std::pair<ScalarType, const char*> known[] = {{kByte, "unsigned char"}, {kChar, "signed char"}, {kShort, "short int"}, {kInt, "int"}, {kLong, "long int"}, {kFloat, "float"}, {kDouble, "double"}, {kBool, "bool"}, {kHalf, "c10::Half"}, {kBFloat16, "c10::BFloat16"}, {kComplexFloat, "c10::complex<float>"}, {kComplexDouble, "c10::complex<double>"}};
  for (auto [type, name] : known) if (type == type_) return name;
  return toString(type_);
}
static Object two(const char* function, ScalarType a, ScalarType b) {
  Object x(wrap(a)), y(wrap(b));
  return checked(PyObject_CallFunctionObjArgs(part(function), x.get(), y.get(), nullptr));
}
ScalarType promoteTypes(ScalarType a, ScalarType b) { Lock lock; return dtype_from(two("promote_types", a, b).get()); }
bool canCast(ScalarType a, ScalarType b) { Lock lock; return bool_from(two("can_cast", a, b).get()); }
ScalarType get_default_dtype_as_scalartype() { Lock lock; return dtype_from(checked(PyObject_CallNoArgs(part("get_default_dtype"))).get()); }

static constexpr std::pair<DeviceType, const char*> kDeviceNames[] = {{DeviceType::CPU, "cpu"}, {DeviceType::CUDA, "cuda"}, {DeviceType::MKLDNN, "mkldnn"}, {DeviceType::HIP, "hip"}, {DeviceType::XLA, "xla"}, {DeviceType::Vulkan, "vulkan"}, {DeviceType::XPU, "xpu"}, {DeviceType::MPS, "mps"}, {DeviceType::Meta, "meta"}, {DeviceType::HPU, "hpu"}, {DeviceType::Lazy, "lazy"}, {DeviceType::IPU, "ipu"}, {DeviceType::MTIA, "mtia"}, {DeviceType::PrivateUse1, "privateuseone"}};
std::string DeviceTypeName(DeviceType type, bool lower_case) {
  for (auto [known, name] : kDeviceNames) {
    if (known != type) continue;
    std::string text = name;
    for (char& c : text) c = lower_case ? c : static_cast<char>(std::toupper(c));
    return text;
  }
  throw ValueError("DeviceTypeName: no device has the number " + std::to_string(static_cast<int>(type)));
}
Device::Device(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  bool found = false;
  for (auto [type, known] : kDeviceNames) if (name == known) type_ = type, found = true;
  if (!found && !name.empty()) {   // a device of others, under its own name
    Lock lock;
    Object type = checked(PyObject_CallFunction(reinterpret_cast<PyObject*>(state().device), "s", text.c_str()));
    type_ = DeviceType::PrivateUse1, found = true;
  }
  const std::string number = colon == std::string::npos ? "" : text.substr(colon + 1);
  const bool good = colon == std::string::npos || (!number.empty() && number.size() < 4 && number.find_first_not_of("0123456789") == std::string::npos && std::stoi(number) < 128);
  TORCH_CHECK(found && good, "Device: expected a name such as \"cpu\" or \"cuda:0\", got \"", text, "\"");
  index_ = colon == std::string::npos ? -1 : static_cast<DeviceIndex>(std::stoi(number));
}
std::string toString(Layout layout) {
  static constexpr const char* names[] = {"Strided", "Sparse", "SparseCsr", "Mkldnn", "SparseCsc", "SparseBsr", "SparseBsc", "Jagged"};
  return names[static_cast<int>(layout)];
}
std::string toString(MemoryFormat format) {
  static constexpr const char* names[] = {"Contiguous", "Preserve", "ChannelsLast", "ChannelsLast3d"};
  return names[static_cast<int>(format)];
}
const char* toString(DispatchKey key) {
  switch (key) {
#define X(name) case DispatchKey::name: return #name;
    RUSHLIGHT_KEYS(X)
#undef X
  }
  return "Undefined";
}

ScalarType Scalar::type() const { return isComplex() ? kComplexDouble : isFloatingPoint() ? kDouble : isBoolean() ? kBool : isUnsigned() && whole_ < 0 ? kUInt64 : kLong; }
Scalar Scalar::operator-() const {
  TORCH_CHECK(!isBoolean(), "Scalar: a bool has no negative");
  return isComplex() ? Scalar(-whole_complex()) : isFloatingPoint() ? Scalar(-real_) : Scalar(-whole_);
}
bool Scalar::equal(const Scalar& o) const {
  if (isComplex() || o.isComplex()) return whole_complex() == o.whole_complex();
  if (isFloatingPoint() || o.isFloatingPoint()) return as_double() == o.as_double();
  return isBoolean() == o.isBoolean() && whole_ == o.whole_;
}
void Scalar::refuse_complex() const { if (imaginary_ != 0) throw Error("value cannot be converted to a real number without losing its imaginary part"); }
int64_t Scalar::checked_whole(bool is_signed, size_t bytes) const {
  refuse_complex();
  const double value = as_double();
  const bool real = isFloatingPoint() || isComplex();
  const int bits = static_cast<int>(bytes) * 8 - (is_signed ? 1 : 0);
  const double most = std::ldexp(1.0, bits), least = is_signed ? -most : -std::ldexp(1.0, bits);
  if (real ? !(value < most && value >= least) : bytes < 8 && (whole_ >= (int64_t(1) << bits) || whole_ < static_cast<int64_t>(least)))
    throw Error("value cannot be converted to a type of " + std::to_string(bytes) + " bytes without overflow: " + std::to_string(value));
  return real ? static_cast<int64_t>(value) : whole_;
}
std::ostream& operator<<(std::ostream& out, const Scalar& number) {
  if (number.isComplex()) return out << number.toComplexDouble();
  if (number.isFloatingPoint()) return out << number.toDouble();
  return number.isBoolean() ? out << (number.toBool() ? "true" : "false") : out << number.toLong();
}
TensorOptions TensorOptions::merge_in(const TensorOptions& over) const {
  TensorOptions r = *this;
  if (over.device_) r.device_ = over.device_;
  if (over.dtype_) r.dtype_ = over.dtype_;
  if (over.layout_) r.layout_ = over.layout_;
  if (over.requires_grad_) r.requires_grad_ = over.requires_grad_;
  if (over.pinned_) r.pinned_ = over.pinned_;
  if (over.memory_format_) r.memory_format_ = over.memory_format_;
  return r;
}

}  // namespace c10

namespace at {

namespace {

const TensorFields* known(const Tensor& t, const char* method) {
  TORCH_CHECK(t.defined(), method, ": the tensor is undefined");
  return fields(t.object());
}
int64_t place(int64_t dim, int64_t count, const char* method) {
  const int64_t most = count ? count : 1;
  TORCH_CHECK_INDEX(dim >= -most && dim < most, method, ": expected a dimension from ", -most, " to ", most - 1, ", got ", dim);
  return dim < 0 ? dim + most : dim;
}
Object attribute(const Tensor& t, const char* name) {
  known(t, name);
  return checked(PyObject_GetAttrString(static_cast<PyObject*>(t.object()), name));
}
template <class... Args>
Object method(const Tensor& t, const char* name, const char* format = nullptr, Args... args) {
  known(t, name);
  return checked(PyObject_CallMethod(static_cast<PyObject*>(t.object()), name, format, args...));
}

}  // namespace

Tensor Tensor::borrowed(void* object) { Py_XINCREF(static_cast<PyObject*>(object)); return stolen(object); }
Tensor Tensor::stolen(void* object) { return object ? Tensor(c10::make_intrusive<c10::TensorImpl>(object)) : Tensor(); }
int64_t Tensor::dim() const { return known(*this, "dim")->ndim; }
IntArrayRef Tensor::sizes() const { return known(*this, "sizes"), impl_->sizes(); }
IntArrayRef Tensor::strides() const { return known(*this, "strides"), impl_->strides(); }
int64_t Tensor::size(int64_t dim) const {
  auto* t = known(*this, "size");
  TORCH_CHECK_INDEX(t->ndim, "size: a tensor without dimensions has no size ", dim);
  return t->sizes()[place(dim, t->ndim, "size")];
}
int64_t Tensor::stride(int64_t dim) const {
  auto* t = known(*this, "stride");
  TORCH_CHECK_INDEX(t->ndim, "stride: a tensor without dimensions has no stride ", dim);
  return t->strides()[place(dim, t->ndim, "stride")];
}
int64_t Tensor::numel() const { return impl_ ? impl_->numel() : 0; }
int64_t Tensor::storage_offset() const { return known(*this, "storage_offset")->offset; }
size_t Tensor::itemsize() const { return c10::elementSize(scalar_type()); }
ScalarType Tensor::scalar_type() const { return impl_ ? static_cast<ScalarType>(state().scalar_types[fields(object())->dtype]) : ScalarType::Undefined; }
Device Tensor::device() const {
  auto* t = known(*this, "device");
  int8_t& type = state().device_types[t->device_type];
  if (type < 0) {
    Lock lock;
    type = static_cast<int8_t>(device_from(attribute(*this, "device").get()).type());
  }
  const auto kind = static_cast<DeviceType>(type);
  return Device(kind, kind == c10::kCPU || kind == c10::kMeta ? -1 : static_cast<DeviceIndex>(t->device_index));
}
int64_t Tensor::get_device() const { return is_cpu() ? -1 : device().index(); }
Layout Tensor::layout() const {
  auto* t = known(*this, "layout");
  if (Py_TYPE(static_cast<PyObject*>(object())) == state().tensor && !t->storage->is_hollow) return c10::kStrided;
  Lock lock;
  return layout_from(attribute(*this, "layout").get());
}
TensorOptions Tensor::options() const { return TensorOptions(scalar_type()).device(device()).layout(layout()); }
bool Tensor::is_contiguous(MemoryFormat format) const {
  if (format == MemoryFormat::Contiguous) return known(*this, "is_contiguous")->flags & 2;
  Lock lock;
  Object wanted(wrap(format)), names(Py_BuildValue("{s:O}", "memory_format", wanted.get())), none(PyTuple_New(0));
  return bool_from(checked(PyObject_Call(attribute(*this, "is_contiguous").get(), none.get(), names.get())).get());
}
MemoryFormat Tensor::suggest_memory_format() const {
  if (dim() == 4 && !is_contiguous() && is_contiguous(MemoryFormat::ChannelsLast)) return MemoryFormat::ChannelsLast;
  if (dim() == 5 && !is_contiguous() && is_contiguous(MemoryFormat::ChannelsLast3d)) return MemoryFormat::ChannelsLast3d;
  return MemoryFormat::Contiguous;
}
bool Tensor::is_non_overlapping_and_dense() const { return known(*this, "is_non_overlapping_and_dense")->flags & 16; }
bool Tensor::is_inference() const { return known(*this, "is_inference")->flags & 4; }
bool Tensor::is_pinned() const { Lock lock; return bool_from(method(*this, "is_pinned").get()); }
void* Tensor::data_ptr() const {
  auto* t = known(*this, "data_ptr");
  if (t->storage && t->storage->data) return t->storage->data + t->offset * static_cast<int64_t>(itemsize());
  TORCH_CHECK(t->numel == 0, "data_ptr: the tensor has no memory of its own (device ", device(), ")");
  return nullptr;
}
void* Tensor::typed_data(ScalarType expected) const {
  TORCH_CHECK(scalar_type() == expected, "expected scalar type ", expected, " but found ", scalar_type());
  return data_ptr();
}
void Tensor::expect_dim(size_t count) const {
  TORCH_CHECK(dim() == static_cast<int64_t>(count), "TensorAccessor expected ", count, " dims but tensor has ", dim());
}
Scalar Tensor::item() const { Lock lock; return scalar_from(method(*this, "item").get()); }
bool Tensor::equal(const Tensor& o) const { Lock lock; known(o, "equal"); return bool_from(method(*this, "equal", "O", o.object()).get()); }
std::string Tensor::toString() const {
  if (!defined()) return "UndefinedType";
  std::string name = c10::DeviceTypeName(device().type(), false) + (is_sparse() ? "Sparse" : "");
  return (is_cpu() ? "CPU" : name) + std::string(c10::toString(scalar_type())) + "Type";
}
void Tensor::print() const { std::cerr << "[" << toString() << " " << sizes() << "]\n"; }
bool Tensor::requires_grad() const {
  if (!defined()) return false;
  auto* t = fields(object());
  return (t->flags & 1) || t->grad_fn;
}
const Tensor& Tensor::set_requires_grad(bool value) const { Lock lock; method(*this, "requires_grad_", "O", value ? Py_True : Py_False); return *this; }
bool Tensor::is_leaf() const { Lock lock; return bool_from(attribute(*this, "is_leaf").get()); }
int64_t Tensor::output_nr() const { return known(*this, "output_nr")->output_nr; }
int64_t Tensor::_version() const { Lock lock; return int_from(attribute(*this, "_version").get()); }
void Tensor::retain_grad() const { Lock lock; method(*this, "retain_grad"); }
bool Tensor::retains_grad() const { Lock lock; return bool_from(attribute(*this, "retains_grad").get()); }
Tensor Tensor::grad() const { Lock lock; return tensor_from(attribute(*this, "grad").get()); }
bool Tensor::has_grad_fn() const { Lock lock; return attribute(*this, "grad_fn").get() != Py_None; }
void Tensor::set_grad(const Tensor& value) const {
  Lock lock;
  Object g(wrap(value));
  if (PyObject_SetAttrString(static_cast<PyObject*>(known(*this, "grad") ? object() : nullptr), "grad", g.get()) < 0) throw_python();
}
GradientSlot& Tensor::mutable_grad() const {
  thread_local GradientSlot last;
  static_cast<Tensor&>(last) = grad();
  last.owner_ = *this;
  return last;
}
const Tensor& GradientSlot::operator=(const Tensor& value) {
  owner_.set_grad(value);
  return Tensor::operator=(value);
}
void GradientSlot::reset() { *this = Tensor(); }
void Tensor::set_data(const Tensor& value) const {
  Lock lock;
  known(*this, "set_data");
  if (PyObject_SetAttrString(static_cast<PyObject*>(object()), "data", static_cast<PyObject*>(value.object())) < 0) throw_python();
}
Tensor Tensor::variable_data() const { Lock lock; return tensor_from(attribute(*this, "data").get()); }
const Tensor& Tensor::detach_() const { Lock lock; method(*this, "detach_"); return *this; }
void Tensor::backward(const Tensor& gradient, std::optional<bool> retain, bool create, std::optional<TensorList> inputs) const {
  Lock lock;
  Object g(wrap(gradient)), keep(retain ? wrap(*retain) : Object::borrowed(Py_None).release()), make(wrap(create));
  Object into(inputs ? wrap(*inputs) : Object::borrowed(Py_None).release());
  Object run = attribute(*this, "backward");
  checked(PyObject_CallFunctionObjArgs(run.get(), g.get(), keep.get(), make.get(), into.get(), nullptr));
}
unsigned Tensor::add_hook(std::function<Tensor(Tensor)> hook) const {
  Lock lock;
  Object face(function_object("hook", [hook](PyObject* args, PyObject*) { return wrap(hook(tensor_from(PyTuple_GET_ITEM(args, 0)))); }));
  Object handle = method(*this, "register_hook", "O", face.get());
  return static_cast<unsigned>(int_from(checked(PyObject_GetAttrString(handle.get(), "id")).get()));
}
void Tensor::remove_hook(unsigned hook) const {
  Lock lock;
  Object hooks = attribute(*this, "_backward_hooks"), key(wrap(static_cast<int64_t>(hook)));
  if (hooks.get() != Py_None && PyObject_DelItem(hooks.get(), key.get()) < 0) throw_python();
}
Tensor Tensor::to(const TensorOptions& options, bool non_blocking, bool copy, std::optional<MemoryFormat> format) const {
  Lock lock;
  Object names(PyDict_New()), none(PyTuple_New(0));
  auto say = [&](const char* name, PyObject* value) { Object owned(value); PyDict_SetItemString(names.get(), name, owned.get()); };
  if (auto value = options.scalar_type_opt()) say("dtype", wrap(*value));
  if (auto value = options.device_opt()) say("device", wrap(*value));
  if (non_blocking) say("non_blocking", wrap(true));
  if (copy) say("copy", wrap(true));
  if (format) say("memory_format", wrap(*format));
  TORCH_CHECK(!options.has_layout() || options.layout() == layout(), "to: the layout cannot be changed, got ", options.layout());
  return tensor_from(checked(PyObject_Call(attribute(*this, "to").get(), none.get(), names.get())).get());
}
Tensor Tensor::contiguous(MemoryFormat format) const {
  if (format == MemoryFormat::Contiguous && is_contiguous()) return *this;
  Lock lock;
  Object names(PyDict_New()), none(PyTuple_New(0)), value(wrap(format));
  PyDict_SetItemString(names.get(), "memory_format", value.get());
  return tensor_from(checked(PyObject_Call(attribute(*this, "contiguous").get(), none.get(), names.get())).get());
}

static Tensor taken_at(const Tensor& t, Object at) {
  known(t, "index");
  return tensor_from(checked(PyObject_GetItem(static_cast<PyObject*>(t.object()), at.get())).get());
}
static void store_at(const Tensor& t, Object at, Object value) {
  known(t, "index_put_");
  if (PyObject_SetItem(static_cast<PyObject*>(t.object()), at.get(), value.get()) < 0) throw_python();
}
Tensor Tensor::operator[](int64_t index) const { Lock lock; return taken_at(*this, Object(wrap(index))); }
Tensor Tensor::operator[](const Tensor& index) const { Lock lock; return taken_at(*this, Object(wrap(index))); }
Tensor Tensor::index(ArrayRef<indexing::TensorIndex> at) const { Lock lock; return taken_at(*this, Object(wrap(at))); }
Tensor& Tensor::index_put_(ArrayRef<indexing::TensorIndex> at, const Tensor& value) { Lock lock; store_at(*this, Object(wrap(at)), Object(wrap(value))); return *this; }
Tensor& Tensor::index_put_(ArrayRef<indexing::TensorIndex> at, const Scalar& value) { Lock lock; store_at(*this, Object(wrap(at)), Object(wrap(value))); return *this; }
static Object places(const std::vector<std::optional<Tensor>>& at) {
  const Argument given{&at, kOptionalTensorList};
  return Object(argument(given));
}
Tensor Tensor::index(const std::vector<std::optional<Tensor>>& at) const {
  Lock lock;
  known(*this, "index");
  Object list = places(at);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i)   // absent means all of the dimension
    if (PyList_GET_ITEM(list.get(), i) == Py_None) PyList_SetItem(list.get(), i, PySlice_New(nullptr, nullptr, nullptr));
  return taken_at(*this, Object(PyList_AsTuple(list.get())));
}
Tensor& Tensor::index_put_(const std::vector<std::optional<Tensor>>& at, const Tensor& value, bool accumulate) {
  Lock lock;
  Object list = places(at), v(wrap(value));
  method(*this, "index_put_", "OOi", list.get(), v.get(), accumulate ? 1 : 0);
  return *this;
}
std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  if (!tensor.defined()) return out << "[ Tensor (undefined) ]";
  Lock lock;
  return out << text_from(call_runtime("shown", {static_cast<PyObject*>(tensor.object())}).get());
}

// --- functions --------------------------------------------------------------------------------------------------------

Tensor scalar_tensor(const Scalar& value, const TensorOptions& options) { return full({}, value, options.has_dtype() ? options : options.dtype(get_default_dtype())); }
TensorValues::TensorValues(std::initializer_list<TensorValues> parts) : sizes{static_cast<int64_t>(parts.size())} {
  bool first = true;
  for (const TensorValues& part : parts) {
    if (first) sizes.insert(sizes.end(), part.sizes.begin(), part.sizes.end()), type = part.type;
    TORCH_CHECK(std::equal(part.sizes.begin(), part.sizes.end(), sizes.begin() + 1, sizes.end()), "tensor: the parts of a nested list differ in size");
    TORCH_CHECK(part.type == type, "tensor: expected all elements to have one type, got ", type, " and ", part.type);
    values.insert(values.end(), part.values.begin(), part.values.end());
    first = false;
  }
}
Tensor tensor(const TensorValues& from, const TensorOptions& options) {
  Lock lock;
  Object list(PyList_New(static_cast<Py_ssize_t>(from.values.size())));
  for (size_t i = 0; i < from.values.size(); ++i) PyList_SET_ITEM(list.get(), i, wrap(from.values[i]));
  TensorOptions wanted = options.has_dtype() || from.type == ScalarType::Undefined ? options : options.dtype(from.type);
  if (!wanted.has_dtype() && from.values.empty()) wanted = wanted.dtype(c10::get_default_dtype());
  Object sizes(wrap(IntArrayRef(from.sizes)));
  Object dtype(wanted.has_dtype() ? wrap(*wanted.scalar_type_opt()) : Object::borrowed(Py_None).release()), device(wrap(wanted.device())), grad(wrap(wanted.requires_grad()));
  return tensor_from(call_runtime("tensor", {list.get(), sizes.get(), dtype.get(), device.get(), grad.get()}).get());
}
// Memory of others arrives by DLPack's structure, which says how to give it back.
namespace {
struct Exported {
  struct {
    void* data;
    struct { int32_t type, index; } device;
    int32_t ndim;
    struct { uint8_t code, bits; uint16_t lanes; } dtype;
    int64_t *sizes, *strides;
    uint64_t offset;
  } tensor;
  void* context;
  void (*release)(Exported*);
  std::vector<int64_t> sizes, strides;
  std::function<void(void*)> deleter;
};
uint8_t dlpack_code(ScalarType type) {
  if (type == c10::kBool) return 6;
  if (type == c10::kBFloat16) return 4;
  if (c10::isComplexType(type)) return 5;
  if (c10::isFloatingType(type)) return 2;
  return c10::isSignedType(type) ? 0 : 1;
}
}  // namespace

Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, std::function<void(void*)> deleter, const TensorOptions& options, std::optional<Device> target) {
  Lock lock;
  const Device where = target.value_or(options.device());
  const ScalarType type = options.dtype();
  for (int64_t size : sizes) TORCH_CHECK_VALUE(size >= 0, "from_blob: expected sizes that are not negative, got ", sizes);
  TORCH_CHECK_VALUE(strides.empty() || strides.size() == sizes.size(), "from_blob: expected a stride for each size, got ", strides, " for ", sizes);
  TORCH_CHECK(where.is_cpu() || where.is_cuda(), "from_blob: expected memory of a CPU or of CUDA, got the device ", where);
  TORCH_CHECK(!c10::isQIntType(type) && !c10::isFloat8Type(type), "from_blob: memory cannot hold ", type);
  auto made = std::make_unique<Exported>();
  made->sizes = sizes.vec(), made->strides = strides.vec(), made->deleter = std::move(deleter);
  if (strides.empty()) {
    made->strides.assign(sizes.size(), 1);
    for (size_t i = sizes.size(); i-- > 1;) made->strides[i - 1] = made->strides[i] * std::max<int64_t>(sizes[i], 1);
  }
  made->tensor = {data, {where.is_cuda() ? 2 : 1, where.has_index() ? where.index() : 0}, static_cast<int32_t>(sizes.size()), {dlpack_code(type), static_cast<uint8_t>(c10::elementSize(type) * 8), 1}, made->sizes.data(), made->strides.data(), 0};
  made->release = [](Exported* self) {
    if (self->deleter) self->deleter(self->tensor.data);
    delete self;
  };
  Object capsule = checked(PyCapsule_New(made.get(), "dltensor", [](PyObject* unused) {
    if (PyCapsule_IsValid(unused, "dltensor")) {
      auto* left = static_cast<Exported*>(PyCapsule_GetPointer(unused, "dltensor"));
      left->release(left);
    }
  }));
  made.release();
  Tensor result = tensor_from(checked(PyObject_CallOneArg(part("from_dlpack"), capsule.get())).get());
  return options.requires_grad() ? result.set_requires_grad(true), result : result;
}
ScalarType result_type(const Tensor& a, const Tensor& b) { Lock lock; Object x(wrap(a)), y(wrap(b)); return dtype_from(checked(PyObject_CallFunctionObjArgs(part("result_type"), x.get(), y.get(), nullptr)).get()); }
ScalarType result_type(const Tensor& a, const Scalar& b) { Lock lock; Object x(wrap(a)), y(wrap(b)); return dtype_from(checked(PyObject_CallFunctionObjArgs(part("result_type"), x.get(), y.get(), nullptr)).get()); }
std::vector<int64_t> infer_size(IntArrayRef a, IntArrayRef b) { Lock lock; Object x(wrap(a)), y(wrap(b)); return ints_from(checked(PyObject_CallFunctionObjArgs(part("broadcast_shapes"), x.get(), y.get(), nullptr)).get()); }
static std::vector<Tensor> with_words(const char* function, const Tensor& t, PyObject* words) {
  Object names(words), args(PyTuple_Pack(1, t.object()));
  Object result = checked(PyObject_Call(part(function), args.get(), names.get()));
  return is_tensor(result.get()) ? std::vector<Tensor>{tensor_from(result.get())} : tensors_from(result.get());
}
std::tuple<Tensor, Tensor> unique(const Tensor& t, bool sorted, bool inverse) {
  Lock lock;
  auto r = with_words("unique", t, Py_BuildValue("{s:i,s:O}", "sorted", sorted ? 1 : 0, "return_inverse", Py_True));
  return {r[0], inverse ? r[1] : at::empty({0}, TensorOptions(c10::kLong).device(t.device()))};
}
std::tuple<Tensor, Tensor, Tensor> unique_consecutive(const Tensor& t, bool inverse, bool counts, std::optional<int64_t> dim) {
  Lock lock;
  Object words(Py_BuildValue("{s:O,s:O}", "return_inverse", Py_True, "return_counts", Py_True));
  if (dim) PyDict_SetItemString(words.get(), "dim", Object(wrap(*dim)).get());
  auto r = with_words("unique_consecutive", t, words.release());
  Tensor none = at::empty({0}, TensorOptions(c10::kLong).device(t.device()));
  return {r[0], inverse ? r[1] : none, counts ? r[2] : none};
}
int64_t get_num_threads() { Lock lock; return int_from(checked(PyObject_CallNoArgs(part("get_num_threads"))).get()); }
void set_num_threads(int count) { Lock lock; checked(PyObject_CallFunction(part("set_num_threads"), "i", count)); }
void manual_seed(uint64_t seed) { Lock lock; checked(PyObject_CallFunction(part("manual_seed"), "K", static_cast<unsigned long long>(seed))); }
bool hasCUDA() { Lock lock; Object cuda = checked(PyObject_GetAttrString(state().package, "cuda")); return bool_from(checked(PyObject_CallMethod(cuda.get(), "is_available", nullptr)).get()); }
bool isTensorSubclassLike(const Tensor& t) { return t.defined() && Py_TYPE(static_cast<PyObject*>(t.object())) != state().tensor; }

// --- generators -------------------------------------------------------------------------------------------------------

static Object of_generator(const Generator& g, const char* name) {
  TORCH_CHECK(g.defined(), "Generator: undefined");
  return checked(PyObject_CallMethod(static_cast<PyObject*>(g.object()), name, nullptr));
}
void Generator::set_current_seed(uint64_t seed) { Lock lock; TORCH_CHECK(defined(), "Generator: undefined"); checked(PyObject_CallMethod(static_cast<PyObject*>(object()), "manual_seed", "K", static_cast<unsigned long long>(seed))); }
uint64_t Generator::current_seed() const { Lock lock; return PyLong_AsUnsignedLongLongMask(of_generator(*this, "initial_seed").get()); }
uint64_t Generator::seed() { Lock lock; return PyLong_AsUnsignedLongLongMask(of_generator(*this, "seed").get()); }
Device Generator::device() const { Lock lock; return device_from(checked(PyObject_GetAttrString(static_cast<PyObject*>(object()), "device")).get()); }
Tensor Generator::get_state() const { Lock lock; return tensor_from(of_generator(*this, "get_state").get()); }
void Generator::set_state(const Tensor& state) { Lock lock; checked(PyObject_CallMethod(static_cast<PyObject*>(object()), "set_state", "O", state.object())); }
std::mutex& Generator::mutex() const { static std::mutex one; return one; }
namespace detail {
Generator createCPUGenerator(uint64_t seed) {
  Lock lock;
  Generator made = generator_from(checked(PyObject_CallNoArgs(part("Generator"))).get());
  made.set_current_seed(seed);
  return made;
}
const Generator& getDefaultCPUGenerator() {
  static const Generator& kept = *[] { Lock lock; return new Generator(generator_from(part("default_generator"))); }();
  return kept;
}
}  // namespace detail

}  // namespace at

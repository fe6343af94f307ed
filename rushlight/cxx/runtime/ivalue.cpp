// IValues: questions, texts, and both directions between them and Python's objects.
#include <rushlight/ivalue_python.h>

#include "runtime.h"

namespace c10 {

IValue::IValue(const Scalar& value) {
  if (value.isFloatingPoint()) *this = IValue(value.toDouble());
  else if (value.isComplex()) *this = IValue(value.toComplexDouble());
  else if (value.isBoolean()) *this = IValue(value.toBool());
  else *this = IValue(value.toLong());
}
IValue::IValue(const at::Generator& value) {
  if (!value.defined()) return;
  Py_INCREF(static_cast<PyObject*>(value.object()));
  tag_ = Tag::Generator, object_ = make_intrusive<TensorImpl>(value.object());
}
at::Generator IValue::toGenerator() const { expect(Tag::Generator, "a Generator"); return at::Generator(static_intrusive_pointer_cast<TensorImpl>(object_)); }
std::string IValue::tagKind() const {
  static constexpr const char* names[] = {"None", "Tensor", "Double", "Int", "Bool", "ComplexDouble", "String", "GenericList", "Tuple", "GenericDict", "Device", "Object", "PyObject", "Generator"};
  return names[static_cast<int>(tag_)];
}
Device IValue::toDevice() const { expect(Tag::Device, "a Device"); return Device(static_cast<DeviceType>(number_.whole / 256), static_cast<DeviceIndex>(number_.whole % 256 - 1)); }
Scalar IValue::toScalar() const {
  switch (tag_) {
    case Tag::Double: return number_.real;
    case Tag::Int: return number_.whole;
    case Tag::Bool: return number_.whole != 0;
    case Tag::Complex: return std::complex<double>(number_.real, imaginary_);
    default: expect(Tag::Int, "a number"); return 0;
  }
}
// Python's callers give tuples where lists are meant.
List<IValue> IValue::toList() const { if (isTuple()) return List<IValue>(toTuple()->items); expect(Tag::List, "a list"); return List<IValue>(static_intrusive_pointer_cast<ivalue::ListImpl>(object_)); }
ArrayRef<IValue> IValue::toListRef() const { if (isTuple()) return static_cast<ivalue::Tuple*>(object_.get())->items; expect(Tag::List, "a list"); return static_cast<ivalue::ListImpl*>(object_.get())->items; }
intrusive_ptr<ivalue::Tuple> IValue::toTuple() const { expect(Tag::Tuple, "a tuple"); return static_intrusive_pointer_cast<ivalue::Tuple>(object_); }
Dict<IValue, IValue> IValue::toGenericDict() const { expect(Tag::Dict, "a dict"); return Dict<IValue, IValue>(static_intrusive_pointer_cast<ivalue::DictImpl>(object_)); }
bool IValue::is_list_of(Tag tag) const {
  if (tag_ != Tag::List) return false;
  for (const IValue& one : toListRef()) if (one.tag_ != tag) return false;
  return true;
}
bool IValue::equals(const IValue& o) const {
  if (isScalar() && o.isScalar()) return toScalar().equal(o.toScalar());
  if (tag_ != o.tag_) return false;
  switch (tag_) {
    case Tag::None: return true;
    case Tag::String: return toStringRef() == o.toStringRef();
    case Tag::Device: return number_.whole == o.number_.whole;
    case Tag::List: return toListRef() == o.toListRef();
    case Tag::Tuple: return toTuple()->items == o.toTuple()->items;
    default: return object_ == o.object_;
  }
}
std::ostream& operator<<(std::ostream& out, const IValue& value) {
  rushlight::Lock lock;
  rushlight::Object object(rushlight::wrap(value)), text = rushlight::checked(PyObject_Str(object.get()));
  return out << rushlight::text_from(text.get());
}

}  // namespace c10

namespace rushlight {

PyObject* wrap(const c10::IValue& value) {
  using Tag = c10::IValue::Tag;
  switch (value.tag()) {
    case Tag::None: Py_RETURN_NONE;
    case Tag::Tensor: return wrap(value.toTensor());
    case Tag::Double: return wrap(value.toDouble());
    case Tag::Int: return wrap(value.toInt());
    case Tag::Bool: return wrap(value.toBool());
    case Tag::Complex: return wrap(c10::Scalar(value.toComplexDouble()));
    case Tag::String: return wrap(std::string_view(value.toStringRef()));
    case Tag::Device: return wrap(value.toDevice());
    case Tag::Generator: return wrap(value.toGenerator());
    case Tag::Custom: return wrap_custom(value.object());
    case Tag::Python: return Object::borrowed(static_cast<PyObject*>(static_cast<c10::TensorImpl*>(value.object().get())->object)).release();
    case Tag::List: {
      auto items = value.toListRef();
      Object list = checked(PyList_New(static_cast<Py_ssize_t>(items.size())));
      for (size_t i = 0; i < items.size(); ++i) PyList_SET_ITEM(list.get(), i, wrap(items[i]));
      return list.release();
    }
    case Tag::Tuple: {
      const auto& items = value.toTuple()->items;
      Object tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
      for (size_t i = 0; i < items.size(); ++i) PyTuple_SET_ITEM(tuple.get(), i, wrap(items[i]));
      return tuple.release();
    }
    case Tag::Dict: {
      Object dict = checked(PyDict_New());
      auto pairs = value.toGenericDict();
      for (const auto& pair : pairs.impl()->items) {
        Object key(wrap(pair.first)), item(wrap(pair.second));
        if (PyDict_SetItem(dict.get(), key.get(), item.get()) < 0) throw_python();
      }
      return dict.release();
    }
  }
  Py_RETURN_NONE;
}

c10::IValue ivalue_from(PyObject* object) {
  if (object == Py_None) return {};
  if (is_tensor(object)) return tensor_from(object);
  if (PyBool_Check(object)) return object == Py_True;
  if (PyLong_Check(object)) return int_from(object);
  if (PyFloat_Check(object)) return PyFloat_AS_DOUBLE(object);
  if (PyComplex_Check(object)) return std::complex<double>(PyComplex_RealAsDouble(object), PyComplex_ImagAsDouble(object));
  if (PyUnicode_Check(object)) return text_from(object);
  if (Py_TYPE(object) == state().device) return device_from(object);
  if (Py_TYPE(object) == state().dtype) return dtype_from(object);
  if (PyTuple_Check(object)) {
    std::vector<c10::IValue> items;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) items.push_back(ivalue_from(PyTuple_GET_ITEM(object, i)));
    return c10::ivalue::Tuple::create(std::move(items));
  }
  if (PyList_Check(object)) {
    c10::List<c10::IValue> list;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); ++i) list.push_back(ivalue_from(PyList_GET_ITEM(object, i)));
    return list;
  }
  if (PyDict_Check(object)) {
    auto dict = c10::make_intrusive<c10::ivalue::DictImpl>();
    PyObject *key, *item;
    Py_ssize_t at = 0;
    while (PyDict_Next(object, &at, &key, &item)) dict->items.emplace_back(ivalue_from(key), ivalue_from(item));
    return c10::Dict<c10::IValue, c10::IValue>(std::move(dict));
  }
  if (auto custom = custom_from(object)) return {c10::IValue::Tag::Custom, c10::intrusive_ptr<c10::intrusive_ptr_target>(static_cast<c10::intrusive_ptr_target*>(custom.get()))};
  if (PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(part("Generator")))) return generator_from(object);
  Py_INCREF(object);
  return {c10::IValue::Tag::Python, c10::make_intrusive<c10::TensorImpl>(object)};
}

PyObject* wrap_custom(const c10::intrusive_ptr<c10::intrusive_ptr_target>& object) {
  auto* held = object.get();
  held->retain_object();
  std::shared_ptr<void> value(held, [](void* p) { c10::intrusive_ptr<c10::intrusive_ptr_target>::reclaim(static_cast<c10::intrusive_ptr_target*>(p)); });
  Object kept(capsule(std::move(value))), name(wrap(std::string_view(typeid(*held).name())));
  return call_runtime("instance", {name.get(), kept.get()}).release();
}
std::shared_ptr<void> custom_from(PyObject* object) {
  Object kept(PyObject_GetAttrString(object, "_rushlight_custom"));
  if (!kept) {
    PyErr_Clear();
    return nullptr;
  }
  return of_capsule(kept.get());
}

}  // namespace rushlight

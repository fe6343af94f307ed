// IValues in both directions.
#pragma once
#include <rushlight/ivalue.h>
#include <rushlight/python.h>

namespace rushlight {
PyObject* wrap(const c10::IValue& value);
c10::IValue ivalue_from(PyObject* object);
// Custom classes announce themselves, so that instances find their Python class (rushlight/custom_class.h).
PyObject* wrap_custom(const c10::intrusive_ptr<c10::intrusive_ptr_target>& object);
std::shared_ptr<void> custom_from(PyObject* object);   // null: no instance of a custom class
}  // namespace rushlight

#include "unchanged.h"

namespace rl {

// Whether a value asks for nothing but what the tensor has.
static bool is_own(PyObject* value, Tensor* t) {
  if (value == Py_None) return true;
  if (is_dtype(value)) return dtype_of(value) == t->dtype;
  bool has_no_index = t->device.type <= kMeta;
  if (is_device(value)) {
    auto* d = reinterpret_cast<DeviceObject*>(value);
    return d->device == t->device && (d->has_index || has_no_index);
  }
  if (PyUnicode_Check(value))
    return has_no_index && PyUnicode_CompareWithASCIIString(value, device_type_name(t->device.type)) == 0;
  return is_tensor(value) && as_tensor(value)->dtype == t->dtype && as_tensor(value)->device == t->device;
}

static bool lies(Tensor* t, const Choice& choice) {
  if (choice.ndim && choice.ndim != t->ndim) return false;
  switch (choice.laid) {
    case Laid::Anyhow: return true;
    case Laid::Rows: return t->contiguous();
    case Laid::ChannelsLast: return is_channels_last(t->sizes(), t->strides(), t->ndim);
    case Laid::RowsByStrides: return !prefers_channels_last(t->sizes(), t->strides(), t->ndim);
    case Laid::LastByStrides: return prefers_channels_last(t->sizes(), t->strides(), t->ndim);
  }
  return false;
}

static bool is_chosen(const Condition& condition, PyObject* value, Tensor* t) {
  for (const Choice& choice : condition.choices)
    if (choice.value == value) return lies(t, choice);
  return false;
}

bool meets(const Conditions& conditions, PyObject** args) {
  Tensor* t = as_tensor(args[0]);
  for (const Condition& condition : conditions) {
    PyObject* value = condition.param < 0 ? condition.constant : args[condition.param];
    if (condition.chosen ? !is_chosen(condition, value, t) : !is_own(value, t)) return false;
  }
  return true;
}

}  // namespace rl

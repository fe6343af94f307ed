// Binding is a walk over the overload's parameters with one cheap type test each.
#include "bind.h"

#include "number.h"
#include "symbolic.h"

namespace rl {

static PyObject* str_out;
// NumPy's spellings of PyTorch's parameter names, as PyTorch accepts them.
static PyObject *str_axis, *str_dim, *str_keepdims, *str_keepdim, *str_x, *str_x1, *str_input, *str_x2, *str_other,
    *str_self;

static bool is_python_number(PyObject* o) { return PyFloat_Check(o) || PyLong_Check(o) || PyComplex_Check(o); }

static bool is_integer_tensor(PyObject* o) {
  return is_tensor(o) && as_tensor(o)->numel == 1 && as_tensor(o)->ndim == 0 && as_tensor(o)->dtype != DType::Bool &&
         !is_float(as_tensor(o)->dtype) && !is_complex(as_tensor(o)->dtype);
}

// Foreign numbers (NumPy scalars, 0-d tensors given for ints): turned into Python numbers. Null if it is not one.
static PyObject* foreign_integer(PyObject* o) {
  if (is_tensor(o) && !is_integer_tensor(o)) return nullptr;
  PyObject* n = PyNumber_Index(o);
  if (!n) PyErr_Clear();
  return n;
}

// NumPy's scalars are recognised by name, so that NumPy need not be imported. Some are subclasses of Python's own
// numbers, but carry a `dtype` and a `shape` that would be taken for a tensor's.
static bool is_numpy_scalar(PyObject* o) { return !strncmp(Py_TYPE(o)->tp_name, "numpy.", 6) && !PySequence_Check(o); }

static bool is_numpy_bool(PyObject* o) {
  return !strcmp(Py_TYPE(o)->tp_name, "numpy.bool") || !strcmp(Py_TYPE(o)->tp_name, "numpy.bool_");
}

// A NumPy scalar as the Python number it stands for. Null if it is none, or no number.
// As an operand NumPy's bool is 1.0 or 0.0, as it is for PyTorch; elsewhere (`as_bool`) it is a bool.
static PyObject* numpy_number(PyObject* o, bool as_bool = false) {
  if (!is_numpy_scalar(o)) return nullptr;
  if (as_bool && is_numpy_bool(o)) return Py_NewRef(PyObject_IsTrue(o) ? Py_True : Py_False);
  PyObject* n = nullptr;
  if (!strncmp(Py_TYPE(o)->tp_name + 6, "c", 1)) {   // complex64, complex128, clongdouble
    Py_complex c = PyComplex_AsCComplex(o);
    n = PyErr_Occurred() ? nullptr : PyComplex_FromCComplex(c);
  } else if (PyFloat_Check(o)) {
    n = PyFloat_FromDouble(PyFloat_AS_DOUBLE(o));
  } else if (!(n = PyNumber_Index(o)) && Py_TYPE(o)->tp_as_number && Py_TYPE(o)->tp_as_number->nb_float) {
    PyErr_Clear();
    n = PyNumber_Float(o);
  }
  if (!n) PyErr_Clear();
  return n;
}

static bool is_plain_number(PyObject* o) {
  return is_python_number(o) && (PyFloat_CheckExact(o) || PyLong_Check(o) || PyComplex_CheckExact(o) || !is_numpy_scalar(o));
}

// A list or tuple with NumPy scalars in it, as a tuple with Python numbers in their places. Null if it has none.
static PyObject* numpy_numbers(PyObject* seq) {
  if (!PyList_CheckExact(seq) && !PyTuple_CheckExact(seq)) return nullptr;
  Py_ssize_t n = PySequence_Fast_GET_SIZE(seq), found = 0;
  for (Py_ssize_t i = 0; i < n; i++) found += is_numpy_scalar(PySequence_Fast_ITEMS(seq)[i]);
  Ref tuple(found ? PySequence_Tuple(seq) : nullptr);
  if (!tuple) return PyErr_Clear(), nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.p); i++) {
    PyObject* old = PyTuple_GET_ITEM(tuple.p, i);
    PyObject* converted = numpy_number(old, true);
    if (!converted) continue;
    PyTuple_SET_ITEM(tuple.p, i, converted);
    Py_DECREF(old);
  }
  return tuple.release();
}

static PyObject* foreign_number(PyObject* o) {
  if (PyObject* number = numpy_number(o)) return number;
  if (is_tensor(o) && as_tensor(o)->ndim != 0) return nullptr;
  if (PySequence_Check(o) && !is_tensor(o)) return nullptr;
  PyObject* n = PyNumber_Index(o);
  if (n) return n;
  PyErr_Clear();
  if (is_tensor(o) && is_complex(as_tensor(o)->dtype)) {
    Py_complex c = PyComplex_AsCComplex(o);
    if (PyErr_Occurred()) return PyErr_Clear(), nullptr;
    return PyComplex_FromCComplex(c);
  }
  if (!Py_TYPE(o)->tp_as_number || !Py_TYPE(o)->tp_as_number->nb_float) return nullptr;
  n = PyNumber_Float(o);
  if (!n) PyErr_Clear();
  return n;
}

static bool all_tensors(PyObject* seq, bool allow_none) {
  if (!PyList_Check(seq) && !PyTuple_Check(seq)) return false;
  Py_ssize_t n = PySequence_Fast_GET_SIZE(seq);
  PyObject** items = PySequence_Fast_ITEMS(seq);
  for (Py_ssize_t i = 0; i < n; i++)
    if (!is_tensor(items[i]) && !(allow_none && items[i] == Py_None)) return false;
  return true;
}

static bool all_ints(PyObject* seq) {
  if (!PyList_Check(seq) && !PyTuple_Check(seq)) return false;
  Py_ssize_t n = PySequence_Fast_GET_SIZE(seq);
  PyObject** items = PySequence_Fast_ITEMS(seq);
  for (Py_ssize_t i = 0; i < n; i++)
    if (!PyLong_Check(items[i]) || PyBool_Check(items[i])) return false;
  return true;
}

// Ints, some of them symbolic: taken as they are.
static bool all_symbolic_ints(PyObject* seq) {
  if (!PyList_Check(seq) && !PyTuple_Check(seq)) return false;
  Py_ssize_t n = PySequence_Fast_GET_SIZE(seq);
  PyObject** items = PySequence_Fast_ITEMS(seq);
  for (Py_ssize_t i = 0; i < n; i++)
    if (!is_symbolic_int(items[i]) && (!PyLong_Check(items[i]) || PyBool_Check(items[i]))) return false;
  return true;
}

// A sequence whose items are int-like but not ints: rebuilt as a tuple of ints. Null if it is none.
static PyObject* foreign_ints(PyObject* seq) {
  if (!PyList_Check(seq) && !PyTuple_Check(seq)) return nullptr;
  Py_ssize_t n = PySequence_Fast_GET_SIZE(seq);
  Ref tuple(PyTuple_New(n));
  for (Py_ssize_t i = 0; tuple && i < n; i++) {
    PyObject* item = PySequence_Fast_ITEMS(seq)[i];
    PyObject* value = PyBool_Check(item) ? nullptr : foreign_integer(item);
    if (!value) return nullptr;
    PyTuple_SET_ITEM(tuple.p, i, value);
  }
  return tuple.release();
}

// A list belongs to the caller, who may change it in another thread while a kernel runs, or after the call while its
// node still holds it. From here on the call has a tuple of its own.
static int accept_sequence(PyObject* o, PyObject** slot, Bound* bound) {
  if (!PyList_Check(o)) return 1;
  PyObject* own = PyList_AsTuple(o);
  if (!own) return -1;
  *slot = bound->own(own);
  return 1;
}

// An int beyond 64 bits is no argument.
static int accept_scalar(PyObject* o) { return !PyLong_Check(o) || int_is_scalar(o) ? 1 : -1; }

// 1 accepted (possibly replaced in *slot), 0 refused, -1 exception
static int accept(const Param& p, PyObject* o, PyObject** slot, Bound* bound) {
  *slot = o;
  PyObject* converted = nullptr;
  switch (p.type) {
    case ParamType::Tensor: return is_tensor(o);
    case ParamType::OptTensor: return o == Py_None || is_tensor(o);
    case ParamType::TensorOrScalar:
    case ParamType::OptTensorOrScalar:
      if (is_tensor(o)) return 1;
      if (is_plain_number(o)) return accept_scalar(o);
      if (o == Py_None) return p.type == ParamType::OptTensorOrScalar;
      if (is_symbolic_number(o)) return 1;
      converted = foreign_number(o);
      break;
    case ParamType::OptScalar:
      if (o == Py_None) return 1;
      [[fallthrough]];
    case ParamType::Scalar:
      if (is_plain_number(o)) return accept_scalar(o);
      if (is_symbolic_number(o)) return 1;
      converted = foreign_number(o);
      break;
    case ParamType::OptFloat:
      if (o == Py_None) return 1;
      [[fallthrough]];
    case ParamType::Float:
      if (PyFloat_CheckExact(o) || (PyLong_Check(o) && !PyBool_Check(o)) || (PyFloat_Check(o) && !is_numpy_scalar(o)))
        return 1;
      if (PyComplex_Check(o)) return 0;
      if (is_symbolic_number(o)) return 1;
      converted = foreign_number(o);
      break;
    case ParamType::OptInt:
      if (o == Py_None) return 1;
      [[fallthrough]];
    case ParamType::Int:
      if (PyLong_Check(o)) return !PyBool_Check(o);
      if (is_symbolic_int(o)) return 1;
      converted = foreign_integer(o);
      break;
    case ParamType::OptBool:
      if (o == Py_None) return 1;
      [[fallthrough]];
    case ParamType::Bool:
      if (PyBool_Check(o) || is_symbolic_bool(o)) return 1;
      if (!is_numpy_bool(o)) return 0;
      converted = Py_NewRef(PyObject_IsTrue(o) ? Py_True : Py_False);
      break;
    case ParamType::OptIntList:
      if (o == Py_None) return 1;
      [[fallthrough]];
    case ParamType::IntList:
      if (all_ints(o)) return accept_sequence(o, slot, bound);
      if (PyBool_Check(o)) return 0;
      if (PyLong_Check(o) || is_symbolic_int(o)) converted = PyTuple_Pack(1, o);
      else if (all_symbolic_ints(o)) return 1;
      else converted = foreign_ints(o);
      if (!converted && (converted = foreign_integer(o))) {
        PyObject* number = converted;
        converted = PyTuple_Pack(1, number);
        Py_DECREF(number);
      }
      break;
    case ParamType::OptTensorList:
      return all_tensors(o, true) ? accept_sequence(o, slot, bound) : 0;
    case ParamType::TensorList: return all_tensors(o, false) ? accept_sequence(o, slot, bound) : 0;
    case ParamType::OptStr:
      if (o == Py_None) return 1;
      [[fallthrough]];
    case ParamType::Str: return PyUnicode_Check(o);
    case ParamType::DType:
      if (o == Py_None || is_dtype(o)) return 1;
      converted = Py_XNewRef(python_type_dtype(o));
      break;
    case ParamType::Device:
      if (o == Py_None || is_device(o) || PyUnicode_Check(o)) return 1;
      converted = unit_device(o);
      break;
    case ParamType::Any:
      if (all_tensors(o, true)) return accept_sequence(o, slot, bound);
      if (!(converted = numpy_number(o, true)) && !(converted = numpy_numbers(o))) return 1;
      break;
  }
  if (!converted) return 0;
  *slot = bound->own(converted);
  return 1;
}

static int find_param(Overload* op, PyObject* name) {
  auto& params = *op->params;
  int n = static_cast<int>(params.size());
  for (int i = 0; i < n; i++)
    if (params[i].name == name) return i;
  for (int i = 0; i < n; i++)
    if (PyUnicode_Compare(params[i].name, name) == 0) return i;
  return -1;
}

static PyObject* respelled(PyObject* name) {
  struct {
    PyObject *from, *to;
  } pairs[] = {{str_axis, str_dim}, {str_keepdims, str_keepdim}, {str_x, str_input},
               {str_x1, str_input}, {str_x2, str_other},         {str_self, str_input}};
  for (auto& pair : pairs)
    if (PyUnicode_Compare(pair.from, name) == 0) return pair.to;
  return nullptr;
}

int bind_arguments(Overload* op, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames, Bound* bound) {
  auto& params = *op->params;
  int n = static_cast<int>(params.size());
  memset(bound->args, 0, sizeof(PyObject*) * n);
  Py_ssize_t position = 0;
  for (int i = 0; i < op->num_positional && position < nargs; i++) {
    PyObject* value = args[position];
    int fits = accept(params[i], value, &bound->args[i], bound);
    bool separate =
        params[i].varargs && (PyLong_Check(value) || (fits == 0 && !PySequence_Check(value)) ||
                              is_integer_tensor(value) || is_symbolic_int(value) || is_numpy_scalar(value) ||
                              (params[i].type == ParamType::TensorList && is_tensor(value)));
    if (separate && i == op->num_positional - 1) {
      // x.view(2, 3): the remaining positionals are the list.
      Ref tuple(PyTuple_New(nargs - position));
      for (Py_ssize_t k = position; tuple && k < nargs; k++)
        PyTuple_SET_ITEM(tuple.p, k - position, Py_NewRef(args[k]));
      if (!tuple) return -1;
      PyObject* list = bound->own(tuple.release());
      fits = accept(params[i], list, &bound->args[i], bound);
      position = nargs;
    } else {
      position++;
    }
    if (fits <= 0) return fits;
  }
  if (position < nargs) return 0;
  Py_ssize_t num_keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  for (Py_ssize_t k = 0; k < num_keywords; k++) {
    PyObject* name = PyTuple_GET_ITEM(kwnames, k);
    PyObject* value = args[nargs + k];
    int i = find_param(op, name);
    if (i < 0 && op->has_out && PyUnicode_Compare(name, str_out) == 0) {
      if (value != Py_None) bound->out = value;
      continue;
    }
    if (i < 0) {
      PyObject* other = respelled(name);
      if (other) i = find_param(op, other);
    }
    if (i < 0 || bound->args[i]) return 0;
    int fits = accept(params[i], value, &bound->args[i], bound);
    if (fits <= 0) return fits;
  }
  for (int i = 0; i < n; i++) {
    if (bound->args[i]) continue;
    if (!params[i].fallback) return 0;
    bound->args[i] = params[i].fallback;
  }
  return 1;
}

int init_bind() {
  struct {
    PyObject** slot;
    const char* text;
  } names[] = {{&str_out, "out"},         {&str_axis, "axis"},   {&str_dim, "dim"},  {&str_keepdims, "keepdims"},
               {&str_keepdim, "keepdim"}, {&str_x, "x"},         {&str_x1, "x1"},    {&str_input, "input"},
               {&str_x2, "x2"},           {&str_other, "other"}, {&str_self, "self"}};
  for (auto& name : names)
    if (!(*name.slot = PyUnicode_InternFromString(name.text))) return -1;
  return 0;
}

}  // namespace rl

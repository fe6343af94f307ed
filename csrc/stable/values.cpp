// Values on the stack of a boxed kernel: 64 bits each, from Python objects and back, by the schema's types.
#include <climits>
#include <cstdlib>

#include "stable.h"

namespace rl::stable {

// --- lists, strings, values that may be missing ---------------------------------------------------------------------

std::atomic<int64_t> living_values{0};

static List* new_list(size_t room) {
  auto* list = static_cast<List*>(malloc(sizeof(List)));
  if (!list) return nullptr;
  *list = {kLiveList, 0, room, static_cast<Value*>(malloc(sizeof(Value) * (room ? room : 1)))};
  if (!list->items) return free(list), nullptr;
  living_values++;
  return list;
}

static void end_list(List* list) {
  list->mark = 0;
  living_values--;
  free(list->items);
  free(list);
}

static String* new_string(const char* text, size_t size) {
  auto* string = static_cast<String*>(malloc(sizeof(String)));
  if (!string) return nullptr;
  *string = {kLiveString, size, static_cast<char*>(malloc(size + 1))};
  if (!string->text) return free(string), nullptr;
  if (size) memcpy(string->text, text, size);
  string->text[size] = 0;
  living_values++;
  return string;
}

static void end_string(String* string) {
  string->mark = 0;
  living_values--;
  free(string->text);
  free(string);
}

static bool is_list(List* list) { return list && list->mark == kLiveList; }
static bool is_string(String* string) { return string && string->mark == kLiveString; }

// --- from Python ----------------------------------------------------------------------------------------------------

static bool wrong(const char* expected, PyObject* object) {
  if (!PyErr_Occurred())
    PyErr_Format(PyExc_TypeError, "the kernel of an extension expected %s, got %s", expected, Py_TYPE(object)->tp_name);
  return false;
}

static bool no_memory() { return PyErr_NoMemory(), false; }

static void skip_type(const char** type) {
  while (**type == '?' || **type == '[') ++*type;
  ++*type;
}

static bool number_of(const char* question, PyObject* object, const char* expected, Value* out) {
  Ref found = ask(question, "(O)", object);
  if (!found) return wrong(expected, object);
  long number = PyLong_AsLong(found.p);
  if (number == -1 && PyErr_Occurred()) return wrong(expected, object);
  *out = static_cast<uint32_t>(number);
  return true;
}

static bool device_to_value(PyObject* object, Value* out) {
  Ref made;
  if (!is_device(object)) {
    made = Ref(PyObject_CallOneArg(as_object(DeviceType), object));
    if (!made) return wrong("a device", object);
    object = made.p;
  }
  auto* device = reinterpret_cast<DeviceObject*>(object);
  auto index = static_cast<uint32_t>(device->has_index ? device->device.index : -1);
  *out = static_cast<uint64_t>(static_cast<uint32_t>(device_code(device->device))) << 32 | index;
  return true;
}

static bool dtype_to_value(PyObject* object, Value* out) {
  if (!is_dtype(object)) {
    PyObject* meant = core.python_type_dtype(object);
    if (!meant) return wrong("a dtype", object);
    object = meant;
  }
  int32_t code = code_of_dtype(dtype_of(object));
  if (code < 0) return wrong("a dtype that PyTorch has", object);
  *out = static_cast<uint32_t>(code);
  return true;
}

static bool list_to_value(const char** type, PyObject* object, Value* out) {
  const char* item_type = *type;
  skip_type(type);
  Ref items(PySequence_Fast(object, "the kernel of an extension expected a list"));
  if (!items) return false;
  Py_ssize_t size = PySequence_Fast_GET_SIZE(items.p);
  List* list = new_list(static_cast<size_t>(size));
  if (!list) return no_memory();
  for (Py_ssize_t i = 0; i < size; i++) {
    const char* at = item_type;
    if (!to_value(&at, PySequence_Fast_GET_ITEM(items.p, i), &list->items[i])) {
      for (size_t k = 0; k < list->size; k++) drop_value(&(at = item_type), list->items[k]);
      end_list(list);
      return false;
    }
    list->size++;
  }
  *out = as_value(list);
  return true;
}

bool to_value(const char** type, PyObject* object, Value* out) {
  *out = 0;
  switch (*(*type)++) {
    case 'T': {
      if (object != Py_None && !is_tensor(object)) return wrong("a tensor", object);
      Handle* handle = new_handle(object == Py_None ? nullptr : object);
      *out = as_value(handle);
      return handle;
    }
    case 'i': {
      Ref index(PyLong_CheckExact(object) ? Py_NewRef(object) : PyNumber_Index(object));
      if (!index) return wrong("an int", object);
      long long number = PyLong_AsLongLong(index.p);
      if (number == -1 && PyErr_Occurred()) return false;
      *out = static_cast<uint64_t>(number);
      return true;
    }
    case 'f': {
      double number = PyFloat_AsDouble(object);
      if (number == -1.0 && PyErr_Occurred()) return wrong("a float", object);
      memcpy(out, &number, sizeof(number));
      return true;
    }
    case 'b': {
      int truth = PyObject_IsTrue(object);
      if (truth < 0) return false;
      *out = static_cast<uint64_t>(truth);
      return true;
    }
    case 's': {
      Py_ssize_t size;
      const char* text = PyUnicode_Check(object) ? PyUnicode_AsUTF8AndSize(object, &size) : nullptr;
      if (!text) return wrong("a str", object);
      *out = as_value(new_string(text, static_cast<size_t>(size)));
      return *out || no_memory();
    }
    case 'd': return dtype_to_value(object, out);
    case 'D': return device_to_value(object, out);
    case 'L': return number_of("number_of_layout", object, "a layout", out);
    case 'M': return number_of("number_of_memory_format", object, "a memory format", out);
    case 'G': *out = as_value(new_handle(object, kLiveObject)); return *out;
    case '[': return list_to_value(type, object, out);
    case '?': {
      if (object == Py_None) return skip_type(type), true;
      auto* inner = static_cast<Value*>(malloc(sizeof(Value)));
      if (!inner) return no_memory();
      if (!to_value(type, object, inner)) return free(inner), false;
      *out = as_value(inner);
      return true;
    }
    default:
      PyErr_Format(PyExc_RuntimeError, "an argument of type %s has no form in the stable ABI", *type - 1);
      return false;
  }
}

// --- to Python ------------------------------------------------------------------------------------------------------

static PyObject* bad(const char* what) { return PyErr_SetString(PyExc_RuntimeError, what), nullptr; }

static PyObject* handle_to_object(Value value, uint32_t mark) {
  auto* handle = pointer_in<Handle>(value);
  if (!handle) return bad("the kernel of an extension left a null handle where a result belongs");
  if (!is_known(handle) || handle->mark != mark)
    return bad("the kernel of an extension left a handle that was deleted, or never was one, where a result belongs");
  PyObject* object = Py_NewRef(handle->object ? handle->object : Py_None);
  end_handle(handle);
  return object;
}

static PyObject* list_to_object(const char** type, Value value) {
  const char* item_type = *type;
  skip_type(type);
  auto* list = pointer_in<List>(value);
  if (!is_list(list)) return bad("the kernel of an extension left no list where one belongs");
  PyObject* found = PyList_New(static_cast<Py_ssize_t>(list->size));
  for (size_t i = 0; i < list->size; i++) {
    const char* at = item_type;
    PyObject* item = found ? to_object(&at, list->items[i]) : nullptr;
    if (item) PyList_SET_ITEM(found, static_cast<Py_ssize_t>(i), item);
    else {
      Py_CLEAR(found);
      while (++i < list->size) drop_value(&(at = item_type), list->items[i]);
    }
  }
  end_list(list);
  return found;
}

PyObject* to_object(const char** type, Value value) {
  switch (*(*type)++) {
    case 'T': return handle_to_object(value, kLiveTensor);
    case 'G': return handle_to_object(value, kLiveObject);
    case 'i': return PyLong_FromLongLong(static_cast<int64_t>(value));
    case 'f': {
      double number;
      memcpy(&number, &value, sizeof(number));
      return PyFloat_FromDouble(number);
    }
    case 'b':
      if ((value & 0xff) > 1) return bad("the kernel of an extension left something else where a bool belongs");
      return PyBool_FromLong(static_cast<long>(value & 0xff));
    case 's': {
      auto* string = pointer_in<String>(value);
      if (!is_string(string)) return bad("the kernel of an extension left no string where one belongs");
      PyObject* text = PyUnicode_DecodeUTF8(string->text, static_cast<Py_ssize_t>(string->size), "surrogateescape");
      end_string(string);
      return text;
    }
    case 'd': {
      DType dtype;
      if (!dtype_of_code(static_cast<int32_t>(value), &dtype)) return bad("a number that is no dtype's");
      return Py_NewRef(core.dtype_object(dtype));
    }
    case 'D': return device_of_codes(static_cast<int32_t>(value >> 32), static_cast<int32_t>(value & 0xffffffff));
    case 'L': return ask("layout_of_number", "(i)", static_cast<int>(value)).release();
    case 'M': return ask("memory_format_of_number", "(i)", static_cast<int>(value)).release();
    case '[': return list_to_object(type, value);
    case '?': {
      if (!value) return skip_type(type), Py_NewRef(Py_None);
      auto* inner = pointer_in<Value>(value);
      PyObject* object = to_object(type, *inner);
      free(inner);
      return object;
    }
    default:
      return PyErr_Format(PyExc_RuntimeError, "a result of type %s has no form in the stable ABI", *type - 1);
  }
}

void drop_value(const char** type, Value value) {
  switch (*(*type)++) {
    case 'T':
    case 'G': {
      auto* handle = pointer_in<Handle>(value);
      if (is_known(handle) && handle->mark != kFreeHandle) end_handle(handle);
      return;
    }
    case 's':
      if (is_string(pointer_in<String>(value))) end_string(pointer_in<String>(value));
      return;
    case '[': {
      const char *item_type = *type, *at;
      skip_type(type);
      auto* list = pointer_in<List>(value);
      if (!is_list(list)) return;
      for (size_t i = 0; i < list->size; i++) drop_value(&(at = item_type), list->items[i]);
      end_list(list);
      return;
    }
    case '?':
      if (!value) return skip_type(type);
      drop_value(type, *pointer_in<Value>(value));
      free(pointer_in<Value>(value));
  }
}

}  // namespace rl::stable

using namespace rl::stable;

STABLE_API int torch_new_stable_ivalue(Value** made) {
  *made = static_cast<Value*>(calloc(1, sizeof(Value)));
  return *made ? 0 : fail("torch_new_stable_ivalue: out of memory");
}
STABLE_API int torch_delete_stable_ivalue(Value* value) { return free(value), 0; }

STABLE_API int torch_new_list_reserve_size(size_t size, List** made) {
  *made = new_list(size);
  return *made ? 0 : fail("torch_new_list_reserve_size: no memory for %zu items", size);
}
STABLE_API int torch_list_size(List* list, size_t* size) {
  if (!is_list(list)) return fail("torch_list_size: the list is null or was deleted");
  *size = list->size;
  return 0;
}
STABLE_API int torch_list_get_item(List* list, size_t index, Value* item) {
  if (!is_list(list)) return fail("torch_list_get_item: the list is null or was deleted");
  if (index >= list->size) return fail("torch_list_get_item: index %zu is not below the size %zu", index, list->size);
  *item = list->items[index];
  return 0;
}
STABLE_API int torch_list_set_item(List* list, size_t index, Value item) {
  if (!is_list(list)) return fail("torch_list_set_item: the list is null or was deleted");
  if (index >= list->size) return fail("torch_list_set_item: index %zu is not below the size %zu", index, list->size);
  list->items[index] = item;
  return 0;
}
STABLE_API int torch_list_push_back(List* list, Value item) {
  if (!is_list(list)) return fail("torch_list_push_back: the list is null or was deleted");
  if (list->size == list->room) {
    size_t room = list->room ? 2 * list->room : 4;
    auto* items = static_cast<Value*>(realloc(list->items, sizeof(Value) * room));
    if (!items) return fail("torch_list_push_back: no memory for %zu items", room);
    list->items = items;
    list->room = room;
  }
  list->items[list->size++] = item;
  return 0;
}
STABLE_API int torch_delete_list(List* list) {
  if (!list) return 0;
  if (!is_list(list)) return fail("torch_delete_list: the list was deleted before");
  end_list(list);
  return 0;
}

STABLE_API int torch_new_string_handle(const char* text, size_t size, String** made) {
  *made = new_string(text, size);
  return *made ? 0 : fail("torch_new_string_handle: no memory for %zu bytes", size);
}
STABLE_API int torch_string_length(String* string, size_t* size) {
  if (!is_string(string)) return fail("torch_string_length: the string is null or was deleted");
  *size = string->size;
  return 0;
}
STABLE_API int torch_string_c_str(String* string, const char** text) {
  if (!is_string(string)) return fail("torch_string_c_str: the string is null or was deleted");
  *text = string->text;
  return 0;
}
STABLE_API int torch_delete_string(String* string) {
  if (!string) return 0;
  if (!is_string(string)) return fail("torch_delete_string: the string was deleted before");
  end_string(string);
  return 0;
}

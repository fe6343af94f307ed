#include "dict_watch.h"

#include <algorithm>
#include <unordered_map>

namespace rl {

namespace {

using Relied = std::unordered_map<PyObject*, std::vector<Reliance*>>;

Relied& relied() {
  static Relied* all = new Relied();      // dicts die after the static objects of a module do
  return *all;
}

#if PY_VERSION_HEX >= 0x030D0000
int on_write(PyDict_WatchEvent, PyObject* dict, PyObject*, PyObject*) {
  auto found = relied().find(dict);
  if (found == relied().end()) return 0;
  for (Reliance* one : found->second) one->is_broken = true;
  relied().erase(found);
  return 0;
}

// The values of a dict that stands for an object's attributes may lie in the object, which 3.13 writes to without telling.
// Taking the last item out brings them into the dict; it is put back in its place.
bool has_own_values(PyObject* dict) {
  auto* d = reinterpret_cast<PyDictObject*>(dict);
  if (!d->ma_values) return true;
  PyObject* item = PyObject_CallMethod(dict, "popitem", nullptr);
  if (!item) return PyErr_Clear(), false;
  bool is_back = PyDict_SetItem(dict, PyTuple_GET_ITEM(item, 0), PyTuple_GET_ITEM(item, 1)) == 0;
  Py_DECREF(item);
  if (!is_back) PyErr_Clear();
  return is_back && !d->ma_values;
}

int watcher() {      // negative: there is none to be had
  static int id = PyDict_AddWatcher(on_write);
  return id;
}
#endif

}  // namespace

void Reliance::add(PyObject* dict) {
#if PY_VERSION_HEX >= 0x030D0000
  if (watcher() >= 0 && has_own_values(dict) && PyDict_Watch(watcher(), dict) == 0) {
    relied()[dict].push_back(this);
    dicts.push_back(dict);
    return;
  }
  PyErr_Clear();
#endif
  (void)dict;
  is_broken = true;
}

void Reliance::clear() {
  for (PyObject* dict : dicts) {
    auto found = relied().find(dict);
    if (found == relied().end()) continue;
    auto& users = found->second;
    users.erase(std::remove(users.begin(), users.end(), this), users.end());
    if (users.empty()) relied().erase(found);
  }
  dicts.clear();
  is_broken = false;
}

}  // namespace rl

#include "roles.h"

#include "boundary.h"

namespace rl {

static constexpr Py_ssize_t kRoles = static_cast<Py_ssize_t>(Role::Count);
static PyObject* players[kRoles];   // by role: the name of a method (a str), or a function

static PyObject* call(Role role, PyObject* const* args, size_t count) {
  PyObject* player = players[static_cast<int>(role)];
  if (!player) return PyErr_SetString(PyExc_RuntimeError, "the op library is not loaded"), nullptr;
  return PyUnicode_CheckExact(player) ? PyObject_VectorcallMethod(player, args, count, nullptr)
                                      : PyObject_Vectorcall(player, args, count, nullptr);
}

PyObject* call_role(Role role, PyObject* self, PyObject* a, PyObject* b, PyObject* c) {
  PyObject* args[] = {self, a, b, c};
  RuleGuard own(true);
  return call(role, args, c ? 4 : b ? 3 : a ? 2 : 1);
}

PyObject* ask_role(Role role, PyObject* self, PyObject* a) {
  PyObject* args[] = {self, a};
  return call(role, args, a ? 2 : 1);
}

// set_roles(*players), in the order of the roles
static PyObject* set_roles(PyObject*, PyObject* args) {
  if (PyTuple_GET_SIZE(args) != kRoles)
    return PyErr_Format(PyExc_TypeError, "set_roles: expected %zd players, got %zd", kRoles, PyTuple_GET_SIZE(args));
  for (Py_ssize_t i = 0; i < kRoles; i++) {
    PyObject* player = Py_NewRef(PyTuple_GET_ITEM(args, i));
    if (PyUnicode_CheckExact(player)) PyUnicode_InternInPlace(&player);
    Py_XSETREF(players[i], player);
  }
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"set_roles", guarded<set_roles>, METH_VARARGS,
     "set_roles(*players): the method (a name) or function for each thing that the core asks of tensors"},
    {}};

int init_roles(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace rl

// An overload as Python describes it: read once when an op is registered, and let go with the object.
#include "bind.h"
#include "call.h"

namespace rl {

// (name, type, keyword_only, varargs, has_default, default, save, varies=False)
static bool read_param(PyObject* item, Param* p) {
  PyObject *name, *fallback;
  int type, keyword_only, varargs, has_default, save, varies = 0;
  if (!PyArg_ParseTuple(item, "UipppOi|p", &name, &type, &keyword_only, &varargs, &has_default, &fallback, &save,
                        &varies))
    return false;
  Py_INCREF(name);
  PyUnicode_InternInPlace(&name);
  *p = {name,
        static_cast<ParamType>(type),
        keyword_only != 0,
        varargs != 0,
        has_default ? Py_NewRef(fallback) : nullptr,
        static_cast<Save>(save),
        varies != 0};
  return true;
}

static bool optional_callable(PyObject* dict, const char* name, PyObject** slot) {
  PyObject* o = PyDict_GetItemString(dict, name);
  *slot = o && o != Py_None ? Py_NewRef(o) : nullptr;
  return true;
}

static bool flag(PyObject* dict, const char* name) {
  PyObject* o = PyDict_GetItemString(dict, name);
  return o && PyObject_IsTrue(o) == 1;
}

// (name, definition, kind, params) and flags by name; false with an exception.
bool read_overload(Overload* op, PyObject* args, PyObject* kwargs) {
  PyObject *name, *definition, *params;
  int kind;
  if (!PyArg_ParseTuple(args, "UOiO:Overload", &name, &definition, &kind, &params)) return false;
  Ref options(kwargs ? Py_NewRef(kwargs) : PyDict_New());
  Ref list(PySequence_Fast(params, "params must be a sequence"));
  if (!options || !list) return false;
  op->name = Py_NewRef(name);
  op->definition = Py_NewRef(definition);
  op->params = new std::vector<Param>;
  op->overridden = new std::atomic<uint64_t>(0);
  op->kind = static_cast<Kind>(kind);
  optional_callable(options.p, "run", &op->run);
  optional_callable(options.p, "vjp", &op->vjp);
  optional_callable(options.p, "mask_vjp", &op->mask_vjp);
  op->inplace = flag(options.p, "inplace");
  op->records = flag(options.p, "records");
  op->is_view = flag(options.p, "is_view");
  PyObject* result_views = PyDict_GetItemString(options.p, "results");
  op->results = static_cast<ResultViews>(result_views ? PyLong_AsLong(result_views) : 0);
  PyObject* kept_results = PyDict_GetItemString(options.p, "saves_result");
  op->saves_result = kept_results ? PyLong_AsUnsignedLongLongMask(kept_results) : 0;
  op->keys_numbers = flag(options.p, "keys_numbers");
  op->has_out = flag(options.p, "has_out");
  PyObject* out_rule = PyDict_GetItemString(options.p, "out_rule");
  op->out_rule = out_rule ? static_cast<OutRule>(PyLong_AsLong(out_rule)) : OutRule::Asked;
  Py_ssize_t n = PySequence_Fast_GET_SIZE(list.p);
  if (n > kMaxParams) return PyErr_Format(PyExc_ValueError, "%U: at most %d parameters", name, kMaxParams), false;
  for (Py_ssize_t i = 0; i < n; i++) {
    Param p;
    if (!read_param(PySequence_Fast_GET_ITEM(list.p, i), &p)) return false;
    op->params->push_back(p);
    if (!p.keyword_only) op->num_positional = static_cast<int>(i) + 1;
  }
  if (op->kind == Kind::Python && !op->run)
    return PyErr_Format(PyExc_ValueError, "%U: a Python op needs run", name), false;
  return true;
}

void clear_overload(Overload* op) {
  Py_XDECREF(op->name);
  Py_XDECREF(op->definition);
  Py_XDECREF(op->run);
  Py_XDECREF(op->vjp);
  Py_XDECREF(op->mask_vjp);
  if (op->params)
    for (Param& p : *op->params) {
      Py_XDECREF(p.name);
      Py_XDECREF(p.fallback);
    }
  delete op->params;
  delete op->overridden;
  forget_tables(op);
}

}  // namespace rl

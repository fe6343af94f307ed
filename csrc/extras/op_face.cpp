// Overloads and ops as Python makes them and sees them. Everything holds the interpreter lock.
#include "call.h"

#include <structmember.h>

#include "bind.h"
#include "boundary.h"
#include "core.h"
#include "faces.h"
#include "registered.h"
#include "scan.h"
#include "unchanged.h"

namespace rl {

static PyObject* describer;       // callable(op): its documentation

// --- what an overload consists of ------------------------------------------------------------------------------------

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

// [(value, laid, ndim), ...]
static bool read_choices(PyObject* items, std::vector<Choice>* choices) {
  Ref list(PySequence_Fast(items, "choices must be a sequence"));
  for (Py_ssize_t i = 0; list && i < PySequence_Fast_GET_SIZE(list.p); i++) {
    PyObject* value;
    int laid, ndim;
    if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(list.p, i), "Oii", &value, &laid, &ndim)) return false;
    choices->push_back({Py_NewRef(value), static_cast<Laid>(laid), ndim});
  }
  return static_cast<bool>(list);
}

// None, or [(param or -1, constant, choices or None), ...]
static bool read_conditions(PyObject* items, Overload* op) {
  if (!items || items == Py_None) return true;
  Ref list(PySequence_Fast(items, "conditions must be a sequence"));
  op->unchanged = list ? new Conditions : nullptr;
  for (Py_ssize_t i = 0; list && i < PySequence_Fast_GET_SIZE(list.p); i++) {
    PyObject *constant, *choices;
    int param;
    if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(list.p, i), "iOO", &param, &constant, &choices)) return false;
    op->unchanged->push_back({param, Py_NewRef(constant), choices != Py_None, {}});
    if (choices != Py_None && !read_choices(choices, &op->unchanged->back().choices)) return false;
  }
  return static_cast<bool>(list);
}

// (name, definition, kind, params) and flags by name; false with an exception.
static bool read_overload(Overload* op, PyObject* args, PyObject* kwargs) {
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
  op->sees_bits = flag(options.p, "sees_bits");
  PyObject* result_views = PyDict_GetItemString(options.p, "results");
  op->results = static_cast<ResultViews>(result_views ? PyLong_AsLong(result_views) : 0);
  PyObject* kept_results = PyDict_GetItemString(options.p, "saves_result");
  op->saves_result = kept_results ? PyLong_AsUnsignedLongLongMask(kept_results) : 0;
  op->replays = flag(options.p, "replays");
  if (!read_conditions(PyDict_GetItemString(options.p, "unchanged"), op)) return false;
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

static void clear_overload(Overload* op) {
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
  delete op->unchanged;
  if (op->registered) op->registered->clear();
  delete op->registered;
  forget_tables(op);
}

// --- overloads -------------------------------------------------------------------------------------------------------

// Overload(name, definition, kind, params, **flags)
static PyObject* overload_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  auto* op = reinterpret_cast<OverloadObject*>(type->tp_alloc(type, 0));
  if (!op) return nullptr;
  Ref guard(reinterpret_cast<PyObject*>(op));
  op->vectorcall = overload_entry();
  return read_overload(op, args, kwargs) ? guard.release() : nullptr;
}

static void overload_dealloc(PyObject* self) {
  auto* op = reinterpret_cast<OverloadObject*>(self);
  if (op->weakrefs) PyObject_ClearWeakRefs(self);
  clear_overload(op);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

static Overload* self_op(PyObject* self) { return reinterpret_cast<Overload*>(self); }
static PyObject* o_name(PyObject* self, void*) { return Py_NewRef(self_op(self)->name); }
static PyObject* o_definition(PyObject* self, void*) { return Py_NewRef(self_op(self)->definition); }
static PyObject* o_inplace(PyObject* self, void*) { return PyBool_FromLong(self_op(self)->inplace); }
static PyObject* o_is_view(PyObject* self, void*) { return PyBool_FromLong(self_op(self)->is_view); }
static PyObject* o_records(PyObject* self, void*) { return PyBool_FromLong(self_op(self)->records); }
static PyObject* o_run(PyObject* self, void*) { return Py_NewRef(self_op(self)->run ? self_op(self)->run : Py_None); }
static PyObject* o_vjp(PyObject* self, void*) { return Py_NewRef(self_op(self)->vjp ? self_op(self)->vjp : Py_None); }
static PyObject* o_overridden(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(self_op(self)->overridden->load());
}
static int o_set_overridden(PyObject* self, PyObject* value,
                            void*) {  // a mask of device types, or a bool for all of them
  uint64_t mask = !value || value == Py_False ? 0
                  : value == Py_True          ? ~uint64_t{0}
                                              : PyLong_AsUnsignedLongLongMask(value);
  if (PyErr_Occurred()) return -1;
  self_op(self)->overridden->store(mask);
  forget_rules();
  return 0;
}
static PyObject* o_autocast(PyObject* self, void*) {
  return PyLong_FromLong(static_cast<long>(self_op(self)->autocast));
}
static int o_set_autocast(PyObject* self, PyObject* value, void*) {
  long policy = value ? PyLong_AsLong(value) : 0;
  if (policy < 0 || policy > static_cast<long>(Autocast::Cast))
    return PyErr_Occurred() ? -1 : (PyErr_SetString(PyExc_ValueError, "autocast: no such policy"), -1);
  self_op(self)->autocast = static_cast<Autocast>(policy);
  return 0;
}
static PyObject* o_param_names(PyObject* self, void*) {
  auto& params = *self_op(self)->params;
  PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(params.size()));
  for (size_t i = 0; tuple && i < params.size(); i++) PyTuple_SET_ITEM(tuple, i, Py_NewRef(params[i].name));
  return tuple;
}
static PyObject* o_repr(PyObject* self) {
  return PyUnicode_FromFormat("<rushlight overload of %U>", self_op(self)->name);
}

static bool bound_from_tuple(PyObject* self, PyObject* args, Bound* bound) {
  Py_ssize_t n = PyTuple_GET_SIZE(args), want = static_cast<Py_ssize_t>(self_op(self)->params->size());
  if (n != want)
    return PyErr_Format(PyExc_TypeError, "%U: expected %zd bound arguments, got %zd", self_op(self)->name, want, n),
           false;
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject* value = PyTuple_GET_ITEM(args, i);
    if (PyList_Check(value) && !(value = PyList_AsTuple(value)))
      return false;  // others may change a list while the call runs
    bound->args[i] = value == PyTuple_GET_ITEM(args, i) ? value : bound->own(value);
  }
  return true;
}

// redispatch(*bound): autograd and backend, whatever the keys say.
static PyObject* o_redispatch(PyObject* self, PyObject* args) {
  Bound bound;
  if (!bound_from_tuple(self, args, &bound)) return nullptr;
  Scan scan;
  scan_args(self_op(self), bound.args, &scan, thread_state().grad_enabled);
  return call_recorded(self_op(self), bound.args, scan.requires_grad, scan.keys);
}
// autograd(runner, *bound): the tape around `runner`, which stands in for the backend.
static PyObject* o_autograd(PyObject* self, PyObject* args) {
  if (PyTuple_GET_SIZE(args) < 1) return PyErr_SetString(PyExc_TypeError, "autograd: expected a runner"), nullptr;
  Ref rest(PyTuple_GetSlice(args, 1, PyTuple_GET_SIZE(args)));
  Bound bound;
  if (!rest || !bound_from_tuple(self, rest.p, &bound)) return nullptr;
  Scan scan;
  scan_args(self_op(self), bound.args, &scan, thread_state().grad_enabled);
  return call_recorded(self_op(self), bound.args, scan.requires_grad, scan.keys, PyTuple_GET_ITEM(args, 0));
}
// call(*bound): the whole call, keys and all, for arguments that are bound already.
static PyObject* o_call(PyObject* self, PyObject* args) {
  Bound bound;
  return bound_from_tuple(self, args, &bound) ? overload_call(self_op(self), bound.args) : nullptr;
}
// backend(*bound): plan and kernel only; in-place forms still count as a write.
static PyObject* o_backend(PyObject* self, PyObject* args) {
  Bound bound;
  if (!bound_from_tuple(self, args, &bound)) return nullptr;
  Overload* op = self_op(self);
  Scan scan;
  scan_args(op, bound.args, &scan, false);
  thread_state().noting = 0;
  Ref result(scan.keys & kKeyBits ? run_through_bits(op, bound.args) : overload_run(op, bound.args));
  if (!result) return nullptr;
  if (op->inplace && !(as_tensor(bound.args[0])->flags & kInference)) tensor_bump(as_tensor(bound.args[0]));
  if (op->is_view && !mark_views(bound.args, result.p)) return nullptr;
  return result.release();
}
// into(bound args, outs): see write_into.
static PyObject* o_into(PyObject* self, PyObject* args) {
  PyObject *tuple, *given;
  Bound bound;
  if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &tuple, &PyTuple_Type, &given) ||
      !bound_from_tuple(self, tuple, &bound))
    return nullptr;
  Overload* op = self_op(self);
  Py_ssize_t count = PyTuple_GET_SIZE(given);
  if (count > 8) Py_RETURN_NONE;
  Tensor* outs[8];
  for (Py_ssize_t j = 0; j < count; j++) {
    PyObject* o = PyTuple_GET_ITEM(given, j);
    if (!is_tensor(o)) return PyErr_SetString(PyExc_TypeError, "into: outputs must be tensors"), nullptr;
    outs[j] = as_tensor(o);
  }
  return write_into(op, bound.args, outs, static_cast<int>(count));
}
// bind(args, kwargs) -> (bound tuple, out) or None when the arguments do not fit.
static PyObject* o_bind(PyObject* self, PyObject* args) {
  PyObject *positional, *keywords;
  if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &positional, &PyDict_Type, &keywords)) return nullptr;
  std::vector<PyObject*> flat;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(positional); i++) flat.push_back(PyTuple_GET_ITEM(positional, i));
  Ref names(PyTuple_New(PyDict_GET_SIZE(keywords)));
  PyObject *key, *value;
  for (Py_ssize_t at = 0, k = 0; PyDict_Next(keywords, &at, &key, &value); k++) {
    PyTuple_SET_ITEM(names.p, k, Py_NewRef(key));
    flat.push_back(value);
  }
  Bound bound;
  int fits = bind_arguments(self_op(self), flat.data(), PyTuple_GET_SIZE(positional), names.p, &bound);
  if (fits < 0) return nullptr;
  if (!fits) Py_RETURN_NONE;
  Ref tuple(args_tuple(self_op(self), bound.args));
  return tuple ? Py_BuildValue("(OO)", tuple.p, bound.out ? bound.out : Py_None) : nullptr;
}
static PyObject* o_clear(PyObject* self, PyObject*) {
  forget_tables(self_op(self));
  Py_RETURN_NONE;
}
// learn_kernels(device type, [(entry, kernel, check, records_only, is_backend, one_tensor)]): see registered.h
static PyObject* o_learn(PyObject* self, PyObject* args) {
  int type;
  PyObject* given;
  if (!PyArg_ParseTuple(args, "iO!", &type, &PyList_Type, &given)) return nullptr;
  if (type < 0 || type > 255) return PyErr_SetString(PyExc_ValueError, "learn_kernels: no such device"), nullptr;
  std::vector<Rung> rungs;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(given); i++) {
    Rung r;
    int records_only, is_backend, one_tensor;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(given, i), "O!OOppp", &PyTuple_Type, &r.entry, &r.kernel, &r.check,
                          &records_only, &is_backend, &one_tensor))
      return nullptr;
    r.records_only = records_only, r.is_backend = is_backend, r.one_tensor = one_tensor;
    rungs.push_back(r);
  }
  for (Rung& r : rungs) Py_INCREF(r.entry), Py_INCREF(r.kernel), Py_INCREF(r.check);
  Overload* op = self_op(self);
  if (!op->registered) op->registered = new Registered;
  auto& known = op->registered->of_device;
  if (known.size() <= static_cast<size_t>(type)) known.resize(static_cast<size_t>(type) + 1);
  known[static_cast<size_t>(type)].swap(rungs);
  for (Rung& r : rungs) Py_DECREF(r.entry), Py_DECREF(r.kernel), Py_DECREF(r.check);   // those there were before
  Py_RETURN_NONE;
}
static PyObject* o_forget(PyObject* self, PyObject*) {
  if (self_op(self)->registered) self_op(self)->registered->clear();
  Py_RETURN_NONE;
}
static PyObject* o_plan_count(PyObject* self, void*) { return PyLong_FromSize_t(plan_count(self_op(self))); }

static PyMethodDef overload_methods[] = {
    {"redispatch", guarded<o_redispatch>, METH_VARARGS, "autograd and backend, whatever the keys say"},
    {"autograd", guarded<o_autograd>, METH_VARARGS,
     "autograd(runner, *bound): the tape around a stand-in for the backend"},
    {"call", guarded<o_call>, METH_VARARGS, "call(*bound): the whole call, keys and all"},
    {"backend", guarded<o_backend>, METH_VARARGS, "plan and kernel only"},
    {"into", guarded<o_into>, METH_VARARGS,
     "into(bound, outs): write given outputs; None where the op must make its own"},
    {"bind", guarded<o_bind>, METH_VARARGS, "bind(args, kwargs) -> (bound, out), or None"},
    {"clear_plans", guarded<o_clear>, METH_NOARGS, "forget every plan"},
    {"learn_kernels", guarded<o_learn>, METH_VARARGS, "registered kernels of a device type, in the order of dispatch"},
    {"forget_kernels", guarded<o_forget>, METH_NOARGS, "forget the registered kernels"},
    {}};
static PyGetSetDef overload_getset[] = {{"name", o_name, nullptr, nullptr, nullptr},
                                        {"__name__", o_name, nullptr, nullptr, nullptr},
                                        {"definition", o_definition, nullptr, nullptr, nullptr},
                                        {"inplace", o_inplace, nullptr, nullptr, nullptr},
                                        {"is_view", o_is_view, nullptr, nullptr, nullptr},
                                        {"records", o_records, nullptr, nullptr, nullptr},
                                        {"run", o_run, nullptr, nullptr, nullptr},
                                        {"vjp", o_vjp, nullptr, nullptr, nullptr},
                                        {"param_names", o_param_names, nullptr, nullptr, nullptr},
                                        {"plan_count", o_plan_count, nullptr, nullptr, nullptr},
                                        {"overridden", o_overridden, o_set_overridden, nullptr, nullptr},
                                        {"autocast", o_autocast, o_set_autocast, nullptr, nullptr},
                                        {}};
static PyMemberDef overload_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(OverloadObject, vectorcall), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(OverloadObject, weakrefs), READONLY, nullptr},
    {}};
static PyType_Slot overload_slots[] = {{Py_tp_new, reinterpret_cast<void*>(guarded<overload_new>)},
                                       {Py_tp_dealloc, reinterpret_cast<void*>(overload_dealloc)},
                                       {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                       {Py_tp_repr, reinterpret_cast<void*>(o_repr)},
                                       {Py_tp_methods, overload_methods},
                                       {Py_tp_getset, overload_getset},
                                       {Py_tp_members, overload_members},
                                       {0, nullptr}};
static PyType_Spec overload_spec = {"rushlight._C.Overload", sizeof(OverloadObject), 0,
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, overload_slots};

// --- ops -------------------------------------------------------------------------------------------------------------

static PyObject* op_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *name, *resolver, *twin = nullptr;
  int mode = 0;
  if (!PyArg_ParseTuple(args, "UO|iO!:Op", &name, &resolver, &mode, type, &twin)) return nullptr;
  auto* op = reinterpret_cast<OpObject*>(type->tp_alloc(type, 0));
  if (!op) return nullptr;
  op->vectorcall = op_entry();
  op->name = Py_NewRef(name);
  op->resolver = Py_NewRef(resolver);
  op->mode = mode;
  op->twin = Py_XNewRef(twin);
  return reinterpret_cast<PyObject*>(op);
}

static int op_traverse(PyObject* self, visitproc visit, void* arg) {
  auto* op = reinterpret_cast<OpObject*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(op->resolver);
  Py_VISIT(op->overloads);
  Py_VISIT(op->dict);
  Py_VISIT(op->twin);
  return 0;
}

static int op_clear(PyObject* self) {
  auto* op = reinterpret_cast<OpObject*>(self);
  Py_CLEAR(op->resolver);
  Py_CLEAR(op->dict);
  Py_CLEAR(op->twin);
  return 0;
}

static void op_dealloc(PyObject* self) {
  auto* op = reinterpret_cast<OpObject*>(self);
  PyObject_GC_UnTrack(self);
  op_clear(self);
  Py_XDECREF(op->overloads);
  Py_XDECREF(op->name);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyObject* op_descr_get(PyObject* self, PyObject* instance, PyObject*) {
  if (!instance || instance == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, instance);
}

static PyObject* op_name(PyObject* self, void*) { return Py_NewRef(reinterpret_cast<OpObject*>(self)->name); }
static PyObject* op_overloads(PyObject* self, void*) {
  auto* op = reinterpret_cast<OpObject*>(self);
  return resolve_op(op) ? PySequence_List(op->overloads) : nullptr;
}
// The text comes from the definition, which may not be imported yet: it is asked for, and kept, when first wanted.
static PyObject* op_get_doc(PyObject* self, void*) {
  Ref dict(PyObject_GenericGetDict(self, nullptr));
  if (!dict) return nullptr;
  if (PyObject* known = PyDict_GetItemString(dict.p, "__doc__")) return Py_NewRef(known);
  if (!describer) Py_RETURN_NONE;
  Ref result(PyObject_CallOneArg(describer, self));
  return result && !PyDict_SetItemString(dict.p, "__doc__", result.p) ? result.release() : nullptr;
}
static int op_set_doc(PyObject* self, PyObject* value, void*) {
  Ref dict(PyObject_GenericGetDict(self, nullptr));
  return dict ? PyDict_SetItemString(dict.p, "__doc__", value ? value : Py_None) : -1;
}
// Spellings of one op are equal: handlers that look a function up find it under any of them.
static PyObject* op_identity(PyObject* self) {
  PyObject* twin = reinterpret_cast<OpObject*>(self)->twin;
  return twin ? twin : self;
}
static PyObject* op_compare(PyObject* self, PyObject* other, int how) {
  if ((how != Py_EQ && how != Py_NE) || Py_TYPE(other) != OpType) Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong((op_identity(self) == op_identity(other)) == (how == Py_EQ));
}
static Py_hash_t op_hash(PyObject* self) { return _Py_HashPointer(op_identity(self)); }
static PyObject* op_repr(PyObject* self) {
  return PyUnicode_FromFormat("<rushlight op %U>", reinterpret_cast<OpObject*>(self)->name);
}
static PyObject* op_reduce(PyObject* self, PyObject*) {
  Ref rushlight(PyImport_ImportModule("rushlight.op"));
  return rushlight ? Py_BuildValue("N(O)", PyObject_GetAttrString(rushlight.p, "find_op"),
                                   reinterpret_cast<OpObject*>(self)->name)
                   : nullptr;
}
// reset(): ask the resolver again (an overload was added)
static PyObject* op_reset(PyObject* self, PyObject*) {
  auto* op = reinterpret_cast<OpObject*>(self);
  Py_CLEAR(op->overloads);
  Py_RETURN_NONE;
}

static PyMethodDef op_methods[] = {
    {"__reduce__", guarded<op_reduce>, METH_NOARGS, nullptr}, {"_reset", guarded<op_reset>, METH_NOARGS, nullptr}, {}};
static PyGetSetDef op_getset[] = {{"__name__", op_name, nullptr, nullptr, nullptr},
                                  {"__qualname__", op_name, nullptr, nullptr, nullptr},
                                  {"overload_list", op_overloads, nullptr, nullptr, nullptr},
                                  {"__doc__", op_get_doc, op_set_doc, nullptr, nullptr},
                                  {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
                                  {}};
static PyMemberDef op_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(OpObject, vectorcall), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(OpObject, dict), READONLY, nullptr},
    {}};
static PyType_Slot op_slots[] = {{Py_tp_new, reinterpret_cast<void*>(guarded<op_new>)},
                                 {Py_tp_dealloc, reinterpret_cast<void*>(op_dealloc)},
                                 {Py_tp_traverse, reinterpret_cast<void*>(op_traverse)},
                                 {Py_tp_clear, reinterpret_cast<void*>(op_clear)},
                                 {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                 {Py_tp_descr_get, reinterpret_cast<void*>(op_descr_get)},
                                 {Py_tp_repr, reinterpret_cast<void*>(op_repr)},
                                 {Py_tp_richcompare, reinterpret_cast<void*>(guarded<op_compare>)},
                                 {Py_tp_hash, reinterpret_cast<void*>(op_hash)},
                                 {Py_tp_methods, op_methods},
                                 {Py_tp_getset, op_getset},
                                 {Py_tp_members, op_members},
                                 {0, nullptr}};
static PyType_Spec op_spec = {"rushlight._C.Op", sizeof(OpObject), 0,
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR |
                                  Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
                              op_slots};

// --- module ----------------------------------------------------------------------------------------------------------

static PyObject* get_keys(PyObject*, PyObject*) {
  return Py_BuildValue("(II)", thread_state().keys, thread_state().excluded);
}
static PyObject* in_rule(PyObject*, PyObject*) { return Py_NewRef(thread_state().in_rule ? Py_True : Py_False); }
// own_call(f, *args): f(*args) as the tape's own call, which no __torch_function__ sees.
static PyObject* own_call(PyObject*, PyObject* args) {
  if (PyTuple_GET_SIZE(args) < 1) return PyErr_SetString(PyExc_TypeError, "own_call: expected a callable"), nullptr;
  Ref rest(PyTuple_GetSlice(args, 1, PyTuple_GET_SIZE(args)));
  RuleGuard own(true);
  return rest ? PyObject_Call(PyTuple_GET_ITEM(args, 0), rest.p, nullptr) : nullptr;
}
// call_below(keys, overload, bound): the whole call with some of the thread's keys masked out.
static PyObject* call_below(PyObject*, PyObject* args) {
  unsigned keys;
  PyObject *op, *given;
  Bound bound;
  if (!PyArg_ParseTuple(args, "IO!O", &keys, OverloadType, &op, &given)) return nullptr;
  Ref tuple(PySequence_Tuple(given));
  if (!tuple || !bound_from_tuple(op, tuple.p, &bound)) return nullptr;
  ExcludeGuard below(keys);
  return overload_call(self_op(op), bound.args);
}
static PyObject* set_keys(PyObject*, PyObject* args) {
  unsigned keys, excluded;
  if (!PyArg_ParseTuple(args, "II", &keys, &excluded)) return nullptr;
  thread_state().keys = keys;
  thread_state().excluded = excluded;
  if (keys & kKeyFunction) function_modes = true;
  Py_RETURN_NONE;
}

// Whether nobody but tensors has a say in what a value is: a plain tensor or number, text, a list of such.
static bool is_plain_value(PyObject* o, int depth) {
  PyTypeObject* type = Py_TYPE(o);
  if (type == TensorType) return !as_tensor(o)->keys;
  if (o == Py_None || is_dtype(o) || type == &PyUnicode_Type || type == &PyLong_Type || type == &PyFloat_Type ||
      type == &PyBool_Type)
    return true;
  if (!depth || (type != &PyTuple_Type && type != &PyList_Type)) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); i++)
    if (!is_plain_value(PySequence_Fast_ITEMS(o)[i], depth - 1)) return false;
  return true;
}
// is_plain_call(args, kwargs): whether a function written in Python may run at once. False where somebody may want to
// see the call, and where it takes longer to say.
static PyObject* is_plain_call(PyObject*, PyObject* const* given, Py_ssize_t count) {
  if (count != 2 || !PyDict_Check(given[1]))
    return PyErr_SetString(PyExc_TypeError, "is_plain_call: expected arguments and a dict"), nullptr;
  return PyBool_FromLong(!thread_state().keys && !is_recording() && !PyDict_GET_SIZE(given[1]) &&
                         is_plain_value(given[0], 2));
}

// is_unseen(*tensors): whether they lie on the host and nobody, the tape included, sees the ops they go through.
static PyObject* is_unseen(PyObject*, PyObject* const* given, Py_ssize_t count) {
  if (thread_state().keys || thread_state().noting || is_recording()) Py_RETURN_FALSE;
  bool grad = thread_state().grad_enabled;
  for (Py_ssize_t i = 0; i < count; i++) {
    if (!is_tensor(given[i])) return PyErr_SetString(PyExc_TypeError, "is_unseen: expected tensors"), nullptr;
    Tensor* t = as_tensor(given[i]);
    if (t->keys || t->device.type != kCPU || (grad && tape_requires_grad(t))) Py_RETURN_FALSE;
  }
  Py_RETURN_TRUE;
}

static PyObject* set_describer(PyObject*, PyObject* function) {
  Py_XSETREF(describer, Py_NewRef(function));
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"set_describer", guarded<set_describer>, METH_O, "set_describer(callable(op)): what documents an op"},
    {"get_thread_keys", guarded<get_keys>, METH_NOARGS, "(active, excluded) dispatch bits of this thread"},
    {"own_call", guarded<own_call>, METH_VARARGS, "own_call(f, *args): f(*args) as the tape's own call"},
    {"call_below", guarded<call_below>, METH_VARARGS,
     "call_below(keys, overload, bound): the call with some of the thread's keys masked out"},
    {"is_plain_call", guarded_method<is_plain_call>(), METH_FASTCALL,
     "is_plain_call(args, kwargs): whether neither modes, subclasses nor a profiler may want to see a call"},
    {"is_unseen", guarded_method<is_unseen>(), METH_FASTCALL,
     "is_unseen(*tensors): whether they lie on the host and nobody, the tape included, sees the ops they go through"},
    {"in_rule", guarded<in_rule>, METH_NOARGS, "whether the tape itself is calling ops on this thread"},
    {"set_thread_keys", guarded<set_keys>, METH_VARARGS, "set_thread_keys(active, excluded)"},
    {}};

int init_op_face(PyObject* module) {
  OverloadType = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&overload_spec));
  OpType = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&op_spec));
  if (!OverloadType || !OpType) return -1;
  use_op_types(OverloadType, OpType);
  if (PyModule_AddObjectRef(module, "Overload", as_object(OverloadType)) ||
      PyModule_AddObjectRef(module, "Op", as_object(OpType)))
    return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace rl

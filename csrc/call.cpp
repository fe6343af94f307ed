// From a bound call to a result: the one mask test, the plan table, the tape.
#include "call.h"
#include "boundary.h"

#include <structmember.h>

#include <utility>

#include "bind.h"
#include "build.h"
#include "scan.h"
#include "tape.h"

namespace rl {

PyTypeObject* OverloadType;
PyTypeObject* OpType;

static PyObject* dispatcher;      // callable(overload, args): the Python dispatcher
static PyObject* describer;       // callable(op): its documentation
static PyObject* bind_error;      // callable(op, args, kwargs): raises a TypeError that explains
static PyObject* out_caller;      // callable(overload, args, out)
static PyObject* autocaster;      // callable(overload, args): the op with its arguments cast, for mixed precision

PyObject* args_tuple(Overload* op, PyObject** args) {
  Py_ssize_t n = static_cast<Py_ssize_t>(op->params->size());
  PyObject* tuple = PyTuple_New(n);
  for (Py_ssize_t i = 0; tuple && i < n; i++) PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
  return tuple;
}

// --- running
// ------------------------------------------------------------------------------------------------------------

static Device call_device(Tensor** tensors, int n) {
  for (int i = 0; i < n; i++)
    if (tensors[i] && (tensors[i]->ndim || tensors[i]->device.type != kCPU)) return tensors[i]->device;
  return Device{};
}

// Outputs given by the caller are borrowed; returned outputs are new references.
static PyObject* run_pointwise(Overload* op, PointwisePlanObject* plan, PyObject** args, Tensor** given) {
  if (plan->num_out == 0) return Py_NewRef(args[0]);   // nothing to do: `x.to(x.dtype)` is x
  PointwiseCall call;
  for (int i = 0; i < plan->num_in; i++) {
    PyObject* value = args[plan->in_param[i]];
    bool tensor = is_tensor(value);
    call.tensors[i] = tensor ? as_tensor(value) : nullptr;
    call.scalars[i] = tensor ? nullptr : value;
  }
  for (int j = 0; j < plan->num_out; j++) call.outs[j] = given ? given[j] : nullptr;
  Device device = given ? given[0]->device : call_device(call.tensors, plan->num_in);
  // Read as numbers: a cpu number-like tensor next to tensors of another device, and a value that lies in what it is to
  // fill.
  PyObject* read[16];
  int num_read = 0;
  bool plugged = device.type != kCPU && kDevices[device.type].handler;
  Tensor* value = given && plan->by_value >= 0 ? call.tensors[plan->by_value] : nullptr;
  bool inside = value && value->numel == 1 && value->storage == given[0]->storage && value->device.type != kMeta;
  if (plugged || inside)
    for (int i = 0; i < plan->num_in; i++)
      if (call.tensors[i] && ((plugged && call.tensors[i]->device.type == kCPU) || (inside && i == plan->by_value))) {
        PyObject* number = PyObject_CallMethod(as_object(call.tensors[i]), "item", nullptr);
        if (!number) {
          while (num_read) Py_DECREF(read[--num_read]);
          return nullptr;
        }
        call.tensors[i] = nullptr;
        call.scalars[i] = read[num_read++] = number;
      }
  const char* name = PyUnicode_AsUTF8(op->name);
  bool ok = pointwise_launch(plan, call, device, name);
  while (num_read) Py_DECREF(read[--num_read]);
  if (!ok) return nullptr;
  if (given)
    for (int j = 0; j < plan->num_out; j++) Py_INCREF(as_object(given[j]));
  if (plan->num_out == 1) return as_object(call.outs[0]);
  PyObject* tuple = PyTuple_New(plan->num_out);
  for (int j = 0; j < plan->num_out; j++)
    if (tuple) PyTuple_SET_ITEM(tuple, j, as_object(call.outs[j]));
    else Py_DECREF(as_object(call.outs[j]));
  if (!tuple || !plan->wrap) return tuple;
  Ref holder(tuple);
  return PyObject_CallOneArg(plan->wrap, tuple);
}

static PyObject* run_body(Overload* op, PyObject** args) {
  size_t n = op->params->size();
  if (!op->records) return PyObject_Vectorcall(op->run, args, n, nullptr);
  GradModeGuard no_grad(false);   // this op records as a whole; its body must not
  return PyObject_Vectorcall(op->run, args, n, nullptr);
}

static PyObject* run_python(Overload* op, PyObject** args) {
  PyObject* result = run_body(op, args);
  if (!result || op->results == ResultViews::Kept || op->inplace) return result;
  Tensor* given[32];
  int count = gather_tensors(op, args, given, 32);
  if (count <= 32) tape_plain_results(result, given, count, op->results == ResultViews::Hidden);
  return result;
}

PyObject* overload_run(Overload* op, PyObject** args) {
  if (op->kind == Kind::Python) return run_python(op, args);
  Ref plan(find_plan(op, args));
  if (!plan) return PyErr_Occurred() ? nullptr : run_python(op, args);
  if (op->kind == Kind::Pointwise) {
    Tensor* self = op->inplace ? as_tensor(args[0]) : nullptr;
    return run_pointwise(op, reinterpret_cast<PointwisePlanObject*>(plan.p), args, self ? &self : nullptr);
  }
  Tensor* local[32];
  int n = gather_tensors(op, args, local, 32);
  std::vector<Tensor*> many(n <= 32 ? 0 : n);
  if (n > 32) gather_tensors(op, args, many.data(), n);
  PyObject* result = plan_run(reinterpret_cast<PlanObject*>(plan.p), n > 32 ? many.data() : local, n);
  if (__builtin_expect(!result, 0) && !PyErr_Occurred()) raise_failed_check(op, args, failed_check);
  return result;
}

// --- calling
// --------------------------------------------------------------------------------------------------------------

// The backend, or what stands in for it: a callable that is handed the bound arguments (tensor subclasses and modes).
static PyObject* run_with(Overload* op, PyObject** args, PyObject* runner) {
  if (!runner) return overload_run(op, args);
  GradModeGuard no_grad(false);
  return PyObject_Vectorcall(runner, args, op->params->size(), nullptr);
}

static PyObject* call_inplace(Overload* op, PyObject** args, bool record, PyObject* runner) {
  Tensor* self = as_tensor(args[0]);
  PyObject* kept = nullptr;
  if (tls.grad_enabled && (record || self->requires_grad() || self->view)) {
    if (record || self->requires_grad() || (self->view && self->view->base->requires_grad()))
      if (!tape_check_inplace(self, PyUnicode_AsUTF8(op->name))) return nullptr;
    if (record) {
      kept = tape_keep_self(op, args);
      if (!kept && PyErr_Occurred()) return nullptr;
    }
  } else if ((self->flags & kInference) && !tls.inference) {
    if (!tape_check_inplace(self, PyUnicode_AsUTF8(op->name))) return nullptr;
  }
  Ref holder(kept);
  uint32_t before = self->current_version();
  Ref result(run_with(op, args, runner));
  if (!result) return nullptr;
  bool counted = runner && self->current_version() != before;   // a handler that wrote to self itself
  if (!(self->flags & kInference) && !counted) tensor_bump(self);
  if (record && !tape_rebase(op, args, self, kept)) return nullptr;
  return result.release();
}

static bool mark_views(PyObject** args, PyObject* result) {
  if (tls.inference) return true;
  Tensor* base = as_tensor(args[0]);
  if (is_tensor(result)) return result == args[0] || tape_set_view(as_tensor(result), base, false);
  if (!PyTuple_Check(result)) return true;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result); i++)
    if (is_tensor(PyTuple_GET_ITEM(result, i)) && !tape_set_view(as_tensor(PyTuple_GET_ITEM(result, i)), base, true))
      return false;
  return true;
}

// A handler runs without recording, so the views it made look as if they were made under no_grad; whether the caller
// records is what counts.
static void adopt_view(Tensor* base, PyObject* made) {
  if (!is_tensor(made) || made == as_object(base)) return;
  ViewInfo* view = as_tensor(made)->view;
  if (view && view->base == (base->view ? base->view->base : base))
    view->no_grad_creation = !tls.grad_enabled || (base->view && base->view->no_grad_creation);
}

static void adopt_views(PyObject** args, PyObject* result) {
  if (!is_tensor(args[0])) return;
  Tensor* base = as_tensor(args[0]);
  adopt_view(base, result);
  if (!PyTuple_Check(result) && !PyList_Check(result)) return;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(result); i++)
    adopt_view(base, PySequence_Fast_GET_ITEM(result, i));
}

// Below the keys: autograd and the backend.
static PyObject* call_recorded(Overload* op, PyObject** args, bool requires_grad, PyObject* runner = nullptr) {
  bool record = op->records && requires_grad && tls.grad_enabled;
  if (op->inplace && (op->kind != Kind::Python || op->records)) return call_inplace(op, args, record, runner);
  Ref result(run_with(op, args, runner));
  if (!result) return nullptr;
  if (op->is_view && runner) adopt_views(args, result.p);
  if (op->is_view && !runner && !mark_views(args, result.p)) return nullptr;
  if (record && result.p != args[0] && !tape_record(op, args, result.p)) return nullptr;
  return result.release();
}

// Mixed precision is the only key: most ops ignore it and stay here. The bodies of ops are not cast, nor are
// derivatives, which run in the types of their forward pass.
static PyObject* call_autocast(Overload* op, PyObject** args, bool requires_grad) {
  if (op->autocast == Autocast::Body && !tls.in_rule) return call_recorded(op, args, requires_grad);
  if (op->autocast == Autocast::Ignored || tls.in_rule) {
    ExcludeGuard below(kKeyAutocast);
    return call_recorded(op, args, requires_grad);
  }
  Ref tuple(args_tuple(op, args));
  if (!tuple) return nullptr;
  return PyObject_CallFunctionObjArgs(autocaster ? autocaster : dispatcher, as_object(op), tuple.p, nullptr);
}

PyObject* overload_call(Overload* op, PyObject** args) {
  Scan scan;
  scan_args(op, args, &scan, tls.grad_enabled);
  uint32_t leave = (scan.keys | tls.keys) & ~tls.excluded;
  bool overridden =
      __builtin_expect(op->overridden->load(std::memory_order_relaxed) != 0, 0) && is_overridden(op, args);
  if (__builtin_expect(leave || overridden, 0)) {
    if (leave == kKeyAutocast && !overridden) return call_autocast(op, args, scan.requires_grad);
    Ref tuple(args_tuple(op, args));
    if (!tuple) return nullptr;
    if (dispatcher) return PyObject_CallFunctionObjArgs(dispatcher, as_object(op), tuple.p, nullptr);
  }
  return call_recorded(op, args, scan.requires_grad);
}

// --- results in tensors that are given
// --------------------------------------------------------------------------------------------------------------

// Whether outputs that are given are what a pointwise plan would have made, memory and strides aside.
static bool pointwise_takes(PointwisePlanObject* plan, PyObject** args, Tensor** outs, int num_outs) {
  Tensor* tensors[16];
  if (num_outs != plan->num_out || !num_outs) return false;
  for (int i = 0; i < plan->num_in; i++)
    tensors[i] = is_tensor(args[plan->in_param[i]]) ? as_tensor(args[plan->in_param[i]]) : nullptr;
  Device device = call_device(tensors, plan->num_in);
  for (int j = 0; j < num_outs; j++) {
    if (outs[j]->dtype != plan->out_dtype[j] || outs[j]->device.type != device.type ||
        outs[j]->device.index != device.index)
      return false;
    if (!kDevices[device.type].has_data || !broadcasts_to(tensors, plan->num_in, outs[j])) return false;
    for (int k = 0; k < j; k++)
      if (outs[k]->storage == outs[j]->storage) return false;
  }
  return true;
}

static PyObject* run_into(Overload* op, PyObject** args, PyObject* plan, Tensor** outs, int num_outs) {
  if (op->kind == Kind::Pointwise) {
    auto* p = reinterpret_cast<PointwisePlanObject*>(plan);
    return pointwise_takes(p, args, outs, num_outs) ? run_pointwise(op, p, args, outs) : Py_NewRef(Py_None);
  }
  Tensor* inputs[32];
  int n = gather_tensors(op, args, inputs, 32);
  auto* p = reinterpret_cast<PlanObject*>(plan);
  if (n > 32 || n != p->num_inputs || !plan_takes_outputs(p, inputs, n, outs, num_outs)) return Py_NewRef(Py_None);
  PyObject* result = plan_run(p, inputs, n, outs);
  if (!result && !PyErr_Occurred()) raise_failed_check(op, args, failed_check);
  return result;
}

// Writes the results into `outs`; None, and nothing written, where the op must make its own.
static PyObject* write_into(Overload* op, PyObject** args, Tensor** outs, int num_outs) {
  if (op->kind == Kind::Python || op->inplace || op->is_view) Py_RETURN_NONE;
  for (int j = 0; j < num_outs; j++)
    if ((outs[j]->flags & kInference) && !tls.inference) Py_RETURN_NONE;
  Ref plan(find_plan(op, args));
  if (!plan && PyErr_Occurred()) return nullptr;
  if (!plan) Py_RETURN_NONE;
  Ref result(run_into(op, args, plan.p, outs, num_outs));
  if (!result || result.p == Py_None) return result.release();
  for (int j = 0; j < num_outs; j++)
    if (!(outs[j]->flags & kInference)) tensor_bump(outs[j]);
  return result.release();
}

// Whether `out` is memory of its own: no element twice, none of an argument's.
static bool is_apart(Overload* op, PyObject** args, Tensor* out) {
  Tensor* tensors[32];
  int n = gather_tensors(op, args, tensors, 32);
  if (n > 32 || !(out->flags & kDenseNonOverlapping)) return false;
  for (int i = 0; i < n; i++)
    if (tensors[i]->storage == out->storage) return false;
  return true;
}

// out= with one tensor that nobody else has a say in; None where Python decides (or words the refusal).
static PyObject* write_plain_out(Overload* op, PyObject** args, PyObject* out) {
  if (op->out_rule == OutRule::Asked || !is_tensor(out) || op->overridden->load(std::memory_order_relaxed))
    Py_RETURN_NONE;
  if (op->out_rule == OutRule::Apart && !is_apart(op, args, as_tensor(out))) Py_RETURN_NONE;
  Scan scan;
  scan_args(op, args, &scan, tls.grad_enabled);
  scan_tensor(as_tensor(out), &scan, tls.grad_enabled);
  uint32_t leave = (scan.keys | tls.keys) & ~tls.excluded & ~kKeyAutocast;
  if (leave || scan.keys || scan.requires_grad) Py_RETURN_NONE;
  ExcludeGuard below(kKeyAutocast);   // mixed precision leaves such forms alone, as it does in-place ones
  Tensor* target = as_tensor(out);
  return write_into(op, args, &target, 1);
}

static PyObject* call_bound(Overload* op, Bound* bound) {
  if (!bound->out) return overload_call(op, bound->args);
  Ref written(write_plain_out(op, bound->args, bound->out));
  if (!written) return nullptr;
  if (written.p != Py_None) return Py_NewRef(bound->out);
  Ref tuple(args_tuple(op, bound->args));
  if (!tuple) return nullptr;
  return PyObject_CallFunctionObjArgs(out_caller, as_object(op), tuple.p, bound->out, nullptr);
}

static PyObject* refuse(PyObject* op, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  Ref positional(PyTuple_New(nargs)), keywords(PyDict_New());
  if (!positional || !keywords) return nullptr;
  for (Py_ssize_t i = 0; i < nargs; i++) PyTuple_SET_ITEM(positional.p, i, Py_NewRef(args[i]));
  for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); k++)
    if (PyDict_SetItem(keywords.p, PyTuple_GET_ITEM(kwnames, k), args[nargs + k])) return nullptr;
  if (!bind_error) return PyErr_SetString(PyExc_TypeError, "arguments do not match the op's signature"), nullptr;
  return PyObject_CallFunctionObjArgs(bind_error, op, positional.p, keywords.p, nullptr);
}

// --- overload objects
// -------------------------------------------------------------------------------------------------------

struct OverloadObject : Overload {
  vectorcallfunc vectorcall;
  PyObject* weakrefs;
};

static PyObject* overload_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  Bound bound;
  Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
  auto* op = reinterpret_cast<Overload*>(self);
  int fits = bind_arguments(op, args, nargs, kwnames, &bound);
  if (fits < 0) return nullptr;
  if (!fits) return refuse(self, args, nargs, kwnames);
  return call_bound(op, &bound);
}

// Overload(name, definition, kind, params, **flags)
static PyObject* overload_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  auto* op = reinterpret_cast<OverloadObject*>(type->tp_alloc(type, 0));
  if (!op) return nullptr;
  Ref guard(reinterpret_cast<PyObject*>(op));
  op->vectorcall = guarded<overload_vectorcall>;
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
  scan_args(self_op(self), bound.args, &scan, tls.grad_enabled);
  return call_recorded(self_op(self), bound.args, scan.requires_grad);
}
// autograd(runner, *bound): the tape around `runner`, which stands in for the backend.
static PyObject* o_autograd(PyObject* self, PyObject* args) {
  if (PyTuple_GET_SIZE(args) < 1) return PyErr_SetString(PyExc_TypeError, "autograd: expected a runner"), nullptr;
  Ref rest(PyTuple_GetSlice(args, 1, PyTuple_GET_SIZE(args)));
  Bound bound;
  if (!rest || !bound_from_tuple(self, rest.p, &bound)) return nullptr;
  Scan scan;
  scan_args(self_op(self), bound.args, &scan, tls.grad_enabled);
  return call_recorded(self_op(self), bound.args, scan.requires_grad, PyTuple_GET_ITEM(args, 0));
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
  Ref result(overload_run(op, bound.args));
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

// --- op objects: what users call
// -----------------------------------------------------------------------------------------------

struct OpObject {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject* name;
  PyObject* resolver;               // callable() -> list of overloads, asked at the first call
  PyObject* overloads;  // tuple of Overload, once resolved; a call holds it, so that a reset frees nothing in use
  PyObject* dict;
  PyObject* twin;                   // the op this is another public spelling of (compares equal to it), or null
  int mode;                         // 0 function or method, 1 operator, 2 reflected operator
};

static bool resolve(OpObject* op) {
  if (op->overloads) return true;
  Ref list(PyObject_CallNoArgs(op->resolver));
  if (!list) return false;
  if (op->overloads) return true;   // the resolver may import modules, and another thread was here meanwhile
  if (!PyList_Check(list.p))
    return PyErr_Format(PyExc_TypeError, "%U: the resolver must return a list", op->name), false;
  Ref overloads(PyList_AsTuple(list.p));
  if (!overloads) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(overloads.p); i++) {
    PyObject* o = PyTuple_GET_ITEM(overloads.p, i);
    if (Py_TYPE(o) != OverloadType) return PyErr_Format(PyExc_TypeError, "%U: not an Overload: %R", op->name, o), false;
  }
  op->overloads = overloads.release();
  return true;
}

// An operator between a tensor and a NumPy array: the array as a tensor. What cannot be one gets its turn as an
// operand.
static PyObject* operate_on_array(PyObject* self, PyObject* const* args, int which) {
  Ref array(as_object(tensor_from_buffer(args[which])));
  if (!array || !as_tensor(array.p)->ndim) {
    PyErr_Clear();
    Py_RETURN_NOTIMPLEMENTED;
  }
  bool reflected = reinterpret_cast<OpObject*>(self)->mode == 2;
  PyObject* pair[2] = {which ? args[0] : array.p, which ? array.p : args[1]};
  if (reflected) std::swap(pair[0], pair[1]);   // as the caller had them: the reflected operator turns them round again
  return PyObject_Vectorcall(self, pair, 2, nullptr);
}

static PyObject* op_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  auto* op = reinterpret_cast<OpObject*>(self);
  if (__builtin_expect(!op->overloads, 0) && !resolve(op)) return nullptr;
  Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
  PyObject* swapped[2];
  if (op->mode == 2 && nargs == 2 && !kwnames) {
    if (!is_tensor(args[0]))
      return PyErr_Format(PyExc_TypeError,
                          "%U: the reflected operator doesn't apply to a '%.100s' object: it takes a Tensor first",
                          op->name, Py_TYPE(args[0])->tp_name);
    swapped[0] = args[1];
    swapped[1] = args[0];
    args = swapped;
  }
  Ref overloads = Ref::borrow(op->overloads);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(overloads.p); i++) {
    auto* overload = reinterpret_cast<Overload*>(PyTuple_GET_ITEM(overloads.p, i));
    Bound bound;
    int fits = bind_arguments(overload, args, nargs, kwnames, &bound);
    if (fits > 0) return call_bound(overload, &bound);
    if (fits < 0) return nullptr;
  }
  if (op->mode && nargs == 2 && !kwnames) {
    PyObject* other = args[op->mode == 2 ? 0 : 1];
    // Objects with __torch_function__ take the call as a function; others get their turn as operands.
    if (is_numpy_array(other)) return operate_on_array(self, args, op->mode == 2 ? 0 : 1);
    if (!is_tensor(other) && !PyObject_HasAttrString(as_object(Py_TYPE(other)), "__torch_function__"))
      Py_RETURN_NOTIMPLEMENTED;
  }
  return refuse(self, args, nargs, kwnames);
}

static PyObject* op_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *name, *resolver, *twin = nullptr;
  int mode = 0;
  if (!PyArg_ParseTuple(args, "UO|iO!:Op", &name, &resolver, &mode, type, &twin)) return nullptr;
  auto* op = reinterpret_cast<OpObject*>(type->tp_alloc(type, 0));
  if (!op) return nullptr;
  op->vectorcall = guarded<op_vectorcall>;
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
  return resolve(op) ? PySequence_List(op->overloads) : nullptr;
}
// The text comes from the definition, which may not be imported yet: it is asked for, and kept, when first wanted.
static PyObject* op_get_doc(PyObject* self, void*) {
  Ref dict(PyObject_GenericGetDict(self, nullptr));
  if (!dict) return nullptr;
  if (PyObject* known = PyDict_GetItemString(dict.p, "__doc__")) return Py_NewRef(known);
  if (!describer) Py_RETURN_NONE;
  Ref made(PyObject_CallOneArg(describer, self));
  return made && !PyDict_SetItemString(dict.p, "__doc__", made.p) ? made.release() : nullptr;
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

// --- module
// ---------------------------------------------------------------------------------------------------------------------

static PyObject* set_hooks(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"dispatcher", "bind_error", "out_caller", "describer", "autocaster", nullptr};
  PyObject *d = nullptr, *b = nullptr, *o = nullptr, *t = nullptr, *a = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OOOOO", const_cast<char**>(names), &d, &b, &o, &t, &a))
    return nullptr;
  struct {
    PyObject* value;
    PyObject** slot;
  } pairs[] = {{d, &dispatcher}, {b, &bind_error}, {o, &out_caller}, {t, &describer}, {a, &autocaster}};
  for (auto& pair : pairs)
    if (pair.value) Py_XSETREF(*pair.slot, Py_NewRef(pair.value));
  Py_RETURN_NONE;
}
static PyObject* get_keys(PyObject*, PyObject*) { return Py_BuildValue("(II)", tls.keys, tls.excluded); }
static PyObject* in_rule(PyObject*, PyObject*) { return Py_NewRef(tls.in_rule ? Py_True : Py_False); }
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
  tls.keys = keys;
  tls.excluded = excluded;
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"set_hooks", guarded_method<set_hooks>(), METH_VARARGS | METH_KEYWORDS, "where the core asks Python"},
    {"get_thread_keys", guarded<get_keys>, METH_NOARGS, "(active, excluded) dispatch bits of this thread"},
    {"own_call", guarded<own_call>, METH_VARARGS, "own_call(f, *args): f(*args) as the tape's own call"},
    {"call_below", guarded<call_below>, METH_VARARGS,
     "call_below(keys, overload, bound): the call with some of the thread's keys masked out"},
    {"in_rule", guarded<in_rule>, METH_NOARGS, "whether the tape itself is calling ops on this thread"},
    {"set_thread_keys", guarded<set_keys>, METH_VARARGS, "set_thread_keys(active, excluded)"},
    {}};

int init_call(PyObject* module) {
  OverloadType = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&overload_spec));
  OpType = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&op_spec));
  if (!OverloadType || !OpType || init_bind()) return -1;
  if (PyModule_AddObjectRef(module, "Overload", as_object(OverloadType)) ||
      PyModule_AddObjectRef(module, "Op", as_object(OpType)))
    return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace rl

// From a bound call to a result: the one mask test, the plan table, the tape.
#include "call.h"
#include "boundary.h"

#include <utility>

#include "bind.h"
#include "element.h"
#include "join.h"
#include "profile.h"
#include "recording.h"
#include "registered.h"
#include "second_module.h"
#include "scan.h"
#include "tape.h"
#include "transcript.h"
#include "unchanged.h"

namespace rl {

PyTypeObject* OverloadType;
PyTypeObject* OpType;

static PyObject* dispatcher;      // callable(overload, args): the Python dispatcher
static PyObject* bind_error;      // callable(op, args, kwargs): raises a TypeError that explains
static PyObject* out_caller;      // callable(overload, args, out)
static PyObject* autocaster;      // callable(overload, args): the op with its arguments cast, for mixed precision, or
                                  // NotImplemented where ops in its body are cast instead

PyObject* args_tuple(Overload* op, PyObject** args) {
  Py_ssize_t n = static_cast<Py_ssize_t>(op->params->size());
  PyObject* tuple = PyTuple_New(n);
  for (Py_ssize_t i = 0; tuple && i < n; i++) PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
  return tuple;
}

// --- running ---------------------------------------------------------------------------------------------------------

static Device call_device(Tensor** tensors, int n) {
  for (int i = 0; i < n; i++)
    if (tensors[i] && (tensors[i]->ndim || tensors[i]->device.type != kCPU)) return tensors[i]->device;
  return Device{};
}

// Takes the references that the call holds.
static PyObject* several_outputs(PointwisePlanObject* plan, PointwiseCall& call) {
  PyObject* tuple = PyTuple_New(plan->num_out);
  for (int j = 0; j < plan->num_out; j++)
    if (tuple) PyTuple_SET_ITEM(tuple, j, as_object(call.outs[j]));
    else Py_DECREF(as_object(call.outs[j]));
  if (!tuple || !plan->wrap) return tuple;
  Ref holder(tuple);
  return PyObject_CallOneArg(plan->wrap, tuple);
}

static PyObject* recorded_outputs(Overload* op, PointwisePlanObject* plan, PyObject** args, PointwiseCall& call) {
  Ref result(plan->num_out == 1 ? as_object(call.outs[0]) : several_outputs(plan, call));
  return result && record_call(op, args, result.p) ? result.release() : nullptr;
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
  bool inside = value && value->numel == 1 && value->storage == given[0]->storage && kDevices[value->device.type].has_data;
  if (plugged || inside)
    for (int i = 0; i < plan->num_in; i++)
      if (call.tensors[i] && ((plugged && call.tensors[i]->device.type == kCPU) || (inside && i == plan->by_value))) {
        PyObject* number = stored_item(call.tensors[i]);   // the kernel applies what bits the tensor has
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
  if (__builtin_expect(kDevices[device.type].records, 0)) return recorded_outputs(op, plan, args, call);
  if (plan->num_out == 1) return as_object(call.outs[0]);
  return several_outputs(plan, call);
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

static PyObject* run_plan(Overload* op, PlanObject* plan, PyObject** args) {
  Tensor* local[32];
  int n = gather_tensors(op, args, local, 32);
  std::vector<Tensor*> many(n <= 32 ? 0 : n);
  if (n > 32) gather_tensors(op, args, many.data(), n);
  PyObject* result = plan_run(plan, n > 32 ? many.data() : local, n);
  if (__builtin_expect(!result, 0) && !PyErr_Occurred()) raise_failed_check(op, args, failed_check);
  if (result && __builtin_expect(kDevices[plan->device.type].records, 0) && !record_call(op, args, result))
    Py_CLEAR(result);
  return result;
}

PyObject* overload_run(Overload* op, PyObject** args) {
  if (op->kind == Kind::Python) return run_python(op, args);
  if (__builtin_expect(is_join(op), 0)) {
    PyObject* joined = join_tensors(op, args);
    if (joined || PyErr_Occurred()) return joined;
  }
  Ref plan(find_plan(op, args));
  return plan ? run_planned(op, plan.p, args) : PyErr_Occurred() ? nullptr : run_python(op, args);
}

PyObject* run_planned(Overload* op, PyObject* plan, PyObject** args) {
  if (op->kind != Kind::Pointwise) return run_plan(op, reinterpret_cast<PlanObject*>(plan), args);
  Tensor* self = op->inplace ? as_tensor(args[0]) : nullptr;
  return run_pointwise(op, reinterpret_cast<PointwisePlanObject*>(plan), args, self ? &self : nullptr);
}

// --- calling ---------------------------------------------------------------------------------------------------------

// The backend, or what stands in for it: a callable that is handed the bound arguments (tensor subclasses and modes).
static PyObject* run_with(Overload* op, PyObject** args, uint32_t keys, PyObject* runner) {
  if (!runner) return __builtin_expect(keys & kKeyBits, 0) ? run_through_bits(op, args) : overload_run(op, args);
  GradModeGuard no_grad(false);
  return PyObject_Vectorcall(runner, args, op->params->size(), nullptr);
}

static PyObject* replayed(Overload* op, PyObject** args, uint32_t keys);

// The same, or the plan that stands for it where no gradient is recorded.
static PyObject* run_inplace(Overload* op, PyObject** args, bool record, uint32_t keys, PyObject* runner) {
  if (op->replays && !record && !runner && !tls.noting) {
    PyObject* done = replayed(op, args, keys);
    if (done || PyErr_Occurred()) return done;
  }
  return run_with(op, args, keys, runner);
}

static PyObject* call_inplace(Overload* op, PyObject** args, bool record, uint32_t keys, PyObject* runner) {
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
  Ref result(run_inplace(op, args, record, keys, runner));
  if (!result) return nullptr;
  bool counted = runner && self->current_version() != before;   // a handler that wrote to self itself
  if (!(self->flags & kInference) && !counted) tensor_bump(self);
  if (record && !tape_rebase(op, args, self, kept)) return nullptr;
  return result.release();
}

bool mark_views(PyObject** args, PyObject* result) {
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
static void adopt_view(Tensor* base, PyObject* result) {
  if (!is_tensor(result) || result == as_object(base)) return;
  ViewInfo* view = as_tensor(result)->view;
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

// Where the graph shows an op of several nodes as PyTorch has it, the last node remembers the call.
static bool mark_shown(Overload* op, PyObject** args, PyObject* result, uint64_t since) {
  if (op->shows == Shows::Unknown) {
    PyObject* ask = op->inplace ? nullptr : PyDict_GetItemString(autograd_callbacks, "shows_own");
    Ref answer(ask ? PyObject_CallOneArg(ask, as_object(op)) : Py_NewRef(Py_False));
    if (!answer) PyErr_WriteUnraisable(ask);
    long shows = answer ? PyLong_AsLong(answer.p) : 0;
    op->shows = shows == 1 ? Shows::Own : shows == 2 ? Shows::Steps : Shows::Body;
  }
  if (op->shows == Shows::Own) return tape_mark(op, args, result, since);
  Node* n = op->shows == Shows::Steps && is_tensor(result) ? as_tensor(result)->grad_fn : nullptr;
  if (n && n->sequence >= since && n->sequence - since < 255) n->steps = static_cast<uint8_t>(n->sequence - since + 1);
  return true;
}

// The plan that the body of a Python op became, where nobody has to see the ops in it. Null with or without an
// exception: without, the body runs.
static PyObject* replayed(Overload* op, PyObject** args, uint32_t keys) {
  if (keys || (tls.keys & ~tls.excluded) || is_recording()) return nullptr;
  Ref plan(find_plan(op, args));
  if (!plan) return nullptr;
  Ref result(run_plan(op, reinterpret_cast<PlanObject*>(plan.p), args));
  if (!result || op->results != ResultViews::Kept || !is_tensor(result.p)) return result.release();
  Tensor* first;
  if (!gather_tensors(op, args, &first, 1)) return result.release();
  PyObject* base = as_object(first);
  bool is_view = result.p != base && as_tensor(result.p)->storage == first->storage;
  return is_view && !mark_views(&base, result.p) ? nullptr : result.release();
}

// Below the keys: autograd and the backend.
PyObject* call_recorded(Overload* op, PyObject** args, bool requires_grad, uint32_t keys, PyObject* runner) {
  bool record = op->records && requires_grad && tls.grad_enabled;
  if (op->inplace && (op->kind != Kind::Python || op->records)) return call_inplace(op, args, record, keys, runner);
  bool of_body = !op->records && requires_grad && tls.grad_enabled && op->shows != Shows::Body;
  // What a transcript is made of (transcript.h) are the ops of the body.
  if (op->replays && !runner && !tls.noting && !(requires_grad && tls.grad_enabled)) {
    PyObject* done = replayed(op, args, keys);
    if (done || PyErr_Occurred()) return done;
  }
  uint64_t since = of_body ? tape_sequence() : 0;
  Ref result(run_with(op, args, keys, runner));
  if (!result) return nullptr;
  if (of_body && !mark_shown(op, args, result.p, since)) return nullptr;
  if (op->is_view && runner) adopt_views(args, result.p);
  if (op->is_view && !runner && !mark_views(args, result.p)) return nullptr;
  if (record && result.p != args[0] && !tape_record(op, args, result.p)) return nullptr;
  return result.release();
}

// Mixed precision is the only key: most ops ignore it and stay here. The bodies of ops are not cast, nor are
// derivatives, which run in the types of their forward pass.
static PyObject* call_autocast(Overload* op, PyObject** args, const Scan& scan) {
  if (op->autocast == Autocast::Body && !tls.in_rule) return call_recorded(op, args, scan.requires_grad, scan.keys);
  if (op->autocast == Autocast::Ignored || tls.in_rule) {
    ExcludeGuard below(kKeyAutocast);
    return call_recorded(op, args, scan.requires_grad, scan.keys);
  }
  Ref tuple(args_tuple(op, args));
  if (!tuple) return nullptr;
  Ref answer(PyObject_CallFunctionObjArgs(autocaster ? autocaster : dispatcher, as_object(op), tuple.p, nullptr));
  if (answer.p != Py_NotImplemented) return answer.release();
  return call_recorded(op, args, scan.requires_grad, scan.keys);   // its body chooses
}

// A call of an op object as it was written: what handlers of __torch_function__ are shown.
struct CallSite {
  PyObject* op;
  PyObject* const* args;
  Py_ssize_t nargs;
  PyObject* kwnames;

  bool spell(Ref* positional, Ref* keywords) const {
    *positional = Ref(PyTuple_New(nargs)), *keywords = Ref(PyDict_New());
    if (!*positional || !*keywords) return false;
    for (Py_ssize_t i = 0; i < nargs; i++) PyTuple_SET_ITEM(positional->p, i, Py_NewRef(args[i]));
    for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); k++)
      if (PyDict_SetItem(keywords->p, PyTuple_GET_ITEM(kwnames, k), args[nargs + k])) return false;
    return true;
  }
};

// Hands a bound call to Python, with the site where somebody may want to see it.
static PyObject* ask_python(PyObject* handler, Overload* op, PyObject** args, PyObject* out, const CallSite* site) {
  Ref tuple(args_tuple(op, args));
  if (!tuple) return nullptr;
  Ref positional, keywords;
  if (site && !site->spell(&positional, &keywords)) return nullptr;
  PyObject* given[] = {as_object(op), tuple.p, out, nullptr, nullptr, nullptr};
  size_t count = out ? 3 : 2;
  if (site) given[count] = site->op, given[count + 1] = positional.p, given[count + 2] = keywords.p, count += 3;
  return PyObject_Vectorcall(handler, given, count, nullptr);
}

// Off the fast path: a recording sees the call (a bit that nobody else asks about), somebody handles it, or both.
static PyObject* call_off_path(Overload* op, PyObject** args, const CallSite* site, const Scan& scan, uint32_t leave,
                               bool overridden) {
  if (leave & kKeyNoting) {
    leave &= ~kKeyNoting;
    if (!overridden && !(leave & ~kKeyBits) && !tls.grad_enabled) return note_call(op, args, scan.keys);
    tls.noting = 0;
  }
  Recorded recorded;
  if (leave & kKeyProfile) record_op(&recorded, op, site ? site->op : nullptr, args, nullptr);
  leave &= ~(kKeyBits | kKeyProfile);   // no handler asks for bits: the backend sees to it
  if (leave == kKeyAutocast && !overridden) return call_autocast(op, args, scan);
  if (!leave && !overridden) return call_recorded(op, args, scan.requires_grad, scan.keys);
  if (leave == kKeyQuantized)   // nobody else has a say: its rules are asked at once
    if (PyObject* rules = PyDict_GetItemString(autograd_callbacks, "quantized_call")) {
      Ref answer(ask_python(rules, op, args, nullptr, nullptr));
      if (answer.p != Py_NotImplemented) return answer.release();
    }
  bool is_seen = leave & (kKeySubclass | kKeyMode);
  if (dispatcher) return ask_python(dispatcher, op, args, nullptr, is_seen ? site : nullptr);
  return call_recorded(op, args, scan.requires_grad, scan.keys);
}

static PyObject* call_from(Overload* op, PyObject** args, const CallSite* site) {
  Scan scan;
  scan_args(op, args, &scan, tls.grad_enabled);
  uint32_t leave =
      ((scan.keys | tls.keys) & ~tls.excluded) | tls.noting | profile_key.load(std::memory_order_relaxed);
  bool overridden =
      __builtin_expect(op->overridden->load(std::memory_order_relaxed) != 0, 0) && is_overridden(op, args);
  if (__builtin_expect(leave || overridden, 0)) {
    bool asked;
    if (op->registered && !leave && !scan.keys && !(tls.keys & kKeyFunctorch)) {
      PyObject* result = call_registered(op, args, scan, &asked);
      if (asked) return result;
    }
    return call_off_path(op, args, site, scan, leave, overridden);
  }
  if (op->unchanged && !scan.keys && meets(*op->unchanged, args)) return Py_NewRef(args[0]);
  return call_recorded(op, args, scan.requires_grad, scan.keys);
}

PyObject* overload_call(Overload* op, PyObject** args) { return call_from(op, args, nullptr); }

// --- results in tensors that are given -------------------------------------------------------------------------------

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
PyObject* write_into(Overload* op, PyObject** args, Tensor** outs, int num_outs) {
  if (op->kind == Kind::Python || op->inplace || op->is_view) Py_RETURN_NONE;
  tls.noting = 0;
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

static PyObject* call_bound(Overload* op, Bound* bound, const CallSite* site) {
  if (!bound->out) return call_from(op, bound->args, site);
  tls.noting = 0;
  Recorded recorded;
  if (is_recording()) record_op(&recorded, op, site ? site->op : nullptr, bound->args, bound->out);
  Ref written(write_plain_out(op, bound->args, bound->out));
  if (!written) return nullptr;
  if (written.p != Py_None) return Py_NewRef(bound->out);
  return ask_python(out_caller, op, bound->args, bound->out, site);
}

static PyObject* refuse(const CallSite& site) {
  Ref positional, keywords;
  if (!site.spell(&positional, &keywords)) return nullptr;
  if (!bind_error) return PyErr_SetString(PyExc_TypeError, "arguments do not match the op's signature"), nullptr;
  return PyObject_CallFunctionObjArgs(bind_error, site.op, positional.p, keywords.p, nullptr);
}

// --- overload objects, whose Python face is in extras/op_face.cpp ----------------------------------------------------

PyObject* overload_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  Bound bound;
  Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
  auto* op = reinterpret_cast<Overload*>(self);
  int fits = bind_arguments(op, args, nargs, kwnames, &bound);
  if (fits < 0) return nullptr;
  if (!fits) return refuse({self, args, nargs, kwnames});
  return call_bound(op, &bound, nullptr);
}

// --- op objects: what users call -------------------------------------------------------------------------------------

bool resolve_op(OpObject* op) {
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
  Ref array(as_object(second.tensor_from_buffer(args[which])));
  if (!array || !as_tensor(array.p)->ndim) {
    PyErr_Clear();
    Py_RETURN_NOTIMPLEMENTED;
  }
  bool reflected = reinterpret_cast<OpObject*>(self)->mode == 2;
  PyObject* pair[2] = {which ? args[0] : array.p, which ? array.p : args[1]};
  if (reflected) std::swap(pair[0], pair[1]);   // as the caller had them: the reflected operator turns them round again
  return PyObject_Vectorcall(self, pair, 2, nullptr);
}

PyObject* op_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  auto* op = reinterpret_cast<OpObject*>(self);
  if (__builtin_expect(!op->overloads, 0) && !resolve_op(op)) return nullptr;
  Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
  PyObject* swapped[2];
  CallSite site = {self, args, nargs, kwnames};   // before a reflected operator turns its operands round
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
    if (fits > 0) return call_bound(overload, &bound, &site);
    if (fits < 0) return nullptr;
  }
  if (op->mode && nargs == 2 && !kwnames) {
    PyObject* other = args[op->mode == 2 ? 0 : 1];
    // Objects with __torch_function__ take the call as a function; others get their turn as operands.
    if (is_numpy_array(other)) return operate_on_array(self, args, op->mode == 2 ? 0 : 1);
    if (!is_tensor(other) && !PyObject_HasAttrString(as_object(Py_TYPE(other)), "__torch_function__"))
      Py_RETURN_NOTIMPLEMENTED;
  }
  return refuse(site);
}

// --- module ----------------------------------------------------------------------------------------------------------

static PyObject* set_hooks(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"dispatcher", "bind_error", "out_caller", "autocaster", nullptr};
  PyObject *d = nullptr, *b = nullptr, *o = nullptr, *a = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OOOO", const_cast<char**>(names), &d, &b, &o, &a))
    return nullptr;
  struct {
    PyObject* value;
    PyObject** slot;
  } pairs[] = {{d, &dispatcher}, {b, &bind_error}, {o, &out_caller}, {a, &autocaster}};
  for (auto& pair : pairs)
    if (pair.value) Py_XSETREF(*pair.slot, Py_NewRef(pair.value));
  Py_RETURN_NONE;
}
static PyObject* set_join(PyObject*, PyObject* args) {
  PyObject* definition;
  int anew;
  if (!PyArg_ParseTuple(args, "Op", &definition, &anew)) return nullptr;
  Py_XSETREF(anew ? joins_anew : joins_along, Py_NewRef(definition));
  Py_RETURN_NONE;
}
static PyObject* running(PyObject*, PyObject*) { return Py_XNewRef(running_kernels()); }
static PyMethodDef functions[] = {
    {"running_kernels", guarded<running>, METH_NOARGS, "(name, key) of registered kernels on this thread's stack"},
    {"set_join", guarded<set_join>, METH_VARARGS,
     "set_join(definition, anew): an op of a list and a dim that the core may answer by itself"},
    {"set_hooks", guarded_method<set_hooks>(), METH_VARARGS | METH_KEYWORDS, "where the core asks Python"}, {}};

int init_call(PyObject* module) { return init_bind() ? -1 : PyModule_AddFunctions(module, functions); }

}  // namespace rl

// Plan objects as Python builds them, and the executor that replays them.
#include "plan.h"
#include "boundary.h"

#include <structmember.h>

#include <chrono>

#include "device.h"
#include "geometry.h"
#include "pool.h"
#include "symbolic.h"
#include "unlocked.h"

namespace rl {

PyTypeObject* PlanType;
PyTypeObject* PointwisePlanType;
thread_local int64_t failed_check;
static thread_local bool keeps_parts = false;   // whether plans remember what they were made of
static thread_local std::vector<int64_t>* step_times =
    nullptr;  // nanoseconds of each step, where somebody asks for them

// --- building -------------------------------------------------------------------------------------------------------

// Reads the numbers of a plan. Those that depend on sizes become patches.
class PlanReader {
 public:
  std::vector<Patch> patches;

  // A symbolic number says what it is, with a guard; in a plan that only states sizes (symbolic.h) it stays one, and 0
  // stands here.
  int64_t number(PyObject* o, Patch::Field field, size_t item, size_t index = 0) {
    if (PyLong_Check(o)) return PyLong_AsLongLong(o);
    if (is_extent(o)) {
      patches.push_back({field, static_cast<uint16_t>(item), static_cast<uint16_t>(index),
                         static_cast<uint16_t>(reinterpret_cast<ExtentObject*>(o)->reg)});
      return 0;
    }
    return keeps_symbols && is_symbolic_int(o) ? 0 : PyLong_AsLongLong(o);
  }

  bool vector(PyObject* seq, std::vector<int64_t>* out, Patch::Field field, size_t item) {
    Ref fast(PySequence_Fast(seq, "expected a sequence of ints"));
    if (!fast) return false;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(fast.p);
    out->resize(n);
    for (Py_ssize_t i = 0; i < n; i++) {
      (*out)[i] = number(PySequence_Fast_GET_ITEM(fast.p, i), field, item, i);
      if ((*out)[i] != -1 || !PyErr_Occurred()) continue;
      const char* what = field == Patch::SlotSize ? "sizes" : field == Patch::SlotStride ? "strides" : "params";
      if (PyErr_ExceptionMatches(PyExc_OverflowError))
        PyErr_Format(PyExc_RuntimeError, "the %s %R are too large: their product does not fit 64 bits", what, seq);
      return false;
    }
    return true;
  }

  // ("new"|"temp"|"view"|"arg", dtype, sizes, strides|None, source, offset)
  bool slot(PyObject* item, Slot* slot, size_t at) {
    const char* kind;
    PyObject *dtype, *sizes, *strides, *offset;
    if (!PyArg_ParseTuple(item, "sOOOiO:slot", &kind, &dtype, &sizes, &strides, &slot->source, &offset)) return false;
    slot->kind = *kind == 'n'   ? SlotKind::New
                 : *kind == 't' ? SlotKind::Temp
                 : *kind == 'v' ? SlotKind::View
                                : SlotKind::Arg;
    slot->offset = number(offset, Patch::SlotOffset, at);
    if (slot->offset == -1 && PyErr_Occurred()) return false;
    slot->dtype = dtype == Py_None ? DType::F32 : dtype_of(dtype);
    if (slot->kind == SlotKind::Arg) return true;
    if (!vector(sizes, &slot->sizes, Patch::SlotSize, at)) return false;
    if (slot->sizes.size() > static_cast<size_t>(kMaxDims))
      return PyErr_Format(PyExc_RuntimeError,
                          "tensor has too many (>%d) dims: at most %d dimensions are supported, got %zu", kMaxDims,
                          kMaxDims, slot->sizes.size()),
             false;
    return strides == Py_None || vector(strides, &slot->strides, Patch::SlotStride, at);
  }

  bool operand(PyObject* entry, Step* step, size_t at) {
    Operand operand{-1, 0};
    if (PyLong_Check(entry)) operand.slot = static_cast<int>(PyLong_AsLong(entry));
    else {
      PyObject* offset;
      if (!PyArg_ParseTuple(entry, "iO", &operand.slot, &offset)) return false;
      operand.byte_offset = number(offset, Patch::OperandOffset, at, step->operands.size());
    }
    step->operands.push_back(operand);
    return !PyErr_Occurred();
  }

  // (kernel, operands, params, extent, grain, error_slot, constants, on_error): kernel is an address, a callable, or
  // ("handle", object)
  bool step(PyObject* item, Step* step, size_t at) {
    PyObject *kernel, *operands, *params, *extent, *grain, *on_error = Py_None;
    const char* constants = nullptr;
    Py_ssize_t constant_bytes = 0;
    if (!PyArg_ParseTuple(item, "OOOOOi|y#O:step", &kernel, &operands, &params, &extent, &grain, &step->error_slot,
                          &constants, &constant_bytes, &on_error))
      return false;
    if (on_error != Py_None) step->on_error = Py_NewRef(on_error);
    step->extent = number(extent, Patch::StepExtent, at);
    step->grain = number(grain, Patch::StepGrain, at);
    if (PyErr_Occurred()) return false;
    if (constants) step->constants.assign(constants, constants + constant_bytes);
    if (PyLong_Check(kernel)) step->kernel = reinterpret_cast<Kernel>(PyLong_AsVoidPtr(kernel));
    else if (PyTuple_Check(kernel)) step->handle = Py_NewRef(PyTuple_GetItem(kernel, 1));
    else step->callable = Py_NewRef(kernel);
    Ref fast(PySequence_Fast(operands, "operands must be a sequence"));
    if (!fast) return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.p); i++)
      if (!operand(PySequence_Fast_GET_ITEM(fast.p, i), step, at)) return false;
    return vector(params, &step->params, Patch::StepParam, at);
  }
};

// A temporary is made right before the first step that names it and freed after the last, so that the next one can have
// its memory.
static void set_lifetimes(PlanObject* plan) {
  std::vector<std::pair<int, int>> lives(plan->slots->size(), {-1, -1});
  int count = static_cast<int>(plan->steps->size());
  for (int k = 0; k < count; k++) {
    const Step& step = (*plan->steps)[k];
    auto name = [&](int number) {
      int i = number - plan->num_inputs;
      if (i < 0 || (*plan->slots)[i].kind != SlotKind::Temp) return;
      if (lives[i].first < 0) lives[i].first = k;
      lives[i].second = k;
    };
    for (const Operand& o : step.operands) name(o.slot);
    if (step.error_slot >= 0) name(step.error_slot);
  }
  for (size_t i = 0; i < lives.size(); i++) {
    if (lives[i].first < 0) continue;
    (*plan->steps)[lives[i].first].makes.push_back(static_cast<int>(i));
    (*plan->steps)[lives[i].second].frees.push_back(static_cast<int>(i));
  }
}

static PyObject* plan_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"num_inputs", "device", "slots", "steps", "single", "wrap", "on_error", nullptr};
  int num_inputs, single = 1;
  PyObject *device, *slots, *steps, *wrap = Py_None, *on_error = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "iOOO|pOO:Plan", const_cast<char**>(names), &num_inputs, &device,
                                   &slots, &steps, &single, &wrap, &on_error))
    return nullptr;
  auto* plan = reinterpret_cast<PlanObject*>(type->tp_alloc(type, 0));
  if (!plan) return nullptr;
  Ref guard(as_object(plan));
  plan->slots = new std::vector<Slot>;
  plan->steps = new std::vector<Step>;
  plan->num_inputs = num_inputs;
  plan->single = single;
  plan->outputs = Py_NewRef(slots);
  plan->wrap = wrap == Py_None ? nullptr : Py_NewRef(wrap);
  plan->on_error = on_error == Py_None ? nullptr : Py_NewRef(on_error);
  if (!parse_device(device, &plan->device)) return nullptr;
  Ref slot_list(PySequence_Fast(slots, "slots must be a sequence")),
      step_list(PySequence_Fast(steps, "steps must be a sequence"));
  if (!slot_list || !step_list) return nullptr;
  PlanReader reader;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(slot_list.p); i++) {
    plan->slots->emplace_back();
    if (!reader.slot(PySequence_Fast_GET_ITEM(slot_list.p, i), &plan->slots->back(), i)) return nullptr;
  }
  for (Py_ssize_t i = 0; !keeps_symbols && i < PySequence_Fast_GET_SIZE(step_list.p); i++) {
    plan->steps->emplace_back();
    if (!reader.step(PySequence_Fast_GET_ITEM(step_list.p, i), &plan->steps->back(), i)) return nullptr;
  }
  int total = num_inputs + static_cast<int>(plan->slots->size());
  for (const Step& step : *plan->steps)
    for (const Operand& o : step.operands)
      if (o.slot < -1 || o.slot >= total)
        return PyErr_Format(PyExc_ValueError, "Plan: operand slot %d out of range 0..%d", o.slot, total - 1), nullptr;
  for (size_t i = 0; i < plan->slots->size(); i++) {
    const Slot& slot = (*plan->slots)[i];
    if (slot.kind != SlotKind::View && slot.kind != SlotKind::Arg) continue;
    int own = slot.source - num_inputs;   // of a view of an output, which must have been made by then
    bool made = slot.kind == SlotKind::View && own >= 0 && own < static_cast<int>(i) &&
                (*plan->slots)[own].kind == SlotKind::New;
    if (!made && (slot.source < 0 || own >= 0))
      return PyErr_Format(PyExc_ValueError, "Plan: slot source %d out of range", slot.source), nullptr;
  }
  set_lifetimes(plan);
  if (keeps_parts && !(plan->parts = PyTuple_Pack(2, steps, on_error))) return nullptr;
  if (!reader.patches.empty()) {
    plan->generic = new Generic;
    plan->generic->patches = std::move(reader.patches);
  }
  return guard.release();
}

// generalize(num_given, constants, program): the plan holds for all sizes that meet the program's comparisons.
static PyObject* plan_generalize(PyObject* self, PyObject* args) {
  auto* plan = reinterpret_cast<PlanObject*>(self);
  int num_given;
  PyObject *constants, *body;
  if (!PyArg_ParseTuple(args, "iOO:generalize", &num_given, &constants, &body)) return nullptr;
  Program program;
  if (!read_program(num_given, constants, body, &program)) return nullptr;
  if (!plan->generic) plan->generic = new Generic;
  for (const Patch& patch : plan->generic->patches)
    if (patch.reg >= program.registers())
      return PyErr_SetString(PyExc_ValueError, "generalize: a number of the plan is not in the program"), nullptr;
  plan->generic->program = std::move(program);
  plan->traced = true;
  Py_RETURN_NONE;
}

static void plan_dealloc(PyObject* self) {
  auto* plan = reinterpret_cast<PlanObject*>(self);
  if (plan->steps)
    for (Step& step : *plan->steps) {
      Py_XDECREF(step.callable);
      Py_XDECREF(step.handle);
      Py_XDECREF(step.on_error);
    }
  delete plan->slots;
  delete plan->steps;
  delete plan->generic;
  Py_XDECREF(plan->outputs);
  Py_XDECREF(plan->parts);
  Py_XDECREF(plan->wrap);
  Py_XDECREF(plan->on_error);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

// --- one plan for many shapes ---------------------------------------------------------------------------------------

static PyObject* share(PyObject* o) { return Py_XNewRef(o); }

PlanObject* plan_copy(PlanObject* plan) {
  PyTypeObject* type = Py_TYPE(as_object(plan));
  auto* copy = reinterpret_cast<PlanObject*>(type->tp_alloc(type, 0));
  if (!copy) return nullptr;
  copy->num_inputs = plan->num_inputs;
  copy->device = plan->device;
  copy->slots = new std::vector<Slot>(*plan->slots);
  copy->steps = new std::vector<Step>(*plan->steps);
  for (Step& step : *copy->steps) {
    share(step.callable);
    share(step.handle);
    share(step.on_error);
  }
  copy->outputs = share(plan->outputs);
  copy->wrap = share(plan->wrap);
  copy->on_error = share(plan->on_error);
  copy->single = plan->single;
  copy->traced = plan->traced;
  copy->requires_grad = plan->requires_grad;
  return copy;
}

static void fill_in(PlanObject* plan, const std::vector<Patch>& patches, const int64_t* registers) {
  for (const Patch& patch : patches) {
    int64_t value = registers[patch.reg];
    switch (patch.field) {
      case Patch::SlotSize: (*plan->slots)[patch.item].sizes[patch.index] = value; break;
      case Patch::SlotStride: (*plan->slots)[patch.item].strides[patch.index] = value; break;
      case Patch::SlotOffset: (*plan->slots)[patch.item].offset = value; break;
      case Patch::StepParam: (*plan->steps)[patch.item].params[patch.index] = value; break;
      case Patch::StepExtent: (*plan->steps)[patch.item].extent = value; break;
      case Patch::StepGrain: (*plan->steps)[patch.item].grain = value; break;
      case Patch::OperandOffset: (*plan->steps)[patch.item].operands[patch.index].byte_offset = value; break;
    }
  }
}

PlanObject* plan_for_shape(PlanObject* plan, int64_t* registers) {
  if (!run_program(plan->generic->program, registers)) return nullptr;
  PlanObject* target =
      plan->generic->busy ? plan_copy(plan) : reinterpret_cast<PlanObject*>(Py_NewRef(as_object(plan)));
  if (target) fill_in(target, plan->generic->patches, registers);
  return target;
}

// --- running --------------------------------------------------------------------------------------------------------

namespace {

constexpr int kMaxOperands = kMaxDims * 4;   // of one step

struct Launch {
  Kernel kernel;
  char** ptrs;
  const int64_t* params;
};

void run_chunk(void* context, int64_t begin, int64_t end) {
  auto* launch = static_cast<Launch*>(context);
  launch->kernel(launch->ptrs, launch->params, begin, end);
}

// A grain of 0 says that even one chunk is long: the interpreter lock is left around it.
void launch_native(const Step& step, char** ptrs) {
  if (step.extent <= step.grain) {
    if (step.extent > 0) step.kernel(ptrs, step.params.data(), 0, step.extent);
    return;
  }
  Launch launch{step.kernel, ptrs, step.params.data()};
  Unlocked others_run;
  parallel_for(step.extent, step.grain, run_chunk, &launch);
}

bool launch_plugged(const Step& step, char** ptrs, int n, Stream* stream) {
  int32_t constant_bytes[kMaxOperands];
  for (int i = 0; i < n; i++) {   // constants travel by value: their bytes are on the host
    const Operand& o = step.operands[i];
    constant_bytes[i] =
        o.slot >= 0 ? 0 : static_cast<int32_t>(static_cast<int64_t>(step.constants.size()) - o.byte_offset);
  }
  RushlightLaunch launch{nullptr,
                         n,
                         static_cast<int32_t>(step.params.size()),
                         reinterpret_cast<void* const*>(ptrs),
                         constant_bytes,
                         step.params.data(),
                         0,
                         step.extent,
                         -1,
                         0,
                         nullptr,
                         nullptr};
  return stream_launch(stream, step.handle, launch);
}

// On a plugged-in device a failed check is found when the stream is waited for: the kernel writes it to a cell of the
// stream's.
bool run_on_stream(PlanObject* plan, const Step& step, char** ptrs, int n) {
  Stream* stream = current_stream(plan->device);
  if (!stream) return false;
  PyObject* on_error = step.on_error ? step.on_error : plan->on_error;
  if (step.error_slot >= 0 && on_error) {
    char* cell = stream_check(stream, on_error, nullptr);
    if (!cell) return false;
    for (int i = 0; i < n; i++)
      if (step.operands[i].slot == step.error_slot) ptrs[i] = cell + step.operands[i].byte_offset;
  }
  return launch_plugged(step, ptrs, n, stream);
}

bool call_python(const Step& step, Tensor** all) {
  Ref args(PyTuple_New(static_cast<Py_ssize_t>(step.operands.size())));
  if (!args) return false;
  for (size_t i = 0; i < step.operands.size(); i++)
    PyTuple_SET_ITEM(args.p, i, Py_NewRef(as_object(all[step.operands[i].slot])));
  GradModeGuard no_grad(false);
  Ref done(PyObject_CallObject(step.callable, args.p));
  return static_cast<bool>(done);
}

alignas(64) char nothing[64];   // zeros: what an operand without elements shows to a kernel

// Definitions refuse this with the op's name; here stands what no kernel may meet: an address of another device, or
// none at all.
bool refuse_device(const PlanObject* plan, const Tensor* t) {
  PyErr_Format(PyExc_RuntimeError,
               "Expected all tensors to be on the same device, got %s and %s. Move them with .to().",
               device_type_name(plan->device.type), device_type_name(t->storage->device.type));
  return false;
}

bool run_step(PlanObject* plan, const Step& step, Tensor** all) {
  if (step.callable) return call_python(step, all);
  char* ptrs[kMaxOperands];
  int n = static_cast<int>(step.operands.size());
  if (n > kMaxOperands) return PyErr_SetString(PyExc_RuntimeError, "plan: too many operands in one step"), false;
  for (int i = 0; i < n; i++) {
    const Operand& o = step.operands[i];
    if (o.slot < 0) ptrs[i] = const_cast<char*>(step.constants.data()) + o.byte_offset;
    else if (!all[o.slot]->numel && !step.handle)
      ptrs[i] = nothing;  // kernels may load element 0 before they select it away
    else if (all[o.slot]->storage->device.type != plan->device.type) return refuse_device(plan, all[o.slot]);
    else ptrs[i] = all[o.slot]->data() + o.byte_offset;
  }
  if (step.handle) return run_on_stream(plan, step, ptrs, n);
  int64_t code = 0;
  PyObject* on_error = step.on_error ? step.on_error : plan->on_error;
  bool checked = step.error_slot >= 0 && on_error;
  char* cell = checked ? all[step.error_slot]->data() : nullptr;
  if (checked) memcpy(cell, &code, sizeof(code));
  launch_native(step, ptrs);
  if (!checked) return true;
  memcpy(&code, cell, sizeof(code));
  if (!code) return true;
  if (plan->traced) return failed_check = code, false;
  Ref raised(PyObject_CallFunction(on_error, "L", static_cast<long long>(code)));
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_IndexError, "index out of range");
  return false;
}

// `all` are the inputs, and behind them the slots made so far.
Tensor* make_slot(const Slot& slot, Tensor** all, Device device, bool requires_grad) {
  if (slot.kind == SlotKind::Arg) return as_tensor(Py_NewRef(as_object(all[slot.source])));
  int ndim = static_cast<int>(slot.sizes.size());
  if (slot.kind != SlotKind::View) {
    Tensor* fresh = tensor_empty(slot.sizes.data(), slot.strides.empty() && ndim ? nullptr : slot.strides.data(), ndim,
                                 slot.dtype, device);
    if (fresh && requires_grad && slot.kind == SlotKind::New) fresh->flags |= kRequiresGrad;
    return fresh;
  }
  Tensor* source = all[slot.source];
  Tensor* t = tensor_alias(source, slot.sizes.data(), slot.strides.data(), ndim, 0, slot.dtype);
  if (!t) return nullptr;
  int from = itemsize(source->dtype), to = itemsize(slot.dtype);
  t->offset = (from == to ? source->offset : source->offset * from / to) + slot.offset;
  if (!(source->flags & kInference)) tensor_share_version(source, t);
  return t;
}

bool make_results(PlanObject* plan, Tensor** all, Tensor** given) {
  for (size_t i = 0; i < plan->slots->size(); i++) {
    const Slot& slot = (*plan->slots)[i];
    Tensor*& made = all[plan->num_inputs + i];
    if (given && slot.kind == SlotKind::New) made = as_tensor(Py_NewRef(as_object(*given++)));
    else if (slot.kind != SlotKind::Temp && !(made = make_slot(slot, all, plan->device, plan->requires_grad)))
      return false;
  }
  return true;
}

bool make_temporaries(PlanObject* plan, const Step& step, Tensor** slots) {
  for (int i : step.makes)
    if (!(slots[i] = make_slot((*plan->slots)[i], nullptr, plan->device, false))) return false;
  return true;
}

bool free_temporaries(const Step& step, Tensor** slots) {
  for (int i : step.frees) {
    Py_DECREF(as_object(slots[i]));
    slots[i] = nullptr;
  }
  return true;
}

}  // namespace

static PyObject* plan_result(PlanObject* plan, Tensor** made) {
  int count = 0;
  for (const Slot& slot : *plan->slots) count += slot.kind != SlotKind::Temp;
  if (plan->single) {
    for (size_t i = 0; i < plan->slots->size(); i++)
      if ((*plan->slots)[i].kind != SlotKind::Temp) return Py_NewRef(as_object(made[i]));
    Py_RETURN_NONE;
  }
  Ref tuple(PyTuple_New(count));
  if (!tuple) return nullptr;
  for (size_t i = 0, k = 0; i < plan->slots->size(); i++)
    if ((*plan->slots)[i].kind != SlotKind::Temp) PyTuple_SET_ITEM(tuple.p, k++, Py_NewRef(as_object(made[i])));
  if (plan->wrap) return PyObject_CallOneArg(plan->wrap, tuple.p);
  return tuple.release();
}

// Kernels count on what the plan says of an output, on the alignment of fresh memory, and on inputs that do not change
// while they run.
static bool takes_output(const Slot& slot, const PlanObject* plan, Tensor* out, Tensor** inputs, int num_inputs) {
  int ndim = static_cast<int>(slot.sizes.size());
  if (slot.dtype != out->dtype || ndim != out->ndim || !out->numel) return false;
  if (out->device.type != plan->device.type || out->device.index != plan->device.index) return false;
  for (int d = 0; d < ndim; d++)
    if (out->sizes()[d] != slot.sizes[d] ||
        (!slot.strides.empty() && out->sizes()[d] > 1 && out->strides()[d] != slot.strides[d]))
      return false;
  if (slot.strides.empty() && !out->contiguous()) return false;
  if (reinterpret_cast<uintptr_t>(out->data()) % 64) return false;
  for (int i = 0; i < num_inputs; i++)
    if (inputs[i]->storage == out->storage) return false;
  return true;
}

bool plan_takes_outputs(PlanObject* plan, Tensor** inputs, int num_inputs, Tensor** outs, int num_outs) {
  if (!kDevices[plan->device.type].has_data || plan->requires_grad) return false;
  int k = 0;
  for (const Slot& slot : *plan->slots) {
    if (slot.kind == SlotKind::Temp) continue;
    if (slot.kind != SlotKind::New || k == num_outs || !takes_output(slot, plan, outs[k], inputs, num_inputs))
      return false;
    for (int j = 0; j < k; j++)
      if (outs[j]->storage == outs[k]->storage) return false;
    k++;
  }
  return k == num_outs;
}

static int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

PyObject* plan_run(PlanObject* plan, Tensor** inputs, int num_inputs, Tensor** given) {
  if (num_inputs != plan->num_inputs)
    return PyErr_SetString(PyExc_RuntimeError, "plan: wrong number of inputs"), nullptr;
  int num_slots = static_cast<int>(plan->slots->size());
  Tensor* local[64];
  std::vector<Tensor*> heap;
  Tensor** all = local;
  if (num_inputs + num_slots > 64) {
    heap.resize(num_inputs + num_slots);
    all = heap.data();
  }
  for (int i = 0; i < num_inputs; i++) {
    if (!plan->steps->empty() && !tensor_readable(inputs[i], "op")) return nullptr;
    all[i] = inputs[i];
  }
  Tensor** slots = all + num_inputs;
  for (int i = 0; i < num_slots; i++) slots[i] = nullptr;
  if (plan->generic) plan->generic->busy = true;
  bool ok = make_results(plan, all, given);
  if (ok && kDevices[plan->device.type].has_data)
    for (size_t k = 0; ok && k < plan->steps->size(); k++) {
      const Step& step = (*plan->steps)[k];
      int64_t start = __builtin_expect(step_times != nullptr, 0) ? now_ns() : 0;
      ok = make_temporaries(plan, step, slots) && run_step(plan, step, all) && free_temporaries(step, slots);
      if (__builtin_expect(step_times != nullptr, 0)) step_times->push_back(now_ns() - start);
    }
  PyObject* result = ok ? plan_result(plan, slots) : nullptr;
  if (plan->generic) plan->generic->busy = false;
  for (int i = 0; i < num_slots; i++) Py_XDECREF(as_object(slots[i]));
  return result;
}

static PyObject* plan_call(PyObject* self, PyObject* args, PyObject*) {
  auto* plan = reinterpret_cast<PlanObject*>(self);
  Py_ssize_t n = PyTuple_GET_SIZE(args);
  std::vector<Tensor*> inputs(n);
  for (Py_ssize_t i = 0; i < n; i++) {
    if (!is_tensor(PyTuple_GET_ITEM(args, i)))
      return PyErr_SetString(PyExc_TypeError, "Plan: inputs must be tensors"), nullptr;
    inputs[i] = as_tensor(PyTuple_GET_ITEM(args, i));
  }
  return plan_run(plan, inputs.data(), static_cast<int>(n));
}

// The plan filled in for the sizes and strides of the inputs in `which`, and `numbers`. New reference; null without an
// exception where it does not hold for them.
static PlanObject* fill_for(PlanObject* plan, Tensor** inputs, Py_ssize_t count, PyObject* which, PyObject* numbers,
                            std::vector<int64_t>& registers) {
  Generic* generic = plan->generic;
  registers.clear();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(which); i++) {
    long at = PyLong_AsLong(PyTuple_GET_ITEM(which, i));
    if (at < 0 || at >= count)
      return PyErr_Occurred() ? nullptr : (PyErr_SetString(PyExc_IndexError, "sized: no such input"), nullptr);
    registers.insert(registers.end(), inputs[at]->geometry, inputs[at]->geometry + 2 * inputs[at]->ndim);
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(numbers); i++) {
    registers.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(numbers, i)));
    if (registers.back() == -1 && PyErr_Occurred()) return nullptr;
  }
  size_t given = registers.size();
  if (given != static_cast<size_t>(generic->program.num_given)) return nullptr;
  auto& last = generic->registers;
  if (!generic->busy && last.size() > given && !memcmp(last.data(), registers.data(), sizeof(int64_t) * given)) {
    registers = last;
    return reinterpret_cast<PlanObject*>(Py_NewRef(as_object(plan)));
  }
  registers.resize(generic->program.registers() + 1);
  PlanObject* filled = plan_for_shape(plan, registers.data());
  if (filled == plan) last = registers;
  return filled;
}

// sized(inputs, which, numbers, shown) -> (results, numbers in the registers `shown`), None where the plan does not
// hold for these sizes, and NotImplemented where one of its kernels found an error that a plan for this shape can name.
static PyObject* plan_sized(PyObject* self, PyObject* args) {
  auto* plan = reinterpret_cast<PlanObject*>(self);
  PyObject *given, *which, *numbers, *shown;
  if (!PyArg_ParseTuple(args, "OO!O!O!:sized", &given, &PyTuple_Type, &which, &PyTuple_Type, &numbers, &PyTuple_Type,
                        &shown))
    return nullptr;
  Ref list(PySequence_Fast(given, "sized: inputs must be a sequence"));
  if (!list) return nullptr;
  if (!plan->generic) return PyErr_SetString(PyExc_RuntimeError, "sized: the plan is for one shape"), nullptr;
  Py_ssize_t n = PySequence_Fast_GET_SIZE(list.p);
  std::vector<Tensor*> inputs(n);
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject* o = PySequence_Fast_GET_ITEM(list.p, i);
    if (!is_tensor(o)) return PyErr_SetString(PyExc_TypeError, "sized: inputs must be tensors"), nullptr;
    inputs[i] = as_tensor(o);
  }
  std::vector<int64_t> registers;
  Ref filled(as_object(fill_for(plan, inputs.data(), n, which, numbers, registers)));
  if (!filled) {
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NONE;
  }
  Ref results(plan_run(reinterpret_cast<PlanObject*>(filled.p), inputs.data(), static_cast<int>(n)));
  if (!results) {
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NOTIMPLEMENTED;
  }
  Ref told(PyTuple_New(PyTuple_GET_SIZE(shown)));
  if (!told) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shown); i++) {
    long reg = PyLong_AsLong(PyTuple_GET_ITEM(shown, i));
    if (reg < 0 || reg >= static_cast<long>(registers.size()))
      return PyErr_SetString(PyExc_IndexError, "sized: no such register"), nullptr;
    PyObject* value = PyLong_FromLongLong(registers[reg]);
    if (!value) return nullptr;
    PyTuple_SET_ITEM(told.p, i, value);
  }
  return PyTuple_Pack(2, results.p, told.p);
}

// timed(*inputs) -> (results, [nanoseconds of each step])
static PyObject* plan_timed(PyObject* self, PyObject* args) {
  std::vector<int64_t> times;
  std::vector<int64_t>* before = step_times;
  step_times = &times;
  Ref result(plan_call(self, args, nullptr));
  step_times = before;
  if (!result) return nullptr;
  Ref list(PyList_New(0));
  for (int64_t t : times) {
    Ref number(PyLong_FromLongLong(t));
    if (!list || !number || PyList_Append(list.p, number.p)) return nullptr;
  }
  return PyTuple_Pack(2, result.p, list.p);
}

static PyObject* plan_get_requires_grad(PyObject* self, void*) {
  return PyBool_FromLong(reinterpret_cast<PlanObject*>(self)->requires_grad);
}
static int plan_set_requires_grad(PyObject* self, PyObject* value, void*) {
  int on = value ? PyObject_IsTrue(value) : 0;
  if (on < 0) return -1;
  reinterpret_cast<PlanObject*>(self)->requires_grad = on != 0;
  return 0;
}

static PyObject* plan_get_outputs(PyObject* self, void*) {
  return Py_NewRef(reinterpret_cast<PlanObject*>(self)->outputs);
}

static PyObject* plan_get_parts(PyObject* self, void*) {
  PyObject* parts = reinterpret_cast<PlanObject*>(self)->parts;
  return Py_NewRef(parts ? parts : Py_None);
}

static PyObject* plan_get_single(PyObject* self, void*) {
  return PyBool_FromLong(reinterpret_cast<PlanObject*>(self)->single);
}

static PyObject* plan_calls_python(PyObject* self, void*) {
  for (const Step& step : *reinterpret_cast<PlanObject*>(self)->steps)
    if (step.callable) Py_RETURN_TRUE;
  Py_RETURN_FALSE;
}
static PyGetSetDef plan_getset[] = {
    {"calls_python", plan_calls_python, nullptr, "whether a step is a Python function", nullptr},
    {"outputs", plan_get_outputs, nullptr, "the slots as they were given", nullptr},
    {"parts", plan_get_parts, nullptr, "(steps, on_error) as they were given, where keep_parts asked for them",
     nullptr},
    {"single", plan_get_single, nullptr, "whether the one output is returned bare", nullptr},
    {"requires_grad", plan_get_requires_grad, plan_set_requires_grad,
     "whether fresh outputs are leaves that want a gradient", nullptr},
    {}};
static PyMethodDef plan_methods[] = {
    {"timed", guarded<plan_timed>, METH_VARARGS, "timed(*inputs) -> (results, [nanoseconds of each step])"},
    {"sized", guarded<plan_sized>, METH_VARARGS,
     "sized(inputs, which, numbers, shown) -> (results, numbers): a plan for many shapes, run for that of these inputs"},
    {"generalize", guarded<plan_generalize>, METH_VARARGS,
     "generalize(num_given, constants, program): let it hold for many shapes"},
    {}};
static PyType_Slot plan_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(guarded<plan_new>)},
    {Py_tp_dealloc, reinterpret_cast<void*>(plan_dealloc)},
    {Py_tp_call, reinterpret_cast<void*>(guarded<plan_call>)},
    {Py_tp_getset, plan_getset},
    {Py_tp_methods, plan_methods},
    {Py_tp_doc, const_cast<char*>("Outputs to make and kernels to run for one way of calling an op.")},
    {0, nullptr}};
static PyType_Spec plan_spec = {"rushlight._C.Plan", sizeof(PlanObject), 0, Py_TPFLAGS_DEFAULT, plan_slots};

// --- pointwise plans ------------------------------------------------------------------------------------------------

// PointwisePlan(kernel, [(param, dtype)...], [out dtype...], wrap=None, divisor=-1, by_value=-1, zero_check=None)
static PyObject* pointwise_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *kernel, *ins, *outs, *wrap = Py_None, *zero_check = Py_None;
  int divisor = -1, by_value = -1;
  if (!PyArg_ParseTuple(args, "OO!O!|OiiO:PointwisePlan", &kernel, &PyList_Type, &ins, &PyList_Type, &outs, &wrap,
                        &divisor, &by_value, &zero_check))
    return nullptr;
  Py_ssize_t num_in = PyList_GET_SIZE(ins), num_out = PyList_GET_SIZE(outs);
  if (num_in > 16 || num_out > 8)
    return PyErr_SetString(PyExc_ValueError, "PointwisePlan: at most 16 inputs and 8 outputs"), nullptr;
  auto* plan = reinterpret_cast<PointwisePlanObject*>(type->tp_alloc(type, 0));
  if (!plan) return nullptr;
  Ref guard(as_object(plan));
  plan->num_in = static_cast<int>(num_in);
  plan->num_out = static_cast<int>(num_out);
  plan->divisor = divisor < num_in ? divisor : -1;
  plan->by_value = by_value < num_in ? by_value : -1;
  plan->wrap = wrap == Py_None ? nullptr : Py_NewRef(wrap);
  plan->zero_check = zero_check == Py_None ? nullptr : Py_NewRef(zero_check);
  if (PyLong_Check(kernel)) plan->kernel = reinterpret_cast<Kernel>(PyLong_AsVoidPtr(kernel));
  else if (kernel != Py_None) plan->handle = Py_NewRef(kernel);
  for (Py_ssize_t i = 0; i < num_in; i++) {
    int param;
    PyObject* dtype;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(ins, i), "iO!", &param, DTypeType, &dtype)) return nullptr;
    plan->in_param[i] = static_cast<uint8_t>(param);
    plan->in_dtype[i] = dtype_of(dtype);
  }
  for (Py_ssize_t i = 0; i < num_out; i++) {
    if (!is_dtype(PyList_GET_ITEM(outs, i)))
      return PyErr_SetString(PyExc_TypeError, "PointwisePlan: outputs must be dtypes"), nullptr;
    plan->out_dtype[i] = dtype_of(PyList_GET_ITEM(outs, i));
  }
  return guard.release();
}

static void pointwise_dealloc(PyObject* self) {
  auto* plan = reinterpret_cast<PointwisePlanObject*>(self);
  Py_XDECREF(plan->handle);
  Py_XDECREF(plan->zero_check);
  Py_XDECREF(plan->wrap);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyObject* pointwise_out_dtypes(PyObject* self, void*) {
  auto* plan = reinterpret_cast<PointwisePlanObject*>(self);
  PyObject* tuple = PyTuple_New(plan->num_out);
  for (int i = 0; tuple && i < plan->num_out; i++)
    PyTuple_SET_ITEM(tuple, i, Py_NewRef(dtype_object(plan->out_dtype[i])));
  return tuple;
}

static PyGetSetDef pointwise_getset[] = {{"out_dtypes", pointwise_out_dtypes, nullptr, nullptr, nullptr}, {}};
static PyType_Slot pointwise_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(guarded<pointwise_new>)},
    {Py_tp_dealloc, reinterpret_cast<void*>(pointwise_dealloc)},
    {Py_tp_getset, pointwise_getset},
    {Py_tp_doc, const_cast<char*>("A pointwise kernel for one combination of operand types, any shapes.")},
    {0, nullptr}};
static PyType_Spec pointwise_spec = {"rushlight._C.PointwisePlan", sizeof(PointwisePlanObject), 0, Py_TPFLAGS_DEFAULT,
                                     pointwise_slots};

static PyObject* py_num_threads(PyObject*, PyObject*) { return PyLong_FromLong(num_threads()); }
static PyObject* py_set_num_threads(PyObject*, PyObject* arg) {
  long n = PyLong_AsLong(arg);
  if (n == -1 && PyErr_Occurred()) return nullptr;
  if (n < 1)
    return PyErr_Format(PyExc_RuntimeError, "set_num_threads: expected a positive number of threads, got %ld", n),
           nullptr;
  set_num_threads(static_cast<int>(n));
  Py_RETURN_NONE;
}

static PyObject* py_keep_parts(PyObject*, PyObject* wanted) {
  int on = PyObject_IsTrue(wanted);
  if (on < 0) return nullptr;
  bool before = keeps_parts;
  keeps_parts = on != 0;
  return PyBool_FromLong(before);
}

static PyMethodDef functions[] = {
    {"keep_parts", guarded<py_keep_parts>, METH_O,
     "whether plans made in this thread remember their steps; what was so before"},
    {"get_num_threads", guarded<py_num_threads>, METH_NOARGS, "threads that share large kernels"},
    {"set_num_threads", guarded<py_set_num_threads>, METH_O, "how many threads share large kernels"},
    {}};

int init_plan(PyObject* module) {
  PlanType = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&plan_spec));
  PointwisePlanType = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&pointwise_spec));
  if (!PlanType || !PointwisePlanType) return -1;
  if (PyModule_AddObjectRef(module, "Plan", as_object(PlanType))) return -1;
  if (PyModule_AddObjectRef(module, "PointwisePlan", as_object(PointwisePlanType))) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace rl

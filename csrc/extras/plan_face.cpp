// Plan objects as Python builds them. Everything holds the interpreter lock.
#include "core.h"

#include <utility>

#include "boundary.h"
#include "faces.h"
#include "symbolic.h"

namespace rl {

static thread_local bool keeps_parts = false;     // whether plans remember what they were made of
// While a shape rule runs on symbolic sizes, plans are made for what they say, not to be run: sizes in them stay
// symbols.
static thread_local bool keeps_symbols = false;

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

  // ("new"|"temp"|"base"|"view"|"arg", dtype, sizes, strides|None, source, offset[, flips])
  bool slot(PyObject* item, Slot* slot, size_t at) {
    const char* kind;
    PyObject *dtype, *sizes, *strides, *offset;
    if (!PyArg_ParseTuple(item, "sOOOiO|I:slot", &kind, &dtype, &sizes, &strides, &slot->source, &offset, &slot->flips))
      return false;
    slot->kind = *kind == 'n'   ? SlotKind::New
                 : *kind == 't' ? SlotKind::Temp
                 : *kind == 'b' ? SlotKind::Base
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

static int64_t bytes_of(const Slot& slot) {      // -1 where it is too large, or empty
  int64_t span = 1;
  for (size_t d = 0; d < slot.sizes.size(); d++) {
    int64_t size = slot.sizes[d], stride = slot.strides.empty() ? 1 : slot.strides[d];
    if (size <= 0 || size > kMostScratch || stride < 0 || stride > kMostScratch) return -1;
    span = slot.strides.empty() ? span * size : span + (size - 1) * stride;
    if (span > kMostScratch) return -1;
  }
  return span * itemsize(slot.dtype);
}

// Small temporaries of a plan of kernels lie side by side in one piece of memory: making a tensor of each takes longer
// than such kernels run.
static void place_small(PlanObject* plan) {
  if (plan->device.type != kCPU) return;
  int64_t total = 0;
  std::vector<int64_t> places(plan->slots->size(), -1);
  for (size_t i = 0; i < places.size(); i++) {
    const Slot& slot = (*plan->slots)[i];
    if (slot.kind != SlotKind::Temp) continue;
    int64_t bytes = bytes_of(slot);
    if (bytes < 0) return;
    places[i] = total;
    total = (total + bytes + 63) / 64 * 64;
    if (total > kMostScratch) return;
  }
  for (const Step& step : *plan->steps)
    if (step.callable || step.handle || step.error_slot >= plan->num_inputs) return;
  if (!total) return;
  for (Step& step : *plan->steps)
    for (Operand& o : step.operands)
      if (int i = o.slot - plan->num_inputs; i >= 0 && places[i] >= 0) o = {kScratch, places[i] + o.byte_offset};
  plan->scratch_bytes = total;
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
    bool result = slot.kind == SlotKind::View && own >= 0 && own < static_cast<int>(i) &&
                ((*plan->slots)[own].kind == SlotKind::New || (*plan->slots)[own].kind == SlotKind::Base);
    if (!result && (slot.source < 0 || own >= 0))
      return PyErr_Format(PyExc_ValueError, "Plan: slot source %d out of range", slot.source), nullptr;
  }
  if (reader.patches.empty()) place_small(plan);
  set_lifetimes(plan);
  if (keeps_parts && !(plan->parts = PyTuple_Pack(2, steps, on_error))) return nullptr;
  if (!reader.patches.empty()) {
    plan->generic = new Generic;
    plan->generic->patches = std::move(reader.patches);
  }
  return guard.release();
}

// [constants], [code, a, b, ...]: false with an exception where they make no sense
static bool read_program(int num_given, PyObject* constants, PyObject* body, Program* program) {
  Ref numbers(PySequence_Fast(constants, "constants must be a sequence")),
      words(PySequence_Fast(body, "a program must be a sequence"));
  if (!numbers || !words) return false;
  program->num_given = num_given;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(numbers.p); i++) {
    program->constants.push_back(PyLong_AsLongLong(PySequence_Fast_GET_ITEM(numbers.p, i)));
    if (PyErr_Occurred()) return false;
  }
  long count = static_cast<long>(PySequence_Fast_GET_SIZE(words.p) / 3),
       end = num_given + count + static_cast<long>(program->constants.size());
  for (long i = 0; i < count; i++) {
    long word[3];
    for (int k = 0; k < 3; k++) word[k] = PyLong_AsLong(PySequence_Fast_GET_ITEM(words.p, 3 * i + k));
    if (PyErr_Occurred()) return false;
    auto ready = [&](long reg) { return reg >= 0 && reg < end && (reg < num_given + i || reg >= num_given + count); };
    if (word[0] < 0 || word[0] >= static_cast<long>(Code::Count) || !ready(word[1]) || !ready(word[2]))
      return PyErr_Format(PyExc_ValueError, "program: bad instruction (%ld, %ld, %ld) at %ld", word[0], word[1],
                          word[2], i),
             false;
    program->body.push_back(
        {static_cast<Code>(word[0]), static_cast<uint16_t>(word[1]), static_cast<uint16_t>(word[2])});
  }
  if (program->registers() > kMaxGraphRegisters)
    return PyErr_SetString(PyExc_ValueError, "program: too many registers"), false;
  return true;
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

static PyObject* plan_call(PyObject* self, PyObject* args, PyObject*) {
  auto* plan = reinterpret_cast<PlanObject*>(self);
  Py_ssize_t n = PyTuple_GET_SIZE(args);
  ShownInputs inputs;
  inputs.tensors.reserve(n);
  for (Py_ssize_t i = 0; i < n; i++) {
    if (!is_tensor(PyTuple_GET_ITEM(args, i)))
      return PyErr_SetString(PyExc_TypeError, "Plan: inputs must be tensors"), nullptr;
    if (!inputs.add(PyTuple_GET_ITEM(args, i))) return nullptr;
  }
  Ref result;
  {
    NotingPause pause;
    result = Ref(plan_run(plan, inputs.tensors.data(), static_cast<int>(n)));
  }
  if (thread_state().noting && result) note_plan(plan, args, result.p);
  return result.release();
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
  ShownInputs shown_inputs;
  std::vector<Tensor*>& inputs = shown_inputs.tensors;
  inputs.reserve(n);
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject* o = PySequence_Fast_GET_ITEM(list.p, i);
    if (!is_tensor(o)) return PyErr_SetString(PyExc_TypeError, "sized: inputs must be tensors"), nullptr;
    if (!shown_inputs.add(o)) return nullptr;
  }
  std::vector<int64_t> registers;
  Ref filled(as_object(fill_for(plan, inputs.data(), n, which, numbers, registers)));
  if (!filled) {
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NONE;
  }
  thread_state().noting = 0;
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
  std::vector<int64_t>* before = time_steps(&times);
  Ref result(plan_call(self, args, nullptr));
  time_steps(before);
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
     "sized(inputs, which, numbers, shown) -> (results, numbers): a plan for many shapes, run for these inputs"},
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

// PointwisePlan(kernel, [(param, dtype, via, fits)...], [out dtype...], wrap=None, divisor=-1, by_value=-1, zero_check=None,
//               layout=0)
static PyObject* pointwise_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *kernel, *ins, *outs, *wrap = Py_None, *zero_check = Py_None;
  int divisor = -1, by_value = -1, layout = 0;
  if (!PyArg_ParseTuple(args, "OO!O!|OiiOi:PointwisePlan", &kernel, &PyList_Type, &ins, &PyList_Type, &outs, &wrap,
                        &divisor, &by_value, &zero_check, &layout))
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
  plan->layout = static_cast<ResultLayout>(layout);
  plan->wrap = wrap == Py_None ? nullptr : Py_NewRef(wrap);
  plan->zero_check = zero_check == Py_None ? nullptr : Py_NewRef(zero_check);
  if (PyLong_Check(kernel)) plan->kernel = reinterpret_cast<Kernel>(PyLong_AsVoidPtr(kernel));
  else if (kernel != Py_None) plan->handle = Py_NewRef(kernel);
  for (Py_ssize_t i = 0; i < num_in; i++) {
    int param, fits;
    PyObject *dtype, *via;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(ins, i), "iO!O!i", &param, DTypeType, &dtype, DTypeType, &via, &fits))
      return nullptr;
    plan->via[i] = dtype_of(via);
    plan->fits[i] = static_cast<Fits>(fits);
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

static PyObject* exchange(bool* flag, PyObject* wanted) {
  int on = PyObject_IsTrue(wanted);
  return on < 0 ? nullptr : PyBool_FromLong(std::exchange(*flag, on != 0));
}
static PyObject* py_keep_parts(PyObject*, PyObject* wanted) { return exchange(&keeps_parts, wanted); }
static PyObject* py_keep_symbols(PyObject*, PyObject* wanted) { return exchange(&keeps_symbols, wanted); }

static PyMethodDef functions[] = {
    {"keep_symbols", guarded<py_keep_symbols>, METH_O,
     "keep_symbols(on): whether plans made now may have symbolic sizes; returns what was set before"},
    {"keep_parts", guarded<py_keep_parts>, METH_O,
     "whether plans made in this thread remember their steps; what was so before"},
    {"get_num_threads", guarded<py_num_threads>, METH_NOARGS, "threads that share large kernels"},
    {"set_num_threads", guarded<py_set_num_threads>, METH_O, "how many threads share large kernels"},
    {}};

int init_plan_face(PyObject* module) {
  PlanType = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&plan_spec));
  PointwisePlanType = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&pointwise_spec));
  if (!PlanType || !PointwisePlanType) return -1;
  use_plan_types(PlanType, PointwisePlanType);
  if (PyModule_AddObjectRef(module, "Plan", as_object(PlanType))) return -1;
  if (PyModule_AddObjectRef(module, "PointwisePlan", as_object(PointwisePlanType))) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace rl

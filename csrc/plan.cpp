// The executor that replays plans. Python builds them through extras/plan_face.cpp.
#include "plan.h"
#include "profile.h"

#include <alloca.h>

#include <chrono>
#include <utility>

#include "device.h"
#include "geometry.h"
#include "pool.h"
#include "tape.h"
#include "unlocked.h"

namespace rl {

PyTypeObject* PlanType;
PyTypeObject* PointwisePlanType;
thread_local int64_t failed_check;
static thread_local std::vector<int64_t>* step_times = nullptr;

std::vector<int64_t>* time_steps(std::vector<int64_t>* times) { return std::exchange(step_times, times); }

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
  copy->scratch_bytes = plan->scratch_bytes;
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
constexpr size_t kAlignment = 64;            // of fresh memory

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
  Recorded recorded;
  if (is_recording()) record_kernel(&recorded, reinterpret_cast<const void*>(step.kernel));
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

bool run_step(PlanObject* plan, const Step& step, Tensor** all, char* scratch) {
  if (step.callable) return call_python(step, all);
  char* ptrs[kMaxOperands];
  int n = static_cast<int>(step.operands.size());
  if (n > kMaxOperands) return PyErr_SetString(PyExc_RuntimeError, "plan: too many operands in one step"), false;
  for (int i = 0; i < n; i++) {
    const Operand& o = step.operands[i];
    if (o.slot == kScratch) ptrs[i] = scratch + o.byte_offset;
    else if (o.slot < 0) ptrs[i] = const_cast<char*>(step.constants.data()) + o.byte_offset;
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
  t->keys ^= slot.flips;
  if (!(source->flags & kInference)) tensor_share_version(source, t);
  return t;
}

bool is_view_of_base(const PlanObject* plan, const Slot& slot) {
  int own = slot.source - plan->num_inputs;
  return slot.kind == SlotKind::View && own >= 0 && (*plan->slots)[own].kind == SlotKind::Base;
}

bool make_results(PlanObject* plan, Tensor** all, Tensor** given) {
  for (size_t i = 0; i < plan->slots->size(); i++) {
    const Slot& slot = (*plan->slots)[i];
    Tensor*& made = all[plan->num_inputs + i];
    if (given && slot.kind == SlotKind::New) {
      if (!tensor_readable(*given, "out")) return false;
      made = as_tensor(Py_NewRef(as_object(*given++)));
    } else if (slot.kind != SlotKind::Temp && !(made = make_slot(slot, all, plan->device, plan->requires_grad))) {
      return false;
    }
    if (is_view_of_base(plan, slot) && !tls.inference && !tape_set_view(made, all[slot.source], false)) return false;
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

static bool is_returned(const Slot& slot) { return slot.kind != SlotKind::Temp && slot.kind != SlotKind::Base; }

static PyObject* plan_result(PlanObject* plan, Tensor** made) {
  int count = 0;
  for (const Slot& slot : *plan->slots) count += is_returned(slot);
  if (plan->single) {
    for (size_t i = 0; i < plan->slots->size(); i++)
      if (is_returned((*plan->slots)[i])) return Py_NewRef(as_object(made[i]));
    Py_RETURN_NONE;
  }
  Ref tuple(PyTuple_New(count));
  if (!tuple) return nullptr;
  for (size_t i = 0, k = 0; i < plan->slots->size(); i++)
    if (is_returned((*plan->slots)[i])) PyTuple_SET_ITEM(tuple.p, k++, Py_NewRef(as_object(made[i])));
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
  char* scratch = nullptr;
  if (plan->scratch_bytes) {
    auto start = reinterpret_cast<uintptr_t>(alloca(static_cast<size_t>(plan->scratch_bytes) + kAlignment));
    scratch = reinterpret_cast<char*>((start + kAlignment - 1) / kAlignment * kAlignment);
  }
  bool ok = make_results(plan, all, given);
  if (ok && kDevices[plan->device.type].has_data)
    for (size_t k = 0; ok && k < plan->steps->size(); k++) {
      const Step& step = (*plan->steps)[k];
      int64_t start = __builtin_expect(step_times != nullptr, 0) ? now_ns() : 0;
      ok = make_temporaries(plan, step, slots) && run_step(plan, step, all, scratch) && free_temporaries(step, slots);
      if (__builtin_expect(step_times != nullptr, 0)) step_times->push_back(now_ns() - start);
    }
  PyObject* result = ok ? plan_result(plan, slots) : nullptr;
  if (plan->generic) plan->generic->busy = false;
  for (int i = 0; i < num_slots; i++) Py_XDECREF(as_object(slots[i]));
  return result;
}

}  // namespace rl

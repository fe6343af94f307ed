// From a call to its plan. First by everything the call says; a shape that was not met before is looked for among the
// plans of its family (the same types and ranks), which hold for many shapes; what is in neither is asked of Python.
#include "call.h"
#include "profile.h"
#include "boundary.h"
#include "number.h"
#include "recording.h"
#include "scan.h"
#include "table.h"
#include "transcript.h"

namespace rl {

static PyObject* str_plan;
static PyObject* tracer;          // callable(definition, args): a plan that holds for many shapes, or None
static uint64_t epoch =
    0;  // part of every key: the global defaults under which plans were made; its second byte is the thread's

namespace {

constexpr int kMaxGiven = 512;    // numbers of one call
constexpr int kMaxMembers = 16;   // plans of one family: sizes from which on another way is faster, dims of size 1, ...
constexpr int kMaxTraces = 48;    // after so many, a family's shapes have too little in common

// Plans of calls that differ in sizes alone.
struct Family {
  PyObject_HEAD
  std::vector<PlanObject*>* members;   // strong; the one found last comes first
  int traces;
  bool met;                            // a first call had its plan made in the plain way: most ops see one shape only
  bool given_up;
  bool refused;                        // given up for what the rule raised: undone where the call itself is refused
  uint64_t once[32];                   // shapes met once; the second time they get a plan of their own
};
PyTypeObject* FamilyType;

void family_dealloc(PyObject* self) {
  auto* family = reinterpret_cast<Family*>(self);
  if (family->members)
    for (PlanObject* plan : *family->members) Py_DECREF(as_object(plan));
  delete family->members;
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PlanTable* table(void*& place) {
  if (!place) place = new PlanTable;
  return static_cast<PlanTable*>(place);
}

bool is_runtime_scalar(ParamType t) {
  return t == ParamType::TensorOrScalar || t == ParamType::OptTensorOrScalar || t == ParamType::Scalar ||
         t == ParamType::OptScalar;
}

// False: the call has no key, and is planned anew each time.
bool build_key(Overload* op, PyObject** args, KeyBuilder& key) {
  key.add(plan_epoch());
  auto& params = *op->params;
  int n = static_cast<int>(params.size());
  for (int i = 0; i < n; i++) {
    bool runtime = key.detail == Detail::Types && is_runtime_scalar(params[i].type);
    bool varies = key.detail == Detail::Ranks && params[i].varies && is_varying(args[i]);
    bool ok = varies ? add_varying(key, args[i]) : add_argument(key, args[i], runtime);
    if (!ok) return false;
    if (op->keys_numbers && runtime) key.add(number_class(args[i]));
  }
  if (op->inplace && key.detail != Detail::Types) add_aliases(key, args, n);
  return !key.full();
}

struct Given {
  int64_t registers[kMaxRegisters];
  int count = 0;
  bool add(int64_t value) { return count < kMaxGiven && (registers[count++] = value, true); }
  bool add(Tensor* t) {
    if (count + 2 * t->ndim > kMaxGiven) return false;
    memcpy(registers + count, t->geometry, sizeof(int64_t) * 2 * t->ndim);
    count += 2 * t->ndim;
    return true;
  }
};

// The numbers of a call in the order in which a program expects them.
bool collect(Overload* op, PyObject** args, Given& given) {
  auto& params = *op->params;
  for (size_t i = 0; i < params.size(); i++) {
    PyObject* o = args[i];
    if (is_tensor(o)) {
      if (!given.add(as_tensor(o))) return false;
    } else if (PyTuple_Check(o) || PyList_Check(o)) {
      for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(o); k++) {
        PyObject* item = PySequence_Fast_ITEMS(o)[k];
        if (is_tensor(item) ? !given.add(as_tensor(item)) : params[i].varies && !given.add(PyLong_AsLongLong(item)))
          return false;
      }
    } else if (params[i].varies && PyLong_CheckExact(o) && !given.add(PyLong_AsLongLong(o))) return false;
  }
  return true;
}

// Whether plans of this call are made as meta's are; 0: no.
uint8_t recording_device(Overload* op, PyObject** args) {
  Tensor* tensors[32];
  int n = gather_tensors(op, args, tensors, 32);
  for (int i = 0; i < n && i < 32; i++)
    if (is_recorded(tensors[i]->device)) return tensors[i]->device.type;
  for (size_t i = 0; i < op->params->size(); i++)
    if (is_device(args[i]) && is_recorded(reinterpret_cast<DeviceObject*>(args[i])->device))
      return reinterpret_cast<DeviceObject*>(args[i])->device.type;
  return 0;
}

// A plan that meta's tensors would have, for a device that records.
PyObject* recorded_plan(Overload* op, PyObject** args, uint8_t type) {
  Ref tuple(args_tuple(op, args)), given(tuple ? planned_arguments(tuple.p) : nullptr);
  if (!given) return nullptr;
  GradModeGuard no_grad(false);
  Ref plan(PyObject_CallMethodOneArg(op->definition, str_plan, given.p));
  if (!plan || Py_TYPE(plan.p) != PlanType) return plan.release();
  auto* own = plan_copy(reinterpret_cast<PlanObject*>(plan.p));
  if (own) own->device = Device{type, 0};
  return as_object(own);
}

PyObject* ask_python(Overload* op, PyObject** args) {
  if (uint8_t type = recording_device(op, args)) return recorded_plan(op, args, type);
  Ref tuple(args_tuple(op, args));
  if (!tuple) return nullptr;
  Recorded recorded;
  if (is_recording()) record_plan(&recorded, op);
  GradModeGuard no_grad(false);   // planning may compute, never record
  return PyObject_CallMethodOneArg(op->definition, str_plan, tuple.p);
}

// A plan for many shapes, this one among them; null where the rule asks too much of its sizes to be traced, or refuses
// them.
PlanObject* trace(Overload* op, PyObject** args, Family* family) {
  Ref tuple(args_tuple(op, args));
  if (!tuple) return PyErr_Clear(), nullptr;
  Recorded recorded;
  if (is_recording()) record_plan(&recorded, op);
  GradModeGuard no_grad(false);
  family->traces++;
  Ref plan(PyObject_CallFunctionObjArgs(tracer, op->definition, tuple.p, nullptr));
  family->refused = !plan && family->traces < kMaxTraces;
  if (!plan) PyErr_Clear();       // the plain way will say what is wrong
  bool traced = plan && Py_TYPE(plan.p) == PlanType && reinterpret_cast<PlanObject*>(plan.p)->generic &&
                reinterpret_cast<PlanObject*>(plan.p)->generic->program.registers() <= kMaxRegisters;
  if (!traced || family->traces >= kMaxTraces) family->given_up = true;
  return traced ? reinterpret_cast<PlanObject*>(plan.release()) : nullptr;
}

// Whether a body is called without an element: it runs in Python then, which says nothing of other sizes.
bool is_empty_call(Overload* op, PyObject** args) {
  if (!op->replays) return false;
  for (size_t i = 0; i < op->params->size(); i++)
    if (is_tensor(args[i]) && !as_tensor(args[i])->numel) return true;
  return false;
}

// The family's plan for this call, filled in. New reference, or null without an exception.
PlanObject* find_member(Overload* op, PyObject** args, Family* family) {
  Given given;
  if (!collect(op, args, given)) return nullptr;
  auto& members = *family->members;
  for (size_t i = 0; i < members.size(); i++) {
    PlanObject* plan = members[i];
    if (plan->generic->program.num_given != given.count) continue;
    if (PlanObject* filled = plan_for_shape(plan, given.registers)) {
      if (i) std::swap(members[i], members[i - 1]);
      return filled;
    }
    if (PyErr_Occurred()) PyErr_Clear();
  }
  if (family->given_up || is_empty_call(op, args)) return nullptr;
  PlanObject* plan = trace(op, args, family);
  if (!plan) return nullptr;
  if (plan->generic->program.num_given != given.count)
    return family->given_up = true, Py_DECREF(as_object(plan)), nullptr;
  PlanObject* filled = plan_for_shape(plan, given.registers);
  if (members.size() >= kMaxMembers) {
    Py_DECREF(as_object(members.back()));
    members.pop_back();
  }
  members.insert(members.begin(), plan);
  return filled;
}

Family* find_family(Overload* op, PyObject** args) {
  KeyBuilder key;
  key.detail = Detail::Ranks;
  if (!build_key(op, args, key)) return nullptr;
  uint64_t hash = hash_words(key.words, key.n);
  PlanTable* families = table(op->families);
  if (PyObject* found = families->find(key, hash)) return reinterpret_cast<Family*>(found);
  Ref made(FamilyType->tp_alloc(FamilyType, 0));
  if (!made) return PyErr_Clear(), nullptr;
  auto* family = reinterpret_cast<Family*>(made.p);
  family->members = new std::vector<PlanObject*>;
  families->insert(key, hash, made.p);
  return family;
}

// A call that is refused says nothing of others: its family goes on.
void forgive(Overload* op, PyObject** args) {
  KeyBuilder key;
  key.detail = Detail::Ranks;
  if (!op->families || !build_key(op, args, key)) return;
  auto* family = reinterpret_cast<Family*>(table(op->families)->find(key, hash_words(key.words, key.n)));
  if (!family || !family->refused) return;
  family->given_up = family->refused = false;
  family->traces--;
}

// A plan from the call's family. A shape that comes back gets a plan of its own, which is found sooner.
PyObject* plan_by_family(Overload* op, PyObject** args, const KeyBuilder& key, uint64_t hash) {
  Ref family(Py_XNewRef(as_object(find_family(op, args))));   // a rule that is traced may forget all plans
  if (!family) return nullptr;
  auto* members = reinterpret_cast<Family*>(family.p);
  if (!members->met) return members->met = true, nullptr;
  Ref plan(as_object(find_member(op, args, members)));
  if (!plan) return nullptr;
  uint64_t& seen = members->once[hash % 32];
  if (seen != hash) return seen = hash, plan.release();
  Ref own(as_object(plan_copy(reinterpret_cast<PlanObject*>(plan.p))));
  if (!own) return PyErr_Clear(), plan.release();
  table(op->table)->insert(key, hash, own.p);
  return own.release();
}

// Whether this number was here `often` times before, as far as a small table remembers.
bool comes_back(uint64_t hash, int often) {
  static struct {
    uint64_t hash;
    int count;
  } met[256];
  auto& entry = met[hash % 256];
  if (entry.hash != hash) entry = {hash, 0};
  return entry.count++ >= often;
}

// Whether the body of a Python op should be a plan: it is called for the second time with arguments of these types,
// ranks and numbers (numbers that are others each time would cost more than the body does), and where its plans hold for one
// shape alone, often with this shape.
bool is_worth_a_plan(Overload* op, PyObject** args, uint64_t shape) {
  KeyBuilder key;
  key.detail = Detail::Ranks;
  if (!build_key(op, args, key)) return false;
  uint64_t hash = hash_words(key.words, key.n), own = reinterpret_cast<uintptr_t>(op);
  PyObject* family = op->families ? table(op->families)->find(key, hash) : nullptr;
  if (!family) return comes_back(hash ^ own, 1);
  return !reinterpret_cast<Family*>(family)->given_up || comes_back(shape ^ own, 16);
}

}  // namespace

PyObject* find_plan(Overload* op, PyObject** args) {
  KeyBuilder key;
  key.detail = op->kind == Kind::Pointwise ? Detail::Types : Detail::Exact;
  bool cacheable = build_key(op, args, key);
  uint64_t hash = 0;
  if (cacheable) {
    hash = hash_words(key.words, key.n);
    if (PyObject* plan = table(op->table)->find(key, hash)) return plan == Py_None ? nullptr : Py_NewRef(plan);
    if (op->replays && !is_worth_a_plan(op, args, hash)) return nullptr;
    if (key.detail == Detail::Exact && tracer && !recording_device(op, args))
      if (PyObject* plan = plan_by_family(op, args, key, hash)) return plan;
  }
  if (!cacheable && op->replays) return nullptr;   // its body runs sooner than it is written down
  Ref plan(ask_python(op, args));
  if (!plan) return forgive(op, args), nullptr;
  bool known = Py_TYPE(plan.p) == PlanType || Py_TYPE(plan.p) == PointwisePlanType;
  // That there is none is known as well: asking anew takes as long as making one.
  bool may_be_none = (op->kind == Kind::Planned || op->replays) && key.detail == Detail::Exact;
  bool is_kept = known || (plan.p == Py_None && may_be_none);
  if (is_kept && cacheable) table(op->table)->insert(key, hash, plan.p);
  return known ? plan.release() : nullptr;
}

void raise_failed_check(Overload* op, PyObject** args, int64_t code) {
  if (op->replays) {   // several ops may check something: in the body the one that fails says so
    Ref done(PyObject_Vectorcall(op->run, args, op->params->size(), nullptr));
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "a check failed that the op's body does not make");
    return;
  }
  Ref plan(ask_python(op, args));
  if (!plan) return;
  PyObject* on_error = Py_TYPE(plan.p) == PlanType ? reinterpret_cast<PlanObject*>(plan.p)->on_error : nullptr;
  if (on_error) Ref(PyObject_CallFunction(on_error, "L", static_cast<long long>(code)));
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_IndexError, "index out of range");
}

void forget_tables(Overload* op) {   // the tables first: what they hold may call back
  forget_rules();
  forget_transcripts(op);
  void *plans = op->table, *families = op->families;
  op->table = op->families = nullptr;
  delete static_cast<PlanTable*>(plans);
  delete static_cast<PlanTable*>(families);
}

uint64_t plan_epoch() { return epoch | static_cast<uint64_t>(tls.default_device) << 8; }
uint64_t plan_defaults() { return (epoch & 0xffffff) | static_cast<uint64_t>(tls.default_device) << 24; }

size_t plan_count(Overload* op) { return op->table ? table(op->table)->used : 0; }

// --- module
// ---------------------------------------------------------------------------------------------------------------------

void choose_plan_threads(int n) {
  epoch = (epoch & ~(uint64_t{0xff} << 24)) | (static_cast<uint64_t>(n < 255 ? n : 255) << 24);
}

static PyObject* forget_plans(PyObject*, PyObject*) {
  epoch += uint64_t{1} << 32;
  Py_RETURN_NONE;
}
// choose_plans(which, number): plans made under this default (0 dtype, 1 device, 2 determinism) apply again, those made
// under others wait.
static PyObject* choose_plans(PyObject*, PyObject* args) {
  int which, number;
  if (!PyArg_ParseTuple(args, "ii", &which, &number)) return nullptr;
  if (which < 0 || which > 2 || number < 0 || number > 255)
    return PyErr_SetString(PyExc_ValueError, "choose_plans: no such default"), nullptr;
  if (which == 1) {   // threads have default devices of their own
    tls.default_device = static_cast<uint8_t>(number);
    Py_RETURN_NONE;
  }
  epoch = (epoch & ~(uint64_t{0xff} << 8 * which)) | (static_cast<uint64_t>(number) << 8 * which);
  Py_RETURN_NONE;
}
static PyObject* set_tracer(PyObject*, PyObject* callable) {
  Py_XSETREF(tracer, callable == Py_None ? nullptr : Py_NewRef(callable));
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"forget_plans", guarded<forget_plans>, METH_NOARGS, "plans made so far no longer apply"},
    {"choose_plans", guarded<choose_plans>, METH_VARARGS,
     "choose_plans(which, number): the plans made under one value of a global default"},
    {"set_tracer", guarded<set_tracer>, METH_O,
     "callable(definition, args): a plan for many shapes, or None; None: every shape has its own plan"},
    {}};

int init_lookup(PyObject* module) {
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(family_dealloc)}, {0, nullptr}};
  static PyType_Spec spec = {"rushlight._C.PlanFamily", sizeof(Family), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  str_plan = PyUnicode_InternFromString("plan");
  FamilyType = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!str_plan || !FamilyType) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace rl

// A transcript is a list of acts over numbered slots: first the tensors that the rule is given, then what the acts
// make. Leaves of the rule are written down (calls that have a plan), not the bodies of ops around them; a tensor that
// came from anywhere else, an element that was looked at or a write that no act explains end the writing for good.
#include "transcript.h"

#include <unordered_map>
#include <utility>

#include "bind.h"
#include "boundary.h"
#include "plan.h"
#include "profile.h"
#include "second_module.h"

namespace rl {

namespace {

constexpr size_t kMostKept = 1024;     // transcripts of one op
constexpr size_t kMostInputs = 64;     // tensors that one rule is given
constexpr size_t kMostActs = 256;
constexpr int kMostLists = 4;          // lists of tensors that one call is given

// An argument of an act: a slot, a tuple of slots and Nones, or a value that stays as it is.
struct Source {
  int slot = -1;
  PyObject* value = nullptr;           // strong
  bool is_list = false;
  std::vector<int> slots;              // -1: None
};

struct Act {
  enum Kind : uint8_t { Call, Fresh, Alias, Function, Plan } kind;
  bool through_keys = false;           // arguments have bits: the call goes the general way
  Overload* op = nullptr;              // strong
  PyObject* plan = nullptr;            // strong: what holds for this call alone, once there is one
  PyObject* (*function)(PyObject*, PyObject*) = nullptr;
  std::vector<Source> args;            // Alias: its base
  std::vector<int64_t> geometry;       // Fresh, Alias: sizes, then strides
  int64_t offset = 0;                  // Alias: from the base's
  DType dtype{};
  Device device;
  std::vector<int> results, frees;     // slots
};

struct Answer {
  int slot = -1;                       // -1: no gradient for this edge
  int base = -1;                       // the gradient is a view of what this slot holds
  bool multi_output = false;
};

struct Transcript {
  PyObject_HEAD
  size_t num_inputs, num_slots;
  std::vector<Act>* acts;
  std::vector<Answer>* answers;        // by edge
};
PyTypeObject* TranscriptType;

struct Transcripts {
  PlanTable table;                     // None: the rule cannot be repeated for such arguments
  uint64_t once[128][4] = {};          // met once, latest first; what comes back is written down
  bool repeats = false;

  bool was_met(uint64_t hash) {
    uint64_t* met = once[hash % 128];
    for (int i = 0; i < 4; i++)
      if (met[i] == hash) return true;
    for (int i = 3; i; i--) met[i] = met[i - 1];
    met[0] = hash;
    return false;
  }
};

uint64_t rules_epoch = 0;
uint64_t num_repeated = 0, num_written = 0;
thread_local const char* last_loss = "";
PyObject* lost_rules;                  // dict: of rules that were not written down, where that ended

void drop(std::vector<Act>* acts) {
  for (Act& e : *acts) {
    Py_XDECREF(as_object(e.op));
    Py_XDECREF(e.plan);
    for (Source& s : e.args) Py_XDECREF(s.value);
  }
  delete acts;
}

void transcript_dealloc(PyObject* self) {
  auto* t = reinterpret_cast<Transcript*>(self);
  if (t->acts) drop(t->acts);
  delete t->answers;
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

bool stop_noting(const char* why) {
  last_loss = why;
  tls.noting = 0;
  return false;
}

// --- keys ------------------------------------------------------------------------------------------------------------

// The tensors that a rule is given, in the order of their slots.
struct Inputs {
  PyObject* items[kMostInputs];
  size_t count = 0;
  bool add(PyObject* t) { return count < kMostInputs && (items[count++] = t, true); }
  bool add_all(PyObject** args, size_t n) {
    for (size_t i = 0; i < n; i++) {
      if (is_tensor(args[i])) {
        if (!add(args[i])) return false;
      } else if (PyTuple_Check(args[i]) || PyList_Check(args[i])) {
        for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(args[i]); k++)
          if (PyObject* item = PySequence_Fast_ITEMS(args[i])[k]; is_tensor(item) && !add(item)) return false;
      }
    }
    return true;
  }
};

bool add_value(RuleKey& key, PyObject* o, int depth);

bool add_items(RuleKey& key, PyObject* o, int depth) {
  Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
  key.add(kTensors | static_cast<uint64_t>(PyList_Check(o)) << 7 | static_cast<uint64_t>(n) << 8);
  for (Py_ssize_t i = 0; i < n; i++)
    if (!add_value(key, PySequence_Fast_ITEMS(o)[i], depth + 1)) return false;
  return true;
}

constexpr uint64_t kSlice = 11, kEllipsis = 12, kMetadata = 13;    // beside the tags of Tag

bool add_value(RuleKey& key, PyObject* o, int depth) {
  if (is_tensor(o)) {
    Tensor* t = as_tensor(o);
    if (depth > 1 || t->keys & ~kKeyBits || t->device.type != kCPU) return false;
    return add_tensor(key, t), true;
  }
  if (PyTuple_Check(o) || PyList_Check(o)) return depth < 3 && add_items(key, o, depth);
  if (o == Py_Ellipsis) return key.add(kEllipsis), true;
  if (PySlice_Check(o)) {
    auto* s = reinterpret_cast<PySliceObject*>(o);
    key.add(kSlice);
    return add_value(key, s->start, 3) && add_value(key, s->stop, 3) && add_value(key, s->step, 3);
  }
  uint64_t words[2 * kMaxDims + 3];
  if (int n = second.meta_words(o, words)) {
    key.add(kMetadata);
    for (int i = 0; i < n; i++) key.add(words[i]);
    return true;
  }
  return add_argument(key, o, false);
}

bool build_key(const RuleCall& call, RuleKey& key) {
  key.detail = Detail::Exact;
  key.add(plan_epoch());
  key.add(rules_epoch);
  key.add(call.needs);
  uint64_t edges = 0;
  for (uint32_t k = 0; k < call.node->num_edges; k++)
    edges |= static_cast<uint64_t>(call.node->edges()[k].node != nullptr) << k;
  key.add(edges);
  for (size_t i = 0; i < call.count; i++)
    if (!add_value(key, call.args[i], 0)) return false;
  Inputs inputs;
  if (!inputs.add_all(call.args, call.count)) return false;
  uint64_t wanting = 0;                         // rules ask that of their arguments
  for (size_t i = 0; i < inputs.count; i++)
    wanting |= static_cast<uint64_t>(tape_requires_grad(as_tensor(inputs.items[i]))) << i;
  key.add(wanting);
  for (size_t i = 1; i < inputs.count; i++)     // one tensor in two places is not two that look alike
    for (size_t j = 0; j < i; j++)
      if (inputs.items[j] == inputs.items[i]) {
        key.add(i << 8 | j);
        break;
      }
  if (key.full()) return false;
  key.hash = hash_words(key.words, key.n);
  return true;
}

// --- writing ---------------------------------------------------------------------------------------------------------

bool is_alive(PyObject* weak, PyObject* expected) {
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* found = nullptr;
  if (PyWeakref_GetRef(weak, &found) < 0) PyErr_Clear();
  Py_XDECREF(found);
  return found == expected;
#else
  return PyWeakref_GetObject(weak) == expected;
#endif
}

// What a value may be that goes into a transcript as it is: nothing with a state of its own.
bool is_fixed(PyObject* o) {
  if (PyTuple_Check(o)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); i++)
      if (!is_fixed(PyTuple_GET_ITEM(o, i))) return false;
    return true;
  }
  if (PySlice_Check(o)) {
    auto* s = reinterpret_cast<PySliceObject*>(o);
    return is_fixed(s->start) && is_fixed(s->stop) && is_fixed(s->step);
  }
  return o == Py_None || o == Py_Ellipsis || PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) ||
         PyComplex_CheckExact(o) || PyUnicode_CheckExact(o) || is_device(o) || is_dtype(o);
}

}  // namespace

struct Notes {
  struct Noted {
    PyObject* tensor;                  // only to compare with
    Ref weak;
    uint32_t version;
  };
  std::vector<Act>* acts = new std::vector<Act>;
  std::vector<Noted> slots;
  std::unordered_map<PyObject*, int> places;   // the slot a tensor was last given

  ~Notes() {
    if (acts) drop(acts);
  }

  bool add_slot(PyObject* tensor) {
    Ref weak(PyWeakref_NewRef(tensor, nullptr));
    if (!weak) return PyErr_Clear(), false;
    places[tensor] = static_cast<int>(slots.size());
    slots.push_back({tensor, std::move(weak), as_tensor(tensor)->current_version()});
    return true;
  }

  // The slot of a tensor that is still what its act made; -1: there is none.
  int find(PyObject* tensor) {
    auto place = places.find(tensor);
    if (place == places.end()) return -1;
    Noted& noted = slots[place->second];
    if (!is_alive(noted.weak.p, tensor) || as_tensor(tensor)->current_version() != noted.version) return -1;
    return place->second;
  }

  bool source(PyObject* value, Source* s) {
    if (is_tensor(value)) return (s->slot = find(value)) >= 0;
    if (PyTuple_Check(value) || PyList_Check(value)) {
      Py_ssize_t n = PySequence_Fast_GET_SIZE(value);
      bool tensors = false;
      for (Py_ssize_t i = 0; i < n; i++) tensors |= is_tensor(PySequence_Fast_ITEMS(value)[i]);
      if (tensors) {
        s->is_list = true;
        for (Py_ssize_t i = 0; i < n; i++) {
          PyObject* item = PySequence_Fast_ITEMS(value)[i];
          int slot = item == Py_None ? -1 : is_tensor(item) ? find(item) : -2;
          if (slot < 0 && item != Py_None) return false;
          s->slots.push_back(slot);
        }
        return true;
      }
      s->value = PySequence_Tuple(value);
      if (!s->value) return PyErr_Clear(), false;
      return is_fixed(s->value);
    }
    s->value = Py_NewRef(value);
    return is_fixed(value);
  }

  bool add_result(Act& e, PyObject* made) {
    int slot = find(made);             // an op may give an argument back
    if (slot < 0) {
      slot = static_cast<int>(slots.size());
      if (!add_slot(made)) return false;
    }
    e.results.push_back(slot);
    return true;
  }

  bool add_results(Act& e, PyObject* result) {
    if (is_tensor(result)) return add_result(e, result);
    if (!PyTuple_Check(result)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result); i++)
      if (!is_tensor(PyTuple_GET_ITEM(result, i)) || !add_result(e, PyTuple_GET_ITEM(result, i))) return false;
    return true;
  }

  // After a write that is an act: whoever shares the memory is as new as it.
  void follow_write(Tensor* written) {
    for (Noted& noted : slots)
      if (is_alive(noted.weak.p, noted.tensor) && as_tensor(noted.tensor)->version == written->version)
        noted.version = written->current_version();
  }

  Act* add(Act::Kind kind) {
    if (acts->size() == kMostActs) return nullptr;
    acts->emplace_back();
    acts->back().kind = kind;
    return &acts->back();
  }
};

static thread_local Notes* current = nullptr;

Noting::Noting(const RuleCall& rule) : call(rule), notes(new Notes), outer(current), collected(PyGC_Disable()) {
  // The collector waits: what it runs would be written down too.
  current = notes;
  Inputs inputs;
  bool ok = inputs.add_all(call.args, call.count);
  for (size_t i = 0; ok && i < inputs.count; i++) {
    int seen = notes->find(inputs.items[i]);
    ok = notes->add_slot(inputs.items[i]);
    if (seen >= 0) notes->places[inputs.items[i]] = seen;
  }
  tls.noting = kKeyNoting;
  last_loss = "something that is no call";
  if (!ok) stop_noting("inputs");
}

Noting::~Noting() {
  tls.noting = 0;
  current = outer;
  delete notes;
  if (collected) PyGC_Enable();
}

PyObject* note_call(Overload* op, PyObject** args, uint32_t keys) {
  bool bits = keys & kKeyBits;
  bool leaf = bits && !(op->kind == Kind::Python && op->sees_bits);
  Ref plan;
  if (!bits && op->kind != Kind::Python) {
    NotingPause pause;                 // planning may compute
    plan = Ref(find_plan(op, args));
    if (!plan && PyErr_Occurred()) return nullptr;
    leaf = static_cast<bool>(plan);
  }
  if (!leaf) return call_recorded(op, args, false, keys);   // written with ops, which are noted
  Notes* notes = current;
  Act* act = notes->add(Act::Call);
  bool ok = act != nullptr;
  if (ok) {
    act->op = reinterpret_cast<Overload*>(Py_NewRef(as_object(op)));
    act->through_keys = bits;
    act->args.resize(op->params->size());
    int lists = 0;
    for (size_t i = 0; ok && i < op->params->size(); i++)
      ok = notes->source(args[i], &act->args[i]) && (lists += act->args[i].is_list) <= kMostLists;
  }
  if (!ok) stop_noting(PyUnicode_AsUTF8(op->name));
  Ref result;
  {
    NotingPause pause;
    result = Ref(call_recorded(op, args, false, keys));
  }
  if (!result) return stop_noting("error"), nullptr;
  if (!tls.noting) return result.release();
  if (op->inplace) notes->follow_write(as_tensor(args[0]));
  if (!notes->add_results(*act, result.p)) stop_noting(PyUnicode_AsUTF8(op->name));
  return result.release();
}

void note_fresh(Tensor* made) {
  if (!tls.noting || !made) return;
  Act* act = current->add(Act::Fresh);
  if (!act) return (void)stop_noting("length");
  act->geometry.assign(made->geometry, made->geometry + 2 * made->ndim);
  act->dtype = made->dtype;
  act->device = made->device;
  if (made->device.type != kCPU || !current->add_result(*act, as_object(made))) stop_noting("fresh");
}

void note_alias(Tensor* base, Tensor* made) {
  if (!tls.noting || !made) return;
  Act* act = current->add(Act::Alias);
  if (!act) return (void)stop_noting("length");
  act->geometry.assign(made->geometry, made->geometry + 2 * made->ndim);
  act->dtype = made->dtype;
  act->offset = made->offset - base->offset;
  act->args.resize(1);
  bool plain = base->dtype == made->dtype && made->keys == view_bits(base, made->dtype) &&
               Py_TYPE(made) == TensorType && made->version && made->version == base->version;
  bool ok = plain && current->source(as_object(base), &act->args[0]);
  if (!ok || !current->add_result(*act, as_object(made))) stop_noting("alias");
}

void note_function(PyObject* (*function)(PyObject*, PyObject*), PyObject* args, PyObject* made) {
  if (!tls.noting || !made) return;
  Act* act = current->add(Act::Function);
  if (!act) return (void)stop_noting("length");
  act->function = function;
  act->args.resize(PyTuple_GET_SIZE(args));
  bool ok = true;
  for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(args); i++)
    ok = current->source(PyTuple_GET_ITEM(args, i), &act->args[i]);
  if (!ok || !current->add_results(*act, made)) stop_noting("function");
}

void note_plan(PlanObject* plan, PyObject* inputs, PyObject* result) {
  Act* act = current->add(Act::Plan);
  if (!act) return (void)stop_noting("length");
  bool ok = !plan->generic && !plan->traced;
  for (const Step& step : *plan->steps) ok &= !step.callable;    // which may know more than its operands
  act->plan = Py_NewRef(as_object(plan));
  act->args.resize(PyTuple_GET_SIZE(inputs));
  for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(inputs); i++) {
    PyObject* input = PyTuple_GET_ITEM(inputs, i);
    ok = !(as_tensor(input)->keys & kKeyBits) && current->source(input, &act->args[i]);
  }
  if (!ok || !current->add_results(*act, result)) stop_noting("plan");
}

// Each slot is let go after the last act that names it.
static void place_frees(std::vector<Act>& acts, const std::vector<Answer>& answers, size_t inputs, size_t slots) {
  std::vector<int> last(slots, -1);
  for (size_t i = 0; i < acts.size(); i++) {
    for (Source& s : acts[i].args) {
      if (s.slot >= 0) last[s.slot] = static_cast<int>(i);
      for (int slot : s.slots)
        if (slot >= 0) last[slot] = static_cast<int>(i);
    }
    for (int slot : acts[i].results) last[slot] = static_cast<int>(i);
  }
  for (const Answer& a : answers)
    for (int slot : {a.slot, a.base})
      if (slot >= 0) last[slot] = -1;
  for (size_t slot = inputs; slot < slots; slot++)
    if (last[slot] >= 0) acts[last[slot]].frees.push_back(static_cast<int>(slot));
}

// What a view is one of: a slot, or what an input is a view of as well.
static int find_base(Notes* notes, Tensor* base, const Inputs& inputs) {
  int slot = notes->find(as_object(base));
  for (size_t i = 0; slot < 0 && i < inputs.count; i++)
    if (ViewInfo* view = as_tensor(inputs.items[i])->view; view && view->base == base) slot = static_cast<int>(i);
  return slot;
}

static bool find_answers(Notes* notes, Node* node, PyObject** out, const Inputs& inputs,
                         std::vector<Answer>* answers) {
  for (uint32_t k = 0; k < node->num_edges; k++) {
    Answer a;
    if (out[k]) {
      if ((a.slot = notes->find(out[k])) < 0) return false;
      ViewInfo* view = as_tensor(out[k])->view;
      if (view && a.slot >= static_cast<int>(inputs.count)) {
        if ((a.base = find_base(notes, view->base, inputs)) < 0) return false;
        a.multi_output = view->multi_output;
      }
    }
    answers->push_back(a);
  }
  return true;
}

void Noting::keep(const RuleKey& key, PyObject** out) {
  auto* kept = static_cast<Transcripts*>(call.info->transcripts);
  bool ok = tls.noting != 0;
  tls.noting = 0;
  if (!kept) return;                   // forgotten meanwhile
  Ref made(ok ? TranscriptType->tp_alloc(TranscriptType, 0) : nullptr);
  auto* t = reinterpret_cast<Transcript*>(made.p);
  if (t) {
    Inputs inputs;
    inputs.add_all(call.args, call.count);
    t->num_inputs = inputs.count;
    t->num_slots = notes->slots.size();
    t->answers = new std::vector<Answer>;
    t->acts = std::exchange(notes->acts, nullptr);
    ok = find_answers(notes, call.node, out, inputs, t->answers);
    if (ok) place_frees(*t->acts, *t->answers, t->num_inputs, t->num_slots);
    else last_loss = "answer";
  } else {
    PyErr_Clear();
  }
  if (kept->table.used >= kMostKept) kept->table.clear();
  num_written += ok && t;
  Ref why(ok && t ? nullptr : PyUnicode_FromString(last_loss));
  if (why && PyDict_SetItem(lost_rules, call.op->name, why.p)) PyErr_Clear();
  kept->table.insert(key, key.hash, ok && t ? made.p : Py_None);
}

// --- finding ---------------------------------------------------------------------------------------------------------

// Our own rules are written with ops and keep no state; nobody knows that of what a program brings.
static bool is_own(PyObject* definition) {
  Ref custom(PyObject_GetAttrString(definition, "custom"));
  Ref room(PyObject_GetAttrString(as_object(Py_TYPE(definition)), "__module__"));
  const char* text = room && PyUnicode_Check(room.p) ? PyUnicode_AsUTF8(room.p) : nullptr;
  bool own = text && !strncmp(text, "rushlight.", 10) && custom && PyObject_IsTrue(custom.p) == 0;
  PyErr_Clear();
  return own;
}

static Transcripts* transcripts_of(Overload* op, TapeInfo* info) {
  if (!info->transcripts) {
    auto* made = new Transcripts;
    made->repeats = is_own(op->definition);
    info->transcripts = made;
  }
  return static_cast<Transcripts*>(info->transcripts);
}

static bool writes_transcripts = true;

// Somebody may look at the calls one by one, or they are to be derived themselves.
static bool is_watched() {
  return tls.grad_enabled || tls.noting || (tls.keys & ~tls.excluded) || tls.inference || anomaly_enabled ||
         profile_key.load(std::memory_order_relaxed) || (plan_defaults() >> 16 & 0xff);
}

PyObject* find_transcript(const RuleCall& call, RuleKey& key) {
  if (is_watched() || !writes_transcripts || call.node->num_edges > 64) return nullptr;
  Transcripts* kept = transcripts_of(call.op, call.info);
  if (!kept->repeats || !build_key(call, key)) return nullptr;
  if (PyObject* found = kept->table.find(key, key.hash)) return found == Py_None ? nullptr : Py_NewRef(found);
  key.is_kept = kept->was_met(key.hash);
  return nullptr;
}

void forget_rules() { rules_epoch++; }

void forget_transcripts(Overload* op) {
  auto* info = static_cast<TapeInfo*>(op->tape);
  if (info) delete static_cast<Transcripts*>(std::exchange(info->transcripts, nullptr));
}

// --- repeating -------------------------------------------------------------------------------------------------------

namespace {

// The slots of one run: those of the inputs are borrowed.
struct Slots {
  PyObject* few[64];
  std::vector<PyObject*> many;
  PyObject** at = few;
  size_t inputs, count;
  Slots(size_t num_inputs, size_t num_slots) : inputs(num_inputs), count(num_slots) {
    if (count > 64) many.resize(count), at = many.data();
    for (size_t i = 0; i < count; i++) at[i] = nullptr;
  }
  ~Slots() {
    for (size_t i = inputs; i < count; i++) Py_XDECREF(at[i]);
  }
  void put(int slot, PyObject* owned) {
    PyObject* old = static_cast<size_t>(slot) < inputs ? owned : std::exchange(at[slot], owned);
    Py_XDECREF(old);
  }
};

PyObject* argument(const Source& s, PyObject** slots, Ref* holder) {
  if (s.slot >= 0) return slots[s.slot];
  if (!s.is_list) return s.value;
  *holder = Ref(PyTuple_New(static_cast<Py_ssize_t>(s.slots.size())));
  if (!*holder) return nullptr;
  for (size_t i = 0; i < s.slots.size(); i++)
    PyTuple_SET_ITEM(holder->p, i, Py_NewRef(s.slots[i] < 0 ? Py_None : slots[s.slots[i]]));
  return holder->p;
}

PyObject* run_function(const Act& e, PyObject** slots) {
  Ref args(PyTuple_New(static_cast<Py_ssize_t>(e.args.size())));
  for (size_t i = 0; args && i < e.args.size(); i++) {
    Ref holder;
    PyObject* value = argument(e.args[i], slots, &holder);
    if (!value) return nullptr;
    PyTuple_SET_ITEM(args.p, i, Py_NewRef(value));
  }
  return args ? e.function(nullptr, args.p) : nullptr;
}

PyObject* run_own_plan(const Act& e, PyObject** slots) {
  std::vector<Tensor*> inputs;
  for (const Source& s : e.args) inputs.push_back(as_tensor(slots[s.slot]));
  return plan_run(reinterpret_cast<PlanObject*>(e.plan), inputs.data(), static_cast<int>(inputs.size()));
}

PyObject* run_call(Act& e, PyObject** slots) {
  PyObject* args[kMaxParams];
  Ref holders[kMostLists];
  size_t held = 0;
  for (size_t i = 0; i < e.args.size(); i++) {
    const Source& s = e.args[i];
    args[i] = argument(s, slots, s.is_list ? &holders[held++] : nullptr);
    if (!args[i]) return nullptr;
  }
  if (e.through_keys) return overload_call(e.op, args);
  Ref plan(e.plan ? Py_NewRef(e.plan) : find_plan(e.op, args));
  if (!plan) return PyErr_Occurred() ? nullptr : overload_call(e.op, args);
  // A plan for many shapes is filled in for each call: only one for this shape stays.
  if (!e.plan && (Py_TYPE(plan.p) != PlanType || !reinterpret_cast<PlanObject*>(plan.p)->generic))
    e.plan = Py_NewRef(plan.p);
  Ref result(run_planned(e.op, plan.p, args));
  if (result && e.op->inplace && !(as_tensor(args[0])->flags & kInference)) tensor_bump(as_tensor(args[0]));
  return result.release();
}

PyObject* run_alias(const Act& e, Tensor* base) {
  int ndim = static_cast<int>(e.geometry.size() / 2);
  const int64_t* sizes = e.geometry.data();
  Tensor* t = tensor_alias(base, sizes, sizes + ndim, ndim, base->offset + e.offset, e.dtype);
  if (t && !(base->flags & kInference)) tensor_share_version(base, t);
  return as_object(t);
}

bool run_act(Act& e, Slots& slots) {
  int ndim = static_cast<int>(e.geometry.size() / 2);
  const int64_t* sizes = e.geometry.data();
  Ref result;
  switch (e.kind) {
    case Act::Call: result = Ref(run_call(e, slots.at)); break;
    case Act::Fresh: result = Ref(as_object(tensor_empty(sizes, sizes + ndim, ndim, e.dtype, e.device))); break;
    case Act::Alias: result = Ref(run_alias(e, as_tensor(slots.at[e.args[0].slot]))); break;
    case Act::Plan: result = Ref(run_own_plan(e, slots.at)); break;
    case Act::Function: result = Ref(run_function(e, slots.at)); break;
  }
  if (!result) return false;
  if (e.results.size() == 1 && is_tensor(result.p)) slots.put(e.results[0], result.release());
  else
    for (size_t i = 0; i < e.results.size(); i++)
      slots.put(e.results[i], Py_NewRef(PyTuple_GET_ITEM(result.p, static_cast<Py_ssize_t>(i))));
  for (int slot : e.frees) Py_CLEAR(slots.at[slot]);
  return true;
}

}  // namespace

bool repeat_transcript(PyObject* transcript, const RuleCall& call, PyObject** out) {
  auto* t = reinterpret_cast<Transcript*>(transcript);
  Inputs inputs;
  inputs.add_all(call.args, call.count);
  Slots slots(t->num_inputs, t->num_slots);
  for (size_t i = 0; i < t->num_inputs; i++) slots.at[i] = inputs.items[i];
  num_repeated++;
  for (Act& e : *t->acts)
    if (!run_act(e, slots)) return false;
  for (size_t k = 0; k < t->answers->size(); k++) {
    const Answer& a = (*t->answers)[k];
    if (a.slot < 0) continue;
    out[k] = Py_NewRef(slots.at[a.slot]);
    if (a.base >= 0 && !tape_set_view(as_tensor(out[k]), as_tensor(slots.at[a.base]), a.multi_output)) return false;
  }
  return true;
}

// --- module ----------------------------------------------------------------------------------------------------------

// transcript_counts(): (written, repeated, {op: where its rule went on with something that is no call of an op's plan})
static PyObject* transcript_counts(PyObject*, PyObject*) {
  return Py_BuildValue("(KKN)", static_cast<unsigned long long>(num_written),
                       static_cast<unsigned long long>(num_repeated), PyDict_Copy(lost_rules));
}

static PyObject* keep_transcripts(PyObject*, PyObject* on) {
  int wanted = PyObject_IsTrue(on);
  if (wanted < 0) return nullptr;
  return PyBool_FromLong(std::exchange(writes_transcripts, wanted));
}

static PyMethodDef functions[] = {
    {"transcript_counts", guarded<transcript_counts>, METH_NOARGS,
     "(rules written down, rules repeated, {op whose rule was not: where that ended})"},
    {"keep_transcripts", guarded<keep_transcripts>, METH_O,
     "whether derivative rules are repeated by the core; what was set before"},
    {}};

int init_transcript(PyObject* module) {
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(transcript_dealloc)}, {0, nullptr}};
  static PyType_Spec spec = {"rushlight._C.Transcript", sizeof(Transcript), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  TranscriptType = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  lost_rules = PyDict_New();
  return TranscriptType && lost_rules ? PyModule_AddFunctions(module, functions) : -1;
}

}  // namespace rl

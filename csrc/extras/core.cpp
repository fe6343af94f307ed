// The core as the second module sees it: what headers declare, through the table that the core lends.
#include "core.h"

#include <string>

#include "boundary.h"

namespace rl {

#define X(name) PyTypeObject* name;
RUSHLIGHT_LENT_TYPES(X)
#undef X
PyTypeObject *PlanType, *PointwisePlanType, *OverloadType, *OpType;
static const CoreTable* core;

ThreadState& thread_state() { return *core->state_of_thread(); }
SecondModule& for_core() { return *core->second; }
bool& anomalies() { return *core->anomaly_enabled; }
std::atomic<uint32_t>* recording_key;
DType float_dtype() { return *core->default_dtype; }
void set_float_dtype(DType dtype) { *core->default_dtype = dtype; }
PyObject* shown_module() { return *core->display_module; }
PyObject* autograd_helpers() { return core->autograd_callbacks; }
void use_plan_types(PyTypeObject* plan, PyTypeObject* pointwise) {
  *core->plan_type = plan;
  *core->pointwise_plan_type = pointwise;
}
void use_allocator(bool (*take)(Storage*, size_t)) { *core->allocate_elsewhere = take; }
void use_op_types(PyTypeObject* overload, PyTypeObject* op) {
  *core->overload_type = overload;
  *core->op_type = op;
}

void parallel_for(int64_t extent, int64_t grain, void (*body)(void*, int64_t, int64_t), void* context) {
  core->parallel_for(extent, grain, body, context);
}
int num_threads() { return core->num_threads(); }
void set_num_threads(int n) { core->set_num_threads(n); }
MemoryStats memory_stats() { return core->memory_stats(); }
void reset_peak_memory() { core->reset_peak_memory(); }
void arena_empty() { core->arena_empty(); }

// --- memory and tensors ---------------------------------------------------------------------------------------------

void Storage::destroy() { core->destroy_storage(this); }
Storage* storage_wrap(char* data, size_t nbytes, Device device, void (*release)(Storage*), void* context) {
  return core->storage_wrap(data, nbytes, device, release, context);
}
Storage* storage_new(size_t nbytes, Device device) { return core->storage_new(nbytes, device); }
bool storage_resize(Storage* storage, size_t nbytes) { return core->storage_resize(storage, nbytes); }
Tensor* tensor_alloc(PyTypeObject* type, int ndim) { return core->tensor_alloc(type, ndim); }
void tensor_finish_geometry(Tensor* t) { core->tensor_finish_geometry(t); }
Tensor* tensor_empty(const int64_t* sizes, const int64_t* strides, int ndim, DType dtype, Device device) {
  return core->tensor_empty(sizes, strides, ndim, dtype, device);
}
void tensor_set_geometry(Tensor* t, const int64_t* sizes, const int64_t* strides, int ndim, int64_t offset) {
  core->tensor_set_geometry(t, sizes, strides, ndim, offset);
}
Tensor* tensor_alias(Tensor* base, const int64_t* sizes, const int64_t* strides, int ndim, int64_t offset,
                     DType dtype) {
  return core->tensor_alias(base, sizes, strides, ndim, offset, dtype);
}
Tensor* tensor_shallow_copy(Tensor* t, bool share_version) { return core->tensor_shallow_copy(t, share_version); }
void tensor_share_version(Tensor* from, Tensor* to) { core->tensor_share_version(from, to); }
AutogradExtra* tensor_extra(Tensor* t) { return core->tensor_extra(t); }
void tensor_keep_attributes(Tensor* from, Tensor* to) { core->tensor_keep_attributes(from, to); }
void tensor_quantize(Tensor* t, PyObject* quantizer) { core->tensor_quantize(t, quantizer); }
Overlap shared_overlap(Tensor* a, Tensor* b) { return core->shared_overlap(a, b); }
bool bad_size(const int64_t* sizes, int ndim) { return core->bad_size(sizes, ndim); }
PyObject* ask_behind(PyObject* tensor, const char* question) { return core->ask_behind(tensor, question); }
PyObject* tensor_item(Tensor* t) { return core->tensor_item(t); }
Version* tensor_version(Tensor* t) { return core->tensor_version(t); }
bool tensor_has_data(Tensor* t, const char* op) { return core->tensor_has_data(t, op); }
bool function_modes = false;
bool takes_functions(PyObject* o) { return core->takes_functions(o); }
PyObject* ask_access(const char* name, PyObject* self, PyObject* args, PyObject* kwargs) {
  return core->ask_access(name, self, args, kwargs);
}
bool has_torch_dispatch(PyTypeObject* type) { return core->has_torch_dispatch(type); }
void tensor_track(Tensor* t) { core->tensor_track(t); }
PyObject* size_object(const int64_t* sizes, int ndim) { return core->size_object(sizes, ndim); }
PyObject* int_tuple(const int64_t* values, int n) { return core->int_tuple(values, n); }
int read_ints(PyObject* seq, int64_t* out, int max, const char* what) { return core->read_ints(seq, out, max, what); }
bool check_host_data(Tensor* t, const char* what) { return core->check_host_data(t, what); }
PyObject* host_copy(Tensor* t) { return core->host_copy(t); }
PyObject* wrapped_value(Tensor* t, const char* what) { return core->wrapped_value(t, what); }
bool is_numpy_array(PyObject* o) { return core->is_numpy_array(o); }

bool parse_index(Parsed& p, const Tensor* t, PyObject* index) { return core->parse_index(p, t, index); }
Ref index_view(const Parsed& p, Tensor* t, PyObject* index) { return core->index_view(p, t, index); }
Ref frozen_index(PyObject* index) { return core->frozen_index(index); }
Ref index_tensor(PyObject* sequence, Device device) { return core->index_tensor(sequence, device); }
bool is_tuple_like(PyObject* index) { return core->is_tuple_like(index); }

// --- numbers, dtypes, devices ---------------------------------------------------------------------------------------

PyObject* load_number(const char* in, DType dtype) { return core->load_number(in, dtype); }
bool store_number(PyObject* number, DType dtype, char* out, Overflow overflow) {
  return core->store_number(number, dtype, out, overflow);
}
bool number_dtype(PyObject* number, DType* out) { return core->number_dtype(number, out); }
bool is_number(PyObject* o) { return core->is_number(o); }
bool store_rounded(PyObject* number, DType via, DType dtype, char* out, Overflow overflow) {
  return core->store_rounded(number, via, dtype, out, overflow);
}
bool number_fits(PyObject* number, DType dtype) { return core->number_fits(number, dtype); }
PyObject* dtype_object(DType d) { return core->dtype_object(d); }
PyObject* python_type_dtype(PyObject* o) { return core->python_type_dtype(o); }
PyObject* device_object(Device d) { return core->device_object(d); }
bool parse_device(PyObject* o, Device* out) { return core->parse_device(o, out); }
const char* device_type_name(uint8_t type) { return core->device_type_name(type); }
Unit* find_unit(Device device) { return core->find_unit(device); }
void flush_device(Device device) { core->flush_device(device); }

// --- ops ------------------------------------------------------------------------------------------------------------

PyObject* call_recorded(Overload* op, PyObject** args, bool requires_grad, uint32_t keys, PyObject* runner) {
  return core->call_recorded(op, args, requires_grad, keys, runner);
}
PyObject* overload_call(Overload* op, PyObject** args) { return core->overload_call(op, args); }
PyObject* overload_run(Overload* op, PyObject** args) { return core->overload_run(op, args); }
void forget_rules() { core->forget_rules(); }
void note_fresh(Tensor* made) { core->note_fresh(made); }
void note_alias(Tensor* base, Tensor* made) { core->note_alias(base, made); }
void note_plan(PlanObject* plan, PyObject* inputs, PyObject* result) { core->note_plan(plan, inputs, result); }
void note_function(PyObject* (*function)(PyObject*, PyObject*), PyObject* args, PyObject* made) {
  core->note_function(function, args, made);
}
PyObject* run_through_bits(Overload* op, PyObject** args) { return core->run_through_bits(op, args); }
PyObject* resolved(PyObject* tensor) { return core->resolved(tensor); }
PyObject* resolved_alike(PyObject* tensor) { return core->resolved_alike(tensor); }
bool mark_views(PyObject** args, PyObject* result) { return core->mark_views(args, result); }
PyObject* write_into(Overload* op, PyObject** args, Tensor** outs, int num_outs) {
  return core->write_into(op, args, outs, num_outs);
}
PyObject* args_tuple(Overload* op, PyObject** args) { return core->args_tuple(op, args); }
int bind_arguments(Overload* op, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames, Bound* bound) {
  return core->bind_arguments(op, args, nargs, kwnames, bound);
}
bool resolve_op(OpObject* op) { return core->resolve_op(op); }
void forget_tables(Overload* op) { core->forget_tables(op); }
size_t plan_count(Overload* op) { return core->plan_count(op); }
vectorcallfunc overload_entry() { return core->overload_vectorcall; }
vectorcallfunc op_entry() { return core->op_vectorcall; }

// --- plans and the tape ---------------------------------------------------------------------------------------------

PyObject* plan_run(PlanObject* plan, Tensor** inputs, int num_inputs, Tensor** given) {
  return core->plan_run(plan, inputs, num_inputs, given);
}
PlanObject* plan_for_shape(PlanObject* plan, int64_t* registers) { return core->plan_for_shape(plan, registers); }
std::vector<int64_t>* time_steps(std::vector<int64_t>* times) { return core->time_steps(times); }
uint64_t plan_defaults() { return core->plan_defaults(); }
Node* node_new(NodeKind kind, PyObject* op, uint32_t edges, uint32_t saved, uint32_t outputs, uint32_t sizes,
               uint32_t lists) {
  return core->node_new(kind, op, edges, saved, outputs, sizes, lists);
}
PyTypeObject* node_subtype(const char* name, bool collected) { return core->node_subtype(name, collected); }
NodeExtra* node_extra(Node* n) { return core->node_extra(n); }
void node_release(Node* n) { core->node_release(n); }
void refuse_released(Node* n) { core->refuse_released(n); }
PyObject* node_name(Node* n) { return core->node_name(n); }
bool node_apply(Node* n, PyObject** grads, PyObject** out, uint64_t needs) {
  return core->node_apply(n, grads, out, needs);
}
void node_set_output(Node* n, uint32_t i, Tensor* t, uint32_t* next_size) {
  core->node_set_output(n, i, t, next_size);
}
bool saved_pack_input(Saved* s, PyObject* value) { return core->saved_pack_input(s, value); }
bool saved_pack_output(Node* n, Saved* s, Tensor* t, uint32_t output_nr) {
  return core->saved_pack_output(n, s, t, output_nr);
}
PyObject* saved_unpack(Node* n, Saved* s, const char* what) { return core->saved_unpack(n, s, what); }
std::vector<PyObject*>& saved_hooks() { return core->saved_hooks(); }
PyObject* saved_hooks_top() { return core->saved_hooks_top(); }
TapeInfo* tape_info(Overload* op) { return core->tape_info(op); }
DerivedVjp* tape_derived(Overload* op, TapeInfo* info, uint64_t mask) { return core->tape_derived(op, info, mask); }
Edge tape_edge(Tensor* t) { return core->tape_edge(t); }
Node* tape_grad_fn_slow(Tensor* t) { return core->tape_grad_fn_slow(t); }
void tape_set_grad_fn(Tensor* t, Node* n, uint32_t output_nr) { core->tape_set_grad_fn(t, n, output_nr); }
bool tape_set_view(Tensor* out, Tensor* base, bool multi_output) {
  return core->tape_set_view(out, base, multi_output);
}
void tape_give_history(Tensor* t, Node* n, uint32_t output_nr) { core->tape_give_history(t, n, output_nr); }
bool tape_rebase_node(Tensor* self, Node* n) { return core->tape_rebase_node(self, n); }
bool engine_run(BackwardCall& call, std::vector<PyObject*>* captured) { return core->engine_run(call, captured); }
uint64_t engine_current_task() { return core->engine_current_task(); }
uint64_t& engine_current_needs() { return core->engine_current_needs(); }
bool engine_call_at_end(PyObject* function) { return core->engine_call_at_end(function); }
bool engine_has_inputs() { return core->engine_has_inputs(); }
bool engine_will_run(Node* n) { return core->engine_will_run(n); }
PyObject* call_role(Role role, PyObject* self, PyObject* a, PyObject* b, PyObject* c) {
  return core->call_role(role, self, a, b, c);
}

// --- recording ------------------------------------------------------------------------------------------------------

int64_t profile_now() { return core->profile_now(); }
Recording* profile_start(uint32_t flags) { return core->profile_start(flags); }
Recording* profile_stop() { return core->profile_stop(); }
Recording* profile_recording() { return core->profile_recording(); }
void profile_free(Recording* recording) { core->profile_free(recording); }
bool profile_toggle(bool on) { return core->profile_toggle(on); }
void profile_limit(uint64_t events) { core->profile_limit(events); }
Timeline* profile_line() { return core->profile_line(); }
void profile_join() { core->profile_join(); }
uint32_t profile_name(PyObject* name) { return core->profile_name(name); }
uint32_t profile_text(const char* name) { return core->profile_text(name); }
Mark profile_begin(uint32_t name, EventKind kind, int64_t sequence) { return core->profile_begin(name, kind, sequence); }
void profile_end(const Mark& mark) { core->profile_end(mark); }
void profile_add(uint32_t name, EventKind kind, int64_t begin, int64_t end) { core->profile_add(name, kind, begin, end); }
void profile_memory(const void* address, int64_t bytes, int64_t total, Device device) {
  core->profile_memory(address, bytes, total, device);
}
void record_stretch(Recorded* r, uint32_t name, EventKind kind, int64_t sequence, int inside) {
  core->record_stretch(r, name, kind, sequence, inside);
}
void record_op(Recorded* r, Overload* op, PyObject* site, PyObject** args, PyObject* out) {
  core->record_op(r, op, site, args, out);
}
void record_node(Recorded* r, Node* n, PyObject** grads) { core->record_node(r, n, grads); }
void profile_text_of(const Mark& mark, PyObject* text) { core->profile_text_of(mark, text); }
void record_method(Recorded* r, const char* name, PyObject* const* args, size_t count) {
  core->record_method(r, name, args, count);
}
void record_named(Recorded* r, PyObject* name, PyObject* args) { core->record_named(r, name, args); }
void record_function(Recorded* r, PyObject* function, PyObject* args) { core->record_function(r, function, args); }
void record_kernel(Recorded* r, const void* kernel) { core->record_kernel(r, kernel); }
void record_index(Tensor* t, PyObject* index, int64_t begin) { core->record_index(t, index, begin); }

int use_core(PyObject* module) {
  PyObject* capsule = PyObject_GetAttrString(module, "_core");
  if (!capsule) return -1;
  core = static_cast<const CoreTable*>(PyCapsule_GetPointer(capsule, kCoreTable));
  Py_DECREF(capsule);
  if (!core) return -1;
  recording_key = core->profile_key;
#define X(name) name = core->name;
  RUSHLIGHT_LENT_TYPES(X)
#undef X
  return 0;
}

// --- additions to the core's types ----------------------------------------------------------------------------------

static int add(PyTypeObject* type, const char* name, PyObject* descriptor) {
  Ref owned(descriptor);
  return owned ? PyObject_SetAttrString(as_object(type), name, owned.p) : -1;
}

int add_attributes(PyTypeObject* type, PyMethodDef* methods, PyGetSetDef* getset) {
  for (PyMethodDef* m = methods; m->ml_name; m++)
    if (add(type, m->ml_name, PyDescr_NewMethod(type, m))) return -1;
  for (PyGetSetDef* g = getset; g && g->name; g++)
    if (add(type, g->name, PyDescr_NewGetSet(type, g))) return -1;
  return 0;
}

// --- attributes of tensors, which __torch_function__ may see --------------------------------------------------------

static PyObject* asked_get(PyObject* self, void* closure) {
  auto* inner = static_cast<const AskedAttribute*>(closure);
  if (may_ask(as_tensor(self))) {
    PyObject* answer = ask_access((std::string(inner->name) + ".__get__").c_str(), self);
    if (answer != Py_NotImplemented) return answer;
    Py_DECREF(answer);
  }
  return inner->get(self, closure);
}

static int asked_set(PyObject* self, PyObject* value, void* closure) {
  auto* inner = static_cast<const AskedAttribute*>(closure);
  if (value && may_ask(as_tensor(self))) {
    Ref args(PyTuple_Pack(1, value));
    Ref answer(args ? ask_access((std::string(inner->name) + ".__set__").c_str(), self, args.p) : nullptr);
    if (answer.p != Py_NotImplemented) return answer ? 0 : -1;
  }
  return inner->set(self, value, closure);
}

int add_asked_attribute(AskedAttribute* a) {
  a->definition = {a->name, guarded<asked_get>, a->set ? guarded<asked_set> : nullptr, a->doc, a};
  return add(TensorType, a->name, PyDescr_NewGetSet(TensorType, &a->definition));
}

int add_asked_attributes(AskedAttribute* attributes) {
  for (AskedAttribute* a = attributes; a->name; a++)
    if (add_asked_attribute(a)) return -1;
  return 0;
}

int add_class_methods(PyTypeObject* type, PyMethodDef* methods) {
  for (PyMethodDef* m = methods; m->ml_name; m++)
    if (add(type, m->ml_name, PyDescr_NewClassMethod(type, m))) return -1;
  return 0;
}

}  // namespace rl

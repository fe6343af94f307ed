// What the core lends to the second module (csrc/extras), and what it asks of it: functions and types, by address. The
// second module finds the table in the capsule `rushlight._C._core`, so neither has to be linked with the other.
#pragma once
#include "bind.h"
#include "device.h"
#include "element.h"
#include "pool.h"
#include "profile.h"
#include "second_module.h"
#include "symbolic.h"
#include "tape.h"
#include "transcript.h"

namespace rl {

#define RUSHLIGHT_LENT_TYPES(X) \
  X(TensorType) X(DTypeType) X(DeviceType) X(NodeType) X(FunctionNodeType) X(SymbolicIntType) X(ExtentType)

#define RUSHLIGHT_LENT_FUNCTIONS(X)                                                                                  \
  X(parallel_for) X(num_threads) X(set_num_threads) X(memory_stats) X(reset_peak_memory) X(arena_empty)              \
  X(storage_new) X(storage_wrap) X(storage_resize)                                                                   \
  X(tensor_alloc) X(tensor_finish_geometry) X(tensor_set_geometry) X(tensor_empty) X(tensor_alias)                   \
  X(tensor_shallow_copy) X(tensor_version) X(tensor_share_version) X(tensor_extra) X(tensor_quantize) X(tensor_keep_attributes) X(tensor_has_data) X(tensor_track) \
  X(has_torch_dispatch) X(ask_access)                                                                                        \
  X(shared_overlap) X(bad_size) X(size_object) X(int_tuple) X(read_ints) X(ask_behind)                               \
  X(tensor_item) X(check_host_data) X(host_copy) X(wrapped_value) X(is_numpy_array)                                  \
  X(parse_index) X(takes_functions) X(index_view) X(frozen_index) X(index_tensor) X(is_tuple_like)                   \
  X(load_number) X(store_number) X(number_dtype) X(is_number) X(number_fits) X(store_rounded)                        \
  X(dtype_object) X(python_type_dtype) X(device_object) X(parse_device) X(device_type_name) X(find_unit) X(flush_device) \
  X(call_recorded) X(overload_call) X(overload_run) X(run_through_bits) X(resolved) X(resolved_alike) X(mark_views) X(write_into) X(args_tuple) X(bind_arguments)      \
  X(resolve_op) X(forget_tables) X(forget_rules) X(note_fresh) X(note_alias) X(note_function) X(note_plan) X(plan_count)                               \
  X(plan_run) X(plan_for_shape) X(plan_defaults) X(time_steps)                                       \
  X(node_new) X(node_subtype) X(node_extra) X(node_name) X(node_apply) X(node_set_output) X(node_release)            \
  X(saved_pack_input) X(saved_pack_output) X(saved_unpack) X(refuse_released) X(saved_hooks) X(saved_hooks_top)      \
  X(tape_info) X(tape_derived) X(tape_edge) X(tape_grad_fn_slow) X(tape_set_grad_fn) X(tape_give_history)            \
  X(tape_set_view) X(tape_rebase_node)                                                                               \
  X(engine_run) X(engine_current_task) X(engine_current_needs) X(engine_call_at_end) X(engine_has_inputs)            \
  X(engine_will_run) X(call_role)                                                                                      \
  X(profile_now) X(profile_start) X(profile_stop) X(profile_free) X(profile_toggle) X(profile_limit)    \
  X(profile_recording) X(profile_line) X(profile_join) X(profile_name) X(profile_text) X(profile_begin) X(profile_end) X(profile_add)  \
  X(profile_memory) X(profile_text_of) X(record_stretch) X(record_op) X(record_node) X(record_named) X(record_method) \
  X(record_function) X(record_index) X(record_kernel)

struct CoreTable {
#define X(name) PyTypeObject* name;
  RUSHLIGHT_LENT_TYPES(X)
#undef X
#define X(name) decltype(&rl::name) name;
  RUSHLIGHT_LENT_FUNCTIONS(X)
#undef X
  void (*destroy_storage)(Storage*);
  ThreadState* (*state_of_thread)();     // the calling thread's
  bool* anomaly_enabled;
  std::atomic<uint32_t>* profile_key;
  DType* default_dtype;
  PyObject* autograd_callbacks;
  PyObject** display_module;
  PyTypeObject **plan_type, **pointwise_plan_type, **overload_type, **op_type;   // the second module makes them
  bool (**allocate_elsewhere)(Storage*, size_t);
  vectorcallfunc overload_vectorcall, op_vectorcall;
  SecondModule* second;                  // the second module fills it in
};

constexpr const char* kCoreTable = "rushlight._C._core";

int init_core_table(PyObject* module);   // after everything that it names

}  // namespace rl

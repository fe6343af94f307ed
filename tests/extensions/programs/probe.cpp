// An extension for the stable C ABI with nothing but its C functions, declared here: kernels for every type of value, and
// mistakes that have to be caught. Built by tests/extensions/building.py with the C++ compiler alone.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

extern "C" {
typedef uint64_t Value;
typedef void (*Kernel)(Value*, uint64_t, uint64_t);
struct Tensor;
struct List;
struct String;
struct Library;
int aoti_torch_library_init_fragment(const char*, const char*, uint32_t, Library**);
int aoti_torch_library_init_impl(const char*, const char*, const char*, uint32_t, Library**);
int aoti_torch_library_def(Library*, const char*);
int torch_library_impl(Library*, const char*, Kernel, uint64_t);
int aoti_torch_delete_library_object(Library*);
uint64_t aoti_torch_abi_version();
int torch_call_dispatcher(const char*, const char*, Value*, uint64_t);
int aoti_torch_new_tensor_handle(Tensor*, Tensor**);
int aoti_torch_delete_tensor_object(Tensor*);
int aoti_torch_new_uninitialized_tensor(Tensor**);
int aoti_torch_get_numel(Tensor*, int64_t*);
int aoti_torch_get_dim(Tensor*, int64_t*);
int aoti_torch_get_size(Tensor*, int64_t, int64_t*);
int aoti_torch_get_sizes(Tensor*, int64_t**);
int aoti_torch_get_strides(Tensor*, int64_t**);
int aoti_torch_get_dtype(Tensor*, int32_t*);
int aoti_torch_is_defined(Tensor*, bool*);
int aoti_torch_is_contiguous(Tensor*, bool*);
int aoti_torch_get_data_ptr(Tensor*, void**);
int aoti_torch_dtype_float32();
int aoti_torch_device_type_cpu();
int aoti_torch_aten_narrow(Tensor*, int64_t, int64_t, int64_t, Tensor**);
int aoti_torch_aten_fill__Scalar(Tensor*, double);
int aoti_torch_aten_subtract_Tensor(Tensor*, Tensor*, double, Tensor**);
int aoti_torch_item_float64(Tensor*, double*);
int aoti_torch_scalar_to_tensor_int64(int64_t, Tensor**);
int torch_from_blob(void*, int64_t, const int64_t*, const int64_t*, int64_t, int32_t, int32_t, int32_t, Tensor**, int32_t,
                    const uint8_t*, int64_t, void (*)(void*, void*), void*);
int torch_list_size(List*, size_t*);
int torch_list_get_item(List*, size_t, Value*);
int torch_list_push_back(List*, Value);
int torch_list_set_item(List*, size_t, Value);
int torch_new_list_reserve_size(size_t, List**);
int torch_delete_list(List*);
int torch_parallel_for(int64_t, int64_t, int64_t, void (*)(int64_t, int64_t, void*), void*);
const char* torch_exception_get_what();
void aoti_torch_warn(const char*, const char*, uint32_t, const char*);
}

static Tensor* tensor(Value v) { return reinterpret_cast<Tensor*>(v); }
static void need(int failed) {
  if (failed) throw std::runtime_error(torch_exception_get_what());
}
static Value give(const void* p) { return reinterpret_cast<Value>(p); }

static void keep(Value*, uint64_t, uint64_t) {}      // what is given is what comes back

static void add_all(Value* stack, uint64_t, uint64_t) {      // Tensor[] -> Tensor
  List* list = reinterpret_cast<List*>(stack[0]);
  size_t size;
  need(torch_list_size(list, &size));
  if (!size) {
    torch_delete_list(list);
    throw std::invalid_argument("add_all: no tensors");
  }
  Value total, next;
  need(torch_list_get_item(list, 0, &total));
  for (size_t i = 1; i < size; i++) {
    need(torch_list_get_item(list, i, &next));
    Tensor* sum;
    need(aoti_torch_aten_subtract_Tensor(tensor(total), tensor(next), -1.0, &sum));
    need(aoti_torch_delete_tensor_object(tensor(total)));
    need(aoti_torch_delete_tensor_object(tensor(next)));
    total = give(sum);
  }
  need(torch_delete_list(list));
  stack[0] = total;
}

static void square_range(int64_t begin, int64_t end, void* context) {
  float* data = static_cast<float*>(context);
  for (int64_t i = begin; i < end; i++) data[i] *= data[i];
}
static void throwing_range(int64_t, int64_t, void*) { throw std::runtime_error("a thread failed"); }

static void square_(Value* stack, uint64_t, uint64_t) {      // Tensor(a!) -> Tensor(a!)
  int64_t numel;
  void* data;
  bool contiguous;
  need(aoti_torch_is_contiguous(tensor(stack[0]), &contiguous));
  if (!contiguous) {
    aoti_torch_delete_tensor_object(tensor(stack[0]));
    throw std::invalid_argument("square_: the tensor must be contiguous");
  }
  need(aoti_torch_get_numel(tensor(stack[0]), &numel));
  need(aoti_torch_get_data_ptr(tensor(stack[0]), &data));
  need(torch_parallel_for(0, numel, 1000, square_range, data));
}
static void parallel_fails(Value*, uint64_t, uint64_t) { need(torch_parallel_for(0, 10, 1, throwing_range, nullptr)); }

static void clone_and_size(Value* stack, uint64_t, uint64_t) {      // Tensor -> (Tensor, int)
  Value inner[2] = {stack[0], 0};
  int64_t dim;
  need(aoti_torch_get_dim(tensor(stack[0]), &dim));
  need(torch_call_dispatcher("aten::clone", "", inner, aoti_torch_abi_version()));
  stack[0] = inner[0];
  stack[1] = static_cast<Value>(dim);
}

static void undefined(Value* stack, uint64_t, uint64_t) {
  Tensor* made;
  need(aoti_torch_new_uninitialized_tensor(&made));
  stack[0] = give(made);
}
static int given_back = 0;
static void from_memory(Value* stack, uint64_t, uint64_t) {
  int64_t size = 4, stride = 1;
  float* data = static_cast<float*>(malloc(4 * sizeof(float)));
  for (int i = 0; i < 4; i++) data[i] = static_cast<float>(i);
  Tensor* made;
  need(torch_from_blob(data, 1, &size, &stride, 0, aoti_torch_dtype_float32(), aoti_torch_device_type_cpu(), -1, &made, 0,
                       nullptr, 0, [](void* memory, void*) { free(memory), given_back++; }, nullptr));
  stack[0] = give(made);
}
static void count_given_back(Value* stack, uint64_t, uint64_t) { stack[0] = static_cast<Value>(given_back); }

// --- mistakes -------------------------------------------------------------------------------------------------------

static void null_result(Value* stack, uint64_t, uint64_t) {
  aoti_torch_delete_tensor_object(tensor(stack[0]));
  stack[0] = 0;
}
static void null_first_of_list(Value* stack, uint64_t, uint64_t) {      // the others are dropped
  List* list = reinterpret_cast<List*>(stack[0]);
  Value first;
  need(torch_list_get_item(list, 0, &first));
  need(aoti_torch_delete_tensor_object(tensor(first)));
  need(torch_list_set_item(list, 0, 0));
}
static void swallows(Value* stack, uint64_t, uint64_t) {                // goes on after an op that failed
  Tensor* made;
  aoti_torch_aten_narrow(tensor(stack[0]), 0, 5, 5, &made);
}
static void deleted_result(Value* stack, uint64_t, uint64_t) { aoti_torch_delete_tensor_object(tensor(stack[0])); }
static void stray_result(Value* stack, uint64_t, uint64_t) {
  aoti_torch_delete_tensor_object(tensor(stack[0]));
  stack[0] = 0x10;
}
static void twice_deleted(Value* stack, uint64_t, uint64_t) {
  aoti_torch_delete_tensor_object(tensor(stack[0]));
  need(aoti_torch_delete_tensor_object(tensor(stack[0])));
}
static void asks_deleted(Value* stack, uint64_t, uint64_t) {
  int64_t numel;
  aoti_torch_delete_tensor_object(tensor(stack[0]));
  need(aoti_torch_get_numel(tensor(stack[0]), &numel));
}
static void asks_null(Value*, uint64_t, uint64_t) {
  int64_t numel;
  need(aoti_torch_get_numel(nullptr, &numel));
}
static void out_of_range(Value* stack, uint64_t, uint64_t) {
  int64_t size;
  int failed = aoti_torch_get_size(tensor(stack[0]), 7, &size);
  aoti_torch_delete_tensor_object(tensor(stack[0]));
  need(failed);
}
static void bad_bool(Value* stack, uint64_t, uint64_t) { stack[0] = 7; }
static void unknown_op(Value* stack, uint64_t, uint64_t) { need(torch_call_dispatcher("aten::no_such_op", "", stack, 0)); }
static void bad_call(Value* stack, uint64_t, uint64_t) {      // narrow beyond the end: the op's own error is the cause
  Tensor* made;
  int failed = aoti_torch_aten_narrow(tensor(stack[0]), 0, 5, 5, &made);
  aoti_torch_delete_tensor_object(tensor(stack[0]));
  need(failed);
}
static void throws_int(Value*, uint64_t, uint64_t) { throw 3; }
static void throws_range(Value*, uint64_t, uint64_t) { throw std::out_of_range("nothing there"); }
static void throws_memory(Value*, uint64_t, uint64_t) { throw std::bad_alloc(); }
static void throws_overflow(Value*, uint64_t, uint64_t) { throw std::overflow_error("too much"); }
static void warns(Value*, uint64_t, uint64_t) { aoti_torch_warn("warns", "probe.cpp", 1, "a word of warning"); }

// --- registration ---------------------------------------------------------------------------------------------------

static const struct {
  const char* schema;
  const char* name;
  Kernel kernel;
} kOps[] = {
    {"add_all(Tensor[] xs) -> Tensor", "add_all", add_all},
    {"square_(Tensor(a!) x) -> Tensor(a!)", "square_", square_},
    {"clone_and_size(Tensor x) -> (Tensor, int)", "clone_and_size", clone_and_size},
    {"undefined() -> Tensor", "undefined", undefined},
    {"from_memory() -> Tensor", "from_memory", from_memory},
    {"count_given_back() -> int", "count_given_back", count_given_back},
    {"keep_tensor(Tensor x) -> Tensor", "keep_tensor", keep},
    {"keep_optional_tensor(Tensor? x=None) -> Tensor?", "keep_optional_tensor", keep},
    {"keep_tensors(Tensor[] x) -> Tensor[]", "keep_tensors", keep},
    {"keep_optional_tensors(Tensor?[] x) -> Tensor?[]", "keep_optional_tensors", keep},
    {"keep_int(int x=-3) -> int", "keep_int", keep},
    {"keep_symint(SymInt x) -> SymInt", "keep_symint", keep},
    {"keep_float(float x) -> float", "keep_float", keep},
    {"keep_bool(bool x) -> bool", "keep_bool", keep},
    {"keep_str(str x) -> str", "keep_str", keep},
    {"keep_dtype(ScalarType x) -> ScalarType", "keep_dtype", keep},
    {"keep_device(Device x) -> Device", "keep_device", keep},
    {"keep_layout(Layout x) -> Layout", "keep_layout", keep},
    {"keep_format(MemoryFormat x) -> MemoryFormat", "keep_format", keep},
    {"keep_ints(int[] x) -> int[]", "keep_ints", keep},
    {"keep_optional_ints(int[]? x=None) -> int[]?", "keep_optional_ints", keep},
    {"keep_optional_int(int? x=None) -> int?", "keep_optional_int", keep},
    {"keep_optional_str(str? x=None) -> str?", "keep_optional_str", keep},
    {"keep_optional_float(float? x=None) -> float?", "keep_optional_float", keep},
    {"keep_optional_bool(bool? x=None) -> bool?", "keep_optional_bool", keep},
    {"keep_optional_dtype(ScalarType? x=None) -> ScalarType?", "keep_optional_dtype", keep},
    {"keep_optional_device(Device? x=None) -> Device?", "keep_optional_device", keep},
    {"keep_floats(float[] x) -> float[]", "keep_floats", keep},
    {"keep_bools(bool[] x) -> bool[]", "keep_bools", keep},
    {"keep_strs(str[] x) -> str[]", "keep_strs", keep},
    {"keep_all(Tensor a, int b, *, float c=2.5, str d=\"x\") -> (Tensor, int, float, str)", "keep_all", keep},
    {"null_result(Tensor x) -> Tensor", "null_result", null_result},
    {"null_first_result(Tensor x, Tensor y) -> (Tensor, Tensor)", "null_first_result", null_result},
    {"null_first_of_list(Tensor[] xs) -> Tensor[]", "null_first_of_list", null_first_of_list},
    {"swallows(Tensor x) -> Tensor", "swallows", swallows},
    {"deleted_result(Tensor x) -> Tensor", "deleted_result", deleted_result},
    {"stray_result(Tensor x) -> Tensor", "stray_result", stray_result},
    {"twice_deleted(Tensor x) -> ()", "twice_deleted", twice_deleted},
    {"asks_deleted(Tensor x) -> ()", "asks_deleted", asks_deleted},
    {"asks_null() -> ()", "asks_null", asks_null},
    {"out_of_range(Tensor x) -> ()", "out_of_range", out_of_range},
    {"bad_bool(int x) -> bool", "bad_bool", bad_bool},
    {"unknown_op() -> ()", "unknown_op", unknown_op},
    {"bad_call(Tensor x) -> ()", "bad_call", bad_call},
    {"throws_int() -> ()", "throws_int", throws_int},
    {"throws_range() -> ()", "throws_range", throws_range},
    {"throws_memory() -> ()", "throws_memory", throws_memory},
    {"throws_overflow() -> ()", "throws_overflow", throws_overflow},
    {"parallel_fails() -> ()", "parallel_fails", parallel_fails},
    {"warns() -> ()", "warns", warns},
};

#ifndef SPACE
#define SPACE "probe"
#endif

__attribute__((constructor)) static void start() {
  Library *kernels, *definitions;
  // Kernels before what they are for: initializers of several files run in any order.
  aoti_torch_library_init_impl(SPACE, "CompositeExplicitAutograd", __FILE__, __LINE__, &kernels);
  for (const auto& op : kOps) torch_library_impl(kernels, op.name, op.kernel, aoti_torch_abi_version());
  aoti_torch_delete_library_object(kernels);
  aoti_torch_library_init_fragment(SPACE, __FILE__, __LINE__, &definitions);
  for (const auto& op : kOps) aoti_torch_library_def(definitions, op.schema);
#ifdef BROKEN
  aoti_torch_library_def(definitions, "broken(Nonsense x) -> Tensor");
#endif
#ifdef TWICE
  aoti_torch_library_def(definitions, kOps[0].schema);
#endif
  aoti_torch_delete_library_object(definitions);
}

#ifdef NEWER
extern "C" int torch_function_of_the_future();
int use() { return torch_function_of_the_future(); }
#endif
#ifdef CPP_CLASSES
namespace at { struct Tensor { void backward(); }; }
int use() { at::Tensor().backward(); return 0; }
#endif

// How generated functions call ops: arguments by address and kind, one function that is not inlined.
#pragma once
#include <rushlight/options.h>

namespace at {
class Tensor;
}

namespace rushlight {

enum Kind : uint8_t {
  kTensor, kOptionalTensor, kTensorList, kOptionalTensorList, kScalar, kOptionalScalar, kInt, kOptionalInt, kFloat,
  kOptionalFloat, kBool, kOptionalBool, kIntList, kOptionalIntList, kFloatList, kOptionalFloatList, kScalarList,
  kBoolList, kText, kOptionalText, kType, kOptionalType, kDevice, kOptionalDevice, kLayout, kOptionalLayout,
  kMemoryFormat, kOptionalMemoryFormat, kOptions, kOptionalGenerator, kStorage
};
constexpr int8_t kNoDefault = -128;

struct Argument {
  const void* at;
  Kind kind;
  int8_t usual = kNoDefault;   // by keyword: left out where the value is this whole number
};

// An op by name. `keywords` names the last arguments, with a comma after each.
struct Op {
  const char* name;
  const char* overload;        // of ops.aten; null: the function of this name in the package; "": a method
  const char* keywords;
  void* target = nullptr;      // the callable, once found
};

// A list of whole numbers that outlives the call it is a default of.
template <int64_t... values>
c10::IntArrayRef kept() {
  static constexpr int64_t list[] = {values...};
  return {list, sizeof...(values)};
}

void* call(Op& op, const Argument* arguments, int count);      // a new reference; throws what Python raised
void call_out(Op& op, const Argument* arguments, int count, at::Tensor* const* outs, int out_count);
void call_out(Op& op, const Argument* arguments, int count, c10::ArrayRef<at::Tensor> outs);      // of an op that gives a list
at::Tensor tensor_of(void* object);                            // these take the reference over
std::vector<at::Tensor> tensors_of(void* object);
void unpack(void* object, at::Tensor* into, int count);
int64_t int_of(void* object);
double double_of(void* object);
bool bool_of(void* object);
c10::Scalar scalar_of(void* object);
c10::ScalarType dtype_of(void* object);
void forget(void* object);

}  // namespace rushlight

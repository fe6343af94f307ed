// Ops that give their first argument back where it already is what is asked for (`contiguous`, `to`, `float`): their
// definitions say when, as conditions (op/unchanged.py) that cost less than a key of all sizes and a look-up.
#pragma once
#include "call.h"

namespace rl {

// How the first argument must lie: any way, in dense rows, dense with channels last, or the same by what its strides
// say where sizes of one leave it open.
enum class Laid : uint8_t { Anyhow, Rows, ChannelsLast, RowsByStrides, LastByStrides };

struct Choice {
  PyObject* value;                   // strong
  Laid laid;
  int ndim;                          // 0: any
};

struct Condition {
  int param;                         // the argument that is judged; -1: `constant`, in every call
  PyObject* constant;                // strong, or null
  bool chosen;                       // one of `choices`; else None, the tensor's own dtype or device, or a tensor alike
  std::vector<Choice> choices;
};

struct Conditions : std::vector<Condition> {
  ~Conditions() {
    for (Condition& c : *this) {
      Py_XDECREF(c.constant);
      for (Choice& choice : c.choices) Py_DECREF(choice.value);
    }
  }
};

bool meets(const Conditions& conditions, PyObject** args);

}  // namespace rl

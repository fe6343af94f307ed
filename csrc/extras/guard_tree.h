// What a guard tree is made of: nodes, each read from its parent, checks of their values, relations between them, and the
// list of steps that show that nothing has changed since they were walked last.
#pragma once
#include <vector>

#include "dict_watch.h"
#include "types.h"

namespace rl::guarding {

// ma_version_tag changes with every write to a dict. From 3.13 on an object's attributes are written without it, behind
// the back of the dict that stands for them, and in 3.14 it is gone: there the interpreter tells of writes.
#if PY_VERSION_HEX < 0x030d0000
#define RUSHLIGHT_DICT_VERSIONS 1
#endif

enum class Read : uint8_t {
  Local, Global, Cell, CellObject, Constant, Attribute, DictOf, Item, TypeOf, DictKey, Length, Shape, Stride, Offset,
  ClassAttribute, DictItem, Viewed, State
};
const char* const kReads[] = {"local",   "global",   "cell",   "cell object", "constant", "attribute", "dict of",
                              "item",    "type of",  "key",    "length",      "shape",    "stride",    "offset",
                              "class attribute", "dict item", "viewed", "state"};

enum class Test : uint8_t {
  Type, Is, IsWeak, Equals, Tensor, Length, Keys, HasKey, LacksKey, HasAttr, LacksAttr, Predicate, Modes
};
const char* const kTests[] = {"type",    "is",        "is weakly",    "equals",          "tensor",    "length", "keys",
                              "has key", "lacks key", "has attribute", "lacks attribute", "predicate", "modes"};

// What is relied upon of a tensor; -1 where anything goes.
struct Layout {
  DType dtype;
  Device device;
  int8_t requires_grad, is_leaf, is_contiguous, is_inference, is_view;
  bool is_exact = false;               // every size and stride counts
  uint8_t ndim = 0;
  uint32_t bits = 0;                   // of kKeyBits
  std::vector<int64_t> extents;        // sizes, then strides
};

struct ModeWords {
  bool grad, inference, saved_hooks;
  uint32_t keys, excluded;
  uint64_t defaults;
  bool operator==(const ModeWords& o) const {
    return grad == o.grad && inference == o.inference && saved_hooks == o.saved_hooks && keys == o.keys &&
           excluded == o.excluded && defaults == o.defaults;
  }
};

struct Check {
  Test test;
  Ref value;               // what is compared with
  Ref slow;                // modes: asked when mixed precision is on
  Py_ssize_t number = 0;
  Layout layout;
  ModeWords words;
  mutable PyObject* seen_dict = nullptr;      // of a dict: held at that version; compared, never followed
  mutable uint64_t seen_version = 0;
};

struct GuardNode {
  int parent;
  Read read;
  Ref key;                 // name, key or object
  Py_hash_t hash = -1;
  Py_ssize_t number = 0;   // index
  std::vector<Check> checks;
  int slot = -1;           // kept for the relations at the end
  bool is_same = false;    // a constant, or an item of a tuple that is one: the same object each time
  PyObject* seen_dict = nullptr;      // compared, never followed
  uint64_t seen_version = 0;
  PyObject* seen_value = nullptr;     // valid while the dict has that version
};

enum class Relation : uint8_t { Same, Distinct, Symbolic };

struct Related {
  Relation relation;
  std::vector<int> slots;
  Ref function;
};

// The list for the next time. Pointers are compared, and followed only behind a step that shows them to be alive: they
// hang on dicts that were not written to, below objects that the call itself brought.
enum class Step : uint8_t { Walk, Pin, Version, Instance, Type, Layout, Check };
struct Settled {
  Step step;
  int node;
  PyObject* object;
  uint64_t expected;
};

struct GuardTree {
  PyObject_HEAD
  std::vector<Settled>* settled;
  std::vector<PyObject*>* stable;      // by node: the value it had, where the list shows that it still has it
  Reliance* reliance;                  // dicts that the list needs unwritten, where they have no versions
  int patience;                        // lists that were made in vain cost it
  bool is_quiet;                       // going through the list runs no code that could let go of `stable`
  std::vector<GuardNode>* nodes;
  std::vector<Related>* related;
  int slots;
};

}  // namespace rl::guarding

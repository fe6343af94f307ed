// The guard tree. Python hands over a list of nodes (rushlight/dynamo/guards.py): each reads its value from its parent
// (an attribute, an item, ...) and holds checks. A walk in that order reads every value once; dicts that did not change
// since the last walk are not searched again. A walk that succeeded leaves a short list of what to look at next time:
// dicts that must not have been written to, tensors whose layouts must still hold, and what is read anew at each call.
// It replaces a walk in Python that took a microsecond per guard; a parameter of a module costs ten nanoseconds here.
// Everything holds the interpreter lock.
#include "guards.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "boundary.h"
#include "call.h"
#include "guard_tree.h"
#include "tape.h"

namespace rl {

namespace {

using guarding::Check, guarding::GuardNode, guarding::GuardTree, guarding::kReads, guarding::kTests, guarding::Layout,
    guarding::ModeWords, guarding::Read, guarding::Related, guarding::Relation, guarding::Settled, guarding::Step,
    guarding::Test;

PyTypeObject* GuardTreeType;
PyObject* same_value;      // guards.same_value, set once by Python
PyObject* no_arguments;

// Changes with every write to a dict; 0 where this CPython does not tell.
uint64_t version_of(PyObject* dict) {
#ifdef RUSHLIGHT_DICT_VERSIONS
  _Py_COMP_DIAG_PUSH
  _Py_COMP_DIAG_IGNORE_DEPR_DECLS
  return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
  _Py_COMP_DIAG_POP
#else
  return 0;
#endif
}

// Dicts of which every write is told; an OrderedDict may turn its order without one.
bool tells_writes(PyObject* o) { return PyDict_CheckExact(o) || PyODict_CheckExact(o); }

ModeWords words_now() {
  const ThreadState& now = thread_state();
  return {now.grad_enabled, now.inference, now.saved_hooks, now.keys, now.excluded, plan_defaults()};
}

// --- reading ---------------------------------------------------------------------------------------------------------

// What a node read: a new reference, since checks may run code that lets go of what held it.
using Value = PyObject*;
Value shared(PyObject* p) { return Py_XNewRef(p); }

Value read_dict(GuardNode& n, PyObject* dict) {
  uint64_t version = version_of(dict);
  if (version && n.seen_dict == dict && n.seen_version == version) return shared(n.seen_value);
  PyObject* found = n.hash == -1 ? PyDict_GetItemWithError(dict, n.key.p)
                                 : _PyDict_GetItem_KnownHash(dict, n.key.p, n.hash);
  if (found) n.seen_dict = dict, n.seen_version = version, n.seen_value = found;
  return shared(found);
}

Value read_item(GuardNode& n, PyObject* from) {
  if (PyDict_Check(from) && (PyDict_CheckExact(from) || Py_TYPE(from)->tp_as_mapping == PyDict_Type.tp_as_mapping))
    return read_dict(n, from);
  if (n.number >= 0) {      // a plain index
    if (PyTuple_CheckExact(from))
      return shared(n.number < PyTuple_GET_SIZE(from) ? PyTuple_GET_ITEM(from, n.number) : nullptr);
    if (PyList_CheckExact(from))
      return shared(n.number < PyList_GET_SIZE(from) ? PyList_GET_ITEM(from, n.number) : nullptr);
  }
  return PyObject_GetItem(from, n.key.p);
}

Value read_cell(PyObject* cells, Py_ssize_t i) {
  if (!cells || i >= PyTuple_GET_SIZE(cells)) return nullptr;
  return shared(PyCell_GET(PyTuple_GET_ITEM(cells, i)));
}

Value read_extent(GuardNode& n, PyObject* from) {
  if (!is_tensor(from)) return nullptr;
  Tensor* t = as_tensor(from);
  if (n.read == Read::Offset) return PyLong_FromLongLong(t->offset);
  if (n.number >= t->ndim) return nullptr;
  return PyLong_FromLongLong(n.read == Read::Shape ? t->sizes()[n.number] : t->strides()[n.number]);
}

Value read_key(GuardNode& n, PyObject* from) {
  if (!PyDict_Check(from)) {
    Ref walk(PyObject_GetIter(from));
    PyObject* item = nullptr;
    for (Py_ssize_t i = 0; walk && i <= n.number; i++) {
      Py_XDECREF(item);
      if (!(item = PyIter_Next(walk.p))) return nullptr;
    }
    return item;
  }
  Py_ssize_t at = 0;
  PyObject *key = nullptr, *unused;
  for (Py_ssize_t i = 0; i <= n.number; i++)
    if (!PyDict_Next(from, &at, &key, &unused)) return nullptr;
  return shared(key);
}

// What a view of a mapping looks at: the one object it holds.
Value read_viewed(PyObject* from) {
  PyObject* found = nullptr;
  visitproc first = [](PyObject* held, void* into) { return *static_cast<PyObject**>(into) = held, 1; };
  if (Py_TYPE(from)->tp_traverse) Py_TYPE(from)->tp_traverse(from, first, &found);
  return shared(found);
}

Value read(GuardNode& n, PyObject* from, PyObject* const* locals, Py_ssize_t count, PyObject* globals,
           PyObject* cells) {
  switch (n.read) {
    case Read::Local: return shared(n.number < count ? locals[n.number] : nullptr);
    case Read::Global: {
      Value found = read_dict(n, globals);
      return found || PyErr_Occurred() ? found : shared(PyDict_GetItemWithError(PyEval_GetBuiltins(), n.key.p));
    }
    case Read::Cell: return read_cell(cells, n.number);
    case Read::CellObject:
      return shared(cells && n.number < PyTuple_GET_SIZE(cells) ? PyTuple_GET_ITEM(cells, n.number) : nullptr);
    case Read::Constant: return shared(n.key.p);
    case Read::Attribute: return PyObject_GetAttr(from, n.key.p);
    case Read::DictOf: return PyObject_GenericGetDict(from, nullptr);
    case Read::Item: return read_item(n, from);
    case Read::DictItem: return PyDict_Check(from) ? read_dict(n, from) : nullptr;
    case Read::TypeOf: return shared(reinterpret_cast<PyObject*>(Py_TYPE(from)));
    case Read::DictKey: return read_key(n, from);
    case Read::Length: {
      Py_ssize_t length = PyObject_Size(from);
      return length < 0 ? nullptr : PyLong_FromSsize_t(length);
    }
    case Read::Shape:
    case Read::Stride:
    case Read::Offset: return read_extent(n, from);
    case Read::ClassAttribute:
      return shared(PyType_Check(from) ? _PyType_Lookup(reinterpret_cast<PyTypeObject*>(from), n.key.p) : nullptr);
    case Read::Viewed: return read_viewed(from);
    case Read::State: return shared(Py_None);
  }
  return nullptr;
}

// --- checks ----------------------------------------------------------------------------------------------------------

bool layout_holds(const Layout& l, PyObject* o) {
  Tensor* t = as_tensor(o);
  if (t->dtype != l.dtype || t->device != l.device || t->ndim != l.ndim || (t->keys & kKeyBits) != l.bits) return false;
  if (l.is_exact) {
    if (memcmp(t->geometry, l.extents.data(), 2 * sizeof(int64_t) * l.ndim)) return false;
  } else {
    const int64_t *sizes = l.extents.data(), *strides = sizes + l.ndim;
    for (int d = 0; d < l.ndim; d++) {
      if (sizes[d] >= 0 && t->sizes()[d] != sizes[d]) return false;
      if (strides[d] >= 0 && t->strides()[d] != strides[d] && t->sizes()[d] > 1) return false;
    }
  }
  if (tape_requires_grad(t) != (l.requires_grad != 0)) return false;
  if (l.is_leaf >= 0 && (tape_grad_fn(t) == nullptr) != (l.is_leaf != 0)) return false;
  if (l.is_contiguous >= 0 && t->contiguous() != (l.is_contiguous != 0)) return false;
  if (((t->flags & kInference) != 0) != (l.is_inference != 0)) return false;
  if (l.is_view >= 0 && (t->view != nullptr) != (l.is_view != 0)) return false;
  return !(t->extra && t->extra->wrapped);      // a value of a transform
}

bool is_true(PyObject* answer) {      // takes the reference
  Ref held(answer);
  return held && PyObject_IsTrue(held.p) == 1;
}

bool equals(PyObject* value, PyObject* wanted) {
  if (value == wanted) return true;
  if (Py_TYPE(value) != Py_TYPE(wanted)) return false;
  if (PyUnicode_CheckExact(value)) return PyUnicode_Compare(value, wanted) == 0 && !PyErr_Occurred();
  if (PyLong_CheckExact(value)) return PyObject_RichCompareBool(value, wanted, Py_EQ) == 1;
  PyObject* args[] = {value, wanted};
  return is_true(PyObject_Vectorcall(same_value, args, 2, nullptr));
}

bool has_keys(PyObject* dict, PyObject* keys) {
  if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(keys)) return false;
  Py_ssize_t at = 0, i = 0;
  PyObject *key, *unused;
  while (PyDict_Next(dict, &at, &key, &unused)) {
    PyObject* wanted = PyTuple_GET_ITEM(keys, i++);
    if (key != wanted && (Py_TYPE(key) != Py_TYPE(wanted) || PyObject_RichCompareBool(key, wanted, Py_EQ) != 1))
      return false;
  }
  return true;
}

bool has_attribute(PyObject* value, PyObject* name, bool wanted) {
  PyObject* found = PyObject_GetAttr(value, name);
  if (!found && !PyErr_ExceptionMatches(PyExc_AttributeError)) return false;
  PyErr_Clear();
  bool has = found != nullptr;
  Py_XDECREF(found);
  return has == wanted;
}

bool modes_hold(const Check& c) {
  if (!(words_now() == c.words)) return false;
  return c.slow.p == Py_None || is_true(PyObject_Vectorcall(c.slow.p, nullptr, 0, nullptr));
}

bool dict_holds(const Check& c, PyObject* dict) {
  switch (c.test) {
    case Test::Length: return PyDict_GET_SIZE(dict) == c.number;
    case Test::Keys: return has_keys(dict, c.value.p);
    case Test::HasKey: return PyDict_Contains(dict, c.value.p) == 1;
    default: return PyDict_Contains(dict, c.value.p) == 0;
  }
}

// What a check found of the keys of a dict holds until the dict is written to.
bool keys_hold(const Check& c, PyObject* dict) {
  uint64_t version = version_of(dict);
  if (version && c.seen_dict == dict && c.seen_version == version) return true;
  if (!dict_holds(c, dict)) return false;
  c.seen_dict = dict, c.seen_version = version;
  return true;
}

bool on_keys(const Check& c, PyObject* value) {
  if (c.test < Test::Length || c.test > Test::LacksKey) return false;
  return PyDict_CheckExact(value) || (c.test != Test::Keys && PyODict_CheckExact(value));
}

bool holds(const Check& c, PyObject* value) {
  if (on_keys(c, value)) return keys_hold(c, value);
  switch (c.test) {
    case Test::Type: return reinterpret_cast<PyObject*>(Py_TYPE(value)) == c.value.p;
    case Test::Is: return value == c.value.p;
    case Test::IsWeak: return value != Py_None && PyWeakref_GET_OBJECT(c.value.p) == value;
    case Test::Equals: return equals(value, c.value.p);
    case Test::Tensor:
      return reinterpret_cast<PyObject*>(Py_TYPE(value)) == c.value.p && layout_holds(c.layout, value);
    case Test::Length: return PyObject_Size(value) == c.number;
    case Test::Keys: return has_keys(value, c.value.p);
    case Test::HasKey: return PySequence_Contains(value, c.value.p) == 1;
    case Test::LacksKey: return PySequence_Contains(value, c.value.p) == 0;
    case Test::HasAttr: return has_attribute(value, c.value.p, true);
    case Test::LacksAttr: return has_attribute(value, c.value.p, false);
    case Test::Predicate: return is_true(PyObject_CallOneArg(c.value.p, value));
    case Test::Modes: return modes_hold(c);
  }
  return false;
}

bool all_distinct(const std::vector<int>& slots, const Value* kept) {
  std::vector<PyObject*> found;
  found.reserve(slots.size());
  for (int s : slots) found.push_back(kept[s]);
  std::sort(found.begin(), found.end());
  return std::adjacent_find(found.begin(), found.end()) == found.end();
}

bool relation_holds(const Related& r, const Value* kept) {
  switch (r.relation) {
    case Relation::Same: return kept[r.slots[0]] == kept[r.slots[1]];
    case Relation::Distinct: return all_distinct(r.slots, kept);
    case Relation::Symbolic: {
      std::vector<PyObject*> args;
      for (int s : r.slots) args.push_back(kept[s]);
      return is_true(PyObject_Vectorcall(r.function.p, args.data(), args.size(), nullptr));
    }
  }
  return false;
}

// The values of a walk, let go of at its end.
struct Walk {
  Value few[256];
  Value* values;
  size_t count = 0;
  explicit Walk(size_t n) : values(n <= 256 ? few : new Value[n]) {}
  ~Walk() {
    for (size_t i = 0; i < count; i++) Py_XDECREF(values[i]);
    if (values != few) delete[] values;
  }
};

// The same where most values are known: those that were read anew, by node, few as a rule.
struct Again {
  PyObject* const* stable;
  std::vector<std::pair<int, Value>> taken;
  PyObject* at(int node) const {
    if (stable[node]) return stable[node];
    for (size_t i = taken.size(); i-- > 0;)
      if (taken[i].first == node) return taken[i].second;
    return nullptr;
  }
  ~Again() {
    for (auto& [node, value] : taken) Py_XDECREF(value);
  }
};

}  // namespace

// --- the list for the next time --------------------------------------------------------------------------------------

namespace {

constexpr int kPatience = 32;

bool is_unchanging(PyObject* o) {
  if (o == Py_None || PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyUnicode_CheckExact(o) || PyBool_Check(o) ||
      PyBytes_CheckExact(o) || is_dtype(o) || is_device(o))
    return true;
  if (!PyTuple_CheckExact(o)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); i++)
    if (!is_unchanging(PyTuple_GET_ITEM(o, i))) return false;
  return true;
}

bool runs_no_code(Read how) {      // reading again cannot let go of what steps before it have looked at
  return how == Read::Local || how == Read::Global || how == Read::Cell || how == Read::Constant || how == Read::Item;
}

struct Settler {
  GuardTree* tree;
  const Value* values;
  std::vector<bool> has_fields;      // by node: whether its __dict__ is read
  std::unordered_map<PyObject*, bool> seen;

  void add(Step step, int node, PyObject* object, uint64_t expected) {
    tree->settled->push_back({step, node, object, expected});
  }
  static uint64_t number(const void* p) { return reinterpret_cast<uint64_t>(p); }

  void version(int node, PyObject* dict) {
    if (!seen.emplace(dict, true).second) return;
#ifdef RUSHLIGHT_DICT_VERSIONS
    add(Step::Version, node, dict, version_of(dict));
#else
    (void)node;
    tree->reliance->add(dict);
#endif
  }

  // Whether the value hangs on its parent's in a way that the steps written here show to be the same.
  bool hangs(int i, const GuardNode& n) {
    if (n.parent < 0 || !(*tree->stable)[n.parent]) return false;
    PyObject* from = values[n.parent];
    if (n.read == Read::DictOf) return add(Step::Instance, i, from, number(values[i])), true;
    if (n.read == Read::TypeOf) return add(Step::Type, i, from, number(values[i])), true;
    if (n.read != Read::Item) return false;
    if (tells_writes(from)) return version(i, from), true;
    return PyTuple_CheckExact(from);
  }

  void check(int i, const Check& c) {
    PyObject* value = values[i];
    if (c.test == Test::Type) return add(Step::Type, i, value, number(c.value.p));
    if (c.test == Test::Is || c.test == Test::IsWeak) return;
    if (c.test == Test::Equals && is_unchanging(value)) return;
    if (c.test == Test::Tensor) return add(Step::Layout, i, value, number(&c));
    if (on_keys(c, value)) return version(i, value);
    add(Step::Check, i, value, number(&c));
  }

  void run() {
    auto& nodes = *tree->nodes;
    has_fields.assign(nodes.size(), false);
    for (const GuardNode& n : nodes)
      if (n.parent >= 0 && n.read == Read::DictOf) has_fields[n.parent] = true;
    tree->settled->clear();
    tree->stable->assign(nodes.size(), nullptr);
    for (size_t i = 0; i < nodes.size(); i++) {
      const GuardNode& n = nodes[i];
      int at = static_cast<int>(i);
      if (hangs(at, n)) {
        (*tree->stable)[i] = values[i];
        for (const Check& c : n.checks) check(at, c);
        continue;
      }
      add(Step::Walk, at, nullptr, 0);
      if (has_fields[i] && runs_no_code(n.read)) {
        add(Step::Pin, at, values[i], 0);
        (*tree->stable)[i] = values[i];
      }
    }
  }
};

bool is_quiet(const Check& c) {
  if (c.test == Test::Equals) return is_unchanging(c.value.p);
  return c.test == Test::Type || c.test == Test::Is || c.test == Test::IsWeak || c.test == Test::Tensor ||
         c.test == Test::Modes;
}

bool is_quiet(const GuardNode& n, PyObject* value) {
  if (n.read != Read::State && !runs_no_code(n.read)) return false;
  if (n.read == Read::Item && n.key && !is_unchanging(n.key.p)) return false;
  return std::all_of(n.checks.begin(), n.checks.end(), [&](const Check& c) {
    return is_quiet(c) || (c.test == Test::Length && on_keys(c, value) && n.is_same);
  });
}

bool is_quiet(const GuardTree* t, const Value* values) {
  for (const Settled& s : *t->settled) {
    if (s.step == Step::Walk && !is_quiet((*t->nodes)[s.node], values[s.node])) return false;
    if (s.step == Step::Check && !is_quiet(*reinterpret_cast<const Check*>(s.expected))) return false;
  }
  return std::none_of(t->related->begin(), t->related->end(),
                      [](const Related& r) { return r.relation == Relation::Symbolic; });
}

void settle(GuardTree* tree, const Value* values) {
  if (tree->patience <= 0) return;
  tree->patience--;
  tree->reliance->clear();
  Settler{tree, values, {}, {}}.run();
  tree->is_quiet = is_quiet(tree, values);
}

PyObject* instance_dict(PyObject* o) {      // borrowed
  PyObject** place = _PyObject_GetDictPtr(o);
  return place ? *place : nullptr;
}

bool read_and_check(GuardNode& n, PyObject* from, Value* out, PyObject* const* locals, Py_ssize_t count,
                    PyObject* globals, PyObject* cells) {
  *out = read(n, from, locals, count, globals, cells);
  bool good = *out && !PyErr_Occurred();
  for (size_t i = 0; good && i < n.checks.size(); i++) good = holds(n.checks[i], *out);
  return good;
}

template <class At>
bool relations_hold(const GuardTree* t, At value_at) {
  if (t->related->empty()) return true;
  std::vector<Value> kept(static_cast<size_t>(t->slots));
  for (size_t i = 0; i < t->nodes->size(); i++)
    if ((*t->nodes)[i].slot >= 0) kept[(*t->nodes)[i].slot] = value_at(static_cast<int>(i));
  for (const Related& r : *t->related)
    if (!relation_holds(r, kept.data())) return false;
  return true;
}

// Whether the steps of the last success show that all holds again.
bool still_holds(GuardTree* t, PyObject* const* locals, Py_ssize_t count, PyObject* globals, PyObject* cells) {
  std::vector<GuardNode>& nodes = *t->nodes;
  Again walk{t->stable->data(), {}};
  for (const Settled& s : *t->settled) {
    bool good = true;
    switch (s.step) {
      case Step::Walk: {
        GuardNode& n = nodes[s.node];
        Value read_now = nullptr;
        PyObject* from = n.parent < 0 ? nullptr : walk.at(n.parent);
        good = read_and_check(n, from, &read_now, locals, count, globals, cells);
        walk.taken.push_back({s.node, read_now});
        break;
      }
      case Step::Pin: good = walk.taken.back().second == s.object; break;
      case Step::Version: good = version_of(s.object) == s.expected; break;
      case Step::Instance: good = reinterpret_cast<uint64_t>(instance_dict(s.object)) == s.expected; break;
      case Step::Type: good = reinterpret_cast<uint64_t>(Py_TYPE(s.object)) == s.expected; break;
      case Step::Layout:
      case Step::Check: good = holds(*reinterpret_cast<const Check*>(s.expected), s.object); break;
    }
    if (!good || t->reliance->is_broken) return PyErr_Clear(), false;
  }
  bool good = relations_hold(t, [&](int i) { return walk.at(i); });
  PyErr_Clear();
  return good;
}

}  // namespace

bool is_guard_tree(PyObject* o) { return Py_TYPE(o) == GuardTreeType; }

PyObject* guard_value(PyObject* tree, int node) {
  auto& stable = *reinterpret_cast<GuardTree*>(tree)->stable;
  return node >= 0 && static_cast<size_t>(node) < stable.size() ? stable[node] : nullptr;
}

bool guards_hold(PyObject* tree, PyObject* const* locals, Py_ssize_t count, PyObject* globals, PyObject* cells,
                 bool* known) {
  auto* t = reinterpret_cast<GuardTree*>(tree);
  if (known) *known = false;
  if (!t->settled->empty() && !t->reliance->is_broken && still_holds(t, locals, count, globals, cells)) {
    t->patience = kPatience;
    if (known) *known = t->is_quiet;
    return true;
  }
  std::vector<GuardNode>& nodes = *t->nodes;
  Walk walk(nodes.size());
  for (GuardNode& n : nodes) {
    PyObject* from = n.parent < 0 ? nullptr : walk.values[n.parent];
    bool good = read_and_check(n, from, &walk.values[walk.count], locals, count, globals, cells);
    walk.count++;
    if (!good) return PyErr_Clear(), false;
  }
  if (!relations_hold(t, [&](int i) { return walk.values[i]; })) return PyErr_Clear(), false;
  settle(t, walk.values);
  return true;
}

namespace {

// --- making one ------------------------------------------------------------------------------------------------------

template <size_t N>
int place_of(const char* const (&names)[N], PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  for (size_t i = 0; text && i < N; i++)
    if (!strcmp(names[i], text)) return static_cast<int>(i);
  if (text) PyErr_Format(PyExc_ValueError, "GuardTree: nothing is called %R", name);
  return -1;
}

bool read_open(PyObject* tuple, std::vector<int64_t>& out) {      // None is -1
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    out.push_back(item == Py_None ? -1 : PyLong_AsLongLong(item));
  }
  return !PyErr_Occurred();
}

// (type, dtype, device, sizes, strides, flags...) with flags -1 where anything goes.
bool read_layout(PyObject* spec, Check& c) {
  PyObject *type, *dtype, *device, *sizes, *strides;
  Layout& l = c.layout;
  if (!PyArg_ParseTuple(spec, "OO!O!O!O!bbbbbI", &type, DTypeType, &dtype, DeviceType, &device, &PyTuple_Type, &sizes,
                        &PyTuple_Type, &strides, &l.requires_grad, &l.is_leaf, &l.is_contiguous, &l.is_inference,
                        &l.is_view, &l.bits))
    return false;
  for (int8_t* flag : {&l.is_leaf, &l.is_contiguous, &l.is_view})
    if (*flag > 1) *flag = -1;
  c.value = Ref::borrow(type);
  l.dtype = dtype_of(dtype);
  l.device = reinterpret_cast<DeviceObject*>(device)->device;
  if (PyTuple_GET_SIZE(sizes) != PyTuple_GET_SIZE(strides) || PyTuple_GET_SIZE(sizes) > 255)
    return PyErr_SetString(PyExc_ValueError, "GuardTree: expected as many strides as sizes"), false;
  l.ndim = static_cast<uint8_t>(PyTuple_GET_SIZE(sizes));
  if (!read_open(sizes, l.extents) || !read_open(strides, l.extents)) return false;
  l.is_exact = true;
  for (int d = 0; d < l.ndim; d++) l.is_exact &= l.extents[d] > 1 && l.extents[l.ndim + d] >= 0;
  return true;
}

bool read_words(PyObject* spec, Check& c) {
  PyObject* slow;
  unsigned long long defaults;
  int grad, inference, hooks;
  if (!PyArg_ParseTuple(spec, "(pppIIK)O", &grad, &inference, &hooks, &c.words.keys, &c.words.excluded, &defaults,
                        &slow))
    return false;
  c.words.grad = grad, c.words.inference = inference, c.words.saved_hooks = hooks, c.words.defaults = defaults;
  c.slow = Ref::borrow(slow);
  return true;
}

bool read_check(PyObject* spec, Check& c) {
  PyObject *name, *value;
  if (!PyArg_ParseTuple(spec, "UO", &name, &value)) return false;
  int test = place_of(kTests, name);
  if (test < 0) return false;
  c.test = static_cast<Test>(test);
  if (c.test == Test::Tensor) return read_layout(value, c);
  if (c.test == Test::Modes) return read_words(value, c);
  if (c.test == Test::Length) c.number = PyLong_AsSsize_t(value);
  if (c.test == Test::Keys && !PyTuple_Check(value)) PyErr_SetString(PyExc_TypeError, "GuardTree: keys are a tuple");
  if (c.test == Test::IsWeak && !PyWeakref_Check(value))
    PyErr_SetString(PyExc_TypeError, "GuardTree: expected a weak reference");
  c.value = Ref::borrow(value);
  return !PyErr_Occurred();
}

bool read_node(PyObject* spec, std::vector<GuardNode>& nodes) {
  PyObject *name, *key, *checks;
  int parent, slot;
  if (!PyArg_ParseTuple(spec, "iUOiO!", &parent, &name, &key, &slot, &PyList_Type, &checks)) return false;
  int kind = place_of(kReads, name);
  if (kind < 0) return false;
  Read how = static_cast<Read>(kind);
  bool is_root = how <= Read::Constant || how == Read::State;
  if (parent >= static_cast<int>(nodes.size()) || (parent < 0) != is_root)
    return PyErr_SetString(PyExc_ValueError, "GuardTree: a node comes after its parent"), false;
  nodes.emplace_back();
  GuardNode& n = nodes.back();
  n.parent = parent, n.read = how, n.slot = slot, n.key = Ref::borrow(key), n.number = -1;
  bool wants_number = how == Read::Local || how == Read::Cell || how == Read::CellObject || how == Read::DictKey ||
                      how == Read::Shape || how == Read::Stride;
  if (wants_number || (how == Read::Item && PyLong_CheckExact(key))) n.number = PyLong_AsSsize_t(key);
  if (PyErr_Occurred() && !wants_number) PyErr_Clear();      // an int too large for an index is a key all the same
  if (PyUnicode_CheckExact(key)) n.hash = PyObject_Hash(key);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(checks); i++) {
    n.checks.emplace_back();
    if (!read_check(PyList_GET_ITEM(checks, i), n.checks.back())) return false;
  }
  return !PyErr_Occurred();
}

bool read_relation(PyObject* spec, GuardTree* tree) {
  PyObject *name, *slots, *function;
  if (!PyArg_ParseTuple(spec, "UO!O", &name, &PyTuple_Type, &slots, &function)) return false;
  static const char* const names[] = {"same", "distinct", "symbolic"};
  int which = place_of(names, name);
  if (which < 0) return false;
  tree->related->emplace_back();
  Related& r = tree->related->back();
  r.relation = static_cast<Relation>(which);
  r.function = Ref::borrow(function);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(slots); i++) {
    long slot = PyLong_AsLong(PyTuple_GET_ITEM(slots, i));
    if (slot < 0 || slot >= tree->slots) return PyErr_SetString(PyExc_ValueError, "GuardTree: no such slot"), false;
    r.slots.push_back(static_cast<int>(slot));
  }
  if (r.relation == Relation::Same && r.slots.size() != 2)
    return PyErr_SetString(PyExc_ValueError, "GuardTree: two values are the same or not"), false;
  return true;
}

PyObject* tree_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *nodes, *related;
  int slots;
  if (!PyArg_ParseTuple(args, "O!O!i", &PyList_Type, &nodes, &PyList_Type, &related, &slots)) return nullptr;
  Ref result(type->tp_alloc(type, 0));
  if (!result) return nullptr;
  auto* tree = reinterpret_cast<GuardTree*>(result.p);
  tree->nodes = new std::vector<GuardNode>();
  tree->related = new std::vector<Related>();
  tree->settled = new std::vector<Settled>();
  tree->stable = new std::vector<PyObject*>();
  tree->reliance = new Reliance();
  tree->patience = kPatience;
  tree->slots = slots;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(nodes); i++)
    if (!read_node(PyList_GET_ITEM(nodes, i), *tree->nodes)) return nullptr;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(related); i++)
    if (!read_relation(PyList_GET_ITEM(related, i), tree)) return nullptr;
  for (GuardNode& n : *tree->nodes) {
    if (n.slot >= slots) return PyErr_SetString(PyExc_ValueError, "GuardTree: no such slot"), nullptr;
    const GuardNode* parent = n.parent < 0 ? nullptr : &(*tree->nodes)[n.parent];
    n.is_same = n.read == Read::Constant || (n.read == Read::Item && parent && parent->read == Read::Constant &&
                                             PyTuple_CheckExact(parent->key.p));
  }
  return result.release();
}

int tree_traverse(PyObject* self, visitproc visit, void* arg) {
  auto* tree = reinterpret_cast<GuardTree*>(self);
  Py_VISIT(Py_TYPE(self));
  if (tree->nodes)
    for (const GuardNode& n : *tree->nodes) {
      Py_VISIT(n.key.p);
      for (const Check& c : n.checks) {
        Py_VISIT(c.value.p);
        Py_VISIT(c.slow.p);
      }
    }
  if (tree->related)
    for (const Related& r : *tree->related) Py_VISIT(r.function.p);
  return 0;
}

int tree_clear(PyObject* self) {
  auto* tree = reinterpret_cast<GuardTree*>(self);
  auto* nodes = tree->nodes;
  auto* related = tree->related;
  tree->nodes = new std::vector<GuardNode>();      // a tree without guards; it is garbage, and nobody asks it again
  tree->related = new std::vector<Related>();
  tree->settled->clear();
  tree->reliance->clear();
  delete nodes;
  delete related;
  return 0;
}

void tree_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  auto* tree = reinterpret_cast<GuardTree*>(self);
  delete tree->nodes;
  delete tree->related;
  delete tree->settled;
  delete tree->reliance;
  delete tree->stable;
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* tree_check(PyObject* self, PyObject* args) {
  PyObject *locals, *globals, *cells = no_arguments;
  if (!PyArg_ParseTuple(args, "OO!|O!", &locals, &PyDict_Type, &globals, &PyTuple_Type, &cells)) return nullptr;
  Ref flat(PySequence_Tuple(locals));
  if (!flat) return nullptr;
  PyObject** items = reinterpret_cast<PyTupleObject*>(flat.p)->ob_item;
  return PyBool_FromLong(guards_hold(self, items, PyTuple_GET_SIZE(flat.p), globals, cells));
}

PyMethodDef methods[] = {
    {"check", guarded<tree_check>, METH_VARARGS,
     "check(locals, globals, cells=()): whether all guards hold for flat locals and a dict of globals"},
    {}};

PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(guarded<tree_new>)},
                       {Py_tp_traverse, reinterpret_cast<void*>(tree_traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(guarded<tree_clear>)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(tree_dealloc)},
                       {Py_tp_methods, methods},
                       {0, nullptr}};
PyType_Spec spec = {"rushlight._C.GuardTree", sizeof(GuardTree), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

PyObject* py_mode_words(PyObject*, PyObject*) {
  ModeWords w = words_now();
  return Py_BuildValue("OOOIIK", w.grad ? Py_True : Py_False, w.inference ? Py_True : Py_False,
                       w.saved_hooks ? Py_True : Py_False, w.keys, w.excluded,
                       static_cast<unsigned long long>(w.defaults));
}

PyObject* py_set_same_value(PyObject*, PyObject* function) {
  Py_XSETREF(same_value, Py_NewRef(function));
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"mode_words", guarded<py_mode_words>, METH_NOARGS, "the modes of this thread and the defaults, as numbers"},
    {"set_same_value", guarded<py_set_same_value>, METH_O, "set the function that compares values in guards"},
    {}};

}  // namespace

int init_guards(PyObject* module) {
  GuardTreeType = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!GuardTreeType || !(no_arguments = PyTuple_New(0))) return -1;
  same_value = Py_NewRef(Py_None);
  if (PyModule_AddObjectRef(module, "GuardTree", reinterpret_cast<PyObject*>(GuardTreeType))) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace rl

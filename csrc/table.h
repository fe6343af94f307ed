// Keys of calls and the table from key to plan.
#pragma once
#include <vector>

#include "tensor.h"

namespace rl {

constexpr int kMaxWords = 1024;   // a list of a hundred matrices

// What of a call is in its key: types (and which tensors have no dims), also ranks, also sizes and strides.
enum class Detail : uint8_t { Types, Ranks, Exact };

struct KeyBuilder {
  uint64_t words[kMaxWords];
  int n = 0;
  Detail detail;
  void add(uint64_t w) { if (n < kMaxWords) words[n++] = w; else n = kMaxWords + 1; }
  bool full() const { return n > kMaxWords; }
};

enum Tag : uint64_t {
  kNone = 1,
  kTrue,
  kFalse,
  kInt,
  kFloat,
  kComplex,
  kString,
  kObject,
  kInts,
  kTensors,
  kLists,
  kTensor = 16
};

inline void add_tensor(KeyBuilder& key, Tensor* t) {
  uint64_t head = kTensor | static_cast<uint64_t>(t->dtype) << 8 | static_cast<uint64_t>(t->device.type) << 16 |
                  static_cast<uint64_t>(t->device.index) << 24 | static_cast<uint64_t>(t->keys & kKeyBits) << 32;
  if (key.detail == Detail::Types) {
    key.add(head | static_cast<uint64_t>(t->ndim == 0) << 32 |
            static_cast<uint64_t>((t->flags & kWrappedNumber) != 0) << 33);
    return;
  }
  key.add(head | static_cast<uint64_t>(t->ndim) << 32 | static_cast<uint64_t>((t->flags & kWrappedNumber) != 0) << 40);
  if (key.detail == Detail::Ranks) return;
  if (key.n + 2 * t->ndim > kMaxWords) {
    key.n = kMaxWords + 1;
    return;
  }
  memcpy(key.words + key.n, t->geometry, sizeof(int64_t) * 2 * t->ndim);
  key.n += 2 * t->ndim;
}

inline bool add_int(KeyBuilder& key, PyObject* o) {
  int overflow;
  int64_t v = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (overflow) return false;
  key.add(static_cast<uint64_t>(v));
  return true;
}

inline bool add_float(KeyBuilder& key, double v) {
  uint64_t bits;
  memcpy(&bits, &v, sizeof(bits));
  key.add(bits);
  return true;
}

inline bool add_ints(KeyBuilder& key, PyObject* o) {
  Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
  PyObject** items = PySequence_Fast_ITEMS(o);
  key.add(kInts | static_cast<uint64_t>(n) << 8);
  for (Py_ssize_t i = 0; i < n; i++)
    if (!PyLong_Check(items[i]) || PyBool_Check(items[i]) || !add_int(key, items[i])) return false;
  return true;
}

inline bool add_list(KeyBuilder& key, PyObject* o) {
  Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
  PyObject** items = PySequence_Fast_ITEMS(o);
  if (n && (is_tensor(items[0]) || items[0] == Py_None)) {
    key.add(kTensors | static_cast<uint64_t>(n) << 8);
    for (Py_ssize_t i = 0; i < n; i++) {
      if (items[i] == Py_None) key.add(kNone);
      else if (is_tensor(items[i])) add_tensor(key, as_tensor(items[i]));
      else return false;
    }
    return true;
  }
  if (n && (PyTuple_Check(items[0]) || PyList_Check(items[0]))) {   // lists of integers: the dims of two tensors
    key.add(kLists | static_cast<uint64_t>(n) << 8);
    for (Py_ssize_t i = 0; i < n; i++)
      if (!(PyTuple_Check(items[i]) || PyList_Check(items[i])) || !add_ints(key, items[i])) return false;
    return true;
  }
  return add_ints(key, o);
}

// False: this argument cannot be part of a key (the call is planned anew each time).
inline bool add_argument(KeyBuilder& key, PyObject* o, bool runtime_scalar) {
  if (is_tensor(o)) return add_tensor(key, as_tensor(o)), true;
  if (o == Py_None) return key.add(kNone), true;
  if (PyBool_Check(o))
    return key.add(runtime_scalar ? static_cast<uint64_t>(kTrue) : o == Py_True ? kTrue : kFalse), true;
  if (PyLong_Check(o)) return key.add(kInt), runtime_scalar || add_int(key, o);
  if (PyFloat_Check(o)) return key.add(kFloat), runtime_scalar || add_float(key, PyFloat_AS_DOUBLE(o));
  if (PyComplex_Check(o)) {
    key.add(kComplex);
    if (runtime_scalar) return true;
    Py_complex c = PyComplex_AsCComplex(o);
    return add_float(key, c.real) && add_float(key, c.imag);
  }
  if (PyUnicode_Check(o)) return key.add(kString), key.add(static_cast<uint64_t>(PyObject_Hash(o))), true;
  if (PyTuple_Check(o) || PyList_Check(o)) return add_list(key, o);
  if (is_device(o)) {
    auto* d = reinterpret_cast<DeviceObject*>(o);
    return key.add(kObject | 1u << 8 | static_cast<uint64_t>(d->device.type) << 16 |
                   static_cast<uint64_t>(d->device.index) << 24),
           true;
  }
  if (is_dtype(o)) return key.add(kObject | static_cast<uint64_t>(dtype_of(o)) << 16), true;
  return false;
}

// An integer, or a list of them, that plans for many shapes read when they run. False: one is beyond 64 bits, or no
// plain integer.
inline bool is_varying(PyObject* o) { return PyLong_CheckExact(o) || PyTuple_Check(o) || PyList_Check(o); }
inline bool add_varying(KeyBuilder& key, PyObject* o) {
  int overflow = 0;
  auto fits = [&](PyObject* item) {
    return PyLong_CheckExact(item) && (PyLong_AsLongLongAndOverflow(item, &overflow), !overflow);
  };
  if (PyLong_CheckExact(o)) return key.add(kInt), fits(o);
  Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
  key.add(kInts | static_cast<uint64_t>(n) << 8);
  for (Py_ssize_t i = 0; i < n; i++)
    if (!fits(PySequence_Fast_ITEMS(o)[i])) return false;
  return true;
}

// Writing over an operand's own bytes is planned differently, and refused for some overlaps.
inline uint64_t alias_class(Tensor* a, Tensor* b) {
  return static_cast<uint64_t>(a->storage == b->storage) << 8 | static_cast<uint64_t>(memory_overlap(a, b));
}
inline void add_aliases(KeyBuilder& key, PyObject** args, int n) {
  Tensor* written = as_tensor(args[0]);
  for (int i = 1; i < n; i++) {
    if (is_tensor(args[i])) key.add(alias_class(written, as_tensor(args[i])));
    else if (PyTuple_Check(args[i]))
      for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(args[i]); k++) {
        PyObject* item = PyTuple_GET_ITEM(args[i], k);
        if (is_tensor(item)) key.add(alias_class(written, as_tensor(item)));
        else if (item != Py_None) break;
      }
  }
}

inline uint64_t hash_words(const uint64_t* words, int n) {
  uint64_t h = 0x9E3779B97F4A7C15ull + n;
  for (int i = 0; i < n; i++) {
    h ^= words[i];
    h *= 0xFF51AFD7ED558CCDull;
    h ^= h >> 32;
  }
  return h;
}

struct PlanTable {
  struct Entry {
    uint64_t hash = 0;
    uint64_t* words = nullptr;
    int n = 0;
    PyObject* plan = nullptr;     // strong
  };
  std::vector<Entry> entries{8};
  size_t used = 0;

  ~PlanTable() { clear(); }

  void clear() {
    std::vector<Entry> old;
    old.swap(entries);
    entries.resize(8);
    used = 0;
    for (Entry& e : old) {
      delete[] e.words;
      Py_XDECREF(e.plan);
    }
  }

  PyObject* find(const KeyBuilder& key, uint64_t hash) {
    size_t mask = entries.size() - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
      Entry& e = entries[i];
      if (!e.plan) return nullptr;
      if (e.hash == hash && e.n == key.n && !memcmp(e.words, key.words, sizeof(uint64_t) * key.n)) return e.plan;
    }
  }

  void insert(const KeyBuilder& key, uint64_t hash, PyObject* plan) {
    if (used > 8192) clear();     // an endless stream of shapes must not grow without bound
    if (used * 2 >= entries.size()) grow();
    Entry e{hash, new uint64_t[key.n], key.n, Py_NewRef(plan)};
    memcpy(e.words, key.words, sizeof(uint64_t) * key.n);
    place(e);
    used++;
  }

  void place(const Entry& e) {
    size_t mask = entries.size() - 1, i = e.hash & mask;
    while (entries[i].plan) i = (i + 1) & mask;
    entries[i] = e;
  }

  void grow() {
    std::vector<Entry> old(entries.size() * 2);
    old.swap(entries);
    for (Entry& e : old)
      if (e.plan) place(e);
  }
};

}  // namespace rl

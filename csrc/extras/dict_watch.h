// Dicts that something relies on: told by the interpreter when one of them is written to. For CPython 3.13 and later,
// whose dicts have no version that changes with every write.
#pragma once
#include <Python.h>

#include <vector>

namespace rl {

// What one thing relies on. The interpreter lock is held.
class Reliance {
 public:
  bool is_broken = false;             // one of the dicts was, or is about to be, written to or freed

  Reliance() = default;
  Reliance(const Reliance&) = delete;
  Reliance& operator=(const Reliance&) = delete;
  ~Reliance() { clear(); }

  void add(PyObject* dict);           // one that cannot be watched breaks it at once
  void clear();                       // relies on nothing

 private:
  std::vector<PyObject*> dicts;       // compared, never followed
};

}  // namespace rl

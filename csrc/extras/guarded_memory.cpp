// Memory that ends at a page nobody may touch, for finding kernels that leave their tensors: generated code carries no
// checks that a sanitizer could see. Slow (two system calls per tensor) and meant for tests; see tests/fuzz.
#include <sys/mman.h>
#include <unistd.h>

#include "boundary.h"
#include "core.h"
#include "shared.h"

namespace rl {

namespace {

constexpr size_t kAlign = 16;   // kernels assume no more than an element's; 16 keeps vectors of the core itself whole

size_t page_size() {
  static const size_t size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

size_t whole_pages(size_t nbytes) { return (nbytes + kAlign + page_size() - 1) / page_size() * page_size(); }

void release_guarded(Storage* s) { munmap(s->context, whole_pages(s->capacity) + 2 * page_size()); }

// [forbidden page | slack, data ...] [forbidden page]: one byte past the (aligned) end faults, and so does freed
// memory.
bool allocate_guarded(Storage* s, size_t nbytes) {
  size_t inside = whole_pages(nbytes);
  void* whole = mmap(nullptr, inside + 2 * page_size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (whole == MAP_FAILED) return false;
  char* usable = static_cast<char*>(whole) + page_size();
  if (mprotect(usable, inside, PROT_READ | PROT_WRITE)) {
    munmap(whole, inside + 2 * page_size());
    return false;
  }
  s->data = usable + inside - (nbytes + kAlign - 1) / kAlign * kAlign;
  s->capacity = nbytes;
  s->context = whole;
  s->release = release_guarded;
  return true;
}

PyObject* py_guard_memory(PyObject*, PyObject* on) {
  int wanted = PyObject_IsTrue(on);
  if (wanted < 0) return nullptr;
  use_allocator(wanted ? allocate_guarded : nullptr);
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"guard_memory", guarded<py_guard_memory>, METH_O, "guard_memory(on): let new cpu tensors end at a forbidden page"},
    {}};

}  // namespace

int init_guarded_memory(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace rl

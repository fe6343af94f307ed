// CUDA kernels as the device's table launches them. rushlight/devices/cuda/kernels.py makes them.
// Launches may come without the interpreter lock; what makes a variant of a kernel takes it, since Python is asked.
#pragma once
#include <deque>
#include <string>
#include <vector>

#include "../device.h"

namespace rl {

namespace cuda {

using Handle = void*;

enum Form { kPoints = 0, kRows = 1, kThreads = 2, kProduct = 3, kMany = 4, kTransform = 5 };   // codegen/nvptx/lower.py: what is shared

struct Variant {
  uint64_t key;
  int unit;
  Handle function;
  int elements;     // of a row that a thread takes at once
  int times;        // points, or vectors of them, that a thread of a pointwise kernel takes
  int most = 1024;  // threads of a block for which there are registers
  Handle exec = nullptr, node = nullptr;   // a graph of one launch, whose arguments are set anew for each
  bool has_graph = true;                   // or can have one
  int spilled = 0;                         // bytes of a thread that have no registers, and wait in memory
  unsigned shared = 0;                     // bytes of shared memory that a launch asks for
  std::string called;                      // its name and how many registers a thread has, for errors
};

struct Kernel {
  PyObject* maker;                // variant(unit, key) -> (function, elements, times, name)
  int form;
  int vector;  // of a product, its type as cuBLAS numbers them; of kMany, elements of a block; otherwise elements in 16 bytes of the widest operand; 1
               // where a kernel has no form in vectors
  std::vector<int> itemsizes;     // of operands; 0 for those of rows that do not go in vectors
  int row_param;                  // which parameter says how long rows are; -1: none. Of kMany, rows of a table
  std::vector<int> multiples;     // parameters that must be whole vectors for the variant in vectors
  int most_threads;
  bool peels;                     // whether vectors may come after single elements, where rows start anywhere
  int holds;                      // vectors of a row that a thread can keep in registers; 0: rows cannot be kept
  Kernel* copy;                   // of a product with a bias: a pointwise copy
  int maps;                       // how many operands, the first, the unit's copy engine reads by tensor maps
  int shared;                     // bytes of shared memory, beyond what the kernel's text has
  std::deque<Variant> variants;   // which stay where they are
  Kernel* single = nullptr;       // of a product: the kernel for one row, once the maker was asked for it
  bool is_asked = false;
};

int launch_blocks(Kernel* kernel, int unit, void* stream, const RushlightLaunch& l);   // a kernel that nests became

// cuda/single_row.cpp: a product of one row, queued; false where it is none, or has no kernel.
bool launch_single_row(Kernel* kernel, int unit, void* stream, const RushlightLaunch& l, int* status);

// cuda/blas.cpp: a matrix product; where it fails `why` says so.
int launch_product(const Kernel* kernel, int unit, void* stream, void* const* operands, const int64_t* params,
                   const char** why);

int compute_of(int type);         // the library's number for how products of a type are computed

// cuda/blas_light.cpp: c = a @ b + bias, operands in this order. What the library does it with; false where it does
// not.
struct Biased {
  void *plan, *space;
  Handle handle;
  int type;
};
bool serves_biased(int type, int compute, int unit, void* stream, const RushlightLaunch& launch, Biased* found);
bool launch_biased(const Biased& biased, void* stream, void* const* operands);   // false where it refuses

// cuda/fft.cpp: a Fourier transform; where it fails `why` says so.
int launch_transform(void* stream, const RushlightLaunch& launch, const char** why);

// A unit's context becomes this thread's; a status.
int make_current(int unit);

extern bool asks_first;   // whether so much memory is free is asked before it is taken

// What a driver's answer means as a status, and for the table's `error`.
int status_of(const char* what, int code);

// cuda/segments.cpp: address space that expands, where the driver has it.
void find_address_space(const RushlightDevice* table);

// A function of the driver, which must be open; null where it has none of this name.
void* find_function(const char* name);

// Queue a graph that can run; as other functions of the table, a status.
int launch_graph(int unit, void* graph, void* stream);

// Memory of a unit that stays; null where there is none.
void* reserve(int unit, size_t nbytes);

}  // namespace cuda

int init_cuda_blas(PyObject* module);
int init_cuda_host(PyObject* module);
int init_cuda_dnn(PyObject* module);
int init_cuda_replay(PyObject* module);
int init_cuda_blas_light(PyObject* module);
int init_cuda_fft(PyObject* module);
int init_cuda_segments(PyObject* module);
int init_cuda_activity(PyObject* module);
int init_cuda_timing(PyObject* module);
int init_cuda(PyObject* module);

}  // namespace rl

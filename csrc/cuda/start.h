// How a kernel's launch reaches the driver: at once, through a graph of one node, or through the queue.
#pragma once
#include "cuda/device.h"

namespace rl::cuda {

constexpr int kMostArguments = 256;

// What a kernel is given: where each argument is, and the bytes of all.
struct Arguments {
  int count = 0;
  size_t bytes = 0;
  void* at[kMostArguments];
  uint16_t sizes[kMostArguments];
  void add(const void* address, size_t size) {
    at[count] = const_cast<void*>(address);
    sizes[count++] = static_cast<uint16_t>(size);
    bytes += size;
  }
};

// How an operand lies, in the driver's own numbers, for the unit's copy engine.
constexpr int kMostMaps = 4, kMapWords = 16;
struct alignas(64) Map { int64_t words[kMapWords]; };
int set_map(Map* map, const int64_t* words, void* address);   // the map of a step, of what lies elsewhere now; a status

extern bool overlaps;      // kernels wait by themselves for those before them: they may start early
bool can_overlap();        // whether the driver can start them early

bool find_launches();      // the driver's functions; false where one is missing that every driver has
int start_kernel(Variant* variant, int64_t blocks, int threads, int unit, void* stream, const Arguments& arguments);

// A product, which is not started here: one that takes the unit long ends a row of small launches.
void note_product(double multiplications);
void note_long_work();

void set_capturing(bool now);
void make_batches(bool wanted);      // whether small launches that wait in the queue are made as one graph

}  // namespace rl::cuda

// Box-Muller on blocks of sixteen words, with PyTorch's arithmetic for the running machine.
// Internal to csrc/sample*.cpp; random.h is the interface.
#pragma once

#include <cstdint>

namespace rl::random {

// Turns `count` words (a multiple of sixteen) into as many normals. In every block word j gives the radius and word
// j + 8 the angle of the pair that elements j and j + 8 become.
struct NormalBlocks {
  void (*fill)(const uint32_t* words, float* out, int64_t count, float mean, float std);
  int64_t grain;  // elements below which another thread costs more than it saves
};

// The version whose bits are PyTorch's here, chosen once by what the processor can do: PyTorch's x86-64 builds have
// one for processors with AVX2 and FMA, whose logarithm, sine and cosine are the Cephes library's polynomials;
// everywhere else the C library's functions are used. Results differ in the last bits only, but they differ.
NormalBlocks normal_blocks_here();

}  // namespace rl::random

// Sums and products of sizes.
#pragma once
#include <cstdint>
#include <iterator>

namespace c10 {
template <class C>
inline int64_t sum_integers(const C& values) { int64_t r = 0; for (auto v : values) r += v; return r; }
template <class C>
inline int64_t multiply_integers(const C& values) { int64_t r = 1; for (auto v : values) r *= v; return r; }
template <class I>
inline int64_t multiply_integers(I from, I to) { int64_t r = 1; for (; from != to; ++from) r *= *from; return r; }
template <class C>
inline int64_t numelements_from_dim(int64_t dim, const C& sizes) { return multiply_integers(sizes.begin() + dim, sizes.end()); }
template <class C>
inline int64_t size_from_dim_(int dim, const C& sizes) { return multiply_integers(sizes.begin() + dim, sizes.end()); }
}  // namespace c10

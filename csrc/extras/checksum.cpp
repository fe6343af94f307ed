// What saving needs from the machine: zip's checksum by carry-less multiplication (zlib's takes longer than writing the
// file: 2 against 12 GB/s on a Neoverse N1), and room on the disk ahead of writing.
#include "checksum.h"
#include "boundary.h"

#include <cstring>

#include "processor.h"
#include "unlocked.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
#if defined(__linux__)
#include <fcntl.h>
#include <sys/auxv.h>
#endif

namespace rl {

namespace {

struct Table {
  uint32_t of[256];
  constexpr Table() : of() {
    for (uint32_t i = 0; i < 256; i++) {
      uint32_t c = i;
      for (int k = 0; k < 8; k++) c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
      of[i] = c;
    }
  }
};
constexpr Table table;

uint32_t by_bytes(uint32_t crc, const unsigned char* p, size_t n) {
  while (n--) crc = table.of[(crc ^ *p++) & 0xFF] ^ (crc >> 8);
  return crc;
}

#if defined(__x86_64__)
#define RL_MULTIPLIES __attribute__((target("pclmul,sse4.1")))
bool can_multiply() { return rl::has_carryless_multiply(); }

using Lane = __m128i;
RL_MULTIPLIES inline Lane load(const unsigned char* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
RL_MULTIPLIES inline Lane start(uint32_t crc) { return _mm_cvtsi32_si128(static_cast<int>(crc)); }
RL_MULTIPLIES inline Lane both(Lane a, Lane b) { return _mm_xor_si128(a, b); }
RL_MULTIPLIES inline Lane pair(uint64_t low, uint64_t high) {
  return _mm_set_epi64x(static_cast<long long>(high), static_cast<long long>(low));
}
RL_MULTIPLIES inline Lane fold(Lane x, Lane by) {
  return both(_mm_clmulepi64_si128(x, by, 0x00), _mm_clmulepi64_si128(x, by, 0x11));
}
RL_MULTIPLIES inline void store(unsigned char* p, Lane x) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), x); }
#elif defined(__aarch64__)
#define RL_MULTIPLIES __attribute__((target("+crypto")))
bool can_multiply() {
#if defined(__linux__)
  return getauxval(AT_HWCAP) & (1 << 4);   // HWCAP_PMULL
#else
  return true;
#endif
}

using Lane = uint64x2_t;
RL_MULTIPLIES inline Lane load(const unsigned char* p) { return vreinterpretq_u64_u8(vld1q_u8(p)); }
RL_MULTIPLIES inline Lane start(uint32_t crc) { return vcombine_u64(vcreate_u64(crc), vcreate_u64(0)); }
RL_MULTIPLIES inline Lane both(Lane a, Lane b) { return veorq_u64(a, b); }
RL_MULTIPLIES inline Lane pair(uint64_t low, uint64_t high) {
  return vcombine_u64(vcreate_u64(low), vcreate_u64(high));
}
RL_MULTIPLIES inline Lane fold(Lane x, Lane by) {
  poly64x2_t a = vreinterpretq_p64_u64(x), b = vreinterpretq_p64_u64(by);
  Lane low = vreinterpretq_u64_p128(vmull_p64(vgetq_lane_p64(a, 0), vgetq_lane_p64(b, 0)));
  return both(low, vreinterpretq_u64_p128(vmull_high_p64(a, b)));
}
RL_MULTIPLIES inline void store(unsigned char* p, Lane x) { vst1q_u8(p, vreinterpretq_u8_u64(x)); }
#else
bool can_multiply() { return false; }
#endif

#if defined(RL_MULTIPLIES)
// Folding: 64 bytes stand for the 64 after them once multiplied by x^512 modulo the polynomial, 16 by x^128. What is
// left is 16 bytes with the same remainder as everything before, and the table finishes those.
RL_MULTIPLIES uint32_t by_folding(uint32_t crc, const unsigned char* p, size_t n) {
  if (n < 64) return by_bytes(crc, p, n);
  Lane far = pair(0x154442bd4, 0x1c6e41596), near = pair(0x1751997d0, 0x0ccaa009e);
  Lane a = both(load(p), start(crc)), b = load(p + 16), c = load(p + 32), d = load(p + 48);
  for (p += 64, n -= 64; n >= 64; p += 64, n -= 64) {
    a = both(fold(a, far), load(p));
    b = both(fold(b, far), load(p + 16));
    c = both(fold(c, far), load(p + 32));
    d = both(fold(d, far), load(p + 48));
  }
  a = both(fold(a, near), b);
  a = both(fold(a, near), c);
  a = both(fold(a, near), d);
  for (; n >= 16; p += 16, n -= 16) a = both(fold(a, near), load(p));
  unsigned char rest[16];
  store(rest, a);
  return by_bytes(by_bytes(0, rest, 16), p, n);
}
#else
uint32_t by_folding(uint32_t crc, const unsigned char* p, size_t n) { return by_bytes(crc, p, n); }
#endif

PyObject* py_crc32(PyObject*, PyObject* args) {
  Py_buffer view;
  unsigned int crc = 0;
  if (!PyArg_ParseTuple(args, "y*|I", &view, &crc)) return nullptr;
  {
    Unlocked others_run;
    crc = ~by_folding(~crc, static_cast<const unsigned char*>(view.buf), static_cast<size_t>(view.len));
  }
  PyBuffer_Release(&view);
  return PyLong_FromUnsignedLong(crc);
}

PyObject* py_reserve(PyObject*, PyObject* args) {
  int fd, done = -1;
  long long size;
  if (!PyArg_ParseTuple(args, "iL", &fd, &size)) return nullptr;
#if defined(__linux__)
  {
    Unlocked others_run;
    done = size > 0 ? fallocate(fd, 0, 0, size) : -1;
  }
#endif
  return PyBool_FromLong(done == 0);
}

PyMethodDef crc_function[] = {
    {"crc32", guarded<py_crc32>, METH_VARARGS, "crc32(data, value=0): as zlib.crc32, and faster"}, {}};
PyMethodDef functions[] = {{"reserve_file", guarded<py_reserve>, METH_VARARGS,
                            "reserve_file(fd, size): take room on the disk; whether the file system could"},
                           {}};

}  // namespace

int init_checksum(PyObject* module) {
  if (can_multiply() && PyModule_AddFunctions(module, crc_function)) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace rl

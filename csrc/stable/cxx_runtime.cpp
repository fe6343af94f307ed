// A part of the C++ runtime that PyTorch's libraries carry along and wheels therefore take from them: libstdc++ has it
// only since GCC 13.
#include <cstdlib>
#include <cstring>

// std::string::_M_replace_cold: `p[0:before]` becomes `text[0:size]`, which may lie in the string itself; `tail` more
// characters follow. The string has the room.
extern "C" __attribute__((visibility("default"), weak)) void rushlight_replace_cold(void*, char* p, size_t before,
                                                                                  const char* text, size_t size,
                                                                                  size_t tail)
    __asm__("_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE15_M_replace_coldEPcmPKcmm");

extern "C" void rushlight_replace_cold(void*, char* p, size_t before, const char* text, size_t size, size_t tail) {
  char small[256];
  char* copy = size <= sizeof(small) ? small : static_cast<char*>(malloc(size));
  if (!copy) abort();
  memcpy(copy, text, size);
  if (tail && before != size) memmove(p + size, p + before, tail);
  memcpy(p, copy, size);
  if (copy != small) free(copy);
}

// Checksums and disk room for files.
// Functions are called with the interpreter lock, and let go of it while bytes are read or written.
#pragma once
#include "types.h"

namespace rl {

int init_checksum(PyObject* module);   // `crc32` is only there on machines that multiply without carry

}  // namespace rl

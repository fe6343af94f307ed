// Checksums and disk room for files.
#pragma once
#include "types.h"

namespace rl {

int init_checksum(PyObject* module);   // `crc32` is only there on machines that multiply without carry

}  // namespace rl

// torch::fft and torch::special: ops under the short names they have there.
#pragma once
#include <rushlight/functions.h>

namespace torch::fft {
#include <ATen/generated/fft.inc>
}
namespace torch::special {
#include <ATen/generated/special.inc>
}

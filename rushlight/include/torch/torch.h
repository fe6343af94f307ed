// PyTorch's name for: everything but Python's side.
#pragma once
#include <algorithm>
#include <cassert>
#include <cstring>
#include <iomanip>
#include <iostream>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include <rushlight/all.h>
#include <rushlight/autograd.h>
#include <rushlight/cuda.h>
#include <rushlight/library.h>
#include <rushlight/spaces.h>
#include <torch/data.h>
#include <torch/serialize.h>
#include <torch/version.h>
#ifdef RUSHLIGHT_WITHOUT_LAYERS   // given where a source names neither of them (rushlight/cxx/uses.py)
#include <rushlight/nn/arguments.h>
#else
#include <torch/nn.h>
#include <torch/optim.h>
#endif

// PyTorch's name for: rushlight/wrap_dim.h
#pragma once
#include <rushlight/wrap_dim.h>

// PyTorch's name for: rushlight/tensor.h
#pragma once
#include <rushlight/tensor.h>

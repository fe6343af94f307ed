// PyTorch's name for: rushlight/cuda.h
#pragma once
#include <rushlight/cuda.h>

// PyTorch's name for: rushlight/cuda_stream.h
#pragma once
#include <rushlight/cuda_stream.h>

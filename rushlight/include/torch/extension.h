// PyTorch's name for: torch/all.h rushlight/pybind.h
#pragma once
#include <torch/all.h>
#include <rushlight/pybind.h>

// PyTorch's name for: rushlight/all.h rushlight/pybind.h
#pragma once
#include <rushlight/all.h>
#include <rushlight/pybind.h>

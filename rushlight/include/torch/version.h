// PyTorch's name for: torch/headeronly/version.h
#pragma once
#include <torch/headeronly/version.h>

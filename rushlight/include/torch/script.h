// PyTorch's name for: torch/torch.h rushlight/script.h
#pragma once
#include <torch/torch.h>
#include <rushlight/script.h>

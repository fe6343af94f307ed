// PyTorch's name for: torch/torch.h
#pragma once
#include <torch/torch.h>

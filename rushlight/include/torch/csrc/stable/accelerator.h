// PyTorch's name for: rushlight/stable/accelerator.h
#pragma once
#include <rushlight/stable/accelerator.h>

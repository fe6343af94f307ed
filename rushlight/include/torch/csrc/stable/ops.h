// PyTorch's name for: rushlight/stable/ops.h
#pragma once
#include <rushlight/stable/ops.h>

// PyTorch's name for: rushlight/math.h
#pragma once
#include <rushlight/math.h>

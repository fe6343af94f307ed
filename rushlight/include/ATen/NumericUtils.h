// PyTorch's name for: rushlight/numbers.h rushlight/math.h
#pragma once
#include <rushlight/numbers.h>
#include <rushlight/math.h>

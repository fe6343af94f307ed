// PyTorch's name for: rushlight/numbers.h
#pragma once
#include <rushlight/numbers.h>

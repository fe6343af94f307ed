// PyTorch's name for: rushlight/arrays.h
#pragma once
#include <rushlight/arrays.h>

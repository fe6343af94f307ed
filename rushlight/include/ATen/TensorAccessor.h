// PyTorch's name for: rushlight/accessor.h
#pragma once
#include <rushlight/accessor.h>

// PyTorch's name for: rushlight/options.h
#pragma once
#include <rushlight/options.h>

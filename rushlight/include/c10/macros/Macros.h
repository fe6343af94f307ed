// PyTorch's name for: rushlight/error.h
#pragma once
#include <rushlight/error.h>

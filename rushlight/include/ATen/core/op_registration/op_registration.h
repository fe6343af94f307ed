// PyTorch's name for: rushlight/library.h
#pragma once
#include <rushlight/library.h>

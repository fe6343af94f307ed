// PyTorch's name for: rushlight/parallel.h
#pragma once
#include <rushlight/parallel.h>

// PyTorch's name for: rushlight/accumulate.h
#pragma once
#include <rushlight/accumulate.h>

// PyTorch's name for: rushlight/data/samplers.h
#pragma once
#include <rushlight/data/samplers.h>

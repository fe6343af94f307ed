// PyTorch's name for: rushlight/data/chunks.h
#pragma once
#include <rushlight/data/chunks.h>

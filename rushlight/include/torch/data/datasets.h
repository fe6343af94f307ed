// PyTorch's name for: rushlight/data/datasets.h, chunks.h
#pragma once
#include <rushlight/data/chunks.h>

// PyTorch's name for: rushlight/data/datasets.h
#pragma once
#include <rushlight/data/datasets.h>

// PyTorch's name for: rushlight/data/transforms.h
#pragma once
#include <rushlight/data/transforms.h>

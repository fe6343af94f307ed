// PyTorch's name for: rushlight/data/workers.h
#pragma once
#include <rushlight/data/workers.h>

// PyTorch's name for: rushlight/data/loader.h
#pragma once
#include <rushlight/data/loader.h>

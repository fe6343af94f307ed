// PyTorch's name for: rushlight/spaces.h
#pragma once
#include <rushlight/spaces.h>

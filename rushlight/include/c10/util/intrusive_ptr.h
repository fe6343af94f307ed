// PyTorch's name for: rushlight/pointer.h
#pragma once
#include <rushlight/pointer.h>

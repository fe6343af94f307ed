// PyTorch's name for: rushlight/stable/shim.h
#pragma once
#include <rushlight/stable/shim.h>

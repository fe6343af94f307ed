// PyTorch's name for: rushlight/guards.h
#pragma once
#include <rushlight/guards.h>

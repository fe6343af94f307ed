// PyTorch's name for: rushlight/functions.h
#pragma once
#include <rushlight/functions.h>

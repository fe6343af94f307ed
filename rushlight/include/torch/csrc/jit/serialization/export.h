// PyTorch's name for: rushlight/script.h
#pragma once
#include <rushlight/script.h>

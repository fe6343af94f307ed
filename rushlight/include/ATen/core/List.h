// PyTorch's name for: rushlight/ivalue.h
#pragma once
#include <rushlight/ivalue.h>

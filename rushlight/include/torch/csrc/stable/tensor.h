// PyTorch's name for: rushlight/stable/values.h
#pragma once
#include <rushlight/stable/values.h>

// PyTorch's name for: rushlight/all.h
#pragma once
#include <rushlight/all.h>

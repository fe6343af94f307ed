// PyTorch's name for: rushlight/stable/library.h
#pragma once
#include <rushlight/stable/library.h>

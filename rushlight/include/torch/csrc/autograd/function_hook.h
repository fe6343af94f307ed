// PyTorch's name for: rushlight/autograd.h
#pragma once
#include <rushlight/autograd.h>

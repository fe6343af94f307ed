// PyTorch's name for: rushlight/all.h rushlight/autograd.h
#pragma once
#include <rushlight/all.h>
#include <rushlight/autograd.h>

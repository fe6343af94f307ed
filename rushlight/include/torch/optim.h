// PyTorch's name for: optimizers and schedulers.
#pragma once
#include <rushlight/autograd.h>
#include <rushlight/generated/optim.h>
#include <rushlight/guards.h>

// PyTorch's name for: layers, containers, torch::nn::functional, torch::nn::init and torch::nn::utils.
#pragma once
#include <rushlight/autograd.h>
#include <rushlight/generated/functional.h>
#include <rushlight/guards.h>
#include <rushlight/nn/init.h>

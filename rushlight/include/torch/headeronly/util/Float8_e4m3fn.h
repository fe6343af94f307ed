// PyTorch's name for: rushlight/stable/headeronly.h
#pragma once
#include <rushlight/stable/headeronly.h>

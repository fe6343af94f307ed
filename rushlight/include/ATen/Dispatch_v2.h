// PyTorch's name for: rushlight/dispatch.h
#pragma once
#include <rushlight/dispatch.h>

// PyTorch's name for: rushlight/stable/dispatch.h
#pragma once
#include <rushlight/stable/dispatch.h>

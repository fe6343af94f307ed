// PyTorch's name for: rushlight/all.h rushlight/library.h
#pragma once
#include <rushlight/all.h>
#include <rushlight/library.h>

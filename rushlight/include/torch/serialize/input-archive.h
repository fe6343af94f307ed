// PyTorch's name for: rushlight/serialize.h
#pragma once
#include <rushlight/serialize.h>

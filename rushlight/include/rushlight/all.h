// What programs written for PyTorch expect of its largest headers.
#pragma once
#include <rushlight/dispatch.h>
#include <rushlight/functions.h>
#include <rushlight/guards.h>
#include <rushlight/parallel.h>

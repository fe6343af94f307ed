// THO_DISPATCH_V2(type, name, AT_WRAP(body), AT_EXPAND(AT_FLOATING_TYPES), ...) without a library behind it.
#pragma once
#include <rushlight/stable/headeronly.h>

#define THO_DISPATCH_V2(TYPE, NAME, BODY, ...) \
  THO_DISPATCH_SWITCH(TYPE, NAME, RUSHLIGHT_EXPAND(RUSHLIGHT_CASES(AT_WRAP(BODY), __VA_ARGS__)))

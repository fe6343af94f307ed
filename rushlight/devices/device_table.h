/* What a device can do, as C functions: include this in a device written in C, C++, Rust, ... and hand the address of a
 * RushlightDevice to Rushlight from `Device.native()`. A device written in Python gets a table from the core instead,
 * whose functions call its methods.
 *
 * Every function returns 0, or a RushlightStatus; `error` then says why. Work is queued on a stream and done in order;
 * only `synchronize`, `finish` and `allocate` may make the caller wait. `stream` is a handle of `new_stream`'s, or null
 * for the unit's first queue. Functions that may be null say so. They are called with the interpreter lock held, except
 * `synchronize` and `finish`, and `free` and `forget` which may be called from any thread with or without it. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define RUSHLIGHT_DEVICE_VERSION 1

enum RushlightStatus {
  RUSHLIGHT_OK = 0,
  RUSHLIGHT_OUT_OF_MEMORY = 1,
  RUSHLIGHT_FAILED = 2,
  RUSHLIGHT_PYTHON_ERROR = 3
};
enum RushlightWay { RUSHLIGHT_FROM_HOST = 0, RUSHLIGHT_TO_HOST = 1, RUSHLIGHT_WITHIN = 2 };

/* One kernel run. A nest runs iterations begin..end of its outer loop with `params`. A pointwise kernel runs over all
 * of `sizes` (innermost first) with byte strides per operand: strides[operand * pitch + dim]; a device without `nd`
 * gets it as nests of two dims, whose params are [sizes[0], strides of dim 0 per operand, strides of dim 1 per
 * operand]. */
typedef struct RushlightLaunch {
  void* kernel;                  /* what Device.load returned, as an integer */
  int32_t num_operands;
  int32_t num_params;
  void* const*
      operands; /* addresses on the device; host bytes that are the operand itself where constant_bytes is set */
  const int32_t* constant_bytes; /* per operand */
  const int64_t* params;
  int64_t begin, end;
  int32_t ndim;                  /* -1: a nest */
  int32_t pitch;
  const int64_t* sizes;
  const int64_t* strides;
} RushlightLaunch;

typedef struct RushlightDevice {
  uint32_t version;              /* RUSHLIGHT_DEVICE_VERSION */
  uint32_t nd;                   /* whether `launch` takes pointwise kernels of any number of dims */
  void* context;                 /* first argument of every function */
  int (*allocate)(void* context, int unit, size_t nbytes, void** address);
  int (*free)(void* context, int unit, void* address, size_t nbytes);
  int (*copy)(void* context, int unit, void* stream, int way, void* target, const void* source, size_t nbytes);
  int (*launch)(void* context, int unit, void* stream, const RushlightLaunch* launch);
  int (*synchronize)(void* context, int unit,
                     void* stream); /* wait for a stream; may be null: everything is done on return */
  int (*new_stream)(void* context, int unit, int priority,
                    void** stream); /* this and what follows null: one queue per unit */
  int (*record)(void* context, int unit, void* stream, void** event);  /* a mark behind what is queued now */
  int (*wait)(void* context, int unit, void* stream, void* event);     /* the stream goes on when the mark is reached */
  int (*finish)(void* context, int unit, void* event);                 /* the caller goes on when the mark is reached */
  int (*query)(void* context, int unit, void* event, int* reached);
  int (*forget)(void* context, int unit, void* event);
  int (*elapsed)(void* context, int unit, void* start, void* end, double* milliseconds);   /* may be null */
  int (*copy_between)(void* context, int unit, void* stream, void* target, int source_unit, const void* source,
                      size_t nbytes);    /* may be null: through the host */
  const char* (*error)(void* context);   /* the last failure in words, for this thread; may be null */
} RushlightDevice;

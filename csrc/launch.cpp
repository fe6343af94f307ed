// The pointwise launch: broadcast, choose the output layout, coalesce dims, run the kernel over two inner dims.
#include "device.h"
#include "geometry.h"
#include "number.h"
#include "plan.h"
#include "profile.h"
#include "pointwise_loop.h"
#include "pool.h"
#include "unlocked.h"

#include <atomic>

namespace rl {

namespace {

// --- geometry
// -----------------------------------------------------------------------------------------------------------

bool broadcast_shape(Tensor** tensors, int n, int64_t* sizes, int* out_ndim, const char* op) {
  int ndim = 0;
  for (int i = 0; i < n; i++)
    if (tensors[i] && tensors[i]->ndim > ndim) ndim = tensors[i]->ndim;
  for (int d = 0; d < ndim; d++) sizes[d] = 1;
  for (int i = 0; i < n; i++) {
    Tensor* t = tensors[i];
    if (!t) continue;
    for (int d = 0; d < t->ndim; d++) {
      int64_t have = t->sizes()[d];
      int at = ndim - t->ndim + d;
      if (have == sizes[at] || have == 1) continue;
      if (sizes[at] != 1) {
        PyErr_Format(
            PyExc_RuntimeError,
            "%s: The size of tensor a (%lld) must match the size of tensor b (%lld) at non-singleton dimension %d", op,
            static_cast<long long>(sizes[at]), static_cast<long long>(have), at);
        return false;
      }
      sizes[at] = have;
    }
  }
  *out_ndim = ndim;
  return true;
}

// Orders dims from fastest to slowest as the inputs are laid out; ties keep row-major order. `singles`: dims of one
// element have a place in that order too.
void order_dims(Tensor** tensors, int n, const int64_t* sizes, int ndim, int* perm, bool singles = false) {
  for (int i = 0; i < ndim; i++) perm[i] = ndim - 1 - i;
  auto compare = [&](int a, int b) {
    for (int i = 0; i < n; i++) {
      Tensor* t = tensors[i];
      if (!t) continue;
      int pad = ndim - t->ndim;
      int64_t sa = a < pad || (t->sizes()[a - pad] == 1 && !singles) ? 0 : t->strides()[a - pad];
      int64_t sb = b < pad || (t->sizes()[b - pad] == 1 && !singles) ? 0 : t->strides()[b - pad];
      if (sa == 0 || sb == 0) continue;
      if (sa != sb) return sa < sb ? -1 : 1;
      if (sizes[a] > sizes[b]) return 1;
    }
    return 0;
  };
  for (int i = 1; i < ndim; i++) {
    int slot = i;
    for (int j = i - 1; j >= 0; j--) {
      int order = compare(perm[j], perm[slot]);
      if (order > 0) {
        std::swap(perm[j], perm[slot]);
        slot = j;
      } else if (order < 0) {
        break;
      }
    }
  }
}

void fill_strides(Loop& loop, int k, Tensor* t, int ndim, const int* perm) {
  int pad = ndim - t->ndim, size = itemsize(t->dtype);
  loop.ptrs[k] = t->data();
  for (int d = 0; d < ndim; d++) {
    int dim = perm[d] - pad;
    loop.strides[k][d] = dim < 0 || t->sizes()[dim] == 1 ? 0 : t->strides()[dim] * size;
  }
}

void coalesce(Loop& loop) {
  int last = 0;
  for (int d = 1; d < loop.ndim; d++) {
    bool merge = loop.sizes[last] == 1 || loop.sizes[d] == 1;
    if (!merge) {
      merge = true;
      for (int k = 0; k < loop.num && merge; k++)
        merge = loop.strides[k][d] == loop.sizes[last] * loop.strides[k][last];
    }
    if (merge) {
      if (loop.sizes[last] == 1)
        for (int k = 0; k < loop.num; k++) loop.strides[k][last] = loop.strides[k][d];
      loop.sizes[last] *= loop.sizes[d];
    } else {
      last++;
      loop.sizes[last] = loop.sizes[d];
      for (int k = 0; k < loop.num; k++) loop.strides[k][last] = loop.strides[k][d];
    }
  }
  loop.ndim = loop.ndim ? last + 1 : 0;
}

// --- running
// --------------------------------------------------------------------------------------------------------------

struct Run {
  const Loop* loop;
  Kernel kernel;
  int64_t params[1 + 2 * kMaxOperands];
};

void set_params(Run& run) {
  const Loop& loop = *run.loop;
  run.params[0] = loop.ndim ? loop.sizes[0] : 1;
  for (int k = 0; k < loop.num; k++) {
    run.params[1 + k] = loop.ndim ? loop.strides[k][0] : 0;
    run.params[1 + loop.num + k] = loop.ndim > 1 ? loop.strides[k][1] : 0;
  }
}

// One long row: chunks of elements.
void run_flat(void* context, int64_t begin, int64_t end) {
  auto* run = static_cast<Run*>(context);
  const Loop& loop = *run->loop;
  char* ptrs[kMaxOperands];
  int64_t params[1 + 2 * kMaxOperands];
  memcpy(params, run->params, sizeof(int64_t) * (1 + 2 * loop.num));
  params[0] = end - begin;
  for (int k = 0; k < loop.num; k++) ptrs[k] = loop.ptrs[k] + begin * run->params[1 + k];
  run->kernel(ptrs, params, 0, 1);
}

// Many rows: chunks of rows; dims beyond the second are walked here.
void run_rows(void* context, int64_t begin, int64_t end) {
  auto* run = static_cast<Run*>(context);
  const Loop& loop = *run->loop;
  char* ptrs[kMaxOperands];
  for (int64_t row = begin; row < end;) {
    int64_t start = row % loop.sizes[1], rest = row / loop.sizes[1];
    int64_t count = loop.sizes[1] - start < end - row ? loop.sizes[1] - start : end - row;
    memcpy(ptrs, loop.ptrs, sizeof(char*) * loop.num);
    for (int d = 2; d < loop.ndim; d++) {
      int64_t i = rest % loop.sizes[d];
      rest /= loop.sizes[d];
      for (int k = 0; k < loop.num; k++) ptrs[k] += i * loop.strides[k][d];
    }
    run->kernel(ptrs, run->params, start, start + count);
    row += count;
  }
}

void run_loop(const Loop& loop, Kernel kernel) {
  Recorded recorded;
  if (is_recording()) record_kernel(&recorded, reinterpret_cast<const void*>(kernel));
  Run run;
  run.loop = &loop;
  run.kernel = kernel;
  set_params(run);
  int64_t numel = 1;
  for (int d = 0; d < loop.ndim; d++) numel *= loop.sizes[d];
  if (numel == 0) return;
  if (has_short_rows(loop)) return run_short_rows(loop, kernel);
  bool flat = loop.ndim < 2;
  int64_t rows = flat ? numel : numel / loop.sizes[0];
  int64_t grain = flat ? kGrain : std::max<int64_t>(1, kGrain / loop.sizes[0]);
  auto body = flat ? run_flat : run_rows;
  if (rows <= grain) {
    body(&run, 0, rows);
    return;
  }
  Unlocked others_run;
  parallel_for(rows, grain, body, &run);
}

// Plugged-in devices get the coalesced loop as data. Scalars travel by value: their bytes are on the host.
bool run_plugged(const Loop& loop, PyObject* handle, Device device, Tensor** tensors, int num_in) {
  Stream* stream = current_stream(device);
  if (!stream) return false;
  int32_t constant_bytes[kMaxOperands];
  for (int k = 0; k < loop.num; k++) constant_bytes[k] = k < num_in && !tensors[k] ? 16 : 0;
  RushlightLaunch launch{nullptr,        loop.num, 0,          reinterpret_cast<void* const*>(loop.ptrs),
                         constant_bytes, nullptr,  0,          0,
                         loop.ndim,      kMaxDims, loop.sizes, loop.strides[0]};
  return stream_launch(stream, handle, launch);
}

// The divisor's elements, repeated ones once, and the cell where the kernel writes that it met a 0.
bool check_zeros(const Loop& loop, PointwisePlanObject* plan, Device device, const char* op) {
  Stream* stream = current_stream(device);
  Ref name(stream ? PyUnicode_FromString(op) : nullptr);
  char* cell = name ? stream_check(stream, nullptr, name.p) : nullptr;
  if (!cell) return false;
  int64_t sizes[kMaxDims], strides[2][kMaxDims];
  int n = 0;
  for (int d = 0; d < loop.ndim; d++) {
    if (!loop.strides[plan->divisor][d] || loop.sizes[d] == 1) continue;
    sizes[n] = loop.sizes[d], strides[0][n] = loop.strides[plan->divisor][d], strides[1][n] = 0;
    n++;
  }
  void* operands[2] = {loop.ptrs[plan->divisor], cell};
  int32_t constant_bytes[2] = {0, 0};
  RushlightLaunch launch{nullptr, 2, 0, operands, constant_bytes, nullptr, 0, 0, n, kMaxDims, sizes, strides[0]};
  return stream_launch(stream, plan->zero_check, launch);
}

// --- outputs
// --------------------------------------------------------------------------------------------------------------

PyObject* shape_text(const int64_t* sizes, int ndim) {
  Ref tuple(int_tuple(sizes, ndim));
  Ref list(tuple ? PySequence_List(tuple.p) : nullptr);
  return list ? PyObject_Repr(list.p) : nullptr;
}

bool check_written(Tensor* out, Tensor** inputs, int n, const char* op) {
  if (!(out->flags & kDenseNonOverlapping) && has_internal_overlap(out->sizes(), out->strides(), out->ndim)) {
    PyErr_Format(PyExc_RuntimeError, "%s: several elements of the written-to tensor refer to a single memory location. "
                 "Write to tensor.clone().", op);
    return false;
  }
  for (int i = 0; i < n; i++) {
    Tensor* in = inputs[i];
    if (!in || in == out || in->storage != out->storage) continue;
    if (shared_overlap(in, out) == Overlap::Partial) {
      PyErr_Format(PyExc_RuntimeError,
                   "%s: an input and the written-to tensor share a single memory location at different places. "
                   "Write to tensor.clone().",
                   op);
      return false;
    }
  }
  return true;
}

Tensor* allocate_ordered(const int64_t* sizes, int ndim, const int* perm, DType dtype, Device device) {
  int64_t strides[kMaxDims], step = 1;
  bool row_major = true;
  for (int d = 0; d < ndim; d++) {
    row_major &= perm[d] == ndim - 1 - d;
    strides[perm[d]] = step;
    step *= sizes[perm[d]] > 1 ? sizes[perm[d]] : 1;
  }
  return tensor_empty(sizes, row_major ? nullptr : strides, ndim, dtype, device);
}

// A copy of a tensor's layout, where it is dense; else of its order, without the gaps.
Tensor* allocate_like(Tensor* t, DType dtype, Device device) {
  if (t->flags & kDenseNonOverlapping) return tensor_empty(t->sizes(), t->strides(), t->ndim, dtype, device);
  int perm[kMaxDims];
  order_dims(&t, 1, t->sizes(), t->ndim, perm, true);
  return allocate_ordered(t->sizes(), t->ndim, perm, dtype, device);
}

Tensor* allocate_result(PointwisePlanObject* plan, Tensor* first, const int64_t* sizes, int ndim, const int* perm,
                        DType dtype, Device device) {
  if (plan->layout == ResultLayout::Operands || !first) return allocate_ordered(sizes, ndim, perm, dtype, device);
  if (plan->layout == ResultLayout::First) return allocate_like(first, dtype, device);
  if (plan->layout == ResultLayout::Rows || !prefers_channels_last(first->sizes(), first->strides(), first->ndim))
    return tensor_empty(sizes, nullptr, ndim, dtype, device);
  int order[5] = {1, ndim - 1, ndim - 2, ndim - 3 > 1 ? ndim - 3 : 0, 0};
  return allocate_ordered(sizes, ndim, order, dtype, device);
}

// All operands dense row-major with one shape, or single elements: one flat run without any ordering.
bool try_flat(PointwisePlanObject* plan, PointwiseCall& call, Device device, Loop& loop, bool* failed) {
  Tensor* ref = nullptr;
  for (int i = 0; i < plan->num_in; i++) {
    Tensor* t = call.tensors[i];
    if (t && (!ref || t->ndim > ref->ndim || (t->ndim == ref->ndim && t->numel > ref->numel))) ref = t;
  }
  for (int j = 0; j < plan->num_out; j++)   // a given output may be larger than every input: copy_, fill_
    if (Tensor* t = call.outs[j])
      if (!ref || t->ndim > ref->ndim || (t->ndim == ref->ndim && t->numel > ref->numel)) ref = t;
  if (!ref) return false;
  auto matches = [&](Tensor* t) {
    return t == ref || (t->ndim == ref->ndim && !memcmp(t->sizes(), ref->sizes(), sizeof(int64_t) * ref->ndim));
  };
  if (!ref->contiguous()) return false;
  for (int i = 0; i < plan->num_in; i++) {
    Tensor* t = call.tensors[i];
    if (!t) continue;
    bool single = t->numel == 1 && t->ndim <= ref->ndim;
    if (!single && !(t->contiguous() && matches(t))) return false;
    loop.ptrs[i] = t->data();
    loop.strides[i][0] = t->numel == 1 ? 0 : itemsize(t->dtype);
  }
  for (int j = 0; j < plan->num_out; j++)
    if (call.outs[j] && !(call.outs[j]->contiguous() && matches(call.outs[j]))) return false;
  for (int j = 0; j < plan->num_out; j++) {
    if (!call.outs[j]) {
      call.outs[j] = plan->layout == ResultLayout::First
                         ? allocate_like(ref, plan->out_dtype[j], device)
                         : tensor_empty(ref->sizes(), nullptr, ref->ndim, plan->out_dtype[j], device);
      if (!call.outs[j]) return *failed = true, false;
    }
    int k = plan->num_in + j;
    loop.ptrs[k] = call.outs[j]->data();
    loop.strides[k][0] = itemsize(plan->out_dtype[j]);
  }
  loop.ndim = 1;
  loop.sizes[0] = ref->numel;
  return true;
}

bool plan_general(PointwisePlanObject* plan, PointwiseCall& call, Device device, Loop& loop, const char* op) {
  int64_t sizes[kMaxDims];
  int perm[kMaxDims], ndim;
  Tensor* all[kMaxOperands];
  int num = 0;
  for (int j = 0; j < plan->num_out; j++)
    if (call.outs[j]) all[num++] = call.outs[j];
  int num_given = num;
  for (int i = 0; i < plan->num_in; i++) all[num++] = call.tensors[i];
  if (!broadcast_shape(all, num, sizes, &ndim, op)) return false;
  for (int j = 0; j < num_given; j++) {
    Tensor* out = all[j];
    if (out->ndim != ndim || memcmp(out->sizes(), sizes, sizeof(int64_t) * ndim)) {
      Ref have(shape_text(out->sizes(), out->ndim)), want(shape_text(sizes, ndim));
      if (have && want)
        PyErr_Format(PyExc_RuntimeError, "%s: output with shape %U doesn't match the broadcast shape %U", op, have.p,
                     want.p);
      return false;
    }
  }
  order_dims(all, num, sizes, ndim, perm);
  for (int j = 0; j < plan->num_out; j++) {
    if (call.outs[j]) continue;
    call.outs[j] = allocate_result(plan, call.tensors[0], sizes, ndim, perm, plan->out_dtype[j], device);
    if (!call.outs[j]) return false;
  }
  loop.ndim = ndim;
  for (int d = 0; d < ndim; d++) loop.sizes[d] = sizes[perm[d]];
  for (int i = 0; i < plan->num_in; i++)
    if (call.tensors[i]) fill_strides(loop, i, call.tensors[i], ndim, perm);
    else
      for (int d = 0; d < ndim; d++) loop.strides[i][d] = 0;
  for (int j = 0; j < plan->num_out; j++) fill_strides(loop, plan->num_in + j, call.outs[j], ndim, perm);
  coalesce(loop);
  return true;
}

// --- divisors: a kernel cannot raise, so integers that divide are looked at first ------------------------------------

struct ZeroScan {
  const char* data;
  int64_t count, stride;   // stride in bytes
  int width;
  std::atomic<bool> found{false};
};

template <class T>
void scan_run(ZeroScan& scan, int64_t begin, int64_t end) {
  bool zero = false;
  const char* at = scan.data + begin * scan.stride;
  for (int64_t i = begin; i < end; i++, at += scan.stride) {
    T value;
    memcpy(&value, at, sizeof value);
    zero |= value == 0;
  }
  if (zero) scan.found.store(true, std::memory_order_relaxed);
}

void scan_chunk(void* context, int64_t begin, int64_t end) {
  auto& scan = *static_cast<ZeroScan*>(context);
  switch (scan.width) {
    case 1: return scan_run<uint8_t>(scan, begin, end);
    case 2: return scan_run<uint16_t>(scan, begin, end);
    case 4: return scan_run<uint32_t>(scan, begin, end);
    default: return scan_run<uint64_t>(scan, begin, end);
  }
}

bool has_zero(const Loop& loop, int operand, DType dtype) {
  int dims[kMaxDims], n = 0;
  for (int d = 0; d < loop.ndim; d++)
    if (loop.strides[operand][d] && loop.sizes[d] > 1) dims[n++] = d;   // repeated elements are looked at once
  int64_t rows = 1;
  for (int k = 1; k < n; k++) rows *= loop.sizes[dims[k]];
  ZeroScan scan{loop.ptrs[operand], n ? loop.sizes[dims[0]] : 1, n ? loop.strides[operand][dims[0]] : 0,
                itemsize(dtype)};
  for (int64_t row = 0; row < rows && !scan.found; row++) {
    const char* at = loop.ptrs[operand];
    int64_t rest = row;
    for (int k = 1; k < n; k++) {
      at += rest % loop.sizes[dims[k]] * loop.strides[operand][dims[k]];
      rest /= loop.sizes[dims[k]];
    }
    scan.data = at;
    parallel_for(scan.count, 1 << 16, scan_chunk, &scan);
  }
  return scan.found;
}

}  // namespace

bool broadcasts_to(Tensor** tensors, int count, Tensor* out) {
  int ndim = 0;
  for (int i = 0; i < count; i++)
    if (tensors[i] && tensors[i]->ndim > ndim) ndim = tensors[i]->ndim;
  if (ndim != out->ndim) return false;
  for (int d = 0; d < ndim; d++) {
    int64_t size = 1;
    for (int i = 0; i < count; i++) {
      int at = tensors[i] ? d - ndim + tensors[i]->ndim : -1;
      if (at < 0 || tensors[i]->sizes()[at] == 1) continue;
      if (size != 1 && size != tensors[i]->sizes()[at]) return false;
      size = tensors[i]->sizes()[at];
    }
    if (size != out->sizes()[d]) return false;
  }
  return true;
}

static bool refuse_number(PyObject* number, DType dtype, const char* op) {
  PyErr_Format(PyExc_RuntimeError, "%s: value %R cannot be converted to type %s without overflow", op, number,
               info(dtype).name);
  return false;
}

// PyTorch reads the one element of such a tensor as a number, on the host.
static bool element_fits(Tensor* t, DType dtype, const char* op) {
  if (t->dtype == dtype || t->numel != 1 || t->device.type != kCPU || !t->storage->data) return true;
  Ref number(load_number(t->data(), t->dtype));
  return number && (number_fits(number.p, dtype) || refuse_number(number.p, dtype, op));
}

// A number becomes an element of the type that the kernel loads. PyTorch writes a tensor of one element by another way,
// which lets narrow floats overflow to infinity.
static bool pack_number(PointwisePlanObject* plan, int i, PyObject* number, Tensor* out, char* element,
                        const char* op) {
  DType via = plan->via[i];
  bool checked = plan->fits[i] != Fits::Unchecked;
  if (plan->fits[i] == Fits::ManyElements && (via == DType::F16 || via == DType::BF16) && out->numel == 1)
    checked = !number_fits(number, DType::F32);
  if (store_rounded(number, via, plan->in_dtype[i], element, checked ? Overflow::Fit : Overflow::Wrap)) return true;
  return PyErr_ExceptionMatches(PyExc_RuntimeError) ? refuse_number(number, via, op) : false;
}

bool pointwise_launch(PointwisePlanObject* plan, PointwiseCall& call, Device device, const char* op) {
  Loop loop;
  alignas(16) char scalars[16][16];
  loop.num = plan->num_in + plan->num_out;
  loop.num_in = plan->num_in;
  for (int k = 0; k < loop.num; k++)
    loop.item[k] = itemsize(k < plan->num_in ? plan->in_dtype[k] : plan->out_dtype[k - plan->num_in]);
  Tensor* owned[8];
  for (int i = 0; i < plan->num_in; i++)
    if (call.tensors[i] && !tensor_readable(call.tensors[i], op)) return false;
  for (int j = 0; j < plan->num_out; j++) {
    owned[j] = call.outs[j];
    if (!call.outs[j]) continue;
    if (!tensor_readable(call.outs[j], op)) return false;
    if (!check_written(call.outs[j], call.tensors, plan->num_in, op)) return false;
  }
  bool failed = false;
  bool ready = try_flat(plan, call, device, loop, &failed);
  if (!ready && !failed) ready = plan_general(plan, call, device, loop, op);
  // Numbers go in last: planning fills the pointers of tensors only.
  for (int i = 0; ready && i < plan->num_in; i++) {
    if (call.tensors[i]) {
      if (plan->fits[i] == Fits::TensorsToo) ready = element_fits(call.tensors[i], plan->out_dtype[0], op);
      continue;
    }
    ready = pack_number(plan, i, call.scalars[i], call.outs[0], scalars[i], op);
    loop.ptrs[i] = scalars[i];
    for (int d = 0; d < loop.ndim; d++) loop.strides[i][d] = 0;
  }
  if (ready && plan->divisor >= 0 && kDevices[device.type].has_data && call.outs[0]->numel) {
    bool on_device = plan->zero_check && call.tensors[plan->divisor];
    if (on_device) {
      ready = check_zeros(loop, plan, device, op);
    } else if (has_zero(loop, plan->divisor, plan->in_dtype[plan->divisor])) {
      PyErr_Format(PyExc_RuntimeError, "ZeroDivisionError: %s: an integer was divided by 0", op);
      ready = false;
    }
  }
  if (ready && kDevices[device.type].has_data && call.outs[0]->numel) {
    if (plan->handle) ready = run_plugged(loop, plan->handle, device, call.tensors, plan->num_in);
    else run_loop(loop, plan->kernel);
  }
  if (!ready)
    for (int j = 0; j < plan->num_out; j++)
      if (!owned[j] && call.outs[j]) Py_CLEAR(call.outs[j]);
  return ready;
}

}  // namespace rl

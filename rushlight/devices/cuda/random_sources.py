"""Laws of random numbers in CUDA C: those that PyTorch draws with NVIDIA's functions of doubles, or with cuRAND's laws.

Enters: the type of the elements. Leaves: texts for `sources.load`, with the operands and parameters of the generated
kernels that they stand in for (codegen/philox.py and philox_walks.py), or nothing where those are exact already.
"""

from __future__ import annotations

from .sources import ARGUMENTS, EACH

PAIRS = {"normal": "curand_normal2_double", "log_normal": "curand_normal2_double"}
# a number of the law, given a drawn one `x` and the law's two numbers `a` and `b`
LAWS = {
    "normal": "x * b + a",
    "log_normal": "exp(x * b + a)",
    "exponential": "-1.0 / a * (x >= 1.0 - SMALL / 2 ? -SMALL / 2 : log(x))",
    "cauchy": "a + b * tan(PI * ((x > 1.0 - SMALL ? 1.0 - SMALL : x < SMALL ? SMALL : x) - 0.5))",
    "geometric": "ceil(log(x) / log(1.0 - a))",
}
# C's type of elements, the header it comes from, the type that is computed in
TYPES = {
    "f32": ("float", "", "float"), "f64": ("double", "", "double"),
    "f16": ("__half", "#include <cuda_fp16.h>", "float"),
    "bf16": ("__nv_bfloat16", "#include <cuda_bf16.h>", "float"),
}  # fmt: skip
STATE = "curandStatePhilox4_32_10_t state;"


def fill_source(law: str) -> str:
    """Doubles of a law, two from each draw; the parameters are those of `philox.fill_nest`."""
    return f"""#include <curand_kernel.h>
#define SMALL 2.220446049250313e-16
#define PI 3.141592653589793
__device__ inline double number(double x, double a, double b) {{ return {LAWS[law]}; }}
extern "C" __global__ void random_{law}(double* out, long long n, long long lanes, long long counter, long long seed,
                                        long long first, long long second, {ARGUMENTS}) {{
  double a = __longlong_as_double(first), b = __longlong_as_double(second);
  {EACH} {{
    long long turn = i / lanes, lane = i % lanes, at = turn * 2 * lanes + lane;
    {STATE}
    curand_init(seed, lane, (counter + turn) * 4, &state);
    double2 drawn = {PAIRS.get(law, "curand_uniform2_double")}(&state);
    if (at < n) out[at] = number(drawn.x, a, b);
    if (at + lanes < n) out[at + lanes] = number(drawn.y, a, b);
  }}
}}
"""


def walk_head(code: str, name: str) -> str:
    kind, header, wide = TYPES[code]
    return f"""#include <curand_kernel.h>
{header}
typedef {kind} Element;
typedef {wide} Wide;
extern "C" __global__ void {name}(const Element* given, Element* out, long long n, long long counter, long long seed,
                                  {ARGUMENTS}) {{
  {EACH} {{
    {STATE}
    curand_init(seed, i, counter * 4, &state);
"""


def poisson_source(code: str) -> str:
    """Numbers of events."""
    wide = TYPES[code][2]
    return walk_head(code, "random_poisson") + f"""
    out[i] = Element(({wide})curand_poisson(&state, (double)({wide})given[i]));
  }}
}}
"""


def gamma_source(code: str, least: float) -> str:
    """Gamma numbers, by Marsaglia and Tsang's method; a shape below one is raised by one, and the number scaled."""
    return walk_head(code, "random_gamma") + f"""
    Element shape = given[i];
    Wide scale = 1.0f, result = 0.0f;
    bool done = (Wide)shape == 0.0f;
    if (!done && (Wide)shape < 1.0f) {{
      scale = pow(1 - (Wide)curand_uniform(&state), 1.0f / (Wide)shape);
      shape = Element((Wide)shape + 1.0f);
    }}
    const Wide d = (Wide)shape - 1.0f / 3.0f, c = 1.0f / sqrt(9.0f * d);
    while (!done) {{
      Wide x = curand_normal(&state), y = 1.0f + c * x;
      if (y <= 0) continue;
      const Wide v = y * y * y, u = 1 - (Wide)curand_uniform(&state), square = x * x;
      done = u < 1.0f - 0.0331f * square * square || log(u) < 0.5f * square + d * (1.0f - v + log(v));
      if (done) result = scale * d * v;
    }}
    const Element least = Element((Wide){least!r}), found = Element(result);
    out[i] = (Wide)least > (Wide)found ? least : found;
  }}
}}
"""

"""Laws of random numbers in CUDA C: those that PyTorch draws with NVIDIA's functions of doubles, or with cuRAND's laws.

Enters: the type of the elements. Leaves: texts for `sources.load`, with the operands and parameters of the generated
kernels that they stand in for (codegen/nvptx/philox.py and philox_walks.py), or nothing where those are exact already.
"""

from __future__ import annotations

from .sources import ARGUMENTS, EACH, WAIT

NORMALS = ("normal", "log_normal")
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
}
# Philox's words, and numbers made of them as cuRAND makes them: NVRTC knows the functions without any header.
PRELUDE = """struct Words {
  unsigned long long counter, sequence, seed;
  unsigned block[4];
  int used = 0;
  bool has_spare = false;
  float spare;
  __device__ Words(unsigned long long counter, unsigned long long sequence, unsigned long long seed)
      : counter(counter), sequence(sequence), seed(seed) {}
  __device__ void draw() {
    unsigned c0 = counter, c1 = counter >> 32, c2 = sequence, c3 = sequence >> 32, k0 = seed, k1 = seed >> 32;
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
      unsigned long long first = 0xD2511F53ull * c0, second = 0xCD9E8D57ull * c2;
      c0 = (unsigned)(second >> 32) ^ c1 ^ k0;
      c2 = (unsigned)(first >> 32) ^ c3 ^ k1;
      c1 = (unsigned)second;
      c3 = (unsigned)first;
    }
    block[0] = c0, block[1] = c1, block[2] = c2, block[3] = c3;
    counter++;
  }
  __device__ unsigned next() {
    if (used % 4 == 0) draw();
    return block[used++ % 4];
  }
  __device__ float uniform() { return fmaf((float)next(), 0x1p-32f, 0x1p-33f); }
  __device__ float normal() {      // pairs, of which the second waits
    if (has_spare) return has_spare = false, spare;
    unsigned a = next(), b = next();
    const float turn = 0x1p-32f * 6.2831855f;
    float length = sqrtf(-2.0f * logf(fmaf((float)a, 0x1p-32f, 0x1p-33f))), sine, cosine;
    __sincosf(fmaf((float)b, turn, turn / 2), &sine, &cosine);
    has_spare = true, spare = cosine * length;
    return sine * length;
  }
  __device__ double wide(int at, double scale) {
    unsigned long long bits = block[at] ^ ((unsigned long long)block[at + 1] << 21);
    return fma((double)bits, scale, scale / 2);
  }
};
"""


def fill_source(law: str) -> str:
    """Doubles of a law, two from each draw; the parameters are those of `philox.fill_nest`."""
    normal = """double length = sqrt(-2.0 * log(words.wide(0, 0x1p-53))), sine, cosine;
    sincospi(words.wide(2, 0x1p-52), &sine, &cosine);
    double one = sine * length, other = cosine * length;"""
    plain = "double one = words.wide(0, 0x1p-53), other = words.wide(2, 0x1p-53);"
    return f"""{PRELUDE}
#define SMALL 2.220446049250313e-16
#define PI 3.141592653589793
__device__ inline double number(double x, double a, double b) {{ return {LAWS[law]}; }}
extern "C" __global__ void random_{law}(double* out, long long n, long long lanes, long long counter, long long seed,
                                        long long first, long long second, {ARGUMENTS}) {{
{WAIT}
  double a = __longlong_as_double(first), b = __longlong_as_double(second);
  {EACH} {{
    long long turn = i / lanes, lane = i % lanes, at = turn * 2 * lanes + lane;
    Words words(counter + turn, lane, seed);
    words.draw();
    {normal if law in NORMALS else plain}
    if (at < n) out[at] = number(one, a, b);
    if (at + lanes < n) out[at + lanes] = number(other, a, b);
  }}
}}
"""


def from_memory(text: str) -> str:
    """The kernel with one operand more, behind the others, as `philox.from_memory` adds it."""
    text = text.replace(" long long n,", " const long long* start, long long n,", 1)
    return text.replace(WAIT, f"{WAIT}  seed = start[1], counter += start[0];\n", 1)


def walk_head(code: str, name: str, prelude: str) -> str:
    kind, header, wide = TYPES[code]
    return f"""{prelude}
{header}
typedef {kind} Element;
typedef {wide} Wide;
extern "C" __global__ void {name}(const Element* given, Element* out, long long n, long long counter, long long seed,
                                  {ARGUMENTS}) {{
{WAIT}
  {EACH} {{
"""


def poisson_source(code: str) -> str:
    """Numbers of events: the vendor's law, from its header."""
    return walk_head(code, "random_poisson", "#include <curand_kernel.h>") + """
    curandStatePhilox4_32_10_t state;
    curand_init(seed, i, counter * 4, &state);
    out[i] = Element((Wide)curand_poisson(&state, (double)(Wide)given[i]));
  }
}
"""


def gamma_source(code: str, least: float) -> str:
    """Gamma numbers, by Marsaglia and Tsang's method; a shape below one is raised by one, and the number scaled."""
    return walk_head(code, "random_gamma", PRELUDE) + f"""
    Words words(counter, i, seed);
    Element shape = given[i];
    Wide scale = 1.0f, result = 0.0f;
    bool done = (Wide)shape == 0.0f;
    if (!done && (Wide)shape < 1.0f) {{
      scale = pow(1 - (Wide)words.uniform(), 1.0f / (Wide)shape);
      shape = Element((Wide)shape + 1.0f);
    }}
    const Wide d = (Wide)shape - 1.0f / 3.0f, c = 1.0f / sqrt(9.0f * d);
    while (!done) {{
      Wide x = words.normal(), y = 1.0f + c * x;
      if (y <= 0) continue;
      const Wide v = y * y * y, u = 1 - (Wide)words.uniform(), square = x * x;
      done = u < 1.0f - 0.0331f * square * square || log(u) < 0.5f * square + d * (1.0f - v + log(v));
      if (done) result = scale * d * v;
    }}
    const Element least = Element((Wide){least!r}), found = Element(result);
    out[i] = (Wide)least > (Wide)found ? least : found;
  }}
}}
"""

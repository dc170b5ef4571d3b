// What generated kernels need beyond CUDA C++ itself. It goes in front of them as text and includes nothing, since
// NVRTC has no headers of its own.
#define TC_FUNCTION static __device__ __forceinline__

// ---- integers: arithmetic wraps around, as numpy's does, where C leaves overflow undefined ----

template <class T> TC_FUNCTION T tc_add(T a, T b) { return (T)((unsigned long long)a + (unsigned long long)b); }
template <class T> TC_FUNCTION T tc_sub(T a, T b) { return (T)((unsigned long long)a - (unsigned long long)b); }
template <class T> TC_FUNCTION T tc_mul(T a, T b) { return (T)((unsigned long long)a * (unsigned long long)b); }
template <class T> TC_FUNCTION T tc_neg(T a) { return (T)(0ULL - (unsigned long long)a); }
template <class T> TC_FUNCTION T tc_abs(T a) { return a < 0 ? tc_neg(a) : a; }

// Python's division: rounded down. By zero it is zero.
template <class T> TC_FUNCTION T tc_floordiv(T a, T b) {
  if (b == 0) return 0;
  if (b == (T)-1 && (T)-1 < 0) return tc_neg(a);
  T q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}
template <class T> TC_FUNCTION T tc_mod(T a, T b) {
  if (b == 0 || (b == (T)-1 && (T)-1 < 0)) return 0;
  T r = a % b;
  return (r != 0 && (r < 0) != (b < 0)) ? r + b : r;
}

// a to the power n; a negative power is a fraction, rounded towards zero.
template <class T> TC_FUNCTION T tc_pow(T a, T n) {
  if (n < 0) return a == 1 ? 1 : a == (T)-1 ? (n % 2 ? -1 : 1) : 0;
  unsigned long long power = 1, square = a;
  for (; n > 0; n >>= 1, square *= square)
    if (n & 1) power *= square;
  return (T)power;
}

// Shifts see the bits: zeros come in whatever the sign, and a count beyond the width leaves nothing.
template <class T> TC_FUNCTION bool tc_within(T n) { return (unsigned long long)n < 8 * sizeof(T); }
template <class T> TC_FUNCTION T tc_shl(T a, T n) { return tc_within(n) ? (T)((unsigned long long)a << n) : 0; }
template <class T> TC_FUNCTION T tc_shr(T a, T n) {
  return tc_within(n) ? (T)(((unsigned long long)a & (~0ULL >> (64 - 8 * sizeof(T)))) >> n) : 0;
}

// ---- floats ----

// A nan operand gives nan, unlike fmaxf.
template <class T> TC_FUNCTION T tc_maximum(T a, T b) { return (a > b || a != a) ? a : b; }
template <class T> TC_FUNCTION T tc_minimum(T a, T b) { return (a < b || a != a) ? a : b; }

// Python's rules, as numpy spells them: the remainder has the divisor's sign, and the quotient fits to it.
TC_FUNCTION float tc_mod(float a, float b) {
  float r = fmodf(a, b);
  if (b == 0) return r;
  return r == 0 ? copysignf(0.f, b) : (r < 0) != (b < 0) ? r + b : r;
}
TC_FUNCTION double tc_mod(double a, double b) {
  double r = fmod(a, b);
  if (b == 0) return r;
  return r == 0 ? copysign(0., b) : (r < 0) != (b < 0) ? r + b : r;
}
TC_FUNCTION float tc_floordiv(float a, float b) {
  if (b == 0) return a / b;
  float r = fmodf(a, b), q = (a - r) / b;
  if (r != 0 && (r < 0) != (b < 0)) q -= 1;
  if (q == 0) return copysignf(0.f, a / b);
  float whole = floorf(q);
  return q - whole > 0.5f ? whole + 1 : whole;
}
TC_FUNCTION double tc_floordiv(double a, double b) {
  if (b == 0) return a / b;
  double r = fmod(a, b), q = (a - r) / b;
  if (r != 0 && (r < 0) != (b < 0)) q -= 1;
  if (q == 0) return copysign(0., a / b);
  double whole = floor(q);
  return q - whole > 0.5 ? whole + 1 : whole;
}

// Of |x|, so that exp does not overflow and results down to the smallest are right.
TC_FUNCTION float tc_sigmoid(float x) {
  float e = expf(-fabsf(x));
  return (x < 0 ? e : 1.f) / (1.f + e);
}
TC_FUNCTION double tc_sigmoid(double x) {
  double e = exp(-fabs(x));
  return (x < 0 ? e : 1.) / (1. + e);
}

// ---- from float to integer: truncated, out of range the nearest end, nan 0 ----

TC_FUNCTION int tc_int(double x) {
  return x != x ? 0 : x >= 2147483647. ? 2147483647 : x <= -2147483648. ? -2147483647 - 1 : (int)x;
}
TC_FUNCTION int tc_int(float x) {
  return x != x ? 0 : x >= 2147483648.f ? 2147483647 : x <= -2147483648.f ? -2147483647 - 1 : (int)x;
}
template <class T> TC_FUNCTION long long tc_int64(T x) {
  if (x != x) return 0;
  if (x >= (T)9223372036854775808.) return 9223372036854775807LL;
  return x <= (T)-9223372036854775808. ? -9223372036854775807LL - 1 : (long long)x;
}

// ---- 16-bit floats: stored as bits, computed as float, rounded to nearest even after every operation ----

struct tc_half {
  unsigned short bits;
};
struct tc_bfloat {
  unsigned short bits;
};

TC_FUNCTION float tc_float(tc_bfloat h) { return __int_as_float((int)((unsigned)h.bits << 16)); }
TC_FUNCTION float tc_float(tc_half h) {
  // A float's exponent counts from 127 and a half's from 15: multiplying rebiases, subnormals included.
  unsigned sign = (unsigned)(h.bits & 0x8000) << 16, rest = (unsigned)(h.bits & 0x7fff) << 13;
  float scaled = __int_as_float((int)rest) * 5.192296858534828e+33f;
  unsigned bits = rest >= 0x0f800000 ? 0x7f800000 | rest : (unsigned)__float_as_int(scaled);
  return __int_as_float((int)(sign | bits));
}

TC_FUNCTION tc_bfloat tc_to_bfloat(float x) {
  unsigned u = (unsigned)__float_as_int(x);
  tc_bfloat h;
  h.bits = (unsigned short)(x != x ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16);
  return h;
}
TC_FUNCTION tc_half tc_to_half(float x) {
  unsigned u = (unsigned)__float_as_int(x), magnitude = u & 0x7fffffff, rounded;
  if (magnitude > 0x7f800000) rounded = 0x7e00;
  else if (magnitude >= 0x477ff000) rounded = 0x7c00;
  // Adding 0.5 lines a small number's bits up with those of a subnormal half, and rounds.
  else if (magnitude < 0x38800000)
    rounded = (unsigned)__float_as_int(__int_as_float((int)magnitude) + 0.5f) - 0x3f000000;
  else rounded = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
  tc_half h;
  h.bits = (unsigned short)((u >> 16 & 0x8000) | rounded);
  return h;
}
// A neighbouring float, with an odd last bit if inexact: rounding that again is as rounding x once.
TC_FUNCTION float tc_odd(double x) {
  float near = (float)x;
  int bits = __float_as_int(near);
  if ((double)near == x || x != x || bits & 1) return near;
  return __int_as_float(fabs(x) > fabs((double)near) ? bits + 1 : bits - 1);
}

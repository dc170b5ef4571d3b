// Runs CUDA C++ kernels on the CPU, so that generated code can be tested where there is no GPU.
//
//   g++ -std=c++17 -O1 -w -U_FORTIFY_SOURCE -ffp-contract=off -shared -fPIC -include cuda_shim.h -x c++ kernels.cu
//
// Every CUDA thread is a fiber: a stack of its own and a saved context. The threads of a block take turns, switching
// only where they wait for each other, and blocks run one after the other. The order of turns is chosen by the test;
// a kernel that is right gives the same result in all of them. Shared memory is filled with 0xff (a nan) before each
// block, so that a read before the write shows.
//
// What this cannot show: races between two threads' accesses that no order of whole turns brings out, bank
// conflicts, the rounding of NVIDIA's math functions, speed.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
// One block runs at a time, so its shared memory can be static; a section of its own lets it be poisoned as a whole.
#define __shared__ static __attribute__((section("cuda_shared")))

extern "C" char __start_cuda_shared[] __attribute__((weak)), __stop_cuda_shared[] __attribute__((weak));

struct uint3 {
  unsigned x, y, z;
};
static uint3 threadIdx, blockIdx, blockDim, gridDim;

namespace shim {

constexpr size_t STACK_BYTES = 128 << 10;
constexpr unsigned MOST_THREADS = 1024;

enum Order { FORWARD, REVERSE, SHUFFLED };

// How a run ended: the values that shim_launch returns.
enum Result { OK = 0, BAD_LAUNCH = 1, DIVERGENT = 2 };

// A kernel with its arguments unpacked: `arguments` points at each value, as for cuLaunchKernel.
using Call = void (*)(void **arguments);

struct Fiber {
  jmp_buf here;
  ucontext_t start;
  char *stack = nullptr;
  bool started = false;   // has a context to go back to, waiting for its next block
  bool finished = false;  // has reached the end of the kernel in this block
};

static std::vector<Fiber> fibers;
static unsigned current;
static jmp_buf scheduler;

static Call call;
static void **arguments;

// The barrier of __syncthreads: how many threads wait there, and in which line of the source. CUDA wants all threads
// of the block at the same one; where some have left or wait elsewhere, the block is divergent.
static unsigned alive, waiting, generation;
static int waiting_line;
static bool divergent;

static void switch_to_scheduler() {
  if (!_setjmp(fibers[current].here)) _longjmp(scheduler, 1);
}

static void release_if_complete() {
  if (waiting && waiting == alive) {
    divergent |= alive != blockDim.x * blockDim.y * blockDim.z;
    waiting = 0;
    generation++;
  }
}

static void barrier(int line) {
  unsigned mine = generation;
  divergent |= waiting && line != waiting_line;
  waiting_line = line;
  waiting++;
  release_if_complete();
  while (generation == mine) switch_to_scheduler();
}

// What a fiber runs: one kernel thread for each block, for ever.
static void fiber_main() {
  for (;;) {
    call(arguments);
    fibers[current].finished = true;
    alive--;
    release_if_complete();
    switch_to_scheduler();
  }
}

static void resume(unsigned thread) {
  current = thread;
  threadIdx = {thread % blockDim.x, thread / blockDim.x % blockDim.y, thread / (blockDim.x * blockDim.y)};
  if (_setjmp(scheduler)) return;  // the fiber switched back
  Fiber &f = fibers[thread];
  if (f.started) _longjmp(f.here, 1);
  f.started = true;
  getcontext(&f.start);
  f.start.uc_stack.ss_sp = f.stack;
  f.start.uc_stack.ss_size = STACK_BYTES;
  f.start.uc_link = nullptr;
  makecontext(&f.start, fiber_main, 0);
  setcontext(&f.start);
}

// 0 .. n-1 in the order asked for; the shuffle is the same every time.
static std::vector<unsigned> turns(unsigned n, int order) {
  std::vector<unsigned> out(n);
  for (unsigned k = 0; k < n; k++) out[k] = order == REVERSE ? n - 1 - k : k;
  if (order == SHUFFLED)
    for (unsigned k = n, state = 12345; k > 1; k--) {
      state = state * 1664525u + 1013904223u;
      std::swap(out[k - 1], out[(state >> 8) % k]);
    }
  return out;
}

static Result run_block(const std::vector<unsigned> &threads) {
  if (__start_cuda_shared) memset(__start_cuda_shared, 0xff, __stop_cuda_shared - __start_cuda_shared);
  alive = threads.size();
  waiting = 0;
  divergent = false;
  for (Fiber &f : fibers) f.finished = false;
  while (alive)
    for (unsigned t : threads)
      if (!fibers[t].finished) resume(t);
  return divergent ? DIVERGENT : OK;
}

static void make_fibers(unsigned n) {
  for (unsigned k = fibers.size(); k < n; k++) {
    fibers.emplace_back();
    void *stack = mmap(nullptr, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) abort();
    fibers[k].stack = (char *)stack;
  }
}

static Result launch(Call kernel, const unsigned *grid, const unsigned *block, void **kernel_arguments, int order) {
  size_t count = (size_t)block[0] * block[1] * block[2];
  size_t blocks = (size_t)grid[0] * grid[1] * grid[2];
  if (!count || count > MOST_THREADS || !blocks) return BAD_LAUNCH;
  call = kernel;
  arguments = kernel_arguments;
  gridDim = {grid[0], grid[1], grid[2]};
  blockDim = {block[0], block[1], block[2]};
  make_fibers(count);
  std::vector<unsigned> threads = turns(count, order);
  for (unsigned b : turns(blocks, order)) {
    blockIdx = {b % grid[0], b / grid[0] % grid[1], b / (grid[0] * grid[1])};
    if (Result bad = run_block(threads)) return bad;
  }
  return OK;
}

template <class... P, size_t... I> void unpack(void (*kernel)(P...), void **values, std::index_sequence<I...>) {
  kernel(*(P *)values[I]...);
}
template <class... P> void apply(void (*kernel)(P...), void **values) {
  unpack(kernel, values, std::index_sequence_for<P...>());
}

template <class To, class From> static To bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "a value has as many bits as it had");
  To out;
  memcpy(&out, &x, sizeof out);
  return out;
}

}  // namespace shim

// After the kernels, one SHIM_KERNEL(name) for each gives the symbol that shim_launch takes.
#define SHIM_KERNEL(name) \
  extern "C" void shim_##name(void **values) { shim::apply(name, values); }

extern "C" __attribute__((used)) int shim_launch(
    shim::Call kernel, const unsigned *grid, const unsigned *block, void **arguments, int order) {
  return shim::launch(kernel, grid, block, arguments, order);
}

// ---- what the generated code uses of CUDA C++ beyond C's math.h ---------------------------------------------------

#define __syncthreads() shim::barrier(__LINE__)

static inline float __int_as_float(int x) { return shim::bits<float>(x); }
static inline int __float_as_int(float x) { return shim::bits<int>(x); }
static inline double __longlong_as_double(long long x) { return shim::bits<double>(x); }
static inline long long __double_as_longlong(double x) { return shim::bits<long long>(x); }
static inline float rsqrtf(float x) { return 1.f / sqrtf(x); }
static inline double rsqrt(double x) { return 1. / sqrt(x); }

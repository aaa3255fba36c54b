// Inside the CPU kernels: work in versions for several CPUs, so that one program suits them all.
#pragma once

namespace hidup::kernels {

// Whether this CPU has AVX-512, and may use it (arithmetic.h).
bool use_avx512();

#if defined(__x86_64__) && !defined(__AVX512F__)
// flatten: what work() calls is compiled for AVX-512 with it. Code that is not inlined stays as it
// is, a parallel region too: regions have this within them.
template <typename Work>
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"), gnu::flatten,
  gnu::noinline]] void
with_avx512(const Work& work) {
  work();
}
#endif

// work(), as vector code for the CPU that runs it.
template <typename Work>
void versioned(const Work& work) {
#if defined(__x86_64__) && !defined(__AVX512F__)
  if (use_avx512()) {
    return with_avx512(work);
  }
#endif
  work();
}

}  // namespace hidup::kernels

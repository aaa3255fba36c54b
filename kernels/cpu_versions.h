// Versions of work for several CPUs, so that one program suits them all. For CPU kernels.
#pragma once

namespace hidup::kernels {

// Returns true if this CPU has AVX-512 and may use it (arithmetic.h).
bool use_avx512();

#if defined(__x86_64__) && !defined(__AVX512F__)
// flatten: compiles the functions that work() calls for AVX-512, too. Code that is not inlined
// stays as it is, also parallel regions, so those use versioned() inside.
template <typename Work>
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"), gnu::flatten,
  gnu::noinline]] void
with_avx512(const Work& work) {
  work();
}
#endif

// Runs work() as vector code for the running CPU.
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

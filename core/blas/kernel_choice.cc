// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Chooses OpenBLAS's kernels on x86-64 processors that are newer than OpenBLAS. OpenBLAS identifies a processor by its
// family and model. If OpenBLAS does not know them, it uses its oldest kernels. These kernels, named Prescott, use only
// SSE3 and take many times as long as kernels for AVX2. The linker redirects OpenBLAS's calls of getenv, and of the
// function that chooses kernels, to the functions of this file.
#if !defined(SHAMPOO_SYSTEM_BLAS) && defined(__x86_64__)

#include <cstring>

extern "C" {
extern void* gotoblas;  // OpenBLAS's table of kernels
char* gotoblas_corename();
void __real_gotoblas_dynamic_init();    // NOLINT(bugprone-reserved-identifier)
char* __real_getenv(const char* name);  // NOLINT(bugprone-reserved-identifier)
void __wrap_gotoblas_dynamic_init();    // NOLINT(bugprone-reserved-identifier)
char* __wrap_getenv(const char* name);  // NOLINT(bugprone-reserved-identifier)
}

namespace {

constexpr char kVariable[] = "OPENBLAS_CORETYPE";

// If `value` is not nullptr, OpenBLAS reads it as the value of the environment variable kVariable. `value` is set
// only while OpenBLAS chooses its kernels: when this library is loaded, before the library has threads.
char* value = nullptr;

// Returns the name of the best kernels for this processor. Returns nullptr if the processor lacks AVX2 or FMA; OpenBLAS
// then keeps its oldest kernels.
char* BestKernels() {
  static char skylake[] = "SkylakeX";
  static char haswell[] = "Haswell";
  __builtin_cpu_init();  // needed because BestKernels() may run before the constructors of the compiler's runtime
  // __builtin_cpu_supports also checks that the operating system saves the registers.
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return nullptr;
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512vl");
  return has_avx512 ? skylake : haswell;
}

}  // namespace

extern "C" char* __wrap_getenv(const char* name) {  // NOLINT(bugprone-reserved-identifier)
  return value != nullptr && std::strcmp(name, kVariable) == 0 ? value : __real_getenv(name);
}

extern "C" void __wrap_gotoblas_dynamic_init() {  // NOLINT(bugprone-reserved-identifier)
  __real_gotoblas_dynamic_init();
  const bool is_oldest = std::strcmp(gotoblas_corename(), "Prescott") == 0;
  if (!is_oldest || __real_getenv(kVariable) != nullptr) return;
  value = BestKernels();
  if (value == nullptr) return;
  gotoblas = nullptr;
  __real_gotoblas_dynamic_init();
  value = nullptr;
}

#endif

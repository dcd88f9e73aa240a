// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A host (a program that uses the library) that exports its own BLAS, LAPACK and Fortran runtime from the executable,
// where the dynamic linker looks first. libshampoo must not call any of these functions. Its results must be
// bit-identical to those in the host plain.c, which defines none of these functions.
//
// Usage: own_cblas <program of plain.c>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "tests/embed/require.h"
#include "tests/embed/trainer.h"

// Ends the program. Each function that OWN defines ignores its arguments and calls called().
static void called(const char* name) {
  fprintf(stderr, "libshampoo called the host's %s\n", name);
  _exit(1);
}

#define OWN(name)  \
  void name(void); \
  void name(void) { called(#name); }

OWN(cblas_sgemm)
OWN(cblas_dgemm)
OWN(cblas_ssyrk)
OWN(cblas_dsyrk)
OWN(cblas_sgemv)
OWN(cblas_dgemv)
OWN(sgemm_)
OWN(dgemm_)
OWN(ssyrk_)
OWN(dsyrk_)
OWN(sgemv_)
OWN(dgemv_)
OWN(ssymv_)
OWN(dsymv_)
OWN(scopy_)
OWN(dcopy_)
OWN(sscal_)
OWN(dscal_)
OWN(snrm2_)
OWN(dnrm2_)
OWN(ssyevd_)
OWN(dsyevd_)
OWN(ssytrd_)
OWN(dsytrd_)
OWN(slamch_)
OWN(dlamch_)
OWN(ilaenv_)
OWN(lsame_)
OWN(xerbla_)
OWN(LAPACKE_ssyevd_work)
OWN(LAPACKE_dsyevd_work)
OWN(LAPACKE_xerbla)
OWN(blas_memory_alloc)
OWN(blas_memory_free)
OWN(blas_shutdown)
OWN(gotoblas_dynamic_init)
OWN(openblas_get_config)
OWN(openblas_get_corename)
OWN(openblas_read_env)
OWN(openblas_env_verbose)
OWN(__wrap_blas_memory_alloc)
OWN(__wrap_blas_memory_free)
OWN(_gfortran_concat_string)

// OpenBLAS finds its kernels through its own pointer of this name. If the library used this host's pointer instead,
// which is NULL, the library would crash.
extern void* gotoblas;
void* gotoblas = NULL;

int main(int argc, char** argv) {
  REQUIRE(argc == 2, "%d arguments: expected 1, the program of plain.c", argc - 1);
  const api functions = api_linked();
  REQUIRE(strstr(functions.build_info(), "\"private\": true") != NULL, "%s", functions.build_info());
  const workload work = workload_default(2);
  const uint64_t own = train(&functions, &work, 6);

  char command[4096];
  snprintf(command, sizeof command, "'%s' 2 6", argv[1]);
  FILE* const output = popen(command, "r");
  REQUIRE(output != NULL, "%s cannot be run", command);
  uint64_t plain = 0;
  const int read = fscanf(output, "%" SCNx64, &plain);
  REQUIRE(pclose(output) == 0 && read == 1, "%s failed", command);
  REQUIRE(own == plain, "hash of the parameters %016" PRIx64 ", in the plain host %016" PRIx64, own, plain);
  return 0;
}

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A host (a program that uses the library) without peculiarities. It links the library, trains, and prints a hash of
// the parameters. The program own_cblas does the same training, runs this program, and compares the two hashes.
//
// Usage: plain <threads> <steps>
#include <inttypes.h>

#include "tests/embed/require.h"
#include "tests/embed/trainer.h"

int main(int argc, char** argv) {
  REQUIRE(argc == 3, "%d arguments: expected threads and steps", argc - 1);
  const api functions = api_linked();
  const workload work = workload_default(atoi(argv[1]));
  REQUIRE(functions.build_info()[0] == '{', "%s", functions.build_info());
  printf("%016" PRIx64 "\n", train(&functions, &work, atoi(argv[2])));
  return 0;
}

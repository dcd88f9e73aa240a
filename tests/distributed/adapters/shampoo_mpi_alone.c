/*
 * Copyright The libshampoo authors.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <shampoo/shampoo_mpi.h>

int main(void) { return 0; }

/*
 * Copyright The libshampoo authors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Checks that shampoo_nccl.h compiles without other headers before it.
 */
#include <shampoo/shampoo_nccl.h>

int main(void) { return 0; }

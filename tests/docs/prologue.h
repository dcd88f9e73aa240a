/*
 * Copyright The libshampoo authors.
 * SPDX-License-Identifier: Apache-2.0
 */
/* Declarations that the C fragments in the documentation may use. check_code.py checks fragments with the compiler but
 * does not link them, so this file defines nothing. */
#include <math.h>
#include <shampoo/shampoo.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern shampoo_config* config;
extern shampoo_plan* plan;
extern shampoo_optimizer* optimizer;
extern shampoo_comm* world;
extern shampoo_status status;
extern int32_t group, index, rank;
extern int64_t bytes, count;
extern int i, step, steps, epoch, epochs;
extern double lr, value;
extern float *weights, *gradients, *updates;
extern void *model_weights, *state, *state_in, *state_out;
extern void print_message(void* user, int32_t level, const char* message);

int Fragment(void);

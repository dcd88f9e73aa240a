// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The type that a program computes in.
#ifndef C_CONV_REAL_H
#define C_CONV_REAL_H

#ifdef C_CONV_FLOAT64
typedef double real;
#else
typedef float real;
#endif

#endif

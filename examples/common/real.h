// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The number type of a program: float, or double with -DREAL=double.
#ifndef EXAMPLES_REAL_H
#define EXAMPLES_REAL_H

#ifndef REAL
#define REAL float
#endif
typedef REAL real;

#endif

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The floating-point type of an example: float, or double if the compiler gets -DREAL=double.
#ifndef EXAMPLES_REAL_H
#define EXAMPLES_REAL_H

#ifndef REAL
#define REAL float
#endif
typedef REAL real;

#endif

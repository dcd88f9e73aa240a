// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Every call of libshampoo can fail, and says why in words.
#ifndef EXAMPLES_STATUS_H
#define EXAMPLES_STATUS_H

#include <shampoo/shampoo.h>

// Ends the program where the status is that of a failure. what: what was tried, for the message.
void check(shampoo_status status, const char* what);

#endif

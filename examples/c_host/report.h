// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Prints the output of a run: a heading, rejected batches, a row for each epoch, and a summary.
#ifndef C_HOST_REPORT_H
#define C_HOST_REPORT_H

#include "digits.h"
#include "network.h"
#include "trainer.h"
#include "with_shampoo.h"

void report_head(const Trainer* trainer, const Digits* digits, const WithShampoo* shampoo);

// Reports a rejected batch. Call this function after trainer_rejected(). `scale_before` is the loss scale before the
// call of trainer_rejected().
void report_rejected(const Trainer* trainer, double scale_before);

// Reports the epoch that has just ended. `accuracy` is the share of test images that are classified correctly.
void report_epoch(const Trainer* trainer, double accuracy);

// Prints the summary. `gradient` and `update` are total times since the start of the program, in seconds: the time to
// compute gradients, and the time that the steps of the optimizer took.
void report_end(const Trainer* trainer, const Network* net, const WithShampoo* shampoo, double gradient, double update);

#endif

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Prints the output of a run: settings, rejected batches, a row for each epoch, and a summary.
#ifndef C_HOST_REPORT_H
#define C_HOST_REPORT_H

#include "digits.h"
#include "network.h"
#include "trainer.h"
#include "with_shampoo.h"

void report_head(const Trainer* trainer, const Digits* digits, const WithShampoo* shampoo);

// Reports a rejected batch. Call this function after trainer_rejected(), with the loss scale before that call.
void report_rejected(const Trainer* trainer, double scale_before);
void report_epoch(const Trainer* trainer, double accuracy);

// Prints the summary. `gradient` and `update` are the seconds that gradients and steps took in this run.
void report_end(const Trainer* trainer, const Network* net, const WithShampoo* shampoo, double gradient, double update);

#endif

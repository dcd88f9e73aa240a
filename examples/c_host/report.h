// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Output of a run.
#ifndef C_HOST_REPORT_H
#define C_HOST_REPORT_H

#include "digits.h"
#include "network.h"
#include "trainer.h"
#include "with_shampoo.h"

void report_head(const Trainer* trainer, const Digits* digits, const WithShampoo* shampoo);

// Call it after trainer_rejected().
void report_rejected(const Trainer* trainer, double scale_before);
void report_epoch(const Trainer* trainer, double accuracy);

// gradient and update are in seconds.
void report_end(const Trainer* trainer, const Network* net, const WithShampoo* shampoo, double gradient, double update);

#endif

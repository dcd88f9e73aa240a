// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// What a run tells.
#ifndef C_HOST_REPORT_H
#define C_HOST_REPORT_H

#include "digits.h"
#include "network.h"
#include "trainer.h"
#include "with_shampoo.h"

void report_head(const Trainer* trainer, const Digits* digits, const WithShampoo* shampoo);

// trainer counts the batch already.
void report_rejected(const Trainer* trainer, double scale_before);
void report_epoch(const Trainer* trainer, double accuracy);

// gradient, update: seconds.
void report_end(const Trainer* trainer, const Network* net, const WithShampoo* shampoo, double gradient, double update);

#endif

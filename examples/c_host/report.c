// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <cblas.h>
#include <stdio.h>

#include "hash.h"
#include "progress.h"

void report_head(const Trainer* trainer, const Digits* digits, const WithShampoo* shampoo) {
  const int version = (int)shampoo_version();
  printf("libshampoo %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
  printf("blas        the program's own, threads: %d\n", openblas_get_num_threads());
  printf("digits      %d training images, %d test images\n", digits->train_count, digits->test_count);
  printf("network     64-128-64-10, tanh, %d parameters in float32, gradients in binary16\n", kValues);
  printf("steps       %d epochs of %d steps with %d images each\n", trainer->epochs, trainer->steps_per_epoch,
         trainer->batch);
  printf("memory      state %.0f KiB, workspace %.0f KiB\n\n", (double)shampoo->state_bytes / 1024,
         (double)shampoo->workspace_bytes / 1024);
}

void report_rejected(const Trainer* trainer, double scale_before) {
  clear_progress();
  printf("batch %4d   rejected because a gradient is not finite: loss scale %.0f -> %.0f\n", (int)trainer->step,
         scale_before, trainer->loss_scale);
  fflush(stdout);
}

void report_epoch(const Trainer* trainer, double accuracy) {
  clear_progress();
  printf("epoch %4d   training loss %8.5f   test accuracy %6.2f %%\n", (int)(trainer->step / trainer->steps_per_epoch),
         trainer->epoch_loss / (trainer->steps_per_epoch * trainer->batch), 100 * accuracy);
  fflush(stdout);
}

void report_end(const Trainer* trainer, const Network* net, const WithShampoo* shampoo, double gradient,
                double update) {
  const uint64_t hash = hash_bytes(HASH_START, net->params, kValues * sizeof(float));
  printf("\nbatches     %d, of which %d were rejected; the loss scale is %.0f\n", (int)trainer->step,
         (int)trainer->rejected, trainer->loss_scale);
  printf("this run    %.0f steps, %.0f inverse roots (%.0f of them retried), %.0f previous roots reused\n",
         with_shampoo_stat(shampoo, "steps"), with_shampoo_stat(shampoo, "root_computed"),
         with_shampoo_stat(shampoo, "root_retried"), with_shampoo_stat(shampoo, "root_reused"));
  printf("time        gradients %.2f s, optimizer %.2f s (%.0f %%)\n", gradient, update,
         100 * update / (gradient + update + 1e-9));
  // report_head() prints this line, too. Equal lines show that libshampoo did not change the threads of this BLAS.
  printf("blas        the program's own, threads: %d\n", openblas_get_num_threads());
  printf("parameters  %016llx\n", (unsigned long long)hash);
}

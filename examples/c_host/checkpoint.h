// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints of the training: the state of the optimizer, the parameters, and the trainer's own state.
//
//   checkpoints/step-000150/       trainer.bin and the files of shampoo_save()
//   checkpoints/step-000200/
//   checkpoints/saving/            a save in progress, or one during which the program was killed
//   checkpoints/removing-000100/   a removal in progress, or one during which the program was killed
#ifndef C_HOST_CHECKPOINT_H
#define C_HOST_CHECKPOINT_H

#include "network.h"
#include "trainer.h"
#include "with_shampoo.h"

// Saves a checkpoint named after trainer->step, then removes all checkpoints except the last two. Even if the program
// is killed at any moment, the last complete checkpoint remains.
void checkpoint_save(const char* folder, const Trainer* trainer, const Network* net, const WithShampoo* shampoo);

// Returns the step of the last checkpoint, or -1 if there is none.
int checkpoint_last(const char* folder);

// Loads the checkpoint of a step. Exits with an error if the checkpoint was saved with other images, another order of
// images or another schedule.
void checkpoint_load(const char* folder, int step, Trainer* trainer, Network* net, WithShampoo* shampoo);

#endif

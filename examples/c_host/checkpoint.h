// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints of a whole training: the state of the optimizer, the parameters, and the trainer's own state.
//
//   checkpoints/step-000150/       trainer.bin, and what shampoo_save() writes
//   checkpoints/step-000200/
//   checkpoints/saving/            one that is being written, or was when the program was killed
//   checkpoints/removing-000100/   an old one, in the same way
#ifndef C_HOST_CHECKPOINT_H
#define C_HOST_CHECKPOINT_H

#include "network.h"
#include "trainer.h"
#include "with_shampoo.h"

// Saves under the number of the step that is next, then removes all but the last two. Whenever the program is killed,
// the last whole checkpoint is there.
void checkpoint_save(const char* folder, const Trainer* trainer, const Network* net, const WithShampoo* shampoo);

// The step of the last checkpoint, or -1: there is none.
int checkpoint_last(const char* folder);

// Goes on from that step. A checkpoint of a training with other images, order of images or schedule ends the program.
void checkpoint_load(const char* folder, int step, Trainer* trainer, Network* net, WithShampoo* shampoo);

#endif

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Replays recorded cases through the public C API:
//   shampoo_replay [options] --out DIR CASE.safetensors...
// Options:
//   --threads N                     number of threads of each rank
//   --ranks N                       number of replica ranks, which are threads
//   --shards M                      number of shards of the parameters; each shard has N replica ranks
//   --shard flat|rect               shards are equal parts of the flattened parameter (flat, the default) or
//                                   slices along dim 0 (rect); with this option, the default of --shards is 2
//   --collectives all|all_gather    with all_gather, communicators of shards have no all-to-all (default all)
//   --shard-mode local|gather, --communicate updates|params, --communication-dtype DTYPE, --set KEY=VALUE
//                                   set keys of the library
//   --device NAME                   device of the optimizer, if the program supports devices
// Options for cases that are trajectories (recorded steps of an optimizer):
//   --perturb SEED                  before each step, changes the gradients and the factor matrices by as much as
//                                   rounding errors do (perturb.h); SEED is 1 or more
//   --save-every DIR                saves a checkpoint after each step except the last
//   --resume-from DIR               resumes once from each checkpoint that another process has saved in DIR; fails if a
//                                   result is not bit-identical to the result of that process
//   --resume-across DIR             resumes once from each checkpoint that a run on another device has saved in DIR;
//                                   writes each tensor with an additional first dim: that run, then the resumed runs
// The results of CASE.safetensors are tensors in the file CASE.safetensors in the DIR of --out. compare.py reads this
// file. With MPI (shampoo_replay_mpi), every process of mpirun is a rank, and a rank R above 0 writes to DIR.rank<R>
// instead of DIR. If a case fails, the program reports the case, writes no file for it and continues. Exit status: 0 if
// no case failed, 1 if a case failed, 2 for wrong usage.
#include "tests/golden/replay_program.h"

int main(int argc, char** argv) { return shampoo::golden::RunReplay(argc, argv, nullptr); }

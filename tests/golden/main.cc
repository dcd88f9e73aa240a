// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Replays recorded cases through the public C API:
//   shampoo_replay [options] --out DIR CASE.safetensors...
// Options:
//   --threads N                     threads of each rank
//   --ranks N                       N ranks with the same parameters, as threads
//   --shard flat|rect, --shards M   M shards of the parameters (default 2), each on as many ranks as --ranks gives
//   --collectives all|all_gather    all_gather: communicators have no all-to-all (default all)
//   --shard-mode local|gather, --communicate updates|params, --communication-dtype DTYPE, --set KEY=VALUE
//                                   keys of the library
//   --device NAME                   device of the optimizer, if the program supports devices
// Options for trajectories:
//   --perturb SEED                  before each step, changes the gradients and the factor matrices by as much as
//                                   rounding errors do (perturb.h); SEED is 1 or more
//   --save-every DIR                saves a checkpoint after each step except the last
//   --resume-from DIR               resumes from each checkpoint of another process; fails if a result is not
//                                   bit-identical to that of the other process
//   --resume-across DIR             resumes from each checkpoint of another device; writes the results of all runs
//                                   along a new first dim
// With MPI (shampoo_replay_mpi) every process of mpirun is a rank, and ranks above 0 write to DIR.rank<R>. The results
// of each case are the tensors of DIR/<the same file name>, which compare.py reads. A case that fails is reported and
// has no file; the others are still replayed. Exit status: 0 if all were replayed, 1 if some failed, 2 for wrong usage.
#include "tests/golden/replay_program.h"

int main(int argc, char** argv) { return shampoo::golden::RunReplay(argc, argv, nullptr); }

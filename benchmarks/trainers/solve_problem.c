// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Solves a problem whose answer is known. Prints JSON: whether the run diverged, the number of steps, the distance to
// the answer (validation_loss), and the share of the parameters' movement that is outside of the span of the gradients
// (outside).
#include <limits.h>
#include <math.h>
#include <stdio.h>

#include "check.h"
#include "command_line.h"
#include "json.h"
#include "optimizer.h"
#include "problems.h"

const char program_name[] = "solve_problem";

static const char kAbout[] = "Solves a problem whose answer is known. Prints the distance to the answer as JSON.\n";
static const char* const kNames[kProblems + 1] = {"kronecker", "low_rank", "rank_deficient", NULL};

typedef struct {
  int problem, steps, seed;
  double scale;
  MethodList methods;
} Options;

static void parse(Options* options, int argc, char** argv) {
  *options = (Options){.steps = 300, .seed = 1, .scale = 1};
  const Option table[] = {
      option_call("--optimizer", "OPTIONS", method_list_add, &options->methods,
                  "the method, such as \"preset=soap lr=0.003\""),
      option_choice("--problem", &options->problem, kNames, "the problem"),
      option_number("--scale", &options->scale, "factor by which gradients are multiplied"),
      option_integer("--steps", &options->steps, 1, INT_MAX,
                     "number of steps; the learning-rate schedule ends with the last step"),
      option_integer("--seed", &options->seed, 0, INT_MAX, "seed of the problem and of its batches"),
      {0}};
  command_line_parse(argc, argv, kAbout, table, NULL);
  if (options->methods.count != 1) fail("--optimizer is passed %d times; expected once", options->methods.count);
}

int main(int argc, char** argv) {
  static Problem problem;  // static because it is large
  static Options options;
  Optimizer optimizer;
  BoundTensor tensors[2];
  static const char* const kTensorNames[] = {"first", "second"};

  parse(&options, argc, argv);
  problem_create(&problem, options.problem, options.seed);
  for (int t = 0; t < problem.tensor_count; ++t) {
    tensors[t] = (BoundTensor){.name = kTensorNames[t],
                               .ndim = 2,
                               .shape = {problem.shapes[t][0], problem.shapes[t][1]},
                               .param = problem.params + problem.offsets[t],
                               .grad = problem.grads + problem.offsets[t]};
  }
  optimizer_create(&optimizer, &options.methods.methods[0], problem.tensor_count, tensors, NULL, 1);
  int step = 0, finite = 1;
  while (finite && step < options.steps) {
    problem_gradient(&problem, options.scale);
    finite = optimizer_step(&optimizer, schedule_share(step, options.steps, 0));
    step += finite;
  }
  printf("{\"diverged\": %s, \"steps\": %d, \"validation_loss\": ", finite ? "false" : "true", step);
  json_number(finite ? problem_distance(&problem) : NAN);
  printf(", \"outside\": ");
  json_number(finite ? problem_outside(&problem) : NAN);
  printf("}\n");
  optimizer_free(&optimizer);
  return 0;
}

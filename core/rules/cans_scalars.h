// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "core/rules/root_spec.h"

// The root method `cans` computes the inverse square root of a matrix B by a fixed sequence of polynomials with minimax
// coefficients. B is scaled so that its largest row sum of magnitudes is 1. The sequence starts from Y = B, Z = I and
// P = Y. Each step computes T = b I + a P, Z <- T Z, Y <- Y T and P <- Z Y. Z converges to B^(-1/2) and Y to B^(1/2).
// The order of the factors in these products keeps rounding errors small. Sources: Emerging-Optimizers, pull request
// 277, for the coefficients; Higham, Functions of Matrices (2008), section 6.7, for the coupled iteration.
namespace shampoo {

// The coefficients of T = b I + a P.
struct CansStep {
  double b, a;
};

// After these steps, the relative error of Z is at most 3e-5 at every eigenvalue of B from 1e-6 to 1.
inline constexpr std::array<CansStep, 10> kCansSteps = {{{5.182503604966906, -5.126830178299687},
                                                         {2.586120737395915, -0.641538812403133},
                                                         {2.567364126726186, -0.6391058222170474},
                                                         {2.520560084348265, -0.6330225823828756},
                                                         {2.410759275435182, -0.6186815444268036},
                                                         {2.1883348130094173, -0.5893091162177136},
                                                         {1.8595760874873613, -0.5449991062102938},
                                                         {1.589020160467417, -0.5075811685214573},
                                                         {1.5051653981684994, -0.4957799077972079},
                                                         {1.4925557853149838, -0.49259266842078675}}};

// Returns how often the sequence of steps is applied: twice for the power -1/4, which is the inverse square root of a
// square root.
constexpr int CansPasses(const RootSpec& spec) { return spec.exponent == -0.25 ? 2 : 1; }

// The number of products with R in the check of a result X, where R = I - X^(p/2) B X^(p/2) and p = -1 / exponent. The
// check begins with a vector r of signs (ProbeSigns) and multiplies r repeatedly by R. |R r| / |r| then approaches the
// largest magnitude of an eigenvalue of R from below.
inline constexpr int kCansProducts = 4;

// Returns the largest |R r| / |r| at which X counts as a root. If X has the relative error e at an eigenvalue, R has an
// eigenvalue of magnitude about p e. With this limit, e is therefore at most about 1e-4.
constexpr double LargestCansResidual(const RootSpec& spec) { return -1e-4 / spec.exponent; }

}  // namespace shampoo

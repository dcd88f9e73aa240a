// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/config/keys.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <type_traits>

#include "core/base/text.h"
#include "core/config/ns_coefficients.h"

namespace shampoo {
namespace {

constexpr const char* kPresetNames[] = {"shampoo",   "shampoo_2024", "shampoo_pinv", "adamw",   "soap",  "soap_h",
                                        "kl_soap_h", "kl_shampoo",   "muon",         "normuon", "muonh", "lion"};
constexpr const char* kMethodNames[] = {"shampoo", "soap",    "kl_shampoo", "muon", "adam",
                                        "adagrad", "rmsprop", "sgd",        "sign"};
constexpr const char* kGraftingNames[] = {"none", "sgd", "adagrad", "rmsprop", "adam"};
constexpr const char* kDecayNames[] = {"decoupled",       "coupled",   "independent",     "palm",
                                       "decoupled_after", "corrected", "independent_peak"};
constexpr const char* kInitialNames[] = {"identity", "zero"};
constexpr const char* kOutputNames[] = {"parameters", "updates"};
constexpr const char* kRootMethodNames[] = {"eigen", "newton", "higher_order", "cans"};
constexpr const char* kRankNames[] = {"epsilon", "pseudo_inverse"};
constexpr const char* kRootDeviceNames[] = {"device", "host"};
constexpr const char* kNonFiniteNames[] = {"error", "skip_block", "skip_step"};
constexpr const char* kCommunicateNames[] = {"updates", "params"};
constexpr const char* kBalanceNames[] = {"bytes", "cost"};
constexpr const char* kShardModeNames[] = {"local", "gather"};
constexpr const char* kMathNames[] = {"f32", "tf32"};
constexpr const char* kMismatchNames[] = {"error", "reset"};
constexpr const char* kPreconditionDimsNames[] = {"all", "smaller", "larger"};
constexpr const char* kRouteNames[] = {"auto", "off"};
constexpr const char* kUpdateNormNames[] = {"none", "frobenius", "rms"};
constexpr const char* kNormControlNames[] = {"none", "hyperball", "relative", "radial_brake", "radial"};
constexpr const char* kRoundingNames[] = {"nearest", "stochastic"};
constexpr const char* kAveragingNames[] = {"none", "gpa", "schedule_free"};
constexpr const char* kShapeScaleNames[] = {"none", "muon", "rms_adam", "spectral", "sqrt_max"};
constexpr const char* kOrthogonalizationNames[] = {"newton_schulz", "exact"};
constexpr const char* kMuonMathNames[] = {"f32", "bf16"};
constexpr const char* kNsNormNames[] = {"frobenius", "schatten4"};
constexpr const char* kSoapPostNames[] = {"none", "orthogonalize"};
constexpr const char* kDirectionMomentNames[] = {"none", "row", "short", "element"};
constexpr const char* kBasisMethodNames[] = {"eigen", "qr"};
constexpr const char* kBasisSortNames[] = {"before", "after", "ascending", "none"};
constexpr const char* kBasisTransportNames[] = {"rotate", "permute", "none"};
constexpr const char* kBasisOrderNames[] = {"after", "before"};
constexpr const char* kBasisInitNames[] = {"eigen", "identity"};
constexpr const char* kFirstStepNames[] = {"skip", "use"};
constexpr const char* kFactorStartNames[] = {"zero", "first"};
constexpr const char* kFactorTermNames[] = {"none", "kl"};
constexpr const char* kKlEigenvaluesNames[] = {"ema", "basis"};
constexpr const char* kStateDtypes[] = {"auto", "f32", "f64", "f16", "bf16"};
constexpr const char* kAverageDtypes[] = {"auto", "f32", "f64", "bf16"};
constexpr const char* kComputationDtypes[] = {"auto", "f32", "f64"};

constexpr double kNoLimit = std::numeric_limits<double>::max();
constexpr double kLargestInteger = 9007199254740992.0;  // 2^53; a double represents all integers up to it

constexpr MethodSet kShampoo = SetOf(Method::kShampoo);
constexpr MethodSet kSoap = SetOf(Method::kSoap);
constexpr MethodSet kWithBasis = SetOf(Method::kSoap, Method::kKlShampoo);
constexpr MethodSet kMuon = SetOf(Method::kMuon);
constexpr MethodSet kSign = SetOf(Method::kSign);
constexpr MethodSet kWithFactors = kShampoo | kWithBasis;
constexpr MethodSet kWithMoment = SetOf(Method::kAdam, Method::kAdagrad, Method::kRmsprop);
constexpr MethodSet kWithDecayingMoment = SetOf(Method::kAdam, Method::kRmsprop);

// Stores an enumerator in kField, a field of Settings. choice: the number of the enumerator.
template <auto kField>
void Choose(Settings* settings, int64_t choice) {
  auto& field = settings->*kField;
  field = static_cast<std::remove_reference_t<decltype(field)>>(choice);
}

bool ParseCoefficients(std::string_view text, Settings* settings, std::string* canonical) {
  return ParseNsCoefficients(text, &settings->ns_coefficients, canonical);
}

// clang-format off
const Key kKeys[] = {
    {.name = "preset", .type = KeyType::kChoice, .default_text = "shampoo",
     .doc = "Selects a named set of defaults. Keys that are set explicitly keep their values, regardless of the order "
            "in which keys are set. shampoo: the documented default of each key. shampoo_2024: the defaults of the "
            "reference release, Distributed Shampoo for PyTorch of July 2024. shampoo_pinv: shampoo with "
            "root_rank_handling=pseudo_inverse. adamw: method adam; lr and weight_decay have the defaults of "
            "torch.optim.AdamW. soap, kl_shampoo: the method of this name with the defaults of the method. soap_h: "
            "method soap with norm_control=hyperball. kl_soap_h: soap_h with factor_correction=kl. muon: method muon; "
            "ns_coefficients and weight_decay have the defaults of torch.optim.Muon. normuon: method muon with "
            "second_moment=row. muonh: method muon with norm_control=hyperball. lion: method sign with the defaults of "
            "Lion and a weight_decay of 0.01. docs/keys.md lists all defaults of each preset. A preset is for one "
            "method. If the key method selects another method, the defaults of that method are used instead.",
     .choices = kPresetNames},
    {.name = "method", .type = KeyType::kChoice, .default_text = "shampoo",
     .doc = "How a step computes the update from the gradient. shampoo: Distributed Shampoo. soap: Adam in the "
            "eigenbases of Shampoo's factor matrices (arXiv 2409.11321). kl_shampoo: Shampoo whose factor matrices "
            "minimize a Kullback-Leibler divergence (arXiv 2509.03378). muon: orthogonalizes the filtered gradient of "
            "each matrix (arXiv 2502.16982). sign: takes the signs of the filtered gradient (Lion, arXiv 2302.06675). "
            "adam, adagrad, rmsprop, sgd: the elementwise method of this name, without factor matrices. It computes "
            "the direction by the formula of the grafting method of this name: filtered gradient / (sqrt(second "
            "moment) + epsilon). For sgd, the direction is the filtered gradient. Each method has its own defaults. "
            "Creating a plan fails if the config of a group sets a key that the method of the group does not read, "
            "unless the value is the default of the key. Values that shampoo_config_clone has copied are ignored.",
     .choices = kMethodNames, .choose = Choose<&Settings::method>},
    {.name = "lr", .type = KeyType::kF64, .default_text = "0.001",
     .doc = "Learning rate: the update is -lr times the direction. The default is 0.003 for methods soap and "
            "kl_shampoo, 0.02 for muon, and 0.0001 for sign.",
     .least = 0, .number = &Settings::lr, .changeable = true, .arithmetic = true},
    {.name = "beta1", .type = KeyType::kF64, .default_text = "0.9",
     .doc = "Decay of the filtered gradient, which is an exponential moving average of gradients. A step computes the "
            "direction from the filtered gradient. 0: a step computes the direction from the gradient itself, and no "
            "average is stored. The default is 0.95 for methods soap and muon, and 0 for adagrad, rmsprop and sgd.",
     .least = 0, .most = 1, .most_open = true, .number = &Settings::beta1, .changeable = true},
    {.name = "beta3", .type = KeyType::kF64, .default_text = "auto",
     .doc = "Weight of the stored average in the filtered gradient H = beta3 E + (1 - beta3) G, where E is the average "
            "before the step and G the gradient. The new average is beta1 E + (1 - beta1) G. Lion uses a beta3 of 0.9 "
            "and a beta1 of 0.99. auto: beta1, so that H is the new average. With method muon and use_nesterov, auto "
            "means beta1^2, so that H is Nesterov's average.",
     .methods = kAllMethods & ~kWithBasis, .least = 0, .most = 1, .most_open = true, .number = &Settings::beta3},
    {.name = "beta2", .type = KeyType::kF64, .default_text = "0.95",
     .doc = "Decay of averages of products of gradients. Method shampoo uses beta2 for the factor matrices. Methods "
            "soap, adam (default 0.999), rmsprop (default 0.99) and muon (only with the key second_moment) use beta2 "
            "for the second moment. Method kl_shampoo (default 0.98) uses beta2 for the second moment of tensors "
            "without factor matrices. For their factor matrices, methods soap and kl_shampoo use shampoo_beta instead. "
            "1: unweighted sums instead of averages, as in the original Shampoo.",
     .methods = kWithFactors | kWithDecayingMoment | kMuon, .least = 0, .most = 1, .least_open = true,
     .number = &Settings::beta2, .changeable = true},
    {.name = "epsilon", .type = KeyType::kF64, .default_text = "auto",
     .doc = "Small number that keeps divisors away from 0. Method shampoo adds epsilon to the eigenvalues of a factor "
            "matrix before it computes the inverse root. If epsilon is set, the default of root_relative_epsilon "
            "becomes 0. With method shampoo, epsilon must be above 0 unless root_relative_epsilon is above 0 or "
            "root_rank_handling=pseudo_inverse. Methods soap, adam, adagrad and rmsprop add epsilon to the square root "
            "of the second moment. If this sum is 0 for an element, the direction of the element is 0. Method muon "
            "uses epsilon in the same way for second_moment. Method kl_shampoo adds epsilon to the square root of the "
            "Kronecker product of the eigenvalues. auto: 0 for shampoo, 1e-12 for soap and kl_shampoo, 1e-10 for "
            "adagrad, otherwise 1e-8.",
     .methods = kWithFactors | kWithMoment | kMuon, .least = 0, .number = &Settings::epsilon, .changeable = true,
     .arithmetic = true},
    {.name = "root_relative_epsilon", .type = KeyType::kF64, .default_text = "3e-04",
     .doc = "This number times the mean eigenvalue of a factor matrix is added to the eigenvalues of the matrix before "
            "its inverse root is computed. The mean eigenvalue is the trace of the matrix divided by its size, after "
            "bias correction. The added number is therefore proportional to the matrix, so the scale of the loss has "
            "no influence. If all elements of a factor matrix are 0 or subnormal in computation_dtype, its inverse "
            "root is the identity. 0: epsilon is used instead. Creating a plan fails if epsilon and "
            "root_relative_epsilon are both set to numbers above 0.",
     .methods = kShampoo, .least = 0, .number = &Settings::root_relative_epsilon, .changeable = true},
    {.name = "momentum", .type = KeyType::kF64, .default_text = "0",
     .doc = "Decay of the momentum M. A step replaces M by momentum * M + P, where P is the direction after "
            "preconditioning, grafting and weight decay of every type except coupled. The step then uses M as the "
            "direction or, with use_nesterov, P + momentum * M. If momentum_dampening is set, P is multiplied by 1 - "
            "momentum_dampening in this sum. 0: no momentum, and no state for it.",
     .methods = kAllMethods & ~kMuon, .least = 0, .most = 1, .most_open = true, .number = &Settings::momentum,
     .changeable = true},
    {.name = "use_nesterov", .type = KeyType::kBool, .default_text = "false",
     .doc = "Use Nesterov momentum. If momentum is 0, this key has no effect, and a warning is logged. Method muon, "
            "which has no momentum, is an exception. With method muon, the default is true, and the filtered gradient "
            "becomes Nesterov's average beta1 E + (1 - beta1) G, where E is the new average and G the gradient.",
     .flag = &Settings::use_nesterov},
    {.name = "weight_decay", .type = KeyType::kF64, .default_text = "0",
     .doc = "Weight decay. weight_decay_type selects how it is applied.",
     .least = 0, .number = &Settings::weight_decay, .changeable = true, .arithmetic = true},
    {.name = "weight_decay_type", .type = KeyType::kChoice, .default_text = "decoupled",
     .doc = "decoupled: weight_decay times the parameter is added to the direction, as in AdamW, so a step subtracts "
            "lr * weight_decay times the parameter. independent: a step subtracts weight_decay times the parameter, "
            "regardless of lr. independent requires momentum 0. palm: a step subtracts lr^2 * weight_decay times the "
            "parameter, as in PaLM (arXiv 2204.02311). coupled: weight_decay times the parameter is added to the "
            "gradient and therefore affects all states (L2 regularization). corrected: a step subtracts lr * "
            "weight_decay * lr / peak_lr times the parameter, so that the norm of the parameter in equilibrium depends "
            "less on lr (arXiv 2506.02285). independent_peak: a step subtracts lr * weight_decay / peak_lr times the "
            "parameter. decoupled_after: a step first adds the update to the parameter, then subtracts lr * "
            "weight_decay times the result, as the code of SOAP's authors does. decoupled_after requires method soap "
            "or kl_shampoo, and momentum 0.",
     .choices = kDecayNames, .choose = Choose<&Settings::weight_decay_type>},
    {.name = "peak_lr", .type = KeyType::kF64, .default_text = "auto",
     .doc = "Largest learning rate of your schedule. weight_decay_type=corrected, weight_decay_type=independent_peak "
            "and adam_lr use it. auto: the value of lr when the plan is created.",
     .least = 0, .least_open = true, .number = &Settings::peak_lr},
    {.name = "cautious_decay", .type = KeyType::kBool, .default_text = "false",
     .doc = "Weight decay skips an element of the parameter if the element and the same element of the direction have "
            "opposite signs, because the step then moves the element away from 0 (arXiv 2510.12402). Requires momentum "
            "0, and does not work with weight_decay_type=coupled or weight_decay_type=decoupled_after.",
     .flag = &Settings::cautious_decay},
    {.name = "max_preconditioner_dim", .type = KeyType::kI64, .default_text = "1024",
     .doc = "Largest length of a dimension of a block. Longer dimensions are split, so that a parameter has several "
            "blocks. Each block has its own factor matrices. With larger blocks, the method is closer to Shampoo "
            "without blocks, and a step takes longer. The default is 2048 for methods soap and kl_shampoo.",
     .methods = kWithFactors, .least = 1, .most = kLargestInteger, .integer = &Settings::max_preconditioner_dim},
    {.name = "use_merge_dims", .type = KeyType::kBool, .default_text = "true",
     .doc = "Merge neighboring dimensions if the product of their lengths is at most max_preconditioner_dim. "
            "merge_min_dim selects which neighbors are merged. The default is false for methods soap and kl_shampoo.",
     .methods = kWithFactors, .flag = &Settings::use_merge_dims},
    {.name = "merge_min_dim", .type = KeyType::kI64, .default_text = "32",
     .doc = "Selects the neighboring dimensions that use_merge_dims merges. Above 0: two neighbors can be merged if "
            "the length of at least one of them is below this number. Merging goes from right to left, and stops when "
            "two dimensions remain, so a matrix never becomes a vector. 0: all neighbors can be merged, from left to "
            "right, as in the reference release. The default is 0 for methods soap and kl_shampoo.",
     .methods = kWithFactors, .least = 0, .most = kLargestInteger, .integer = &Settings::merge_min_dim},
    {.name = "precondition_1d", .type = KeyType::kBool, .default_text = "false",
     .doc = "Whether vectors (biases, scales) have factor matrices. false: with method shampoo, vectors have no factor "
            "matrices and take the step of the grafting method; with grafting=none, they have factor matrices "
            "nevertheless. With methods soap and kl_shampoo, false means that vectors take the step of method adam. "
            "With method shampoo, a vector is a tensor with at most one dimension longer than 1 before dimensions are "
            "merged. With methods soap and kl_shampoo, a vector is a tensor with at most one dimension after "
            "dimensions are merged, so a tensor of shape (64, 1) is a matrix unless use_merge_dims is true. With "
            "stack_dims, dimensions are counted for each stacked tensor. With shard_mode=local, they are counted for "
            "each piece that a rank holds.",
     .methods = kWithFactors, .flag = &Settings::precondition_1d},
    {.name = "route", .type = KeyType::kChoice, .default_text = "auto",
     .doc = "Whether the role of a parameter in the model (shampoo_param_desc.role) changes its step. auto: parameters "
            "with the role vector, embedding or head have no factor matrices. With method shampoo, they take the step "
            "of the grafting method. With methods soap and kl_shampoo, they take the step of method adam with the keys "
            "of their group. With method muon, they and all tensors with fewer than two dimensions take the step of "
            "method adam with adam_lr, adam_beta1, adam_beta2 and adam_epsilon instead of lr, beta1, beta2 and "
            "epsilon. off: roles are ignored, and method muon accepts only tensors with two or more dimensions.",
     .methods = kWithFactors | kMuon, .choices = kRouteNames, .choose = Choose<&Settings::route>},
    {.name = "precondition_frequency", .type = KeyType::kI64, .default_text = "25",
     .doc = "Maximum number of steps from one refresh of the inverse roots to the next. If refresh_growth is above 0, "
            "early refreshes follow each other after fewer steps. This key does not affect the updates of the factor "
            "matrices: see factor_update_frequency. With methods soap and kl_shampoo (default 10): the number of "
            "updates of a block from one refresh of its eigenbases to the next.",
     .methods = kWithFactors, .least = 1, .most = kLargestInteger, .integer = &Settings::precondition_frequency},
    {.name = "factor_update_frequency", .type = KeyType::kI64, .default_text = "1",
     .doc = "Number n of steps from one update of the factor matrices to the next: only the gradients of steps 1, 1 + "
            "n, 1 + 2 n, ... change the factor matrices. The decay and the bias correction of the factor matrices "
            "count only these updates. Steps without an update are cheaper, except on a GPU with method shampoo. With "
            "methods soap and kl_shampoo, n counts the updates of each block, not the steps of the group.",
     .methods = kWithFactors, .least = 1, .most = kLargestInteger, .integer = &Settings::factor_update_frequency},
    {.name = "precondition_dims", .type = KeyType::kChoice, .default_text = "all",
     .doc = "Which dimensions of a tensor with two or more dimensions have factor matrices. all: every dimension. "
            "smaller: only the shortest dimension. larger: only the longest dimension. Both are one-sided Shampoo. If "
            "several dimensions have the shortest or the longest length, the first of them has the factor matrix. "
            "Dimensions are compared after merging and before splitting.",
     .methods = kWithFactors, .choices = kPreconditionDimsNames, .choose = Choose<&Settings::precondition_dims>},
    {.name = "refresh_growth", .type = KeyType::kF64, .default_text = "0.1",
     .doc = "Refreshes the inverse roots more often at the start. Above 0: the first refresh is at "
            "start_preconditioning_step, and after a refresh at step t the next one follows max(1, "
            "min(precondition_frequency, floor(refresh_growth * t))) steps later. 0: refreshes are at "
            "start_preconditioning_step and at later multiples of precondition_frequency. root_spread changes these "
            "steps.",
     .methods = kShampoo, .least = 0, .number = &Settings::refresh_growth},
    {.name = "start_preconditioning_step", .type = KeyType::kI64, .default_text = "-1",
     .doc = "First step with preconditioning. Earlier steps use only the grafting method. -1: step 1 if refresh_growth "
            "is above 0, otherwise precondition_frequency. If refresh_growth is 0, the value must be at least "
            "precondition_frequency. 0 means 1 if refresh_growth is above 0 or precondition_frequency is 1. Method "
            "soap reads this key only with basis_order=before: with the value n, update n of a block computes the "
            "first eigenbases of the block, and -1 means precondition_frequency. With methods muon and sign, it is the "
            "first step whose direction the method itself computes. Earlier steps use the direction of the grafting "
            "method. For these two methods, -1 and 0 mean 1.",
     .methods = kShampoo | kSoap | kMuon | kSign, .least = -1, .most = kLargestInteger,
     .integer = &Settings::start_preconditioning_step},
    {.name = "inverse_root_override", .type = KeyType::kList, .default_text = "2",
     .doc = "Root r of the inverse root F^(-exponent_multiplier / r) of a factor matrix F. A single number applies to "
            "blocks of every order. A list such as 0,2,4 is indexed from 0 by the number of factor matrices of a "
            "block: here, r is 2 for vectors and 4 for matrices. If the number for a block is 0 or the list has no "
            "entry for it, r is twice the number of factor matrices, as in the original Shampoo. With the default 2, "
            "the inverse roots approximate full-matrix Adagrad by a Kronecker product (arXiv 2406.17748).",
     .methods = kShampoo, .least = 0, .most = kLargestInteger},
    {.name = "exponent_multiplier", .type = KeyType::kF64, .default_text = "1",
     .doc = "Multiplies the exponent of the inverse root F^(-exponent_multiplier / r) of a factor matrix F. "
            "inverse_root_override sets r.",
     .methods = kShampoo, .number = &Settings::exponent_multiplier},
    {.name = "use_bias_correction", .type = KeyType::kBool, .default_text = "true",
     .doc = "Correct averages for their start from 0: a step divides them by 1 - decay^t. The filtered gradient is "
            "divided by 1 - beta1^t or, if beta3 differs from beta1, by 1 - beta3 beta1^(t-1). With method shampoo "
            "and a beta2 below 1, factor matrices are divided by 1 - beta2^t. With method soap and "
            "basis_order=before, factor matrices are divided by 1 - shampoo_beta^t. Method soap with "
            "basis_order=after and method kl_shampoo do not divide factor matrices. With methods soap and adam, and "
            "with kl_shampoo for tensors without factor matrices, the second moment is divided by 1 - beta2^t. The "
            "second moment of grafting=adam is always corrected, even if this key is false. t is the number of the "
            "step of the group or, with methods soap and kl_shampoo, of the update of the block. For factor matrices, "
            "t counts only the steps that update them (factor_update_frequency). The default is false for method "
            "kl_shampoo.",
     .flag = &Settings::use_bias_correction},
    {.name = "grafting", .type = KeyType::kChoice, .default_text = "adam",
     .doc = "Method that determines the length of the direction. The direction of each block is scaled to the length "
            "of the direction of this method. Steps before start_preconditioning_step use the direction of this method "
            "itself. none: the direction keeps its own length. The default is none for methods soap, muon and sign. "
            "Method soap reads this key only with basis_order=before.",
     .methods = kShampoo | kSoap | kMuon | kSign, .off_text = "none", .choices = kGraftingNames,
     .choose = Choose<&Settings::grafting>},
    {.name = "grafting_beta2", .type = KeyType::kF64, .default_text = "auto",
     .doc = "Decay of the grafting method's second moment (rmsprop, adam). auto: 0.99 for rmsprop, 0.999 for adam. Has "
            "no effect with other grafting methods.",
     .methods = kShampoo | kSoap | kMuon | kSign, .least = 0, .most = 1, .least_open = true,
     .number = &Settings::grafting_beta2,
     .changeable = true},
    {.name = "grafting_epsilon", .type = KeyType::kF64, .default_text = "auto",
     .doc = "Number that is added to the square root of the grafting method's second moment. auto: 1e-10 for adagrad, "
            "otherwise 1e-8.",
     .methods = kShampoo | kSoap | kMuon | kSign, .least = 0, .least_open = true, .number = &Settings::grafting_epsilon,
     .changeable = true, .arithmetic = true},
    {.name = "initial_inverse", .type = KeyType::kChoice, .default_text = "identity",
     .doc = "Inverse roots before the first refresh. Steps use them only with grafting=none. identity: the direction "
            "is the filtered gradient. zero: the direction is 0, so only weight decay and momentum change parameters, "
            "as in the reference release.",
     .methods = kShampoo, .choices = kInitialNames, .choose = Choose<&Settings::initial_inverse>},
    {.name = "root_method", .type = KeyType::kChoice, .default_text = "eigen",
     .doc = "Algorithm for inverse roots. eigen: eigendecomposition. For inverse square roots of matrices of size 8 to "
            "512 in float32, eigen uses a rational approximation of the same accuracy instead. newton: the coupled "
            "inverse Newton iteration, which uses only matrix products. higher_order: a coupled iteration of order "
            "root_order. higher_order multiplies the key epsilon by an upper bound of the largest eigenvalue. cans: a "
            "fixed number of matrix products in float64, meant for GPUs, for the powers -1/2 and -1/4. For other "
            "powers, cans computes roots as eigen does. newton and higher_order require an exponent_multiplier of 1.",
     .methods = kShampoo, .choices = kRootMethodNames, .choose = Choose<&Settings::root_method>},
    {.name = "root_order", .type = KeyType::kI64, .default_text = "3",
     .doc = "Order of convergence of root_method=higher_order. A higher order takes fewer iterations, with more matrix "
            "products in each.",
     .methods = kShampoo, .least = 2, .most = 64, .integer = &Settings::root_order},
    {.name = "root_tolerance", .type = KeyType::kF64, .default_text = "1e-06",
     .doc = "The iteration of root_method=newton or root_method=higher_order has converged when each element of the "
            "matrix that approaches the identity differs from the identity by at most this number.",
     .methods = kShampoo, .least = 0, .number = &Settings::root_tolerance},
    {.name = "root_max_iterations", .type = KeyType::kI64, .default_text = "100",
     .doc = "Maximum number of iterations of root_method=newton and root_method=higher_order. If the result of the "
            "last iteration is accurate enough, a step uses it. Otherwise the step tries the next rung of the recovery "
            "ladder.",
     .methods = kShampoo, .least = 1, .most = 1000000, .integer = &Settings::root_max_iterations},
    {.name = "root_rank_handling", .type = KeyType::kChoice, .default_text = "epsilon",
     .doc = "How eigenvalues that are 0 are handled. epsilon: a number is added to all eigenvalues. The key epsilon or "
            "root_relative_epsilon determines this number. pseudo_inverse: the eigenvectors of eigenvalue 0 are left "
            "out of the inverse root. pseudo_inverse is meant for gradients of low rank, and requires "
            "root_method=eigen. It adds nothing to eigenvalues, so setting epsilon or root_relative_epsilon to a "
            "number above 0 is an error.",
     .methods = kShampoo, .choices = kRankNames, .choose = Choose<&Settings::root_rank_handling>},
    {.name = "root_rank_rtol", .type = KeyType::kF64, .default_text = "auto",
     .doc = "With root_rank_handling=pseudo_inverse, an eigenvalue counts as 0 if it is at most this number times the "
            "largest eigenvalue, or at most root_rank_atol. auto: the size of the matrix times the machine epsilon of "
            "root_dtype.",
     .methods = kShampoo, .least = 0, .number = &Settings::root_rank_rtol},
    {.name = "root_rank_atol", .type = KeyType::kF64, .default_text = "0",
     .doc = "With root_rank_handling=pseudo_inverse, an eigenvalue also counts as 0 if it is at most this number. See "
            "root_rank_rtol.",
     .methods = kShampoo, .least = 0, .number = &Settings::root_rank_atol},
    {.name = "root_failure_tolerance", .type = KeyType::kI64, .default_text = "3",
     .doc = "If no rung of the recovery ladder can compute the inverse root or the eigenbasis of a factor matrix, the "
            "previous root or eigenbasis is kept. If the number of refreshes in a row at which this happens exceeds "
            "root_failure_tolerance, the next step reports an error before it changes anything.",
     .methods = kWithFactors, .least = 0, .most = kLargestInteger, .integer = &Settings::root_failure_tolerance},
    {.name = "track_root_residuals", .type = KeyType::kBool, .default_text = "false",
     .doc = "Measure the error of every inverse root: compare it with an inverse root of the same matrix that is "
            "computed in float64. shampoo_optimizer_stat and the log report the errors. This takes two "
            "eigendecompositions in float64 for each root.",
     .methods = kShampoo, .flag = &Settings::track_root_residuals},
    {.name = "root_spread", .type = KeyType::kBool, .default_text = "false",
     .doc = "Refresh the inverse roots of different blocks in different steps, so that no single step is slow. Each "
            "block has a phase p from 0 to f - 1, where f is precondition_frequency. If a refresh is due at step t and "
            "the next one n steps later, the block is refreshed at step t + floor(p * n / f). If refresh_growth is 0, "
            "a refresh is due at start_preconditioning_step and every f steps afterwards. Until its first refresh, a "
            "block uses the grafting method, or initial_inverse with grafting=none.",
     .methods = kShampoo, .flag = &Settings::root_spread},
    {.name = "root_async", .type = KeyType::kI64, .default_text = "0",
     .doc = "Number of steps that continue with the old inverse roots while new roots are computed. If step t "
            "refreshes the roots of a block, the new roots are computed from the factor matrices of step t, and are "
            "used from step t + root_async on. With root_spread, t differs between blocks. Must be less than "
            "precondition_frequency. On a GPU, the new roots are computed in parallel with the steps in between. A CPU "
            "saves no time: it computes the new roots in the step that first uses them. A block uses its new roots "
            "immediately if it has no roots yet, if the roots of an earlier refresh are not in use yet, or if its next "
            "refresh is due within root_async steps. A block without a gradient at step t + root_async uses the new "
            "roots at its next step with a gradient. The factor matrices of step t are kept until the new roots are "
            "used, as a state of computation_dtype.",
     .methods = kShampoo, .least = 0, .most = kLargestInteger, .integer = &Settings::root_async},
    {.name = "on_nonfinite", .type = KeyType::kChoice, .default_text = "error",
     .doc = "What a step does if a gradient (or, with coupled weight decay, a parameter) contains NaN, infinity or a "
            "magnitude that would overflow a state. error: the step fails and changes nothing. skip_block: the "
            "affected blocks are not changed, and all others are updated. skip_step: nothing is changed, and the step "
            "succeeds. Skipped blocks and steps are counted and logged. With replicas or shard_mode=gather, only the "
            "owner of a block can detect that a state of the block would overflow. For such an overflow, the following "
            "rules apply instead. With on_nonfinite=skip_block or on_nonfinite=skip_step, the step skips only this "
            "block. With on_nonfinite=error and shard_mode=gather, the step skips this block, and the next step fails. "
            "With on_nonfinite=error, replicas and shard_mode=local, the step fails, but states of other blocks may "
            "have changed.",
     .choices = kNonFiniteNames, .choose = Choose<&Settings::on_nonfinite>},
    {.name = "computation_dtype", .type = KeyType::kDtype, .default_text = "auto",
     .doc = "Dtype of the arithmetic of a step. auto: f64 for f64 parameters, otherwise f32.",
     .choices = kComputationDtypes, .dtype = &Settings::computation_dtype},
    {.name = "root_dtype", .type = KeyType::kDtype, .default_text = "auto",
     .doc = "Dtype in which inverse roots are computed. auto: computation_dtype.",
     .methods = kShampoo, .choices = kComputationDtypes, .dtype = &Settings::root_dtype},
    {.name = "factor_dtype", .type = KeyType::kDtype, .default_text = "auto",
     .doc = "Dtype in which factor matrices are stored between steps. auto: computation_dtype.",
     .methods = kWithFactors, .choices = kStateDtypes, .dtype = &Settings::factor_dtype},
    {.name = "inverse_dtype", .type = KeyType::kDtype, .default_text = "auto",
     .doc = "Dtype in which inverse roots are stored between steps. auto: computation_dtype.",
     .methods = kShampoo, .choices = kStateDtypes, .dtype = &Settings::inverse_dtype},
    {.name = "filtered_grad_dtype", .type = KeyType::kDtype, .default_text = "auto",
     .doc = "Dtype in which the filtered gradient is stored between steps. auto: computation_dtype.",
     .choices = kStateDtypes, .dtype = &Settings::filtered_grad_dtype},
    {.name = "momentum_dtype", .type = KeyType::kDtype, .default_text = "auto",
     .doc = "Dtype in which the momentum is stored between steps. auto: computation_dtype.",
     .methods = kAllMethods & ~kMuon, .choices = kStateDtypes, .dtype = &Settings::momentum_dtype},
    {.name = "grafting_dtype", .type = KeyType::kDtype, .default_text = "auto",
     .doc = "Dtype in which the grafting method's second moment is stored between steps. auto: computation_dtype.",
     .methods = kShampoo | kSoap | kMuon | kSign, .choices = kStateDtypes, .dtype = &Settings::grafting_dtype},
    {.name = "second_moment_dtype", .type = KeyType::kDtype, .default_text = "auto",
     .doc = "Dtype in which the second moment of the gradient is stored between steps. auto: computation_dtype. With "
            "method muon, this dtype applies to the moving average of second_moment=element, and to the second moments "
            "of the parameters that method adam updates.",
     .methods = kWithMoment | kWithBasis | kMuon, .choices = kStateDtypes, .dtype = &Settings::second_moment_dtype},
    {.name = "allow_stalled_moments", .type = KeyType::kBool, .default_text = "false",
     .doc = "Accept a decay so close to 1 that a moving average in 16 bits never decreases, because rounding undoes "
            "each decrease. This is the case if 1 - decay is below 2^-8 (bf16) or 2^-11 (f16). The decay is "
            "grafting_beta2 for grafting_dtype, beta2 or shampoo_beta for factor_dtype, beta2 or adam_beta2 for "
            "second_moment_dtype, and weight_ema or average_eval for average_dtype. Intended only for comparisons with "
            "other implementations. In f16, an average stops decreasing at about 3e-8 / (1 - decay) even with a decay "
            "for which this key is not needed, because the spacing of f16 numbers is never finer than 6e-8. With a "
            "decay of 0.999, for example, it stops at 3e-5.",
     .flag = &Settings::allow_stalled_moments},
    {.name = "gradient_scale", .type = KeyType::kF64, .default_text = "1",
     .doc = "A step multiplies every gradient by this number when it reads the gradient, for example for loss scaling "
            "or for averaging over a batch.",
     .number = &Settings::gradient_scale, .changeable = true, .arithmetic = true},
    {.name = "output", .type = KeyType::kChoice, .default_text = "parameters",
     .doc = "What a step writes to shampoo_buffers.out. parameters: the new parameter. updates: the update, which the "
            "caller adds to the parameter.",
     .choices = kOutputNames, .choose = Choose<&Settings::output>},
    {.name = "communicate", .type = KeyType::kChoice, .default_text = "updates",
     .doc = "What the owner of a block sends to the other ranks. updates: the update, which each rank adds to its "
            "parameter. params: the new parameter; not allowed with output=updates.",
     .scope = Scope::kOptimizer, .choices = kCommunicateNames, .choose = Choose<&Settings::communicate>},
    {.name = "communication_dtype", .type = KeyType::kDtype, .default_text = "auto",
     .doc = "Dtype in which updates or parameters are sent. Every rank, including the owner, uses the value that was "
            "sent, so all ranks have bit-identical values. f16 rounds updates below 3e-8 to 0. auto: "
            "computation_dtype, so that results do not depend on the number of replicas.",
     .scope = Scope::kOptimizer, .choices = kStateDtypes, .dtype = &Settings::communication_dtype},
    {.name = "comm_bucket_bytes", .type = KeyType::kI64, .default_text = "0",
     .doc = "Maximum number of bytes that the updates of all ranks take in memory at a time. Updates are exchanged in "
            "as many all-gathers as this limit requires. With shard_mode=gather, the exchanges that send blocks to "
            "their owners and back are divided in the same way. Each exchange has room for one block of each rank, "
            "even if these blocks exceed the limit. On CUDA, one part of the updates is exchanged while the next part "
            "is computed, which takes twice as much memory. 0: all updates are exchanged at once.",
     .scope = Scope::kOptimizer, .least = 0, .most = kLargestInteger, .integer = &Settings::comm_bucket_bytes},
    {.name = "balance", .type = KeyType::kChoice, .default_text = "bytes",
     .doc = "Measure of load for assigning blocks to ranks. Blocks are assigned from the largest to the smallest, each "
            "to the least-loaded rank. bytes: the bytes that are sent. cost: the estimated time that an average step "
            "takes for the block, including its roots.",
     .scope = Scope::kOptimizer, .choices = kBalanceNames, .choose = Choose<&Settings::balance>},
    {.name = "shard_mode", .type = KeyType::kChoice, .default_text = "local",
     .doc = "How a step handles parameters that are divided among shard ranks. local: the part that a rank holds is a "
            "separate tensor with its own blocks, so updates differ from those without sharding. Shard ranks exchange "
            "only a few bytes of status. gather: the whole parameters are divided into blocks, and each block is "
            "gathered at its owner for the step. The result is bit-identical to the result without sharding. Gradients "
            "and parameters are sent to the owners, and updates are sent back.",
     .scope = Scope::kOptimizer, .choices = kShardModeNames, .choose = Choose<&Settings::shard_mode>},
    {.name = "verify_replicas", .type = KeyType::kI64, .default_text = "0",
     .doc = "Number n of steps. In every n-th step, the replica ranks compare hashes of their parameters. A difference "
            "is an error. 0: never.",
     .scope = Scope::kOptimizer, .least = 0, .most = kLargestInteger, .integer = &Settings::verify_replicas},
    {.name = "checkpoint_keep", .type = KeyType::kI64, .default_text = "1",
     .doc = "Number of checkpoints that shampoo_save keeps in its directory, including the new one. Older ones are "
            "removed after the new one is complete.",
     .scope = Scope::kOptimizer, .least = 1, .most = kLargestInteger, .integer = &Settings::checkpoint_keep},
    {.name = "on_block_mismatch", .type = KeyType::kChoice, .default_text = "error",
     .doc = "What shampoo_load does with blocks that the checkpoint does not have. This happens if one of the "
            "following was different when the checkpoint was saved: the key max_preconditioner_dim, use_merge_dims, "
            "merge_min_dim, skip_dim_size, precondition_1d or route; the role, the stack_dims or the row_splits of a "
            "parameter; with shard_mode=local, the shards. error: the load fails and names the blocks. reset: in these "
            "blocks, the following states get their initial values: factor matrices, inverse roots, moments in "
            "eigenbases, the gradient_count of blocks with factor matrices, the means of second_moment=row and "
            "second_moment=short, and the radius of norm_control=hyperball. All other states are loaded, and a warning "
            "gives the number of blocks.",
     .scope = Scope::kOptimizer, .choices = kMismatchNames, .choose = Choose<&Settings::on_block_mismatch>},
    {.name = "status_lag", .type = KeyType::kI64, .default_text = "1",
     .doc = "On a GPU, which call of shampoo_optimizer_step reports that the device has rejected a step, for example "
            "because a gradient is not finite. 1: the next call, so no call waits for its own step. 0: the call that "
            "makes the step, so each call waits for its own step. Roots that failed too often and skipped updates are "
            "always reported by the next call. Has no effect on the CPU, where a call returns when its step is done.",
     .scope = Scope::kOptimizer, .least = 0, .most = 1, .integer = &Settings::status_lag},
    {.name = "root_device", .type = KeyType::kChoice, .default_text = "device",
     .doc = "On a GPU, where the inverse roots of root_async are computed. device: on the GPU. host: on threads of the "
            "host, by the methods and the recovery ladder of the CPU. With root_device=host, factor matrices and roots "
            "are copied while steps continue. host requires a root_async of at least 1 in every group with method "
            "shampoo. Roots that a step uses immediately are always computed on the GPU. Has no effect on the CPU.",
     .scope = Scope::kOptimizer, .choices = kRootDeviceNames, .choose = Choose<&Settings::root_device>},
    {.name = "precondition_math", .type = KeyType::kChoice, .default_text = "f32",
     .doc = "On a GPU, the arithmetic of float32 products of gradients with inverse roots or eigenbases, and of the "
            "products of method muon. f32: float32. tf32: operands are rounded to TF32, which has a 10-bit mantissa, "
            "so that tensor cores can be used. Factor matrices, inverse roots and eigenbases are always computed in "
            "full precision. Has no effect on the CPU.",
     .scope = Scope::kOptimizer, .choices = kMathNames, .choose = Choose<&Settings::precondition_math>},
    {.name = "track_times", .type = KeyType::kBool, .default_text = "false",
     .doc = "Measure the time of each part of a step. shampoo_optimizer_stat returns the times. On a GPU, they are the "
            "times in the stream. Steps that are replayed from a CUDA graph are not measured.",
     .scope = Scope::kOptimizer, .flag = &Settings::track_times},
    {.name = "threads", .type = KeyType::kI64, .default_text = "0",
     .doc = "Number of threads that work on a step, including the calling thread. 0: as many as the amount of work "
            "justifies, at most one for each processor that the process may use.",
     .scope = Scope::kOptimizer, .least = 0, .most = 4096, .integer = &Settings::threads},
    {.name = "shampoo_beta", .type = KeyType::kF64, .default_text = "auto",
     .doc = "Decay of the factor matrices. 1: an unweighted sum. auto: beta2.",
     .methods = kWithBasis, .least = 0, .most = 1, .least_open = true, .number = &Settings::shampoo_beta,
     .changeable = true},
    {.name = "relative_epsilon", .type = KeyType::kF64, .default_text = "auto",
     .doc = "Number e. In each block, e times the largest element of sqrt(second moment) is added to all elements of "
            "sqrt(second moment), in addition to epsilon. Without this addition, the direction along an eigenvector "
            "would have full size even if the gradients along this eigenvector are 0, because the second moment there "
            "contains only rounding errors. Applies to blocks with factor matrices. auto: 1024 times the unit roundoff "
            "of computation_dtype, which is 6.1e-5 for f32.",
     .methods = kSoap, .off_text = "0", .least = 0, .most = 1, .most_open = true,
     .number = &Settings::relative_epsilon},
    {.name = "factor_correction", .type = KeyType::kChoice, .default_text = "none",
     .doc = "Term that a step adds to the factor matrix of a dimension. none: the product of the gradient with "
            "itself, summed over all other dimensions (for a matrix G: G G^T or G^T G). kl: this product of a "
            "gradient that has been whitened along all other dimensions; with methods soap and kl_shampoo, it is then "
            "divided by the product of the lengths of the other dimensions. Method soap whitens the gradient along a "
            "dimension by dividing it by the square roots of the eigenvalues of the factor matrix of that dimension, "
            "as in KL-SOAP (arXiv 2509.03378). Method shampoo multiplies the gradient by the current inverse root of "
            "that dimension instead. Method kl_shampoo always uses kl.",
     .methods = kShampoo | kSoap, .choices = kFactorTermNames, .choose = Choose<&Settings::factor_correction>},
    {.name = "kl_eigenvalues", .type = KeyType::kChoice, .default_text = "ema",
     .doc = "How the eigenvalues of factor matrices are estimated with factor_correction=kl or method kl_shampoo. ema: "
            "by a moving average of the squared gradient in the eigenbasis, at every step. basis: from the factor "
            "matrix when the eigenbasis is refreshed; only for method soap with basis_order=before.",
     .methods = kWithBasis, .choices = kKlEigenvaluesNames, .choose = Choose<&Settings::kl_eigenvalues>},
    {.name = "kl_init", .type = KeyType::kF64, .default_text = "auto",
     .doc = "Initial value of the eigenvalues of factor matrices, with factor_correction=kl or method kl_shampoo. The "
            "authors of KL-Shampoo use 0.1, a value whose influence takes hundreds of steps to decay if gradients are "
            "small. auto: the eigenvalues come from the first gradient that is not zero, and their averages are "
            "bias-corrected, so that the scale of the gradients has no influence. With basis_order=before, auto means "
            "0.1.",
     .methods = kWithBasis, .least = 0, .least_open = true, .number = &Settings::kl_init},
    {.name = "kl_cap", .type = KeyType::kF64, .default_text = "auto",
     .doc = "Largest inverse square root of an eigenvalue, with factor_correction=kl or method kl_shampoo. 0: no "
            "limit. auto: the size of the dimension, but at least 10 and at most 4000. If kl_init is also auto, this "
            "limit is divided by the square root of the mean eigenvalue of the factor matrix.",
     .methods = kWithBasis, .least = 0, .number = &Settings::kl_cap},
    {.name = "basis_method", .type = KeyType::kChoice, .default_text = "eigen",
     .doc = "How eigenbases are refreshed. eigen: by an eigendecomposition. qr: by basis_iterations steps of "
            "orthogonal iteration from the previous basis. The first basis is always computed by an eigendecomposition "
            "unless basis_init=identity.",
     .methods = kWithBasis, .choices = kBasisMethodNames, .choose = Choose<&Settings::basis_method>},
    {.name = "basis_iterations", .type = KeyType::kI64, .default_text = "1",
     .doc = "Number of steps of orthogonal iteration at a refresh with basis_method=qr.",
     .methods = kWithBasis, .least = 1, .most = 16, .integer = &Settings::basis_iterations},
    {.name = "basis_tolerance", .type = KeyType::kF64, .default_text = "0",
     .doc = "A refresh keeps an eigenbasis in which the factor matrix is nearly diagonal: the Frobenius norm of the "
            "off-diagonal elements is at most this number times the norm of the matrix. 0: every refresh computes a "
            "new basis.",
     .methods = kWithBasis, .least = 0, .most = 1, .number = &Settings::basis_tolerance},
    {.name = "skip_dim_size", .type = KeyType::kI64, .default_text = "0",
     .doc = "Dimensions longer than this number have no factor matrix and are neither split nor merged. 0: no limit. "
            "The default is 10000 for methods soap and kl_shampoo.",
     .methods = kWithFactors, .least = 0, .most = kLargestInteger, .integer = &Settings::skip_dim_size},
    {.name = "update_norm", .type = KeyType::kChoice, .default_text = "none",
     .doc = "Selects a norm. A step scales the direction so that this norm of the direction equals update_norm_target. "
            "none: the direction is not scaled. frobenius: the square root of the sum of squares. rms: the square root "
            "of the mean square. A direction of 0 stays 0. Each parameter is scaled separately. If the parameter has "
            "stack_dims or row_splits, each stacked tensor and each part is scaled separately. Requires that each of "
            "these tensors is one block.",
     .choices = kUpdateNormNames, .choose = Choose<&Settings::update_norm>},
    {.name = "update_norm_target", .type = KeyType::kF64, .default_text = "1",
     .doc = "Norm to which update_norm=frobenius and update_norm=rms scale the direction.",
     .least = 0, .least_open = true, .number = &Settings::update_norm_target},
    {.name = "max_update_rms", .type = KeyType::kF64, .default_text = "0",
     .doc = "Largest root mean square of the direction of a tensor. After update_norm and shape_scale have been "
            "applied, a direction with a larger root mean square is scaled down, so that its root mean square is this "
            "number. 0: no limit. Requires that the tensor is one block.",
     .least = 0, .number = &Settings::max_update_rms},
    {.name = "norm_control", .type = KeyType::kChoice, .default_text = "none",
     .doc = "Controls the Frobenius norm of each parameter with two or more dimensions. If the parameter has "
            "stack_dims or row_splits, the norm of each stacked tensor and of each part is controlled separately. "
            "none: the norm is free. hyperball: the norm keeps the value that norm_radius sets. A step moves the "
            "parameter opposite to the direction, over a distance of lr times this norm. It then scales the parameter "
            "back to this norm, so lr is approximately an angle. relative: a step moves the parameter opposite to the "
            "direction, over a distance of lr times the norm of the parameter. radial_brake: the change of the norm by "
            "a step is multiplied by radial_outward if the norm grows, and by radial_inward if it shrinks. radial: the "
            "component of the direction along the parameter is multiplied by radial_outward if it increases the norm, "
            "and by radial_inward if it decreases the norm. The new parameter is then scaled so that only this "
            "component changes the norm. Weight decay is applied before all of these operations. Requires that the "
            "tensor is one block and that momentum is 0, and does not work with averaging or with "
            "weight_decay_type=decoupled_after. With norm_control=relative, the tensor must not be 0. With "
            "norm_control=hyperball and a norm_radius of 0, the tensor must not be 0 either.",
     .choices = kNormControlNames, .choose = Choose<&Settings::norm_control>},
    {.name = "norm_radius", .type = KeyType::kF64, .default_text = "0",
     .doc = "Norm that norm_control=hyperball maintains. 0: the norm before the first update.",
     .least = 0, .number = &Settings::norm_radius},
    {.name = "radial_outward", .type = KeyType::kF64, .default_text = "0.5",
     .doc = "Factor for changes that increase the norm, with norm_control=radial_brake or norm_control=radial.",
     .least = 0, .most = 1, .number = &Settings::radial_outward},
    {.name = "radial_inward", .type = KeyType::kF64, .default_text = "1",
     .doc = "Factor for changes that decrease the norm, with norm_control=radial_brake or norm_control=radial.",
     .least = 0, .most = 1, .number = &Settings::radial_inward},
    {.name = "update_floor", .type = KeyType::kF64, .default_text = "0",
     .doc = "Smallest norm of the direction of a tensor with two or more dimensions, as a multiple of the norm of the "
            "parameter. A direction with a smaller norm is scaled up to this norm; a direction of 0 stays 0. 0: off. "
            "The tensor must be one block and momentum must be 0. Does not work with averaging or with "
            "weight_decay_type=decoupled_after.",
     .least = 0, .number = &Settings::update_floor},
    {.name = "update_floor_rows", .type = KeyType::kBool, .default_text = "false",
     .doc = "Whether update_floor compares and scales each row of a tensor separately, instead of the whole tensor. "
            "There is one row for each output.",
     .flag = &Settings::update_floor_rows},
    {.name = "shape_scale", .type = KeyType::kChoice, .default_text = "none",
     .doc = "Factor by which the direction of a matrix with r rows (outputs) and c columns is multiplied, after "
            "update_norm. For a tensor of more dimensions, r is the length of the dimension of the outputs "
            "(shampoo_param_desc.fan), and c is the product of the lengths of the other dimensions. none: 1. muon: "
            "sqrt(max(1, r / c)). rms_adam: 0.2 sqrt(max(r, c)), so that the root mean square of an orthogonalized "
            "direction is 0.2, about that of Adam. spectral: sqrt(r / c). sqrt_max: sqrt(max(r, c)). The default is "
            "muon for method muon and with soap_post=orthogonalize.",
     .choices = kShapeScaleNames, .choose = Choose<&Settings::shape_scale>},
    {.name = "second_moment", .type = KeyType::kChoice, .default_text = "none",
     .doc = "Divides the orthogonalized direction by the square root of its second moment. none: off. row: the second "
            "moment is a moving average of the mean square of each row (NorMuon, arXiv 2510.05491). short: the second "
            "moment is a moving average of the mean square of each row if there are at least as many rows as columns, "
            "otherwise of each column. element: the second moment is a moving average of the square of each element "
            "(AdaMuon, arXiv 2507.11005). row and short keep the norm of the direction.",
     .methods = kMuon, .choices = kDirectionMomentNames, .choose = Choose<&Settings::direction_moment>},
    {.name = "soap_post", .type = KeyType::kChoice, .default_text = "none",
     .doc = "What method soap does with the direction of a tensor that has two or more dimensions and factor matrices. "
            "none: nothing. orthogonalize: the direction is orthogonalized as by method muon, before grafting; a "
            "tensor of more than two dimensions is treated as a matrix. With orthogonalize, max_preconditioner_dim "
            "must not split the tensor, and shape_scale scales only these directions. The default of shape_scale is "
            "then muon.",
     .methods = kSoap, .choices = kSoapPostNames, .choose = Choose<&Settings::soap_post>},
    {.name = "orthogonalization", .type = KeyType::kChoice, .default_text = "newton_schulz",
     .doc = "How method muon and soap_post orthogonalize a matrix U diag(s) V^T. newton_schulz: approximately, by "
            "matrix products. exact: U V^T, computed in float64, which takes much longer. On the CPU, exact uses a "
            "singular value decomposition: singular values below 2^-39 (1.8e-12) of the Frobenius norm contribute "
            "nothing, and all others become 1. On a GPU, exact uses matrix products: singular values below 2^-41 "
            "(4.5e-13) of the Frobenius norm become less than 2e-5, those of at least 2^-37 (7.3e-12) become 1, and "
            "those in between become numbers between 0 and 1.",
     .methods = kMuon | kSoap, .choices = kOrthogonalizationNames, .choose = Choose<&Settings::orthogonalization>},
    {.name = "ns_coefficients", .type = KeyType::kText, .default_text = "polar_express",
     .doc = "Coefficients of the steps of newton_schulz, X <- a X + (b A + c A A) X with A = X X^T. polar_express: "
            "minimax polynomials (arXiv 2505.16932). jordan: those of torch.optim.Muon. quintic, cubic5: those of "
            "Emerging-Optimizers; cubic5 needs one product less in each step. A list has at most 16 entries. If "
            "ns_steps is larger than the number of entries, the last entry repeats.",
     .methods = kMuon | kSoap, .choices = kNsScheduleNames, .parse = ParseCoefficients},
    {.name = "ns_steps", .type = KeyType::kI64, .default_text = "5",
     .doc = "Number of steps of newton_schulz.",
     .methods = kMuon | kSoap, .least = 1, .most = 100, .integer = &Settings::ns_steps},
    {.name = "ns_norm", .type = KeyType::kChoice, .default_text = "frobenius",
     .doc = "Norm by which a matrix is divided before newton_schulz. frobenius: the square root of the sum of squares. "
            "schatten4: the fourth root of the sum of fourth powers of the singular values. This norm is at most the "
            "Frobenius norm, so that small singular values grow faster.",
     .methods = kMuon | kSoap, .choices = kNsNormNames, .choose = Choose<&Settings::ns_norm>},
    {.name = "muon_math", .type = KeyType::kChoice, .default_text = "f32",
     .doc = "On a GPU, the arithmetic of the products of newton_schulz. f32: the arithmetic that precondition_math "
            "selects. bf16: operands and results are rounded to bfloat16, which has a 7-bit mantissa, and sums are "
            "float32. bf16 has no effect with orthogonalization=exact. Otherwise, bf16 is not allowed with a "
            "computation_dtype of f64. bf16 is not supported on the CPU.",
     .methods = kMuon, .choices = kMuonMathNames, .choose = Choose<&Settings::muon_math>},
    {.name = "dual_norm_scale", .type = KeyType::kBool, .default_text = "false",
     .doc = "Multiplies the direction by its inner product with the filtered gradient. With method muon, this inner "
            "product is the nuclear norm of the filtered gradient (PolarGrad, arXiv 2505.21799). With method sign, "
            "this inner product is the sum of the magnitudes in the filtered gradient. Not allowed with second_moment.",
     .methods = kMuon | kSign, .flag = &Settings::dual_norm_scale},
    {.name = "muon_local", .type = KeyType::kBool, .default_text = "false",
     .doc = "Accept shards with shard_mode=local. The piece of a matrix that a rank holds is then orthogonalized "
            "separately. The results therefore differ from those for whole matrices, and depend on the number of "
            "ranks.",
     .methods = kMuon, .flag = &Settings::muon_local},
    {.name = "adam_lr", .type = KeyType::kF64, .default_text = "3e-04",
     .doc = "Learning rate of the parameters that method adam updates in a group of method muon (key route). The value "
            "applies to steps in which lr equals peak_lr. If a schedule changes lr, the learning rate of these "
            "parameters is adam_lr * lr / peak_lr.",
     .methods = kMuon, .least = 0, .number = &Settings::adam_lr, .changeable = true, .arithmetic = true},
    {.name = "adam_beta1", .type = KeyType::kF64, .default_text = "0.9",
     .doc = "beta1 of the parameters that adam_lr applies to.",
     .methods = kMuon, .least = 0, .most = 1, .most_open = true, .number = &Settings::adam_beta1},
    {.name = "adam_beta2", .type = KeyType::kF64, .default_text = "0.95",
     .doc = "beta2 of the parameters that adam_lr applies to.",
     .methods = kMuon, .least = 0, .most = 1, .least_open = true, .number = &Settings::adam_beta2},
    {.name = "adam_epsilon", .type = KeyType::kF64, .default_text = "1e-08",
     .doc = "epsilon of the parameters that adam_lr applies to.",
     .methods = kMuon, .least = 0, .number = &Settings::adam_epsilon, .arithmetic = true},
    {.name = "averaging", .type = KeyType::kChoice, .default_text = "none",
     .doc = "Averages the iterates, which are the points that the steps of the training reach. Each step moves the "
            "newest iterate. The parameter is w X + (1 - w) Z, where X is the average, Z the newest iterate, and w is "
            "average_train. shampoo_optimizer_export writes the average, which is meant for evaluation and for use "
            "after training. gpa: X is an exponential moving average (arXiv 2512.17131). schedule_free: X is an "
            "average weighted by powers of lr. This average replaces a schedule that lets lr decay (arXiv 2405.15682). "
            "Takes one state of the size of the parameter. Requires momentum 0, and does not work with norm_control, "
            "update_floor, cautious_decay, weight_ema or weight_decay_type=decoupled_after.",
     .choices = kAveragingNames, .choose = Choose<&Settings::averaging>},
    {.name = "average_train", .type = KeyType::kF64, .default_text = "0.8",
     .doc = "Weight w of the average with averaging=gpa or averaging=schedule_free: the parameter is w times the "
            "average plus (1 - w) times the newest iterate.",
     .least = 0, .most = 1, .least_open = true, .number = &Settings::average_train},
    {.name = "average_eval", .type = KeyType::kF64, .default_text = "0.9",
     .doc = "Decay of the average with averaging=gpa: if d is this number, the new average is d times the old average "
            "plus (1 - d) times the newest iterate.",
     .least = 0, .most = 1, .most_open = true, .number = &Settings::average_eval},
    {.name = "average_lr_power", .type = KeyType::kF64, .default_text = "2",
     .doc = "With averaging=schedule_free, the weight of an iterate in the average is proportional to the lr of its "
            "step to this power.",
     .least = 0, .number = &Settings::average_lr_power},
    {.name = "weight_ema", .type = KeyType::kF64, .default_text = "0",
     .doc = "Decay of an exponential moving average of the parameter. The average has no effect on training; "
            "shampoo_optimizer_export writes it. Each step updates the average, also for parameters without a "
            "gradient. Takes one state of the size of the parameter. 0: off.",
     .least = 0, .most = 1, .most_open = true, .number = &Settings::weight_ema},
    {.name = "weight_ema_start", .type = KeyType::kI64, .default_text = "1",
     .doc = "Number s of a step of the group. After step s, the average of weight_ema is set to the new parameter. "
            "Later steps update the average.",
     .least = 1, .most = kLargestInteger, .integer = &Settings::weight_ema_start},
    {.name = "average_dtype", .type = KeyType::kDtype, .default_text = "auto",
     .doc = "Dtype in which the state of averaging or weight_ema is stored between steps. This state is a difference "
            "from the parameter. auto: computation_dtype. bf16 requires state_rounding=stochastic or "
            "allow_stalled_moments in two cases: with averaging=schedule_free, and with an average_eval or weight_ema "
            "above 0.99609375.",
     .choices = kAverageDtypes, .dtype = &Settings::average_dtype},
    {.name = "state_rounding", .type = KeyType::kChoice, .default_text = "nearest",
     .doc = "How states of the size of a parameter are rounded when they are stored in bf16: to nearest, or "
            "stochastically, up or down with probabilities that make the expected error 0. stochastic allows a "
            "second_moment_dtype, grafting_dtype and average_dtype of bf16 with a decay near 1. The random numbers "
            "depend only on rounding_seed, the step and the position in the parameter, so runs can be repeated on any "
            "number of ranks. Factor matrices and roots are rounded to nearest.",
     .choices = kRoundingNames, .choose = Choose<&Settings::state_rounding>},
    {.name = "param_rounding", .type = KeyType::kChoice, .default_text = "nearest",
     .doc = "How a step rounds what it writes to shampoo_buffers.out (the new parameter or the update), if out is "
            "bf16. The choices are those of state_rounding. If there is no float32 copy of bf16 parameters, stochastic "
            "preserves, on average, updates that are smaller than the spacing of bf16 numbers.",
     .choices = kRoundingNames, .choose = Choose<&Settings::param_rounding>},
    {.name = "rounding_seed", .type = KeyType::kI64, .default_text = "0",
     .doc = "Seed of the random numbers of state_rounding and param_rounding.",
     .scope = Scope::kOptimizer, .least = 0, .most = kLargestInteger, .integer = &Settings::rounding_seed},
    {.name = "basis_order", .type = KeyType::kChoice, .default_text = "after",
     .doc = "Whether a step updates factor matrices and eigenbases after or before it computes the direction. before: "
            "a step that refreshes the eigenbases uses eigenbases to which its own gradient has contributed. If the "
            "first eigenbases are computed from a single gradient, some elements of this gradient are only rounding "
            "errors in these bases, but get updates of full size.",
     .methods = kSoap, .for_replay = true, .choices = kBasisOrderNames,
     .choose = Choose<&Settings::basis_order>},
    {.name = "first_step", .type = KeyType::kChoice, .default_text = "skip",
     .doc = "With basis_order=after, how a block uses its first gradient. skip: only to initialize the factor matrices "
            "and the eigenbases. use: also to update the parameter.",
     .methods = kSoap, .for_replay = true, .choices = kFirstStepNames, .choose = Choose<&Settings::first_step>},
    {.name = "factor_start", .type = KeyType::kChoice, .default_text = "zero",
     .doc = "With basis_order=after, the weight of the first gradient in the factor matrices. zero: 1 - shampoo_beta, "
            "as if the matrices started from 0. first: 1.",
     .methods = kWithBasis, .for_replay = true, .choices = kFactorStartNames,
     .choose = Choose<&Settings::factor_start>},
    {.name = "basis_init", .type = KeyType::kChoice, .default_text = "eigen",
     .doc = "With basis_order=before and basis_method=qr, how the first eigenbasis is computed. eigen: by an "
            "eigendecomposition. identity: by orthogonal iteration from the identity.",
     .methods = kSoap, .for_replay = true, .choices = kBasisInitNames, .choose = Choose<&Settings::basis_init>},
    {.name = "basis_sort", .type = KeyType::kChoice, .default_text = "before",
     .doc = "When and how a refresh with basis_method=qr sorts the columns of an eigenbasis. before: before the "
            "iteration, by decreasing eigenvalue. after: after the iteration, by decreasing eigenvalue. ascending: "
            "after the iteration, by increasing eigenvalue. none: never. With basis_method=eigen, ascending sorts by "
            "increasing eigenvalue, and every other choice by decreasing eigenvalue.",
     .methods = kWithBasis, .for_replay = true, .choices = kBasisSortNames, .choose = Choose<&Settings::basis_sort>},
    {.name = "basis_transport", .type = KeyType::kChoice, .default_text = "rotate",
     .doc = "How a refresh converts the second moment, and the eigenvalues of kl_eigenvalues=ema, to the new "
            "eigenbasis. rotate: both are multiplied by the squared elements of the rotation between the bases. "
            "permute: the eigenvalues are not converted. With basis_method=qr and basis_sort=before, the second moment "
            "is permuted like the columns of the basis. Otherwise, the second moment is not converted. none: neither "
            "the second moment nor the eigenvalues are converted. The filtered gradient is always rotated.",
     .methods = kWithBasis, .for_replay = true, .choices = kBasisTransportNames,
     .choose = Choose<&Settings::basis_transport>},
    {.name = "basis_epsilon", .type = KeyType::kF64, .default_text = "0",
     .doc = "Number that is added to the diagonal of a factor matrix before its eigenbasis is refreshed.",
     .methods = kWithBasis, .for_replay = true, .least = 0, .number = &Settings::basis_epsilon, .arithmetic = true},
    {.name = "ignored_dims", .type = KeyType::kList, .default_text = "0",
     .doc = "Pairs of numbers: 2,1 means that dimension 1 of blocks of order 2 has no factor matrix. Dimensions are "
            "counted from 0. 0: no dimension is ignored.",
     .methods = kWithFactors, .for_replay = true, .least = 0, .most = 8},
    {.name = "inverse_exponent", .type = KeyType::kF64, .default_text = "0.5",
     .doc = "Exponent q of the second moment in the divisor of the direction: the divisor is (second moment)^q + "
            "epsilon.",
     .methods = kSoap, .for_replay = true, .least = 0, .least_open = true, .number = &Settings::inverse_exponent},
    {.name = "drop_weighting", .type = KeyType::kBool, .default_text = "false",
     .doc = "Add new terms to the factor matrices and to second moments, including the second moment of grafting, with "
            "weight 1 instead of 1 minus the decay. Factor matrices and second moments then get no bias correction.",
     .methods = kShampoo | kSoap, .for_replay = true, .flag = &Settings::drop_weighting},
    {.name = "trace_scaling", .type = KeyType::kF64, .default_text = "0",
     .doc = "Exponent e: a factor matrix A is divided by max(trace(A), epsilon)^e before its inverse root is computed. "
            "0: off.",
     .methods = kShampoo, .for_replay = true, .least = 0, .most = 1, .number = &Settings::trace_scaling},
    {.name = "row_sum_epsilon", .type = KeyType::kBool, .default_text = "false",
     .doc = "With root_method=higher_order, epsilon is multiplied by the largest row sum of magnitudes of a factor "
            "matrix, instead of by a smaller upper bound of its largest eigenvalue.",
     .methods = kShampoo, .for_replay = true, .flag = &Settings::row_sum_epsilon},
    {.name = "momentum_dampening", .type = KeyType::kF64, .default_text = "0",
     .doc = "The direction is multiplied by 1 minus this number before it is added to the momentum. Requires a "
            "momentum above 0.",
     .methods = kAllMethods & ~kMuon, .for_replay = true, .least = 0, .most = 1, .most_open = true,
     .number = &Settings::momentum_dampening},
    {.name = "count_empty_steps", .type = KeyType::kBool, .default_text = "false",
     .doc = "Whether a group also counts the steps in which none of its parameters has a gradient.",
     .for_replay = true, .flag = &Settings::count_empty_steps},
};
// clang-format on

constexpr size_t kKeyCount = std::size(kKeys);

std::string DescribeRange(const Key& key) {
  if (!key.choices.empty()) {
    std::string names;
    for (const char* name : key.choices) names += Cat(names.empty() ? "" : ", ", name);
    return key.type == KeyType::kText ? Cat(names, ", or a list a,b,c;a,b,c;...") : names;
  }
  if (key.type == KeyType::kBool) return "true, false";
  const bool limited_below = key.least > -kNoLimit;
  std::string range;
  if (key.most < kNoLimit) {
    const std::string most = key.most == kLargestInteger ? "2^53" : Cat(key.most);
    range = Cat(key.least_open ? "(" : "[", key.least, ", ", most, key.most_open ? ")" : "]");
  } else if (limited_below) {
    range = Cat(key.least_open ? "> " : ">= ", key.least);
  } else {
    range = "finite";
  }
  if (key.type == KeyType::kList) range += ", or a list of such numbers, separated by commas";
  if (std::string_view(key.default_text) == "auto") range = "auto, or " + range;
  return range;
}

// Returns the string describe(key) for each key. The strings are never freed, so that they are valid while the process
// exits.
template <typename Describe>
const std::array<std::string, kKeyCount>* MakeTexts(Describe&& describe) {
  auto* made = new std::array<std::string, kKeyCount>;
  for (size_t i = 0; i < kKeyCount; ++i) (*made)[i] = describe(kKeys[i]);
  return made;
}

}  // namespace

std::span<const Key> Keys() { return kKeys; }

bool Reads(Method method, const Key& key) { return (key.methods & SetOf(method)) != 0; }

const char* NameOf(Method method) { return kMethodNames[static_cast<size_t>(method)]; }

bool GraftingHasMoment(std::string_view name) {
  const auto* const found = std::find(std::begin(kGraftingNames), std::end(kGraftingNames), name);
  return found != std::end(kGraftingNames) && HasMoment(static_cast<Grafting>(found - std::begin(kGraftingNames)));
}

const Key* FindKey(std::string_view name) {
  for (const Key& key : kKeys) {
    if (name == key.name) return &key;
  }
  return nullptr;
}

int IndexOf(const Key& key) { return static_cast<int>(&key - kKeys); }

const char* TypeName(KeyType type) {
  constexpr const char* kNames[] = {"f64", "i64", "bool", "choice", "dtype", "list", "text"};
  return kNames[static_cast<int>(type)];
}

std::string MethodNames(const Key& key) {
  std::string names;
  for (size_t m = 0; m < std::size(kMethodNames); ++m) {
    const auto method = static_cast<Method>(m);
    if (Reads(method, key)) names += Cat(names.empty() ? "" : ", ", NameOf(method));
  }
  return names;
}

const std::string& DocText(const Key& key) {
  static const auto* const texts = MakeTexts([](const Key& of) {
    return of.methods == kAllMethods ? std::string(of.doc) : Cat(of.doc, " Read by method ", MethodNames(of), ".");
  });
  return (*texts)[static_cast<size_t>(IndexOf(key))];
}

const std::string& RangeText(const Key& key) {
  static const auto* const texts = MakeTexts(DescribeRange);
  return (*texts)[static_cast<size_t>(IndexOf(key))];
}

}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/config/keys.h"

#include <array>
#include <type_traits>

#include "core/base/text.h"

namespace shampoo {
namespace {

constexpr const char* kPresetNames[] = {"shampoo", "shampoo_2024"};
constexpr const char* kGraftingNames[] = {"none", "sgd", "adagrad", "rmsprop", "adam"};
constexpr const char* kDecayNames[] = {"decoupled", "coupled"};
constexpr const char* kInitialNames[] = {"identity", "zero"};
constexpr const char* kOutputNames[] = {"parameters", "updates"};
constexpr const char* kMethodNames[] = {"eigen", "newton", "higher_order"};
constexpr const char* kRankNames[] = {"epsilon", "pseudo_inverse"};
constexpr const char* kNonFiniteNames[] = {"error", "skip_block", "skip_step"};
constexpr const char* kCommunicateNames[] = {"updates", "params"};
constexpr const char* kBalanceNames[] = {"bytes", "cost"};
constexpr const char* kShardModeNames[] = {"local", "gather"};
constexpr const char* kMathNames[] = {"f32", "tf32"};
constexpr const char* kMismatchNames[] = {"error", "reset"};
constexpr const char* kStateDtypes[] = {"auto", "f32", "f64", "f16", "bf16"};
constexpr const char* kComputationDtypes[] = {"auto", "f32", "f64"};

constexpr double kNoLimit = std::numeric_limits<double>::max();
constexpr double kLargestInteger = 9007199254740992.0;  // 2^53: exact as a double, too

// Stores a choice, by its index, in a field of an enumeration.
template <auto kField>
void Choose(Settings* settings, int64_t choice) {
  auto& field = settings->*kField;
  field = static_cast<std::remove_reference_t<decltype(field)>>(choice);
}

// clang-format off
const Key kKeys[] = {
    {.name = "preset", .type = KeyType::kChoice, .default_text = "shampoo",
     .doc = "Named set of defaults. Keys that are set explicitly keep their values, in whatever order they are set. "
            "shampoo: the defaults of this table. shampoo_2024: the defaults of the July 2024 reference release.",
     .choices = kPresetNames},
    {.name = "lr", .type = KeyType::kF64, .default_text = "0.001",
     .doc = "Learning rate: the update is -lr times the direction.",
     .least = 0, .number = &Settings::lr, .changeable = true, .arithmetic = true},
    {.name = "beta1", .type = KeyType::kF64, .default_text = "0.9",
     .doc = "Decay of the filtered gradient, the exponential moving average of gradients that is preconditioned. "
            "0: the gradient itself, and no state for it.",
     .least = 0, .most = 1, .most_open = true, .number = &Settings::beta1, .changeable = true},
    {.name = "beta2", .type = KeyType::kF64, .default_text = "0.95",
     .doc = "Decay of the factor matrices. 1: an unweighted sum, as in the original Shampoo.",
     .least = 0, .most = 1, .least_open = true, .number = &Settings::beta2, .changeable = true},
    {.name = "epsilon", .type = KeyType::kF64, .default_text = "auto",
     .doc = "Absolute number that is added to the eigenvalues of a factor matrix before its inverse root. Must be above 0 "
            "unless root_relative_epsilon or root_rank_handling pseudo_inverse is used, which take its place. auto: 0.",
     .least = 0, .number = &Settings::epsilon, .changeable = true},
    {.name = "root_relative_epsilon", .type = KeyType::kF64, .default_text = "3e-04",
     .doc = "Added to the eigenvalues of a factor matrix before its inverse root, as a multiple of their mean (the trace "
            "divided by the order, after bias correction): the scale of the loss has no influence. The inverse root of a "
            "factor matrix of zeros, or of subnormal numbers of computation_dtype, is the identity. 0: epsilon is used. Setting both "
            "keys to numbers above 0 is an error when a plan is made.",
     .least = 0, .number = &Settings::root_relative_epsilon, .changeable = true},
    {.name = "momentum", .type = KeyType::kF64, .default_text = "0",
     .doc = "Momentum on the direction, after preconditioning and grafting, without dampening. 0: none, and no state.",
     .least = 0, .most = 1, .most_open = true, .number = &Settings::momentum, .changeable = true},
    {.name = "use_nesterov", .type = KeyType::kBool, .default_text = "false",
     .doc = "Nesterov's form of momentum. Without momentum it has no effect, and a warning says so.",
     .flag = &Settings::use_nesterov},
    {.name = "weight_decay", .type = KeyType::kF64, .default_text = "0",
     .doc = "Weight decay; how it enters is chosen by weight_decay_type.",
     .least = 0, .number = &Settings::weight_decay, .changeable = true, .arithmetic = true},
    {.name = "weight_decay_type", .type = KeyType::kChoice, .default_text = "decoupled",
     .doc = "decoupled: weight_decay times the parameter is added to the direction, as in AdamW. coupled: it is added "
            "to the gradient, and so enters every state (L2 regularization).",
     .choices = kDecayNames, .choose = Choose<&Settings::weight_decay_type>},
    {.name = "max_preconditioner_dim", .type = KeyType::kI64, .default_text = "1024",
     .doc = "Largest dimension of a block: larger dimensions are split into blocks, each with factor matrices of its "
            "own. Larger is closer to full Shampoo, and takes longer.",
     .least = 1, .most = kLargestInteger, .integer = &Settings::max_preconditioner_dim},
    {.name = "use_merge_dims", .type = KeyType::kBool, .default_text = "true",
     .doc = "Merge neighboring dimensions while their product is at most max_preconditioner_dim; see merge_min_dim.",
     .flag = &Settings::use_merge_dims},
    {.name = "merge_min_dim", .type = KeyType::kI64, .default_text = "32",
     .doc = "Which dimensions use_merge_dims merges. Above 0: from right to left, a dimension below this number is merged "
            "with its neighbor, and at least two dimensions remain, so that a matrix never becomes a vector. 0: all "
            "dimensions, from left to right, as in the reference release.",
     .least = 0, .most = kLargestInteger, .integer = &Settings::merge_min_dim},
    {.name = "precondition_1d", .type = KeyType::kBool, .default_text = "false",
     .doc = "Whether tensors with at most one dimension above 1 (biases, scales) get a factor matrix. false: they follow "
            "the grafting method alone, which takes no factor matrix; without a grafting method they are preconditioned. "
            "What counts are the dimensions before they are merged: of each stacked tensor with stack_dims, and of each "
            "piece that a rank holds with shard_mode local.",
     .flag = &Settings::precondition_1d},
    {.name = "precondition_frequency", .type = KeyType::kI64, .default_text = "25",
     .doc = "Steps between two refreshes of the inverse roots; early refreshes come sooner with refresh_growth. Factor "
            "matrices are updated at every step.",
     .least = 1, .most = kLargestInteger, .integer = &Settings::precondition_frequency},
    {.name = "refresh_growth", .type = KeyType::kF64, .default_text = "0.1",
     .doc = "Refreshes the inverse roots more often at the start. Above 0: after a refresh at step t the next one follows "
            "max(1, min(precondition_frequency, floor(refresh_growth * t))) steps later, and the first one is at "
            "start_preconditioning_step. 0: refreshes at start_preconditioning_step and at multiples of "
            "precondition_frequency after it.",
     .least = 0, .number = &Settings::refresh_growth},
    {.name = "start_preconditioning_step", .type = KeyType::kI64, .default_text = "-1",
     .doc = "First step with preconditioning; before it the grafting method alone is used. -1: 1 with refresh_growth, "
            "otherwise precondition_frequency. Without refresh_growth at least precondition_frequency. 0 acts as 1 with "
            "refresh_growth or a precondition_frequency of 1.",
     .least = -1, .most = kLargestInteger, .integer = &Settings::start_preconditioning_step},
    {.name = "inverse_root_override", .type = KeyType::kList, .default_text = "2",
     .doc = "Root r of the inverse, factor^(-exponent_multiplier / r). One number: for blocks of every order. A list "
            "(0,2,4): indexed by the order, entry 1 for vectors, 2 for matrices. 0, or an order past the end of the list: "
            "2 * order, as in the original Shampoo. 2 approximates full-matrix Adagrad by a Kronecker product "
            "(arXiv 2406.17748).",
     .least = 0, .most = kLargestInteger},
    {.name = "exponent_multiplier", .type = KeyType::kF64, .default_text = "1",
     .doc = "Multiplies the exponent of the inverse root: factor^(-exponent_multiplier / root).",
     .number = &Settings::exponent_multiplier},
    {.name = "use_bias_correction", .type = KeyType::kBool, .default_text = "true",
     .doc = "Divide the filtered gradient by 1 - beta1^t and the factor matrices by 1 - beta2^t (beta2 < 1).",
     .flag = &Settings::use_bias_correction},
    {.name = "grafting", .type = KeyType::kChoice, .default_text = "adam",
     .doc = "The method whose step length is taken over, block by block, and that is used alone before "
            "start_preconditioning_step.",
     .choices = kGraftingNames, .choose = Choose<&Settings::grafting>},
    {.name = "grafting_beta2", .type = KeyType::kF64, .default_text = "auto",
     .doc = "Decay of the grafting method's second moment (rmsprop, adam). auto: 0.99 for rmsprop, 0.999 for adam. "
            "Has no effect with other grafting methods.",
     .least = 0, .most = 1, .least_open = true, .number = &Settings::grafting_beta2, .changeable = true},
    {.name = "grafting_epsilon", .type = KeyType::kF64, .default_text = "auto",
     .doc = "Added to the root of the grafting method's second moment. auto: 1e-10 for adagrad, else 1e-8.",
     .least = 0, .least_open = true, .number = &Settings::grafting_epsilon, .changeable = true, .arithmetic = true},
    {.name = "initial_inverse", .type = KeyType::kChoice, .default_text = "identity",
     .doc = "Inverse roots before the first refresh. identity: without grafting the filtered gradient is the direction "
            "until then. zero: nothing moves until then but by weight decay and momentum, as in the reference release.",
     .choices = kInitialNames, .choose = Choose<&Settings::initial_inverse>},
    {.name = "root_method", .type = KeyType::kChoice, .default_text = "eigen",
     .doc = "How inverse roots are computed. eigen: by eigendecomposition. newton: by the coupled inverse Newton "
            "iteration, of matrix products alone. higher_order: by a coupled iteration of order root_order, with epsilon "
            "relative to the largest eigenvalue. The two iterations need an exponent_multiplier of 1.",
     .choices = kMethodNames, .choose = Choose<&Settings::root_method>},
    {.name = "root_order", .type = KeyType::kI64, .default_text = "3",
     .doc = "Order of convergence of root_method higher_order: more products in each iteration, and fewer iterations.",
     .least = 2, .most = 64, .integer = &Settings::root_order},
    {.name = "root_tolerance", .type = KeyType::kF64, .default_text = "1e-06",
     .doc = "A coupled iteration ends when no element of it is further than this from the identity.",
     .least = 0, .number = &Settings::root_tolerance},
    {.name = "root_max_iterations", .type = KeyType::kI64, .default_text = "100",
     .doc = "A coupled iteration ends after so many iterations. In a step its result is then used if it is a root "
            "nevertheless, and otherwise the recovery goes on.",
     .least = 1, .most = 1000000, .integer = &Settings::root_max_iterations},
    {.name = "root_rank_handling", .type = KeyType::kChoice, .default_text = "epsilon",
     .doc = "What becomes of eigenvalues that are 0. epsilon: epsilon is added to all. pseudo_inverse: their directions "
            "are left out of the inverse root, for gradients of low rank; epsilon must be 0, and root_method eigen.",
     .choices = kRankNames, .choose = Choose<&Settings::root_rank_handling>},
    {.name = "root_rank_rtol", .type = KeyType::kF64, .default_text = "auto",
     .doc = "With pseudo_inverse an eigenvalue counts as 0 at or below the larger of this times the largest eigenvalue "
            "and root_rank_atol. auto: the order of the matrix times the machine epsilon of its root_dtype.",
     .least = 0, .number = &Settings::root_rank_rtol},
    {.name = "root_rank_atol", .type = KeyType::kF64, .default_text = "0",
     .doc = "With pseudo_inverse an eigenvalue at or below this counts as 0, too; see root_rank_rtol.",
     .least = 0, .number = &Settings::root_rank_atol},
    {.name = "root_failure_tolerance", .type = KeyType::kI64, .default_text = "3",
     .doc = "A factor matrix whose inverse root cannot be computed by any rung of the recovery keeps its previous one. "
            "More such refreshes in a row than this are an error, which the next step raises before it changes anything.",
     .least = 0, .most = kLargestInteger, .integer = &Settings::root_failure_tolerance},
    {.name = "track_root_residuals", .type = KeyType::kBool, .default_text = "false",
     .doc = "Compare every inverse root with one computed in float64, for shampoo_optimizer_stat and the log. It takes "
            "two eigendecompositions in float64 for each root.",
     .flag = &Settings::track_root_residuals},
    {.name = "root_spread", .type = KeyType::kBool, .default_text = "false",
     .doc = "Spread the refreshes of inverse roots over the steps between them, so that no step is slow. Each block has a "
            "phase p below precondition_frequency f: where the next refresh follows n steps after step t, the block is "
            "refreshed at step t + floor(p * n / f). Refreshes count from start_preconditioning_step. Until its first "
            "refresh a block follows the grafting method.",
     .flag = &Settings::root_spread},
    {.name = "root_async", .type = KeyType::kI64, .default_text = "0",
     .doc = "Steps that go on with the old inverse roots while new ones are computed: those of the factor matrices of step "
            "t are used from step t + root_async on, which on a GPU leaves so many steps to compute them beside the others. "
            "Less than precondition_frequency. Each block goes by its own state: it uses new roots at once if it has none "
            "yet, if older ones are still waiting, or if the next refresh follows within root_async steps. A block without a "
            "gradient at step t + root_async uses the new roots at its next step with one. The factor matrices of "
            "step t are kept until then, as a state of computation_dtype. A CPU gives the same results, and saves no time: it "
            "computes the roots of step t in the step that uses them.",
     .least = 0, .most = kLargestInteger, .integer = &Settings::root_async},
    {.name = "on_nonfinite", .type = KeyType::kChoice, .default_text = "error",
     .doc = "What a step does when a gradient has NaN or infinity, or would overflow a state. error: it fails, and has "
            "changed nothing. skip_block: the blocks concerned stay as they are, the others go on. skip_step: all stays "
            "as it is, and the step succeeds. What was skipped is counted, and told in the log. What the owner of a block "
            "finds alone among several ranks, that its state would overflow, skips the block, with skip_step, too.",
     .choices = kNonFiniteNames, .choose = Choose<&Settings::on_nonfinite>},
    {.name = "computation_dtype", .type = KeyType::kDtype, .default_text = "auto",
     .doc = "Type of the arithmetic of a step. auto: f64 for f64 parameters, else f32.",
     .choices = kComputationDtypes, .dtype = &Settings::computation_dtype},
    {.name = "root_dtype", .type = KeyType::kDtype, .default_text = "auto",
     .doc = "Type in which inverse roots are computed. auto: computation_dtype.",
     .choices = kComputationDtypes, .dtype = &Settings::root_dtype},
    {.name = "factor_dtype", .type = KeyType::kDtype, .default_text = "auto",
     .doc = "Type in which factor matrices are kept between steps. auto: computation_dtype.",
     .choices = kStateDtypes, .dtype = &Settings::factor_dtype},
    {.name = "inverse_dtype", .type = KeyType::kDtype, .default_text = "auto",
     .doc = "Type in which inverse roots are kept between steps. auto: computation_dtype.",
     .choices = kStateDtypes, .dtype = &Settings::inverse_dtype},
    {.name = "filtered_grad_dtype", .type = KeyType::kDtype, .default_text = "auto",
     .doc = "Type in which the filtered gradient is kept between steps. auto: computation_dtype.",
     .choices = kStateDtypes, .dtype = &Settings::filtered_grad_dtype},
    {.name = "momentum_dtype", .type = KeyType::kDtype, .default_text = "auto",
     .doc = "Type in which the momentum is kept between steps. auto: computation_dtype.",
     .choices = kStateDtypes, .dtype = &Settings::momentum_dtype},
    {.name = "grafting_dtype", .type = KeyType::kDtype, .default_text = "auto",
     .doc = "Type in which the grafting method's second moment is kept between steps. auto: computation_dtype.",
     .choices = kStateDtypes, .dtype = &Settings::grafting_dtype},
    {.name = "allow_stalled_moments", .type = KeyType::kBool, .default_text = "false",
     .doc = "Accept a decay at which a second moment in 16 bits never decreases, because each step rounds it back: "
            "grafting_dtype with grafting_beta2, or factor_dtype with beta2, where 1 - beta2 is below 2^-8 (bf16) or "
            "2^-11 (f16). Only for comparison with other implementations. In f16 a moment stops decreasing at about "
            "3e-8 / (1 - decay) in any case, the end of that type's range: 3e-5 with a decay of 0.999.",
     .flag = &Settings::allow_stalled_moments},
    {.name = "gradient_scale", .type = KeyType::kF64, .default_text = "1",
     .doc = "Every gradient is read as gradient_scale times its value (loss scaling, averaging over a batch).",
     .number = &Settings::gradient_scale, .changeable = true, .arithmetic = true},
    {.name = "output", .type = KeyType::kChoice, .default_text = "parameters",
     .doc = "What a step writes to out. parameters: the new parameter. updates: the update to be added to it.",
     .choices = kOutputNames, .choose = Choose<&Settings::output>},
    {.name = "communicate", .type = KeyType::kChoice, .default_text = "updates",
     .doc = "What the owner of a block sends to the other ranks. updates: the update, which each adds to its parameter. "
            "params: the new parameter; not with output updates.",
     .scope = Scope::kOptimizer, .choices = kCommunicateNames, .choose = Choose<&Settings::communicate>},
    {.name = "communication_dtype", .type = KeyType::kDtype, .default_text = "auto",
     .doc = "Type in which it is sent; every rank uses what was sent, the owner too, so that all keep the same bits. f16 "
            "makes updates below 3e-8 zero. "
            "auto: computation_dtype, and the result is that of one rank.",
     .scope = Scope::kOptimizer, .choices = kStateDtypes, .dtype = &Settings::communication_dtype},
    {.name = "comm_bucket_bytes", .type = KeyType::kI64, .default_text = "0",
     .doc = "Bytes that the updates of all ranks may take in memory at a time: they are exchanged in as many all-gathers "
            "as that needs, with shard_mode gather in as many exchanges each way; one block of each rank is the least. "
            "0: in one.",
     .scope = Scope::kOptimizer, .least = 0, .most = kLargestInteger, .integer = &Settings::comm_bucket_bytes},
    {.name = "balance", .type = KeyType::kChoice, .default_text = "bytes",
     .doc = "By what blocks are dealt out to ranks, the largest first, each to the rank with the least so far. bytes: "
            "what is sent. cost: a model of the time that a step of the block takes, roots included.",
     .scope = Scope::kOptimizer, .choices = kBalanceNames, .choose = Choose<&Settings::balance>},
    {.name = "shard_mode", .type = KeyType::kChoice, .default_text = "local",
     .doc = "What becomes of parameters of which each shard rank holds a part. local: each part is a tensor of its own, "
            "with blocks, and so updates, that differ from those without sharding; nothing is sent. gather: blocks are "
            "those of the whole parameters, brought together at an owner for the step: the bits of a run without "
            "sharding, for an exchange of gradients and parameters to the owners, and one of updates back.",
     .scope = Scope::kOptimizer, .choices = kShardModeNames, .choose = Choose<&Settings::shard_mode>},
    {.name = "verify_replicas", .type = KeyType::kI64, .default_text = "0",
     .doc = "Every so many steps ranks compare a hash of their parameters, and a difference is an error. 0: never.",
     .scope = Scope::kOptimizer, .least = 0, .most = kLargestInteger, .integer = &Settings::verify_replicas},
    {.name = "checkpoint_keep", .type = KeyType::kI64, .default_text = "1",
     .doc = "Checkpoints that shampoo_save leaves in its directory, the new one among them; older ones are removed once "
            "it is whole.",
     .scope = Scope::kOptimizer, .least = 1, .most = kLargestInteger, .integer = &Settings::checkpoint_keep},
    {.name = "on_block_mismatch", .type = KeyType::kChoice, .default_text = "error",
     .doc = "What shampoo_load does with blocks that the checkpoint does not have, as it was saved with other blocks: with "
            "another max_preconditioner_dim, use_merge_dims, merge_min_dim or precondition_1d, or other shards and "
            "shard_mode local. error: it fails, and names them. reset: their factor matrices and inverse roots start anew, and a warning counts them. All other "
            "states are kept in any case.",
     .scope = Scope::kOptimizer, .choices = kMismatchNames, .choose = Choose<&Settings::on_block_mismatch>},
    {.name = "status_lag", .type = KeyType::kI64, .default_text = "1",
     .doc = "On a GPU, by how many calls later a step tells what it has found: gradients that it refused, roots that it "
            "could not compute. 1: the next call tells it, so that no call waits for its own step. 0: each call waits for "
            "its step. Of no effect on the CPU, where a call returns when its step is done.",
     .scope = Scope::kOptimizer, .least = 0, .most = 1, .integer = &Settings::status_lag},
    {.name = "precondition_math", .type = KeyType::kChoice, .default_text = "f32",
     .doc = "On a GPU, the arithmetic of float32 products with inverse roots. f32: that of float32. tf32: operands are "
            "rounded to TF32, which has 10 bits, for tensor cores. Factor matrices, and the roots themselves, are "
            "computed in full in any case. Of no effect on the CPU.",
     .scope = Scope::kOptimizer, .choices = kMathNames, .choose = Choose<&Settings::precondition_math>},
    {.name = "track_times", .type = KeyType::kBool, .default_text = "false",
     .doc = "Measure the time of each part of a step, for shampoo_optimizer_stat.",
     .scope = Scope::kOptimizer, .flag = &Settings::track_times},
    {.name = "threads", .type = KeyType::kI64, .default_text = "0",
     .doc = "Threads that work on a step, the caller's among them. 0: as many as the work of the step is worth, at most "
            "all processors that the process may use.",
     .scope = Scope::kOptimizer, .least = 0, .most = 4096, .integer = &Settings::threads},
};
// clang-format on

constexpr Preset::Default kShampoo2024[] = {
    {"lr", "0.01"},
    {"beta1", "0.9"},
    {"beta2", "1"},
    {"epsilon", "1e-12"},
    {"root_relative_epsilon", "0"},
    {"use_merge_dims", "true"},
    {"merge_min_dim", "0"},
    {"precondition_1d", "true"},
    {"precondition_frequency", "1"},
    {"refresh_growth", "0"},
    {"inverse_root_override", "0"},
    {"grafting", "none"},
    {"initial_inverse", "zero"},
    {"allow_stalled_moments", "true"},
};

constexpr Preset kPresets[] = {{"shampoo", {}}, {"shampoo_2024", kShampoo2024}};

constexpr size_t kKeyCount = std::size(kKeys);

std::string DescribeRange(const Key& key) {
  if (!key.choices.empty()) {
    std::string names;
    for (const char* name : key.choices) names += Cat(names.empty() ? "" : ", ", name);
    return names;
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
  if (key.type == KeyType::kList) range += ", or a list of such, separated by commas";
  if (std::string_view(key.default_text) == "auto") range = "auto, or " + range;
  return range;
}

}  // namespace

std::span<const Key> Keys() { return kKeys; }

std::span<const Preset> Presets() { return kPresets; }

const Key* FindKey(std::string_view name) {
  for (const Key& key : kKeys) {
    if (name == key.name) return &key;
  }
  return nullptr;
}

int IndexOf(const Key& key) { return static_cast<int>(&key - kKeys); }

const char* TypeName(KeyType type) {
  constexpr const char* kNames[] = {"f64", "i64", "bool", "choice", "dtype", "list"};
  return kNames[static_cast<int>(type)];
}

const std::string& RangeText(const Key& key) {
  static const auto* const texts = [] {
    auto* made = new std::array<std::string, kKeyCount>;
    for (size_t i = 0; i < kKeyCount; ++i) (*made)[i] = DescribeRange(kKeys[i]);
    return made;
  }();
  return (*texts)[static_cast<size_t>(IndexOf(key))];
}

}  // namespace shampoo

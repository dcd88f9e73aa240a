// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/plan.h"

#include <algorithm>
#include <numeric>

#include "core/base/amount.h"
#include "core/base/cpu_count.h"
#include "core/base/log.h"
#include "core/base/round_up.h"
#include "core/plan/assignment.h"
#include "core/plan/blocking.h"
#include "core/plan/check_plan.h"
#include "core/plan/cost.h"
#include "core/plan/gather_passes.h"
#include "core/plan/memory_layout.h"

namespace shampoo {
namespace {

bool SameShard(const ParamDesc& a, const ParamDesc& b) {
  return a.form == b.form && a.flat_offset == b.flat_offset && a.flat_count == b.flat_count &&
         a.local_offset == b.local_offset && a.local_shape == b.local_shape;
}

}  // namespace

Status Plan::Create(const Config& config, const Placement& placement, WorkspaceBytes workspace_bytes,
                    std::unique_ptr<Plan>* out) {
  SHAMPOO_RETURN_IF_ERROR(CheckPlacement(placement));
  std::unique_ptr<Plan> plan(new Plan(config, workspace_bytes));
  plan->open_->placement = placement;
  SHAMPOO_RETURN_IF_ERROR(plan->AddSettings(config));
  const int64_t wanted = placement.threads != 0 ? placement.threads : plan->open_->groups[0].threads;
  plan->open_->threads = wanted != 0 ? static_cast<int>(wanted) : UsableCpus();
  *out = std::move(plan);
  return {};
}

Status Plan::CheckOpen() const {
  if (!finished()) return {};
  return WrongState(
      "the plan is finished, and nothing can be added to it: add groups and parameters before "
      "shampoo_plan_finish");
}

Status Plan::CheckFinished() const {
  if (finished()) return {};
  return WrongState("the plan is not finished: call shampoo_plan_finish first");
}

Status Plan::AddSettings(const Config& config) {
  Settings settings;
  SHAMPOO_RETURN_IF_ERROR(config.Resolve(&settings));
  if (settings.method == Method::kShampoo && settings.epsilon <= 0 && settings.root_relative_epsilon <= 0 &&
      settings.root_rank_handling == RankHandling::kEpsilon) {
    return Invalid(
        "key epsilon: the value ", settings.epsilon,
        " is not allowed if root_relative_epsilon is 0, too: expected one of them above 0, or "
        "root_rank_handling=pseudo_inverse, because a rank-deficient factor matrix otherwise has no inverse root");
  }
  for (const Key& key : Keys()) {
    if (key.scope == Scope::kOptimizer && config.IsSet(key) && config.ValueOf(key).text != config_.ValueOf(key).text) {
      return Invalid(
          "key ", key.name, " is ", config.ValueOf(key).text, " in the group's config and ", config_.ValueOf(key).text,
          " in the plan's config: expected equal values, because this key applies to the whole optimizer; set it "
          "only in the plan's config");
    }
  }
  const Settings& own = open_->groups.empty() ? settings : open_->groups[0];
  if (own.communicate == Communicate::kParams && settings.output == Output::kUpdates) {
    return Invalid(
        "key communicate: the value params is not allowed with output=updates, because the ranks then need "
        "the updates: set communicate=updates or output=parameters");
  }
  SHAMPOO_RETURN_IF_ERROR(CheckDeviceKeys(settings, open_->placement));
  SHAMPOO_RETURN_IF_ERROR(CheckRootDevice(own, settings, open_->placement));
  std::vector<std::pair<std::string, std::string>> keys;
  for (const Key& key : Keys()) {
    // Ranks may have different values of the keys threads and track_times. The key preset only sets other keys.
    const std::string_view name = key.name;
    const bool local = name == "threads" || name == "track_times" || name == "preset";
    if (!local && Reads(settings.method, key)) keys.emplace_back(key.name, config.ValueOf(key).text);
  }
  open_->groups.push_back(std::move(settings));
  open_->keys.push_back(std::move(keys));
  return {};
}

Status Plan::AddGroup(const Config& config, int* group) {
  SHAMPOO_RETURN_IF_ERROR(CheckOpen());
  SHAMPOO_RETURN_IF_ERROR(AddSettings(config));
  *group = static_cast<int>(open_->groups.size()) - 1;
  return {};
}

Status Plan::AddParam(ParamDesc desc, int* index) {
  SHAMPOO_RETURN_IF_ERROR(CheckOpen());
  Param param;
  SHAMPOO_RETURN_IF_ERROR(CheckParamDesc(desc, &param.elements));
  const int groups = static_cast<int>(open_->groups.size());
  if (desc.group < 0 || desc.group >= groups) {
    return Invalid("parameter \"", desc.name, "\": group is ", desc.group, ": expected ", IndicesText(groups),
                   "; 0 is the plan's own group, and shampoo_plan_add_group returns the numbers of others");
  }
  const auto [place, is_new] = names_.insert(desc.name);
  if (!is_new) {
    return Invalid("parameter \"", desc.name,
                   "\": the name is taken by an earlier parameter: names must be unique, because "
                   "checkpoints identify parameters by name");
  }
  param.desc = std::move(desc);
  try {
    shards_.resize(open_->params.size() + 1);  // reserve() would allocate again at every call
    open_->params.push_back(std::move(param));
  } catch (...) {
    shards_.resize(open_->params.size());  // a call that fails changes nothing
    names_.erase(place);
    throw;
  }
  *index = static_cast<int>(open_->params.size()) - 1;
  return {};
}

int Plan::DimsOf(int param) const {
  const bool exists = param >= 0 && param < static_cast<int>(open_->params.size());
  return exists ? At(open_->params, param).desc.shape.ndim : 0;
}

Status Plan::AddShard(int index, int shard_rank, const ParamDesc& desc) {
  SHAMPOO_RETURN_IF_ERROR(CheckOpen());
  const auto params = static_cast<int>(open_->params.size());
  if (index < 0 || index >= params) {
    return Invalid("param is ", index, ": expected an index from shampoo_plan_add_param; the plan has ", params,
                   params == 1 ? " parameter" : " parameters");
  }
  const Param& param = At(open_->params, index);
  const std::string context = Cat("parameter \"", param.desc.name, "\"");
  const int world = open_->placement.shard_world;
  if (shard_rank < 0 || shard_rank >= world) {
    return Invalid("shard_rank is ", shard_rank, ": expected ", IndicesText(world)).Within(context);
  }
  ParamDesc added = param.desc;
  added.form = desc.form;
  added.flat_offset = desc.flat_offset;
  added.flat_count = desc.flat_count;
  added.local_offset = desc.local_offset;
  added.local_shape = desc.local_shape;
  int64_t elements = 0;
  SHAMPOO_RETURN_IF_ERROR(CheckShard(added, &elements).Within(context));
  const ParamDesc* before = shard_rank == open_->placement.shard_rank ? &param.desc : nullptr;
  std::map<int, ParamDesc>& of_ranks = At(shards_, index);
  const auto found = of_ranks.find(shard_rank);
  if (found != of_ranks.end()) before = &found->second;
  if (before != nullptr && !SameShard(*before, added)) {
    const char* const where =
        found == of_ranks.end() ? "shampoo_plan_add_param for this rank" : "an earlier call of shampoo_plan_add_shard";
    return Invalid("the shard of shard rank ", shard_rank, " differs from its description in ", where,
                   ": expected the same shard; describe each shard rank once")
        .Within(context);
  }
  of_ranks.emplace(shard_rank, std::move(added));
  return {};
}

// With shard_mode=gather, finds the shard layout of every parameter that has elements.
Status Plan::FindShardLayouts(PlanData* made) const {
  const Placement& placement = made->placement;
  if (made->groups[0].shard_mode == ShardMode::kLocal) return {};
  // With one shard rank, nothing is gathered. ShardLayout::Find() checks that the rank holds the whole parameter.
  made->gathers = placement.shard_world > 1;
  made->shard_layouts.resize(made->params.size());
  for (size_t p = 0; p < made->params.size(); ++p) {
    const ParamDesc& desc = made->params[p].desc;
    int64_t elements = 0;
    (void)CheckedProduct(desc.shape, &elements);
    if (elements == 0) continue;
    Status status =
        ShardLayout::Find(desc, placement.shard_rank, placement.shard_world, shards_[p], &made->shard_layouts[p]);
    if (!status.ok()) return std::move(status).Within(Cat("parameter \"", desc.name, "\""));
  }
  return {};
}

Status Plan::MakeBlocks(PlanData* made) const {
  made->blocks.reserve(made->params.size());
  for (size_t p = 0; p < made->params.size(); ++p) {
    Param& param = made->params[p];
    const Settings& settings = made->group(param);
    param.first_block = static_cast<int64_t>(made->blocks.size());
    int64_t global_elements = 0;
    (void)CheckedProduct(param.desc.shape, &global_elements);
    Param viewed = param;
    if (made->gathers) {
      viewed.desc.form = ShardForm::kWhole;
      viewed.elements = global_elements;
    }
    Status status = AppendBlocks(viewed, settings, &made->blocks);
    if (!status.ok()) return std::move(status).Within(Cat("parameter \"", param.desc.name, "\""));
    param.block_count = static_cast<int64_t>(made->blocks.size()) - param.first_block;
    for (int64_t i = 0; i < param.block_count; ++i) {
      Block& block = At(made->blocks, param.first_block + i);
      block.param = static_cast<int>(p);
      block.index = static_cast<int>(i);
      block.group = param.desc.group;
      block.piece_of_shard = viewed.elements != global_elements;
      block.shard_owner = made->placement.shard_rank;
      const bool needs_whole = block.is_orthogonalized ? !settings.muon_local : settings.uses_norms();
      if (block.piece_of_shard && needs_whole && !block.is_routed) {
        return Invalid(
            "parameter \"", param.desc.name, "\" is divided among shard ranks: expected a whole parameter, because ",
            block.is_orthogonalized ? "method muon orthogonalizes whole matrices"
                                    : Cat("its group uses norms of whole tensors (one of the keys ", kNormKeys, ")"),
            "; set shard_mode=gather, or use another group for the parameter",
            block.is_orthogonalized ? "; or set muon_local=true to orthogonalize each shard alone" : "");
      }
      const bool reads_rows = settings.direction_moment == DirectionMoment::kRow ||
                              settings.direction_moment == DirectionMoment::kShort ||
                              (settings.update_floor > 0 && settings.update_floor_rows);
      if (block.piece_of_shard && block.is_orthogonalized && reads_rows) {
        return Invalid(
            "parameter \"", param.desc.name,
            "\" is divided among shard ranks: expected a whole parameter, because whole rows and columns are needed "
            "with second_moment=row, second_moment=short or update_floor_rows=true, even with muon_local; set "
            "shard_mode=gather, or set update_floor_rows=false and second_moment=element or second_moment=none");
      }
      if (made->gathers) {
        block.gathered = true;
        block.stride = RowMajorStrides(block.shape);
        block.offset = 0;
      }
      LayOutBlock(block.is_routed ? settings.Routed() : settings, param.desc.param_dtype, &block);
      const bool uses_bf16 =
          settings.muon_math == MuonMath::kBf16 && settings.orthogonalization != Orthogonalization::kExact;
      if (block.is_orthogonalized && uses_bf16 && block.computation == Dtype::kF64) {
        return Invalid("key muon_math is bf16, but parameter \"", param.desc.name,
                       "\" has computation dtype f64: expected muon_math=f32, or computation_dtype=f32");
      }
    }
  }
  return {};
}

Status Plan::CheckArithmetic(const PlanData& made) const {
  for (const Block& block : made.blocks) {
    Status status = made.group(block).CheckArithmetic(block.computation);
    if (!status.ok()) {
      return std::move(status).Within(Cat("parameter \"", made.param(block).desc.name, "\""));
    }
  }
  return {};
}

// Assigns owners, and lays out the arena of each rank: first the step counters, then the states of the blocks that the
// rank owns, in the order of PlanData::blocks.
void Plan::PlaceStates(PlanData* made) const {
  const int world = made->ranks();
  const Settings& settings = made->groups[0];
  std::vector<int64_t> update_bytes;
  std::vector<int64_t> costs;
  for (Block& block : made->blocks) {
    block.exchange_dtype = ExchangeDtype(settings, block);
    update_bytes.push_back(block.elements * static_cast<int64_t>(SizeOf(block.exchange_dtype)));
    const Settings& group = made->group(block);
    if (settings.balance == Balance::kCost) costs.push_back(OwnerCost(block, RefreshKeysOf(group)));
  }
  const Ownership ownership = AssignOwners(update_bytes, world, costs);

  std::vector<std::vector<const Block*>> blocks_of_rank(static_cast<size_t>(world));
  made->state_bytes_of_rank.assign(static_cast<size_t>(world), CounterBytes(static_cast<int64_t>(made->groups.size())));
  for (size_t i = 0; i < made->blocks.size(); ++i) {
    Block& block = made->blocks[i];
    const int owner = ownership.owner[i];
    block.owner = owner;
    int64_t& end = At(made->state_bytes_of_rank, owner);
    PlaceBlock(end, &block);
    end += block.state_bytes;
    At(blocks_of_rank, owner).push_back(&block);
  }
  for (int64_t& bytes : made->state_bytes_of_rank) bytes = RoundUp(bytes, kArenaAlignment);
  made->bucket_segment_bytes = PlanExchange(ownership, world, settings.comm_bucket_bytes, &made->blocks);
  made->bucket_count = std::max<size_t>(made->bucket_segment_bytes.size(), 1);
  if (made->gathers) {
    for (Block& block : made->blocks) {
      block.shard_owner = block.owner % made->placement.shard_world;
      block.owner /= made->placement.shard_world;
    }
    PlanGatherBytes(made);
  }
  for (size_t rank = 0; rank < blocks_of_rank.size(); ++rank) {
    const int64_t exchanged = made->gathers ? made->gather_bytes_of_rank[rank].buffers() : made->ReplicaBufferBytes();
    made->workspace_bytes_of_rank.push_back(workspace_bytes_(*made, rank, blocks_of_rank[rank]) + exchanged);
  }
}

int64_t PlanData::ReplicaSetBytes() const {
  if (bucket_segment_bytes.empty()) return 0;
  return placement.replica_world * *std::max_element(bucket_segment_bytes.begin(), bucket_segment_bytes.end());
}

Status Plan::Finish() {
  if (finished()) return WrongState("the plan is finished already: call shampoo_plan_finish only once");
  auto made = std::make_shared<PlanData>(*open_);
  SHAMPOO_RETURN_IF_ERROR(FindShardLayouts(made.get()));
  SHAMPOO_RETURN_IF_ERROR(MakeBlocks(made.get()));
  SHAMPOO_RETURN_IF_ERROR(CheckArithmetic(*made));
  AssignPhases(made->groups, &made->blocks);
  PlaceStates(made.get());
  finished_ = std::move(made);
  for (size_t g = 0; g < finished_->groups.size(); ++g) {
    const Settings& settings = finished_->groups[g];
    if (settings.use_nesterov && settings.momentum == 0 && settings.method != Method::kMuon) {
      LogText(LogLevel::kWarning, [g] {
        return Cat("group ", g,
                   ": use_nesterov has no effect because momentum is 0; set momentum above 0, or use_nesterov=false");
      });
    }
  }
  return {};
}

Status Plan::Bytes(int rank, std::string_view what, int64_t* bytes) const {
  SHAMPOO_RETURN_IF_ERROR(CheckFinished());
  const int world = finished_->ranks();
  if (rank == -1) rank = finished_->rank();
  if (rank < 0 || rank >= world)
    return Invalid("rank is ", rank, ": expected ", IndicesText(world), ", or -1 for this rank");
  constexpr std::string_view kByAllGather = ".all_gather";
  const std::string_view asked = what;
  const bool by_all_gather = what != "state" && what.ends_with(kByAllGather);
  if (by_all_gather) what.remove_suffix(kByAllGather.size());
  const int64_t state = At(finished_->state_bytes_of_rank, rank);
  int64_t workspace = At(finished_->workspace_bytes_of_rank, rank);
  const GatherBytes gathering = finished_->gathers ? At(finished_->gather_bytes_of_rank, rank) : GatherBytes{};
  if (by_all_gather) workspace += gathering.by_all_gather;
  if (asked == "state") {
    *bytes = state;
  } else if (what == "workspace") {
    *bytes = workspace;
  } else if (what == "total") {
    *bytes = state + workspace;
  } else if (what == "comm" && finished_->gathers) {
    *bytes = by_all_gather ? gathering.sent_by_all_gather : gathering.sent;
  } else if (what == "comm") {
    const std::vector<int64_t>& segments = finished_->bucket_segment_bytes;
    *bytes = std::accumulate(segments.begin(), segments.end(), int64_t{0});
  } else {
    return Invalid("argument \"what\" is \"", asked,
                   "\": expected state, workspace, total or comm, or one of the last three followed by .all_gather");
  }
  return {};
}

}  // namespace shampoo

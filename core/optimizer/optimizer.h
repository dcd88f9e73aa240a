// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/backend/cpu/cpu_backend.h"
#include "core/base/device_type.h"
#include "core/base/executor.h"
#include "core/base/memory.h"
#include "core/comm/agreement.h"
#include "core/comm/communicator.h"
#include "core/optimizer/exchange.h"
#include "core/optimizer/gathering.h"
#include "core/optimizer/root_ledger.h"
#include "core/optimizer/shard_status.h"
#include "core/plan/plan.h"
#include "core/state/entries.h"

namespace shampoo {

struct OnDevice;
namespace cuda {
struct StepReport;
}

struct OptimizerDesc {
  DeviceType device = DeviceType::kCpu;
  int device_id = 0;
  void* stream = nullptr;
  HostAllocator allocator;
  HostExecutor executor;
  void* state = nullptr;  // nullptr: allocated here
  size_t state_bytes = 0;
  std::shared_ptr<Communicator> replica_comm;  // nullptr: one rank
  std::shared_ptr<Communicator> shard_comm;
};

// State, workspace and buffers of one rank, and the step over them.
class Optimizer {
 public:
  // given: what the caller of this rank has done wrong already, of which the other ranks are to know; plan may be
  // nullptr then.
  static Status Create(std::shared_ptr<const PlanData> plan, const OptimizerDesc& desc, Status given,
                       std::unique_ptr<Optimizer>* out);
  ~Optimizer();

  bool on_device() const { return device_ != nullptr; }
  Status CheckRange(int first, int count) const;  // of parameters
  Status Bind(int first, std::span<const Buffers> buffers);
  Status BindScalar(int group, const char* name, int dtype, const void* value);
  Status BindState(const void* state_in, void* state_out);
  Status Set(int group, const char* name, double value);
  Status Get(int group, const char* name, double* value) const;
  Status Step(Status given, void* stream);
  // What steps on a device have found that no call has told yet. failed: the number of the call; 0: none.
  Status StatusOfSteps(bool wait, int64_t* failed);
  Status Stat(std::string_view name, double* value) const;
  Status StepOfGroup(std::string_view number, double* value) const;

  std::span<const StateEntry> entries() const { return entries_; }
  Status EntryAt(int64_t index, const StateEntry** entry) const;
  // Of a buffer of the caller.
  Status CheckMemoryType(DeviceType memory) const;
  // Elements of an entry; memory: where the caller's buffer is.
  Status ReadState(int64_t index, int64_t first, int64_t count, void* to, size_t to_bytes, DeviceType memory,
                   void* stream);
  Status WriteState(int64_t index, int64_t first, int64_t count, const void* from, size_t from_bytes, DeviceType memory,
                    void* stream);
  // Which may be memory of a device: see StateAccess.
  const char* arena() const { return state_out_; }
  char* ArenaToWrite() {
    is_initial_ = false;
    return state_out_;
  }

  // For checkpoints.
  const PlanData& plan() const { return *plan_; }
  const Settings& SettingsOf(int group) const { return groups_[static_cast<size_t>(group)].settings; }  // in force
  // For a communicator that takes memory of this optimizer's device; nullptr on the CPU.
  std::unique_ptr<Staging> MakeStaging(void* stream) const;
  // Before the state is looked at: what steps have found is taken, and further copies are in the order of the stream.
  Status UseState(void* stream);
  // Bytes of the arena.
  Status FetchState(int64_t offset, int64_t bytes, char* to) const;
  Status PutState(int64_t offset, int64_t bytes, const char* from);
  // Steps of a group, on a device as FetchSteps has found them.
  Status FetchSteps();
  int64_t StepsOf(int group) const {
    return on_device() ? saved_steps_[static_cast<size_t>(group)] : step_counters()[group];
  }
  Status SetSteps(int group, int64_t steps);
  // Whether the state is that of create, so that InitializeState would bring it back.
  bool is_initial() const { return is_initial_; }
  Status InitializeState();
  Status InitializeFactors(const Block& block);
  // After the state has become another: what earlier steps have left to be raised is of no account.
  void StateIsReplaced();
  // After it was spoiled: what reads this arena fails with this text, until the state is replaced or written anew.
  void StateIsLost(std::string why) {
    lost_ = std::move(why);
    lost_state_ = state_out_;
  }
  Status CheckState(const char* arena) const;

 private:
  // A hyper-parameter that is read from the caller's memory at each step.
  struct BoundScalar {
    const void* value = nullptr;
    Dtype dtype = Dtype::kF32;
    double Read() const;
  };
  struct Group {
    Settings settings;
    Dtype narrowest = Dtype::kF64;  // of the computation dtypes of its blocks
    BoundScalar lr;
    BoundScalar gradient_scale;
    bool active = false;  // some parameter has a gradient in this step
    StepProgram program;
    GroupSchedule schedule;

    double CurrentLr() const { return lr.value != nullptr ? lr.Read() : settings.lr; }
    double CurrentScale() const {
      return gradient_scale.value != nullptr ? gradient_scale.Read() : settings.gradient_scale;
    }
  };

  // A parameter, or a block that was gathered, of whose G a bound is wanted.
  struct Scanned {
    const ParamDesc* desc;
    const Buffers* buffers;
    int64_t elements;
    const StepProgram* program;
    double* bound;
    double largest_gradient = 0;  // as they lie in memory
    double largest_param = 0;     // where it is part of G
  };

  explicit Optimizer(std::shared_ptr<const PlanData> plan);
  // The number of this optimizer among those of each communicator, the same on all ranks.
  struct Numbers {
    int32_t of_replicas = 0;
    int32_t of_shards = 0;
  };
  Status Build(const OptimizerDesc& desc, const Numbers& numbers);
  Status CheckCommunicators(const OptimizerDesc& desc) const;
  Status AllocateState(const OptimizerDesc& desc);
  Status CheckGivenState(const OptimizerDesc& desc) const;
  Status BuildOnDevice(const OptimizerDesc& desc, const Numbers& numbers);
  void PrepareStep();
  void PrepareGathering();

  Status CheckGroup(int group) const;
  Status CheckBuffers(const Param& param, const Buffers& buffers) const;

  // The parts of a step, in their order.
  // skip_step: this step is to change nothing, and to succeed.
  Status CheckStep(bool* skip_step);
  Status CheckWithShards(const Status& checked, bool* skip_step);
  Status CheckBlock(StepItem* item, const char* state, std::vector<std::string>* messages, bool* skip_step);
  Status TellOfLoss();
  Status CheckBound() const;
  Status CheckScalars() const;
  Status ListItems();
  RootSchedule ScheduleOf(const Block& block) const;
  Status CheckFactors();
  void ScanGradients();
  void BoundScanned();
  Status CheckGradients(bool* skip_step);
  void TakeScalars();
  void CopyState();
  void AdvanceGroups();
  void CompleteSkipped() const;
  void CompleteSkippedStep();
  void BeginStep();
  Status FinishStep(bool go);
  void RemoveBadItems();
  void PassBadItems();
  void EnterStanding();
  Status RaiseStanding();
  Status RaiseOverdueRoots();
  void PrepareProgram(Group* group, int64_t t);
  // number: what stretch_param_ tells of them.
  void AddStretches(size_t number, const void* data, Dtype dtype, int64_t elements);
  size_t BlockIndex(const StepItem& item) const;
  void EnterRoots();

  // On a device.
  Status StepOnDevice(Status given, void* stream);
  Status PrepareForDevice(bool captured);
  void ListTasks();
  Status RefuseCapture() const;
  void NoteAhead(bool given);
  Status GiveToDevice(bool captured, const Status& checked);
  Status TakeReport(int64_t ticket);
  Status Settle();
  void TakeSnapshotSteps();
  bool KnowsCounters() const;
  Status FetchCounters();
  Status RaiseRefusal(const char* when);
  Status RefusalTogether();
  Status RefusalOf(const cuda::StepReport& report);
  Status RefusalOfBlock(const cuda::StepReport& report) const;
  Status RefuseSchedule(const cuda::StepReport& report) const;
  Status RefuseScalar(const char* name, size_t group, double value) const;
  Status EnterRootsOfDevice(int64_t ticket);
  Status RecoverRootOfDevice(const Block& block, int k, RootOutcome* outcome);

  // With several ranks.
  Status StepTogether(const Status& checked, bool skip_step);
  Status GatherBucket(int64_t bucket, const Status& checked, bool skip_step);
  Status AgreeOnVerdict(Status own);
  Status EndEarly(Status verdict);
  std::span<const StepItem> ItemsOf(int64_t bucket, bool own);
  void ComputeBucket(int64_t bucket);
  void ApplyBucket(int64_t bucket);
  SegmentHeader HeaderFor(const Status& checked, bool skip_step, int64_t bucket);
  uint64_t HashOfScalars() const;
  void TakeInputs(const int64_t* counters, bool skip_step);
  Status CompareInputs();
  Status FindInput(Communicator* comm, Difference* found);
  bool VerifiesReplicas() const;
  void HashParameters();
  Status CompareReplicas();
  void TakeOverdueOfOthers();

  // With blocks that are brought together from shards.
  void AssumeGradients();
  void TakeAgreedGradients();
  bool DoubtsGradients();
  Status InspectTogether(Status checked, bool* skip_step);
  Status StepGathered(Status checked, bool skip_step);
  Status CollectBucket(int64_t bucket);
  Status DeliverBucket(int64_t bucket);
  void CheckOwned(int64_t bucket);
  StepItem* WholeItem(size_t round, size_t k);
  void ScanWholeBlocks(size_t round);
  bool CheckStateOf(const StepItem& item);
  void ApplyDelivered(int64_t bucket);
  Status Lose(Status failure, int64_t bucket, bool delivering);
  size_t OwnRound(int64_t bucket) const { return gathering_->RoundIndex(bucket, plan_->placement.replica_rank); }
  char* Arrived(int64_t bucket, int replica) const;

  bool Owns(const Block& block) const { return plan_->Owns(block); }
  const Param& ParamOf(const Block& block) const { return plan_->params[static_cast<size_t>(block.param)]; }
  bool HasGradient(const Param& param) const;  // on this rank
  bool TakesPart(const Param& param) const;    // on any that holds something of it
  int64_t* step_counters() const { return reinterpret_cast<int64_t*>(state_out_); }

  std::shared_ptr<const PlanData> plan_;
  std::shared_ptr<Communicator> replica_comm_;  // held even where one rank needs none
  std::vector<Group> groups_;
  std::vector<Buffers> buffers_;  // by parameter
  std::vector<bool> bound_;
  std::unique_ptr<CpuBackend> backend_;  // of the CPU; nullptr on a device
  std::unique_ptr<OnDevice> device_;     // nullptr on the CPU
  Allocation own_state_;
  bool owns_state_ = false;        // the arena of create was allocated here
  char* created_state_ = nullptr;  // own_state_ or the host's, given at create
  const char* state_in_ = nullptr;
  char* state_out_ = nullptr;
  std::vector<StateEntry> entries_;
  std::vector<int64_t> saved_steps_;  // by group, on a device
  bool is_initial_ = false;
  std::string lost_;  // why there is no state in lost_state_; empty: all arenas have one
  const char* lost_state_ = nullptr;

  // Made once, so that a step allocates nothing.
  std::vector<int64_t> blocks_by_cost_;
  std::vector<StepItem> items_;
  std::vector<size_t> item_of_block_;
  std::vector<char> refreshed_;       // by block, in this step: its roots
  std::vector<char> update_skipped_;  // by block, in this step
  std::vector<char> is_bad_;          // by block: among bad_items_
  int64_t standing_block_ = -1;       // one that stood still, to be raised by the next step
  std::vector<MemorySpan> stretches_;
  std::vector<int> stretch_param_;
  std::vector<double> stretch_largest_;
  std::vector<Scanned> scanned_;
  std::vector<double> gradient_bound_;  // by parameter

  std::vector<StepItem> bad_items_;  // with a gradient that is to be skipped

  // With several ranks; nullptr: one.
  std::unique_ptr<Exchange> exchange_;
  std::unique_ptr<ShardStatus> shards_;
  std::vector<StepItem> bucket_items_;
  std::vector<int64_t> inputs_;  // what must be the same: by parameter, by group, and whether the step is skipped
  std::vector<int64_t> parameter_hash_;
  std::vector<uint64_t> stretch_hash_;
  std::vector<int64_t> shard_steps_;   // by group
  std::vector<char> shard_gradients_;  // by parameter: ShardStatus::Gradient
  int64_t overdue_elsewhere_ = -1;     // a factor matrix of another rank, to be raised by the next step
  bool failure_is_echo_ = false;

  // With blocks that are brought together from shards; nullptr: without.
  std::unique_ptr<Gathering> gathering_;
  std::vector<char> takes_part_;        // by parameter
  std::vector<Buffers> whole_buffers_;  // by block: those that come to this rank
  std::vector<SliceItem> slice_items_;
  std::vector<double> block_bound_;  // of the blocks of a round
  bool doubts_ = false;

  RootLedger roots_;
  int64_t steps_ = 0;
  int64_t nonfinite_blocks_ = 0;
  int64_t skipped_steps_ = 0;
};

}  // namespace shampoo

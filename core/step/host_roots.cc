// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/step/host_roots.h"

#include <algorithm>
#include <utility>

#include "core/backend/cuda/host_root_bytes.h"
#include "core/rules/growth.h"
#include "core/rules/root_spec.h"
#include "core/rules/step_scalars.h"

namespace shampoo {
namespace {

// The largest number of unfinished jobs. If a step would start more, it first waits for the oldest job.
constexpr int64_t kMaxJobs = 128;

}  // namespace

Status HostRoots::Create(const PlanData& plan, std::shared_ptr<const cuda::DeviceEngine> engine,
                         std::unique_ptr<HostRoots>* out) {
  std::vector<const Block*> blocks;
  for (const Block& block : plan.blocks) {
    if (plan.Owns(block) && block.snapshot_step.present()) blocks.push_back(&block);
  }
  if (blocks.empty()) return {};
  std::unique_ptr<HostRoots> made(new HostRoots(plan, std::move(engine)));
  SHAMPOO_RETURN_IF_ERROR(made->Allocate(blocks));
  HostRoots* const own = made.get();
  SHAMPOO_RETURN_IF_ERROR(JobThread::Create(
      "the thread of root_device=host", made->jobs_.size(), [own](size_t slot) { return own->Run(own->jobs_[slot]); },
      &made->thread_));
  *out = std::move(made);
  return {};
}

HostRoots::HostRoots(const PlanData& plan, std::shared_ptr<const cuda::DeviceEngine> engine)
    : plan_(plan), engine_(std::move(engine)), on_device_(engine_->host_root_jobs()), memory_(on_device_.memory()) {}

HostRoots::~HostRoots() {
  stopping_ = true;
  thread_.reset();
}

Status HostRoots::Allocate(const std::vector<const Block*>& blocks) {
  int64_t factors = 0;
  for (const Block& block : plan_.blocks) {
    first_factor_.push_back(factors);
    factors += block.factor_count();
  }
  reports_.resize(static_cast<size_t>(factors));
  int64_t steps = 0;
  int64_t own_bytes = 0;
  int64_t tracked_bytes = 0;
  int64_t recovery_elements = 0;
  int64_t ints = 0;
  size_t roots = 0;
  blas::ScratchExtent extent;
  for (const Block* const block : blocks) {
    const GroupSettings& settings = plan_.groups[static_cast<size_t>(block->group)];
    steps = std::max(steps, settings.root_async);
    for (int k = 0; k < block->factor_count(); ++k) {
      if (!block->has_factor(k)) continue;
      const int64_t d = block->shape[k];
      const int64_t in_f64 = RootWorkspace<double>::Elements(settings.root_method, d);
      const bool narrow = block->root_dtype != Dtype::kF64;
      const int64_t elements = narrow ? RootWorkspace<float>::Elements(settings.root_method, d) : in_f64;
      own_bytes = std::max(own_bytes, elements * static_cast<int64_t>(SizeOf(block->root_dtype)));
      if (narrow) recovery_elements = std::max(recovery_elements, in_f64);
      if (settings.track_root_residuals) {
        tracked_bytes = std::max(tracked_bytes, d * d * static_cast<int64_t>(SizeOf(block->computation)));
      }
      ints = std::max(ints, RootWorkspace<double>::Ints(d));
      extent.Add(d, d, SizeOf(block->root_dtype));
      ++roots;
    }
  }
  roots_.reserve(roots);
  for (Chunk& chunk : chunks_) chunk.roots.reserve(roots);
  jobs_.resize(static_cast<size_t>(std::min(steps + 1, kMaxJobs)));
  for (Job& job : jobs_) {
    job.settings.resize(plan_.groups.size());
    job.steps.resize(plan_.blocks.size());
  }
  last_job_.resize(plan_.blocks.size());
  recovery_elements_.resize(static_cast<size_t>(recovery_elements));
  recovery_ints_.resize(static_cast<size_t>(ints));
  recovery_.workspace = {recovery_elements_.data(), recovery_ints_.data()};
  SHAMPOO_RETURN_IF_ERROR(blas::CheckThreads());
  // The executor of the application cannot be used here: it may be called only on a thread that is calling the library.
  SHAMPOO_RETURN_IF_ERROR(Executor::Create(plan_.threads, {}, &executor_));
  slots_.resize(static_cast<size_t>(executor_->slots()));
  const auto doubles = [](int64_t bytes) { return static_cast<size_t>((bytes + 7) / 8); };
  for (Slot& slot : slots_) {
    SHAMPOO_RETURN_IF_ERROR(blas::Scratch::Create(extent, &slot.scratch));
    slot.elements.resize(doubles(own_bytes));
    slot.ints.resize(static_cast<size_t>(ints));
    slot.factor.resize(doubles(tracked_bytes));
  }
  return {};
}

// Waits for earlier jobs. If no job has computed the roots that the step uses, for example because their snapshots were
// loaded from a checkpoint, starts a job for these roots and waits for it. The device does not compute these roots,
// because it rounds differently from the host.
Status HostRoots::Prepare(const StepRoots& step) {
  SHAMPOO_RETURN_IF_ERROR(TakeError());
  if (!step.any_task) return {};
  SHAMPOO_RETURN_IF_ERROR(WaitFor(*step.tasks));
  SHAMPOO_RETURN_IF_ERROR(Start(
      {step.tasks, RootTask::kFromSnapshot, step.settings, step.block_counters, true, step.state_in, step.stream}));
  SHAMPOO_RETURN_IF_ERROR(WaitFor(*step.tasks));
  std::replace(step.tasks->begin(), step.tasks->end(), RootTask::kFromSnapshot, RootTask::kAdoptDeviceRoots);
  return {};
}

Status HostRoots::StartFromStep(const StepRoots& step) {
  return Start({step.tasks, RootTask::kTakeSnapshot, step.settings, step.steps, false, nullptr, step.stream});
}

bool HostRoots::TakeHostReport(RootTask task, int64_t factor, RootReport* report) const {
  if (task != RootTask::kAdoptDeviceRoots) return false;
  *report = ReportOf(factor);
  return true;
}

Status HostRoots::Start(const Source& source) {
  const std::vector<RootTask>& tasks = *source.tasks;
  if (std::find(tasks.begin(), tasks.end(), source.task) == tasks.end()) return {};
  Job& job = jobs_[thread_->NextSlot()];
  std::copy(source.settings->begin(), source.settings->end(), job.settings.begin());
  for (size_t b = 0; b < tasks.size(); ++b) {
    const auto at = source.steps_are_by_block ? b : static_cast<size_t>(plan_.blocks[b].group);
    job.steps[b] = tasks[b] == source.task ? source.steps[at] : 0;
  }
  SHAMPOO_RETURN_IF_ERROR(on_device_.Start({source.stream, tasks.data(), source.task, source.arena}, &job.number));
  const int64_t number = thread_->Submit();
  for (size_t b = 0; b < tasks.size(); ++b) {
    if (tasks[b] == source.task) last_job_[b] = number;
  }
  return {};
}

Status HostRoots::WaitFor(const std::vector<RootTask>& tasks) {
  int64_t last = 0;
  for (size_t b = 0; b < tasks.size(); ++b) {
    const RootTask task = tasks[b];
    const bool uses =
        task == RootTask::kTakeSnapshot || task == RootTask::kFromSnapshot || task == RootTask::kAdoptDeviceRoots;
    if (uses) last = std::max(last, last_job_[b]);
  }
  thread_->WaitFor(last);
  return thread_->TakeError();
}

Status HostRoots::Run(const Job& job) {
  SHAMPOO_RETURN_IF_ERROR(on_device_.Begin(job.number));
  Status status = RunChunks(job);
  // End() is also called after a failure, because part of the work may already be enqueued.
  Status ended = on_device_.End(job.number);
  return status.ok() ? std::move(ended) : std::move(status);
}

// Chunks use the two buffers in turn. All copies to and from the buffers use one stream, which runs its work in order.
// Therefore the matrices of a chunk are copied to a buffer only after the roots of the previous chunk in this buffer
// have been copied to the device.
Status HostRoots::RunChunks(const Job& job) {
  roots_.clear();
  for (size_t b = 0; b < job.steps.size(); ++b) {
    if (job.steps[b] == 0) continue;
    const Block& block = plan_.blocks[b];
    for (int32_t k = 0; k < block.factor_count(); ++k) {
      if (block.has_factor(k)) roots_.emplace_back(static_cast<int64_t>(b), k);
    }
  }
  next_root_ = 0;
  SHAMPOO_RETURN_IF_ERROR(Fetch(&chunks_[0]));
  for (int32_t buffer = 0; !chunks_[static_cast<size_t>(buffer)].roots.empty() && !stopping_; buffer = 1 - buffer) {
    const Chunk& chunk = chunks_[static_cast<size_t>(buffer)];
    Chunk* const next = &chunks_[static_cast<size_t>(1 - buffer)];
    next->buffer = 1 - buffer;
    SHAMPOO_RETURN_IF_ERROR(Fetch(next));
    SHAMPOO_RETURN_IF_ERROR(on_device_.WaitForFetch(buffer));
    Compute(job, chunk);
    SHAMPOO_RETURN_IF_ERROR(on_device_.Return(chunk.roots));
  }
  return {};
}

Status HostRoots::Fetch(Chunk* chunk) {
  chunk->roots.clear();
  char* const buffer = memory_.buffers[chunk->buffer];
  int64_t at = 0;
  for (; next_root_ < roots_.size(); ++next_root_) {
    const auto [b, k] = roots_[next_root_];
    const int64_t bytes = cuda::HostRootBytes(plan_.block(b), k);
    if (at > 0 && at + bytes > memory_.bytes) break;
    auto* const header = reinterpret_cast<cuda::HostRootHeader*>(buffer + at);
    chunk->roots.push_back({b, k, header, buffer + at + cuda::kHostRootHeaderBytes});
    at += bytes;
  }
  return chunk->roots.empty() ? Status() : on_device_.Fetch(chunk->roots, chunk->buffer);
}

void HostRoots::Compute(const Job& job, const Chunk& chunk) {
  struct Call {
    HostRoots* own;
    const Job* job;
    const Chunk* chunk;
  } call{this, &job, &chunk};
  const auto compute = [](void* argument, Team::Worker& worker, int64_t i) {
    const auto* const mine = static_cast<Call*>(argument);
    mine->own->ComputeOne(*mine->job, mine->chunk->roots[static_cast<size_t>(i)], &worker);
  };
  const int slots = executor_->slots();
  Team::Run(executor_.get(), static_cast<int64_t>(chunk.roots.size()), slots, slots, compute, &call,
            [this](int slot) { return blas::ScratchUse(&slots_[static_cast<size_t>(slot)].scratch); });
}

void HostRoots::ComputeOne(const Job& job, const cuda::HostRoot& root, Team::Worker* worker) {
  if (stopping_) return;
  RootReport& report = reports_[static_cast<size_t>(first_factor_[static_cast<size_t>(root.block)] + root.dim)];
  report = plan_.block(root.block).computation == Dtype::kF64 ? RootOf<double>(job, root, worker)
                                                              : RootOf<float>(job, root, worker);
  const RootOutcome& outcome = report.outcome;
  cuda::RootStatus& status = root.header->status;
  status = {};
  status.kind = outcome.kind;
  status.failure = outcome.failure;
  status.iterations = outcome.iterations;
  status.converged = outcome.converged;
  status.solver_info = outcome.solver_info;
  status.diagonal_input = outcome.diagonal_input ? 1 : 0;
}

// Computes a root and writes it over the matrix. This is safe, because no rung of the recovery ladder reads the matrix
// after a rung has found a root.
template <typename Real>
RootReport HostRoots::RootOf(const Job& job, const cuda::HostRoot& root, Team::Worker* worker) {
  const Block& block = plan_.block(root.block);
  const auto b = static_cast<size_t>(root.block);
  Slot& slot = slots_[static_cast<size_t>(worker->slot())];
  const int64_t n = block.shape[root.dim];
  const GroupSettings& settings = job.settings[static_cast<size_t>(block.group)];
  RootSpec spec = MakeRootSpec(settings, block.root, 1, n, block.root_dtype);
  spec.may_be_diagonal = root.header->may_be_diagonal != 0;
  spec.id = first_factor_[b] + root.dim;
  const RootMemory memory{block.root_dtype, slot.elements.data(), slot.ints.data(), &recovery_, worker};
  auto* const matrix = static_cast<Real*>(root.matrix);
  SymmetricView<Real> factor =
      DividedByTrace(spec, SymmetricView<Real>{n, matrix, FactorCorrection(settings, job.steps[b]), n});
  auto* const copy = reinterpret_cast<Real*>(slot.factor.data());
  if (settings.track_root_residuals) std::copy_n(matrix, n * n, copy);
  RootReport report;
  report.outcome = ComputeRoot(spec, factor, memory, RootLimit(block, static_cast<size_t>(root.dim)),
                               SymmetricTarget<Real>::Full(n, matrix));
  if (!settings.track_root_residuals || !report.outcome.ok()) return report;
  factor.data = copy;
  report.residuals = MeasureRoot(spec, report.outcome, factor, SymmetricView<Real>{n, matrix}, memory);
  return report;
}

}  // namespace shampoo

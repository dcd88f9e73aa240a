// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/distributed/grid.h"

#include <algorithm>
#include <ostream>
#include <tuple>
#include <utility>

namespace shampoo_test {
namespace {

// Divides the indices 0 to count - 1 among ranks. Returns the first index of `rank`, and the number of its indices.
std::pair<int64_t, int64_t> Share(int64_t count, int rank, int ranks) {
  const int64_t each = (count + ranks - 1) / ranks;
  const int64_t first = std::min(count, each * rank);
  return {first, std::min(each, count - first)};
}

// Appends the elements of a shard, which is a rectangle of `whole`, to `part` in row-major order. Calls itself for each
// dim. at: the indices along the dims before `dim`, as one row-major index; 0 if `dim` is 0.
void CopyRectangle(const ParamSpec& shard, size_t dim, int64_t at, const std::vector<float>& whole,
                   std::vector<float>* part) {
  if (dim == shard.shape.size()) {
    part->push_back(whole[static_cast<size_t>(at)]);
    return;
  }
  for (int64_t i = 0; i < shard.local_shape[dim]; ++i) {
    CopyRectangle(shard, dim + 1, at * shard.shape[dim] + shard.local_offset[dim] + i, whole, part);
  }
}

// Returns the index of the state entry that contains the step counter of a group, or -1 if no entry does.
int64_t StepIndex(const Rank& rank, int group) {
  const std::string key = "group." + std::to_string(group) + "/step";
  for (const StateEntry& entry : EntriesOf(rank)) {
    if (key == entry.key) return entry.index;
  }
  return -1;
}

RankSpec InMode(RankSpec spec, const char* shard_mode) {
  spec.keys.emplace_back("shard_mode", shard_mode);
  return spec;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Kind& kind) {
  return out << kind.replicas << " x " << kind.shards << ", " << kind.shard_mode
             << (kind.all_to_all ? "" : " without all_to_all");
}

Shards Divide(const std::vector<ParamSpec>& whole, Division division, int ranks) {
  Shards shards(static_cast<size_t>(ranks), whole);
  for (int rank = 0; rank < ranks; ++rank) {
    for (ParamSpec& param : shards[static_cast<size_t>(rank)]) {
      if (division == Division::kFlat || param.shape.empty()) {
        int64_t elements = 1;
        for (const int64_t dim : param.shape) elements *= dim;
        std::apply([&](auto... share) { param.CutFlat(share...); }, Share(elements, rank, ranks));
      } else {
        std::apply([&](auto... share) { param.CutAlong(0, share...); }, Share(param.shape[0], rank, ranks));
      }
    }
  }
  return shards;
}

Tensors PartOf(const std::vector<ParamSpec>& shard, const Tensors& whole) {
  Tensors parts(shard.size());
  for (size_t p = 0; p < shard.size(); ++p) {
    const auto first = whole[p].begin() + shard[p].flat_offset;
    if (shard[p].shard_form == 0) parts[p] = whole[p];
    if (shard[p].shard_form == 1) parts[p].assign(first, first + shard[p].flat_count);
    if (shard[p].shard_form == 2) CopyRectangle(shard[p], 0, 0, whole[p], &parts[p]);
  }
  return parts;
}

Grid::Grid(const RankSpec& whole, int replicas, int shards, bool with_abort)
    : Grid(whole, replicas, shards == 1 ? Shards{whole.params} : Divide(whole.params, Division::kFlat, shards),
           with_abort) {}

Grid::Grid(const RankSpec& whole, const Kind& kind, bool with_abort)
    : Grid(InMode(whole, kind.shard_mode), kind.replicas, kind.shards, with_abort) {
  SetAllToAll(kind.all_to_all);
}

Grid::Grid(const RankSpec& whole, int replicas, const Shards& shards, bool with_abort)
    : replicas_(replicas),
      shards_(static_cast<int>(shards.size())),
      whole_(whole.params),
      all_comm_(std::make_unique<ThreadComm>(world())) {
  for (int s = 0; s < shards_; ++s) replica_comms_.push_back(std::make_unique<ThreadComm>(replicas));
  for (int r = 0; r < replicas; ++r) shard_comms_.push_back(std::make_unique<ThreadComm>(shards_));
  ops_.reserve(static_cast<size_t>(3 * world()));
  for (int r = 0; r < replicas; ++r) {
    for (int s = 0; s < shards_; ++s) {
      RankSpec& spec = specs_.emplace_back(whole);
      spec.params = shards[static_cast<size_t>(s)];
      spec.replica_rank = r;
      spec.replica_world = replicas;
      spec.shard_rank = s;
      spec.shard_world = shards_;
      if (replicas > 1) spec.replica_ops = &ops_.emplace_back(replicas_of(s).OpsOf(r, with_abort));
      if (shards_ > 1) spec.shard_ops = &ops_.emplace_back(shards_of(r).OpsOf(s, with_abort));
      if (world() > 1) spec.world_ops = &ops_.emplace_back(all().OpsOf(r * shards_ + s, with_abort));
    }
  }
}

RankSpec Grid::Alone(int shard) const {
  RankSpec spec = specs_[static_cast<size_t>(shard)];
  spec.replica_rank = spec.shard_rank = 0;
  spec.replica_world = spec.shard_world = 1;
  spec.replica_ops = spec.shard_ops = spec.world_ops = nullptr;
  return spec;
}

std::vector<ThreadComm*> Grid::comms() {
  std::vector<ThreadComm*> all;
  for (const auto* const comms : {&replica_comms_, &shard_comms_}) {
    for (const auto& comm : *comms) all.push_back(comm.get());
  }
  return all;
}

void Grid::SetPatience(std::chrono::milliseconds patience) {
  for (ThreadComm* const comm : comms()) comm->patience = patience;
  all().patience = patience;
}

void Grid::SetAllToAll(bool with) {
  const shampoo_comm_ops with_it = shards_of(0).OpsOf(0);
  for (RankSpec& spec : specs_) {
    if (spec.shard_ops == nullptr) continue;
    const auto ops = std::find_if(ops_.begin(), ops_.end(), [&](const auto& one) { return &one == spec.shard_ops; });
    ops->all_to_all = with ? with_it.all_to_all : nullptr;
  }
}

int Grid::timeouts() const {
  int timeouts = all_comm_->timeouts();
  for (const auto* const comms : {&replica_comms_, &shard_comms_}) {
    for (const auto& comm : *comms) timeouts += comm->timeouts();
  }
  return timeouts;
}

void Grid::Create() {
  ranks_.resize(specs_.size());
  OnEveryRank(world(), [this](int rank) {
    ranks_[static_cast<size_t>(rank)] = std::make_unique<Rank>(specs_[static_cast<size_t>(rank)]);
  });
}

void Grid::Step() {
  OnEveryRank(world(), [this](int rank) { (*this)[rank].Step(); });
}

void Grid::Save(const std::string& directory) {
  OnEveryRank(world(), [&](int rank) { (*this)[rank].Save(directory); });
}

void Grid::Load(const std::string& directory) {
  OnEveryRank(world(), [&](int rank) { (*this)[rank].Load(directory); });
}

void Grid::StepUntilFailure(int more) {
  OnEveryRank(world(), [this, more](int rank) {
    constexpr int kMax = 100;
    for (int t = 0; t < kMax; ++t) {
      (*this)[rank].Step();
      if ((*this)[rank].status != SHAMPOO_OK) break;
    }
    for (int t = 0; t < more; ++t) (*this)[rank].Step();
  });
}

Tensors Grid::Whole(uint64_t seed) const {
  Tensors whole;
  for (const ParamSpec& param : whole_) whole.emplace_back(static_cast<size_t>(param.Elements()));
  Fill(seed, &whole);
  return whole;
}

void Grid::SetParams(const Tensors& whole) {
  for (int rank = 0; rank < world(); ++rank) (*this)[rank].w = PartOf(spec(rank).params, whole);
}

void Grid::SetGradients(const Tensors& whole) {
  for (int rank = 0; rank < world(); ++rank) (*this)[rank].g = PartOf(spec(rank).params, whole);
}

bool Grid::All(shampoo_status status) const {
  return std::all_of(ranks_.begin(), ranks_.end(), [status](const auto& rank) { return rank->status == status; });
}

bool Grid::SameError() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [this](const auto& rank) { return rank->error == ranks_[0]->error; });
}

bool Grid::AllHold(const Tensors& w) const {
  return std::equal(ranks_.begin(), ranks_.end(), specs_.begin(),
                    [&](const auto& rank, const RankSpec& spec) { return SameBits(rank->w, PartOf(spec.params, w)); });
}

std::string Grid::Errors() const {
  std::string text;
  for (const auto& rank : ranks_) text += std::to_string(rank->status) + ": " + rank->error + "\n";
  return text;
}

void CreateAndFill(Grid* grid, std::chrono::milliseconds patience) {
  grid->SetPatience(patience);
  grid->Create();
  if (!grid->All(SHAMPOO_OK)) return;
  grid->FillParams(1);
  grid->FillGradients(2);
}

std::vector<std::vector<char>> Everything(const Rank& rank) {
  std::vector<std::vector<char>> all;
  for (const std::vector<float>& w : rank.w) {
    const char* const bytes = reinterpret_cast<const char*>(w.data());
    all.emplace_back(bytes, bytes + w.size() * sizeof(float));
  }
  for (const StateEntry& entry : EntriesOf(rank)) all.push_back(ReadBytes(rank, entry));
  return all;
}

std::vector<std::vector<std::vector<char>>> Everything(Grid* grid) {
  std::vector<std::vector<std::vector<char>>> all;
  for (int rank = 0; rank < grid->world(); ++rank) all.push_back(Everything((*grid)[rank]));
  return all;
}

std::vector<Tensors> ParamsOf(Grid* grid) {
  std::vector<Tensors> all;
  for (int rank = 0; rank < grid->world(); ++rank) all.push_back((*grid)[rank].w);
  return all;
}

bool SameBits(const std::vector<Tensors>& a, const std::vector<Tensors>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Tensors& x, const Tensors& y) { return SameBits(x, y); });
}

void SetSteps(const Rank& rank, int group, int64_t steps) {
  shampoo_state_write(rank.optimizer, StepIndex(rank, group), 0, 1, &steps, sizeof steps, SHAMPOO_CPU, nullptr);
}

int64_t StepsOf(const Rank& rank, int group) {
  int64_t steps = -1;
  shampoo_state_read(rank.optimizer, StepIndex(rank, group), 0, 1, &steps, sizeof steps, SHAMPOO_CPU, nullptr);
  return steps;
}

void FillStates(const Rank& rank, const std::string& begin, const std::string& end, float value) {
  for (const StateEntry& entry : EntriesOf(rank)) {
    const std::string_view key = entry.key;
    if (!key.starts_with(begin) || !key.ends_with(end)) continue;
    const std::vector<float> values(static_cast<size_t>(entry.elements), value);
    (void)shampoo_state_write(rank.optimizer, entry.index, 0, entry.elements, values.data(),
                              values.size() * sizeof(float), SHAMPOO_CPU, nullptr);
  }
}

}  // namespace shampoo_test

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Kernels of the exchange between replicas. The segment of a rank consists of a header and updates. The kernels write
// the header of this rank's segment, compare the headers of all ranks (core/rules/rank_difference.h), and write outputs
// from the exchanged data.
#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/backend/cuda/plugin/kernel_common.h"
#include "core/backend/cuda/plugin/parameter_hash.h"
#include "core/backend/cuda/plugin/rank_decision.h"
#include "core/rules/rank_difference.h"

namespace shampoo::cuda {
namespace {

struct WriteHeaderBody {
  Tables tables;
  ExchangeArgs args;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const StepState& state = *tables.state;
    const bool exports = state.exports != 0;
    // If replicas skip blocks because of gradients, all replicas must skip the same blocks. So the hash header.inputs
    // includes the sum of b + 1 over the indices b of the skipped blocks.
    const double skipped = cta.Sum(exports ? 0 : tables.block_count, [&](int64_t b) {
      const BlockWork& work = tables.work[b];
      // With gathered blocks, only the owner of a block knows whether the block must be skipped.
      const bool excluded = tables.gathers == 0 && work.rejection != Rejection::kNone && work.state_at_fault == 0;
      return excluded ? static_cast<double>(b + 1) : 0.0;
    });
    const uint64_t parameters =
        ComparesParameters(tables)
            ? cta.WrappingSum(tables.param_count, [&](int64_t p) { return HashTerm(p, tables.hashes[p]); })
            : 0;
    cta.Once([&] {
      SegmentHeader header{};
      header.round = {static_cast<int32_t>(CodeOf(state)), FlagsOf(state), args.place};
      header.parameters = parameters;
      header.failing_root = -1;
      // With gathered blocks, only the owner of a block checks the gradient of the block. If the owner skips the step
      // (`go` is 0), the other replicas skip the step only after they have compared the headers. So `go` may still
      // differ between replicas here.
      const bool compares_go = state.rejected == 0 && tables.gathers == 0;
      header.inputs = Mixed(Mixed(args.inputs_hash, compares_go ? static_cast<uint64_t>(state.go) : 0),
                            static_cast<uint64_t>(skipped));
      header.hyper_parameters = args.scalars_hash;
      for (int32_t g = 0; exports && g < tables.group_count; ++g) {
        const int64_t counter = reinterpret_cast<const int64_t*>(tables.state_out)[g];
        header.step = counter > header.step ? counter : header.step;
      }
      for (int32_t g = 0; g < tables.group_count; ++g) {
        const DeviceGroup& group = tables.groups[g];
        header.step = group.active != 0 && group.t > header.step ? group.t : header.step;
        header.inputs = Mixed(header.inputs, group.active != 0 ? static_cast<uint64_t>(group.t) : 0);
        if (group.active == 0) continue;
        header.hyper_parameters = MixedWithScalars(header.hyper_parameters, group.settings);
      }
      *reinterpret_cast<SegmentHeader*>(tables.exchange_buffers + args.at + tables.replica_rank * args.segment_bytes) =
          header;
    });
  }
};

struct CompareHeadersBody {
  Tables tables;
  ExchangeArgs args;

  SHAMPOO_DEVICE const SegmentHeader& HeaderOf(int64_t rank) const {
    return *reinterpret_cast<const SegmentHeader*>(tables.exchange_buffers + args.at + rank * args.segment_bytes);
  }
  SHAMPOO_DEVICE void Differ(int64_t rank, RankDifference difference) const {
    RejectWithRank(tables.state, rank, difference, false);
  }

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    cta.Once([&] {
      const int64_t world = tables.replica_world;
      const SegmentHeader& own = HeaderOf(tables.replica_rank);
      for (int64_t rank = 0; rank < world; ++rank) {
        if (HeaderOf(rank).round.place != own.round.place) return Differ(rank, RankDifference::kPlace);
      }
      RecordSteppingRanks(tables.state, world, [&](int64_t rank) { return HeaderOf(rank).round; });
      // If StepState::counted is 2, the step is already rejected, and all ranks know the reason from an earlier
      // exchange.
      if (tables.state->counted == 2) return;
      for (int64_t rank = 0; rank < world; ++rank) {
        if (HeaderOf(rank).round.code != 0) return Differ(rank, RankDifference::kFailed);
      }
      const ReplicaDifference found =
          FindReplicaDifference(world, [&](int64_t rank) -> const SegmentHeader& { return HeaderOf(rank); });
      if (found.difference != RankDifference::kNone) return Differ(found.rank, found.difference);
      for (int64_t rank = 0; rank < world; ++rank) {
        if ((HeaderOf(rank).round.flags & kSkipsStep) != 0) return SkipStep(tables.state);
      }
    });
    // If the parameters differ between replicas, report the hashes. Until the host acknowledges the rejection, later
    // steps are also rejected. They report the hashes again, and compute no new ones, so the reported hashes do not
    // change.
    const StepState& state = *tables.state;
    const bool differs = state.rejected != 0 && state.report.difference == RankDifference::kParameters;
    cta.ForEach(differs && tables.verify_replicas > 0 ? tables.param_count : 0,
                [&](int64_t p) { tables.reported_hashes[p] = tables.hashes[p]; });
  }
};

template <typename Rounding>
struct ApplyExchangedBody {
  Tables tables;
  int32_t bucket;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const DeviceTile& tile = tables.scan_tiles[cta.index()];
    const DeviceBlock& block = tables.blocks[tile.block];
    if (tables.state->rejected != 0 || block.bucket != bucket) return;
    const int64_t begin = TileBegin(tile);
    const int64_t size = TileSize(block, tile);
    const bool exports = tables.state->exports != 0;
    BlockWork& work = tables.work[tile.block];
    const bool skipped = !exports && work.rejection != Rejection::kNone && work.state_at_fault == 0;
    if (tables.state->go == 0 || !ReceivesUpdate(tables, block) || skipped) {
      return PassThrough(cta, tables, block, begin, size);
    }
    const char* const sent = tables.exchange_buffers + block.exchange_at;
    const int64_t bytes = static_cast<int64_t>(SizeOf(block.exchange_dtype));
    const auto is_sent = [&](int64_t i) { return static_cast<unsigned char>(sent[i]) != kSkippedMark; };
    const bool owner_skipped = !exports && cta.First(bytes, is_sent) == bytes;
    if (owner_skipped) {
      PassThrough(cta, tables, block, begin, size);
      if (begin == 0) cta.Once([&] { work.update_skipped = 1; });
      return;
    }
    if (block.computation == Dtype::kF64) {
      Apply<double>(cta, tile.block, sent, begin, size);
    } else {
      Apply<float>(cta, tile.block, sent, begin, size);
    }
  }

  template <typename Real>
  SHAMPOO_DEVICE void Apply(const Cta& cta, int32_t index, const char* sent, int64_t begin, int64_t size) const {
    const DeviceBlock& block = tables.blocks[index];
    const ReceivedOutputs<Real, Rounding> outputs(tables, index, tables.buffers[block.param]);
    cta.ForEach(size, [&](int64_t i) {
      outputs.Write(PlaceOf(block, begin + i), begin + i, ReadAs<Real>(sent, block.exchange_dtype, begin + i));
    });
  }
};

}  // namespace

cudaError_t WriteHeader(cudaStream_t stream, const Tables& tables, const ExchangeArgs& args) {
  return Launch(stream, 1, WriteHeaderBody{tables, args});
}

cudaError_t CompareHeaders(cudaStream_t stream, const Tables& tables, const ExchangeArgs& args) {
  return Launch(stream, 1, CompareHeadersBody{tables, args});
}

cudaError_t ApplyExchanged(cudaStream_t stream, const Tables& tables, int32_t bucket) {
  return LaunchRounding<ApplyExchangedBody>(stream, tables.scan_tile_count, tables, bucket);
}

}  // namespace shampoo::cuda

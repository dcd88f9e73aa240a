// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests the overlap of communication and computation: ranks exchange one bucket while they compute the next bucket.
#include "tests/cuda/contract/orders.h"
#include "tests/cuda/contract/rank_steps.h"
#include "tests/cuda/contract/training.h"
#include "tests/cuda/tools/stream_comm.h"

namespace shampoo_test {
namespace {

constexpr RankKind kBucketKinds[] = {{"local", 2, 1, false, "64"},
                                     {"local", 2, 2, false, "64"},
                                     {"gather", 1, 2, false, "64"},
                                     {"gather", 1, 2, true, "64"}};

ModelSpec SpecOfBuckets(const RankKind& kind, const Keys& more = {}) {
  ModelSpec spec = FiveShapes(kind.keys() + more);
  // MarkedComm requires that all ranks send equally many bytes. Therefore all replicas own blocks of the same shapes,
  // and both shards of each parameter have the same size.
  spec.params = {{{4, 4}}, {{4, 4}}, {{2, 3, 4}}, {{2, 3, 4}}, {{6, 6}}, {{6, 6}}, {{6}}, {{6}}};
  return spec;
}

// A communicator that records two events for each exchange. Before it enqueues the exchange, it records the first event
// in the caller's stream. Afterwards, it records the second event in the stream of the exchange. The communicator can
// also return an error for an exchange that it has enqueued.
class MarkedComm {
 public:
  struct Mark {
    cudaEvent_t enqueued = nullptr;
    cudaEvent_t ended = nullptr;
  };
  struct Log {
    explicit Log(cudaStream_t caller_stream) : caller(caller_stream) {}
    ~Log() {
      for (const Mark& mark : marks) {
        (void)cudaEventDestroy(mark.enqueued);
        (void)cudaEventDestroy(mark.ended);
      }
    }
    Log(const Log&) = delete;
    Log& operator=(const Log&) = delete;

    cudaStream_t caller;
    bool is_on = false;
    size_t fail_at = 0;  // the number of the exchange that fails; if 0, no exchange fails
    std::vector<Mark> marks;
  };

  MarkedComm(int world, Log* log) : comm_(world), log_(log) {}
  shampoo_comm_ops Ops(bool with_all_to_all) {
    inner_ = comm_.Ops(with_all_to_all);
    shampoo_comm_ops ops = inner_;
    ops.user = this;
    ops.all_gather = [](void* user, const void* send, void* recv, size_t bytes, void* stream) {
      const shampoo_comm_ops& inner = static_cast<MarkedComm*>(user)->inner_;
      return static_cast<MarkedComm*>(user)->Marked(
          stream, [&] { return inner.all_gather(inner.user, send, recv, bytes, stream); });
    };
    if (!with_all_to_all) return ops;
    ops.all_to_all = [](void* user, const void* send, const size_t* send_bytes, void* recv, const size_t* recv_bytes,
                        void* stream) {
      const shampoo_comm_ops& inner = static_cast<MarkedComm*>(user)->inner_;
      return static_cast<MarkedComm*>(user)->Marked(
          stream, [&] { return inner.all_to_all(inner.user, send, send_bytes, recv, recv_bytes, stream); });
    };
    return ops;
  }

 private:
  template <typename Exchange>
  int32_t Marked(void* stream, const Exchange& exchange) {
    if (!log_->is_on) return exchange();
    Mark mark;
    MustCuda(cudaEventCreateWithFlags(&mark.enqueued, cudaEventDisableTiming));
    MustCuda(cudaEventCreateWithFlags(&mark.ended, cudaEventDisableTiming));
    MustCuda(cudaEventRecord(mark.enqueued, log_->caller));
    const int32_t error = exchange();
    MustCuda(cudaEventRecord(mark.ended, static_cast<cudaStream_t>(stream)));
    log_->marks.push_back(mark);
    return log_->marks.size() == log_->fail_at ? 7 : error;
  }

  StreamComm comm_;
  Log* log_;
  shampoo_comm_ops inner_{};
};

// One rank whose communicators are of type MarkedComm.
struct MarkedRank {
  MarkedRank(const RankKind& kind, cudaStream_t stream, const Keys& more = {})
      : log(stream), comms(kind, &log), model(comms.Join(SpecOfBuckets(kind, more)), stream) {}

  MarkedComm::Log log;
  RankComms<MarkedComm> comms;
  Model model;
};

TEST_CASE("the work before the exchange of a bucket does not wait for the exchange of the previous bucket" *
          NeedsFake()) {
  for (RankKind kind : kBucketKinds) {
    const int exchanges = kind.gathers() ? 2 : 1;  // for each bucket
    for (const char* bucket : {"0", "64", "192"}) {
      kind.bucket = bucket;
      CAPTURE(NameOf(kind));
      const StageWithStream stream(FAKE_CUDA_AS_LATE_AS_POSSIBLE);
      MarkedRank rank(kind, stream);
      rank.model.FillGradients(1);
      rank.log.is_on = true;
      rank.model.Step();
      rank.log.is_on = false;
      const std::vector<MarkedComm::Mark>& marks = rank.log.marks;
      const bool headers_first = bucket != std::string("0") || kind.gathers();
      // The exchanges that do not belong to a bucket:
      // - With local shards, replicas exchange headers, from which they decide whether to make the step. If there are
      //   several shards, shard ranks agree on the step in an exchange before the headers and in another after them. If
      //   there is only one bucket, its exchange includes the headers.
      // - With gathered shards, shard ranks agree in an exchange before they gather blocks and in another afterwards.
      const int all_agreements = kind.gathers() ? 2 : kind.shards > 1 ? 3 : 1;
      const int agreements = all_agreements - (headers_first ? 0 : 1);
      const int buckets = (static_cast<int>(marks.size()) - agreements) / exchanges;
      CHECK(buckets * exchanges + agreements == static_cast<int>(marks.size()));
      CHECK((buckets > 2) == (bucket != std::string("0")));
      int overlapping = 0;
      for (size_t i = 0; i + 1 < marks.size(); ++i) {
        MustCuda(cudaEventSynchronize(marks[i + 1].enqueued));
        const cudaError_t state = cudaEventQuery(marks[i].ended);
        if (state == cudaErrorNotReady) (void)cudaGetLastError();
        overlapping += state == cudaErrorNotReady ? 1 : 0;
      }
      CHECK(overlapping == exchanges * (buckets - 1));
      rank.model.Wait();
    }
  }
}

// Makes two steps. Exchange number `nth` of step 2 fails; if nth is 0, no exchange fails. Checks that the caller's
// stream waits for all work of step 2, at which no roots are due. Returns the number of exchanges in step 2.
size_t FailExchange(const RankKind& kind, size_t nth, bool captured) {
  const StageWithStream stream(FAKE_CUDA_AS_LATE_AS_POSSIBLE);
  MarkedRank rank(kind, stream, {{"precondition_frequency", "50"}, {"refresh_growth", "0"}});
  rank.model.Step(1);
  rank.model.MustSucceed();
  rank.model.FillGradients(2);
  rank.model.Wait();
  rank.log.is_on = true;
  rank.log.fail_at = nth;
  if (captured) MustCuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  const shampoo_status status = rank.model.TryStep();
  rank.log.is_on = false;
  const shampoo_status expected = captured ? SHAMPOO_E_STATE : SHAMPOO_E_COMM;
  CHECK(status == (nth == 0 ? SHAMPOO_OK : expected));
  if (captured) {
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    if (graph != nullptr) MustCuda(cudaGraphDestroy(graph));
  }
  MustCuda(cudaStreamSynchronize(stream));
  CHECK(fake_cuda_live(FAKE_CUDA_PENDING_OPERATIONS) == 0);
  return rank.log.marks.size();
}

TEST_CASE("after an exchange has failed, the caller's stream waits for all work of the step, also in a capture" *
          NeedsFake()) {
  for (const RankKind& kind : kBucketKinds) {
    for (const bool captured : {false, true}) {
      INFO(NameOf(kind), ", captured ", captured);
      const size_t exchanges = FailExchange(kind, 0, captured);
      for (size_t nth = 1; nth <= exchanges; ++nth) {
        CAPTURE(nth);
        FailExchange(kind, nth, captured);
      }
    }
  }
}

constexpr int kBucketSteps = 3;

std::vector<char> RunBuckets(const RankKind& kind, const Order& order, const Skipped& skipped = {},
                             int64_t* calls = nullptr) {
  return RunInOrder(order, skipped, calls, [&](const SkipCall& skip) {
    RankComms<StreamComm> comms(kind);
    const TestStream stream;
    Training training(comms.Join(SpecOfBuckets(kind)), stream, kBucketSteps);
    for (int t = 1; t <= kBucketSteps; ++t) {
      skip.Before(t);
      if (training.Step(t) != SHAMPOO_OK) return std::vector<char>();
      skip.After(t);
      fake_cuda_progress(order.progress);
    }
    return training.Result();
  });
}

TEST_CASE("results with several buckets do not depend on the order in which the device runs its streams") {
  for (const RankKind& kind : kBucketKinds) {
    const std::vector<char> expected = RunBuckets(kind, kOrders[0]);
    REQUIRE(!expected.empty());
    for (const Order& order : kOrders) {
      INFO(NameOf(kind), ", order ", order.order, ", seed ", order.seed);
      CHECK(RunBuckets(kind, order) == expected);
    }
  }
  fake_cuda_reset();
}

TEST_CASE("a step with several buckets needs each of its calls of cudaStreamWaitEvent and cudaEventRecord" *
          NeedsFake()) {
  for (const RankKind& kind : kBucketKinds) {
    for (const char* function : {"cudaStreamWaitEvent", "cudaEventRecord"}) {
      CAPTURE(NameOf(kind));
      CheckThatEachCallIsNeeded(function, kBucketSteps - 1,
                                [&](const Order& order, const Skipped& skipped, int64_t* calls) {
                                  return RunBuckets(kind, order, skipped, calls);
                                });
    }
  }
}

TEST_CASE("the results of replicas do not depend on the number of buckets") {
  std::vector<std::vector<std::vector<double>>> params;
  for (const char* bucket : {"0", "64", "192"}) {
    const Stage stage;
    const RankKind kind{"local", 2, 1, false, bucket};
    DeviceRanks ranks(SpecOfBuckets(kind), kind);
    ranks.Train(1, 5);
    ranks.Status();
    CheckAllAgree(&ranks);
    params.push_back(ranks.Params());
  }
  CHECK(params[0] == params[1]);
  CHECK(params[0] == params[2]);
}

}  // namespace
}  // namespace shampoo_test

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>

#include "core/backend/cuda/host_exchange_bytes.h"
#include "core/step/device_collectives.h"
#include "tests/core/fake_device.h"
#include "tests/core/status_check.h"
#include "tests/core/step_fixture.h"

namespace shampoo {
namespace {

using Bytes = std::vector<char>;

// The communicator of rank 1 of three. Its collectives record their arguments. All bytes that this rank receives from
// rank r have the value 10 + r.
class RankOfThree {
 public:
  explicit RankOfThree(bool takes_device_memory) {
    CommOps ops;
    ops.user = this;
    ops.rank = 1;
    ops.world = 3;
    ops.takes_device_memory = takes_device_memory;
    ops.all_gather = [](void* user, const void* from, void* to, size_t bytes, void* stream) {
      const size_t sizes[] = {bytes, bytes, bytes};
      return static_cast<RankOfThree*>(user)->Exchange({from, to, stream}, bytes, sizes);
    };
    ops.all_to_all = [](void* user, const void* from, const size_t* send_bytes, void* to, const size_t* recv_bytes,
                        void* stream) {
      return static_cast<RankOfThree*>(user)->Exchange({from, to, stream},
                                                       send_bytes[0] + send_bytes[1] + send_bytes[2], recv_bytes);
    };
    REQUIRE(Communicator::Create(ops, &comm).ok());
  }

  struct Call {
    const void* send;
    const void* recv;
    void* stream;
  };
  std::shared_ptr<Communicator> comm;
  std::vector<Call> calls;
  Bytes sent;         // in the last call
  int32_t error = 0;  // the result of each collective
  std::function<void()> at_end = [] {};

 private:
  int32_t Exchange(const Call& call, size_t send_bytes, const size_t* recv_bytes) {
    calls.push_back(call);
    const auto* const from = static_cast<const char*>(call.send);
    sent.assign(from, from + send_bytes);
    auto* to = static_cast<char*>(const_cast<void*>(call.recv));
    for (int rank = 0; rank < 3; ++rank) to = std::fill_n(to, recv_bytes[rank], static_cast<char>(10 + rank));
    at_end();
    return error;
  }
};

// The bytes that rank 1 sends to ranks 0, 1 and 2 in an all-to-all, and those that it receives from these ranks.
const std::vector<size_t> kSendBytes = {5, 0, 2};
const std::vector<size_t> kRecvBytes = {1, 3, 6};

// The collectives of a rank on a fake device. If the communicator takes no device memory, the DeviceEngine has host
// memory for exchanges.
struct Collectives {
  explicit Collectives(bool takes_device_memory) : rank(takes_device_memory), device(FakeDevice::Reset()) {
    StepFixture::Setup setup{
        .keys = {}, .params = StepFixture::Describe({{32, 32}}), .placement = ReplicaPlacement(1, 3)};
    setup.placement.device = DeviceType::kCuda;
    cuda::DeviceEngine::Desc desc;
    desc.replicas_through_host = !takes_device_memory;
    StepFixture::Ok(cuda::DeviceEngine::Create(StepFixture::MakePlan(setup), desc, &engine));
    collectives = std::make_unique<DeviceCollectives>(rank.comm.get(), engine.get());
    collectives->Begin(false);
  }

  // Gather, AllToAll and Exchange call a collective as DeviceEngine does in a step, and return whether it succeeded.
  bool Gather(Bytes* buffer) {
    const cuda::DeviceGather gather = collectives->gather();
    return gather.gather(gather.user, buffer->data(), static_cast<int64_t>(buffer->size()) / 3, &stream) == 0;
  }
  bool AllToAll(const Bytes& send, const std::vector<size_t>& send_bytes, Bytes* recv,
                const std::vector<size_t>& recv_bytes) {
    const cuda::DeviceAllToAll all = collectives->all_to_all();
    return all.exchange(all.user, send.data(), send_bytes.data(), recv->data(), recv_bytes.data(), &stream) == 0;
  }
  bool Exchange(bool gathers, Bytes* buffer) {
    return gathers ? Gather(buffer) : AllToAll(Bytes(7), kSendBytes, buffer, kRecvBytes);
  }
  const char* host_memory() const { return engine->exchange_memory().data(); }

  RankOfThree rank;
  FakeDevice& device;
  std::unique_ptr<cuda::DeviceEngine> engine;
  std::unique_ptr<DeviceCollectives> collectives;
  int stream = 0;
};

const Bytes kReceived = {10, 11, 11, 11, 12, 12, 12, 12, 12, 12};

TEST_CASE("a communicator that takes device memory exchanges the buffers of the device in the stream of the step") {
  Collectives one(true);
  Bytes buffer = {0, 0, 7, 7, 0, 0};
  REQUIRE(one.Gather(&buffer));
  CHECK(buffer == Bytes{10, 10, 11, 11, 12, 12});
  CHECK(one.rank.sent == Bytes{7, 7});
  CHECK(one.rank.calls[0].recv == buffer.data());
  CHECK(one.rank.calls[0].stream == &one.stream);

  const Bytes send(7, 8);
  Bytes recv(10);
  REQUIRE(one.AllToAll(send, kSendBytes, &recv, kRecvBytes));
  CHECK(recv == kReceived);
  CHECK(one.rank.calls[1].send == send.data());
  CHECK(one.rank.calls[1].recv == recv.data());
  CHECK(one.rank.calls[1].stream == &one.stream);
  CHECK(one.device.exchange_streams.empty());
  CheckOk(one.collectives->TakeFailure());
}

TEST_CASE("a gather in host memory sends a copy of this rank's segment, and all segments are copied to the device") {
  Collectives one(false);
  Bytes buffer = {0, 0, 7, 7, 0, 0};
  REQUIRE(one.Gather(&buffer));
  CHECK(one.rank.sent == Bytes{7, 7});
  CHECK(buffer == Bytes{10, 10, 11, 11, 12, 12});
  CHECK(one.rank.calls[0].send == one.host_memory() + 2);
  CHECK(one.rank.calls[0].recv == one.host_memory());
  CHECK(one.rank.calls[0].stream == nullptr);
  CHECK(one.device.exchange_streams == std::vector<void*>{&one.stream, &one.stream});
  CheckOk(one.collectives->TakeFailure());
}

TEST_CASE("an all-to-all in host memory receives its data at an aligned address behind the data that it sends") {
  Collectives one(false);
  const Bytes send = {1, 2, 3, 4, 5, 6, 7};
  Bytes recv(12, 9);
  REQUIRE(one.AllToAll(send, kSendBytes, &recv, kRecvBytes));
  CHECK(one.rank.sent == send);
  Bytes expected = kReceived;
  expected.resize(12, 9);
  CHECK(recv == expected);
  CHECK(one.rank.calls[0].send == one.host_memory());
  CHECK(one.rank.calls[0].recv == one.host_memory() + 256);
  CHECK(one.rank.calls[0].stream == nullptr);
  CHECK(one.device.exchange_streams == std::vector<void*>{&one.stream, &one.stream});
}

TEST_CASE(
    "if a collective fails, only the first TakeFailure returns its error, and received data is not copied to the "
    "device") {
  for (const bool takes_device_memory : {true, false}) {
    for (const bool gathers : {true, false}) {
      CAPTURE(takes_device_memory);
      Collectives one(takes_device_memory);
      one.rank.error = 4;
      Bytes buffer(12, 9);
      CHECK(!one.Exchange(gathers, &buffer));
      if (!takes_device_memory) CHECK(buffer == Bytes(12, 9));
      CheckError(one.collectives->TakeFailure(), Code::kComm,
                 Cat("rank 1: ", gathers ? "all_gather" : "all_to_all", " of the communicator returned 4"));
      CheckOk(one.collectives->TakeFailure());
      CHECK(one.rank.comm->failed());
    }
  }
}

TEST_CASE("a failed copy between the device and the host fails the step, and the communicator can still be used") {
  for (const bool gathers : {true, false}) {
    for (const bool before : {true, false}) {
      CAPTURE(before);
      Collectives one(false);
      Bytes buffer(12, 9);
      const auto fail = [&] { one.device.exchange_error = "the copy failed"; };
      if (before) fail();
      if (!before) one.rank.at_end = fail;
      CHECK(!one.Exchange(gathers, &buffer));
      CheckError(one.collectives->TakeFailure(), Code::kDevice, "the copy failed");
      CHECK(one.rank.calls.size() == (before ? 0 : 1));
      CHECK(!one.rank.comm->failed());
      one.rank.at_end = [] {};
      one.device.exchange_error.clear();
      CHECK(one.Exchange(gathers, &buffer));
      CheckOk(one.collectives->TakeFailure());
    }
  }
}

TEST_CASE("a step that is enqueued again skips the collectives that this rank has joined") {
  for (const bool takes_device_memory : {true, false}) {
    CAPTURE(takes_device_memory);
    Collectives one(takes_device_memory);
    Bytes buffer(12);
    REQUIRE(one.Gather(&buffer));
    REQUIRE(one.AllToAll(Bytes(7), kSendBytes, &buffer, kRecvBytes));
    one.device.exchange_error = "the copy failed";
    CHECK(one.Gather(&buffer) == takes_device_memory);
    one.device.exchange_error.clear();
    // If the communicator takes host memory, the copy before the second Gather() fails, so this rank does not join it.
    const int64_t joined = takes_device_memory ? 3 : 2;
    CHECK(one.collectives->joined() == joined);
    CHECK(!one.collectives->has_lost_data());

    one.collectives->SkipJoined();
    one.collectives->Begin(false);
    for (int64_t i = 0; i < joined; ++i) REQUIRE(one.Gather(&buffer));
    CHECK(one.rank.calls.size() == static_cast<size_t>(joined));
    REQUIRE(one.Gather(&buffer));
    CHECK(one.rank.calls.size() == static_cast<size_t>(joined) + 1);
    CHECK(one.collectives->joined() == joined + 1);

    one.collectives->Begin(false);
    CHECK(one.collectives->joined() == 0);
    REQUIRE(one.Gather(&buffer));
    CHECK(one.rank.calls.size() == static_cast<size_t>(joined) + 2);
  }
}

TEST_CASE("has_lost_data is true if data was received and cannot be copied to the device") {
  Collectives one(false);
  Bytes buffer(12);
  one.rank.at_end = [&] { one.device.exchange_error = "the copy failed"; };
  CHECK(!one.Gather(&buffer));
  CHECK(one.collectives->has_lost_data());
  one.device.exchange_error.clear();
  one.collectives->Begin(false);
  CHECK(!one.collectives->has_lost_data());
}

TEST_CASE("a collective that fails while a step is captured does not fail the communicator") {
  for (const bool gathers : {true, false}) {
    Collectives one(true);
    Bytes buffer(12);
    one.rank.error = 4;
    one.collectives->Begin(true);
    CHECK(!one.Exchange(gathers, &buffer));
    CheckError(one.collectives->TakeFailure(), Code::kState, "returned 4 while the stream is captured");
    CHECK(!one.rank.comm->failed());
    one.collectives->Begin(false);
    CHECK(!one.Exchange(gathers, &buffer));
    CheckError(one.collectives->TakeFailure(), Code::kComm, "of the communicator returned 4");
    CHECK(one.rank.comm->failed());
  }
}

}  // namespace
}  // namespace shampoo

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <map>

#include "comm.h"

namespace standin {
namespace {

size_t SizeOf(ncclDataType_t datatype) {
  constexpr size_t kSizes[ncclNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return datatype >= 0 && datatype < ncclNumTypes ? kSizes[datatype] : 0;
}

bool Agree(const Request& a, const Request& b) {
  if (a.kind != b.kind) return false;
  return a.kind == Request::kSplit || (a.count == b.count && a.datatype == b.datatype && a.op == b.op);
}

ncclResult_t Gather(const std::vector<Request>& requests) {
  const size_t bytes = requests[0].count * SizeOf(requests[0].datatype);
  if (SizeOf(requests[0].datatype) == 0) return ncclInvalidArgument;
  if (bytes == 0) return ncclSuccess;
  for (const Request& to : requests) {
    char* segment = static_cast<char*>(to.recv);
    for (const Request& from : requests) {
      if (from.send != segment) std::memcpy(segment, from.send, bytes);  // same memory: nothing to copy
      segment += bytes;
    }
  }
  return ncclSuccess;
}

// Adds the numbers in the order of the ranks, so a program gets bit-identical results in every run. Each rank receives
// the whole result or, with kReduceScatter, its own part.
template <typename Number>
ncclResult_t Reduce(const std::vector<Request>& requests) {
  const bool scatter = requests[0].kind == Request::kReduceScatter;
  const size_t part = requests[0].count;
  std::vector<Number> total(scatter ? part * requests.size() : part, Number(0));
  for (const Request& from : requests) {
    for (size_t i = 0; i < total.size(); ++i) total[i] += static_cast<const Number*>(from.send)[i];
  }
  if (requests[0].op == ncclAvg) {
    for (Number& number : total) number /= static_cast<Number>(requests.size());
  }
  for (size_t r = 0; r < requests.size(); ++r) {
    const Number* const first = total.data() + (scatter ? r * part : 0);
    std::copy(first, first + part, static_cast<Number*>(requests[r].recv));
  }
  return ncclSuccess;
}

ncclResult_t Reduce(const std::vector<Request>& requests) {
  const ncclRedOp_t op = requests[0].op;
  if (op != ncclSum && op != ncclAvg) return ncclInvalidArgument;
  if (requests[0].datatype == ncclFloat32) return Reduce<float>(requests);
  if (requests[0].datatype == ncclFloat64) return Reduce<double>(requests);
  return ncclInvalidArgument;
}

// For each color except NCCL_SPLIT_NOCOLOR, creates a communicator of the ranks that pass this color to ncclCommSplit.
// Sorts these ranks by key. Ranks with equal keys keep their order.
ncclResult_t Split(const std::vector<Request>& requests) {
  std::map<int, std::vector<const Request*>> groups;
  for (const Request& request : requests) {
    if (request.color < 0 && request.color != NCCL_SPLIT_NOCOLOR) return ncclInvalidArgument;
    groups[request.color].push_back(&request);
  }
  for (auto& [color, members] : groups) {
    std::stable_sort(members.begin(), members.end(),
                     [](const Request* a, const Request* b) { return a->key < b->key; });
    const auto meeting = std::make_shared<Meeting>(static_cast<int>(members.size()));
    int rank = 0;
    for (const Request* member : members) {
      *member->new_comm = color == NCCL_SPLIT_NOCOLOR ? nullptr : new ncclComm(meeting, rank++);
    }
  }
  return ncclSuccess;
}

}  // namespace

ncclResult_t ExecuteCollective(const std::vector<Request>& requests) {
  for (const Request& request : requests) {
    if (!Agree(request, requests[0])) return ncclInvalidArgument;
  }
  switch (requests[0].kind) {
    case Request::kGather:
      return Gather(requests);
    case Request::kReduce:
    case Request::kReduceScatter:
      return Reduce(requests);
    case Request::kSplit:
      return Split(requests);
    case Request::kSend:
    case Request::kReceive:
      break;
  }
  return ncclInternalError;
}

ncclResult_t DeliverMessage(const Request& send, const Request& receive) {
  const size_t bytes = send.count * SizeOf(send.datatype);
  if (SizeOf(send.datatype) == 0 || bytes != receive.count * SizeOf(receive.datatype)) return ncclInvalidArgument;
  if (bytes > 0) std::memmove(receive.recv, send.send, bytes);
  return ncclSuccess;
}

}  // namespace standin

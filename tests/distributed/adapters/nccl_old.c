/*
 * Copyright The libshampoo authors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A stand-in for an NCCL before version 2.7, which has no ncclSend and no ncclRecv. It has all other functions that the
 * library looks up. Its communicators have one rank.
 */
#include <nccl.h>

const char* ncclGetErrorString(ncclResult_t result) { return result == ncclSuccess ? "no error" : "an error"; }

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  *count = 1;
  return comm != NULL ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  *rank = 0;
  return comm != NULL ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  *asyncError = ncclSuccess;
  return comm != NULL ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                           ncclComm_t comm, cudaStream_t stream) {
  (void)sendbuff, (void)recvbuff, (void)sendcount, (void)datatype, (void)comm, (void)stream;
  return ncclInternalError;
}

ncclResult_t ncclGroupStart(void) { return ncclSuccess; }

ncclResult_t ncclGroupEnd(void) { return ncclSuccess; }

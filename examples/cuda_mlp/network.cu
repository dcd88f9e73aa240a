// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "network.h"

extern "C" {
#include "check.h"
}

namespace {

constexpr int kThreads = 256;

// Indices of the parameters, in the order of mlp_tensors.
enum { kW1, kB1, kW2, kB2, kW3, kB3 };
int At(int tensor) { return mlp_tensors[tensor].offset; }

int Blocks(int count) { return (count + kThreads - 1) / kThreads; }

__device__ int Index() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }

__global__ void Fill(int count, float* values, float value) {
  const int i = Index();
  if (i < count) values[i] = value;
}

// Copies images and their labels to `x` [count][kInputs] and `labels` [count]. `rows` [count] has the images' indices.
__global__ void Gather(int count, const int* rows, const float* images, const int* all_labels, float* x, int* labels) {
  const int i = Index();
  if (i >= count * kInputs) return;
  const int row = i / kInputs, pixel = i % kInputs;
  x[i] = images[rows[row] * kInputs + pixel];
  if (pixel == 0) labels[row] = all_labels[rows[row]];
}

__global__ void AddBiasAndTanh(int count, int outputs, const float* bias, float* y) {
  const int i = Index();
  if (i < count) y[i] = tanhf(y[i] + bias[i % outputs]);
}

// Multiplies dy by the derivative of tanh, which is 1 - y^2, because y is the output of tanh.
__global__ void TanhBackward(int count, const float* y, float* dy) {
  const int i = Index();
  if (i < count) dy[i] *= 1 - y[i] * y[i];
}

// Processes one image per thread. Adds the bias to the ten scores of the image, writes the cross entropy to losses, and
// replaces the scores by the gradient of `scale` times the cross entropy. Writes 1 to hits if the image is classified
// correctly, otherwise 0. The largest score is subtracted from all scores so that no exponential overflows.
__global__ void Softmax(int count, const float* bias, const int* labels, float scale, float* scores, float* losses,
                        int* hits) {
  const int r = Index();
  if (r >= count) return;
  float* row = scores + r * kClasses;
  int best = 0;
  for (int c = 0; c < kClasses; ++c) {
    row[c] += bias[c];
    best = row[c] > row[best] ? c : best;
  }
  const float largest = row[best], of_label = row[labels[r]] - largest;
  float sum = 0;
  for (int c = 0; c < kClasses; ++c) sum += row[c] = expf(row[c] - largest);
  for (int c = 0; c < kClasses; ++c) row[c] = scale * (row[c] / sum - (c == labels[r] ? 1 : 0));
  losses[r] = logf(sum) - of_label;
  hits[r] = best == labels[r];
}

// Computes y [n][outputs] = x [n][inputs] W^T. cuBLAS is column-major, so it reads each row-major matrix as its
// transpose.
void Forward(const DeviceMlp& net, int n, int inputs, int outputs, const float* x, const float* w, float* y) {
  const float one = 1, zero = 0;
  check_cublas(cublasSgemm(net.blas, CUBLAS_OP_T, CUBLAS_OP_N, outputs, n, inputs, &one, w, inputs, x, inputs, &zero, y,
                           outputs),
               "y = x W^T");
}

// Computes dw [outputs][inputs] = dy^T x and db [outputs], the column sums of dy. If dx is not null, also computes
// dx [n][inputs] = dy W. The first layer does not need dx.
void Backward(const DeviceMlp& net, int n, int inputs, int outputs, const float* x, const float* w, const float* dy,
              float* dw, float* db, float* dx) {
  const float one = 1, zero = 0;
  check_cublas(cublasSgemm(net.blas, CUBLAS_OP_N, CUBLAS_OP_T, inputs, outputs, n, &one, x, inputs, dy, outputs, &zero,
                           dw, inputs),
               "dW = dy^T x");
  check_cublas(cublasSgemv(net.blas, CUBLAS_OP_N, outputs, n, &one, dy, outputs, net.ones, 1, &zero, db, 1),
               "db = sums of dy");
  if (dx == nullptr) return;
  check_cublas(cublasSgemm(net.blas, CUBLAS_OP_N, CUBLAS_OP_N, inputs, n, outputs, &one, w, inputs, dy, outputs, &zero,
                           dx, inputs),
               "dx = dy W");
}

// Computes net->losses and net->hits for n images. Also writes to net->d3 the gradient that Softmax computes.
void AllForward(DeviceMlp* net, int n, const float* x, const int* labels, float scale) {
  const float* p = net->params;
  Forward(*net, n, kInputs, kHidden1, x, p + At(kW1), net->hidden1);
  AddBiasAndTanh<<<Blocks(n * kHidden1), kThreads, 0, net->stream>>>(n * kHidden1, kHidden1, p + At(kB1), net->hidden1);
  Forward(*net, n, kHidden1, kHidden2, net->hidden1, p + At(kW2), net->hidden2);
  AddBiasAndTanh<<<Blocks(n * kHidden2), kThreads, 0, net->stream>>>(n * kHidden2, kHidden2, p + At(kB2), net->hidden2);
  Forward(*net, n, kHidden2, kClasses, net->hidden2, p + At(kW3), net->d3);
  Softmax<<<Blocks(n), kThreads, 0, net->stream>>>(n, p + At(kB3), labels, scale, net->d3, net->losses, net->hits);
  check_cuda(cudaGetLastError(), "forward pass");
}

template <typename Value>
Value* Allocate(int count) {
  return static_cast<Value*>(device_allocate(static_cast<size_t>(count), sizeof(Value)));
}

}  // namespace

void device_digits_create(DeviceDigits* on_device, const Digits* digits, cudaStream_t stream) {
  const int count = digits->train_count + digits->test_count;
  on_device->images = Allocate<float>(count * kInputs);
  on_device->labels = Allocate<int>(count);
  device_upload(on_device->images, digits->images, static_cast<size_t>(count) * kInputs * sizeof(float), stream);
  device_upload(on_device->labels, digits->labels, static_cast<size_t>(count) * sizeof(int), stream);
}

void device_digits_free(DeviceDigits* on_device) {
  cudaFree(on_device->images);
  cudaFree(on_device->labels);
}

void device_mlp_create(DeviceMlp* net, int rows, const float* params, cudaStream_t stream) {
  net->rows = rows;
  net->stream = stream;
  check_cublas(cublasCreate(&net->blas), "cublasCreate");
  check_cublas(cublasSetStream(net->blas, stream), "cublasSetStream");
  net->params = Allocate<float>(kValues);
  net->grads = Allocate<float>(kValues);
  net->x = Allocate<float>(rows * kInputs);
  net->labels = Allocate<int>(rows);
  net->hidden1 = Allocate<float>(rows * kHidden1);
  net->hidden2 = Allocate<float>(rows * kHidden2);
  net->d1 = Allocate<float>(rows * kHidden1);
  net->d2 = Allocate<float>(rows * kHidden2);
  net->d3 = Allocate<float>(rows * kClasses);
  net->ones = Allocate<float>(rows);
  net->losses = Allocate<float>(rows);
  net->hits = Allocate<int>(rows);
  Fill<<<Blocks(rows), kThreads, 0, stream>>>(rows, net->ones, 1.0f);
  device_upload(net->params, params, kValues * sizeof(float), stream);
}

void device_mlp_free(DeviceMlp* net) {
  void* const buffers[] = {net->params, net->grads, net->x,  net->labels, net->hidden1, net->hidden2,
                           net->d1,     net->d2,    net->d3, net->ones,   net->losses,  net->hits};
  for (void* buffer : buffers) cudaFree(buffer);
  cublasDestroy(net->blas);
}

void device_mlp_gradient(DeviceMlp* net, const DeviceDigits* digits, const int* rows, int count, float scale) {
  Gather<<<Blocks(count * kInputs), kThreads, 0, net->stream>>>(count, rows, digits->images, digits->labels, net->x,
                                                                net->labels);
  AllForward(net, count, net->x, net->labels, scale);
  const float* p = net->params;
  float* g = net->grads;
  Backward(*net, count, kHidden2, kClasses, net->hidden2, p + At(kW3), net->d3, g + At(kW3), g + At(kB3), net->d2);
  TanhBackward<<<Blocks(count * kHidden2), kThreads, 0, net->stream>>>(count * kHidden2, net->hidden2, net->d2);
  Backward(*net, count, kHidden1, kHidden2, net->hidden1, p + At(kW2), net->d2, g + At(kW2), g + At(kB2), net->d1);
  TanhBackward<<<Blocks(count * kHidden1), kThreads, 0, net->stream>>>(count * kHidden1, net->hidden1, net->d1);
  Backward(*net, count, kInputs, kHidden1, net->x, p + At(kW1), net->d1, g + At(kW1), g + At(kB1), nullptr);
  check_cuda(cudaGetLastError(), "backward pass");
}

double device_mlp_evaluate(DeviceMlp* net, const DeviceDigits* digits, int first, int count, int* correct) {
  const auto rows = static_cast<size_t>(net->rows);
  auto* losses = static_cast<float*>(allocate(rows, sizeof(float)));
  auto* hits = static_cast<int*>(allocate(rows, sizeof(int)));
  double loss = 0;
  *correct = 0;
  for (int done = 0; done < count; done += net->rows) {
    const int n = count - done < net->rows ? count - done : net->rows;
    const int row = first + done;
    AllForward(net, n, digits->images + row * kInputs, digits->labels + row, 1.0f);
    device_download(losses, net->losses, static_cast<size_t>(n) * sizeof(float), net->stream);
    device_download(hits, net->hits, static_cast<size_t>(n) * sizeof(int), net->stream);
    for (int r = 0; r < n; ++r) {
      loss += static_cast<double>(losses[r]);
      *correct += hits[r];
    }
  }
  free(losses);
  free(hits);
  return loss / count;
}

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Trains the network of cuda_mlp on several GPUs, with one thread per GPU. The program creates a communicator of NCCL,
// sums its gradients over it, passes it to libshampoo, and destroys it. It also runs with one GPU.
#include <math.h>
#include <nccl.h>
#include <pthread.h>
#include <shampoo/shampoo_nccl.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "device.h"
#include "digits.h"
#include "network.h"
#include "options.h"
#include "progress.h"
#include "random.h"
#include "times.h"
#include "with_shampoo.h"

const char program_name[] = "train_digits_gpus";

// A row of the final table.
typedef struct {
  int64_t state_bytes, sent_bytes;
  double step_ms;  // median time of a step of the optimizer
  uint64_t hash;   // of the bits of all parameters
} Row;

typedef struct {
  pthread_t thread;
  int rank, world;
  ncclComm_t comm;
  const Options* options;
  const Digits* digits;
  Row row;
} Worker;

static void check_nccl(ncclResult_t result, const char* what) {
  if (result != ncclSuccess) fail("%s: %s", what, ncclGetErrorString(result));
}

static void evaluate(DeviceMlp* net, const Digits* digits, const DeviceDigits* images, int epoch) {
  int correct;
  const double loss = device_mlp_evaluate(net, images, 0, digits->train_count, &correct);
  device_mlp_evaluate(net, images, digits->train_count, digits->test_count, &correct);
  clear_progress();
  printf("%5d   %13.5f   %11.2f %%\n", epoch, loss, 100.0 * correct / digits->test_count);
  fflush(stdout);
}

static void make_optimizer(WithShampoo* shampoo, const Worker* worker, const DeviceMlp* net, const float* lr) {
  Tensor tensors[kTensors];
  for (int t = 0; t < kTensors; ++t) {
    const MlpTensor* from = &mlp_tensors[t];
    Tensor* tensor = &tensors[t];
    snprintf(tensor->name, sizeof tensor->name, "%s", from->name);
    tensor->ndim = from->ndim;
    for (int d = 0; d < from->ndim; ++d) tensor->shape[d] = from->shape[d];
    tensor->param = net->params + from->offset;
    tensor->grad = net->grads + from->offset;
  }
  // Blocks of 64 divide W1 and W2 into two equal blocks each, enough for several ranks.
  Settings settings = {0};
  settings_add(&settings, "max_preconditioner_dim=64");
  for (int i = 0; i < worker->options->settings.count; ++i) settings_add(&settings, worker->options->settings.texts[i]);
  shampoo_comm_ops ops;
  check_nccl(shampoo_nccl_ops(worker->comm, &ops), "shampoo_nccl_ops");
  const Placement placement = {.device = worker->rank,
                               .stream = net->stream,
                               .lr = lr,
                               .rank = worker->rank,
                               .world = worker->world,
                               .ops = worker->world > 1 ? &ops : NULL};
  with_shampoo_create(shampoo, tensors, kTensors, &settings, &placement);
  settings_free(&settings);
}

// Returns the FNV-1a hash.
static uint64_t hash_of(const DeviceMlp* net) {
  float* values = allocate(kValues, sizeof(float));
  device_download(values, net->params, kValues * sizeof(float), net->stream);
  const unsigned char* bytes = (const unsigned char*)values;
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < kValues * sizeof(float); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3u;
  free(values);
  return hash;
}

static void* work(void* argument) {
  Worker* worker = argument;
  const Options* options = worker->options;
  const Digits* digits = worker->digits;
  const int train_count = digits->train_count;
  Mlp host;
  DeviceMlp net;
  DeviceDigits images;
  WithShampoo shampoo;
  Times times;
  cudaStream_t stream;
  uint64_t random_state = (uint64_t)options->seed;

  check_cuda(cudaSetDevice(worker->rank), "cudaSetDevice");
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  // This rank's part of each batch.
  const int first = (int)((long long)options->batch * worker->rank / worker->world);
  const int count = (int)((long long)options->batch * (worker->rank + 1) / worker->world) - first;
  const int steps_per_epoch = train_count / options->batch, steps = options->epochs * steps_per_epoch;
  mlp_create(&host, 1);
  mlp_init(&host, &random_state);
  device_mlp_create(&net, options->batch, host.params, stream);
  device_digits_create(&images, digits, stream);
  times_create(&times, steps);

  float* lr = device_allocate(1, sizeof(float));
  float* rates = device_allocate((size_t)steps, sizeof(float));
  float* cosine = allocate((size_t)steps, sizeof(float));
  for (int s = 0; s < steps; ++s)
    cosine[s] = (float)(options->lr * 0.5 * (1 + cos(3.14159265358979323846 * s / steps)));
  device_upload(rates, cosine, (size_t)steps * sizeof(float), stream);
  free(cosine);
  make_optimizer(&shampoo, worker, &net, lr);

  int* rows = allocate((size_t)train_count, sizeof(int));
  int* rows_there = device_allocate((size_t)train_count, sizeof(int));
  for (int i = 0; i < train_count; ++i) rows[i] = i;
  if (worker->rank == 0) {
    printf("\nepoch   training loss   test accuracy\n");
    evaluate(&net, digits, &images, 0);
  }
  for (int epoch = 1, step = 0; epoch <= options->epochs; ++epoch) {
    // All ranks draw the same order from the same seed, so nothing has to be sent.
    random_shuffle(&random_state, train_count, rows);
    device_upload(rows_there, rows, (size_t)train_count * sizeof(int), stream);
    for (int s = 0; s < steps_per_epoch; ++s, ++step) {
      if (worker->rank == 0) show_progress(step, steps);
      check_cuda(cudaMemcpyAsync(lr, &rates[step], sizeof(float), cudaMemcpyDeviceToDevice, stream), "learning rate");
      // Weighted so that the sum over the ranks is the mean over the batch.
      device_mlp_gradient(&net, &images, rows_there + s * options->batch + first, count, 1.0f / (float)options->batch);
      check_nccl(ncclAllReduce(net.grads, net.grads, kValues, ncclFloat32, ncclSum, worker->comm, stream),
                 "ncclAllReduce");
      times_begin(&times, stream);
      with_shampoo_step(&shampoo, stream);
      times_end(&times, stream);
    }
    if (worker->rank == 0) evaluate(&net, digits, &images, epoch);
  }
  worker->row.state_bytes = shampoo.state_bytes;
  worker->row.sent_bytes = shampoo.sent_bytes;
  worker->row.step_ms = times_summary(&times, 0).median;
  worker->row.hash = hash_of(&net);

  free(rows);
  cudaFree(rows_there);
  cudaFree(rates);
  with_shampoo_free(&shampoo);
  cudaFree(lr);
  times_free(&times);
  device_digits_free(&images);
  device_mlp_free(&net);
  mlp_free(&host);
  cudaStreamDestroy(stream);
  return NULL;
}

int main(int argc, char** argv) {
  Options options;
  Digits digits;
  int world = 0, same = 1;
  const Option more[] = {
      option_integer("--ranks", &world, 0, 1024,
                     "GPUs that train together; 0: all. The options of AdamW, --device and --gpt2 are ignored"),
      {0}};
  options_parse(&options, argc, argv, more);
  const int there = device_count();
  if (world == 0) world = there;
  if (world > there) fail("--ranks %d: there are %d GPUs; expected one per rank", world, there);
  digits_load(&digits, options.data);
  if (options.batch > digits.train_count) fail("--batch %d: there are %d images", options.batch, digits.train_count);
  if (options.batch < world) fail("--batch %d: there are %d ranks", options.batch, world);

  const int version = (int)shampoo_version();
  printf("libshampoo %d.%d.%d, float32, ranks of NCCL, each on a GPU: %d\n", version / 10000, version / 100 % 100,
         version % 100, world);
  printf("digits      %d training images, %d test images\n", digits.train_count, digits.test_count);
  printf("network     64-128-64-10, tanh, %d parameters\n", kValues);
  printf("steps       %d epochs of %d steps with %d images each\n", options.epochs, digits.train_count / options.batch,
         options.batch);

  ncclComm_t* comms = allocate((size_t)world, sizeof *comms);
  Worker* workers = allocate((size_t)world, sizeof *workers);
  check_nccl(ncclCommInitAll(comms, world, NULL), "ncclCommInitAll");
  for (int r = 0; r < world; ++r) {
    Worker* worker = &workers[r];
    worker->rank = r;
    worker->world = world;
    worker->comm = comms[r];
    worker->options = &options;
    worker->digits = &digits;
    if (pthread_create(&worker->thread, NULL, work, worker) != 0) fail("cannot start the thread of rank %d", r);
  }
  for (int r = 0; r < world; ++r) pthread_join(workers[r].thread, NULL);
  // The optimizers that used the communicators have been destroyed.
  for (int r = 0; r < world; ++r) check_nccl(ncclCommDestroy(comms[r]), "ncclCommDestroy");

  printf("\n rank       state   sent per step   median step   hash of the parameters\n");
  for (int r = 0; r < world; ++r) {
    const Row* row = &workers[r].row;
    same = same && row->hash == workers[0].row.hash;
    printf("%5d   %5.0f KiB %7d bytes   %8.3f ms   %016llx\n", r, (double)row->state_bytes / 1024, (int)row->sent_bytes,
           row->step_ms, (unsigned long long)row->hash);
  }
  printf("%s\n", same ? "bit-identical on every rank" : "THE RANKS DIFFER");

  free(workers);
  free(comms);
  digits_free(&digits);
  settings_free(&options.settings);
  return same ? EXIT_SUCCESS : EXIT_FAILURE;
}

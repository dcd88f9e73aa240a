// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Trains the network of cuda_mlp on several GPUs, with one thread per GPU. Each GPU holds all parameters (data
// parallel, DDP) or a chunk of each parameter (fully sharded, FSDP). With chunks, there may be several copies of the
// parameters (hybrid, HSDP). The program creates an NCCL communicator, passes it to libshampoo, uses it to sum the
// gradients, and destroys it. The program also runs with one GPU.
#define _POSIX_C_SOURCE 200112L  // pthread_barrier_t
#include <math.h>
#include <nccl.h>
#include <pthread.h>
#include <shampoo/shampoo_nccl.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "chunks.h"
#include "device.h"
#include "digits.h"
#include "gpu_shards.h"
#include "network.h"
#include "options.h"
#include "progress.h"
#include "random.h"
#include "times.h"
#include "with_shampoo.h"

const char program_name[] = "train_digits_gpus";

static const char kAbout[] =
    "Trains a 64-128-64-10 network on handwritten digits with Shampoo, on several GPUs. Prints losses,\n"
    "accuracies, and for each GPU the size of its state, the bytes that it sends per step and the median\n"
    "time of a step.\n"
    "The options --adamw-lr, --device, --gpt2, --steps and --layers have no effect.\n";

// A row of the final table.
typedef struct {
  int64_t state_bytes, sent_bytes;
  double step_ms;  // median time of a step of the optimizer
  uint64_t hash;   // hash of the bits of all parameters
} Row;

// A rank: one GPU and the thread that uses it.
typedef struct {
  pthread_t thread;
  int rank, world;
  int shards;                  // number of GPUs that together hold one copy of the parameters
  ncclComm_t comm;             // connects all GPUs
  pthread_barrier_t* barrier;  // for all threads
  const Options* options;
  const Digits* digits;
  Row row;
} Worker;

static void evaluate(DeviceMlp* net, const Digits* digits, const DeviceDigits* images, int epoch) {
  int correct;
  const double loss = device_mlp_evaluate(net, images, 0, digits->train_count, &correct);
  device_mlp_evaluate(net, images, digits->train_count, digits->test_count, &correct);
  clear_progress();
  printf("%5d   %13.5f   %11.2f %%\n", epoch, loss, 100.0 * correct / digits->test_count);
  fflush(stdout);
}

// The communicators of a GPU. A communicator is NULL if this GPU would be the only one in it.
typedef struct {
  ncclComm_t shards;    // connects the GPUs that hold the chunks of the same copy
  ncclComm_t replicas;  // connects the GPUs that hold the same chunks
  int split;            // 1: comms_create() created both; 0: each of them is Worker.comm or NULL
} Comms;

static void comms_create(Comms* comms, const Worker* worker) {
  *comms = (Comms){NULL, NULL, 0};
  if (worker->shards == 1) {
    if (worker->world > 1) comms->replicas = worker->comm;
  } else if (worker->shards == worker->world) {
    comms->shards = worker->comm;
  } else {
    // For example, with 4 GPUs and 2 shards: GPUs 0 and 1 hold one copy, and GPUs 2 and 3 hold the other copy. GPUs 0
    // and 2 hold the same chunks, and so do GPUs 1 and 3.
    comms->split = 1;
    check_nccl(shampoo_nccl_split(worker->comm, worker->shards, &comms->shards), "shampoo_nccl_split");
    check_nccl(ncclCommSplit(worker->comm, worker->rank % worker->shards, worker->rank, &comms->replicas, NULL),
               "ncclCommSplit");
  }
}

static void comms_free(Comms* comms) {
  if (!comms->split) return;
  check_nccl(ncclCommDestroy(comms->shards), "ncclCommDestroy");
  check_nccl(ncclCommDestroy(comms->replicas), "ncclCommDestroy");
}

// Creates the optimizer of a GPU. If chunks is NULL, this GPU holds all parameters.
static void make_optimizer(WithShampoo* shampoo, const Worker* worker, const Comms* comms, const DeviceMlp* net,
                           const GpuShards* chunks, const float* lr) {
  Tensor tensors[kTensors];
  for (int t = 0; t < kTensors; ++t) {
    const MlpTensor* from = &mlp_tensors[t];
    Tensor* tensor = &tensors[t];
    snprintf(tensor->name, sizeof tensor->name, "%s", from->name);
    tensor->ndim = from->ndim;
    for (int d = 0; d < from->ndim; ++d) tensor->shape[d] = from->shape[d];
    if (chunks == NULL) {
      tensor->param = net->params + from->offset;
      tensor->grad = net->grads + from->offset;
    } else {
      const Chunk chunk = chunk_of(t, chunks->rank, chunks->world);
      tensor->begin = chunk.begin;
      tensor->count = chunk.count;
      tensor->param = chunks->params + chunk.offset;
      tensor->grad = chunks->grads + chunk.offset;
    }
  }
  // With blocks of at most 64 rows and columns, W1 and W2 have two equal blocks each, so that each of four ranks has
  // work.
  Settings settings = {0};
  settings_add(&settings, "max_preconditioner_dim=64");
  for (int i = 0; i < worker->options->settings.count; ++i) settings_add(&settings, worker->options->settings.texts[i]);
  shampoo_comm_ops replicas, shards;
  if (comms->replicas != NULL) check_nccl(shampoo_nccl_ops(comms->replicas, &replicas), "shampoo_nccl_ops");
  if (comms->shards != NULL) check_nccl(shampoo_nccl_ops(comms->shards, &shards), "shampoo_nccl_ops");
  const Placement placement = {.device = worker->rank,
                               .stream = net->stream,
                               .lr = lr,
                               .replicas = comms->replicas != NULL ? &replicas : NULL,
                               .shards = comms->shards != NULL ? &shards : NULL};
  with_shampoo_create(shampoo, tensors, kTensors, &settings, &placement);
  settings_free(&settings);
}

// Sums the gradients over all GPUs. With chunks, each GPU receives the sums of its own chunks.
static void sum_gradients(const Comms* comms, const DeviceMlp* net, GpuShards* chunks) {
  float* grads = net->grads;
  int count = kValues;
  if (chunks != NULL) {
    gpu_shards_reduce(chunks, net);
    grads = chunks->grads;
    count = chunks->size;
  }
  if (comms->replicas == NULL) return;
  check_nccl(ncclAllReduce(grads, grads, (size_t)count, ncclFloat32, ncclSum, comms->replicas, net->stream),
             "ncclAllReduce");
}

// Returns the FNV-1a hash of all parameters.
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
  Comms comms;
  GpuShards own_chunks;
  GpuShards* chunks = NULL;
  cudaStream_t stream;
  uint64_t random_state = (uint64_t)options->seed;

  check_cuda(cudaSetDevice(worker->rank), "cudaSetDevice");
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  // This rank computes the gradient of the images [first, first + count) of each batch.
  const int first = (int)((long long)options->batch * worker->rank / worker->world);
  const int count = (int)((long long)options->batch * (worker->rank + 1) / worker->world) - first;
  const int steps_per_epoch = train_count / options->batch, steps = options->epochs * steps_per_epoch;
  mlp_create(&host, 1);
  mlp_init(&host, &random_state);
  device_mlp_create(&net, options->batch, host.params, stream);
  device_digits_create(&images, digits, stream);
  times_create(&times, steps);
  comms_create(&comms, worker);
  if (comms.shards != NULL) {
    chunks = &own_chunks;
    gpu_shards_create(chunks, comms.shards, &net);
  }

  float* lr = device_allocate(1, sizeof(float));
  float* rates = device_allocate((size_t)steps, sizeof(float));
  float* cosine = allocate((size_t)steps, sizeof(float));
  for (int s = 0; s < steps; ++s)
    cosine[s] = (float)(options->lr * 0.5 * (1 + cos(3.14159265358979323846 * s / steps)));
  device_upload(rates, cosine, (size_t)steps * sizeof(float), stream);
  free(cosine);
  make_optimizer(&shampoo, worker, &comms, &net, chunks, lr);

  int* rows = allocate((size_t)train_count, sizeof(int));
  int* device_rows = device_allocate((size_t)train_count, sizeof(int));
  for (int i = 0; i < train_count; ++i) rows[i] = i;
  // cudaMalloc and cudaFree may wait for all GPUs of the process, and a GPU in a collective waits for the other GPUs.
  // If both happen at the same time, all threads may wait forever. So no thread begins to train before all threads have
  // allocated memory, and no thread frees memory before all threads have finished training. The barriers do not protect
  // collectives inside ncclCommSplit() and shampoo_optimizer_create(): other threads may allocate during these calls.
  pthread_barrier_wait(worker->barrier);
  if (worker->rank == 0) {
    printf("\nepoch   training loss   test accuracy\n");
    evaluate(&net, digits, &images, 0);
  }
  for (int epoch = 1, step = 0; epoch <= options->epochs; ++epoch) {
    // All ranks draw the same order of the images from the same seed, so they need not exchange the order.
    random_shuffle(&random_state, train_count, rows);
    device_upload(device_rows, rows, (size_t)train_count * sizeof(int), stream);
    for (int s = 0; s < steps_per_epoch; ++s, ++step) {
      if (worker->rank == 0) show_progress(step, steps);
      check_cuda(cudaMemcpyAsync(lr, &rates[step], sizeof(float), cudaMemcpyDeviceToDevice, stream), "learning rate");
      // With this scale, the sum of the ranks' gradients is the gradient of the mean loss of the batch.
      device_mlp_gradient(&net, &images, device_rows + s * options->batch + first, count, 1.0f / (float)options->batch);
      sum_gradients(&comms, &net, chunks);
      times_begin(&times, stream);
      with_shampoo_step(&shampoo, stream);
      times_end(&times, stream);
      if (chunks != NULL) gpu_shards_gather(chunks, &net);  // for the next forward pass
    }
    if (worker->rank == 0) evaluate(&net, digits, &images, epoch);
  }
  worker->row.state_bytes = shampoo.state_bytes;
  worker->row.sent_bytes = shampoo.sent_bytes;
  worker->row.step_ms = times_summary(&times, 0).median;
  worker->row.hash = hash_of(&net);
  pthread_barrier_wait(worker->barrier);

  free(rows);
  cudaFree(device_rows);
  cudaFree(rates);
  with_shampoo_free(&shampoo);
  comms_free(&comms);  // after with_shampoo_free(), because the optimizer uses comms
  if (chunks != NULL) gpu_shards_free(chunks);
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
  int world = 0, shards = 1, gather = 0, same = 1;
  const Option more[] = {
      option_integer("--ranks", &world, 0, 1024, "number of GPUs that train together, one rank on each; 0: all GPUs"),
      option_integer("--shards", &shards, 0, 1024,
                     "number of GPUs that together hold one copy of the parameters; 1: each GPU holds all "
                     "parameters; 0: all GPUs together hold one copy"),
      option_flag("--gather", &gather, 1,
                  "with --shards: gathers whole blocks at their owners, like --set shard_mode=gather; by default, each "
                  "chunk is a separate tensor"),
      {0}};
  options_parse(&options, argc, argv, kAbout, more);
  const int available = device_count();
  if (world == 0) world = available;
  if (world > available) fail("--ranks %d: there are %d GPUs; expected one per rank", world, available);
  if (gather && shards == 1) fail("--gather with --shards 1: expected --shards 0, or 2 or more");
  if (gather) settings_add(&options.settings, "shard_mode=gather");
  if (shards == 0) shards = world;
  if (world % shards != 0) fail("--shards %d: expected a divisor of %d, the number of GPUs", shards, world);
  digits_load(&digits, options.data);
  if (options.batch > digits.train_count) fail("--batch %d: there are %d images", options.batch, digits.train_count);
  if (options.batch < world) fail("--batch %d: there are %d ranks", options.batch, world);

  const int version = (int)shampoo_version();
  printf("libshampoo %d.%d.%d, float32, NCCL ranks, one on each GPU: %d\n", version / 10000, version / 100 % 100,
         version % 100, world);
  if (shards > 1)
    printf("copies      %d of the parameters, in chunks; GPUs per copy: %d%s\n", world / shards, shards,
           gather ? "; whole blocks are gathered" : "");
  printf("digits      %d training images, %d test images\n", digits.train_count, digits.test_count);
  printf("network     64-128-64-10, tanh, %d parameters\n", kValues);
  printf("steps       %d epochs of %d steps with %d images each\n", options.epochs, digits.train_count / options.batch,
         options.batch);

  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, NULL, (unsigned)world);
  ncclComm_t* comms = allocate((size_t)world, sizeof *comms);
  Worker* workers = allocate((size_t)world, sizeof *workers);
  check_nccl(ncclCommInitAll(comms, world, NULL), "ncclCommInitAll");
  for (int r = 0; r < world; ++r) {
    Worker* worker = &workers[r];
    worker->rank = r;
    worker->world = world;
    worker->shards = shards;
    worker->comm = comms[r];
    worker->barrier = &barrier;
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

  pthread_barrier_destroy(&barrier);
  free(workers);
  free(comms);
  digits_free(&digits);
  settings_free(&options.settings);
  return same ? EXIT_SUCCESS : EXIT_FAILURE;
}

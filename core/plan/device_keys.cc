// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/device_keys.h"

namespace shampoo {

Status CheckKeysOfDevice(const Settings& settings, const Placement& placement) {
  if (placement.device == DeviceType::kCpu) return {};
  const auto refuse = [](const char* key, const char* value, const char* expected) {
    return Unsupported("key ", key, ": the value ", value,
                       " is not there yet on a GPU (device_type SHAMPOO_CUDA): ", "expected ", expected,
                       ", or a plan for SHAMPOO_CPU");
  };
  if (settings.track_root_residuals) return refuse("track_root_residuals", "true", "false");
  if (settings.track_times) return refuse("track_times", "true", "false");
  if (settings.verify_replicas > 0) return refuse("verify_replicas", Cat(settings.verify_replicas).c_str(), "0");
  // Of one shard rank nothing is gathered.
  if (settings.shard_mode == ShardMode::kGather && placement.shard_world > 1) {
    return refuse("shard_mode", "gather", "local");
  }
  return {};
}

}  // namespace shampoo

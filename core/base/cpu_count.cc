// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/base/cpu_count.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>

namespace shampoo {
namespace {

int AffinityCpus() {
  // The affinity mask of the kernel can be longer than the 1024 bits of cpu_set_t. The size is doubled until the mask
  // fits.
  for (int bits = 1024; bits <= (1 << 20); bits *= 2) {
    cpu_set_t* mask = CPU_ALLOC(static_cast<size_t>(bits));
    if (mask == nullptr) return 1;
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(bits));
    const bool known = sched_getaffinity(0, bytes, mask) == 0;
    const int count = known ? CPU_COUNT_S(bytes, mask) : 0;
    CPU_FREE(mask);
    if (known) return std::max(count, 1);
  }
  return 1;
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

// Returns the process's path in the unified (v2) hierarchy of control groups. /proc/self/cgroup has this path in a line
// such as "0::/user.slice/app". Returns "" if there is no such line.
std::string CgroupPath() {
  const std::string groups = ReadText("/proc/self/cgroup");
  const size_t at = groups.rfind("0::", 0) == 0 ? 0 : groups.find("\n0::");
  if (at == std::string::npos) return "";
  const size_t start = groups.find("::", at) + 2;
  return groups.substr(start, groups.find('\n', start) - start);
}

// Returns the CPU quota of the process, in processors, or 0 if there is no quota. The control groups above a control
// group also limit that group, so the result is the smallest quota of the process's control group and of all control
// groups above it. If none of these has a quota, the result is the quota in the topmost directory of the v1 hierarchy.
// In a container, this is usually the quota of the container.
int QuotaCpus() {
  int least = 0;
  std::string path = CgroupPath();
  while (true) {
    const int cpus = CpusFromQuota(ReadText("/sys/fs/cgroup" + path + "/cpu.max"));
    if (cpus > 0 && (least == 0 || cpus < least)) least = cpus;
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) break;
    path.resize(slash);
  }
  if (least == 0) {
    const std::string quota = ReadText("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
    if (!quota.empty()) least = CpusFromQuota(quota + " " + ReadText("/sys/fs/cgroup/cpu/cpu.cfs_period_us"));
  }
  return least;
}

}  // namespace

int CpusFromQuota(const std::string& cpu_max) {
  const char* const end = cpu_max.data() + cpu_max.size();
  auto skip_blanks = [end](const char* at) {
    return std::find_if(at, end, [](char c) { return c != ' ' && c != '\n'; });
  };
  long long quota = 0;
  long long period = 0;
  const auto first = std::from_chars(skip_blanks(cpu_max.data()), end, quota);
  if (first.ec != std::errc() || quota <= 0) return 0;
  const auto second = std::from_chars(skip_blanks(first.ptr), end, period);
  if (second.ec != std::errc() || period <= 0) return 0;
  return static_cast<int>(std::min<long long>((quota + period - 1) / period, 1 << 20));
}

int UsableCpus() {
  const int quota = QuotaCpus();
  const int affinity = AffinityCpus();
  return quota > 0 ? std::min(quota, affinity) : affinity;
}

}  // namespace shampoo

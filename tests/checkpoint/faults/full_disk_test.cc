// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Checks saves to full disks, read-only disks and removed directories. These conditions are real: no file call returns
// an injected error. A case changes limits, mounts or the user only in a child process, which returns descriptions of
// the checks that failed.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "tests/capture.h"
#include "tests/checkpoint/faults/failing.h"
#include "tests/checkpoint/faults/processes.h"

namespace shampoo_test {
namespace {

// Returns "" if the last save or load returned `status` on all ranks, with equal errors that contain in_text.
// Otherwise, returns a description that begins with `what`.
std::string Expect(const char* what, SavingJob* job, shampoo_status status, const std::string& in_text = "") {
  if (job->All(status) && job->SameError() && Has((*job)[0].error, in_text)) return "";
  return std::string(what) + ", expected " + std::to_string(status) + " " + in_text + ": " + job->Errors();
}

TEST_CASE("a save fails if a file exceeds the size limit of the process") {
  Saves saves;
  std::vector<rlim_t> sizes;
  for (const std::string& name : NamesIn(saves.directory))
    sizes.push_back(BytesOf(saves.directory + "/" + name).size());
  const rlim_t largest = *std::max_element(sizes.begin(), sizes.end());
  for (const rlim_t limit : {rlim_t{0}, rlim_t{1}, rlim_t{8}, rlim_t{1000}, sizes[1] - 1, sizes[2] - 1, largest - 46,
                             largest - 1, largest, 2 * largest}) {
    CAPTURE(limit);
    saves.Reset();
    const bool fits = limit >= largest;
    const std::string wrong = TextFromChild([&] {
      signal(SIGXFSZ, SIG_IGN);
      const rlimit soft_and_hard{limit, limit};
      if (setrlimit(RLIMIT_FSIZE, &soft_and_hard) != 0) return std::string("the limit cannot be set");
      saves.Save();
      std::string text = Expect("save", &saves.job, fits ? SHAMPOO_OK : SHAMPOO_E_IO, fits ? "" : ReasonOf(EFBIG));
      if (!fits) text += Expect("save", &saves.job, SHAMPOO_E_IO, saves.directory + "/checkpoint-000002.");
      return text;
    });
    CHECK(wrong == "");
    if (!fits) CHECK(saves.HasOlderAlone());
    CHECK(saves.Loads(fits ? saves.newer : saves.older));
    saves.CheckNextSave();
  }
}

// Mounts a file system in memory for this process and its children. Returns false if this process may not mount it.
bool MountMemory(const std::string& at, const std::string& size) {
  const uid_t user = getuid();
  const gid_t group = getgid();
  if (unshare(CLONE_NEWNS) != 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    WriteFile("/proc/self/setgroups", "deny");
    WriteFile("/proc/self/uid_map", "0 " + std::to_string(user) + " 1");
    WriteFile("/proc/self/gid_map", "0 " + std::to_string(group) + " 1");
  }
  return mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("none", at.c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0;
}

constexpr char kMayNot[] = "this process may not mount a file system";

// Checks that a child process returned "". If the child returned kMayNot, prints that the case is skipped.
void CheckUnlessSkipped(const std::string& wrong) {
  if (wrong == kMayNot) {
    std::printf("skipped: %s\n", kMayNot);
  } else {
    CHECK(wrong == "");
  }
}

TEST_CASE("a save fails on a full or read-only file system and succeeds once there is room") {
  const std::string wrong = TextFromChild([]() -> std::string {
    SavingJob job(LargeSpec());
    SavingJob reader(LargeSpec());
    const Scratch scratch;
    const std::string disk = scratch / "disk";
    MakeDirectory(disk);
    // One checkpoint of about 13 MiB fits, but two do not fit.
    if (!MountMemory(disk, "20m")) return kMayNot;
    const std::string directory = disk + "/saves";
    const auto room = [&] {
      struct statvfs status {};
      statvfs(disk.c_str(), &status);
      return status.f_bavail;
    };
    job.StepTo(1);
    job.Save(directory);
    std::string text = Expect("the first save", &job, SHAMPOO_OK);
    const std::vector<Bytes> older = job.States();
    const std::vector<std::string> names = NamesIn(directory);
    const auto free_before = room();
    const auto check_older = [&](const char* when) {
      if (NamesIn(directory) != names || room() != free_before)
        text += std::string(when) + ": files of the failed save are left\n";
      reader.Load(directory);
      text += Expect(when, &reader, SHAMPOO_OK);
      if (reader.States() != older) text += std::string(when) + ": other states are loaded\n";
    };
    job.StepTo(2);
    job.Save(directory);
    text += Expect("full", &job, SHAMPOO_E_IO, ReasonOf(ENOSPC));
    text += Expect("full", &job, SHAMPOO_E_IO, directory + "/checkpoint-000002.rank-0000");
    check_older("full");
    if (mount(nullptr, disk.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, "size=20m") != 0) return text + "remount failed";
    job.Save(directory);
    text += Expect("read-only", &job, SHAMPOO_E_IO, ReasonOf(EROFS));
    text += Expect("read-only", &job, SHAMPOO_E_IO, directory + "/checkpoint-000002.rank-0000");
    check_older("read-only");
    job.Save(disk + "/others");
    text += Expect("read-only, a new directory", &job, SHAMPOO_E_IO, disk + "/others: " + ReasonOf(EROFS));
    if (mount(nullptr, disk.c_str(), nullptr, MS_REMOUNT, "size=40m") != 0) return text + "remount failed";
    job.Save(directory);
    text += Expect("larger", &job, SHAMPOO_OK);
    reader.Load(directory);
    text += Expect("larger", &reader, SHAMPOO_OK);
    if (reader.States() != job.States()) text += "larger: other states are loaded\n";
    umount(disk.c_str());
    return text;
  });
  CheckUnlessSkipped(wrong);
}

TEST_CASE("a save needs write permission for the directory, and a load needs read permission") {
  Saves saves;
  for (const mode_t mode : {mode_t{0555}, mode_t{0000}}) {
    CAPTURE(mode);
    saves.Reset();
    const std::string wrong = TextFromChild([&]() -> std::string {
      const std::string parent = saves.directory.substr(0, saves.directory.rfind('/'));
      chmod(parent.c_str(), 0755);
      chmod(saves.directory.c_str(), mode);
      // The superuser has all permissions, so the child process becomes another user.
      constexpr uid_t kNobody = 65534;
      if (getuid() == 0 && (setgid(kNobody) != 0 || setuid(kNobody) != 0))
        return "this process may not change its user";
      saves.Save();
      std::string text = Expect("save", &saves.job, SHAMPOO_E_IO, ReasonOf(EACCES));
      text += Expect("save", &saves.job, SHAMPOO_E_IO, saves.directory);
      saves.job.Load(saves.directory);
      if (mode == 0) {
        text += Expect("load", &saves.job, SHAMPOO_E_IO, saves.directory + ": " + ReasonOf(EACCES));
      } else {
        text += Expect("load", &saves.job, SHAMPOO_OK);
        if (saves.job.States() != saves.older) text += "other states are loaded";
      }
      return text;
    });
    CHECK(wrong == "");
    chmod(saves.directory.c_str(), 0755);
    CHECK(saves.HasOlderAlone());
    CHECK(saves.Loads(saves.older));
  }
}

TEST_CASE("if a save fails because its directory was removed, the error names the directory") {
  Saves saves;
  const int descriptors = OpenDescriptors();
  for (const int rank : {0, 1}) {
    const std::vector<FileCall> calls = saves.Calls(rank);
    int failures = 0;
    for (const FileCall& call : calls) {
      CAPTURE_ALL(rank, Describe(call));
      saves.Reset();
      saves.job.WatchFiles(rank, [&](const FileCall& now) {
        if (now.number == call.number) RemoveAll(saves.directory);
        return FileFault();
      });
      saves.Save();
      const bool ok = saves.job.All(SHAMPOO_OK);
      failures += ok ? 0 : 1;
      if (!ok) CHECK(Expect("save", &saves.job, SHAMPOO_E_IO, saves.directory) == "");
      if (!ok) CHECK(Expect("save", &saves.job, SHAMPOO_E_IO, ReasonOf(ENOENT)) == "");
      saves.CheckNextSave();
      CHECK(OpenDescriptors() == descriptors);
    }
    CHECK(failures > 5);
    // Rank 0 renames the index and then syncs the directory. If the test removes the directory after that, the save
    // succeeds.
    CHECK((rank == 1 || failures < static_cast<int>(calls.size())));
  }
}

}  // namespace
}  // namespace shampoo_test

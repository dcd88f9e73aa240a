// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "capi/tools/ckpt/verify.h"

#include <cstdio>

#include "capi/tools/ckpt/coverage.h"
#include "capi/tools/ckpt/scan.h"
#include "core/base/amount.h"

namespace shampoo::ckpt {
namespace {

void PrintLine(const std::string& line) { std::fputs((line + "\n").c_str(), stdout); }

void ReportDamage(const std::string& text) {
  PrintLine("damaged: " + text);
  std::fflush(stdout);  // prints the line at once, because the command may run for a long time
}

}  // namespace

Status Verify(const Arguments& arguments, ExitCode* exit) {
  Source source;
  SHAMPOO_RETURN_IF_ERROR(Locate(arguments.paths[0], &source));
  *exit = kProblemFound;
  CheckpointIndex outline;
  std::vector<int64_t> counts;
  if (Status status = ReadOutline(source, &outline, &counts); !status.ok()) {
    // kUnsupported: this program does not know the format, which is newer, so the checkpoint may be intact.
    if (status.code() == Code::kUnsupported) return status;
    ReportDamage(status.message());
    return {};
  }
  int64_t bytes = 0;
  for (const StoredFile& file : outline.files) bytes += file.bytes;
  int64_t uncovered = 0;
  ProgressLine progress("verify", arguments.progress);
  Scan scan(outline, &progress, ReportDamage);
  SHAMPOO_RETURN_IF_ERROR(ForEachBatch(source, outline, counts, [&](const Batch& batch) -> Status {
    const auto blocks = BlocksByParam(batch);
    for (size_t position = 0; position < batch.size(); ++position) {
      const std::string fault = CoverageFault(batch.ParamAt(position), blocks[position]);
      if (fault.empty()) continue;
      ++uncovered;
      progress.Clear();
      PrintLine("not covered: " + fault);
    }
    scan.Run(batch, nullptr);
    return {};
  }));
  scan.CheckOtherFiles();
  progress.Finish();
  if (scan.ok() && uncovered == 0) {
    *exit = kSuccess;
    PrintLine(Cat("ok: ", scan.entries(), scan.entries() == 1 ? " entry, " : " entries, ", CountText(bytes, "byte"),
                  " in ", CountText(static_cast<int64_t>(outline.files.size()), "file"), ": ", source.path));
    return {};
  }
  PrintLine(Cat("not ok: ", scan.damaged_entries(), " of ", scan.entries(), " entries are damaged or lost, ",
                scan.lost_files(), " of ", outline.files.size(), " files are unusable; ", uncovered, " of ",
                outline.params.size(),
                " parameters have elements that are in no block or in several blocks: ", source.path));
  return {};
}

}  // namespace shampoo::ckpt

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "capi/tools/ckpt/inspect.h"

#include <cstdio>

namespace shampoo::ckpt {

Status Inspect(const Arguments& arguments, ExitCode* exit) {
  Source source;
  CheckpointIndex outline;
  std::vector<int64_t> counts;
  SHAMPOO_RETURN_IF_ERROR(Locate(arguments.paths[0], &source));
  SHAMPOO_RETURN_IF_ERROR(ReadOutline(source, &outline, &counts));
  const std::unique_ptr<Report> report = arguments.json ? MakeJsonReport(arguments) : MakeTextReport(arguments);
  report->Begin(source, outline);

  std::vector<std::string> damage;
  ProgressLine progress("inspect", arguments.progress && arguments.norms);
  Scan scan(outline, &progress, [&damage](const std::string& text) {
    std::fputs(Cat("shampoo-ckpt: ", text, "\n").c_str(), stderr);
    damage.push_back(text);
  });
  SHAMPOO_RETURN_IF_ERROR(ForEachBatch(source, outline, counts, [&](const Batch& batch) -> Status {
    SumVisitor sums(batch);
    if (arguments.norms) scan.Run(batch, &sums);
    const auto blocks = BlocksByParam(batch);
    for (size_t position = 0; position < batch.size(); ++position) {
      report->Add(batch.ParamAt(position), blocks[position], arguments.norms ? &sums.At(position) : nullptr);
    }
    return {};
  }));
  progress.Finish();
  report->End(damage);
  *exit = scan.ok() ? kSuccess : kProblemFound;
  return {};
}

}  // namespace shampoo::ckpt

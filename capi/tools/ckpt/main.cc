// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <shampoo/shampoo.h>

#include <cstdio>
#include <string>
#include <vector>

#include "capi/tools/ckpt/arguments.h"
#include "capi/tools/ckpt/diff.h"
#include "capi/tools/ckpt/inspect.h"
#include "capi/tools/ckpt/verify.h"
#include "core/base/catch_exceptions.h"
#include "core/checkpoint/index.h"

namespace shampoo::ckpt {
namespace {

Status Run(const std::vector<std::string>& words, ExitCode* exit) {
  Arguments arguments;
  SHAMPOO_RETURN_IF_ERROR(ParseArguments(words, &arguments));
  switch (arguments.command) {
    case Command::kHelp:
      std::fputs(kUsage, stdout);
      return {};
    case Command::kVersion:
      std::fputs(Cat("shampoo-ckpt ", SHAMPOO_VERSION_MAJOR, ".", SHAMPOO_VERSION_MINOR, ".", SHAMPOO_VERSION_PATCH,
                     ", reads checkpoints up to format ", kCheckpointFormat, "\n")
                     .c_str(),
                 stdout);
      return {};
    case Command::kInspect:
      return Inspect(arguments, exit);
    case Command::kVerify:
      return Verify(arguments, exit);
    case Command::kDiff:
      return Diff(arguments, exit);
  }
  return {};
}

}  // namespace
}  // namespace shampoo::ckpt

int main(int argc, char** argv) {
  using shampoo::ckpt::ExitCode;
  ExitCode exit = shampoo::ckpt::kSuccess;
  shampoo::Status status = shampoo::CatchExceptions(
      [&] { return shampoo::ckpt::Run(std::vector<std::string>(argv + 1, argv + argc), &exit); });
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (status.ok() && !written) status = shampoo::IoFailed("cannot write to stdout");
  if (status.ok()) return exit;
  std::fputs(shampoo::Cat("shampoo-ckpt: ", status.message(), "\n").c_str(), stderr);
  return shampoo::ckpt::kFailed;
}

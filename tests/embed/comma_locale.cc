// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A host program whose locale writes 0,5 for a half and 1.000 for a thousand. It sets the locale with the functions of
// C and of C++. Every string from the library must be the same as in the locale "C".
// Usage: comma_locale <name of the locale>
#include <shampoo/shampoo.h>
#include <sys/wait.h>
#include <unistd.h>

#include <clocale>
#include <cmath>
#include <cstring>
#include <locale>
#include <stdexcept>
#include <string>

#include "tests/embed/require.h"
#include "tests/embed/trainer.h"

namespace {

class Transcript {
 public:
  void Add(const char* what, const std::string& text) { text_ += std::string(what) + ": " + text + "\n"; }
  void AddStatus(const char* what, shampoo_status status) {
    Add(what, status == SHAMPOO_OK ? "ok" : std::string(shampoo_status_name(status)) + ", " + shampoo_last_error());
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void AddConfig(Transcript* out) {
  shampoo_config* config = nullptr;
  out->AddStatus("create", shampoo_config_create(&config));
  for (int32_t i = 0; i < shampoo_config_key_count(); ++i) {
    shampoo_key_info info = SHAMPOO_KEY_INFO_INIT;
    out->AddStatus("describe", shampoo_config_describe_key(i, &info));
    out->Add(info.name,
             std::string(info.default_value) + " in " + info.range + "; " + shampoo_config_get(config, info.name));
  }
  for (const char* text :
       {"0.125", "0,125", "1e-3", "1,5e-3", "1.000", "1.000,5", " 2.5 ", "1e400", "-0.5", "12345678.25"}) {
    out->AddStatus(text, shampoo_config_set_str(config, "lr", text));
    out->Add("lr", shampoo_config_get(config, "lr"));
  }
  for (const double value : {0.1, 1e-7, 1.0 / 3, 123456.789, 1e22, -2.5, 1234567.0}) {
    out->AddStatus("set_f64", shampoo_config_set_f64(config, "lr", value));
    out->Add("lr", shampoo_config_get(config, "lr"));
    out->AddStatus("beta1", shampoo_config_set_f64(config, "beta1", value));
  }
  for (const int64_t value : {int64_t{1000000}, int64_t{-1000000}}) {
    out->AddStatus("set_i64", shampoo_config_set_i64(config, "max_preconditioner_dim", value));
    out->AddStatus("set_i64", shampoo_config_set_i64(config, "lr", value));
    out->Add("max_preconditioner_dim", shampoo_config_get(config, "max_preconditioner_dim"));
  }
  out->AddStatus("list", shampoo_config_set_str(config, "inverse_root_override", "0,1000,4"));
  out->Add("list", shampoo_config_get(config, "inverse_root_override"));
  shampoo_config_destroy(config);
}

void AddErrors(Transcript* out) {
  shampoo_plan_desc plan_desc = SHAMPOO_PLAN_DESC_INIT;
  shampoo_config* config = nullptr;
  shampoo_plan* plan = nullptr;
  shampoo_optimizer* optimizer = nullptr;
  shampoo_config_create(&config);
  plan_desc.threads = 1234567;
  out->AddStatus("threads", shampoo_plan_create(&plan, config, &plan_desc));
  plan_desc.threads = 1;
  out->AddStatus("plan", shampoo_plan_create(&plan, config, &plan_desc));
  shampoo_param_desc param = SHAMPOO_PARAM_DESC_INIT;
  param.name = "weight";
  param.ndim = 1;
  param.shape[0] = 1500;
  param.group = 1234567;
  out->AddStatus("group", shampoo_plan_add_param(plan, &param, nullptr));
  param.group = 0;
  out->AddStatus("param", shampoo_plan_add_param(plan, &param, nullptr));
  out->AddStatus("finish", shampoo_plan_finish(plan));
  shampoo_block_info block = SHAMPOO_BLOCK_INFO_INIT;
  out->AddStatus("block", shampoo_plan_block(plan, 1234567, &block));
  shampoo_optimizer_desc optimizer_desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  out->AddStatus("optimizer", shampoo_optimizer_create(&optimizer, plan, &optimizer_desc));
  out->AddStatus("set", shampoo_optimizer_set(optimizer, 0, "beta1", 1234.5));
  std::string weight(1500 * sizeof(float), '\0');
  std::string gradient(weight.size(), '\0');
  const float infinite = HUGE_VALF;
  std::memcpy(gradient.data() + 1234 * sizeof(float), &infinite, sizeof infinite);
  shampoo_buffers buffers = SHAMPOO_BUFFERS_INIT;
  buffers.param = weight.data();
  buffers.grad = gradient.data();
  buffers.out = weight.data();
  out->AddStatus("bind", shampoo_optimizer_bind(optimizer, 0, 1, &buffers));
  out->AddStatus("step", shampoo_optimizer_step(optimizer, nullptr));
  shampoo_optimizer_destroy(optimizer);
  shampoo_plan_destroy(plan);
  shampoo_config_destroy(config);
}

std::string Everything() {
  Transcript out;
  out.Add("build_info", shampoo_build_info());
  AddConfig(&out);
  AddErrors(&out);
  const api functions = api_linked();
  const workload work = workload_default(2);
  out.Add("hash", std::to_string(train(&functions, &work, 4)));
  return out.text();
}

// Calls Everything() in a child process and returns the result. The parent process must not call Everything() before it
// changes its locale, because the library caches some strings, such as ranges of keys.
std::string EverythingInTheCLocale() {
  int channel[2];
  REQUIRE(pipe(channel) == 0, "no pipe");
  const pid_t child = fork();
  REQUIRE(child >= 0, "fork failed");
  if (child == 0) {
    const std::string text = Everything();
    FILE* const to = fdopen(channel[1], "w");
    const bool written = fwrite(text.data(), 1, text.size(), to) == text.size() && fclose(to) == 0;
    _exit(written ? 0 : 1);
  }
  close(channel[1]);
  std::string text;
  char part[4096];
  for (ssize_t n; (n = read(channel[0], part, sizeof part)) > 0;) text.append(part, static_cast<size_t>(n));
  int status = 0;
  waitpid(child, &status, 0);
  REQUIRE(status == 0, "the child in the C locale ended with status %d", status);
  return text;
}

std::string Line(const std::string& text, size_t at) {
  const size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

}  // namespace

int main(int argc, char** argv) {
  REQUIRE(argc == 2, "%d arguments: expected the name of a locale", argc - 1);
  const std::string expected = EverythingInTheCLocale();

  if (std::setlocale(LC_ALL, argv[1]) == nullptr || *std::localeconv()->decimal_point != ',') {
    std::printf("skipped: there is no locale %s with decimal commas\n", argv[1]);
    return SKIPPED;
  }
  std::locale::global(std::locale(argv[1]));
  char printed[16];
  std::snprintf(printed, sizeof printed, "%.1f", 0.5);
  REQUIRE(std::strcmp(printed, "0,5") == 0, "%s", printed);
  const std::string locale_before = std::setlocale(LC_ALL, nullptr);

  const std::string seen = Everything();
  size_t same = 0;
  while (same < seen.size() && same < expected.size() && seen[same] == expected[same]) ++same;
  REQUIRE(seen == expected, "%s\n  in the C locale: %s", Line(seen, same).c_str(), Line(expected, same).c_str());
  REQUIRE(seen.find("lr: 0.125\n") != std::string::npos, "the string 0.125 was not read as 0.125:\n%s", seen.c_str());
  REQUIRE(locale_before == std::setlocale(LC_ALL, nullptr), "the locale is %s: expected %s, as before",
          std::setlocale(LC_ALL, nullptr), locale_before.c_str());
  return 0;
}

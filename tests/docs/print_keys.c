/*
 * Copyright The libshampoo authors.
 * SPDX-License-Identifier: Apache-2.0
 */
/* Prints docs/keys.md, generated from the table of keys in the library. */
#include <shampoo/shampoo.h>
#include <stdio.h>
#include <string.h>

static const char kHead[] =
    "# Keys\n"
    "\n"
    "Every hyper-parameter is a key of a config. `shampoo_config_set_f64` sets keys of type f64,\n"
    "`shampoo_config_set_i64` sets keys of type i64, bool and f64, and `shampoo_config_set_str` sets any key from a\n"
    "string.\n"
    "\n"
    "Keys marked **(o)** apply to the whole optimizer and are read from the config that is passed to\n"
    "`shampoo_plan_create`. Each parameter group has its own values of all other keys. Keys marked **(c)** can be\n"
    "changed between steps with `shampoo_optimizer_set`. Keys without **(c)** are fixed when the config is passed to\n"
    "the plan.\n"
    "\n"
    "The [tuning guide](tuning.md) gives advice on values, and [methods](methods.md) helps to choose `method`. Keys\n"
    "that exist only to reproduce other implementations are in a [separate\n"
    "table](#keys-that-reproduce-other-implementations). This page is generated from the library's table of keys. The\n"
    "test `docs.keys` compares the page with that table, and prints the command that generates the page.\n"
    "\n";
static const char kTableHead[] =
    "| key | type | default | range | meaning |\n"
    "|---|---|---|---|---|\n";
static const char kReplay[] =
    "\n"
    "## Keys that reproduce other implementations\n"
    "\n"
    "These keys exist to replay recorded runs of other implementations. Leave them at their defaults for training.\n"
    "\n";

/* Prints text for a cell of a Markdown table. Escapes bars, which would end the cell. */
static void PrintCell(const char* text) {
  for (; *text != '\0'; ++text) {
    if (*text == '|') putchar('\\');
    putchar(*text);
  }
}

/* Prints the keys whose default changes with a preset or a method, and their new defaults. choice is the key "preset"
 * or "method", and name is its value. Returns 0 if a call fails. */
static int PrintDefaults(const char* choice, const char* name) {
  shampoo_config* config = NULL;
  const int32_t count = shampoo_config_key_count();
  int32_t i;
  printf("\n## %s = %s\n\n| key | default |\n|---|---|\n", choice, name);
  if (shampoo_config_create(&config) != SHAMPOO_OK || shampoo_config_set_str(config, choice, name) != SHAMPOO_OK) {
    return 0;
  }
  for (i = 0; i < count; ++i) {
    shampoo_key_info key = SHAMPOO_KEY_INFO_INIT;
    const char* value = NULL;
    if (shampoo_config_describe_key(i, &key) != SHAMPOO_OK) return 0;
    value = shampoo_config_get(config, key.name);
    if (strcmp(key.name, choice) != 0 && strcmp(value, key.default_value) != 0) {
      printf("| `%s` | %s |\n", key.name, value);
    }
  }
  shampoo_config_destroy(config);
  return 1;
}

/* The presets and methods that change defaults of keys. The page has a section for each. */
static const char* const kOthers[][2] = {{"preset", "shampoo_2024"}, {"preset", "shampoo_pinv"}, {"preset", "adamw"},
                                         {"preset", "soap_h"},       {"preset", "kl_soap_h"},    {"preset", "muon"},
                                         {"preset", "normuon"},      {"preset", "muonh"},        {"preset", "lion"},
                                         {"method", "soap"},         {"method", "kl_shampoo"},   {"method", "muon"},
                                         {"method", "adam"},         {"method", "adagrad"},      {"method", "rmsprop"},
                                         {"method", "sgd"},          {"method", "sign"}};

/* Prints the table of the keys whose shampoo_key_info.for_replay equals the argument. Returns 0 if a call fails. */
static int PrintTable(int for_replay) {
  const int32_t count = shampoo_config_key_count();
  int32_t i;
  fputs(kTableHead, stdout);
  for (i = 0; i < count; ++i) {
    shampoo_key_info key = SHAMPOO_KEY_INFO_INIT;
    if (shampoo_config_describe_key(i, &key) != SHAMPOO_OK) return 0;
    if (key.for_replay != for_replay) continue;
    printf("| `%s`%s%s | %s | ", key.name, key.scope == 0 ? " **(o)**" : "", key.changeable ? " **(c)**" : "",
           key.value_type);
    PrintCell(key.default_value);
    fputs(" | ", stdout);
    PrintCell(key.range);
    fputs(" | ", stdout);
    PrintCell(key.doc);
    fputs(" |\n", stdout);
  }
  return 1;
}

/* Prints the page. Returns 0 if a call fails. */
static int PrintPage(void) {
  int32_t i;
  fputs(kHead, stdout);
  if (!PrintTable(0)) return 0;
  fputs(
      "\nThe preset `shampoo` and the method `shampoo` have the defaults of the table. The other presets and methods\n"
      "differ as follows. The presets `soap` and `kl_shampoo` select the methods of these names.\n",
      stdout);
  for (i = 0; i < (int32_t)(sizeof kOthers / sizeof kOthers[0]); ++i) {
    if (!PrintDefaults(kOthers[i][0], kOthers[i][1])) return 0;
  }
  fputs(kReplay, stdout);
  return PrintTable(1);
}

int main(void) {
  if (!PrintPage()) {
    fprintf(stderr, "%s\n", shampoo_last_error());
    return 1;
  }
  return ferror(stdout) || fflush(stdout) != 0;
}

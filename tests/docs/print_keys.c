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
    "`shampoo_config_set_i64` sets keys of type i64, bool and f64, and `shampoo_config_set_str` sets any key from\n"
    "text.\n"
    "\n"
    "Each parameter group has its own value of a key. Keys marked **(o)** apply to the whole optimizer and are\n"
    "read from the config that is passed to `shampoo_plan_create`. Keys marked **(c)** can be changed between\n"
    "steps with `shampoo_optimizer_set`; all others are fixed when the plan takes the config.\n"
    "\n"
    "The [tuning guide](tuning.md) gives advice on values. This page is generated from the library's table of\n"
    "keys. The test `docs.keys` compares the two and prints the command that generates the page.\n"
    "\n"
    "| key | type | default | range | meaning |\n"
    "|---|---|---|---|---|\n";

/* Escapes bars, which would end the cell of a Markdown table. */
static void PrintCell(const char* text) {
  for (; *text != '\0'; ++text) {
    if (*text == '|') putchar('\\');
    putchar(*text);
  }
}

/* Prints the values of a preset that differ from the defaults of the table. Returns 0 if a call fails. */
static int PrintPreset(const char* preset) {
  shampoo_config* config = NULL;
  const int32_t count = shampoo_config_key_count();
  int32_t i;
  printf("\n## preset = %s\n\n| key | value |\n|---|---|\n", preset);
  if (shampoo_config_create(&config) != SHAMPOO_OK || shampoo_config_set_str(config, "preset", preset) != SHAMPOO_OK) {
    return 0;
  }
  for (i = 0; i < count; ++i) {
    shampoo_key_info key = SHAMPOO_KEY_INFO_INIT;
    const char* value = NULL;
    if (shampoo_config_describe_key(i, &key) != SHAMPOO_OK) return 0;
    value = shampoo_config_get(config, key.name);
    if (strcmp(key.name, "preset") != 0 && strcmp(value, key.default_value) != 0) {
      printf("| `%s` | %s |\n", key.name, value);
    }
  }
  shampoo_config_destroy(config);
  return 1;
}

int main(void) {
  const int32_t count = shampoo_config_key_count();
  int32_t i;
  fputs(kHead, stdout);
  for (i = 0; i < count; ++i) {
    shampoo_key_info key = SHAMPOO_KEY_INFO_INIT;
    if (shampoo_config_describe_key(i, &key) != SHAMPOO_OK) {
      fprintf(stderr, "key %d: %s\n", (int)i, shampoo_last_error());
      return 1;
    }
    printf("| `%s`%s%s | %s | ", key.name, key.scope == 0 ? " **(o)**" : "", key.changeable ? " **(c)**" : "",
           key.value_type);
    PrintCell(key.default_value);
    fputs(" | ", stdout);
    PrintCell(key.range);
    fputs(" | ", stdout);
    PrintCell(key.doc);
    fputs(" |\n", stdout);
  }
  fputs("\nThe preset `shampoo` is the table above. Other presets differ from it in the following keys.\n", stdout);
  if (!PrintPreset("shampoo_2024")) {
    fprintf(stderr, "%s\n", shampoo_last_error());
    return 1;
  }
  return ferror(stdout) || fflush(stdout) != 0;
}

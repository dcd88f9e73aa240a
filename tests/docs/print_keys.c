/*
 * Copyright The libshampoo authors.
 * SPDX-License-Identifier: Apache-2.0
 */
/* Prints docs/keys.md, made from the table of keys that is part of the library. */
#include <shampoo/shampoo.h>
#include <stdio.h>
#include <string.h>

static const char kHead[] =
    "# Keys\n"
    "\n"
    "Every hyper-parameter is a key of a config: `shampoo_config_set_f64` sets keys of type f64,\n"
    "`shampoo_config_set_i64` those of type i64, bool and f64, and `shampoo_config_set_str` any key, as text. A key\n"
    "belongs to a parameter group, so that each group has its own value; a key marked **(o)** belongs to the whole\n"
    "optimizer, and is read from the config that the plan was created with. A key marked **(c)** can be changed\n"
    "between steps by `shampoo_optimizer_set`; the others are fixed when the plan takes the config. For advice on\n"
    "values see the [tuning guide](tuning.md). This page is made from the library's own table: the test `docs.keys`\n"
    "compares the two, and tells how to make the page again.\n"
    "\n"
    "| key | type | default | range | meaning |\n"
    "|---|---|---|---|---|\n";

/* A bar would end the cell of a Markdown table. */
static void PrintCell(const char* text) {
  for (; *text != '\0'; ++text) {
    if (*text == '|') putchar('\\');
    putchar(*text);
  }
}

/* What a preset sets apart from the defaults of the table. */
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
  fputs("\nThe preset `shampoo` is the table above. All other presets differ from it in the following keys.\n", stdout);
  if (!PrintPreset("shampoo_2024")) {
    fprintf(stderr, "%s\n", shampoo_last_error());
    return 1;
  }
  return ferror(stdout) || fflush(stdout) != 0;
}

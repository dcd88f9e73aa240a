/*
 * Copyright The libshampoo authors.
 * SPDX-License-Identifier: Apache-2.0
 */
/* Prints docs/keys.md, made from the table of keys that is part of the library. */
#include <shampoo/shampoo.h>
#include <stdio.h>

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
  return ferror(stdout) || fflush(stdout) != 0;
}

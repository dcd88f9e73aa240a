// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "status.h"

void settings_add(Settings* settings, const char* text) {
  const size_t size = strlen(text) + 1;
  if (settings->count == kMaxSettings)
    fail("too many settings of libshampoo; expected at most %d. Use --set less often", kMaxSettings);
  settings->texts[settings->count] = allocate(size, 1);
  memcpy(settings->texts[settings->count++], text, size);
}

void settings_put_first(Settings* settings, const char* key, double value) {
  char text[128];
  snprintf(text, sizeof text, "%s=%.17g", key, value);
  settings_add(settings, text);
  char* const last = settings->texts[settings->count - 1];
  memmove(settings->texts + 1, settings->texts, (size_t)(settings->count - 1) * sizeof last);
  settings->texts[0] = last;
}

static void take(void* settings, const char* text) { settings_add(settings, text); }

Option settings_option(Settings* settings) {
  return option_call("--set", "KEY=VALUE", take, settings,
                     "sets a hyper-parameter of libshampoo (docs/keys.md lists them); may be repeated");
}

void settings_free(Settings* settings) {
  for (int i = 0; i < settings->count; ++i) free(settings->texts[i]);
}

static void apply(const char* setting, shampoo_config* config) {
  char key[64];
  const char* equals = strchr(setting, '=');
  if (equals == NULL || (size_t)(equals - setting) >= sizeof key)
    fail("--set \"%s\": expected KEY=VALUE, with a key of docs/keys.md", setting);
  memcpy(key, setting, (size_t)(equals - setting));
  key[equals - setting] = '\0';
  check(shampoo_config_set_str(config, key, equals + 1), setting);
}

void settings_apply(const Settings* settings, shampoo_config* config) {
  for (int i = 0; i < settings->count; ++i) apply(settings->texts[i], config);
}

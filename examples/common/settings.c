// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "status.h"

// Room for a text of so many characters.
static char* add(Settings* settings, size_t length) {
  if (settings->count == kMaxSettings) fail("more than %d settings of libshampoo", kMaxSettings);
  return settings->texts[settings->count++] = allocate(length + 1, 1);
}

void settings_add(Settings* settings, const char* text) {
  const size_t length = strlen(text);
  memcpy(add(settings, length), text, length);
}

void settings_add_pair(Settings* settings, const char* key, const char* value) {
  const size_t length = strlen(key) + 1 + strlen(value);
  snprintf(add(settings, length), length + 1, "%s=%s", key, value);
}

void settings_free(Settings* settings) {
  for (int i = 0; i < settings->count; ++i) free(settings->texts[i]);
}

static void apply(const char* setting, shampoo_config* config) {
  char key[64];
  const char* equals = strchr(setting, '=');
  if (equals == NULL || (size_t)(equals - setting) >= sizeof key) fail("\"%s\" is not of the form key=value", setting);
  memcpy(key, setting, (size_t)(equals - setting));
  key[equals - setting] = '\0';
  check(shampoo_config_set_str(config, key, equals + 1), setting);
}

void settings_apply(const Settings* settings, shampoo_config* config) {
  for (int i = 0; i < settings->count; ++i) apply(settings->texts[i], config);
}

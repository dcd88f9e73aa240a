// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Hyper-parameters of libshampoo as strings "key=value". docs/keys.md lists the keys. Settings are applied in order: a
// later setting of a key replaces an earlier one.
#ifndef EXAMPLES_SETTINGS_H
#define EXAMPLES_SETTINGS_H

#include <shampoo/shampoo.h>

#include "command_line.h"

enum { kMaxSettings = 64 };

typedef struct {
  int count;
  char* texts[kMaxSettings];
} Settings;

// Appends a copy of the string `text`, "key=value".
void settings_add(Settings* settings, const char* text);
// Inserts a setting before all others, so that the others take precedence.
void settings_put_first(Settings* settings, const char* key, double value);
// Returns the command-line option --set KEY=VALUE, which appends a setting.
Option settings_option(Settings* settings);
void settings_free(Settings* settings);

// Applies all settings to a config. Exits with an error if libshampoo rejects a setting.
void settings_apply(const Settings* settings, shampoo_config* config);

#endif

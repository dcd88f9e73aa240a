// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Hyper-parameters of libshampoo as texts "key=value", in the spelling of docs/keys.md: defaults of a program first,
// then those of its command line, later ones over earlier ones.
#ifndef EXAMPLES_SETTINGS_H
#define EXAMPLES_SETTINGS_H

#include <shampoo/shampoo.h>

enum { kMaxSettings = 64 };

typedef struct {
  int count;
  char* texts[kMaxSettings];
} Settings;

// Copies the text.
void settings_add(Settings* settings, const char* text);
// The same from its two halves.
void settings_add_pair(Settings* settings, const char* key, const char* value);
void settings_free(Settings* settings);

// Sets them in their order; one that libshampoo refuses ends the program.
void settings_apply(const Settings* settings, shampoo_config* config);

#endif

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "random.h"

enum { kPeople = 3, kNameSize = 16, kLongestStory = 1 << 14 };

typedef struct {
  uint64_t random_state;
  char people[kPeople][kNameSize];
  int apples[kPeople];
  char story[kLongestStory];
  size_t length;
} Writer;

static const char* const kNouns[][2] = {{"cat", "cats"},      {"fox", "foxes"},      {"child", "children"},
                                        {"king", "kings"},    {"wolf", "wolves"},    {"baker", "bakers"},
                                        {"mouse", "mice"},    {"goose", "geese"},    {"sailor", "sailors"},
                                        {"witch", "witches"}, {"miller", "millers"}, {"raven", "ravens"}};
static const char* const kVerbs[][2] = {{"sees", "see"},      {"follows", "follow"}, {"fears", "fear"},
                                        {"greets", "greet"},  {"catches", "catch"},  {"teaches", "teach"},
                                        {"carries", "carry"}, {"forgets", "forget"}, {"loves", "love"}};
static const char* const kPlaces[] = {"river", "old mill", "forest", "market", "tower", "well", "bridge", "harbour"};
static const char* const kNear[] = {"near", "behind", "above", "inside"};
static const char* const kKinds[] = {"small", "grey", "clever", "hungry", "sleepy", "proud", "quiet"};

// Draws a random element of a list. Use PICK at most once in an expression, because compilers may evaluate two calls in
// either order.
#define PICK(writer, list) (list)[random_below(&(writer)->random_state, (int)(sizeof(list) / sizeof((list)[0])))]

static int chance(Writer* w, double share) { return random_uniform(&w->random_state) < share; }

static void write(Writer* w, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int size = vsnprintf(w->story + w->length, kLongestStory - w->length, format, arguments);
  va_end(arguments);
  w->length += (size_t)size;
  if (w->length >= kLongestStory) fail("a story is longer than %d characters", kLongestStory);
}

// Writes a name of two or three syllables. There are so many possible names that the model should learn to copy a
// name from earlier in the story. The last vowel determines the pronoun.
static void invent_name(Writer* w, char* name) {
  const int syllables = 2 + random_below(&w->random_state, 2);
  for (int s = 0; s < syllables; ++s) {
    name[2 * s] = "bdfgklmnprstvz"[random_below(&w->random_state, 14)];
    name[2 * s + 1] = "aeiou"[random_below(&w->random_state, 5)];
  }
  name[0] = (char)(name[0] - 'a' + 'A');
  name[2 * syllables - 1] = chance(w, 0.5) ? 'a' : 'o';
  name[2 * syllables] = '\0';
}

static const char* pronoun(const char* name) { return name[strlen(name) - 1] == 'a' ? "she" : "he"; }

static void place(Writer* w) {
  write(w, "%s the ", PICK(w, kNear));
  write(w, "%s", PICK(w, kPlaces));
}

// Writes a noun phrase and returns 1 if it is plural. The phrase may end in a relative clause, which then separates the
// noun from its verb.
static int noun_phrase(Writer* w, int depth) {
  const int plural = chance(w, 0.5);
  write(w, "the ");
  if (chance(w, 0.4)) write(w, "%s ", PICK(w, kKinds));
  write(w, "%s", PICK(w, kNouns)[plural]);
  if (chance(w, 0.25)) {
    write(w, " ");
    place(w);
  }
  if (depth < 2 && chance(w, 0.3)) {
    write(w, " that ");
    const int inner = noun_phrase(w, depth + 1);
    write(w, " %s", PICK(w, kVerbs)[inner]);
  }
  return plural;
}

static void sentence_of_nouns(Writer* w) {
  const int plural = noun_phrase(w, 0);
  write(w, " %s ", PICK(w, kVerbs)[plural]);
  noun_phrase(w, 1);
}

static void sentence_of_names(Writer* w) {
  const int who = random_below(&w->random_state, kPeople), whom = (who + 1) % kPeople;
  write(w, "%s %s ", w->people[who], PICK(w, kVerbs)[0]);
  noun_phrase(w, 1);
  if (chance(w, 0.6)) {
    write(w, ", and %s %s %s", pronoun(w->people[who]), PICK(w, kVerbs)[0], w->people[whom]);
  }
}

// Writes that somebody finds apples or gives some away. The counts are consistent within a story.
static void sentence_of_numbers(Writer* w) {
  const int who = random_below(&w->random_state, kPeople), whom = (who + 1) % kPeople;
  const char *name = w->people[who], *other = w->people[whom];
  write(w, "%s has %d apples", name, w->apples[who]);
  if (w->apples[who] > 40) {
    const int given = 1 + random_below(&w->random_state, w->apples[who]);
    w->apples[who] -= given;
    w->apples[whom] += given;
    write(w, " and gives %d to %s, so %s keeps %d and %s has %d", given, other, pronoun(name), w->apples[who], other,
          w->apples[whom]);
  } else {
    const int found = 1 + random_below(&w->random_state, 30);
    w->apples[who] += found;
    write(w, " and finds %d, so now %s has %d", found, pronoun(name), w->apples[who]);
  }
}

// Writes nested brackets. The letter after an opening bracket is repeated before its closing bracket.
static void brackets(Writer* w, int depth) {
  const int kind = random_below(&w->random_state, 4), letter = 'a' + random_below(&w->random_state, 26);
  write(w, "%c%c", "([{<"[kind], letter);
  while (depth < 4 && chance(w, 0.5)) brackets(w, depth + 1);
  write(w, "%c%c", letter, ")]}>"[kind]);
}

static void sentence_of_signs(Writer* w) {
  write(w, "%s reads ", w->people[random_below(&w->random_state, kPeople)]);
  brackets(w, 0);
  const int a = random_below(&w->random_state, 100), b = random_below(&w->random_state, 100);
  if (chance(w, 0.5)) write(w, " and %d + %d = %d", a, b, a + b);
}

static void write_story(Writer* w) {
  w->length = 0;
  for (int i = 0; i < kPeople; ++i) {
    invent_name(w, w->people[i]);
    w->apples[i] = random_below(&w->random_state, 50);
  }
  write(w, "%s, %s and %s live ", w->people[0], w->people[1], w->people[2]);
  place(w);
  write(w, ". ");
  const int sentences = 5 + random_below(&w->random_state, 6);
  for (int i = 0; i < sentences; ++i) {
    static void (*const kSentences[])(Writer*) = {sentence_of_nouns, sentence_of_names, sentence_of_numbers,
                                                  sentence_of_signs};
    PICK(w, kSentences)(w);
    write(w, ". ");
  }
  write(w, "So ends the tale of %s, %s and %s.\n", w->people[2], w->people[1], w->people[0]);
}

void text_create(Text* text, size_t count, size_t validation_count) {
  const size_t size = count + validation_count;
  Writer writer = {.random_state = 1};
  int code[256] = {0};
  text->count = count;
  text->validation_count = validation_count;
  text->tokens = allocate(size, 1);
  for (size_t used = 0; used < size; used += writer.length) {
    write_story(&writer);
    if (writer.length > size - used) writer.length = size - used;
    memcpy(text->tokens + used, writer.story, writer.length);
  }
  for (size_t i = 0; i < size; ++i) code[text->tokens[i]] = 1;
  text->vocab = 0;
  for (int c = 0; c < 256; ++c) {
    if (!code[c]) continue;
    text->characters[text->vocab] = (char)c;
    code[c] = text->vocab++;
  }
  for (size_t i = 0; i < size; ++i) text->tokens[i] = (uint8_t)code[text->tokens[i]];
}

void text_free(Text* text) { free(text->tokens); }

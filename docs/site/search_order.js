// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Moves the reference slightly down in search results, and decisions, examples and the changelog further down. If the
// name of a page begins with a name in LATER, the number after this name is subtracted from the page's score. The
// numbers in Scorer are Sphinx's defaults. Scorer is a "var" because searchtools.js declares the same name.
const LATER = [["docs/adr", 10], ["examples", 10], ["CHANGELOG", 10], ["reference", 1]];
var Scorer = {
  score: ([docname, , , , score]) => score - (LATER.find(([folder]) => docname.startsWith(folder)) || ["", 0])[1],
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

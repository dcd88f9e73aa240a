// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// The order of search results: guides before decisions and examples. The numbers are Sphinx's own defaults. It is a
// "var" because searchtools.js declares the name, too.
var Scorer = {
  score: ([docname, , , , score]) => (/^(docs\/adr|examples|CHANGELOG)/.test(docname) ? score - 10 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

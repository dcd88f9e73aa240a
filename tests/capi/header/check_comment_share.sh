#!/bin/sh
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# check_comment_share.sh HEADER PERCENT: fails if fewer than PERCENT % of the non-blank lines of HEADER are comments.
# A line with both code and a comment counts as code.
set -eu
awk -v least="$2" '
  {
    rest = $0
    code = ""
    touched = inside
    while (rest != "") {
      if (inside) {
        end = index(rest, "*/")
        if (end == 0) break
        rest = substr(rest, end + 2)
        inside = 0
      } else {
        start = index(rest, "/*")
        if (start == 0) { code = code rest; break }
        code = code substr(rest, 1, start - 1)
        rest = substr(rest, start + 2)
        inside = 1
        touched = 1
      }
    }
    if ($0 ~ /^[ \t]*$/) next
    if (code ~ /[^ \t]/ || !touched) ++code_lines; else ++comment_lines
  }
  END {
    all = comment_lines + code_lines
    if (all == 0) { print FILENAME ": no lines"; exit 1 }
    share = 100 * comment_lines / all
    printf "%s: %d of %d lines are comments: %.1f %%, at least %d %% expected\n", FILENAME, comment_lines, all, share, least
    exit share < least
  }' "$1"

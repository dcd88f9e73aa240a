#!/bin/sh
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# check_function_comments.sh COMPILER HEADER [FUNCTIONS]: the comment right above every function of the header states since
# when it exists, whether it blocks, which thread rule holds, what it returns, and every parameter that it has. FUNCTIONS: the
# functions of a header that includes another one.
set -eu
export LC_ALL=C
functions=${3:-$(sh "$(dirname "$0")/list_declared.sh" "$1" "$2" | tr '\n' ' ')}
test -n "$functions"
awk -v functions="$functions" '
  function lacks(what) { print name ": its comment lacks " what; ++lacking }
  BEGIN { total = split(functions, names, " "); for (i = 1; i <= total; ++i) expected[names[i]] = 1 }
  !inside && /^[ \t]*\/\*/ { comment = ""; inside = 1 }
  inside { comment = comment $0 "\n"; if (/\*\/[ \t]*$/) inside = 0; next }
  /^[ \t]*$/ || /^#/ { comment = ""; next }
  /\{[ \t]*$/ { declaration = ""; next }
  {
    declaration = declaration " " $0
    if (!/;[ \t]*$/) next
    if (match(declaration, /shampoo_[a-z0-9_]+\(/)) {
      name = substr(declaration, RSTART, RLENGTH - 1)
      arguments = substr(declaration, RSTART + RLENGTH)
      if (name in expected) {
        ++seen
        if (comment !~ /@since [0-9]/) lacks("@since")
        if (comment !~ /Blocks: /) lacks("\"Blocks:\"")
        if (comment !~ /Threads: (any|config|plan|optimizer)[.,; ]/) lacks("\"Threads:\" with one of the four rules")
        if (declaration !~ /^ void / && comment !~ /@(return|retval) /) lacks("@return or @retval")
        if (declaration ~ /^ shampoo_status / && comment !~ /@retval SHAMPOO_OK /) lacks("@retval SHAMPOO_OK")
        sub(/\);.*/, "", arguments)
        count = split(arguments, argument, ",")
        for (i = 1; i <= count; ++i) {
          if (argument[i] == "void") continue
          match(argument[i], /[a-z0-9_]+$/)
          parameter = substr(argument[i], RSTART)
          if (comment !~ ("@param " parameter " ")) lacks("@param " parameter)
        }
      }
    }
    comment = ""
    declaration = ""
  }
  END {
    if (seen != total) { print "found " seen + 0 " declarations of " total " functions"; exit 1 }
    exit lacking > 0
  }' "$2"

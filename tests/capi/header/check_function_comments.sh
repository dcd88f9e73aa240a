#!/bin/sh
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# check_function_comments.sh COMPILER HEADER [FUNCTIONS]: checks the comments above the declarations of functions in
# HEADER. Each comment must begin with a verb in the third person and describe every parameter. If the function returns
# a value that is not a status, the comment must also describe the result. FUNCTIONS is one argument: the names of the
# functions to check, separated by spaces. By default, the script checks all functions that list_declared.sh prints.
set -eu
export LC_ALL=C
functions=${3:-$(sh "$(dirname "$0")/list_declared.sh" "$1" "$2" | tr '\n' ' ')}
test -n "$functions"
awk -v functions="$functions" '
  function lacks(what) { print name ": its comment lacks " what; ++lacking }
  BEGIN { total = split(functions, names, " "); for (i = 1; i <= total; ++i) expected[names[i]] = 1 }
  !inside && /^[ \t]*\/\*/ { comment = ""; inside = 1 }
  inside { comment = comment $0 "\n"; if (/\*\/[ \t]*$/) inside = 0; next }
  /^[ \t]*$/ || /^#/ { comment = ""; declaration = ""; next }
  /^extern / { next }
  /\{[ \t]*$/ { declaration = ""; body = 1; next }
  body { if (/^}/) { body = 0; comment = "" } next }
  {
    declaration = declaration " " $0
    if (!/;[ \t]*$/) next
    if (match(declaration, /shampoo_[a-z0-9_]+\(/)) {
      name = substr(declaration, RSTART, RLENGTH - 1)
      arguments = substr(declaration, RSTART + RLENGTH)
      if (name in expected) {
        ++seen
        if (comment !~ /^\/\*\*\n \* [A-Z][a-z]+s [a-zA-Z]/) lacks("a verb in the third person as its first word")
        if (declaration !~ /^ (void|shampoo_status) / && comment !~ /@return /) lacks("@return")
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
    if (seen != total) { print "found " seen + 0 " declarations; expected " total ", one for each function"; exit 1 }
    exit lacking > 0
  }' "$2"

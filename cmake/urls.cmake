# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# Where the project is published. Both are placeholders: replace them, and the test style.urls names the files that repeat
# them.
set(SHAMPOO_URL https://example.org/libshampoo)
set(SHAMPOO_ISSUES_URL https://example.org/libshampoo/issues)

# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# Where the project is published. Both URLs are placeholders. After you replace them, the test style.urls lists the
# files in which you must replace the URLs, too.
set(SHAMPOO_URL https://example.org/libshampoo)
set(SHAMPOO_ISSUES_URL https://example.org/libshampoo/issues)

/* Copyright The libshampoo authors. */
/* SPDX-License-Identifier: Apache-2.0 */
/* Includes api.h, which declares the table of all functions, before any other header. The tests compile this file as
 * every documented version of C and C++. */
#include <shampoo/api.h>
/* The header is included twice, as happens in larger programs. */
#include <shampoo/api.h>

int capi_header_has_step(shampoo_get_api_function get_api);
int capi_header_has_step(shampoo_get_api_function get_api) {
  const shampoo_api* const api = get_api == NULL ? shampoo_get_api() : get_api();
  return SHAMPOO_API_HAS(api, optimizer_step) && api->version() > 0;
}

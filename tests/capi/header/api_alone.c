/* Copyright The libshampoo authors. */
/* SPDX-License-Identifier: Apache-2.0 */
/* The header of the table with nothing before it, compiled as every C and C++ that it promises. */
#include <shampoo/api.h>
/* Twice, as in every larger program. */
#include <shampoo/api.h>

int capi_header_has_step(shampoo_get_api_function get_api);
int capi_header_has_step(shampoo_get_api_function get_api) {
  const shampoo_api* const api = get_api == NULL ? shampoo_get_api() : get_api();
  return SHAMPOO_API_HAS(api, optimizer_step) && api->version() > 0;
}

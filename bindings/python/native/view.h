// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#ifndef SHAMPOO_PYTHON_VIEW_H
#define SHAMPOO_PYTHON_VIEW_H

#include "dlpack.h"
#include "native.h"

// An array of the caller, as the library needs to know it. While it lives, so does the memory.
struct View {
  PyObject_HEAD void* data;
  int64_t shape[8];
  int64_t strides[8];  // in bytes
  int32_t ndim;
  int32_t dtype;
  int32_t device_type;
  int32_t device_id;
  bool readonly;
  bool dense;
  // What keeps the memory: the array and its capsule, or what DLPack handed over, or memory that malloc returned.
  PyObject* array;
  PyObject* capsule;
  dlpack::Managed* managed;
  dlpack::ManagedVersioned* versioned;
  void* copied;
};

inline int ElementSize(int32_t dtype) { return dtype == SHAMPOO_F64 ? 8 : dtype == SHAMPOO_F32 ? 4 : 2; }

// Copies the elements of a view on the CPU to target, in row-major order. Needs no GIL.
void CopyElements(const View& view, char* target);

// Fills a view that is all 0 but for its head; what: how messages name the array. False: an exception is set.
bool ReadArray(View* view, PyObject* array, const char* what, PyObject* stream);
// Lets go of the memory.
void Release(View* view);

#endif  // SHAMPOO_PYTHON_VIEW_H

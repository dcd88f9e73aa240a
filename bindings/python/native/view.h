// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#ifndef SHAMPOO_PYTHON_VIEW_H
#define SHAMPOO_PYTHON_VIEW_H

#include "dlpack.h"
#include "native.h"

// A Python object that describes an array of the caller (memory, shape, dtype). It keeps the memory of the array alive.
struct View {
  PyObject_HEAD void* data;
  int64_t shape[8];
  int64_t strides[8];  // strides in bytes
  int32_t ndim;
  int32_t dtype;
  int32_t device_type;
  int32_t device_id;
  bool readonly;
  bool dense;  // whether the array is row-major without gaps
  // Owners of the memory: `array` and `capsule` for NumPy, `managed` or `versioned` for DLPack, and `copied` (from
  // malloc) for a copy of an array. The pointers that are not used are NULL.
  PyObject* array;
  PyObject* capsule;
  dlpack::Managed* managed;
  dlpack::ManagedVersioned* versioned;
  void* copied;
};

inline int ElementSize(int32_t dtype) { return dtype == SHAMPOO_F64 ? 8 : dtype == SHAMPOO_F32 ? 4 : 2; }

// Copies the elements of a view on the CPU to target, in row-major order. Does not need the GIL.
void CopyElements(const View& view, char* target);

// Fills a new view from an array. `what` is the name of the array in error messages. stream is passed to __dlpack__ if
// the array is on CUDA. On failure, sets an exception and returns false.
bool ReadArray(View* view, PyObject* array, const char* what, PyObject* stream);
// Releases the memory that a view keeps alive.
void Release(View* view);

#endif  // SHAMPOO_PYTHON_VIEW_H

/*
 * Copyright The libshampoo authors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Structs and constants of two binary interfaces to the memory of arrays. Neither interface changes within a major
 * version. This file replaces their headers, for these reasons:
 *
 * - DLPack (https://dmlc.github.io/dlpack): the header in Debian's package has no flag for read-only tensors.
 * - NumPy's array interface: with NumPy's header, NumPy would be a build requirement.
 */
#ifndef SHAMPOO_PYTHON_DLPACK_H
#define SHAMPOO_PYTHON_DLPACK_H

#include <Python.h>
#include <stdint.h>

namespace dlpack {

enum DeviceType : int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3 };
enum TypeCode : uint8_t { kFloat = 2, kBfloat = 4 };
enum Flags : uint64_t { kReadOnly = 1 };

struct Device {
  int32_t type;
  int32_t id;
};

struct DataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

// strides is in elements. If it is NULL, the tensor is dense.
struct Tensor {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};

// Contents of a capsule named "dltensor".
struct Managed {
  Tensor tensor;
  void* context;
  void (*deleter)(Managed* self);
};

// Contents of a capsule named "dltensor_versioned". All versions 1.x have this layout.
struct ManagedVersioned {
  uint32_t major;
  uint32_t minor;
  void* context;
  void (*deleter)(ManagedVersioned* self);
  uint64_t flags;
  Tensor tensor;
};

}  // namespace dlpack

namespace numpy {

enum Flags : int { kSwappedNot = 0x200, kWriteable = 0x400 };

// Contents of the capsule in an array's attribute __array_struct__. strides is in bytes.
struct Interface {
  int two;
  int ndim;
  char kind;
  int item_size;
  int flags;
  Py_intptr_t* shape;
  Py_intptr_t* strides;
  void* data;
  PyObject* description;
};

}  // namespace numpy

#endif  // SHAMPOO_PYTHON_DLPACK_H

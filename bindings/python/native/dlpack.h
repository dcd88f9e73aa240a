/*
 * Copyright The libshampoo authors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What is read of arrays of other packages. These structs are an interface between binaries, which does not change
 * within a major version: DLPack (https://dmlc.github.io/dlpack), of which no package of PyPI has the header and
 * Debian's is older than read-only tensors, and NumPy's array interface, whose header needs NumPy to compile.
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

// strides: in elements; NULL of a dense one.
struct Tensor {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};

// In a capsule "dltensor".
struct Managed {
  Tensor tensor;
  void* context;
  void (*deleter)(Managed* self);
};

// In a capsule "dltensor_versioned"; the layout holds for all of major version 1.
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

// In the capsule __array_struct__. strides: in bytes.
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

/*
 * Copyright The libshampoo authors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The parts of two binary interfaces that this module reads. They do not change within a major version. They are
 * declared here, so that the build does not need the headers of DLPack and NumPy:
 *
 * - DLPack (https://dmlc.github.io/dlpack). The header in Debian's package has no flag for read-only tensors.
 * - NumPy's array interface. With NumPy's header, NumPy would be a build requirement.
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

// strides are in elements, and NULL for a dense tensor.
struct Tensor {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};

// Contents of a capsule "dltensor".
struct Managed {
  Tensor tensor;
  void* context;
  void (*deleter)(Managed* self);
};

// Contents of a capsule "dltensor_versioned", with the layout of all versions 1.x.
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

// Contents of the capsule __array_struct__. strides are in bytes.
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

// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Fills a View from an array of NumPy, or from an array that another package exports with DLPack.
#include <stdlib.h>
#include <string.h>

#include "view.h"

namespace {

constexpr const char* kUnversioned = "dltensor";
constexpr const char* kVersioned = "dltensor_versioned";

int32_t FloatOfBytes(int bytes) {
  return bytes == 4 ? SHAMPOO_F32 : bytes == 8 ? SHAMPOO_F64 : bytes == 2 ? SHAMPOO_F16 : 0;
}

// Raises ValueError for an unsupported dtype. `text` is the dtype or its name. Releases the reference to `text`.
bool WrongDtype(PyObject* text, const char* what) {
  if (text != nullptr) {
    PyErr_Format(PyExc_ValueError, "%s: dtype %S; expected float32, float64, float16 or bfloat16", what, text);
  }
  Py_XDECREF(text);
  return false;
}

PyObject* NameOf(dlpack::DataType dtype) {
  static const char* const kinds[] = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
  const char* const kind = dtype.code < sizeof kinds / sizeof kinds[0] ? kinds[dtype.code] : "unknown";
  return PyUnicode_FromFormat(dtype.lanes == 1 ? "%s%d" : "%s%dx%d", kind, dtype.bits, dtype.lanes);
}

// Returns whether the dtype is bfloat16 of ml_dtypes, which NumPy reports as a void type.
bool IsBfloat16(PyObject* array) {
  PyObject* const dtype = PyObject_GetAttrString(array, "dtype");
  PyObject* const name = dtype != nullptr ? PyObject_Str(dtype) : nullptr;
  const bool is = name != nullptr && PyUnicode_CompareWithASCIIString(name, "bfloat16") == 0;
  Py_XDECREF(name);
  Py_XDECREF(dtype);
  PyErr_Clear();
  return is;
}

template <typename Number>
bool ReadShape(View* view, const char* what, int ndim, const Number* shape) {
  if (ndim > 8) {
    PyErr_Format(PyExc_ValueError, "%s: %d dims; expected at most 8", what, ndim);
    return false;
  }
  view->ndim = ndim;
  for (int k = 0; k < ndim; ++k) view->shape[k] = shape[k];
  return true;
}

// Stores the strides in bytes, and whether the array is dense (row-major without gaps). If strides is NULL, the array
// is dense. Otherwise the stride of dim k is strides[k] * unit bytes.
template <typename Number>
void ReadStrides(View* view, const Number* strides, int64_t unit) {
  int64_t expected = ElementSize(view->dtype);
  bool is_empty = false;
  view->dense = true;
  for (int k = view->ndim - 1; k >= 0; --k) {
    view->strides[k] = strides != nullptr ? strides[k] * unit : expected;
    if (view->shape[k] > 1 && view->strides[k] != expected) view->dense = false;
    if (view->shape[k] == 0) is_empty = true;
    expected *= view->shape[k];
  }
  if (is_empty) view->dense = true;
}

bool ReadNumpy(View* view, PyObject* array, PyObject* capsule, const char* what) {
  view->capsule = capsule;
  view->array = Py_NewRef(array);
  const auto* const found = static_cast<const numpy::Interface*>(PyCapsule_GetPointer(capsule, nullptr));
  if (found == nullptr) return false;
  view->dtype = found->kind == 'f' ? FloatOfBytes(found->item_size) : 0;
  if (found->kind == 'V' && found->item_size == 2 && IsBfloat16(array)) view->dtype = SHAMPOO_BF16;
  if (view->dtype == 0) return WrongDtype(PyObject_GetAttrString(array, "dtype"), what);
  if ((found->flags & numpy::kSwappedNot) == 0) {
    PyErr_Format(PyExc_ValueError, "%s: its byte order is not native; convert it to native byte order", what);
    return false;
  }
  if (!ReadShape(view, what, found->ndim, found->shape)) return false;
  view->data = found->data;
  ReadStrides(view, found->strides, 1);
  // NumPy scalars, the only NumPy objects without __dlpack__, export a copy, so writing to it would have no effect.
  view->readonly = (found->flags & numpy::kWriteable) == 0 || PyObject_HasAttrString(array, "__dlpack__") == 0;
  view->device_type = SHAMPOO_CPU;
  return true;
}

// Calls array.__dlpack__. stream is NULL if the device has no streams.
PyObject* Export(PyObject* array, PyObject* stream) {
  PyObject* const method = PyObject_GetAttrString(array, "__dlpack__");
  PyObject* const nothing = method != nullptr ? PyTuple_New(0) : nullptr;
  PyObject* const options =
      nothing != nullptr ? Py_BuildValue("{s(ii)sO}", "max_version", 1, 0, "copy", Py_False) : nullptr;
  PyObject* capsule = nullptr;
  if (options != nullptr && (stream == nullptr || PyDict_SetItemString(options, "stream", stream) == 0)) {
    capsule = PyObject_Call(method, nothing, options);
    if (capsule == nullptr && PyErr_ExceptionMatches(PyExc_TypeError)) {  // older packages do not have these options
      PyErr_Clear();
      PyDict_DelItemString(options, "max_version");
      PyDict_DelItemString(options, "copy");
      capsule = PyObject_Call(method, nothing, options);
    }
  }
  Py_XDECREF(options);
  Py_XDECREF(nothing);
  Py_XDECREF(method);
  return capsule;
}

// Makes the view the owner of the tensor in the capsule, and returns the tensor. On failure, sets an exception and
// returns NULL.
const dlpack::Tensor* Import(View* view, PyObject* capsule, const char* what) {
  if (PyCapsule_IsValid(capsule, kVersioned) != 0) {
    auto* const found = static_cast<dlpack::ManagedVersioned*>(PyCapsule_GetPointer(capsule, kVersioned));
    if (found->major != 1) {
      PyErr_Format(PyExc_ValueError, "%s: DLPack version %u.%u; expected version 1", what, found->major, found->minor);
      return nullptr;
    }
    view->versioned = found;
    view->readonly = (found->flags & dlpack::kReadOnly) != 0;
    return PyCapsule_SetName(capsule, "used_dltensor_versioned") == 0 ? &found->tensor : nullptr;
  }
  if (PyCapsule_IsValid(capsule, kUnversioned) != 0) {
    view->managed = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule, kUnversioned));
    return PyCapsule_SetName(capsule, "used_dltensor") == 0 ? &view->managed->tensor : nullptr;
  }
  PyErr_Format(PyExc_ValueError, "%s: __dlpack__ returned no DLPack tensor, or one that was used before", what);
  return nullptr;
}

bool ReadTensor(View* view, const dlpack::Tensor& tensor, const char* what) {
  if (tensor.dtype.lanes == 1 && tensor.dtype.code == dlpack::kFloat) {
    view->dtype = FloatOfBytes(tensor.dtype.bits / 8);
  } else if (tensor.dtype.lanes == 1 && tensor.dtype.code == dlpack::kBfloat && tensor.dtype.bits == 16) {
    view->dtype = SHAMPOO_BF16;
  }
  if (view->dtype == 0) return WrongDtype(NameOf(tensor.dtype), what);
  if (!ReadShape(view, what, tensor.ndim, tensor.shape)) return false;
  ReadStrides(view, tensor.strides, ElementSize(view->dtype));
  view->data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  view->device_type = tensor.device.type == dlpack::kCudaHost ? static_cast<int32_t>(SHAMPOO_CPU) : tensor.device.type;
  view->device_id = view->device_type == SHAMPOO_CPU ? 0 : tensor.device.id;
  return true;
}

bool IsFromPackage(PyObject* array, const char* package) {
  PyObject* const module = PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(array)), "__module__");
  const char* const name = module != nullptr && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : nullptr;
  const bool is = name != nullptr && strncmp(name, package, strlen(package)) == 0;
  Py_XDECREF(module);
  PyErr_Clear();
  return is;
}

// Returns whether the array is from a package with immutable arrays whose DLPack capsules are not marked as read-only.
bool IsImmutable(PyObject* array) { return IsFromPackage(array, "jax") || IsFromPackage(array, "tensorflow"); }

bool HasValue(PyObject* array, const char* attribute, PyObject* expected) {
  PyObject* const found = PyObject_GetAttrString(array, attribute);
  const bool has = found == expected;
  Py_XDECREF(found);
  PyErr_Clear();
  return has;
}

// Returns a new reference to an object that can export the array. PyTorch and Paddle do not export a tensor that
// requires a gradient, but they export the result of its detach(), which shares the memory of the tensor.
PyObject* Detached(PyObject* array) {
  const bool requires_grad = HasValue(array, "requires_grad", Py_True) || HasValue(array, "stop_gradient", Py_False);
  const bool is = requires_grad && PyObject_HasAttrString(array, "detach") != 0;
  return is ? PyObject_CallMethod(array, "detach", nullptr) : Py_NewRef(array);
}

// Returns whether the array is a PyTorch view whose elements are the negated elements of its memory. DLPack would
// export the memory without the negation.
bool IsNegated(PyObject* array) {
  if (PyObject_HasAttrString(array, "is_neg") == 0) return false;
  PyObject* const found = PyObject_CallMethod(array, "is_neg", nullptr);
  Py_XDECREF(found);
  PyErr_Clear();
  return found == Py_True;
}

// Reads (type, id) from __dlpack_device__. Paddle returns None as the id of the CPU.
bool ReadDevice(PyObject* array, const char* what, int* type, int* id) {
  PyObject* const device = PyObject_CallMethod(array, "__dlpack_device__", nullptr);
  if (device == nullptr) return false;
  PyObject* number = nullptr;
  bool is_read = PyTuple_Check(device) != 0 && PyArg_ParseTuple(device, "iO", type, &number) != 0;
  *id = 0;
  if (is_read && number != Py_None) {
    *id = static_cast<int>(PyLong_AsLong(number));
    is_read = PyErr_Occurred() == nullptr;
  }
  if (!is_read) PyErr_Format(PyExc_TypeError, "%s: __dlpack_device__ returned %R, not two integers", what, device);
  Py_DECREF(device);
  return is_read;
}

bool ReadDlpack(View* view, PyObject* array, const char* what, PyObject* stream) {
  int type = 0, id = 0;
  if (!ReadDevice(array, what, &type, &id)) return false;
  if (type != dlpack::kCpu && type != dlpack::kCuda && type != dlpack::kCudaHost) {
    PyErr_Format(PyExc_ValueError, "%s: on a device of DLPack type %d; expected the CPU or CUDA", what, type);
    return false;
  }
  if (IsNegated(array)) {
    PyErr_Format(PyExc_ValueError, "%s: a negated view; pass tensor.resolve_neg()", what);
    return false;
  }
  PyObject* const detached = Detached(array);
  PyObject* const capsule = detached != nullptr ? Export(detached, type == dlpack::kCuda ? stream : nullptr) : nullptr;
  Py_XDECREF(detached);
  if (capsule == nullptr) return false;
  const dlpack::Tensor* const tensor = Import(view, capsule, what);
  Py_DECREF(capsule);
  if (tensor == nullptr) return false;
  if (IsImmutable(array)) view->readonly = true;
  return ReadTensor(view, *tensor, what);
}

}  // namespace

bool ReadArray(View* view, PyObject* array, const char* what, PyObject* stream) {
  PyObject* const capsule = PyObject_GetAttrString(array, "__array_struct__");
  if (capsule != nullptr) return ReadNumpy(view, array, capsule, what);
  if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) return false;
  PyErr_Clear();
  if (PyObject_HasAttrString(array, "__dlpack__") != 0) return ReadDlpack(view, array, what, stream);
  const char* const type = Py_TYPE(array)->tp_name;
  if (IsFromPackage(array, "tinygrad")) {
    PyErr_Format(PyExc_TypeError, "%s: %.200s of tinygrad: use libshampoo.tinygrad.Shampoo", what, type);
  } else if (PyObject_HasAttrString(array, "assign") != 0 && PyObject_HasAttrString(array, "numpy") != 0) {
    PyErr_Format(PyExc_TypeError,
                 "%s: %.200s gives no access to its memory; pass NumPy arrays, such as array = variable.numpy(), keep "
                 "them as the parameters, and assign them back after each step: variable.assign(array)",
                 what, type);
  } else {
    PyErr_Format(PyExc_TypeError, "%s: %.200s is not an array; expected a NumPy array or an object with __dlpack__",
                 what, type);
  }
  return false;
}

void Release(View* view) {
  if (view->managed != nullptr && view->managed->deleter != nullptr) view->managed->deleter(view->managed);
  if (view->versioned != nullptr && view->versioned->deleter != nullptr) view->versioned->deleter(view->versioned);
  view->managed = nullptr;
  view->versioned = nullptr;
  free(view->copied);
  view->copied = nullptr;
  Py_CLEAR(view->capsule);
  Py_CLEAR(view->array);
}

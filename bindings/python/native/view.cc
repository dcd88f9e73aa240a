// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The Python type View, which checks an array before the library uses its memory.
#include "view.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <structmember.h>

namespace {

PyTypeObject* view_type = nullptr;

const char* NameOf(int32_t dtype) {
  switch (dtype) {
    case SHAMPOO_F32:
      return "float32";
    case SHAMPOO_F64:
      return "float64";
    case SHAMPOO_F16:
      return "float16";
    default:
      return "bfloat16";
  }
}

const char* NameOfDevice(int32_t type) { return type == SHAMPOO_CPU ? "cpu" : "cuda"; }

PyObject* New(PyTypeObject* type, PyObject* arguments, PyObject* options) {
  static const char* names[] = {"array", "what", "stream", nullptr};
  PyObject *array = nullptr, *stream = Py_None;
  const char* what = "array";
  if (PyArg_ParseTupleAndKeywords(arguments, options, "O|sO", const_cast<char**>(names), &array, &what, &stream) == 0) {
    return nullptr;
  }
  auto* const view = reinterpret_cast<View*>(type->tp_alloc(type, 0));
  if (view == nullptr) return nullptr;
  if (!ReadArray(view, array, what, stream)) {
    Py_DECREF(view);
    return nullptr;
  }
  return reinterpret_cast<PyObject*>(view);
}

void Dealloc(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  // Saves the current exception, because Release() may call code of another package (the deleter of a DLPack tensor),
  // which may change the exception.
  PyObject *kind = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&kind, &value, &trace);
  Release(reinterpret_cast<View*>(self));
  PyErr_Restore(kind, value, trace);
  type->tp_free(self);
  Py_DECREF(type);
}

int Traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<View*>(self)->array);
  return 0;
}

PyObject* Shape(PyObject* self, void* /*closure*/) {
  const auto* const view = reinterpret_cast<const View*>(self);
  return ShampooPyTuple(view->shape, view->ndim);
}

PyObject* Pointer(PyObject* self, void* /*closure*/) {
  return PyLong_FromVoidPtr(reinterpret_cast<const View*>(self)->data);
}

int64_t BytesOf(const View& view) {
  int64_t bytes = ElementSize(view.dtype);
  for (int k = 0; k < view.ndim; ++k) bytes *= view.shape[k];
  return bytes;
}

PyObject* Bytes(PyObject* self, void* /*closure*/) {
  return PyLong_FromLongLong(BytesOf(*reinterpret_cast<const View*>(self)));
}

// Roles of an array in a step, as in buffers.py.
enum Role { kParam, kGrad, kOut, kCopy };

bool WrongDtype(const View& view, const char* what, int dtype, int role) {
  static const char* const keywords[] = {nullptr, nullptr, "out_dtype", "copy_dtype"};
  const char* const actual = NameOf(view.dtype);
  const char* const expected = NameOf(dtype);
  if (role == kParam) {
    PyErr_Format(PyExc_ValueError, "%s: dtype %s; expected %s, for which the optimizer was created", what, actual,
                 expected);
  } else if (role == kGrad) {
    PyErr_Format(
        PyExc_ValueError,
        "%s: dtype %s; expected %s, for which the optimizer was created. Create the optimizer with grad_dtype=\"%s\", "
        "or convert the gradient: grad.astype(%s%s)",
        what, actual, expected, actual, dtype == SHAMPOO_BF16 ? "ml_dtypes." : "numpy.", expected);
  } else {
    PyErr_Format(PyExc_ValueError,
                 "%s: dtype %s; expected %s, for which the optimizer was created. Create the optimizer with %s=\"%s\"",
                 what, actual, expected, keywords[role], actual);
  }
  return false;
}

bool NotDense(const View& view, const char* what, int role) {
  if (role == kGrad) {
    PyErr_Format(PyExc_ValueError,
                 "%s: its strides are not those of a row-major array without gaps, and it is on %s: pass a contiguous "
                 "copy, such as tensor.contiguous() or cupy.ascontiguousarray(array)",
                 what, NameOfDevice(view.device_type));
  } else {
    PyErr_Format(
        PyExc_ValueError,
        "%s: its strides are not those of a row-major array without gaps; pass and keep a contiguous array, such "
        "as numpy.ascontiguousarray(array), or tensor.contiguous(memory_format=torch.contiguous_format) in "
        "PyTorch",
        what);
  }
  return false;
}

bool Fits(const View& view, const char* what, int dtype, PyObject* shape, int device_type, int device_id, int role) {
  if (view.dtype != dtype) return WrongDtype(view, what, dtype, role);
  PyObject* const own = ShampooPyTuple(view.shape, view.ndim);
  if (own == nullptr) return false;
  const int same = PyObject_RichCompareBool(own, shape, Py_EQ);
  if (same == 0) PyErr_Format(PyExc_ValueError, "%s: shape %R; expected %R", what, own, shape);
  Py_DECREF(own);
  if (same != 1) return false;
  if (view.device_type != device_type || view.device_id != device_id) {
    PyErr_Format(PyExc_ValueError, "%s: on %s:%d; expected %s:%d, the device of the optimizer", what,
                 NameOfDevice(view.device_type), view.device_id, NameOfDevice(device_type), device_id);
    return false;
  }
  const bool will_be_copied = role == kGrad && view.device_type == SHAMPOO_CPU && !view.dense;
  if (will_be_copied) return true;
  if (!view.dense) return NotDense(view, what, role);
  if ((role == kOut || role == kCopy) && view.readonly) {
    PyErr_Format(PyExc_ValueError, "%s: read-only; expected a writable array", what);
    return false;
  }
  if (reinterpret_cast<uintptr_t>(view.data) % static_cast<uintptr_t>(ElementSize(dtype)) != 0) {
    PyErr_Format(PyExc_ValueError, "%s: its address is not a multiple of %d, the size of an element; pass a copy", what,
                 ElementSize(dtype));
    return false;
  }
  return true;
}

// Copies the elements in row-major order. Returns a view that owns the copy.
PyObject* DenseCopy(const View& view) {
  auto* const copy = reinterpret_cast<View*>(view_type->tp_alloc(view_type, 0));
  if (copy == nullptr) return nullptr;
  copy->data = copy->copied = malloc(static_cast<size_t>(BytesOf(view)));
  if (copy->copied == nullptr) {
    Py_DECREF(copy);
    return PyErr_NoMemory();
  }
  memcpy(copy->shape, view.shape, sizeof copy->shape);
  copy->ndim = view.ndim;
  copy->dtype = view.dtype;
  copy->device_type = SHAMPOO_CPU;
  copy->dense = true;
  Py_BEGIN_ALLOW_THREADS;
  CopyElements(view, static_cast<char*>(copy->copied));
  Py_END_ALLOW_THREADS;
  return reinterpret_cast<PyObject*>(copy);
}

PyObject* Check(PyObject* self, PyObject* arguments) {
  const auto* const view = reinterpret_cast<const View*>(self);
  const char* what = nullptr;
  PyObject* shape = nullptr;
  int dtype = 0, device_type = 0, device_id = 0, role = 0;
  if (PyArg_ParseTuple(arguments, "siO!iii", &what, &dtype, &PyTuple_Type, &shape, &device_type, &device_id, &role) ==
      0) {
    return nullptr;
  }
  if (!Fits(*view, what, dtype, shape, device_type, device_id, role)) return nullptr;
  return view->dense ? Py_NewRef(self) : DenseCopy(*view);
}

PyGetSetDef getters[] = {
    {"shape", Shape, nullptr, "Shape in elements.", nullptr},
    {"pointer", Pointer, nullptr, "Address of the first element.", nullptr},
    {"nbytes", Bytes, nullptr, "Size in bytes, without gaps between elements.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef members[] = {
    {"dtype", T_INT, offsetof(View, dtype), READONLY, "Code of the dtype, such as SHAMPOO_F32."},
    {"device_type", T_INT, offsetof(View, device_type), READONLY, "SHAMPOO_CPU or SHAMPOO_CUDA."},
    {"device_id", T_INT, offsetof(View, device_id), READONLY, "Number of the device."},
    {"readonly", T_BOOL, offsetof(View, readonly), READONLY, "Whether the array is read-only."},
    {"dense", T_BOOL, offsetof(View, dense), READONLY, "Whether the array is row-major without gaps."},
    {nullptr, 0, 0, 0, nullptr},
};

PyMethodDef methods[] = {
    {"check", Check, METH_VARARGS,
     "check(what, dtype, shape, device_type, device_id, role): returns the view to bind.\n\n"
     "role is PARAM, GRAD, OUT or COPY of buffers.py. The result is the view itself or, for a gradient on the CPU that "
     "is not dense, a row-major copy. Raises ValueError if a step cannot use the array."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(New)},
    {Py_tp_dealloc, reinterpret_cast<void*>(Dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(Traverse)},
    {Py_tp_getset, getters},
    {Py_tp_members, members},
    {Py_tp_methods, methods},
    {Py_tp_doc, const_cast<char*>("View(array, what='array', stream=None): a view of the caller's array.\n\n"
                                  "The view keeps the memory alive. 'what' is the name of the array in error messages. "
                                  "stream is passed to __dlpack__ of an array on CUDA.")},
    {0, nullptr},
};

PyType_Spec spec = {"libshampoo._native.View", sizeof(View), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

// Stores the address of the memory of a view. If item is None, stores NULL.
bool AddressOf(PyObject* item, void** address) {
  *address = nullptr;
  if (item == Py_None) return true;
  if (Py_TYPE(item) != view_type) {
    PyErr_Format(PyExc_TypeError, "expected a View or None, not %.200s", Py_TYPE(item)->tp_name);
    return false;
  }
  *address = reinterpret_cast<View*>(item)->data;
  return true;
}

bool FillBuffers(PyObject* item, shampoo_buffers* buffers) {
  if (PyTuple_Check(item) == 0 || PyTuple_GET_SIZE(item) != 4) {
    PyErr_SetString(PyExc_TypeError, "expected tuples (param, grad, out, copy)");
    return false;
  }
  void* address[4];
  for (int k = 0; k < 4; ++k) {
    if (!AddressOf(PyTuple_GET_ITEM(item, k), &address[k])) return false;
  }
  *buffers = SHAMPOO_BUFFERS_INIT;
  buffers->param = address[0], buffers->grad = address[1], buffers->out = address[2], buffers->copy = address[3];
  return true;
}

}  // namespace

int ShampooPyAddView(PyObject* module) {
  if (view_type == nullptr) view_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return view_type != nullptr && PyModule_AddObjectRef(module, "View", reinterpret_cast<PyObject*>(view_type)) == 0;
}

namespace {

// Converts a sequence to an array, which the caller frees. fill(item, element) stores one item, and returns false if it
// has raised an exception.
template <typename Element, typename Fill>
int FillArray(PyObject* object, const char* expected, int32_t* count, Element** array, Fill&& fill) {
  PyObject* const items = PySequence_Fast(object, expected);
  if (items == nullptr) return 0;
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(items);
  auto* const filled = static_cast<Element*>(calloc(static_cast<size_t>(size) + 1, sizeof(Element)));
  bool good = filled != nullptr;
  if (!good) PyErr_NoMemory();
  for (Py_ssize_t i = 0; good && i < size; ++i) good = fill(PySequence_Fast_GET_ITEM(items, i), &filled[i]);
  Py_DECREF(items);
  if (!good) {
    free(filled);
    return 0;
  }
  *count = static_cast<int32_t>(size);
  *array = filled;
  return 1;
}

}  // namespace

int ShampooPyBuffers(PyObject* object, int32_t* count, const shampoo_buffers** buffers) {
  shampoo_buffers* filled = nullptr;
  if (!FillArray(object, "expected a sequence of tuples of views", count, &filled, FillBuffers)) return 0;
  *buffers = filled;
  return 1;
}

int ShampooPyAddresses(PyObject* object, int32_t* count, void*** addresses) {
  return FillArray(object, "expected a sequence of views", count, addresses, AddressOf);
}

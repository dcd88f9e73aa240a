// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "view.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <structmember.h>

namespace {

PyTypeObject* view_type = nullptr;

int ElementSize(int32_t dtype) { return dtype == SHAMPOO_F64 ? 8 : dtype == SHAMPOO_F32 ? 4 : 2; }

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
  // A deleter is code of another package, which may run while an exception is on its way.
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

PyObject* Bytes(PyObject* self, void* /*closure*/) {
  const auto* const view = reinterpret_cast<const View*>(self);
  int64_t bytes = ElementSize(view->dtype);
  for (int k = 0; k < view->ndim; ++k) bytes *= view->shape[k];
  return PyLong_FromLongLong(bytes);
}

// check(what, dtype, shape, device_type, device_id, writable): a ValueError where the array is not that.
PyObject* Check(PyObject* self, PyObject* arguments) {
  const auto* const view = reinterpret_cast<const View*>(self);
  const char* what = nullptr;
  PyObject* shape = nullptr;
  int dtype = 0, device_type = 0, device_id = 0, writable = 0;
  if (PyArg_ParseTuple(arguments, "siO!iip", &what, &dtype, &PyTuple_Type, &shape, &device_type, &device_id,
                       &writable) == 0) {
    return nullptr;
  }
  if (view->dtype != dtype) {
    return PyErr_Format(PyExc_ValueError, "%s: dtype %s, and the optimizer was made for %s", what, NameOf(view->dtype),
                        NameOf(dtype));
  }
  PyObject* const own = ShampooPyTuple(view->shape, view->ndim);
  if (own == nullptr) return nullptr;
  const int same = PyObject_RichCompareBool(own, shape, Py_EQ);
  if (same == 0) PyErr_Format(PyExc_ValueError, "%s: shape %R, and the parameter has %R", what, own, shape);
  Py_DECREF(own);
  if (same != 1) return nullptr;
  if (view->device_type != device_type || view->device_id != device_id) {
    return PyErr_Format(PyExc_ValueError, "%s: on %s:%d, and the optimizer is on %s:%d", what,
                        NameOfDevice(view->device_type), view->device_id, NameOfDevice(device_type), device_id);
  }
  if (!view->dense) {
    return PyErr_Format(PyExc_ValueError,
                        "%s: its strides are not those of a row-major array without gaps: pass a contiguous one", what);
  }
  if (writable != 0 && view->readonly) {
    return PyErr_Format(PyExc_ValueError, "%s: read-only, and a step writes to it", what);
  }
  if (reinterpret_cast<uintptr_t>(view->data) % static_cast<uintptr_t>(ElementSize(dtype)) != 0) {
    return PyErr_Format(PyExc_ValueError, "%s: its address is no multiple of the size of an element", what);
  }
  Py_RETURN_NONE;
}

PyGetSetDef getters[] = {
    {"shape", Shape, nullptr, "Shape in elements.", nullptr},
    {"pointer", Pointer, nullptr, "Address of the first element.", nullptr},
    {"nbytes", Bytes, nullptr, "Bytes of a dense one.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef members[] = {
    {"dtype", T_INT, offsetof(View, dtype), READONLY, "One of the codes SHAMPOO_F32, ..."},
    {"device_type", T_INT, offsetof(View, device_type), READONLY, "SHAMPOO_CPU or SHAMPOO_CUDA."},
    {"device_id", T_INT, offsetof(View, device_id), READONLY, "Which device of that type."},
    {"readonly", T_BOOL, offsetof(View, readonly), READONLY, "Whether it must not be written."},
    {"dense", T_BOOL, offsetof(View, dense), READONLY, "Whether it is row-major without gaps."},
    {nullptr, 0, 0, 0, nullptr},
};

PyMethodDef methods[] = {
    {"check", Check, METH_VARARGS,
     "check(what, dtype, shape, device_type, device_id, writable): ValueError where the array is not that."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(New)},
    {Py_tp_dealloc, reinterpret_cast<void*>(Dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(Traverse)},
    {Py_tp_getset, getters},
    {Py_tp_members, members},
    {Py_tp_methods, methods},
    {Py_tp_doc, const_cast<char*>("View(array, what='array', stream=None): an array of the caller, without a copy.\n\n"
                                  "It keeps the memory alive. what is how messages name it.")},
    {0, nullptr},
};

PyType_Spec spec = {"libshampoo._native.View", sizeof(View), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

// The address of a view; None has none.
bool AddressOf(PyObject* item, void** address) {
  *address = nullptr;
  if (item == Py_None) return true;
  if (Py_TYPE(item) != view_type) {
    PyErr_Format(PyExc_TypeError, "a View or None is expected, not %.200s", Py_TYPE(item)->tp_name);
    return false;
  }
  *address = reinterpret_cast<View*>(item)->data;
  return true;
}

bool FillBuffers(PyObject* item, shampoo_buffers* buffers) {
  if (PyTuple_Check(item) == 0 || PyTuple_GET_SIZE(item) != 4) {
    PyErr_SetString(PyExc_TypeError, "tuples (param, grad, out, copy) are expected");
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

int ShampooPyBuffers(PyObject* object, int32_t* count, const shampoo_buffers** buffers) {
  PyObject* const items = PySequence_Fast(object, "a sequence of tuples of views is expected");
  if (items == nullptr) return 0;
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(items);
  auto* const made = static_cast<shampoo_buffers*>(calloc(static_cast<size_t>(size) + 1, sizeof(shampoo_buffers)));
  bool good = made != nullptr;
  if (!good) PyErr_NoMemory();
  for (Py_ssize_t i = 0; good && i < size; ++i) good = FillBuffers(PySequence_Fast_GET_ITEM(items, i), &made[i]);
  Py_DECREF(items);
  if (!good) {
    free(made);
    return 0;
  }
  *count = static_cast<int32_t>(size);
  *buffers = made;
  return 1;
}

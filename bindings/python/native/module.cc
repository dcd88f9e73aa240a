// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include "native.h"

namespace {

constexpr int kHeaderVersion = SHAMPOO_VERSION_MAJOR * 10000 + SHAMPOO_VERSION_MINOR * 100 + SHAMPOO_VERSION_PATCH;

// The exception that a callback raised on this thread. It is kept until the library call that ran the callback returns.
thread_local PyObject* cause = nullptr;

}  // namespace

void ShampooPyKeepCause() {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (value != nullptr && trace != nullptr) PyException_SetTraceback(value, trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  Py_XSETREF(cause, value);
}

PyObject* ShampooPyTakeCause() {
  PyObject* const taken = cause;
  cause = nullptr;
  return taken;
}

void ShampooPyRestoreCause(PyObject* taken) {
  if (cause == nullptr) {
    cause = taken;
  } else {
    Py_XDECREF(taken);
  }
}

int ShampooPyCheck(shampoo_status status) {
  if (status == SHAMPOO_OK && cause == nullptr) return 1;
  PyObject* const reason = cause;
  cause = nullptr;
  if (status == SHAMPOO_OK) {
    Py_DECREF(reason);
    return 1;
  }
  if (reason != nullptr && PyErr_GivenExceptionMatches(reason, PyExc_Exception) == 0) {
    // KeyboardInterrupt and SystemExit must not become errors that a handler for Exception catches.
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(reason)), reason);
    Py_DECREF(reason);
    return 0;
  }
  // Copy the message before any other code runs, because it is valid only until this thread's next library call.
  PyObject* const text =
      PyUnicode_DecodeUTF8(shampoo_last_error(), static_cast<Py_ssize_t>(strlen(shampoo_last_error())), "replace");
  PyObject* const errors = text != nullptr ? PyImport_ImportModule("libshampoo.errors") : nullptr;
  PyObject* const error =
      errors != nullptr ? PyObject_CallMethod(errors, "from_status", "iO", static_cast<int>(status), text) : nullptr;
  if (error != nullptr) {
    if (reason != nullptr) PyException_SetCause(error, Py_NewRef(reason));
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  }
  Py_XDECREF(error);
  Py_XDECREF(errors);
  Py_XDECREF(text);
  Py_XDECREF(reason);
  return 0;
}

void ShampooPySetStep(int64_t step) {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  PyObject* const number = PyLong_FromLongLong(step);
  if (number != nullptr) PyObject_SetAttrString(value, "step", number);
  Py_XDECREF(number);
  PyErr_Clear();
  PyErr_Restore(type, value, trace);
}

int ShampooPyAddress(PyObject* object, void** address) {
  *address = nullptr;
  if (object == Py_None) return 1;
  *address = PyLong_AsVoidPtr(object);
  return PyErr_Occurred() == nullptr;
}

int ShampooPyShape(PyObject* object, int64_t numbers[8]) {
  PyObject* const items = PySequence_Fast(object, "expected a sequence of integers");
  if (items == nullptr) return 0;
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(items);
  if (count > 8) PyErr_Format(PyExc_ValueError, "%zd dims; expected at most 8", count);
  for (Py_ssize_t k = 0; k < 8; ++k) {
    numbers[k] = k < count && PyErr_Occurred() == nullptr ? PyLong_AsLongLong(PySequence_Fast_GET_ITEM(items, k)) : 0;
  }
  Py_DECREF(items);
  return PyErr_Occurred() == nullptr;
}

PyObject* ShampooPyTuple(const int64_t* numbers, int count) {
  PyObject* const tuple = PyTuple_New(count);
  for (int k = 0; tuple != nullptr && k < count; ++k) {
    PyObject* const number = PyLong_FromLongLong(numbers[k]);
    if (number == nullptr) {
      Py_DECREF(tuple);
      return nullptr;
    }
    PyTuple_SET_ITEM(tuple, k, number);
  }
  return tuple;
}

PyObject* ShampooPyStart(PyObject* /*self*/, PyObject* arguments) {
  PyObject* module = nullptr;
  if (PyArg_ParseTuple(arguments, "O!", &PyModule_Type, &module) == 0) return nullptr;
  const int library = shampoo_version();
  if (library != kHeaderVersion) {
    return PyErr_Format(PyExc_ImportError,
                        "this Python package was compiled for libshampoo %d.%d.%d, but the process has loaded "
                        "libshampoo.so.0 of version %d.%d.%d: install the package and the library in one version",
                        kHeaderVersion / 10000, kHeaderVersion / 100 % 100, kHeaderVersion % 100, library / 10000,
                        library / 100 % 100, library % 100);
  }
  if (ShampooPyAddView(module) == 0) return nullptr;
  Py_RETURN_NONE;
}

PyObject* ShampooPyPreload(PyObject* /*self*/, PyObject* path) {
  PyObject* bytes = nullptr;
  if (PyArg_ParseTuple(path, "O&", PyUnicode_FSConverter, &bytes) == 0) return nullptr;
  // If a library that is loaded later needs the opened library, the dynamic linker finds the opened library by its
  // soname.
  const bool opened = dlopen(PyBytes_AS_STRING(bytes), RTLD_NOW | RTLD_LOCAL) != nullptr;
  Py_DECREF(bytes);
  return PyBool_FromLong(opened);
}

PyObject* ShampooPySameAddress(PyObject* /*self*/, PyObject* pair) {
  Py_buffer first, second;
  if (PyArg_ParseTuple(pair, "y*y*", &first, &second) == 0) return nullptr;
  const bool same = first.buf == second.buf;
  PyBuffer_Release(&first);
  PyBuffer_Release(&second);
  return PyBool_FromLong(same);
}

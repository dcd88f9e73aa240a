/*
 * Copyright The libshampoo authors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * How the types of the public header are passed in Python: a status other than SHAMPOO_OK becomes an exception, an
 * output argument becomes the result, and addresses are integers. Hand-written helpers are in bindings/python/native.
 */
%{
#include "native.h"
%}

%define SHAMPOO_WAITS(function)
%exception function {
  Py_BEGIN_ALLOW_THREADS
  $action
  Py_END_ALLOW_THREADS
}
%enddef

%define SHAMPOO_HANDLE_OUT(type)
%typemap(in, numinputs=0) type** out (type* created = NULL) "$1 = &created;"
%typemap(argout) type** out {
  Py_XDECREF($result);
  $result = SWIG_NewPointerObj(*$1, $*1_descriptor, SWIG_POINTER_OWN);
}
%enddef

/* $disown is nonzero only in destroy functions. There, the typemap clears the pointer in the Python object, so that the
 * object does not destroy the handle again. SWIG replaces `type` in backquotes by a string literal with the type. */
%define SHAMPOO_HANDLE_IN(type)
%typemap(in) type* {
  void* handle = NULL;
  const int status = SWIG_ConvertPtr($input, &handle, $descriptor, $disown);
  if (!SWIG_IsOK(status)) SWIG_exception_fail(SWIG_ArgError(status), "in method '$symname', expected a " `type`);
  if ($disown) SWIG_ConvertPtr($input, NULL, $descriptor, SWIG_POINTER_CLEAR);
  $1 = (type*)handle;
}
%enddef
/* By default, assigning a handle to a field transfers the ownership of the handle to the struct. With this typemap, the
 * Python object that holds the communicator keeps the ownership. */
%typemap(in) shampoo_comm* replica_comm, shampoo_comm* shard_comm {
  void* handle = NULL;
  const int status = SWIG_ConvertPtr($input, &handle, $descriptor, 0);
  if (!SWIG_IsOK(status)) SWIG_exception_fail(SWIG_ArgError(status), "expected a `shampoo_comm *` or None");
  $1 = (shampoo_comm*)handle;
}

%typemap(out) shampoo_status {
  if (!ShampooPyCheck($1)) SWIG_fail;
  $result = Py_NewRef(Py_None);
}

%typemap(out) shampoo_status shampoo_optimizer_status {
  if (!ShampooPyCheck($1)) {
    ShampooPySetStep(*arg3);
    SWIG_fail;
  }
  $result = Py_NewRef(Py_None);
}

%typemap(in, numinputs=0) int32_t* (int32_t number = 0) "$1 = &number;"
%typemap(in, numinputs=0) int64_t* (int64_t number = 0) "$1 = &number;"
%typemap(in, numinputs=0) double* (double number = 0) "$1 = &number;"
%typemap(argout) int32_t* {
  Py_XDECREF($result);
  $result = PyLong_FromLong((long)*$1);
}
%typemap(argout) int64_t* {
  Py_XDECREF($result);
  $result = PyLong_FromLongLong((long long)*$1);
}
%typemap(argout) double* {
  Py_XDECREF($result);
  $result = PyFloat_FromDouble(*$1);
}

/* Addresses are integers; None is NULL. */
%typemap(in) void* {
  if (!ShampooPyAddress($input, (void**)&$1)) SWIG_fail;
}
%typemap(out) void* "$result = PyLong_FromVoidPtr((void*)$1);"
%apply void* { const void* };

/* Reading a shape or strides returns a tuple. Writing accepts a sequence of at most 8 integers, and sets the
 * missing ones to 0. */
%typemap(in) int64_t[8] (int64_t numbers[8]) {
  if (!ShampooPyShape($input, numbers)) SWIG_fail;
  $1 = numbers;
}
%typemap(memberin) int64_t[8] {
  int k;
  for (k = 0; k < 8; ++k) $1[k] = $input[k];
}
%typemap(out) int64_t[8] "$result = ShampooPyTuple($1, 8);"

/* A communicator is passed as an object with the attributes of libshampoo.comm.Communicator, or as the address of a
 * shampoo_comm_ops that C code has filled. */
%typemap(in) const shampoo_comm_ops* ops (shampoo_comm_ops filled) {
  if (!ShampooPyCommOps($input, &filled)) SWIG_fail;
  $1 = &filled;
}
%exception shampoo_comm_from_ops {
  $action
  if (result != SHAMPOO_OK && arg2->release != NULL) arg2->release(arg2->user);
}

/* The callable that receives log messages, or None. */
%typemap(in) (shampoo_log_callback callback, void* user) {
  if (!ShampooPyLog($input, &$1)) SWIG_fail;
  $2 = NULL;
}

/* A sequence of tuples (param, grad, out, copy). Each item of a tuple is None or a view
 * (bindings/python/native/view.h). */
%typemap(in) (int32_t count, const shampoo_buffers* buffers) {
  if (!ShampooPyBuffers($input, &$1, &$2)) SWIG_fail;
}
%typemap(freearg) (int32_t count, const shampoo_buffers* buffers) "free((void*)$2);"

/* A sequence. Each item is None or a view (bindings/python/native/view.h). The call writes to the memory of the
 * views. */
%typemap(in) (int32_t count, void* const* weights) {
  if (!ShampooPyAddresses($input, &$1, (void***)&$2)) SWIG_fail;
}
%typemap(freearg) (int32_t count, void* const* weights) "free((void*)$2);"

/* A sequence of optimizers. */
%typemap(in) (shampoo_optimizer* const* opts, int32_t count) (PyObject* items = NULL) {
  Py_ssize_t i;
  items = PySequence_Fast($input, "expected a sequence of optimizers");
  if (items == NULL) SWIG_fail;
  $2 = (int32_t)PySequence_Fast_GET_SIZE(items);
  $1 = (shampoo_optimizer**)calloc((size_t)$2 + 1, sizeof(shampoo_optimizer*));
  if ($1 == NULL) {
    PyErr_NoMemory();
    SWIG_fail;
  }
  for (i = 0; i < $2; ++i) {
    void* handle = NULL;
    const int status = SWIG_ConvertPtr(PySequence_Fast_GET_ITEM(items, i), &handle, $descriptor(shampoo_optimizer*), 0);
    if (!SWIG_IsOK(status)) SWIG_exception_fail(SWIG_ArgError(status), "expected a sequence of optimizers");
    ((shampoo_optimizer**)$1)[i] = (shampoo_optimizer*)handle;
  }
}
%typemap(freearg) (shampoo_optimizer* const* opts, int32_t count) {
  free((void*)$1);
  Py_XDECREF(items$argnum);
}

/* Hand-written functions. start() is not part of %init, the initialization of the module, because the way to report an
 * error in %init depends on the version of SWIG. */
%native(start) PyObject* ShampooPyStart(PyObject* self, PyObject* module);
%native(preload) PyObject* ShampooPyPreload(PyObject* self, PyObject* path);
%native(same_address) PyObject* ShampooPySameAddress(PyObject* self, PyObject* pair);

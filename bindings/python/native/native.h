/*
 * Copyright The libshampoo authors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Functions for the code that SWIG generates, and declarations that the sources in this folder share. A function that
 * returns int returns 0 if it has set a Python exception, otherwise 1.
 */
#ifndef SHAMPOO_PYTHON_NATIVE_H
#define SHAMPOO_PYTHON_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <shampoo/shampoo.h>

#ifdef __cplusplus
extern "C" {
#endif

/** If status is not SHAMPOO_OK, raises the Python exception for status. If ShampooPyKeepCause() has stored a
 * cause that is not an Exception, such as KeyboardInterrupt, raises the cause instead. Always removes the cause. */
int ShampooPyCheck(shampoo_status status);
/** Takes the current exception and stores it on this thread. If the library call in progress fails, this exception
 * becomes the cause of the call's error. */
void ShampooPyKeepCause(void);
/** Removes and returns the cause that is stored on this thread. Returns NULL if there is none. */
PyObject* ShampooPyTakeCause(void);
/** Stores `taken`, which ShampooPyTakeCause() returned, as the cause again. If a newer cause is already stored, keeps
 * the newer cause and releases the reference to `taken`. */
void ShampooPyRestoreCause(PyObject* taken);

/** Sets the attribute `step` of the current exception. */
void ShampooPySetStep(int64_t step);

/** Converts an integer to an address, and None to NULL. */
int ShampooPyAddress(PyObject* object, void** address);
/** Copies a sequence of at most 8 integers, and sets the remaining numbers to 0. */
int ShampooPyShape(PyObject* object, int64_t numbers[8]);
/** Returns a new tuple of integers. */
PyObject* ShampooPyTuple(const int64_t* numbers, int count);

/** Fills ops. communicator is a communicator in Python, or an integer: the address of a shampoo_comm_ops to copy. In
 * the first case, ops owns a reference to communicator until ops->release is called. */
int ShampooPyCommOps(PyObject* communicator, shampoo_comm_ops* ops);
/** Sets the callable that receives log messages, or removes it if the argument is None. */
int ShampooPyLog(PyObject* callable, shampoo_log_callback* callback);

/** Converts a sequence of tuples (param, grad, out, copy) to an array of buffers. Each item of a tuple is None or a
 * view (view.h). The caller frees the array. */
int ShampooPyBuffers(PyObject* object, int32_t* count, const shampoo_buffers** buffers);
/** Converts a sequence to an array of addresses. Each item is None or a view. The caller frees the array. */
int ShampooPyAddresses(PyObject* object, int32_t* count, void*** addresses);
/** Adds the type View to the module. */
int ShampooPyAddView(PyObject* module);

/** start(module): adds the type View to the module. Raises ImportError if the library has another version than the
 * header. Must be called before all other functions. */
PyObject* ShampooPyStart(PyObject* self, PyObject* module);
/** preload(path): loads a shared library, so that libraries that need it can be loaded. Returns False on failure. */
PyObject* ShampooPyPreload(PyObject* self, PyObject* path);
/** same_address(first, second): returns whether two buffers start at the same byte. */
PyObject* ShampooPySameAddress(PyObject* self, PyObject* pair);

#ifdef __cplusplus
}
#endif

#endif /* SHAMPOO_PYTHON_NATIVE_H */

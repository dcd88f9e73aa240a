/*
 * Copyright The libshampoo authors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Functions for the code that SWIG generates, and declarations that the sources in this folder share. Functions that
 * return int return 0 if they have set a Python exception.
 */
#ifndef SHAMPOO_PYTHON_NATIVE_H
#define SHAMPOO_PYTHON_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <shampoo/shampoo.h>

#ifdef __cplusplus
extern "C" {
#endif

/** If status is an error, raises the exception for it. */
int ShampooPyCheck(shampoo_status status);
/** Takes the current exception and stores it on this thread. If the library call in progress fails, its error has this
 * exception as the cause. */
void ShampooPyKeepCause(void);
/** Removes the stored cause and returns it, or returns NULL. */
PyObject* ShampooPyTakeCause(void);
/** Stores a taken cause again. If a newer cause is stored, releases the reference to the taken one instead. */
void ShampooPyRestoreCause(PyObject* taken);

/** Sets the attribute step of the current exception. */
void ShampooPySetStep(int64_t step);

/** Converts None or an integer to an address. */
int ShampooPyAddress(PyObject* object, void** address);
/** Copies a sequence of at most 8 integers, and sets the remaining numbers to 0. */
int ShampooPyShape(PyObject* object, int64_t numbers[8]);
/** Returns a new tuple of integers. */
PyObject* ShampooPyTuple(const int64_t* numbers, int count);

/** Fills ops from the address of a struct or from a communicator in Python. In the second case, ops owns a reference to
 * the communicator until release is called. */
int ShampooPyCommOps(PyObject* communicator, shampoo_comm_ops* ops);
/** Sets the callable that receives log messages, or removes it if the argument is None. */
int ShampooPyLog(PyObject* callable, shampoo_log_callback* callback);

/** Converts a sequence of tuples (param, grad, out, copy), whose elements are views or None, to an array of buffers.
 * The caller frees the array. */
int ShampooPyBuffers(PyObject* object, int32_t* count, const shampoo_buffers** buffers);
/** Converts a sequence whose elements are views or None to an array of addresses. The caller frees the array. */
int ShampooPyAddresses(PyObject* object, int32_t* count, void*** addresses);
/** Adds the type View to the module. */
int ShampooPyAddView(PyObject* module);

/** start(module): adds types. Raises ImportError if the library has another version than the header. Call it first. */
PyObject* ShampooPyStart(PyObject* self, PyObject* module);
/** preload(path): loads a shared library for libraries that are loaded later. Returns False if it cannot be loaded. */
PyObject* ShampooPyPreload(PyObject* self, PyObject* path);
/** same_address(first, second): returns whether two buffers start at the same byte. */
PyObject* ShampooPySameAddress(PyObject* self, PyObject* pair);

#ifdef __cplusplus
}
#endif

#endif /* SHAMPOO_PYTHON_NATIVE_H */

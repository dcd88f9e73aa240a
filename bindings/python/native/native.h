/*
 * Copyright The libshampoo authors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the code that SWIG makes asks for, and what the sources of this folder share. Functions that return int give 0
 * where a Python exception is set.
 */
#ifndef SHAMPOO_PYTHON_NATIVE_H
#define SHAMPOO_PYTHON_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <shampoo/shampoo.h>

#ifdef __cplusplus
extern "C" {
#endif

/** 0, and an exception, where status is a failure. */
int ShampooPyCheck(shampoo_status status);
/** The exception that a callback left, which the next failure gets as its cause: takes over what is set. */
void ShampooPyKeepCause(void);
/** Takes that exception away, or NULL; and gives it back, where there is none that is newer. */
PyObject* ShampooPyTakeCause(void);
void ShampooPyGiveCause(PyObject* taken);

/** Gives the exception that is set an attribute step. */
void ShampooPyNoteStep(int64_t step);

/** None or an integer. */
int ShampooPyAddress(PyObject* object, void** address);
/** At most 8 integers; 0 behind them. */
int ShampooPyShape(PyObject* object, int64_t numbers[8]);
PyObject* ShampooPyTuple(const int64_t* numbers, int count);

/** Fills ops, which hold the communicator until release. */
int ShampooPyCommOps(PyObject* communicator, shampoo_comm_ops* ops);
/** A callable or None. */
int ShampooPyLog(PyObject* callable, shampoo_log_callback* callback);

/** A new array of buffers, to be freed, of a sequence of tuples of views. */
int ShampooPyBuffers(PyObject* object, int32_t* count, const shampoo_buffers** buffers);
/** Adds the type View. */
int ShampooPyAddView(PyObject* module);

/** start(module): refuses a library of another version than the header, and adds types. Before all else. */
PyObject* ShampooPyStart(PyObject* self, PyObject* module);
/** preload(path): opens a shared library for those that are loaded later. False: it cannot be opened. */
PyObject* ShampooPyPreload(PyObject* self, PyObject* path);
/** same_address(first, second): whether two buffers begin at the same byte. */
PyObject* ShampooPySameAddress(PyObject* self, PyObject* pair);

#ifdef __cplusplus
}
#endif

#endif /* SHAMPOO_PYTHON_NATIVE_H */

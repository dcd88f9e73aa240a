// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "native.h"

namespace {

// What Python says about a communicator; the user of its ops.
struct Communicator {
  PyObject* object;
  int rank;
  int world;
  int device_type;
};

class WithGil {
 public:
  WithGil() : state_(PyGILState_Ensure()) {}
  ~WithGil() { PyGILState_Release(state_); }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  PyGILState_STATE state_;
};

// Memory as the callback sees it: on a device its address, on the host a memoryview that ends with the call.
PyObject* Show(const Communicator& comm, const void* memory, size_t bytes, int flags) {
  if (comm.device_type != SHAMPOO_CPU) return PyLong_FromVoidPtr(const_cast<void*>(memory));
  return PyMemoryView_FromMemory(static_cast<char*>(const_cast<void*>(memory)), static_cast<Py_ssize_t>(bytes), flags);
}

// Ends a memoryview, for nobody may look at the memory after the call; an error that is on its way stays.
void End(PyObject* shown) {
  if (shown == nullptr) return;
  if (PyMemoryView_Check(shown)) {
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    PyObject* const done = PyObject_CallMethod(shown, "release", nullptr);
    Py_XDECREF(done);
    if (type != nullptr) {
      PyErr_Clear();
      PyErr_Restore(type, value, trace);
    }
  }
  Py_DECREF(shown);
}

// 0, or 1 and the exception kept for the failure that the library will report.
int32_t Finish(PyObject* result) {
  Py_XDECREF(result);
  if (PyErr_Occurred() == nullptr) return 0;
  ShampooPyKeepCause();
  return 1;
}

int32_t AllGather(void* user, const void* send, void* recv, size_t bytes_per_rank, void* stream) {
  const auto& comm = *static_cast<const Communicator*>(user);
  const WithGil gil;
  PyObject* const source = Show(comm, send, bytes_per_rank, PyBUF_READ);
  PyObject* const target = Show(comm, recv, bytes_per_rank * static_cast<size_t>(comm.world), PyBUF_WRITE);
  PyObject* result = nullptr;
  if (source != nullptr && target != nullptr) {
    result = comm.device_type == SHAMPOO_CPU
                 ? PyObject_CallMethod(comm.object, "all_gather", "OO", source, target)
                 : PyObject_CallMethod(comm.object, "all_gather", "OOnN", source, target,
                                       static_cast<Py_ssize_t>(bytes_per_rank), PyLong_FromVoidPtr(stream));
  }
  End(source);
  End(target);
  return Finish(result);
}

PyObject* Counts(const size_t* bytes, int world, size_t* sum) {
  PyObject* const list = PyList_New(world);
  *sum = 0;
  for (int r = 0; list != nullptr && r < world; ++r) {
    *sum += bytes[r];
    PyList_SET_ITEM(list, r, PyLong_FromSize_t(bytes[r]));
  }
  return list;
}

int32_t AllToAll(void* user, const void* send, const size_t* send_bytes, void* recv, const size_t* recv_bytes,
                 void* stream) {
  const auto& comm = *static_cast<const Communicator*>(user);
  const WithGil gil;
  size_t sent = 0, received = 0;
  PyObject* const send_counts = Counts(send_bytes, comm.world, &sent);
  PyObject* const recv_counts = Counts(recv_bytes, comm.world, &received);
  PyObject* const source = Show(comm, send, sent, PyBUF_READ);
  PyObject* const target = Show(comm, recv, received, PyBUF_WRITE);
  PyObject* result = nullptr;
  if (send_counts != nullptr && recv_counts != nullptr && source != nullptr && target != nullptr) {
    result = comm.device_type == SHAMPOO_CPU
                 ? PyObject_CallMethod(comm.object, "all_to_all", "OOOO", source, send_counts, target, recv_counts)
                 : PyObject_CallMethod(comm.object, "all_to_all", "OOOON", source, send_counts, target, recv_counts,
                                       PyLong_FromVoidPtr(stream));
  }
  End(source);
  End(target);
  Py_XDECREF(send_counts);
  Py_XDECREF(recv_counts);
  return Finish(result);
}

int32_t AsyncError(void* user) {
  const WithGil gil;
  return Finish(PyObject_CallMethod(static_cast<const Communicator*>(user)->object, "async_error", nullptr));
}

// It follows a failure, whose exception is kept already: one of its own is printed.
void Abort(void* user) {
  const WithGil gil;
  PyObject* const object = static_cast<const Communicator*>(user)->object;
  PyObject* const result = PyObject_CallMethod(object, "abort", nullptr);
  if (result == nullptr) PyErr_WriteUnraisable(object);
  Py_XDECREF(result);
}

void ReleaseCommunicator(void* user) {
  auto* const comm = static_cast<Communicator*>(user);
  if (Py_IsInitialized() != 0) {
    const WithGil gil;
    Py_DECREF(comm->object);
  }
  delete comm;
}

bool ReadInt(PyObject* object, const char* name, int* number) {
  PyObject* const found = PyObject_GetAttrString(object, name);
  if (found == nullptr) return false;
  const long value = PyLong_AsLong(found);
  Py_DECREF(found);
  *number = static_cast<int>(value);
  return PyErr_Occurred() == nullptr;
}

bool Has(PyObject* object, const char* name) {
  PyObject* const found = PyObject_GetAttrString(object, name);
  PyErr_Clear();
  const bool has = found != nullptr && found != Py_None;
  Py_XDECREF(found);
  return has;
}

PyObject* log_callable = nullptr;

void Log(void* /*user*/, int32_t level, const char* message) {
  if (Py_IsInitialized() == 0) return;
  const WithGil gil;
  if (log_callable == nullptr) return;  // taken away meanwhile
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyObject* const callable = Py_NewRef(log_callable);
  PyObject* const result = PyObject_CallFunction(callable, "is", static_cast<int>(level), message);
  if (result == nullptr) PyErr_WriteUnraisable(callable);
  Py_XDECREF(result);
  Py_DECREF(callable);
  PyErr_Restore(type, value, trace);
}

}  // namespace

int ShampooPyCommOps(PyObject* communicator, shampoo_comm_ops* ops) {
  if (Has(communicator, "ops")) {  // a struct that C has filled: its functions are called as they are
    PyObject* const address = PyObject_GetAttrString(communicator, "ops");
    const auto* const filled = static_cast<const shampoo_comm_ops*>(PyLong_AsVoidPtr(address));
    Py_DECREF(address);
    if (filled == nullptr) return 0;
    *ops = *filled;
    return 1;
  }
  auto* const comm = new Communicator{};
  if (!ReadInt(communicator, "rank", &comm->rank) || !ReadInt(communicator, "world", &comm->world) ||
      !ReadInt(communicator, "device_type", &comm->device_type)) {
    delete comm;
    return 0;
  }
  comm->object = Py_NewRef(communicator);
  *ops = SHAMPOO_COMM_OPS_INIT;
  ops->user = comm;
  ops->rank = comm->rank;
  ops->world = comm->world;
  ops->device_type = comm->device_type;
  ops->all_gather = AllGather;
  ops->release = ReleaseCommunicator;
  if (Has(communicator, "all_to_all")) ops->all_to_all = AllToAll;
  if (Has(communicator, "async_error")) ops->async_error = AsyncError;
  if (Has(communicator, "abort")) ops->abort = Abort;
  return 1;
}

int ShampooPyLog(PyObject* callable, shampoo_log_callback* callback) {
  if (callable != Py_None && PyCallable_Check(callable) == 0) {
    PyErr_SetString(PyExc_TypeError, "a callable(level, message) or None is expected");
    return 0;
  }
  *callback = callable == Py_None ? nullptr : Log;
  Py_XSETREF(log_callable, callable == Py_None ? nullptr : Py_NewRef(callable));
  return 1;
}

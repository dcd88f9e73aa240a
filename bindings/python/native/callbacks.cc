// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// C callbacks that call Python code: the methods of a communicator, and the callable that receives log messages.
#include "native.h"

namespace {

// A communicator in Python and its attributes. shampoo_comm_ops.user is the address of this struct.
struct Communicator {
  PyObject* object;
  int rank;
  int world;
  int device_type;
};

class GilGuard {
 public:
  GilGuard() : state_(PyGILState_Ensure()) {}
  ~GilGuard() { PyGILState_Release(state_); }
  GilGuard(const GilGuard&) = delete;
  GilGuard& operator=(const GilGuard&) = delete;

 private:
  PyGILState_STATE state_;
};

// Removes the exception that ShampooPyKeepCause() has stored on this thread. Otherwise, this exception would become
// the cause of errors of library calls that a callback makes. The destructor stores the exception again, unless a newer
// exception has been stored.
class CauseGuard {
 public:
  CauseGuard() : saved_(ShampooPyTakeCause()) {}
  ~CauseGuard() { ShampooPyRestoreCause(saved_); }
  CauseGuard(const CauseGuard&) = delete;
  CauseGuard& operator=(const CauseGuard&) = delete;

 private:
  PyObject* saved_;
};

// A Python object that exports the memory of an exchange as a buffer, and counts the buffers in use.
struct Memory {
  PyObject_HEAD char* data;
  Py_ssize_t bytes;
  Py_ssize_t users;
  int readonly;
};

int GetBuffer(PyObject* self, Py_buffer* buffer, int flags) {
  auto* const memory = reinterpret_cast<Memory*>(self);
  if (PyBuffer_FillInfo(buffer, self, memory->data, memory->bytes, memory->readonly, flags) != 0) return -1;
  ++memory->users;
  return 0;
}

void ReleaseBuffer(PyObject* self, Py_buffer* /*buffer*/) { --reinterpret_cast<Memory*>(self)->users; }

void DeallocMemory(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyType_Slot memory_slots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void*>(GetBuffer)},
    {Py_bf_releasebuffer, reinterpret_cast<void*>(ReleaseBuffer)},
    {Py_tp_dealloc, reinterpret_cast<void*>(DeallocMemory)},
    {0, nullptr},
};

PyType_Spec memory_spec = {"libshampoo._native.Memory", sizeof(Memory), 0, Py_TPFLAGS_DEFAULT, memory_slots};

// Memory that is passed to a method of a communicator. For device memory, the Python object is an int, the address. For
// host memory, the Python object is a memoryview, which is valid only during the call.
class MemoryArgument {
 public:
  MemoryArgument(const Communicator& comm, const void* data, size_t bytes, bool readonly) {
    if (comm.device_type != SHAMPOO_CPU) {
      object_ = PyLong_FromVoidPtr(const_cast<void*>(data));
      return;
    }
    static PyObject* const type = PyType_FromSpec(&memory_spec);
    memory_ = type != nullptr ? PyObject_New(Memory, reinterpret_cast<PyTypeObject*>(type)) : nullptr;
    if (memory_ == nullptr) return;
    memory_->data = static_cast<char*>(const_cast<void*>(data));
    memory_->bytes = static_cast<Py_ssize_t>(bytes);
    memory_->users = 0;
    memory_->readonly = readonly ? 1 : 0;
    object_ = PyMemoryView_FromObject(reinterpret_cast<PyObject*>(memory_));
  }
  MemoryArgument(const MemoryArgument&) = delete;
  MemoryArgument& operator=(const MemoryArgument&) = delete;
  ~MemoryArgument() { Py_XDECREF(reinterpret_cast<PyObject*>(memory_)); }

  PyObject* Object() const { return object_; }

  // Releases the memoryview. Raises BufferError if the Python code has kept a slice of the memoryview or an array that
  // shares its memory, because such objects cannot be released. If an exception is already set, keeps that exception
  // instead.
  void Release(const char* what) {
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    if (memory_ != nullptr && object_ != nullptr) {
      PyObject* const done = PyObject_CallMethod(object_, "release", nullptr);
      Py_XDECREF(done);
      PyErr_Clear();
    }
    Py_CLEAR(object_);
    if (memory_ != nullptr && memory_->users > 0 && type == nullptr) {
      PyErr_Format(PyExc_BufferError,
                   "%s: a slice of this memory, or an array that shares the memory, exists after the call, but the "
                   "memory is valid only during the call; keep a copy instead",
                   what);
      return;
    }
    PyErr_Restore(type, value, trace);
  }

 private:
  Memory* memory_ = nullptr;
  PyObject* object_ = nullptr;
};

// Returns 0 if no exception is set. Otherwise returns 1, and stores the exception as the cause of the error that the
// library call in progress will raise. Releases the reference to result.
int32_t Finish(PyObject* result) {
  Py_XDECREF(result);
  if (PyErr_Occurred() == nullptr) return 0;
  ShampooPyKeepCause();
  return 1;
}

int32_t AllGather(void* user, const void* send, void* recv, size_t bytes_per_rank, void* stream) {
  if (Py_IsInitialized() == 0) return 1;
  const auto& comm = *static_cast<const Communicator*>(user);
  const GilGuard gil;
  const CauseGuard cause_guard;
  MemoryArgument source(comm, send, bytes_per_rank, true);
  MemoryArgument target(comm, recv, bytes_per_rank * static_cast<size_t>(comm.world), false);
  PyObject* result = nullptr;
  if (source.Object() != nullptr && target.Object() != nullptr) {
    result = comm.device_type == SHAMPOO_CPU
                 ? PyObject_CallMethod(comm.object, "all_gather", "OO", source.Object(), target.Object())
                 : PyObject_CallMethod(comm.object, "all_gather", "OOnN", source.Object(), target.Object(),
                                       static_cast<Py_ssize_t>(bytes_per_rank), PyLong_FromVoidPtr(stream));
  }
  source.Release("send");
  target.Release("recv");
  return Finish(result);
}

// Returns a list of the byte counts, and stores their sum.
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
  if (Py_IsInitialized() == 0) return 1;
  const auto& comm = *static_cast<const Communicator*>(user);
  const GilGuard gil;
  const CauseGuard cause_guard;
  size_t sent = 0, received = 0;
  PyObject* const send_counts = Counts(send_bytes, comm.world, &sent);
  PyObject* const recv_counts = Counts(recv_bytes, comm.world, &received);
  MemoryArgument source(comm, send, sent, true);
  MemoryArgument target(comm, recv, received, false);
  PyObject* result = nullptr;
  if (send_counts != nullptr && recv_counts != nullptr && source.Object() != nullptr && target.Object() != nullptr) {
    result = comm.device_type == SHAMPOO_CPU
                 ? PyObject_CallMethod(comm.object, "all_to_all", "OOOO", source.Object(), send_counts, target.Object(),
                                       recv_counts)
                 : PyObject_CallMethod(comm.object, "all_to_all", "OOOON", source.Object(), send_counts,
                                       target.Object(), recv_counts, PyLong_FromVoidPtr(stream));
  }
  source.Release("send");
  target.Release("recv");
  Py_XDECREF(send_counts);
  Py_XDECREF(recv_counts);
  return Finish(result);
}

int32_t AsyncError(void* user) {
  if (Py_IsInitialized() == 0) return 1;
  const GilGuard gil;
  const CauseGuard cause_guard;
  return Finish(PyObject_CallMethod(static_cast<const Communicator*>(user)->object, "async_error", nullptr));
}

// Calls abort() of the communicator. An exception of abort() is only printed, because the exception of the failed
// collective is already stored as the cause.
void Abort(void* user) {
  if (Py_IsInitialized() == 0) return;
  const GilGuard gil;
  const CauseGuard cause_guard;
  PyObject* const object = static_cast<const Communicator*>(user)->object;
  PyObject* const result = PyObject_CallMethod(object, "abort", nullptr);
  if (result == nullptr) PyErr_WriteUnraisable(object);
  Py_XDECREF(result);
}

void ReleaseCommunicator(void* user) {
  auto* const comm = static_cast<Communicator*>(user);
  if (Py_IsInitialized() != 0) {
    const GilGuard gil;
    const CauseGuard cause_guard;
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
  const GilGuard gil;
  if (log_callable == nullptr) return;  // removed by another thread
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
  if (PyLong_Check(communicator) != 0) {  // the address of a struct that C code has filled
    const auto* const filled = static_cast<const shampoo_comm_ops*>(PyLong_AsVoidPtr(communicator));
    if (filled == nullptr) {
      if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_ValueError, "ops is 0: expected the address of a struct");
      return 0;
    }
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
    PyErr_SetString(PyExc_TypeError, "expected a callable(level, message) or None");
    return 0;
  }
  *callback = callable == Py_None ? nullptr : Log;
  Py_XSETREF(log_callable, callable == Py_None ? nullptr : Py_NewRef(callable));
  return 1;
}

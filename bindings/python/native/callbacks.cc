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

// What a callback calls of the library must not take the cause of a failure that is on its way.
class WithoutCause {
 public:
  WithoutCause() : kept_(ShampooPyTakeCause()) {}
  ~WithoutCause() { ShampooPyGiveCause(kept_); }
  WithoutCause(const WithoutCause&) = delete;
  WithoutCause& operator=(const WithoutCause&) = delete;

 private:
  PyObject* kept_;
};

// Memory of an exchange, which gives it to memoryviews and counts those, and what they are cut into.
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

void EndMemory(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyType_Slot memory_slots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void*>(GetBuffer)},
    {Py_bf_releasebuffer, reinterpret_cast<void*>(ReleaseBuffer)},
    {Py_tp_dealloc, reinterpret_cast<void*>(EndMemory)},
    {0, nullptr},
};

PyType_Spec memory_spec = {"libshampoo._native.Memory", sizeof(Memory), 0, Py_TPFLAGS_DEFAULT, memory_slots};

// What a callback is shown: on a device an address, on the host a memoryview, which ends with the call.
class Shown {
 public:
  Shown(const Communicator& comm, const void* data, size_t bytes, bool readonly) {
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
  Shown(const Shown&) = delete;
  Shown& operator=(const Shown&) = delete;
  ~Shown() { Py_XDECREF(reinterpret_cast<PyObject*>(memory_)); }

  PyObject* Object() const { return object_; }

  // Ends the memoryview. What was made of it cannot be ended: an exception, unless one is on its way.
  void End(const char* what) {
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
                   "%s: a slice or an array of this memory was kept, which may be freed after the exchange: copy it",
                   what);
      return;
    }
    PyErr_Restore(type, value, trace);
  }

 private:
  Memory* memory_ = nullptr;
  PyObject* object_ = nullptr;
};

// 0, or 1 and the exception kept for the failure that the library will report.
int32_t Finish(PyObject* result) {
  Py_XDECREF(result);
  if (PyErr_Occurred() == nullptr) return 0;
  ShampooPyKeepCause();
  return 1;
}

int32_t AllGather(void* user, const void* send, void* recv, size_t bytes_per_rank, void* stream) {
  if (Py_IsInitialized() == 0) return 1;
  const auto& comm = *static_cast<const Communicator*>(user);
  const WithGil gil;
  const WithoutCause without;
  Shown source(comm, send, bytes_per_rank, true);
  Shown target(comm, recv, bytes_per_rank * static_cast<size_t>(comm.world), false);
  PyObject* result = nullptr;
  if (source.Object() != nullptr && target.Object() != nullptr) {
    result = comm.device_type == SHAMPOO_CPU
                 ? PyObject_CallMethod(comm.object, "all_gather", "OO", source.Object(), target.Object())
                 : PyObject_CallMethod(comm.object, "all_gather", "OOnN", source.Object(), target.Object(),
                                       static_cast<Py_ssize_t>(bytes_per_rank), PyLong_FromVoidPtr(stream));
  }
  source.End("send");
  target.End("recv");
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
  if (Py_IsInitialized() == 0) return 1;
  const auto& comm = *static_cast<const Communicator*>(user);
  const WithGil gil;
  const WithoutCause without;
  size_t sent = 0, received = 0;
  PyObject* const send_counts = Counts(send_bytes, comm.world, &sent);
  PyObject* const recv_counts = Counts(recv_bytes, comm.world, &received);
  Shown source(comm, send, sent, true);
  Shown target(comm, recv, received, false);
  PyObject* result = nullptr;
  if (send_counts != nullptr && recv_counts != nullptr && source.Object() != nullptr && target.Object() != nullptr) {
    result = comm.device_type == SHAMPOO_CPU
                 ? PyObject_CallMethod(comm.object, "all_to_all", "OOOO", source.Object(), send_counts, target.Object(),
                                       recv_counts)
                 : PyObject_CallMethod(comm.object, "all_to_all", "OOOON", source.Object(), send_counts,
                                       target.Object(), recv_counts, PyLong_FromVoidPtr(stream));
  }
  source.End("send");
  target.End("recv");
  Py_XDECREF(send_counts);
  Py_XDECREF(recv_counts);
  return Finish(result);
}

int32_t AsyncError(void* user) {
  if (Py_IsInitialized() == 0) return 1;
  const WithGil gil;
  const WithoutCause without;
  return Finish(PyObject_CallMethod(static_cast<const Communicator*>(user)->object, "async_error", nullptr));
}

// It follows a failure, whose exception is kept already: one of its own is printed.
void Abort(void* user) {
  if (Py_IsInitialized() == 0) return;
  const WithGil gil;
  const WithoutCause without;
  PyObject* const object = static_cast<const Communicator*>(user)->object;
  PyObject* const result = PyObject_CallMethod(object, "abort", nullptr);
  if (result == nullptr) PyErr_WriteUnraisable(object);
  Py_XDECREF(result);
}

void ReleaseCommunicator(void* user) {
  auto* const comm = static_cast<Communicator*>(user);
  if (Py_IsInitialized() != 0) {
    const WithGil gil;
    const WithoutCause without;
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
  if (PyLong_Check(communicator) != 0) {  // a struct that C has filled: its functions are called as they are
    const auto* const filled = static_cast<const shampoo_comm_ops*>(PyLong_AsVoidPtr(communicator));
    if (filled == nullptr) {
      if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_ValueError, "ops: the address is 0");
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
    PyErr_SetString(PyExc_TypeError, "a callable(level, message) or None is expected");
    return 0;
  }
  *callback = callable == Py_None ? nullptr : Log;
  Py_XSETREF(log_callable, callable == Py_None ? nullptr : Py_NewRef(callable));
  return 1;
}

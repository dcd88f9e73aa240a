/*
 * Copyright The libshampoo authors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * How the types of the public header are passed in Java:
 * - A status other than SHAMPOO_OK becomes an exception.
 * - A handle (a pointer to an object of the library) is a long, and so is an address. Strings are bytes of UTF-8, not
 *   of JNI's modified UTF-8.
 * - An output argument is an array with one element, which is written only if the call succeeds.
 * The generated classes are package-private. SWIG generates C++ code (option -c++), so that the destructors of the
 * variables in typemaps release resources.
 * Hand-written helpers are in bindings/java/native.
 */
%{
#include "native.h"
%}

%pragma(java) moduleclassmodifiers="final class"
%pragma(java) jniclassclassmodifiers="final class"
%pragma(java) jniclasscode=%{
  static {
    Library.load();
  }
%}
%javaconst(1);

/* Java has no global lock that a call would have to release. */
%define SHAMPOO_WAITS(function)
%enddef

/* In Java, a handle is a long, which the class Handle passes to the destroy function. */
%define SHAMPOO_HANDLE_OUT(type)
%typemap(jni) type** out "jlongArray"
%typemap(jtype) type** out "long[]"
%typemap(jstype) type** out "long[]"
%typemap(javain) type** out "$javainput"
%typemap(in) type** out (type* created = NULL) "$1 = &created;"
%typemap(argout) type** out "if (result == SHAMPOO_OK) ShampooJavaSet(jenv, $input, (jlong)*$1);"
%enddef

%define SHAMPOO_HANDLE_IN(type)
%ignore type;
%apply void* { type* };
%apply void* { const type* };
%enddef

/* Addresses are longs; 0 is NULL. */
%typemap(jni) void*, const void* "jlong"
%typemap(jtype) void*, const void* "long"
%typemap(jstype) void*, const void* "long"
%typemap(javain) void*, const void* "$javainput"
%typemap(in) void*, const void* "$1 = ($1_ltype)$input;"
%typemap(out) void*, const void* "$result = (jlong)$1;"
%typemap(javaout) void*, const void* { return $jnicall; }

%typemap(jni) shampoo_status "void"
%typemap(jtype) shampoo_status "void"
%typemap(jstype) shampoo_status "void"
%typemap(javaout) shampoo_status { $jnicall; }
%typemap(out, null="") shampoo_status "ShampooJavaCheck(jenv, $1, -1);"
%typemap(out, null="") shampoo_status shampoo_optimizer_status "ShampooJavaCheck(jenv, $1, *arg3);"
/* As an argument, a status is a number. */
%typemap(jni) shampoo_status status "jint"
%typemap(jtype) shampoo_status status "int"
%typemap(jstype) shampoo_status status "int"
%typemap(javain) shampoo_status status "$javainput"
%typemap(in) shampoo_status status "$1 = (shampoo_status)$input;"

%define SHAMPOO_JAVA_RESULT(type, number_type, jni_array, java_array)
%typemap(jni) type* "jni_array"
%typemap(jtype) type* "java_array"
%typemap(jstype) type* "java_array"
%typemap(javain) type* "$javainput"
%typemap(in) type* (type number = 0) "$1 = &number;"
%typemap(argout) type* "if (result == SHAMPOO_OK) ShampooJavaSet(jenv, $input, (number_type)*$1);"
%enddef
SHAMPOO_JAVA_RESULT(int32_t, jint, jintArray, int[])
SHAMPOO_JAVA_RESULT(int64_t, jlong, jlongArray, long[])
SHAMPOO_JAVA_RESULT(double, jdouble, jdoubleArray, double[])

/* Strings are passed as bytes of UTF-8; null is NULL. */
%typemap(jni) const char* "jbyteArray"
%typemap(jtype) const char* "byte[]"
%typemap(jstype) const char* "String"
%typemap(javain) const char* "Text.toBytes($javainput)"
%typemap(in) const char* (ShampooJavaText text) {
  if (!text.Read(jenv, $input)) return $null;
  $1 = ($1_ltype)text.Get();
}
%typemap(freearg) const char* ""
%typemap(argout) const char* ""
%typemap(out) const char* "$result = ShampooJavaBytes(jenv, $1);"
%typemap(javaout) const char* { return Text.fromBytes($jnicall); }
%typemap(javavarin) const char* "Text.toBytes($javainput)"
%typemap(javavarout) const char* %{
    get {
      return Text.fromBytes($jnicall);
    } %}

/* Shapes and strides: reading a field returns 8 numbers. Writing accepts at most 8, and sets the missing ones to 0. */
%typemap(jni) int64_t[8] "jlongArray"
%typemap(jtype) int64_t[8] "long[]"
%typemap(jstype) int64_t[8] "long[]"
%typemap(javain) int64_t[8] "$javainput"
%typemap(in) int64_t[8] (int64_t numbers[8]) {
  if (!ShampooJavaShape(jenv, $input, numbers)) return $null;
  $1 = numbers;
}
%typemap(memberin) int64_t[8] {
  for (int k = 0; k < 8; ++k) $1[k] = $input[k];
}
%typemap(argout) int64_t[8] ""
%typemap(freearg) int64_t[8] ""
%typemap(out) int64_t[8] "$result = ShampooJavaLongs(jenv, $1, 8);"
%typemap(javaout) int64_t[8] { return $jnicall; }

/* Structs have no finalizer. They are closed by try-with-resources. */
%typemap(javafinalize) SWIGTYPE ""
%typemap(javaclassmodifiers) SWIGTYPE "final class"
%typemap(javainterfaces) SWIGTYPE "AutoCloseable"
%typemap(javacode) SWIGTYPE %{
  @Override
  public void close() {
    delete();
  }
%}

/* A communicator is passed as an object of the class CommCalls. Native code calls the methods of this class. */
%typemap(jni) const shampoo_comm_ops* ops "jobject"
%typemap(jtype) const shampoo_comm_ops* ops "CommCalls"
%typemap(jstype) const shampoo_comm_ops* ops "CommCalls"
%typemap(javain) const shampoo_comm_ops* ops "$javainput"
%typemap(in) const shampoo_comm_ops* ops (shampoo_comm_ops filled) {
  if (!ShampooJavaCommOps(jenv, $input, &filled)) return $null;
  $1 = &filled;
}
%typemap(freearg) const shampoo_comm_ops* ops ""
%exception shampoo_comm_from_ops {
  $action
  if (result != SHAMPOO_OK && arg2->release != NULL) arg2->release(arg2->user);
}

/* The callback that receives log messages, or null. */
%typemap(jni) (shampoo_log_callback callback, void* user) "jobject"
%typemap(jtype) (shampoo_log_callback callback, void* user) "LogCallback"
%typemap(jstype) (shampoo_log_callback callback, void* user) "LogCallback"
%typemap(javain) (shampoo_log_callback callback, void* user) "$javainput"
%typemap(in) (shampoo_log_callback callback, void* user) (ShampooJavaLog log) {
  $1 = log.Replace(jenv, $input);
  $2 = NULL;
}
%typemap(argout) (shampoo_log_callback callback, void* user) "if (result == SHAMPOO_OK) log$argnum.Keep();"

/* Four addresses for each parameter: param, grad, out, copy. */
%typemap(jni) (int32_t count, const shampoo_buffers* buffers) "jlongArray"
%typemap(jtype) (int32_t count, const shampoo_buffers* buffers) "long[]"
%typemap(jstype) (int32_t count, const shampoo_buffers* buffers) "long[]"
%typemap(javain) (int32_t count, const shampoo_buffers* buffers) "$javainput"
%typemap(in) (int32_t count, const shampoo_buffers* buffers) (ShampooJavaBuffers list) {
  if (!list.Read(jenv, $input)) return $null;
  $1 = list.Count();
  $2 = ($2_ltype)list.Get();
}
%typemap(freearg) (int32_t count, const shampoo_buffers* buffers) ""

/* One address for each parameter, to which the call writes. For the address 0, nothing is written. */
%typemap(jni) (int32_t count, void* const* weights) "jlongArray"
%typemap(jtype) (int32_t count, void* const* weights) "long[]"
%typemap(jstype) (int32_t count, void* const* weights) "long[]"
%typemap(javain) (int32_t count, void* const* weights) "$javainput"
%typemap(in) (int32_t count, void* const* weights) (ShampooJavaAddresses list) {
  if (!list.Read(jenv, $input)) return $null;
  $1 = list.Count();
  $2 = ($2_ltype)list.Get();
}
%typemap(freearg) (int32_t count, void* const* weights) ""

/* Handles of optimizers. */
%typemap(jni) (shampoo_optimizer* const* opts, int32_t count) "jlongArray"
%typemap(jtype) (shampoo_optimizer* const* opts, int32_t count) "long[]"
%typemap(jstype) (shampoo_optimizer* const* opts, int32_t count) "long[]"
%typemap(javain) (shampoo_optimizer* const* opts, int32_t count) "$javainput"
%typemap(in) (shampoo_optimizer* const* opts, int32_t count) (ShampooJavaHandles list) {
  if (!list.Read(jenv, $input)) return $null;
  $1 = ($1_ltype)list.Get();
  $2 = list.Count();
}
%typemap(freearg) (shampoo_optimizer* const* opts, int32_t count) ""

/* Hand-written functions. */
%native(address) jlong address(jobject buffer);
%native(commFromAddress) jlong commFromAddress(jlong ops);

/*
 * Copyright The libshampoo authors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The SWIG interface of the public header, for all languages. The file of a language (python.i, java.i) defines how
 * types are passed. It is included before the header, and must define these macros:
 *
 *   SHAMPOO_WAITS(function)   the function may run long or wait for other threads. If the runtime of the language has a
 *                             global lock, such as Python's GIL, the binding releases the lock during the call
 *   SHAMPOO_HANDLE_OUT(type)  how a function returns a handle (a pointer to an object of the library) that it creates.
 *                             In C, the function writes the handle to its argument `type** out`
 *   SHAMPOO_HANDLE_IN(type)   how a handle is passed to a function, including the destroy function
 */
%module(package="shampoo") _native

%{
#include <shampoo/shampoo.h>
#include <stdlib.h>
#include <string.h>
%}

%include <stdint.i>

#ifdef SWIGPYTHON
%include "python.i"
#endif
#ifdef SWIGJAVA
%include "java.i"
#endif

/* In Python, a proxy object owns each handle. When the proxy is destroyed, the handle is destroyed, too. A program can
 * call the destroy function of the handle earlier. This call also removes the handle from the proxy. */
%define SHAMPOO_HANDLE(type)
%nodefaultctor type;
%extend type {
  ~type() { type##_destroy($self); }
}
%delobject type##_destroy;
SHAMPOO_HANDLE_OUT(type)
SHAMPOO_HANDLE_IN(type)
typedef struct type {} type;
%enddef

SHAMPOO_HANDLE(shampoo_config)
SHAMPOO_HANDLE(shampoo_plan)
SHAMPOO_HANDLE(shampoo_comm)
SHAMPOO_HANDLE(shampoo_optimizer)

/* init: the macro that initializes the struct; last: code that runs before the struct is freed. */
%define SHAMPOO_STRUCT(type, init, last)
%immutable type::struct_size;
%extend type {
  type() {
    static const type initial = init;
    type* const created = (type*)malloc(sizeof *created);
    if (created != NULL) *created = initial;
    return created;
  }
  ~type() {
    last;
    free($self);
  }
}
%enddef

SHAMPOO_STRUCT(shampoo_backend_info, SHAMPOO_BACKEND_INFO_INIT, )
SHAMPOO_STRUCT(shampoo_key_info, SHAMPOO_KEY_INFO_INIT, )
SHAMPOO_STRUCT(shampoo_block_info, SHAMPOO_BLOCK_INFO_INIT, )
SHAMPOO_STRUCT(shampoo_plan_desc, SHAMPOO_PLAN_DESC_INIT, )
SHAMPOO_STRUCT(shampoo_param_desc, SHAMPOO_PARAM_DESC_INIT, free((char*)$self->name))
SHAMPOO_STRUCT(shampoo_optimizer_desc, SHAMPOO_OPTIMIZER_DESC_INIT, )
SHAMPOO_STRUCT(shampoo_state_entry, SHAMPOO_STATE_ENTRY_INIT, )
SHAMPOO_STRUCT(shampoo_root_info, SHAMPOO_ROOT_INFO_INIT, )

/* A shampoo_param_desc that a binding creates owns its name. The library copies the name when it reads the struct. */
%typemap(memberin) const char* name {
  free((char*)$1);
  $1 = $input != NULL ? strdup($input) : NULL;
}

/* Strings that belong to the library. */
%immutable shampoo_backend_info::name;
%immutable shampoo_backend_info::unavailable_reason;
%immutable shampoo_key_info::name;
%immutable shampoo_key_info::value_type;
%immutable shampoo_key_info::default_value;
%immutable shampoo_key_info::range;
%immutable shampoo_key_info::doc;
%ignore shampoo_key_info::reserved;
%immutable shampoo_state_entry::key;

/* Structs of function pointers. A binding either fills them in hand-written code or does not offer them. */
%ignore shampoo_allocator;
%ignore shampoo_executor;
%ignore shampoo_comm_ops;
%ignore shampoo_optimizer_desc::allocator;
%ignore shampoo_optimizer_desc::executor;
/* The typemap for arguments that are arrays of buffers fills shampoo_buffers. */
%ignore shampoo_buffers;
/* The simple API is left out: the bindings have classes of their own instead of shampoo_create(). */
%ignore shampoo_tensor;
%ignore shampoo_create_sized;

SHAMPOO_WAITS(shampoo_backend_load)
SHAMPOO_WAITS(shampoo_backend_describe)
SHAMPOO_WAITS(shampoo_plan_finish)
SHAMPOO_WAITS(shampoo_optimizer_create)
SHAMPOO_WAITS(shampoo_optimizer_destroy)
SHAMPOO_WAITS(shampoo_optimizer::~shampoo_optimizer)
SHAMPOO_WAITS(shampoo_optimizer_step)
SHAMPOO_WAITS(shampoo_optimizer_export)
SHAMPOO_WAITS(shampoo_optimizer_status)
SHAMPOO_WAITS(shampoo_state_read)
SHAMPOO_WAITS(shampoo_state_write)
SHAMPOO_WAITS(shampoo_save)
SHAMPOO_WAITS(shampoo_load)
SHAMPOO_WAITS(shampoo_matrix_inverse_root)
SHAMPOO_WAITS(shampoo_matrix_orthogonalize)

%include <shampoo/shampoo.h>

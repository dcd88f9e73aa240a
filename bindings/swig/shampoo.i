/*
 * Copyright The libshampoo authors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The public header for SWIG, which makes of it the modules of other languages. What is here holds for all of them;
 * what a language adds is in a file of its own, which comes before the header as it says how its types are passed:
 *
 *   SHAMPOO_WAITS(function)   the function may take long, or wait for other threads: let the language's others run
 *   SHAMPOO_HANDLE_OUT(type)  `type** out`, the first argument, is what the function returns
 *   SHAMPOO_HANDLE_IN(type)   a handle as an argument; the destroy function leaves NULL in the object that held it
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

/* A handle ends with the object that holds it, or earlier by its destroy function, after which it is NULL. */
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

/* A struct begins with its macro; last: what to do before it is freed. */
%define SHAMPOO_STRUCT(type, init, last)
%immutable type::struct_size;
%extend type {
  type() {
    static const type initial = init;
    type* const made = (type*)malloc(sizeof *made);
    if (made != NULL) *made = initial;
    return made;
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

/* A text in a struct of the caller is the struct's own: the library copies it where it takes the struct. */
%typemap(memberin) const char* name {
  free((char*)$1);
  $1 = $input != NULL ? strdup($input) : NULL;
}

/* Texts that the library hands out. */
%immutable shampoo_backend_info::name;
%immutable shampoo_backend_info::unavailable_reason;
%immutable shampoo_key_info::name;
%immutable shampoo_key_info::value_type;
%immutable shampoo_key_info::default_value;
%immutable shampoo_key_info::range;
%immutable shampoo_key_info::doc;
%immutable shampoo_state_entry::key;

/* Structs of function pointers: a language makes them of its own kind of functions. */
%ignore shampoo_allocator;
%ignore shampoo_executor;
%ignore shampoo_comm_ops;
%ignore shampoo_optimizer_desc::allocator;
%ignore shampoo_optimizer_desc::executor;
/* Filled where buffers are bound. */
%ignore shampoo_buffers;
/* The bindings have a simple tier of their own. */
%ignore shampoo_tensor;
%ignore shampoo_create_sized;

SHAMPOO_WAITS(shampoo_backend_load)
SHAMPOO_WAITS(shampoo_backend_describe)
SHAMPOO_WAITS(shampoo_plan_finish)
SHAMPOO_WAITS(shampoo_optimizer_create)
SHAMPOO_WAITS(shampoo_optimizer_destroy)
SHAMPOO_WAITS(shampoo_optimizer::~shampoo_optimizer)
SHAMPOO_WAITS(shampoo_optimizer_step)
SHAMPOO_WAITS(shampoo_optimizer_status)
SHAMPOO_WAITS(shampoo_state_read)
SHAMPOO_WAITS(shampoo_state_write)
SHAMPOO_WAITS(shampoo_save)
SHAMPOO_WAITS(shampoo_load)
SHAMPOO_WAITS(shampoo_matrix_inverse_root)

%include <shampoo/shampoo.h>

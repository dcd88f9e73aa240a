# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# Runs the shell blocks of the documentation, with one test for each page. Some pages use the results of other pages.
# All of these tests have the label long, because they compile the library several times, as users do. A compiler
# cache (ccache) makes repeated compilations faster.
if(SHAMPOO_SANITIZE OR SHAMPOO_SYSTEM_BLAS)
  return()
endif()

set(runner ${CMAKE_CURRENT_SOURCE_DIR}/run_shell.py)
set(interpreter ${SHAMPOO_TEST_PYTHON})
set(have)
set(arguments --source ${PROJECT_SOURCE_DIR} --folder ${CMAKE_CURRENT_BINARY_DIR}/shell)
set(environment)
if(SHAMPOO_PYTHON)
  set(interpreter ${Python_EXECUTABLE}) # this Python has the packages that the pages about Python need
  list(APPEND have python)
endif()
if(SHAMPOO_JAVA)
  list(APPEND have java)
endif()
if(SHAMPOO_RUST)
  find_program(SHAMPOO_CARGO cargo REQUIRED)
  list(APPEND have rust)
  list(APPEND arguments --cargo ${SHAMPOO_CARGO})
endif()
if(SHAMPOO_BUILD_CUDA)
  list(APPEND have cuda)
  set(environment CUDACXX=${CMAKE_CUDA_COMPILER})
endif()
find_package(benchmark QUIET)
if(benchmark_FOUND)
  list(APPEND have benchmark)
endif()
execute_process(COMMAND ${interpreter} -c "import mpmath" RESULT_VARIABLE status ERROR_QUIET)
if(status EQUAL 0)
  list(APPEND have mpmath)
endif()
list(APPEND arguments --have ${have})

# run_shell.py finds the pages with shell blocks. shell/page_rules.py lists the pages that each page needs.
execute_process(COMMAND ${interpreter} ${runner} ${arguments} --list
                OUTPUT_VARIABLE listed RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${runner} cannot list the pages with shell blocks: see above")
endif()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${runner} ${CMAKE_CURRENT_SOURCE_DIR}/shell/page_rules.py)

add_test(NAME docs.shell.machine COMMAND ${interpreter} ${runner} ${arguments} --make)
set_tests_properties(docs.shell.machine PROPERTIES FIXTURES_SETUP docs_shell_machine)
set(tests docs.shell.machine)
string(REPLACE ";" " " listed "${listed}")
string(REPLACE "\n" ";" listed "${listed}")
foreach(line ${listed})
  string(REPLACE " " ";" line "${line}")
  list(POP_FRONT line page name)
  list(TRANSFORM line PREPEND docs_shell_ OUTPUT_VARIABLE needs)
  add_test(NAME docs.shell.${name} COMMAND ${interpreter} ${runner} ${arguments} --page ${page})
  set_tests_properties(docs.shell.${name} PROPERTIES
    FIXTURES_REQUIRED "docs_shell_machine;${needs}" FIXTURES_SETUP docs_shell_${name})
  list(APPEND tests docs.shell.${name})
endforeach()
# All pages share one folder with one clone, so they run one at a time.
set_tests_properties(${tests} PROPERTIES
  LABELS long TIMEOUT 3600 RESOURCE_LOCK docs_shell PROCESSORS 2 ENVIRONMENT "${environment}")

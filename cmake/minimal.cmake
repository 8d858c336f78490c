# Minimal libraries: without signatures, inference, rewrites, the choice of orders, text forms and writers.
#
#   tessera_minimal_library(NAME LIST) makes libNAME.so (target NAME) and libNAME.a (target NAME_static) with the
#   operators of LIST, a file in the syntax of src/ops/ops.txt. An empty LIST: a library without operators.
#
# The option TESSERA_OPS names the list of the library tessera_minimal. A tree made for size alone:
#   cmake -S SOURCE -B DIR --preset minimal -DTESSERA_OPS=LIST
#   cmake --build DIR --target tessera_minimal tessera_minimal_static      (DIR/lib/libtessera_minimal.so, .a)

# Sets OUT to the objects of the operators of LIST and their table.
function(tessera_operators name list out)
  set(target tessera_ops)  # that of the whole list is there already
  if(NOT list STREQUAL ${CMAKE_SOURCE_DIR}/src/ops/ops.txt)
    set(target ${name}_ops)
    set(folder ${CMAKE_BINARY_DIR}/generated/${name})
    tessera_emit_op_tables(${list} ${folder} sources)
    add_library(${target} OBJECT EXCLUDE_FROM_ALL ${sources} ${folder}/op_table.cc)
    target_include_directories(${target} PUBLIC src include)
  endif()
  set(${out} $<TARGET_OBJECTS:${target}> PARENT_SCOPE)
endfunction()

function(tessera_minimal_library name list)
  tessera_operators(${name} ${list} operators)
  set(objects $<TARGET_OBJECTS:tessera_core> $<TARGET_OBJECTS:tessera_min> ${operators})
  tessera_shared(${name} ${objects})
  add_library(${name}_static STATIC EXCLUDE_FROM_ALL ${objects})
  set_target_properties(${name}_static PROPERTIES OUTPUT_NAME ${name})
  target_link_libraries(${name}_static PUBLIC Threads::Threads ${CMAKE_DL_LIBS})
endfunction()

get_filename_component(MINIMAL_OPS "${TESSERA_OPS}" ABSOLUTE BASE_DIR ${CMAKE_BINARY_DIR})
tessera_minimal_library(tessera_minimal ${MINIMAL_OPS})
tessera_minimal_library(tessera_zero ${CMAKE_SOURCE_DIR}/cmake/ops_zero.txt)
tessera_minimal_library(tessera_small ${CMAKE_SOURCE_DIR}/cmake/ops_small.txt)
set_target_properties(tessera_zero tessera_small PROPERTIES EXCLUDE_FROM_ALL ON)

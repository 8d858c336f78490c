# Small libraries, linked from the same sources.
#   minimal    without signatures, inference, rewrites, the choice of orders, text forms, writers, and topics of the C ABI
#              that few clients ask for (src/capi/topics_minimal.cc)
#   extended   minimal, with inference and rewrites; a rewrite that needs an operator which is not there is left out
#
#   tessera_minimal_library(NAME LIST [EXTENDED]) makes libNAME.so (target NAME) and libNAME.a (target NAME_static) with
#   the operators of LIST, a file in the syntax of src/ops/ops.txt. An empty LIST: a library without operators.
#
# The option TESSERA_OPS names the list of the libraries tessera_minimal and tessera_extended. A tree made for size alone:
#   cmake -S SOURCE -B DIR --preset minimal -DTESSERA_OPS=LIST
#   cmake --build DIR --target tessera_minimal tessera_minimal_static      (DIR/lib/libtessera_minimal.so, .a)

# For size: no exceptions (src/base/attempt.h), no type information, and a linker that sees the whole library.
if(CMAKE_BUILD_TYPE STREQUAL MinSizeRel)
  set(MINIMAL_COMPILE_OPTIONS -fno-exceptions -fno-asynchronous-unwind-tables -fno-unwind-tables -fno-rtti)
  set(MINIMAL_LINK_OPTIONS -Wl,--strip-all -Wl,-z,noseparate-code -Wl,--build-id=none)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    list(APPEND MINIMAL_COMPILE_OPTIONS -flto)
    list(APPEND MINIMAL_LINK_OPTIONS ${MINIMAL_COMPILE_OPTIONS} -Os -ffunction-sections -fdata-sections -flto-partition=one)
  endif()
  # Relocations in a short form, if loaders of the system's age know it.
  include(CheckCXXSourceCompiles)
  check_cxx_source_compiles("#include <features.h>
static_assert(__GLIBC_PREREQ(2, 36));
int main() {}" GLIBC_READS_RELR)
  set(CMAKE_REQUIRED_LINK_OPTIONS -Wl,-z,pack-relative-relocs)
  check_cxx_source_compiles("int main() {}" LINKER_PACKS_RELOCATIONS)
  unset(CMAKE_REQUIRED_LINK_OPTIONS)
  if(GLIBC_READS_RELR AND LINKER_PACKS_RELOCATIONS)
    list(APPEND MINIMAL_LINK_OPTIONS -Wl,-z,pack-relative-relocs)
  endif()
endif()

file(GLOB EXTENDED_SOURCES CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} src/passes/*.cc src/passes/rules/*.cc)
list(REMOVE_ITEM EXTENDED_SOURCES src/passes/check_signatures.cc src/passes/same_since.cc)
add_library(tessera_min OBJECT EXCLUDE_FROM_ALL ${MINIMAL_SOURCES} src/session/load_minimal.cc)
add_library(tessera_ext OBJECT EXCLUDE_FROM_ALL ${MINIMAL_SOURCES} ${EXTENDED_SOURCES} src/session/load_extended.cc
            src/session/optimize.cc src/session/fold_constants.cc)
foreach(part tessera_core tessera_ops tessera_min tessera_ext)
  target_include_directories(${part} PUBLIC src include)
  target_compile_options(${part} PRIVATE ${MINIMAL_COMPILE_OPTIONS})
endforeach()

# Sets OUT to the objects of the operators of LIST and their table, and OUT_INFERENCE to the source of the other table.
function(tessera_operators name list out out_inference)
  set(target tessera_ops)  # that of the whole list is there already
  set(folder ${CMAKE_BINARY_DIR}/generated)
  if(NOT list STREQUAL ${CMAKE_SOURCE_DIR}/src/ops/ops.txt)
    set(target ${name}_ops)
    set(folder ${folder}/${name})
    tessera_emit_op_tables(${list} ${folder} sources)
    add_library(${target} OBJECT EXCLUDE_FROM_ALL ${sources} ${folder}/op_table.cc)
    target_include_directories(${target} PUBLIC src include)
    target_compile_options(${target} PRIVATE ${MINIMAL_COMPILE_OPTIONS})
  endif()
  set(${out} $<TARGET_OBJECTS:${target}> PARENT_SCOPE)
  set(${out_inference} ${folder}/inference_table.cc PARENT_SCOPE)
endfunction()

# An archive of OBJECTS. What is compiled for a linker that sees all is linked into one plain object first, so that any
# linker can read it.
function(tessera_minimal_archive target name objects)
  if(MINIMAL_COMPILE_OPTIONS MATCHES "-flto")
    set(whole ${CMAKE_BINARY_DIR}/${name}_whole.o)
    add_custom_command(OUTPUT ${whole} DEPENDS ${objects} COMMAND_EXPAND_LISTS VERBATIM
                       COMMAND ${CMAKE_CXX_COMPILER} -r -nostdlib ${MINIMAL_COMPILE_OPTIONS} -Os -fPIC -ffunction-sections -fdata-sections
                               -flinker-output=nolto-rel ${objects} -o ${whole})
    set(objects ${whole})
    set_source_files_properties(${whole} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  endif()
  add_library(${target} STATIC EXCLUDE_FROM_ALL ${objects})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} LINKER_LANGUAGE CXX)
  target_link_libraries(${target} PUBLIC Threads::Threads ${CMAKE_DL_LIBS})
endfunction()

function(tessera_minimal_library name list)
  cmake_parse_arguments(PARSE_ARGV 2 option EXTENDED "" "")
  tessera_operators(${name} ${list} operators inference)
  set(parts tessera_min)
  set(sources)
  if(option_EXTENDED)
    set(parts tessera_ext)
    set(sources ${inference})
  endif()
  file(STRINGS ${list} makes_others REGEX "^sequence/|^ml/maps|^control/|Identity")
  if(makes_others)
    list(APPEND sources src/capi/values_all.cc)
  else()
    list(APPEND sources src/capi/values_tensors.cc)
  endif()
  add_library(${name}_own OBJECT EXCLUDE_FROM_ALL ${sources})
  target_include_directories(${name}_own PRIVATE src include)
  target_compile_options(${name}_own PRIVATE ${MINIMAL_COMPILE_OPTIONS})
  set(objects $<TARGET_OBJECTS:tessera_core> ${operators} $<TARGET_OBJECTS:${parts}> $<TARGET_OBJECTS:${name}_own>)

  tessera_shared(${name} ${objects})
  target_link_options(${name} PRIVATE ${MINIMAL_LINK_OPTIONS} -Wl,-Map=${CMAKE_BINARY_DIR}/${name}.map)
  set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  tessera_minimal_archive(${name}_static ${name} "${objects}")
endfunction()

get_filename_component(MINIMAL_OPS "${TESSERA_OPS}" ABSOLUTE BASE_DIR ${CMAKE_BINARY_DIR})
tessera_minimal_library(tessera_minimal ${MINIMAL_OPS})
tessera_minimal_library(tessera_extended ${MINIMAL_OPS} EXTENDED)
# What has a budget (tools/size_budgets.json).
tessera_minimal_library(tessera_zero ${CMAKE_SOURCE_DIR}/cmake/ops_zero.txt)
tessera_minimal_library(tessera_small ${CMAKE_SOURCE_DIR}/cmake/ops_small.txt)
tessera_minimal_library(tessera_small_extended ${CMAKE_SOURCE_DIR}/cmake/ops_small.txt EXTENDED)
set_target_properties(tessera_minimal PROPERTIES EXCLUDE_FROM_ALL OFF)

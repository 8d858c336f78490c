# libFuzzer targets: fuzz/NAME.cc becomes fuzz_NAME.
file(GLOB FUZZ_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/fuzz/*.cc)
foreach(source IN LISTS FUZZ_SOURCES)
  get_filename_component(name ${source} NAME_WE)
  add_executable(fuzz_${name} ${source})
  target_link_libraries(fuzz_${name} PRIVATE tessera_static)
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
endforeach()

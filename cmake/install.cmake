# What `cmake --install` lays down: headers, libraries, the command, a CMake package and a pkg-config file.
#   find_package(tessera)      gives tessera::tessera, and tessera::onnxruntime for programs linked with that name
#   pkg-config --libs tessera
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

target_include_directories(tessera INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_include_directories(onnxruntime INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(tessera INTERFACE cxx_std_17)

install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(TARGETS tessera onnxruntime EXPORT tessera-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TESSERA_COMPANIONS)
  install(TARGETS tessera_text tessera_image LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TESSERA_PROGRAMS)
  install(TARGETS tessera_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

set(PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)
install(EXPORT tessera-targets NAMESPACE tessera:: FILE tesseraConfig.cmake DESTINATION ${PACKAGE_DIR})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tesseraConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/tesseraConfigVersion.cmake DESTINATION ${PACKAGE_DIR})

file(RELATIVE_PATH PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/tessera.pc @ONLY CONTENT [[
prefix=${pcfiledir}/@PC_TO_PREFIX@
Name: tessera
Description: Runs ONNX models on the CPU
Version: @PROJECT_VERSION@
Libs: -L${prefix}/@CMAKE_INSTALL_LIBDIR@ -ltessera
Cflags: -I${prefix}/@CMAKE_INSTALL_INCLUDEDIR@
]])
install(FILES ${CMAKE_BINARY_DIR}/tessera.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# What `cmake --install` puts in place: one library, the public headers, and the files by
# which find_package(square) and pkg-config find them.
if(NOT TARGET square)
  return()
endif()
include(CMakePackageConfigHelpers)

set(SQUARE_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/square)
# From the directory of square.pc back to the prefix, so that an installed tree may move.
file(RELATIVE_PATH SQUARE_PC_PREFIX
  /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" SQUARE_PC_PREFIX "${SQUARE_PC_PREFIX}")

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/squareConfig.cmake.in
  ${PROJECT_BINARY_DIR}/squareConfig.cmake
  INSTALL_DESTINATION ${SQUARE_CMAKE_DIR})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/squareConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
configure_file(${CMAKE_CURRENT_LIST_DIR}/square.pc.in ${PROJECT_BINARY_DIR}/square.pc @ONLY)

install(TARGETS square EXPORT squareTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/square DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h")
install(EXPORT squareTargets NAMESPACE square:: DESTINATION ${SQUARE_CMAKE_DIR})
install(FILES ${PROJECT_BINARY_DIR}/squareConfig.cmake ${PROJECT_BINARY_DIR}/squareConfigVersion.cmake
  DESTINATION ${SQUARE_CMAKE_DIR})
install(FILES ${PROJECT_BINARY_DIR}/square.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

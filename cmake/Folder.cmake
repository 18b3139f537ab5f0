# square_folder(NAME SOURCES ... DEPENDS ... LIBRARIES ...)
#
# One static library `square_NAME` for one folder of src/. DEPENDS names other folders
# (design: arrows run downwards only; tests/python/test_layers.py checks the includes),
# LIBRARIES other people's libraries, private to the folder.
function(square_folder name)
  cmake_parse_arguments(FOLDER "" "" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  add_library(square_${name} STATIC ${FOLDER_SOURCES})
  target_include_directories(square_${name}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  square_compile_options(square_${name})
  list(TRANSFORM FOLDER_DEPENDS PREPEND square_)
  target_link_libraries(square_${name} PUBLIC ${FOLDER_DEPENDS} PRIVATE ${FOLDER_LIBRARIES})
  set_property(GLOBAL APPEND PROPERTY SQUARE_FOLDERS square_${name})
endfunction()

function(square_compile_options target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion)
  if(SQUARE_SANITIZE)
    target_compile_options(${target} PUBLIC -fsanitize=${SQUARE_SANITIZE} -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=${SQUARE_SANITIZE})
  endif()
endfunction()

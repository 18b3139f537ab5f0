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
    # GCC says so itself, Clang by other means.
    foreach(checked IN ITEMS address thread)
      if(SQUARE_SANITIZE MATCHES ${checked} AND CMAKE_CXX_COMPILER_ID MATCHES Clang)
        string(TOUPPER ${checked} checked)
        target_compile_definitions(${target} PUBLIC __SANITIZE_${checked}__)
      endif()
    endforeach()
    if(SQUARE_SANITIZE MATCHES undefined)
      # Checks of every access to memory, without which GCC takes half as long. The address sanitizer sees most of
      # what they would; nobody sees an access that is not aligned (Clang takes a sixth longer with `alignment`).
      target_compile_options(${target} PUBLIC -fno-sanitize=null,alignment,object-size,vptr -fno-sanitize-recover=all)
    endif()
  endif()
endfunction()

# square_messages(NAME OUT): the messages of proto/square/v1/NAME.proto, generated into the build folder. OUT is
# their source for a folder, which includes them by ${PROJECT_BINARY_DIR}/proto. Hidden: libsquare shows its own
# names only.
function(square_messages name out)
  set(protocol ${PROJECT_SOURCE_DIR}/proto/square/v1/${name}.proto)
  set(generated ${PROJECT_BINARY_DIR}/proto/square/v1/${name}.pb.cc)
  add_custom_command(
    OUTPUT ${generated} ${PROJECT_BINARY_DIR}/proto/square/v1/${name}.pb.h
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/proto
    COMMAND protobuf::protoc --proto_path=${PROJECT_SOURCE_DIR}/proto --cpp_out=${PROJECT_BINARY_DIR}/proto ${protocol}
    DEPENDS ${protocol} ${PROJECT_SOURCE_DIR}/proto/square/v1/controller.proto
      ${PROJECT_SOURCE_DIR}/proto/square/v1/links.proto
    COMMENT "Generating the messages of ${name}.proto"
    VERBATIM)
  set_source_files_properties(${generated} PROPERTIES COMPILE_OPTIONS "-w;-fvisibility=hidden")
  set(${out} ${generated} PARENT_SCOPE)
endfunction()

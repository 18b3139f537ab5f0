# What Square is built with, all of it from the distribution: docs/dependencies.md says why.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(Boost 1.74 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(tomlplusplus REQUIRED)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(CLP REQUIRED IMPORTED_TARGET clp)
if(SQUARE_WITH_GRPC)
  # The module, not a config: Debian ships none for Protobuf, and gRPC's config needs it first.
  find_package(Protobuf REQUIRED)
  find_package(gRPC REQUIRED)
endif()

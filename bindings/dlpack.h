// The layout of DLPack, version 1, of which version 0 is a part: dmlc.github.io/dlpack.
#pragma once

#include <cstdint>

namespace square::python::dlpack {

// Memory that the CPU can use: plain, or pinned for CUDA or ROCm.
inline constexpr std::int32_t kCpu = 1;
inline constexpr std::int32_t kCudaHost = 3;
inline constexpr std::int32_t kRocmHost = 11;

enum class TypeCode : std::uint8_t {
  kInt = 0,
  kUint = 1,
  kFloat = 2,
  kBfloat = 4,
  kComplex = 5,
  kBool = 6,
};

struct Device {
  std::int32_t type;
  std::int32_t id;
};

struct DataType {
  TypeCode code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  std::int32_t dimensions;
  DataType type;
  const std::int64_t* shape;
  const std::int64_t* strides;  // in elements; null for contiguous in C order
  std::uint64_t byte_offset;
};

// What a capsule "dltensor" holds. Whoever takes it renames the capsule and calls the deleter.
struct Managed {
  Tensor tensor;
  void* context;
  void (*deleter)(Managed* self);
};

struct Version {
  std::uint32_t major;
  std::uint32_t minor;
};

inline constexpr std::uint32_t kMajorVersion = 1;
inline constexpr std::uint64_t kReadOnly = 1;

// The same of a capsule "dltensor_versioned".
struct VersionedManaged {
  Version version;
  void* context;
  void (*deleter)(VersionedManaged* self);
  std::uint64_t flags;
  Tensor tensor;
};

}  // namespace square::python::dlpack

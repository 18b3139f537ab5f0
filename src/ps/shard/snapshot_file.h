// A snapshot: one version of a server's shard in one file. Numbers are little-endian, as in memory:
//
//     magic                 8 bytes, "SQPSSNP1"
//     size of the header    u32
//     CRC32C of the header  u32
//     header                v1::PsSnapshotHeader
//     parts                 one for each kPartElements elements, the last one shorter:
//         CRC32C of the parameters, of the momentum, of the accumulator   3 x u32, 0 for what there is not
//         0                                                               u32
//         parameters, momentum, accumulator (where the header says so)    float32 each
//     hash                  u64
//     end magic             8 bytes, "SQPSEND1"
//
// The hash has the CRC32C of all parts' checksums of parameters in its low half, and that of the momentum's
// in its high half. So it does not depend on who computed which part.
//
// It is written under another name, and renamed once it is on the disk: a file of its own name is whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/net/file_descriptor.h"
#include "square/outer_optimizer.h"
#include "square/v1/snapshot.pb.h"

namespace square::ps {

// What a file has before its end, while it is written.
inline constexpr std::string_view kUnfinishedSuffix = ".unfinished";

// Where a file ends, its parts lie, and how large they are.
struct SnapshotShape {
  std::uint64_t elements = 0;
  std::uint64_t header_bytes = 0;
  std::uint64_t arrays = 2;  // of float32, in each part

  [[nodiscard]] std::uint64_t part_at(std::size_t index) const;  // bytes from the beginning
  [[nodiscard]] std::uint64_t trailer_at() const;
  [[nodiscard]] std::uint64_t file_bytes() const;
};

// Of one part; the accumulator is empty where there is none.
struct SnapshotPart {
  std::span<const float> parameters;
  std::span<const float> momentum;
  std::span<const float> accumulator;
};

// The checksums of parts, in their order, as one number.
class SnapshotHash {
 public:
  void add(std::uint32_t parameters, std::uint32_t momentum);
  [[nodiscard]] std::uint64_t value() const { return (std::uint64_t{momentum_} << 32U) | parameters_; }

 private:
  std::uint32_t parameters_ = 0;
  std::uint32_t momentum_ = 0;
};

// Writes one. Not thread-safe. Errors name the path and the cause: RESOURCE_EXHAUSTED for a full disk, a
// quota or a limit on files, UNAVAILABLE for all others.
class SnapshotWriter {
 public:
  static Result<SnapshotWriter> create(const std::filesystem::path& path, const v1::PsSnapshotHeader& header);
  SnapshotWriter(SnapshotWriter&&) noexcept = default;
  SnapshotWriter& operator=(SnapshotWriter&&) = delete;
  // What is not finished is removed.
  ~SnapshotWriter();

  // All parts, in their order. The kernel begins to write them to the disk.
  Status append(const SnapshotPart& part);
  // Blocks until the disk has it, under its name. Returns the hash.
  Result<std::uint64_t> finish();

 private:
  SnapshotWriter(std::filesystem::path path, net::FileDescriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}
  Status write(std::span<const std::byte> bytes);
  [[nodiscard]] Status failed(std::string_view what) const;  // with errno

  std::filesystem::path path_;
  net::FileDescriptor file_;  // none once it is finished
  std::uint64_t written_ = 0;
  SnapshotHash hash_;
};

// One that is there. Goes on reading when the file is removed meanwhile. Thread-safe. Errors: NOT_FOUND for
// no file, UNAVAILABLE where it cannot be read, DATA_LOSS for a damaged one; all name the path.
class SnapshotFile {
 public:
  // Reads the header, and compares the size of the file; the parts are checked as they are read.
  static Result<std::shared_ptr<const SnapshotFile>> open(const std::filesystem::path& path);

  [[nodiscard]] const v1::PsSnapshotHeader& header() const { return header_; }
  [[nodiscard]] std::uint64_t hash() const { return hash_; }
  [[nodiscard]] std::size_t elements() const { return shape_.elements; }

  // The parameters of one part. Preconditions: there is such a part, and `parameters` is as large.
  Status read_parameters(std::size_t index, std::span<float> parameters) const;
  // All of it, and its hash is as the file says.
  Result<OuterShard::State> read_all() const;

 private:
  explicit SnapshotFile(std::filesystem::path path) : path_(std::move(path)) {}
  Status read_head(std::uint64_t file_bytes);
  Status read(std::uint64_t at, std::span<std::byte> bytes) const;
  // One array of a part; `array` counts from the parameters on. Its checksum is as in the file, and given.
  Result<std::uint32_t> read_array(std::size_t index, std::uint64_t array, std::span<float> values) const;
  [[nodiscard]] Status damaged(std::string_view what) const;

  std::filesystem::path path_;
  net::FileDescriptor file_;
  v1::PsSnapshotHeader header_;
  SnapshotShape shape_;
  std::uint64_t hash_ = 0;
};

// A snapshot for whoever wants to see the model, as an evaluation does.
struct SnapshotContent {
  v1::PsSnapshotHeader header;
  std::vector<float> parameters;  // of header.shard()
};
// Checks all parameters. Errors: those of SnapshotFile, and RESOURCE_EXHAUSTED for too little memory.
Result<SnapshotContent> read_snapshot(const std::filesystem::path& path);

// Has the disk keep what was renamed or removed in the folder. Errors as those of SnapshotWriter.
Status sync_folder(const std::filesystem::path& folder);
// Floats, or RESOURCE_EXHAUSTED where memory does not suffice.
Result<std::vector<float>> floats(std::uint64_t count);

}  // namespace square::ps

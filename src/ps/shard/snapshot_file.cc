#include "ps/shard/snapshot_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "base/check.h"
#include "ps/data/parts.h"
#include "ps/held.h"
#include "ps/layout.h"
#include "square/buffer.h"

namespace square::ps {
namespace {

constexpr std::uint64_t kFileMagic = 0x3150'4e53'5350'5153;  // "SQPSSNP1"
constexpr std::uint64_t kEndMagic = 0x3144'4e45'5350'5153;   // "SQPSEND1"

struct FileHead {
  std::uint64_t magic = kFileMagic;
  std::uint32_t header_bytes = 0;
  std::uint32_t header_checksum = 0;
};
struct FilePartHead {
  std::array<std::uint32_t, 3> checksums = {};
  std::uint32_t spare = 0;
};
struct FileTrailer {
  std::uint64_t hash = 0;
  std::uint64_t magic = kEndMagic;
};
static_assert(sizeof(FileHead) == 16 && sizeof(FilePartHead) == 16 && sizeof(FileTrailer) == 16);

template <typename T>
std::span<const std::byte> bytes_of(const T& object) {
  return std::as_bytes(std::span(&object, 1));
}
template <typename T>
std::span<std::byte> writable_bytes_of(T& object) {
  return std::as_writable_bytes(std::span(&object, 1));
}

std::filesystem::path unfinished(const std::filesystem::path& path) {
  return path.native() + std::string(kUnfinishedSuffix);
}

Status file_error(std::string_view what, const std::filesystem::path& path, int error) {
  std::string text = fmt::format("cannot {} {}: {}", what, path.native(), net::describe_errno(error));
  const bool is_full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return is_full ? resource_exhausted(std::move(text)) : unavailable(std::move(text));
}

}  // namespace

std::uint64_t SnapshotShape::part_at(std::size_t index) const {
  const std::uint64_t elements_before = std::uint64_t{index} * kPartElements;
  return sizeof(FileHead) + header_bytes + index * sizeof(FilePartHead) +
         elements_before * arrays * sizeof(float);
}

std::uint64_t SnapshotShape::trailer_at() const {
  return sizeof(FileHead) + header_bytes + parts_of(elements) * sizeof(FilePartHead) +
         elements * arrays * sizeof(float);
}

std::uint64_t SnapshotShape::file_bytes() const { return trailer_at() + sizeof(FileTrailer); }

void SnapshotHash::add(std::uint32_t parameters, std::uint32_t momentum) {
  parameters_ = crc32c(bytes_of(parameters), parameters_);
  momentum_ = crc32c(bytes_of(momentum), momentum_);
}

Status SnapshotWriter::failed(std::string_view what) const { return file_error(what, path_, errno); }

Result<SnapshotWriter> SnapshotWriter::create(const std::filesystem::path& path,
                                              const v1::PsSnapshotHeader& header) {
  std::string text;
  if (header.ByteSizeLong() > std::numeric_limits<std::int32_t>::max() || !header.SerializeToString(&text)) {
    return resource_exhausted(fmt::format("the header of {} is larger than 2 GiB", path.native()));
  }
  constexpr int kMode = 0600;
  net::FileDescriptor file(::open(unfinished(path).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode));
  if (!file) return file_error("make", path, errno);
  SnapshotWriter writer(path, std::move(file));
  const auto header_bytes = std::as_bytes(std::span(text));
  SQUARE_RETURN_IF_ERROR(writer.write(
      bytes_of(FileHead{kFileMagic, static_cast<std::uint32_t>(text.size()), crc32c(header_bytes)})));
  SQUARE_RETURN_IF_ERROR(writer.write(header_bytes));
  return writer;
}

SnapshotWriter::~SnapshotWriter() {
  if (file_) ::unlink(unfinished(path_).c_str());
}

Status SnapshotWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ::ssize_t count = ::write(file_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed("write");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    written_ += static_cast<std::uint64_t>(count);
  }
  return {};
}

Status SnapshotWriter::append(const SnapshotPart& part) {
  const std::array arrays = {part.parameters, part.momentum, part.accumulator};
  FilePartHead head;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (!arrays[i].empty()) head.checksums[i] = crc32c(std::as_bytes(arrays[i]));
  }
  const std::uint64_t begin = written_;
  SQUARE_RETURN_IF_ERROR(write(bytes_of(head)));
  for (const std::span<const float> array : arrays) SQUARE_RETURN_IF_ERROR(write(std::as_bytes(array)));
  hash_.add(head.checksums[0], head.checksums[1]);
  // Without it the disk would stand still until the end, and only then begin. What goes wrong shows there.
  (void)::sync_file_range(file_.get(), static_cast<::off_t>(begin), static_cast<::off_t>(written_ - begin),
                          SYNC_FILE_RANGE_WRITE);
  return {};
}

Result<std::uint64_t> SnapshotWriter::finish() {
  SQUARE_RETURN_IF_ERROR(write(bytes_of(FileTrailer{hash_.value(), kEndMagic})));
  if (::fsync(file_.get()) != 0) return failed("write");
  if (::rename(unfinished(path_).c_str(), path_.c_str()) != 0) return failed("rename");
  file_ = net::FileDescriptor();
  const Status synced = sync_folder(path_.parent_path());
  if (synced.is_ok()) return hash_.value();
  ::unlink(path_.c_str());
  return synced;
}

Status SnapshotFile::damaged(std::string_view what) const {
  return data_loss(fmt::format("the snapshot {} is damaged: {}", path_.native(), what));
}

Result<std::shared_ptr<const SnapshotFile>> SnapshotFile::open(const std::filesystem::path& path) {
  std::shared_ptr<SnapshotFile> file(new SnapshotFile(path));
  file->file_ = net::FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file->file_ && errno == ENOENT) return not_found(fmt::format("no snapshot {}", path.native()));
  struct stat status = {};
  if (!file->file_ || ::fstat(file->file_.get(), &status) != 0) return file_error("read", path, errno);
  SQUARE_RETURN_IF_ERROR(file->read_head(static_cast<std::uint64_t>(status.st_size)));
  return std::shared_ptr<const SnapshotFile>(std::move(file));
}

Status SnapshotFile::read_head(std::uint64_t file_bytes) {
  FileHead head;
  if (file_bytes < sizeof head + sizeof(FileTrailer)) return damaged("it is too short");
  SQUARE_RETURN_IF_ERROR(read(0, writable_bytes_of(head)));
  if (head.magic != kFileMagic) return damaged("it does not begin as one");
  if (head.header_bytes > file_bytes - sizeof head - sizeof(FileTrailer)) return damaged("it is too short");
  std::string text(head.header_bytes, '\0');
  SQUARE_RETURN_IF_ERROR(read(sizeof head, std::as_writable_bytes(std::span(text))));
  if (crc32c(std::as_bytes(std::span(text))) != head.header_checksum || !header_.ParseFromString(text)) {
    return damaged("its header has another checksum");
  }
  const v1::PsShard& shard = header_.shard();
  if (shard.end() < shard.begin() || shard.end() - shard.begin() > kMaxElements) {
    return damaged("there is no such shard");
  }
  Status good = check_model(header_.model());
  if (good.is_ok()) good = check_record(header_.record(), header_.model());
  if (!good.is_ok()) return damaged(good.message());
  const v1::PsShard* const own = shard_of(header_.record().layout(), shard.server());
  if (own == nullptr || own->begin() != shard.begin() || own->end() != shard.end()) {
    return damaged("its shard is not in its version's layout");
  }
  shape_ = {shard.end() - shard.begin(), head.header_bytes, header_.has_accumulator() ? 3U : 2U};
  if (shape_.file_bytes() != file_bytes) {
    return damaged(fmt::format("it has {} bytes, not {}", file_bytes, shape_.file_bytes()));
  }
  FileTrailer trailer;
  SQUARE_RETURN_IF_ERROR(read(shape_.trailer_at(), writable_bytes_of(trailer)));
  if (trailer.magic != kEndMagic) return damaged("it does not end as one");
  hash_ = trailer.hash;
  return {};
}

Status SnapshotFile::read(std::uint64_t at, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ::ssize_t count = ::pread(file_.get(), bytes.data(), bytes.size(), static_cast<::off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return file_error("read", path_, errno);
    if (count == 0) return damaged("it ends too early");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    at += static_cast<std::uint64_t>(count);
  }
  return {};
}

Result<std::uint32_t> SnapshotFile::read_array(std::size_t index, std::uint64_t array,
                                               std::span<float> values) const {
  SQUARE_CHECK(index < parts_of(shape_.elements) && values.size() == part_size(shape_.elements, index),
               "a part of another size");
  FilePartHead head;
  SQUARE_RETURN_IF_ERROR(read(shape_.part_at(index), writable_bytes_of(head)));
  SQUARE_RETURN_IF_ERROR(read(shape_.part_at(index) + sizeof head + array * values.size_bytes(),
                              std::as_writable_bytes(values)));
  if (crc32c(std::as_bytes(values)) == head.checksums.at(array)) return head.checksums.at(array);
  return damaged(fmt::format("part {} has another checksum", index));
}

Status SnapshotFile::read_parameters(std::size_t index, std::span<float> parameters) const {
  return read_array(index, 0, parameters).status();
}

Result<OuterShard::State> SnapshotFile::read_all() const {
  OuterShard::State state;
  state.rounds = header_.rounds();
  SQUARE_ASSIGN_OR_RETURN(state.parameters, floats(shape_.elements));
  SQUARE_ASSIGN_OR_RETURN(state.momentum, floats(shape_.elements));
  if (header_.has_accumulator()) {
    SQUARE_ASSIGN_OR_RETURN(state.accumulator, floats(shape_.elements));
  }
  SnapshotHash hash;
  for (std::size_t i = 0; i < parts_of(shape_.elements); ++i) {
    const std::size_t count = part_size(shape_.elements, i);
    const auto part = [&](std::vector<float>& all) {
      return std::span(all).subspan(i * kPartElements, count);
    };
    SQUARE_ASSIGN_OR_RETURN(const std::uint32_t parameters, read_array(i, 0, part(state.parameters)));
    SQUARE_ASSIGN_OR_RETURN(const std::uint32_t momentum, read_array(i, 1, part(state.momentum)));
    if (header_.has_accumulator()) SQUARE_RETURN_IF_ERROR(read_array(i, 2, part(state.accumulator)).status());
    hash.add(parameters, momentum);
  }
  if (hash.value() != hash_) return damaged("it has another hash");
  return state;
}

Result<SnapshotContent> read_snapshot(const std::filesystem::path& path) {
  SQUARE_ASSIGN_OR_RETURN(const std::shared_ptr<const SnapshotFile> file, SnapshotFile::open(path));
  SnapshotContent content;
  content.header = file->header();
  SQUARE_ASSIGN_OR_RETURN(content.parameters, floats(file->elements()));
  for (std::size_t i = 0; i < parts_of(file->elements()); ++i) {
    const std::size_t count = part_size(file->elements(), i);
    SQUARE_RETURN_IF_ERROR(
        file->read_parameters(i, std::span(content.parameters).subspan(i * kPartElements, count)));
  }
  return content;
}

Status sync_folder(const std::filesystem::path& folder) {
  const net::FileDescriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened && ::fsync(opened.get()) == 0) return {};
  return file_error("write", folder, errno);
}

Result<std::vector<float>> floats(std::uint64_t count) {
  try {
    return std::vector<float>(count);
  } catch (const std::exception&) {  // bad_alloc, length_error
    return resource_exhausted(fmt::format("no memory for {} elements", count));
  }
}

}  // namespace square::ps

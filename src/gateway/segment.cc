#include "gateway/segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <random>

#include "base/check.h"

namespace square::gateway {
namespace {

constexpr std::uint64_t kSegmentMagic = 0x746e656d67655153;  // "SQegment", as the machine has it
constexpr std::size_t kCopyBytes = std::size_t{64} << 20U;
constexpr int kMostSealTries = 20;
// The unit of st_blocks.
constexpr off_t kBlockBytes = 512;

struct SegmentHeader {
  std::uint64_t magic = kSegmentMagic;
  std::uint64_t nonce = 0;
};

std::uint64_t draw_nonce() {
  std::random_device device;
  return (std::uint64_t{device()} << 32U) | device();
}

Status write_all(const FileDescriptor& file, std::span<const std::byte> data, std::size_t offset) {
  while (!data.empty()) {
    const ssize_t written =
        pwrite(file.get(), data.data(), std::min(data.size(), kCopyBytes), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      return resource_exhausted(fmt::format("cannot copy {} bytes into shared memory: {}", data.size(),
                                            net::describe_errno(errno)));
    }
    offset += static_cast<std::size_t>(written);
    data = data.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Result<Segment> make_segment(std::size_t capacity_bytes) {
  Segment segment;
  segment.descriptor = FileDescriptor(memfd_create("square-gateway", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  segment.nonce = draw_nonce();
  segment.capacity_bytes = capacity_bytes;
  const SegmentHeader header{kSegmentMagic, segment.nonce};
  const auto size = static_cast<off_t>(kSegmentHeaderBytes + capacity_bytes);
  if (!segment.descriptor || ftruncate(segment.descriptor.get(), size) != 0) {
    return resource_exhausted(
        fmt::format("cannot make {} bytes of shared memory: {}", capacity_bytes, net::describe_errno(errno)));
  }
  SQUARE_RETURN_IF_ERROR(write_all(segment.descriptor, std::as_bytes(std::span(&header, 1)), 0));
  return segment;
}

// All pages become this process's.
Status take_pages(const Segment& segment) {
  for (std::size_t at = 0; at < segment.capacity_bytes;) {
    const std::size_t size = std::min(segment.capacity_bytes - at, kCopyBytes);
    const int error = posix_fallocate(segment.descriptor.get(), static_cast<off_t>(kSegmentHeaderBytes + at),
                                      static_cast<off_t>(size));
    if (error == EINTR) continue;
    if (error != 0) {
      return resource_exhausted(fmt::format("cannot make {} bytes of shared memory: {}",
                                            segment.capacity_bytes, net::describe_errno(error)));
    }
    at += size;
  }
  return {};
}

// The kernel refuses while it holds a page itself, as it does for moments on a busy machine; one try
// waits for that for up to 150 ms.
Status seal(const Segment& segment, int seals) {
  for (int tries = 0; tries < kMostSealTries; ++tries) {
    if (fcntl(segment.descriptor.get(), F_ADD_SEALS, seals) == 0) return {};
    if (errno != EBUSY) break;
  }
  return resource_exhausted(fmt::format("cannot seal shared memory: {}", net::describe_errno(errno)));
}

Result<Mapping> map(const FileDescriptor& file, std::size_t size_bytes, int protection) {
  void* address = mmap(nullptr, kSegmentHeaderBytes + size_bytes, protection, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) {
    return resource_exhausted(
        fmt::format("cannot map {} bytes of shared memory: {}", size_bytes, net::describe_errno(errno)));
  }
  return Mapping(address, kSegmentHeaderBytes + size_bytes);
}

Status check_kind(const FileDescriptor& file) {
  struct stat about {};
  struct statfs system {};
  if (fstat(file.get(), &about) != 0 || fstatfs(file.get(), &system) != 0) {
    return unavailable(fmt::format("its file cannot be looked at: {}", net::describe_errno(errno)));
  }
  // Not huge pages: those can run out.
  if (!S_ISREG(about.st_mode) || system.f_type != TMPFS_MAGIC) {
    return permission_denied("it is not a memory file");
  }
  return {};
}

// A page of such a file cannot be taken away, so reading or writing it cannot end the gateway.
Result<SegmentFile> check_file(FileDescriptor file, std::size_t size_bytes, SegmentUse use) {
  if (!file) return permission_denied("its descriptor did not come with the message");
  // First: only files in memory have seals, and to ask others anything may ask somebody else.
  const int seals = fcntl(file.get(), F_GET_SEALS);
  if (seals < 0) return permission_denied("it is not a memory file");
  SQUARE_RETURN_IF_ERROR(check_kind(file));
  struct stat about {};
  if (fstat(file.get(), &about) != 0) {
    return unavailable(fmt::format("its file cannot be looked at: {}", net::describe_errno(errno)));
  }
  int needed = F_SEAL_SHRINK | F_SEAL_GROW;
  if (use == SegmentUse::kSealed) needed |= F_SEAL_WRITE;
  const int mode = fcntl(file.get(), F_GETFL);
  if (use == SegmentUse::kReusable && (mode < 0 || (mode & O_ACCMODE) != O_RDWR))
    return permission_denied("it cannot be written");
  if ((seals & needed) != needed) return permission_denied("it is not sealed");
  if (static_cast<std::uint64_t>(about.st_size) < kSegmentHeaderBytes + size_bytes) {
    return permission_denied(
        fmt::format("it has {} bytes where {} are needed", about.st_size, kSegmentHeaderBytes + size_bytes));
  }
  // Pages in swap are counted.
  if (about.st_blocks < (about.st_size + kBlockBytes - 1) / kBlockBytes) {
    return permission_denied(fmt::format("{} of its {} bytes have memory: allocate all of them",
                                         about.st_blocks * kBlockBytes, about.st_size));
  }
  return SegmentFile{std::move(file), about.st_dev, about.st_ino,
                     static_cast<std::size_t>(about.st_size) - kSegmentHeaderBytes};
}

}  // namespace

Mapping::~Mapping() {
  if (address_ != nullptr) munmap(address_, size_bytes_);
}

FileDescriptor Segment::share() const { return FileDescriptor(fcntl(descriptor.get(), F_DUPFD_CLOEXEC, 0)); }

std::span<std::byte> Mapping::data() const {
  if (address_ == nullptr) return {};
  return {static_cast<std::byte*>(address_) + kSegmentHeaderBytes, size_bytes_ - kSegmentHeaderBytes};
}

Result<Segment> make_sealed_segment(std::span<const std::byte> data) {
  SQUARE_ASSIGN_OR_RETURN(Segment segment, make_segment(data.size()));
  SQUARE_RETURN_IF_ERROR(write_all(segment.descriptor, data, kSegmentHeaderBytes));
  SQUARE_RETURN_IF_ERROR(seal(segment, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE));
  return segment;
}

Result<Segment> make_reusable_segment(std::size_t capacity_bytes) {
  SQUARE_ASSIGN_OR_RETURN(Segment segment, make_segment(capacity_bytes));
  SQUARE_RETURN_IF_ERROR(take_pages(segment));
  SQUARE_RETURN_IF_ERROR(seal(segment, F_SEAL_SHRINK | F_SEAL_GROW));
  SQUARE_ASSIGN_OR_RETURN(segment.mapping, map(segment.descriptor, capacity_bytes, PROT_READ | PROT_WRITE));
  return segment;
}

Result<SegmentFile> open_segment(SentSegment sent, std::size_t size_bytes, SegmentUse use) {
  SQUARE_ASSIGN_OR_RETURN(SegmentFile file, check_file(std::move(sent.descriptor), size_bytes, use));
  SegmentHeader header{};
  if (pread(file.descriptor.get(), &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header) ||
      header.magic != kSegmentMagic || header.nonce != sent.nonce) {
    return permission_denied("it is not the segment that was announced");
  }
  return file;
}

Result<Mapping> map_segment(const SegmentFile& file, std::size_t size_bytes, SegmentUse use) {
  const int protection = use == SegmentUse::kSealed ? PROT_READ : PROT_READ | PROT_WRITE;
  return map(file.descriptor, size_bytes, protection);
}

}  // namespace square::gateway

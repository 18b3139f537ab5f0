// Memory that a process and the gateway of its host share, without a name in any file system.
//
// A segment is a memory file of the process. Its descriptor goes to the gateway over their socket, so
// it is gone with the last of the two, also after kill -9. A page in front holds a random
// number, so that the gateway knows that it has what the process meant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/net/file_descriptor.h"
#include "square/status.h"

namespace square::gateway {

using net::FileDescriptor;

// The first page; data comes behind it.
inline constexpr std::size_t kSegmentHeaderBytes = 4096;

// Mapped memory. Movable; unmapped with its owner.
class Mapping {
 public:
  Mapping() = default;
  Mapping(void* address, std::size_t size_bytes) : address_(address), size_bytes_(size_bytes) {}
  Mapping(Mapping&& other) noexcept
      : address_(std::exchange(other.address_, nullptr)), size_bytes_(std::exchange(other.size_bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(size_bytes_, other.size_bytes_);
    return *this;
  }
  ~Mapping();

  // Behind the header.
  [[nodiscard]] std::span<std::byte> data() const;

 private:
  void* address_ = nullptr;
  std::size_t size_bytes_ = 0;
};

// The process's end of a segment.
struct Segment {
  FileDescriptor descriptor;
  std::uint64_t nonce = 0;
  std::size_t capacity_bytes = 0;
  Mapping mapping;  // of a reusable one

  // Another descriptor of it, for the gateway. None where the process may have no more.
  [[nodiscard]] FileDescriptor share() const;
};

// Copies `data` into a segment that nobody can change any more: a node sums up what it
// sends before it sends it, so bytes that change in between would break its links.
// Errors: RESOURCE_EXHAUSTED. Blocks for the copy.
Result<Segment> make_sealed_segment(std::span<const std::byte> data);

// A segment for results, and for input that stays on the gateway's node. Its size cannot change
// any more, and all its pages are there. Errors: RESOURCE_EXHAUSTED. Blocks while the kernel finds the pages.
Result<Segment> make_reusable_segment(std::size_t capacity_bytes);

// Sealed: nobody can change its bytes. Reusable: the process writes to it whenever it likes.
enum class SegmentUse { kSealed, kReusable };

// What a process has sent.
struct SentSegment {
  FileDescriptor descriptor;  // none: it has sent less than it said
  std::uint64_t nonce = 0;
};

// The gateway's end: a file that is what its process announced and as it must be.
struct SegmentFile {
  FileDescriptor descriptor;
  std::uint64_t device = 0;
  std::uint64_t number = 0;  // of its inode
  std::size_t capacity_bytes = 0;
};

// Refuses whatever could change its size, or its bytes if it must be sealed, under the gateway's
// hands, and what is smaller than `size_bytes`, or lacks pages: the kernel charges a page to the process that
// touches it first. Errors: PERMISSION_DENIED or UNAVAILABLE in words.
Result<SegmentFile> open_segment(SentSegment sent, std::size_t size_bytes, SegmentUse use);
// Errors: RESOURCE_EXHAUSTED. Precondition: `size_bytes` is at most its capacity.
Result<Mapping> map_segment(const SegmentFile& file, std::size_t size_bytes, SegmentUse use);

}  // namespace square::gateway

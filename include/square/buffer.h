// A run of bytes that somebody owns, passed on without copying.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace square {

// An immutable chain of byte slices. Every slice holds a reference to its owner, and
// the bytes stay valid until the last Buffer that shows them is gone: a relay forwards
// by reference, and a source learns from its owner's deleter that nobody looks at a
// tensor any more. Copying a Buffer copies references, never bytes. Thread-compatible.
class Buffer {
 public:
  struct Slice {
    std::shared_ptr<const void> owner;
    const std::byte* data = nullptr;
    std::size_t size_bytes = 0;
  };

  Buffer() = default;
  // Shows `size_bytes` bytes at `data`, kept alive by `owner`.
  Buffer(std::shared_ptr<const void> owner, const std::byte* data, std::size_t size_bytes);

  // A new allocation that holds a copy of `bytes`.
  static Buffer copy_of(std::span<const std::byte> bytes);

  void append(Slice slice);

  [[nodiscard]] std::size_t size_bytes() const { return size_bytes_; }
  [[nodiscard]] const std::vector<Slice>& slices() const { return slices_; }

  // Has checksum() remember what it computes, for this Buffer and its later copies: for bytes
  // that are sent more than once. append() forgets.
  void remember_checksum();
  // The same, and the checksum is known already: bytes that were received and checked are
  // passed on with the checksum they came with.
  void remember_checksum(std::uint32_t known);
  // CRC32C of all bytes. Also on several threads at once.
  [[nodiscard]] std::uint32_t checksum() const;

  // Copies all bytes to `destination`, which has room for size_bytes() and shares none with
  // the slices. A large copy goes around the caches.
  void copy_to(std::byte* destination) const;
  // `size_bytes` bytes from `offset_bytes` on, sharing the owners. Precondition: not past
  // the end.
  [[nodiscard]] Buffer range(std::size_t offset_bytes, std::size_t size_bytes) const;
  [[nodiscard]] Buffer suffix(std::size_t offset_bytes) const {
    return range(offset_bytes, size_bytes_ - offset_bytes);
  }

 private:
  // A checksum once it is known, over a bit that says so.
  using Remembered = std::atomic<std::uint64_t>;

  std::vector<Slice> slices_;
  std::size_t size_bytes_ = 0;
  std::shared_ptr<Remembered> checksum_;
};

// CRC32C (Castagnoli) of the chain, continuing from `seed`.
std::uint32_t crc32c(const Buffer& buffer, std::uint32_t seed = 0);
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t seed = 0);

}  // namespace square

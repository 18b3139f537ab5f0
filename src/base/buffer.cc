#include "square/buffer.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"

// Sanitizers see ordinary stores only.
#if defined(__SSE2__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include <emmintrin.h>
#define SQUARE_STREAMING_STORES 1
#endif

namespace square {
namespace {

constexpr std::uint64_t kIsKnown = std::uint64_t{1} << 32U;

// From here on a copy goes around the cache: blocks of this size belong to an operation that
// a core's own cache does not hold.
[[maybe_unused]] constexpr std::size_t kStreamedBytes = std::size_t{256} << 10U;

#ifdef SQUARE_STREAMING_STORES
// Writes whole cache lines without reading first what they overwrite: half the time of an
// ordinary copy into memory that is not in the cache. Wants an sfence behind the last call.
void stream(std::byte* to, const std::byte* from, std::size_t size_bytes) {
  constexpr std::size_t kLine = 64;
  const std::size_t before = std::min(size_bytes, -reinterpret_cast<std::uintptr_t>(to) % kLine);
  std::memcpy(to, from, before);
  for (to += before, from += before, size_bytes -= before; size_bytes >= kLine; size_bytes -= kLine) {
    auto* line = reinterpret_cast<__m128i*>(to);
    const auto* bytes = reinterpret_cast<const __m128i*>(from);
    const __m128i first = _mm_loadu_si128(bytes);
    const __m128i second = _mm_loadu_si128(bytes + 1);
    const __m128i third = _mm_loadu_si128(bytes + 2);
    const __m128i fourth = _mm_loadu_si128(bytes + 3);
    _mm_stream_si128(line, first);
    _mm_stream_si128(line + 1, second);
    _mm_stream_si128(line + 2, third);
    _mm_stream_si128(line + 3, fourth);
    to += kLine;
    from += kLine;
  }
  std::memcpy(to, from, size_bytes);
}
#endif

}  // namespace

Buffer::Buffer(std::shared_ptr<const void> owner, const std::byte* data, std::size_t size_bytes) {
  append({std::move(owner), data, size_bytes});
}

Buffer Buffer::copy_of(std::span<const std::byte> bytes) {
  auto storage = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  const std::byte* data = storage->data();
  return {std::move(storage), data, bytes.size()};
}

void Buffer::append(Slice slice) {
  if (slice.size_bytes == 0) return;
  checksum_.reset();
  size_bytes_ += slice.size_bytes;
  slices_.push_back(std::move(slice));
}

void Buffer::remember_checksum() {
  if (!checksum_) checksum_ = std::make_shared<Remembered>(0);
}

void Buffer::remember_checksum(std::uint32_t known) {
  checksum_ = std::make_shared<Remembered>(kIsKnown | known);
}

std::uint32_t Buffer::checksum() const {
  if (!checksum_) return crc32c(*this);
  // The value stands for itself: no other memory is read because of it.
  const std::uint64_t before = checksum_->load(std::memory_order_relaxed);
  if ((before & kIsKnown) != 0) return static_cast<std::uint32_t>(before);
  const std::uint32_t computed = crc32c(*this);
  checksum_->store(kIsKnown | computed, std::memory_order_relaxed);
  return computed;
}

void Buffer::copy_to(std::byte* destination) const {
#ifdef SQUARE_STREAMING_STORES
  if (size_bytes_ >= kStreamedBytes) {
    for (const Slice& slice : slices_) {
      stream(destination, slice.data, slice.size_bytes);
      destination += slice.size_bytes;
    }
    return _mm_sfence();  // before anybody is told that the bytes are there
  }
#endif
  for (const Slice& slice : slices_) {
    std::memcpy(destination, slice.data, slice.size_bytes);
    destination += slice.size_bytes;
  }
}

Buffer Buffer::range(std::size_t offset_bytes, std::size_t size_bytes) const {
  SQUARE_CHECK(offset_bytes <= size_bytes_ && size_bytes <= size_bytes_ - offset_bytes,
               "the range ends past the end");
  Buffer part;
  for (const Slice& slice : slices_) {
    const std::size_t skip = std::min(offset_bytes, slice.size_bytes);
    const std::size_t take = std::min(size_bytes, slice.size_bytes - skip);
    part.append({slice.owner, slice.data + skip, take});
    offset_bytes -= skip;
    size_bytes -= take;
  }
  return part;
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t seed) {
  std::uint32_t crc = ~seed;
  // ISA-L takes an int length and, by an old interface, a non-const pointer that it only reads.
  constexpr std::size_t kMaxRun = 1U << 30U;
  while (!bytes.empty()) {
    const auto run = bytes.first(std::min(bytes.size(), kMaxRun));
    crc = crc32_iscsi(const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(run.data())),
                      static_cast<int>(run.size()), crc);
    bytes = bytes.subspan(run.size());
  }
  return ~crc;
}

std::uint32_t crc32c(const Buffer& buffer, std::uint32_t seed) {
  for (const Buffer::Slice& slice : buffer.slices()) {
    seed = crc32c(std::span(slice.data, slice.size_bytes), seed);
  }
  return seed;
}

}  // namespace square

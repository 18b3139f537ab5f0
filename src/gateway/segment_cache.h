// Segments that a gateway keeps mapped for the next operation: mapped anew, each page costs a fault.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>

#include "gateway/group_table.h"
#include "gateway/segment.h"

namespace square::gateway {

// Of one attachment, and as many as its process keeps itself (SegmentPool).
inline constexpr std::size_t kMaxKeptSegments = 32;
inline constexpr std::uint64_t kMaxKeptBytes = std::uint64_t{256} << 20U;

// Whoever was not used for the longest time goes first. Not thread-safe; a mapping may be used and
// dropped on any thread, and lives as long as somebody uses it.
class SegmentCache {
 public:
  // `total_bytes`: of all attachments.
  explicit SegmentCache(std::uint64_t total_bytes) : total_bytes_(total_bytes) {}

  // A reusable segment, at least `size_bytes` of it. Its file is checked each time, so a mapping is used
  // again only for the file that it shows. Errors: those of open_segment() and map_segment().
  Result<std::shared_ptr<const Mapping>> open(AttachmentId attachment, SentSegment sent,
                                              std::size_t size_bytes);
  void drop(AttachmentId attachment);

  [[nodiscard]] std::uint64_t kept_bytes() const { return kept_bytes_; }
  [[nodiscard]] std::size_t kept_segments() const { return entries_.size(); }

 private:
  struct Entry {
    AttachmentId attachment = 0;
    std::uint64_t device = 0;
    std::uint64_t number = 0;
    std::uint64_t nonce = 0;
    std::shared_ptr<const Mapping> mapping;
  };
  using Place = std::list<Entry>::iterator;
  struct Kept {
    std::size_t segments = 0;
    std::uint64_t bytes = 0;
  };

  void forget(Place place);
  void make_room(AttachmentId attachment, std::uint64_t bytes);
  [[nodiscard]] Place oldest_of(AttachmentId attachment);

  const std::uint64_t total_bytes_;
  std::uint64_t kept_bytes_ = 0;
  std::list<Entry> entries_;  // the one used last is in front
  std::map<AttachmentId, Kept> kept_of_;
};

}  // namespace square::gateway

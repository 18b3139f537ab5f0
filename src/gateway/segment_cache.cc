#include "gateway/segment_cache.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace square::gateway {

Result<std::shared_ptr<const Mapping>> SegmentCache::open(AttachmentId attachment, SentSegment sent,
                                                          std::size_t size_bytes) {
  const std::uint64_t nonce = sent.nonce;
  SQUARE_ASSIGN_OR_RETURN(const SegmentFile file,
                          open_segment(std::move(sent), size_bytes, SegmentUse::kReusable));
  const auto known = std::ranges::find_if(entries_, [&](const Entry& entry) {
    return entry.attachment == attachment && entry.nonce == nonce && entry.device == file.device &&
           entry.number == file.number;
  });
  if (known != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, known);
    return known->mapping;
  }
  const bool is_kept = file.capacity_bytes <= std::min(kMaxKeptBytes, total_bytes_);
  SQUARE_ASSIGN_OR_RETURN(
      Mapping made, map_segment(file, is_kept ? file.capacity_bytes : size_bytes, SegmentUse::kReusable));
  auto mapping = std::make_shared<const Mapping>(std::move(made));
  if (!is_kept) return mapping;
  make_room(attachment, file.capacity_bytes);
  entries_.push_front({attachment, file.device, file.number, nonce, mapping});
  kept_bytes_ += file.capacity_bytes;
  Kept& kept = kept_of_[attachment];
  ++kept.segments;
  kept.bytes += file.capacity_bytes;
  return mapping;
}

void SegmentCache::drop(AttachmentId attachment) {
  for (auto place = entries_.begin(); place != entries_.end();) {
    const auto here = place++;
    if (here->attachment == attachment) forget(here);
  }
}

void SegmentCache::forget(Place place) {
  const std::uint64_t bytes = place->mapping->data().size();
  const auto kept = kept_of_.find(place->attachment);
  kept->second.bytes -= bytes;
  if (--kept->second.segments == 0) kept_of_.erase(kept);
  kept_bytes_ -= bytes;
  entries_.erase(place);
}

SegmentCache::Place SegmentCache::oldest_of(AttachmentId attachment) {
  const auto found = std::find_if(entries_.rbegin(), entries_.rend(),
                                  [&](const Entry& entry) { return entry.attachment == attachment; });
  return std::prev(found.base());
}

void SegmentCache::make_room(AttachmentId attachment, std::uint64_t bytes) {
  for (auto kept = kept_of_.find(attachment); kept != kept_of_.end(); kept = kept_of_.find(attachment)) {
    if (kept->second.segments < kMaxKeptSegments && kept->second.bytes + bytes <= kMaxKeptBytes) break;
    forget(oldest_of(attachment));
  }
  while (kept_bytes_ + bytes > total_bytes_) forget(std::prev(entries_.end()));
}

}  // namespace square::gateway

#include "node/landing/landing.h"

#include <algorithm>

namespace square {

LandedBlock::~LandedBlock() {
  if (!is_kept_) zone_->release(block_);
}

std::size_t BlockShape::block_count() const {
  return std::max<std::size_t>(1, (total_bytes + block_bytes - 1) / block_bytes);
}

std::size_t BlockShape::bytes_of(std::size_t block) const {
  return std::min<std::uint64_t>(total_bytes - std::uint64_t{block} * block_bytes, block_bytes);
}

bool BlockShape::fits(const FrameHeader& header, std::size_t payload_bytes) const {
  if (of(header) != *this) return false;
  if (header.offset_bytes % block_bytes != 0 || header.offset_bytes / block_bytes >= block_count())
    return false;
  return payload_bytes == bytes_of(header.offset_bytes / block_bytes) + (is_sealed ? trust::kSealBytes : 0);
}

LandingZone::LandingZone(BlockShape shape, std::function<void()> drained)
    : shape_(shape), drained_(std::move(drained)), claimed_(shape.block_count(), false) {}

Landing LandingZone::land(const FrameHeader& header, const Buffer& payload) {
  if (!shape_.fits(header, payload.size_bytes())) return {};
  const std::size_t block = header.offset_bytes / shape_.block_bytes;
  if (!enter(header, block)) return {};
  const bool is_written = write(header, payload);
  const bool counts = leave(block, is_written);
  if (!is_written) return {};
  auto landing = std::make_shared<LandedBlock>(shared_from_this(), block, payload.size_bytes());
  if (counts) landing->keep();
  return landing;
}

bool LandingZone::enter(const FrameHeader& header, std::size_t block) {
  const std::lock_guard lock(mutex_);
  if (closed_ || claimed_[block] || !admits(header, block)) return false;
  claimed_[block] = true;
  ++writing_;
  return true;
}

bool LandingZone::leave(std::size_t block, bool is_written) {
  bool counts = false;
  {
    const std::lock_guard lock(mutex_);
    if (!is_written) claimed_[block] = false;
    counts = is_written && counts_at_once(block);
    if (--writing_ > 0 || !closed_) return counts;
  }
  drained_();
  return counts;
}

bool LandingZone::claim(std::size_t block) {
  const std::lock_guard lock(mutex_);
  if (claimed_[block]) return false;
  claimed_[block] = true;
  return true;
}

bool LandingZone::is_claimed_now(std::size_t block) const {
  const std::lock_guard lock(mutex_);
  return claimed_[block];
}

void LandingZone::release(std::size_t block) {
  const std::lock_guard lock(mutex_);
  claimed_[block] = false;
}

std::vector<bool> LandingZone::claimed() const {
  const std::lock_guard lock(mutex_);
  return claimed_;
}

void LandingZone::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

bool LandingZone::is_drained() const {
  const std::lock_guard lock(mutex_);
  return closed_ && writing_ == 0;
}

CopyZone::CopyZone(BlockShape shape, std::vector<std::byte*> destinations, std::function<void()> drained,
                   std::shared_ptr<const trust::BlockOpener> opener)
    : LandingZone(shape, std::move(drained)),
      destinations_(std::move(destinations)),
      opener_(std::move(opener)) {}

bool CopyZone::admits(const FrameHeader&, std::size_t) const { return true; }

bool CopyZone::write(const FrameHeader& header, const Buffer& payload) {
  const auto copy = [&](const Buffer& data) {
    for (std::byte* destination : destinations_) data.copy_to(destination + header.offset_bytes);
  };
  if (!opener_) {
    copy(payload);
    return true;
  }
  // Nothing that is not known to be right comes into a member's buffer, which may be its input, too.
  const auto opened = opener_->open(header.offset_bytes / shape().block_bytes, payload);
  if (opened) copy(*opened);
  return opened.has_value();
}

bool CopyZone::counts_at_once(std::size_t) { return false; }

LandingTable::PeerNumber LandingTable::number_of(const std::string& peer) {
  return numbers_.try_emplace(peer, static_cast<PeerNumber>(numbers_.size())).first->second;
}

void LandingTable::connect(LinkHandle link, const std::string& peer) {
  const std::unique_lock lock(mutex_);
  peers_[link] = number_of(peer);
}

void LandingTable::disconnect(LinkHandle link) {
  const std::unique_lock lock(mutex_);
  peers_.erase(link);
}

void LandingTable::add_stream(const LocalStream& stream) {
  const bool is_sum = stream.kind == SessionKind::kReduce;
  // Of several parents' parts no single one may be added: the order of additions is the plan's.
  const bool may_land = is_sum
                            ? stream.children.empty() && stream.parents.size() == 1
                            : stream.is_destination && (stream.coded == nullptr || stream.block.has_value());
  if (!may_land) return;
  const std::unique_lock lock(mutex_);
  Stream& added = streams_[stream.key];
  added.is_relayed = !stream.children.empty() || !stream.adds_to.empty();
  for (const std::string& parent : stream.parents) added.parents.push_back(number_of(parent));
}

void LandingTable::remove_stream(const StreamKey& key) {
  const std::unique_lock lock(mutex_);
  streams_.erase(key);
}

void LandingTable::open(SessionId session, OperationId operation, std::shared_ptr<LandingZone> zone) {
  const std::unique_lock lock(mutex_);
  zones_[{session, operation}] = std::move(zone);
}

void LandingTable::close(SessionId session, OperationId operation, const std::shared_ptr<LandingZone>& zone) {
  zone->close();
  const std::unique_lock lock(mutex_);
  const auto found = zones_.find({session, operation});
  if (found != zones_.end() && found->second == zone) zones_.erase(found);
}

LandingTable::Place LandingTable::find(LinkHandle link, const FrameHeader& header) const {
  const std::shared_lock lock(mutex_);
  const auto zone = zones_.find({header.session, header.operation});
  if (zone == zones_.end()) return {};
  const auto stream = streams_.find(key_of(header));
  const auto peer = peers_.find(link);
  if (stream == streams_.end() || peer == peers_.end()) return {};
  const std::vector<PeerNumber>& parents = stream->second.parents;
  if (std::ranges::find(parents, peer->second) == parents.end()) return {};
  return {zone->second, stream->second.is_relayed};
}

Landing LandingTable::land(LinkHandle link, Frame& frame) const {
  // The strand looks at what is audited.
  const bool is_audited = frame.header.is_audited && frame.header.is_sealed;
  if (frame.header.type != FrameType::kBlock || is_audited) return {};
  const Place place = find(link, frame.header);
  if (!place.zone) return {};
  Landing landing = place.zone->land(frame.header, frame.payload);
  if (landing && !place.is_relayed) frame.payload = {};
  return landing;
}

}  // namespace square

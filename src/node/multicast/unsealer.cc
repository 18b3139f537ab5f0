#include "node/multicast/unsealer.h"

#include <fmt/format.h>

#include <utility>

#include "node/codes/coded_payload.h"

namespace square {

void Unsealer::set_sealing(Sealing sealing) {
  if (opener_) return;
  source_ = sealing.source;
  if (!shape_.is_sealed || !sealing.key) return;
  opener_ = std::make_shared<const trust::BlockOpener>(
      sealing.key, sealed_cargo(sealing, place_.incarnation, place_.session, place_.operation, shape_));
}

// On the strand: mostly it has landed, and was opened by the thread that has received it.
bool Unsealer::open(std::size_t block, Arrival& arrival) {
  if (!shape_.is_sealed) return true;
  auto opened = opener_->open(block, arrival.frame.payload);
  if (opened) {
    arrival.frame.payload = *std::move(opened);
    return true;
  }
  refuse_forged(arrival.from, fmt::format("session {}, operation {}, block {}", place_.session.value(),
                                          place_.operation.value(), block));
  return false;
}

bool Unsealer::may_be_sum(const FrameHeader& header, std::size_t size, const PlanCode& code) const {
  if (shape_.is_sealed && has_floats(header)) return false;
  return size <= shape_.block_bytes + (shape_.is_sealed ? trust::kSealBytes : 0) + checksum_bytes(code);
}

Status Unsealer::refuse(const Arrival& arrival, const std::string& why) {
  if (!opener_) return data_loss(why);
  refuse_forged(arrival.from, why);
  return Status::ok();
}

void Unsealer::note_wrong() {
  if (opener_) alarmed_until_ = node_->clock.now() + kAuditTime;
}

void Unsealer::refuse_forged(std::string_view from, const std::string& what) {
  node_->refuse_forged(from, source_, what);
  alarmed_until_ = node_->clock.now() + kAuditTime;
}

}  // namespace square

#include "node/audit/auditor.h"

#include <utility>

#include "trust/block_audit.h"

namespace square {

void Auditor::suspect(SessionId session) {
  const TimePoint now = clock_.now();
  std::erase_if(suspects_, [&](const auto& entry) { return entry.second <= now; });
  suspects_[session] = now + kAuditTime;
}

bool Auditor::is_suspect(SessionId session) const {
  const auto found = suspects_.find(session);
  return found != suspects_.end() && clock_.now() < found->second;
}

void Auditor::note(const Frame& frame, std::string_view from) {
  if (!report_) return;
  const FrameHeader& header = frame.header;
  BlockSight sight{
      {header.epoch, header.origin, header.session, header.stream, header.operation, header.stream_sequence},
      std::string(from),
      {}};
  sight.digest =
      trust::digest_of({static_cast<std::uint64_t>(header.is_sealed), header.incarnation, header.attempt,
                        header.layout.value(), header.element_type, header.reduce_op, header.call,
                        header.offset_bytes, header.total_bytes, header.block_bytes},
                       frame.payload);
  sights_.push_back(std::move(sight));
  if (sights_.size() >= kMaxSightsTold) return tell();
  if (timer_ == 0) timer_ = executor_.post_at(clock_.now() + kSightsDelay, life_.bind([this] { tell(); }));
}

void Auditor::tell() {
  executor_.cancel(timer_);
  timer_ = 0;
  report_(std::exchange(sights_, {}));
}

}  // namespace square

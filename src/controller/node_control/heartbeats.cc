#include "controller/node_control/heartbeats.h"

#include "base/log.h"
#include "controller/protocol.h"
#include "trust/group_keys.h"

namespace square::controller {

// Empty where there is none, or the identity's files cannot be read: then others go on with what they know.
std::string Heartbeats::share() const {
  if (!keys_) return {};
  const auto share = keys_->share();
  if (share.is_ok()) return *share;
  log(LogLevel::kWarning, {.component = "controller client", .node = node_},
      "node {}: what others seal keys with for it stays as it was: {}", node_, share.status().message());
  return {};
}

void Heartbeats::introduce(v1::Hello& hello) {
  hello.set_key_share(share());
  told_share_ = hello.key_share();
}

v1::NodeEvent Heartbeats::next(TimePoint now) {
  v1::NodeEvent event;
  v1::Heartbeat& beat = *event.mutable_heartbeat();
  if (events_.heard) {
    for (const std::string& peer : events_.heard()) beat.add_heard(peer);
  }
  if (events_.measured) {
    for (const LinkReport& report : events_.measured()) *beat.add_links() = to_message(report, now);
  }
  const std::string share = this->share();
  if (!share.empty() && share != told_share_) {
    beat.set_key_share(share);
    told_share_ = share;
  }
  for (const auto& [collective, bytes] : take_used_()) {
    v1::CollectiveUse& use = *beat.add_used();
    use.set_collective(collective.value());
    use.set_bytes(bytes);
  }
  return event;
}

}  // namespace square::controller

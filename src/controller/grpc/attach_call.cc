#include "controller/grpc/attach_call.h"

#include <utility>

#include "base/check.h"
#include "controller/grpc/status.h"
#include "controller/protocol.h"
#include "trust/grpc/credentials.h"

namespace square::controller {

void AttachCall::send(std::shared_ptr<const v1::ControllerEvent> event) {
  if (host_.signer) {
    auto made = host_.signer->sign(admitted_, std::move(event));
    if (!made.is_ok()) return end_later(made.status().with_context("cannot sign a plan"));
    event = std::move(*made);
  }
  push(std::move(event));  // where the queue is full the next heartbeat cuts the line
}

void AttachCall::lost() {
  if (!node_.empty() && !said_goodbye_) host_.coordinator.lost(node_, this);
}

void AttachCall::heard(v1::NodeEvent& event) {
  if (host_.door != nullptr) host_.door->hear(context().peer(), event.ByteSizeLong());
  const Status status = receive(event);
  host_.refusals.note(context(), "a line", status);
  if (status.is_ok() && !said_goodbye_ && read_next()) return;
  lost();
  // Without an error of its own the line is over because it does not read, or is being closed already.
  close(status, status.is_ok() && !said_goodbye_);
}

// Whether the node is who it says; what it says of its own certificate is what it has shown.
Status AttachCall::admit(v1::Hello& hello) {
  hello.clear_fingerprint();
  admitted_ = hello.node();
  if (!identity_) return {};
  certificate_ = trust::certificate_of(*context().auth_context());
  SQUARE_RETURN_IF_ERROR(check_identity());
  hello.set_fingerprint(certificate_->fingerprint);
  SQUARE_RETURN_IF_ERROR(identity_->check(*certificate_, {Role::kNode, Role::kServer}, hello.node()));
  auto event = std::make_shared<v1::ControllerEvent>();
  *event->mutable_revoked() = to_message(identity_->revoked());
  if (event->revoked().names_size() > 0) send(std::move(event));
  return {};
}

// Also later: it may have been revoked meanwhile.
Status AttachCall::check_identity() const {
  if (!identity_) return {};
  if (!certificate_) return unauthenticated("the caller has shown no certificate");
  return identity_->check(*certificate_, {}, "");
}

Status AttachCall::receive(v1::NodeEvent& event) {
  using Event = v1::NodeEvent::EventCase;
  if (node_.empty() != (event.event_case() == Event::kHello)) {
    return invalid_argument("a line begins with one hello");
  }
  if (!node_.empty()) SQUARE_RETURN_IF_ERROR(check_identity());
  switch (event.event_case()) {
    case Event::kHello: {
      SQUARE_RETURN_IF_ERROR(admit(*event.mutable_hello()));
      const auto self = std::static_pointer_cast<AttachCall>(shared_from_this());
      SQUARE_RETURN_IF_ERROR(host_.coordinator.join(event.hello(), self));
      node_ = event.hello().node();
      known();
      if (host_.door != nullptr) SQUARE_RETURN_IF_ERROR(host_.door->know(context(), 0));
      return {};
    }
    case Event::kHeartbeat: host_.coordinator.heartbeat(node_, this, event.heartbeat()); break;
    case Event::kBrokenLinks: host_.coordinator.broken_links(node_, this, event.broken_links()); break;
    case Event::kInstalled:
      host_.coordinator.installed(node_, this, Epoch(event.installed().epoch()), event.installed().moving());
      break;
    case Event::kLacking: host_.coordinator.lacking(node_, this, Epoch(event.lacking().epoch())); break;
    case Event::kClosed: host_.coordinator.closed(node_, this, event.closed()); break;
    case Event::kExamined: host_.inquiries.answer(node_, event.examined()); break;
    case Event::kSights: host_.suspicions.note(node_, event.sights()); break;
    case Event::kGoodbye:
      said_goodbye_ = true;
      host_.coordinator.goodbye(node_, this, event.goodbye());
      break;
    case Event::EVENT_NOT_SET: host_.refusals.note_unknown(node_); break;  // of a later release
  }
  return {};
}

}  // namespace square::controller

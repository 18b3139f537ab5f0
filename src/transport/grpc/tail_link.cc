#include "transport/grpc/tail_link.h"

#include <fmt/format.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <utility>

#include "transport/grpc/limits.h"

namespace square::rpc {

TailLink::TailLink(LinkOwner& owner, LinkHandle handle, grpc::CompletionQueue& queue, std::string peer,
                   std::string address, const grpc::ChannelArguments& arguments)
    : Link(owner, handle, LinkEnd::kTail, queue),
      target_(std::move(peer)),
      address_(std::move(address)),
      arguments_(arguments) {}

void TailLink::begin() {
  const Identity& self = owner_.identity();
  channel_ = grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), arguments_);
  context_ = std::make_unique<grpc::ClientContext>();
  context_->AddMetadata(kVersionKey, std::to_string(kProtocolVersion));
  context_->AddMetadata(kFromKey, percent_encode(self.name));
  context_->AddMetadata(kToKey, percent_encode(target_));
  if (!self.token.empty()) context_->AddMetadata(kTokenKey, percent_encode(self.token));
  stream_ = grpc::GenericStub(channel_).PrepareCall(context_.get(), kMethod, &queue_);
  stream_->StartCall(expect(Op::kStart));
  deadline_.Set(&queue_, std::chrono::system_clock::now() + kConnectDeadline, expect(Op::kDeadline));
}

void TailLink::advance(Op op, bool ok) {
  switch (op) {
    case Op::kStart:
      if (!ok) return conclude();
      return stream_->ReadInitialMetadata(expect(Op::kMetadata));
    case Op::kMetadata:
      if (!ok || is_closing() || !was_accepted()) return conclude();
      deadline_.Cancel();
      return go_up(target_);
    case Op::kDeadline:
      if (!ok || is_up() || has_ended()) return;
      return fail(
          unavailable(fmt::format("cannot reach node \"{}\" at {}: no answer within {} ms; is it running?",
                                  target_, address_, kConnectDeadline.count())));
    case Op::kFinish:
      deadline_.Cancel();
      settle();
      return end(explain());
    default: return;
  }
}

void TailLink::settle() {
  // gRPC 1.51 sometimes loses the socket of a channel that goes while it connects. A
  // process that is about to end can bear that, one that tries again for days cannot.
  if (owner_.is_stopping() || channel_->GetState(false) != GRPC_CHANNEL_CONNECTING) return;
  channel_->NotifyOnStateChange(GRPC_CHANNEL_CONNECTING, std::chrono::system_clock::now() + kConnectDeadline,
                                &queue_, expect(Op::kSettled));
}

bool TailLink::was_accepted() const {
  const auto& metadata = context_->GetServerInitialMetadata();
  const auto version = metadata.find(kVersionKey);
  return version != metadata.end() && version->second == std::to_string(kProtocolVersion);
}

void TailLink::finish() {
  if (is_closing()) context_->TryCancel();
  stream_->Finish(&status_, expect(Op::kFinish));
}

void TailLink::release() {
  stream_.reset();
  context_.reset();
  channel_.reset();
}

Status TailLink::explain() const {
  const std::string& words = status_.error_message();
  const auto code = static_cast<StatusCode>(status_.error_code());
  if (!is_up()) {
    if (code == StatusCode::kUnavailable) {
      return unavailable(
          fmt::format("cannot reach node \"{}\" at {}: {}; is it running?", target_, address_, words));
    }
    if (code == StatusCode::kOk || code == StatusCode::kUnimplemented) {
      return unavailable(fmt::format(
          "cannot reach node \"{}\" at {}: what listens there is not a Square node; check the address",
          target_, address_));
    }
    if (code == StatusCode::kCancelled) {
      return unavailable(
          fmt::format("node \"{}\" at {} closed the link before it was up", target_, address_));
    }
    return {code, fmt::format("node \"{}\" at {} refused the link: {}", target_, address_, words)};
  }
  if (code == StatusCode::kOk || code == StatusCode::kCancelled) {
    return unavailable(fmt::format("node \"{}\" at {} closed the link", target_, address_));
  }
  return {code, fmt::format("lost the link to node \"{}\" at {}: {}", target_, address_, words)};
}

}  // namespace square::rpc

#include "transport/grpc/tail_channel.h"

#include <fmt/format.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/grpc/limits.h"

namespace square::rpc {
namespace {

// The host answers that no process listens at the port. gRPC says so in words only, those of the system.
bool is_refusal(const std::string& words) {
  return words.find(std::strerror(ECONNREFUSED)) != std::string::npos;
}

}  // namespace

TailChannel::TailChannel(ChannelOwner& owner, std::shared_ptr<Link> link, std::size_t number,
                         grpc::CompletionQueue& queue, const Destination& to,
                         const grpc::ChannelArguments& arguments)
    : Channel(owner, LinkEnd::kTail, queue), to_(to), arguments_(arguments) {
  join(std::move(link), number);
}

void TailChannel::begin() {
  const Identity& self = owner_.identity();
  channel_ = grpc::CreateCustomChannel(to_.address, grpc::InsecureChannelCredentials(), arguments_);
  context_ = std::make_unique<grpc::ClientContext>();
  context_->AddMetadata(kVersionKey, std::to_string(kProtocolVersion));
  context_->AddMetadata(kFromKey, percent_encode(self.name));
  context_->AddMetadata(kToKey, percent_encode(to_.peer));
  context_->AddMetadata(kLinkKey, link().id());
  context_->AddMetadata(kChannelKey, std::to_string(number()));
  if (!self.token.empty()) context_->AddMetadata(kTokenKey, percent_encode(self.token));
  stream_ = grpc::GenericStub(channel_).PrepareCall(context_.get(), kMethod, &queue_);
  stream_->StartCall(expect(Op::kStart));
  deadline_.Set(&queue_, std::chrono::system_clock::now() + kConnectDeadline, expect(Op::kDeadline));
}

void TailChannel::advance(Op op, bool ok) {
  switch (op) {
    case Op::kStart:
      if (!ok) return conclude();
      return stream_->ReadInitialMetadata(expect(Op::kMetadata));
    case Op::kMetadata:
      if (!ok || is_closing() || !was_accepted()) return conclude();
      deadline_.Cancel();
      if (number() == 0) arm_tick();
      return go_up(to_.peer);
    case Op::kTick:
      if (!ok || is_closing() || has_ended()) return;
      link().on_tick(*this);
      return arm_tick();
    case Op::kDeadline:
      if (!ok || is_up() || has_ended()) return;
      return fail(
          unavailable(fmt::format("cannot reach node \"{}\" at {}: no answer within {} ms; is it running?",
                                  to_.peer, to_.address, kConnectDeadline.count())));
    case Op::kFinish:
      deadline_.Cancel();
      tick_.Cancel();
      settle();
      return end(explain());
    default: return;
  }
}

void TailChannel::arm_tick() {
  tick_.Set(&queue_, std::chrono::system_clock::now() + kRoundTripInterval, expect(Op::kTick));
}

void TailChannel::settle() {
  // gRPC 1.51 sometimes loses the socket of a channel that goes while it connects. A
  // process that is about to end can bear that, one that tries again for days cannot.
  if (owner_.is_stopping() || channel_->GetState(false) != GRPC_CHANNEL_CONNECTING) return;
  channel_->NotifyOnStateChange(GRPC_CHANNEL_CONNECTING, std::chrono::system_clock::now() + kConnectDeadline,
                                &queue_, expect(Op::kSettled));
}

bool TailChannel::was_accepted() const {
  const auto& metadata = context_->GetServerInitialMetadata();
  const auto version = metadata.find(kVersionKey);
  return version != metadata.end() && version->second == std::to_string(kProtocolVersion);
}

void TailChannel::finish() {
  if (is_closing()) context_->TryCancel();
  stream_->Finish(&status_, expect(Op::kFinish));
}

void TailChannel::release() {
  stream_.reset();
  context_.reset();
  channel_.reset();
}

Status TailChannel::explain() const {
  const std::string& words = status_.error_message();
  const auto code = static_cast<StatusCode>(status_.error_code());
  if (!is_up()) {
    if (is_refusal(words)) {
      return not_found(fmt::format("cannot reach node \"{}\" at {}: nobody listens there; is it running?",
                                   to_.peer, to_.address));
    }
    if (code == StatusCode::kUnavailable) {
      return unavailable(
          fmt::format("cannot reach node \"{}\" at {}: {}; is it running?", to_.peer, to_.address, words));
    }
    if (code == StatusCode::kOk || code == StatusCode::kUnimplemented) {
      return unavailable(fmt::format(
          "cannot reach node \"{}\" at {}: what listens there is not a Square node; check the address",
          to_.peer, to_.address));
    }
    if (code == StatusCode::kCancelled) {
      return unavailable(
          fmt::format("node \"{}\" at {} closed the link before it was up", to_.peer, to_.address));
    }
    return {code, fmt::format("node \"{}\" at {} refused the link: {}", to_.peer, to_.address, words)};
  }
  if (code == StatusCode::kOk || code == StatusCode::kCancelled) {
    return unavailable(fmt::format("node \"{}\" at {} closed the link", to_.peer, to_.address));
  }
  return {code, fmt::format("lost the link to node \"{}\" at {}: {}", to_.peer, to_.address, words)};
}

}  // namespace square::rpc

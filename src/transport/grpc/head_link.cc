#include "transport/grpc/head_link.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "transport/grpc/limits.h"

namespace square::rpc {
namespace {

grpc::Status to_grpc(const Status& status) {
  if (status.is_ok()) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.code()), status.message()};
}

}  // namespace

HeadLink::HeadLink(LinkOwner& owner, LinkHandle handle, grpc::ServerCompletionQueue& queue)
    : Link(owner, handle, LinkEnd::kHead, queue), server_queue_(queue), stream_(&context_) {}

void HeadLink::listen(grpc::AsyncGenericService& service) {
  service.RequestCall(&context_, &stream_, &server_queue_, &server_queue_, expect(Op::kStart));
}

void HeadLink::advance(Op op, bool ok) {
  switch (op) {
    case Op::kStart:
      if (!ok) return end(cancelled("the transport was stopped"));
      called_ = true;
      owner_.accept_next();
      return on_call();
    case Op::kMetadata:
      if (!ok || is_closing()) return conclude();
      return go_up(std::move(caller_));
    case Op::kFinish: return end(unavailable(fmt::format("node \"{}\" closed the link or was lost", peer())));
    default: return;
  }
}

void HeadLink::on_call() {
  if (is_closing()) return conclude();
  const auto metadata = [this](std::string_view key) {
    const auto& all = context_.client_metadata();
    const auto found = all.find(grpc::string_ref(key.data(), key.size()));
    return found == all.end() ? std::string() : std::string(found->second.data(), found->second.size());
  };
  auto caller = check_handshake(owner_.identity(), context_.method(), metadata);
  if (caller.is_ok()) {
    admitted_ = owner_.admit_incoming();
    if (!admitted_) {
      caller = resource_exhausted(fmt::format("node \"{}\" has {} incoming links already",
                                              owner_.identity().name, kMaxIncomingLinks));
    }
  }
  if (!caller.is_ok()) {
    log(LogLevel::kWarning, "transport", "refused a link from {}: {}", context_.peer(),
        caller.status().message());
    return conclude(caller.status());
  }
  caller_ = std::move(caller).value();
  context_.AddInitialMetadata(kVersionKey, std::to_string(kProtocolVersion));
  stream_.SendInitialMetadata(expect(Op::kMetadata));
}

void HeadLink::release() {
  if (admitted_) owner_.dismiss_incoming();
}

void HeadLink::cancel() {
  if (called_) context_.TryCancel();
}

void HeadLink::finish() { stream_.Finish(to_grpc(reason().value_or(Status::ok())), expect(Op::kFinish)); }

}  // namespace square::rpc

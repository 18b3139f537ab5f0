#include "transport/grpc/head_channel.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "base/net/address.h"
#include "transport/grpc/limits.h"
#include "trust/grpc/credentials.h"

namespace square::rpc {
namespace {

grpc::Status to_grpc(const Status& status) {
  if (status.is_ok()) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.code()), status.message()};
}

}  // namespace

HeadChannel::HeadChannel(ChannelOwner& owner, grpc::ServerCompletionQueue& queue)
    : Channel(owner, LinkEnd::kHead, queue), server_queue_(queue), stream_(&context_) {}

void HeadChannel::listen(grpc::AsyncGenericService& service) {
  service.RequestCall(&context_, &stream_, &server_queue_, &server_queue_, expect(Op::kStart));
}

void HeadChannel::advance(Op op, bool ok) {
  switch (op) {
    case Op::kStart:
      if (!ok) return end(cancelled("the transport was stopped"));
      called_ = true;
      owner_.accept_next();
      return on_call();
    case Op::kMetadata:
      if (!ok || is_closing()) return conclude();
      return go_up(caller_);
    case Op::kFinish: return end(unavailable(fmt::format("node \"{}\" closed the link or was lost", peer())));
    default: return;
  }
}

void HeadChannel::on_call() {
  connection_ = owner_.connection_of(context_.peer());
  if (is_closing()) return conclude();
  if (context_.method() == kAskMethod) return answer();
  const Status admitted = admit();
  if (!admitted.is_ok()) {
    const auto shown = trust::certificate_of(*context_.auth_context());
    const std::string who =
        shown && shown->name ? square::to_string(*shown->name) : std::string(net::host_part(context_.peer()));
    log_seldom(owner_.refusals(), who, {.component = "transport"}, "refused a link from {} ({}): {}",
               context_.peer(), who, admitted.message());
    return conclude(admitted);
  }
  connection_->accept_call();
  context_.AddInitialMetadata(kVersionKey, std::to_string(version_));
  stream_.SendInitialMetadata(expect(Op::kMetadata));
}

// Says who this is, and whether a link would be accepted.
void HeadChannel::answer() {
  const Result<Caller> caller = check_caller();
  const std::uint32_t version = caller.is_ok() ? caller->version : link_versions().newest;
  context_.AddInitialMetadata(kVersionKey, std::to_string(version));
  context_.AddInitialMetadata(kNodeKey, percent_encode(owner_.self().name));
  conclude(caller.status());
}

Result<Caller> HeadChannel::check_caller() {
  const auto metadata = [this](std::string_view key) {
    const auto& all = context_.client_metadata();
    const auto found = all.find(grpc::string_ref(key.data(), key.size()));
    return found == all.end() ? std::string() : std::string(found->second.data(), found->second.size());
  };
  if (connection_ == nullptr) return unavailable("the connection is gone");
  if (!connection_->begin_call()) {
    connection_->shut();
    connection_.reset();  // its first call's
    return resource_exhausted("a connection carries one call");
  }
  SQUARE_ASSIGN_OR_RETURN(Caller caller, check_handshake(owner_.self(), context_.method(), metadata));
  SQUARE_RETURN_IF_ERROR(trust::check_caller(owner_.self().identity, *context_.auth_context(),
                                             {Role::kNode, Role::kServer}, caller.name));
  return caller;
}

Status HeadChannel::admit() {
  SQUARE_ASSIGN_OR_RETURN(const Caller caller, check_caller());
  SQUARE_ASSIGN_OR_RETURN(std::shared_ptr<Link> link, owner_.admit(caller));
  admitted_ = true;
  SQUARE_RETURN_IF_ERROR(link->add_channel(shared_from_this(), caller.channel));
  caller_ = caller.name;
  version_ = caller.version;
  link->evidence.note(trust::certificate_of(*context_.auth_context()));
  join(std::move(link), caller.channel);
  return Status::ok();
}

void HeadChannel::release() {
  if (connection_ != nullptr) connection_->end_call();
  if (admitted_) owner_.dismiss();
}

void HeadChannel::note_message(std::size_t size_bytes) { connection_->note_message(size_bytes); }

void HeadChannel::note_write(bool begun, std::size_t /*size_bytes*/) { connection_->note_write(begun); }

void HeadChannel::cancel() {
  if (!called_) return;
  context_.TryCancel();
  if (connection_ != nullptr) connection_->end_call();
}

void HeadChannel::finish() { stream_.Finish(to_grpc(reason().value_or(Status::ok())), expect(Op::kFinish)); }

}  // namespace square::rpc

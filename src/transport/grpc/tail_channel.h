// The end that dials: a client's call.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/channel_arguments.h>

#include "transport/grpc/link.h"

namespace square::rpc {

// Where a link leads to; shared by its channels.
struct Destination {
  std::string peer;
  std::string address;
};

class TailChannel final : public Channel {
 public:
  // `arguments` and `queue` outlive the channel.
  TailChannel(ChannelOwner& owner, std::shared_ptr<Link> link, std::size_t number,
              grpc::CompletionQueue& queue, const Destination& to, const grpc::ChannelArguments& arguments);

 private:
  void begin() override;
  void advance(Op op, bool ok) override;
  void read(grpc::ByteBuffer& message, void* tag) override { stream_->Read(&message, tag); }
  void write(const grpc::ByteBuffer& message, void* tag) override { stream_->Write(message, tag); }
  void cancel() override { context_->TryCancel(); }
  void finish() override;
  void release() override;

  void arm_tick();
  // Has the channel wait until gRPC's does not connect any more.
  void settle();
  [[nodiscard]] bool was_accepted() const;
  // Why the call ended, in words for the node.
  [[nodiscard]] Status explain() const;

  const Destination to_;
  const grpc::ChannelArguments& arguments_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;  // goes before its context
  grpc::Status status_;
  grpc::Alarm deadline_;
  grpc::Alarm tick_;
};

}  // namespace square::rpc

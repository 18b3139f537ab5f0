// The end that is dialled: a server's call, from the wait for one on.
#pragma once

#include <grpcpp/generic/async_generic_service.h>

#include "transport/grpc/connection.h"
#include "transport/grpc/link.h"

namespace square::rpc {

class HeadChannel final : public Channel {
 public:
  HeadChannel(ChannelOwner& owner, grpc::ServerCompletionQueue& queue);

  // Waits for the next call of any peer. Call once.
  void listen(grpc::AsyncGenericService& service);

 private:
  void advance(Op op, bool ok) override;
  void read(grpc::ByteBuffer& message, void* tag) override { stream_.Read(&message, tag); }
  void write(const grpc::ByteBuffer& message, void* tag) override { stream_.Write(message, tag); }
  void cancel() override;
  void finish() override;
  void release() override;
  void note_message(std::size_t size_bytes) override;
  void note_write(bool begun, std::size_t size_bytes) override;

  void on_call();
  void answer();
  // The handshake of the connection's first call.
  Result<Caller> check_caller();
  // Whether the call is let in; joins its link.
  Status admit();

  grpc::ServerCompletionQueue& server_queue_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_;
  std::string caller_;         // a peer that was accepted, before the channel is up
  std::uint32_t version_ = 0;  // that both speak
  std::shared_ptr<Connection> connection_;
  bool called_ = false;
  bool admitted_ = false;
};

}  // namespace square::rpc

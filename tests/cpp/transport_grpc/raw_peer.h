// A client of the wire that is not Square: says what it likes.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>

#include <map>
#include <memory>
#include <span>
#include <string>

#include "square/identity.h"
#include "trust/grpc/credentials.h"

namespace square::testing {

class RawPeer {
 public:
  using Metadata = std::map<std::string, std::string>;

  RawPeer(const std::string& address, const Metadata& metadata,
          const std::string& method = "/square.v1.Link/Carry", std::shared_ptr<Identity> identity = nullptr,
          grpc_compression_algorithm compression = GRPC_COMPRESS_NONE) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel_ = grpc::CreateCustomChannel(address, trust::channel_credentials(identity, {}), arguments);
    context_.set_compression_algorithm(compression);
    for (const auto& [key, value] : metadata) context_.AddMetadata(key, value);
    call_ = grpc::GenericStub(channel_).PrepareCall(&context_, method, &queue_);
    call_->StartCall(nullptr);
    next();
    call_->ReadInitialMetadata(nullptr);
    next();
  }
  ~RawPeer() {
    context_.TryCancel();
    if (!finished_) (void)finish();
    queue_.Shutdown();
    while (next()) {
    }
  }

  // Of the answer's metadata; empty where it is not there.
  [[nodiscard]] std::string answered(const char* key) const {
    const auto& metadata = context_.GetServerInitialMetadata();
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::string() : std::string(found->second.data(), found->second.size());
  }
  [[nodiscard]] bool was_accepted() const { return !answered("square-version").empty(); }

  bool write(std::span<const std::byte> bytes) {
    const grpc::Slice slice(bytes.data(), bytes.size());
    return write(grpc::ByteBuffer(&slice, 1));
  }
  bool write(const grpc::ByteBuffer& message) {
    call_->Write(message, nullptr);
    return next();
  }

  // The server's verdict.
  grpc::Status finish() {
    grpc::Status status;
    call_->Finish(&status, nullptr);
    next();
    finished_ = true;
    return status;
  }

 private:
  bool next() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  std::shared_ptr<grpc::Channel> channel_;
  grpc::CompletionQueue queue_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  bool finished_ = false;
};

}  // namespace square::testing

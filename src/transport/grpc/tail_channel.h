// The end that dials: a client's call.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/channel_arguments.h>

#include <cstdint>

#include "base/net/file_descriptor.h"
#include "transport/grpc/caught_socket.h"
#include "transport/grpc/dial.h"
#include "transport/grpc/link.h"

namespace square::rpc {

// Where a link leads to; shared by its channels.
struct Destination {
  std::string peer;
  std::string address;
};

class TailChannel final : public Channel {
 public:
  struct Settings {
    const grpc::ChannelArguments& arguments;
    Dialler& dialler;
    Duration silence_deadline{0};
  };
  // The arguments, the dialler and `queue` outlive the channel.
  TailChannel(ChannelOwner& owner, std::shared_ptr<Link> link, std::size_t number,
              grpc::CompletionQueue& queue, const Destination& to, const Settings& settings);

 private:
  void begin() override;
  void advance(Op op, bool ok) override;
  void read(grpc::ByteBuffer& message, void* tag) override { stream_->Read(&message, tag); }
  void write(const grpc::ByteBuffer& message, void* tag) override { stream_->Write(message, tag); }
  void cancel() override;
  void finish() override;
  void release() override;
  void note_write(bool begun, std::size_t size_bytes) override;
  std::size_t room() override;
  SocketFigures figures() override;
  bool begin_close_looks() override;
  void part();

  void on_accepted();
  void arm_deadline(std::chrono::milliseconds time);
  void on_deadline();
  void look_for_socket();
  void arm_tick();
  void arm_probe();
  [[nodiscard]] bool has_taken();
  void begin_sealed();
  void on_socket(Result<net::FileDescriptor> dialled);
  void call();
  [[nodiscard]] bool was_accepted() const;
  [[nodiscard]] Status unreachable(const std::string& why) const;
  // Why the call ended, in words for the node.
  [[nodiscard]] Status explain() const;

  const Destination to_;
  const Settings settings_;
  std::shared_ptr<Dial> dial_;
  std::shared_ptr<CaughtSocket> caught_;  // where gRPC dials by itself
  // A duplicate of gRPC's own: a write that is stuck ends with the socket alone.
  net::FileDescriptor socket_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;  // goes before its context
  grpc::Status status_;
  grpc::Alarm deadline_;
  bool shakes_hands_ = false;  // for longer than a connection may take
  grpc::Alarm tick_;
  bool is_ticking_ = false;
  std::uint64_t taken_bytes_ = 0;  // by the peer, as of the last tick
  SendQueue queued_;
  grpc::Alarm room_alarm_;
  bool waits_for_room_ = false;
  grpc::Alarm probe_alarm_;
  bool looks_closely_ = false;
  bool is_local_ = false;  // the peer is on this machine: no network limits
};

}  // namespace square::rpc

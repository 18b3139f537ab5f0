// A gateway's end of one process: who it is, and what it says.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "gateway/group_table.h"
#include "gateway/local_socket.h"
#include "gateway/message_socket.h"
#include "gateway/segment.h"
#include "square/v1/gateway.pb.h"

namespace square::gateway {

class Attachment;

// A process's memory for an operation; without a descriptor where there is none.
struct StagedMemory {
  SentSegment input;
  SentSegment output;
};

// What an attachment needs of its gateway. Called on the loop's thread.
class AttachmentHost {
 public:
  virtual ~AttachmentHost() = default;
  // Errors: UNAUTHENTICATED, FAILED_PRECONDITION, RESOURCE_EXHAUSTED. Fills in the answer.
  // `probe`: the segment of the hello, if it has one.
  virtual Status greet(Attachment& from, const v1::GatewayHello& hello, SentSegment probe,
                       v1::GatewayWelcome& welcome) = 0;
  virtual Status register_group(Attachment& from, std::uint64_t number,
                                const v1::GatewayRegister& request) = 0;
  virtual void close_group(Attachment& from, const v1::GatewayClose& message) = 0;
  virtual Status post(Attachment& from, std::uint64_t number, const v1::GatewayPost& call) = 0;
  virtual Status staged(Attachment& from, std::uint64_t number, StagedMemory where) = 0;
  virtual Result<ChunkTarget> place_chunk(Attachment& from, const Header& header) = 0;
  virtual void took_chunk(Attachment& from, const Header& header) = 0;
  virtual void cancel(Attachment& from, std::uint64_t number) = 0;
  virtual void fail(Attachment& from, const v1::GatewayFail& message) = 0;
  virtual void watch(Attachment& from, std::uint64_t number, const v1::GatewayWatch& message) = 0;
  virtual void streamed(Attachment& from, std::uint64_t number) = 0;
  // The last call; the attachment is destroyed inside of it.
  virtual void gone(Attachment& from, const Status& reason) = 0;
};

class Attachment final : public MessageHandler {
 public:
  Attachment(AttachmentHost& host, EventLoop& loop, AttachmentId id, FileDescriptor socket, LocalPeer peer);
  ~Attachment() override;
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

  [[nodiscard]] AttachmentId id() const { return id_; }
  [[nodiscard]] bool is_known() const { return is_known_; }
  [[nodiscard]] bool said_goodbye() const { return said_goodbye_; }
  // "process 17 of tenant "alice""
  [[nodiscard]] std::string describe() const;

  [[nodiscard]] const LocalPeer& peer() const { return peer_; }
  // Ends the connection without a word.
  void drop(const Status& reason);

  // Of the hello, or of the first group.
  std::string tenant;
  bool is_shared = false;

  void send(MessageType type, std::uint64_t number, const google::protobuf::MessageLite& message);
  void send(MessageType type, std::uint64_t number) { connection_.send(type, number); }
  void stream(std::uint64_t number, std::span<const std::byte> data, std::shared_ptr<const void> owner) {
    connection_.stream(number, data, std::move(owner));
  }
  // Tells it why, and ends the connection.
  void close(const Status& reason);
  void tick(Duration heartbeat, Duration lease, Duration handshake);

  Result<ChunkTarget> on_header(const Header& header) override;
  Status on_message(const Header& header, std::span<const std::byte> body, Descriptors descriptors) override;
  void on_streamed(std::uint64_t number) override { host_.streamed(*this, number); }
  void on_down(const Status& reason) override { host_.gone(*this, reason); }

 private:
  Status take(const Header& header, std::span<const std::byte> body, Descriptors descriptors);
  Status take_hello(const Header& header, std::span<const std::byte> body, Descriptors descriptors);
  void watch_process();

  AttachmentHost& host_;
  EventLoop& loop_;
  const AttachmentId id_;
  const LocalPeer peer_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  bool is_known_ = false;
  bool said_goodbye_ = false;
  bool is_closing_ = false;
  FileDescriptor process_;  // none: its end is seen by the connection alone
  std::optional<EventLoop::WatchId> process_watch_;
  MessageSocket connection_;
};

}  // namespace square::gateway

// One gRPC call of a link: one write and one read at a time.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/support/byte_buffer.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "square/transport.h"
#include "transport/grpc/channel_owner.h"
#include "transport/grpc/pieces.h"
#include "transport/grpc/send_queue.h"

namespace square::rpc {

// The frames of one message, which the link gave out one after the other.
struct FrameTickets {
  std::uint64_t first = 0;
  std::size_t count = 0;  // 0: the message is no frame
};

// A channel lives on one completion queue, which one thread polls. That thread alone starts
// operations, so nothing here needs a lock but what other threads hand over: the wish to
// close or to look for something to send, followed by a wake-up through the queue.
class Channel : public std::enable_shared_from_this<Channel> {
 public:
  enum class Op : std::uint8_t {
    kWake,
    kStart,
    kMetadata,
    kRead,
    kWrite,
    kFinish,
    kDeadline,
    kDialled,
    kTick,
    kRoom,
    kProbe
  };
  struct Tag {
    Channel* channel = nullptr;
    Op op = Op::kWake;
  };

  virtual ~Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Its place in the link; 0 is the one that answers come back on.
  [[nodiscard]] std::size_t number() const { return number_; }

  // Any thread; do not block.
  void close(Status reason);
  // Has the queue's thread begin what a new channel begins with, or look for something to
  // send.
  void wake();

  // On the queue's thread: an operation has completed.
  void proceed(Op op, bool ok);
  // On the queue's thread: begins to send what the link has, unless it sends already.
  void pump();
  // On the queue's thread: bytes that the connection may take now. 0: none, and the channel pumps by itself
  // when there is room again.
  virtual std::size_t room() { return kMaxFrameBytes; }
  // On the queue's thread: what TCP says of the connection; nothing is limited at a head.
  virtual SocketFigures figures() { return {}; }
  // On the queue's thread: has the link look closely from now on, as long as that says that there is more to
  // see. False where there is nothing to see: the peer is on this machine.
  virtual bool begin_close_looks() { return false; }

 protected:
  Channel(ChannelOwner& owner, LinkEnd end, grpc::CompletionQueue& queue);

  // The part of each end. begin() is called once, by the first wake-up of a tail; advance()
  // for kStart, kMetadata, kFinish, kDeadline, kDialled, kTick, kRoom and kProbe; finish() once, when no read
  // is in flight, and at the head no write either; release() once, when nothing is in flight.
  virtual void begin() {}
  virtual void advance(Op op, bool ok) = 0;
  virtual void read(grpc::ByteBuffer& message, void* tag) = 0;
  virtual void write(const grpc::ByteBuffer& message, void* tag) = 0;
  virtual void cancel() = 0;
  virtual void finish() = 0;
  virtual void release() = 0;
  // A whole message of so many bytes has arrived; a write of so many has begun (true), or one has ended.
  virtual void note_message(std::size_t /*size_bytes*/) {}
  virtual void note_write(bool /*begun*/, std::size_t /*size_bytes*/) {}

  // Before anything else of the link is called.
  void join(std::shared_ptr<Link> link, std::size_t number);

  // Counts an operation that is about to start and returns its tag.
  void* expect(Op op);
  void go_up(const std::string& peer);
  // Gives the channel up because of `reason`: what is in flight is cancelled.
  void fail(Status reason);
  // Nothing more is read: finishes the call as soon as it may be finished, because of
  // `reason` if there is one and none is known yet.
  void conclude(std::optional<Status> reason = std::nullopt);
  // The call is over; `reason` counts unless an earlier one is known.
  void end(Status reason);

  [[nodiscard]] bool is_up() const { return up_; }
  [[nodiscard]] bool is_closing() const { return reason_.has_value(); }
  [[nodiscard]] bool has_ended() const { return ended_; }
  [[nodiscard]] const std::optional<Status>& reason() const { return reason_; }
  [[nodiscard]] const std::string& peer() const { return peer_; }
  [[nodiscard]] Link& link() const { return *link_; }

  ChannelOwner& owner_;
  grpc::CompletionQueue& queue_;

 private:
  void on_wake();
  void on_read(bool ok);
  Status take_in();
  void on_write(bool ok);
  void begin_read();
  void retire_if_idle();

  const LinkEnd end_;
  std::array<Tag, static_cast<std::size_t>(Op::kProbe) + 1> tags_;

  // The queue's thread only, but for number_, which does not change once others know it.
  std::shared_ptr<Link> link_;
  std::size_t number_ = 0;
  std::string peer_;
  grpc::ByteBuffer incoming_;
  IncomingPieces arriving_;
  std::size_t arrived_bytes_ = 0;  // of a message in pieces
  OutgoingPieces leaving_;         // what the link has given and is not written yet
  std::optional<Status> reason_;   // why the channel ends; set once
  FrameTickets tickets_;           // of what is being written
  int pending_ = 0;                // operations in flight, wake-ups aside
  bool begun_ = false;
  bool up_ = false;
  bool writing_ = false;
  bool over_ = false;      // nothing more is read
  bool finished_ = false;  // finish() was called
  bool ended_ = false;

  std::mutex mutex_;
  std::optional<Status> close_request_;
  bool wake_set_ = false;
  bool deaf_ = false;  // wake-ups are dropped
  grpc::Alarm wake_alarm_;
};

}  // namespace square::rpc

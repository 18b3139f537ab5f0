// What both ends of a link have in common: a queue of frames, one write and one read.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/support/byte_buffer.h>

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "square/transport.h"
#include "transport/grpc/handshake.h"
#include "transport/grpc/message.h"

namespace square::rpc {

class Link;

// The transport as its links see it.
class LinkOwner {
 public:
  virtual ~LinkOwner() = default;
  [[nodiscard]] virtual TransportHandler& handler() = 0;
  [[nodiscard]] virtual const Identity& identity() const = 0;
  [[nodiscard]] virtual const std::shared_ptr<PayloadLedger>& ledger() const = 0;
  [[nodiscard]] virtual bool is_stopping() const = 0;
  // A peer's call has arrived: asks for the next one.
  virtual void accept_next() = 0;
  // Takes or gives back one of kMaxIncomingLinks.
  virtual bool admit_incoming() = 0;
  virtual void dismiss_incoming() = 0;
  // The link's last word: it has no operation in gRPC and reported its end.
  virtual void retire(LinkHandle link) = 0;
};

// A link lives on one completion queue, which one thread polls. That thread alone starts
// operations and calls the handler, so nothing here needs a lock but what other threads
// hand over: frames and the wish to close, followed by a wake-up through the queue.
class Link : public std::enable_shared_from_this<Link> {
 public:
  enum class Op : std::uint8_t { kWake, kStart, kMetadata, kRead, kWrite, kFinish, kDeadline, kSettled };
  struct Tag {
    Link* link = nullptr;
    Op op = Op::kWake;
  };

  virtual ~Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Any thread; do not block.
  void send(Frame frame);
  void close(Status reason);
  // Any thread: has the queue's thread begin what a new link begins with.
  void open() { wake(); }

  // On the queue's thread: an operation has completed.
  void proceed(Op op, bool ok);

 protected:
  Link(LinkOwner& owner, LinkHandle handle, LinkEnd end, grpc::CompletionQueue& queue);

  // The part of each end. begin() is called once, by open(); advance() for kStart,
  // kMetadata, kFinish, kDeadline and kSettled; finish() once, when no read is in flight, and at
  // the head no write either; release() once, when nothing is in flight.
  virtual void begin() {}
  virtual void advance(Op op, bool ok) = 0;
  virtual void read(grpc::ByteBuffer& message, void* tag) = 0;
  virtual void write(const grpc::ByteBuffer& message, void* tag) = 0;
  virtual void cancel() = 0;
  virtual void finish() = 0;
  virtual void release() = 0;

  // Counts an operation that is about to start and returns its tag.
  void* expect(Op op);
  void go_up(std::string peer);
  // Gives the link up because of `reason`: what is in flight is cancelled.
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
  [[nodiscard]] LinkHandle handle() const { return handle_; }

  LinkOwner& owner_;
  grpc::CompletionQueue& queue_;

 private:
  void wake();
  void on_wake();
  void on_read(bool ok);
  void on_write(bool ok);
  void begin_read();
  void pump();
  void drop_queue();
  void retire_if_idle();

  const LinkHandle handle_;
  const LinkEnd end_;
  std::array<Tag, static_cast<std::size_t>(Op::kSettled) + 1> tags_;

  // The queue's thread only.
  std::string peer_;
  grpc::ByteBuffer incoming_;
  std::optional<Status> reason_;  // why the link ends; set once
  int pending_ = 0;               // operations in flight, wake-ups aside
  bool begun_ = false;
  bool up_ = false;
  bool writing_ = false;
  bool over_ = false;      // nothing more is read
  bool finished_ = false;  // finish() was called
  bool ended_ = false;

  std::mutex mutex_;
  std::deque<Frame> frames_;
  std::optional<Status> close_request_;
  bool wake_set_ = false;
  bool deaf_ = false;  // frames and wake-ups are dropped
  grpc::Alarm wake_alarm_;
};

}  // namespace square::rpc

// One end of an attachment: messages in, messages and data out, on an event loop.
#pragma once

#include <sys/socket.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gateway/descriptors.h"
#include "gateway/event_loop.h"
#include "gateway/frame.h"

namespace square::gateway {

// Messages that wait for a peer which does not read. Data is not among them: a chunk is
// made when the socket has room for it.
inline constexpr std::size_t kMaxQueuedMessages = 4096;
// What one connection reads or writes before the others have their turn.
inline constexpr std::size_t kTurnBytes = std::size_t{2} << 20U;

// A side is heard several times within its lease; how often it looks at the time.
inline constexpr int kHeartbeatsPerLease = 5;
inline constexpr Duration kTickInterval = std::chrono::milliseconds(100);

// Descriptors that may come with one message: of an input, and of an output.
inline constexpr std::size_t kMaxDescriptors = 2;

// Memory that a chunk is read into; without `data` the chunk is dropped.
struct ChunkTarget {
  std::shared_ptr<const void> owner;
  std::byte* data = nullptr;
};

// All on the loop's thread.
class MessageHandler {
 public:
  virtual ~MessageHandler() = default;
  // A header has arrived. Says where a chunk goes; an error ends the connection.
  virtual Result<ChunkTarget> on_header(const Header& header) = 0;
  // A whole message that passed its checksum; a chunk lies where on_header() put it. `descriptors`, files in
  // memory, came with it.
  virtual Status on_message(const Header& header, std::span<const std::byte> body,
                            Descriptors descriptors) = 0;
  // Everything given to stream() is in the socket, or its rest was dropped and nothing
  // reads the data any more.
  virtual void on_streamed(std::uint64_t number) = 0;
  // The last call. The connection may be destroyed inside of it, not before.
  virtual void on_down(const Status& reason) = 0;
};

// Used on the loop's thread only.
class MessageSocket {
 public:
  MessageSocket(EventLoop& loop, FileDescriptor socket, MessageHandler& handler);
  ~MessageSocket();
  MessageSocket(const MessageSocket&) = delete;
  MessageSocket& operator=(const MessageSocket&) = delete;

  // `descriptors`: kMaxDescriptors at most, kept until they are sent.
  void send(MessageType type, std::uint64_t number, std::string body = {}, Descriptors descriptors = {});
  // Sends `data` in chunks, in turn with other data; `owner` lives until on_streamed().
  void stream(std::uint64_t number, std::span<const std::byte> data, std::shared_ptr<const void> owner);
  // Stops that; on_streamed() comes when the chunk under way is in the socket.
  void drop_stream(std::uint64_t number);

  // Ends the connection soon; on_down() comes from the loop, not from inside this call.
  void end(Status reason);
  // The same, when what is queued has been sent, or `patience` is over.
  void end_after_sending(Status reason, Duration patience);
  // The same, after what has come is read.
  void end_after_reading(Status reason);

  // Ends it now, after a last message where the socket has room for it.
  void end_with(MessageType type, std::string body, Status reason);

  // To be called now and then: heartbeats, patience; whether the peer was silent for longer than its lease.
  bool tick(Duration heartbeat, Duration lease);
  // "nothing was heard for 10.1 s".
  [[nodiscard]] Status silence() const;

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Message {
    HeaderBytes header;
    std::string body;
    Descriptors descriptors{};  // go with the first byte
  };
  struct Stream {
    std::uint64_t number;
    std::span<const std::byte> data;
    std::shared_ptr<const void> owner;
    std::size_t sent_bytes = 0;
    bool is_dropped = false;
  };

  void on_ready(std::uint32_t events);
  void read_turn();
  bool read_some(std::byte* to, std::size_t size, std::size_t& done);
  bool take_descriptors(Descriptors brought, bool is_cut);
  [[nodiscard]] ssize_t write_some();
  bool take_header();
  bool take_body();
  void write_turn();
  bool next_message();
  void finish_chunk();
  void want_to_write(bool wants);

  EventLoop& loop_;
  FileDescriptor socket_;
  MessageHandler& handler_;
  std::optional<EventLoop::WatchId> watch_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::optional<Status> reason_;
  std::optional<Status> farewell_;  // to end with, once everything is sent
  Time patience_end_;
  Time last_heard_;
  Time ticked_;
  Time last_said_;

  HeaderBytes header_bytes_{};
  std::optional<Header> header_;
  std::size_t read_bytes_ = 0;  // of the header, then of the body
  ChunkTarget target_;
  std::vector<std::byte> body_;
  Descriptors came_;  // with it

  std::deque<Message> messages_;
  std::deque<Stream> streams_;
  // What is being written: a header, then a message's body or a piece of the first stream.
  bool is_writing_ = false;
  bool is_chunk_ = false;
  Message current_;
  std::span<const std::byte> current_body_;
  std::size_t written_bytes_ = 0;
  bool wants_to_write_ = false;
  bool is_held_up_ = false;  // until the next tick
};

}  // namespace square::gateway

// A link as the node knows it: frames in order over one or several channels.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "square/transport.h"
#include "transport/grpc/channel.h"
#include "transport/grpc/channel_owner.h"
#include "transport/grpc/control.h"
#include "transport/grpc/evidence.h"
#include "transport/grpc/frame_order.h"
#include "transport/grpc/link_meter.h"
#include "transport/link_watch.h"

namespace square::rpc {

// The tail hands each frame to whichever channel can write next, and numbers the frames as
// soon as it uses a second channel; the head puts them in order. How far the channels may run
// apart is bounded: the head says what it has put in order, and the tail waits when too
// much is under way.
//
// The channels of a tail share one completion queue; those of a head may be on any. Calls to
// the handler hold handler_mutex_, so they come one at a time.
class Link : public std::enable_shared_from_this<Link> {
 public:
  // Makes channel `number` of a tail; it begins with wake().
  using MakeChannel = std::function<std::shared_ptr<Channel>(std::size_t number)>;

  // `make_channel` is empty at the head.
  Link(ChannelOwner& owner, LinkHandle handle, LinkEnd end, std::string id, MakeChannel make_channel);

  [[nodiscard]] LinkHandle handle() const { return handle_; }
  // Drawn by the tail; its further channels name it.
  [[nodiscard]] const std::string& id() const { return id_; }

  // For the node; any thread, no call blocks.
  void open();
  void send(Frame frame);
  void set_channels(std::size_t channels);
  void close(Status reason);
  void probe();

  // For the transport: a channel that a peer opened. Errors: ALREADY_EXISTS.
  Status add_channel(const std::shared_ptr<Channel>& channel, std::size_t number);

  // For the channels, each from its queue's thread.
  struct Outgoing {
    grpc::ByteBuffer message;
    FrameTickets tickets;
  };
  void on_channel_up(Channel& channel, const std::string& peer);
  // What the channel is to write now; nothing: it is idle until it is asked to pump().
  std::optional<Outgoing> next(Channel& channel);
  void on_written(Channel& channel, const FrameTickets& tickets);
  // Errors end the channel.
  Status on_message(Channel& channel, Buffer message);
  void on_wake(Channel& channel);
  // For channel 0 of a tail: looks at the peer begin; another one, after the peer has taken bytes or none.
  // False if no more are needed until something is written.
  void begin_looks();
  bool look(Channel& channel, bool takes);
  // It stays on this machine.
  void note_local();
  // The same every kProbeLook while the link is probed. False when that is over.
  bool look_closely(Channel& channel);
  [[nodiscard]] const std::shared_ptr<LinkQueue>& send_queue() const { return send_queue_; }
  Evidence evidence;  // what the peer has shown
  // The last call of a channel.
  void on_channel_down(Channel& channel, const Status& reason);

 private:
  struct Slot {
    std::shared_ptr<Channel> channel;
    bool is_up = false;
    bool is_busy = false;  // writing
  };

  void pump_idle();
  void open_missing();
  void note_heard();
  template <typename Say>
  void tell(const Say& say) {
    const std::lock_guard handling(handler_mutex_);
    say(owner_.handler());
  }
  Status on_control(Channel& channel, const Buffer& message);
  Status on_frame(const Channel& channel, Frame frame);
  Status take_in_order(Frame frame);
  // With mutex_ held:
  [[nodiscard]] std::vector<SocketFigures> figures();
  [[nodiscard]] std::size_t channels_up() const;
  [[nodiscard]] bool has_idle_channel() const;
  std::optional<Control> next_control(const Channel& channel);
  [[nodiscard]] bool may_send_frame(const Channel& channel) const;
  // Precondition: may_send_frame().
  std::vector<Frame> take_frames();

  ChannelOwner& owner_;
  const LinkHandle handle_;
  const LinkEnd end_;
  const std::string id_;
  const MakeChannel make_channel_;
  const std::shared_ptr<LinkQueue> send_queue_ = std::make_shared<LinkQueue>();

  std::mutex mutex_;
  std::vector<Slot> slots_;  // by number
  std::size_t wanted_ = 1;   // channels to be used
  std::deque<Frame> frames_;
  std::optional<Status> reason_;  // why the link ends; set once
  bool is_over_ = false;          // all channels are gone
  // Frames that are being written, oldest first: whether each is out of our hands.
  std::deque<bool> written_;
  std::uint64_t first_ticket_ = 0;
  // Tail: what is numbered, and how much of that the head has not put in order yet.
  std::uint64_t last_sequence_ = 0;
  SendWindow window_;
  LinkWatch watch_;
  LinkMeter meter_;
  bool wants_probe_ = false;
  // Head: what the tail is to be told.
  std::deque<std::uint64_t> pongs_;
  bool tell_delivered_ = false;
  std::uint64_t delivered_ = 0;

  std::mutex handler_mutex_;  // taken before mutex_
  bool was_up_ = false;
  FrameOrder order_;  // head
};

}  // namespace square::rpc

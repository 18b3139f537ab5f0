// Carries frames between neighbouring nodes. Knows links, not sessions: what a frame
// means is the node's business.
//
// An overlay link (u,v) is one or several connections that u opens and v accepts. Data
// frames go from u to v over all of them; v's answers (credit, acknowledgements) go back on
// the first. Both ends name the link by a LinkHandle of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "square/buffer.h"
#include "square/frame.h"
#include "square/ids.h"
#include "square/status.h"
#include "square/units.h"

namespace square {

using LinkHandle = Id<struct LinkHandleTag>;

// What nodes speak over links, and the oldest version of it that they still speak: a link speaks the lower of
// the newest ones of its two ends. CONTRIBUTING.md says when each is raised.
inline constexpr std::uint32_t kProtocolVersion = 10;
inline constexpr std::uint32_t kOldestProtocol = 10;

// The most connections that one link uses: a fast link that is long needs several.
inline constexpr std::size_t kMaxChannels = 16;
// What one connection is taken to carry in a round trip. It is TCP's receive buffer that
// sets it, where the kernel's limit is the usual one (net.ipv4.tcp_rmem, 6 MiB).
inline constexpr std::size_t kBytesPerRoundTrip = std::size_t{4} << 20U;

// Frames that a node may have handed to send() on one link of one channel and that are not
// reported by on_sent() yet. A bound on the node, not on the transport.
inline constexpr std::size_t kMaxFramesInTransport = 8;
// Beyond two frames for each channel, no more bytes for each: what is there has been chosen, and nothing
// passes it on a slow link.
inline constexpr std::size_t kMaxBytesInTransport = std::size_t{256} << 10U;
// The same for a link of several channels.
constexpr std::size_t frames_in_transport(std::size_t channels) { return kMaxFramesInTransport * channels; }

enum class LinkEnd {
  kTail,  // this node opened the link and sends data on it
  kHead,  // the peer did; this node receives data and sends answers
};

// What a transport reports. For one link the calls come one at a time, in order; for
// different links they may come from different threads at once. Implementations must
// not block, and may call send() and close_link() from inside.
class TransportHandler {
 public:
  virtual ~TransportHandler() = default;
  // The first call for a link. `peer` is the other node's name.
  virtual void on_link_up(LinkHandle link, LinkEnd end, std::string_view peer) = 0;
  // A whole frame whose header and payload passed their checksums. The payload may be
  // kept; it holds transport memory until the last reference is gone.
  virtual void on_frame(LinkHandle link, Frame frame) = 0;
  // The oldest frame given to send() is out of the transport's hands. Its payload's
  // owner may live a little longer: only the owner's deleter says that nobody reads it.
  virtual void on_sent(LinkHandle link) = 0;
  // At the tail: a new estimate of the link's round trip, the least of late measurements.
  // About once a second while the link is in use.
  virtual void on_round_trip(LinkHandle /*link*/, Duration /*round_trip*/) {}
  // At the tail of a link in use: what it carries, bits per second as a kernel's shaper counts them, as seen
  // of the last second or more in which the network alone kept more from leaving. Several times a second
  // while that is so. Of a link that stays on one machine once, kUnlimited. The same after probe().
  virtual void on_capacity(LinkHandle /*link*/, double /*capacity_bps*/, bool /*is_probed*/) {}
  // At the tail of a link in use: the peer has not spoken for longer than the link's round trips explain, at
  // least a second, although it was asked; or it has spoken again. Nothing else changes: the link stays up.
  virtual void on_suspicion(LinkHandle /*link*/, bool /*is_suspected*/) {}
  // The last call for a link, also when open_link() could not connect and after
  // close_link() (then CANCELLED). Frames not yet sent are dropped without on_sent(). NOT_FOUND of a link
  // that was never up: the host says that nobody listens there, or another node does.
  virtual void on_link_down(LinkHandle link, Status reason) = 0;
};

// Thread-safe unless said otherwise. No call blocks but start() and stop().
class Transport {
 public:
  virtual ~Transport() = default;

  // Begins to accept links. Call once, before anything else. Errors: UNAVAILABLE with
  // the address where it cannot listen. `handler` must outlive stop().
  virtual Status start(TransportHandler& handler) = 0;

  // The address on which others reach this transport, after start().
  [[nodiscard]] virtual std::string address() const = 0;

  // Opens the link to `peer` at `address`. The outcome comes as on_link_up() or
  // on_link_down(); refusals (another version, another node at that address, a wrong
  // token) are on_link_down() with the peer's words.
  virtual LinkHandle open_link(std::string_view peer, std::string_view address) = 0;

  // Queues a frame. Ordered per link. Silently dropped if the link is down.
  virtual void send(LinkHandle link, Frame frame) = 0;

  // Has the tail of a link use so many channels, from 1 to kMaxChannels; values outside are
  // taken as the nearest. At any time after open_link(); a link begins with one. New channels
  // are used once they are up, and one that the peer refuses is done without. Frames
  // keep their order. The loss of a channel that was up ends the link.
  virtual void set_channels(LinkHandle link, std::size_t channels) = 0;

  // How long what has come in may wait before the handler hears of it, so that more comes with it: a
  // wake-up costs more than a frame. The handler's executor may wait as long if the transport
  // runs it. 0 at first; a hint.
  virtual void set_patience(Duration /*patience*/) {}

  // Ends the links of peers that are believed no more: Identity::set_revoked(). Any thread.
  virtual void recheck_peers() {}

  // Has the tail of a link find out what it carries: for a second or so bytes that mean nothing fill it,
  // behind what is sent, to half a second of what it carries. The outcome comes as on_capacity(), if there is
  // one.
  virtual void probe(LinkHandle /*link*/) {}

  // Drops what is queued and releases every payload of this link soon after.
  virtual void close_link(LinkHandle link) = 0;

  // Closes all links, releases every payload, and returns when no call to the handler
  // runs or will run. Idempotent.
  virtual void stop() = 0;
};

}  // namespace square

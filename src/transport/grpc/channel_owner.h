// The transport as its channels and links see it.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "base/net/file_descriptor.h"
#include "base/seldom.h"
#include "square/transport.h"
#include "transport/grpc/handshake.h"
#include "transport/grpc/message.h"

namespace square::rpc {

class Channel;
class Connection;
class Link;

// Thread-safe.
class ChannelOwner {
 public:
  virtual ~ChannelOwner() = default;
  [[nodiscard]] virtual TransportHandler& handler() = 0;
  [[nodiscard]] virtual const Self& self() const = 0;
  [[nodiscard]] virtual const std::shared_ptr<PayloadLedger>& ledger() const = 0;

  // A peer's call has arrived: asks for the next one.
  virtual void accept_next() = 0;
  // The accepted connection that a call from `peer`, as gRPC names it, came on; none if it is
  // gone already.
  virtual std::shared_ptr<Connection> connection_of(std::string_view peer) = 0;
  // About peers that are sent away.
  virtual Seldom& refusals() = 0;
  // A duplicate of the socket of a dialled connection whose call has ended: it is closed soon, whatever is
  // stuck in it.
  virtual void part(net::FileDescriptor socket) = 0;
  // The link that an accepted call is a channel of: a new one for channel 0. Errors:
  // RESOURCE_EXHAUSTED, NOT_FOUND for a channel of a link that is not there.
  virtual Result<std::shared_ptr<Link>> admit(const Caller& caller) = 0;
  // Takes back an admission, when the channel has ended.
  virtual void dismiss() = 0;

  // The last word of a channel: it has no operation in gRPC.
  virtual void retire(Channel& channel) = 0;
  // The last word of a link: all its channels are gone and its end was reported.
  virtual void retire(Link& link) = 0;
};

}  // namespace square::rpc

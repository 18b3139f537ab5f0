// Between a node and its transport: passes on all that the node asks for.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "square/transport.h"

namespace square::test {

class PassingTransport : public Transport {
 public:
  explicit PassingTransport(std::unique_ptr<Transport> transport) : transport_(std::move(transport)) {}

  Status start(TransportHandler& handler) override { return transport_->start(handler); }
  [[nodiscard]] std::string address() const override { return transport_->address(); }
  LinkHandle open_link(std::string_view peer, std::string_view address) override {
    return transport_->open_link(peer, address);
  }
  void send(LinkHandle link, Frame frame) override { transport_->send(link, std::move(frame)); }
  void set_channels(LinkHandle link, std::size_t channels) override {
    transport_->set_channels(link, channels);
  }
  void set_patience(Duration patience) override { transport_->set_patience(patience); }
  void probe(LinkHandle link) override { transport_->probe(link); }
  void close_link(LinkHandle link) override { transport_->close_link(link); }
  void stop() override { transport_->stop(); }

 protected:
  const std::unique_ptr<Transport> transport_;
};

}  // namespace square::test

// The transport of a node that is alone: it has no address, and links to nobody.
#pragma once

#include <string>
#include <string_view>

#include "square/transport.h"

namespace square {

class NoTransport final : public Transport {
 public:
  Status start(TransportHandler& handler) override {
    handler_ = &handler;
    return {};
  }
  [[nodiscard]] std::string address() const override { return {}; }
  // No plan of one node has links, so this is for completeness.
  LinkHandle open_link(std::string_view peer, std::string_view /*address*/) override {
    handler_->on_link_down(LinkHandle{}, unavailable("there is no link to " + std::string(peer)));
    return LinkHandle{};
  }
  void send(LinkHandle /*link*/, Frame /*frame*/) override {}
  void set_channels(LinkHandle /*link*/, std::size_t /*channels*/) override {}
  void close_link(LinkHandle /*link*/) override {}
  void stop() override {}

 private:
  TransportHandler* handler_ = nullptr;
};

}  // namespace square

// A relay whose program is another: it sends what it likes over its links.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "node/passing_transport.h"

namespace square::test {

// Between a node and its transport.
class EvilRelay final : public PassingTransport, public TransportHandler {
 public:
  using PassingTransport::PassingTransport;

  // Over the link to that child.
  void send_to(const std::string& child, Frame frame) {
    transport_->send(tails_.at(child), std::move(frame));
  }
  // Of what the node itself sends, and gets: false swallows it.
  std::function<bool(const Frame& frame)> on_send = [](const Frame&) { return true; };
  std::function<bool(const Frame& frame)> on_get = [](const Frame&) { return true; };

  Status start(TransportHandler& handler) override {
    handler_ = &handler;
    return transport_->start(*this);
  }
  void send(LinkHandle link, Frame frame) override {
    if (!on_send(frame)) return handler_->on_sent(link);
    transport_->send(link, std::move(frame));
  }

  void on_link_up(LinkHandle link, LinkEnd end, std::string_view peer) override {
    if (end == LinkEnd::kTail) tails_[std::string(peer)] = link;
    handler_->on_link_up(link, end, peer);
  }
  void on_frame(LinkHandle link, Frame frame) override {
    if (on_get(frame)) handler_->on_frame(link, std::move(frame));
  }
  void on_sent(LinkHandle link) override { handler_->on_sent(link); }
  void on_round_trip(LinkHandle link, Duration time) override { handler_->on_round_trip(link, time); }
  void on_capacity(LinkHandle link, double bps, bool is_probed) override {
    handler_->on_capacity(link, bps, is_probed);
  }
  void on_suspicion(LinkHandle link, bool is_suspected) override {
    handler_->on_suspicion(link, is_suspected);
  }
  void on_link_down(LinkHandle link, Status reason) override {
    handler_->on_link_down(link, std::move(reason));
  }

 private:
  TransportHandler* handler_ = nullptr;
  std::map<std::string, LinkHandle> tails_;
};

}  // namespace square::test

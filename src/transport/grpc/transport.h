// The transport itself: a server, completion queues and the links on them.
#pragma once

#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/support/channel_arguments.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/net/address.h"
#include "square/grpc_transport.h"
#include "transport/grpc/acceptor.h"
#include "transport/grpc/link.h"
#include "transport/grpc/poller.h"
#include "transport/grpc/tail_channel.h"

namespace square::rpc {

class GrpcTransport final : public Transport, private ChannelOwner {
 public:
  // Precondition: the options were checked.
  GrpcTransport(GrpcTransportOptions options, net::HostPort bind, std::string advertised);
  ~GrpcTransport() override;

  Status start(TransportHandler& handler) override;
  [[nodiscard]] std::string address() const override;
  LinkHandle open_link(std::string_view peer, std::string_view address) override;
  void send(LinkHandle link, Frame frame) override;
  void set_channels(LinkHandle link, std::size_t channels) override;
  void set_patience(Duration patience) override;
  void recheck_peers() override;
  void probe(LinkHandle link) override;
  void close_link(LinkHandle link) override;
  void stop() override;

 private:
  [[nodiscard]] TransportHandler& handler() override { return *handler_; }
  [[nodiscard]] const Self& self() const override { return self_; }
  [[nodiscard]] const std::shared_ptr<PayloadLedger>& ledger() const override { return ledger_; }
  void accept_next() override;
  std::shared_ptr<Connection> connection_of(std::string_view peer) override;
  Seldom& refusals() override { return refusals_; }
  void part(net::FileDescriptor socket) override { acceptor_->part(std::move(socket)); }
  Result<std::shared_ptr<Link>> admit(const Caller& caller) override;
  void dismiss() override;
  void retire(Channel& channel) override;
  void retire(Link& link) override;

  Status start_server();
  // A channel of a link that this node opens.
  std::shared_ptr<Channel> make_channel(LinkHandle link, std::size_t number, const Destination& to,
                                        grpc::CompletionQueue& queue);
  [[nodiscard]] std::shared_ptr<Link> find(LinkHandle link);
  void wait_until_nothing_is_open();

  const GrpcTransportOptions options_;
  const Self self_;
  const net::HostPort bind_;
  const std::string advertised_;
  const std::shared_ptr<PayloadLedger> ledger_;
  grpc::ChannelArguments dialling_;
  Dialler dialler_;

  TransportHandler* handler_ = nullptr;
  std::string address_;  // set by start()
  grpc::AsyncGenericService service_;
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Acceptor> acceptor_;
  Poller::Patience patience_ = 0;                 // of all pollers
  std::vector<std::unique_ptr<Poller>> pollers_;  // by queue
  std::vector<std::thread> threads_;

  Seldom refusals_;
  std::mutex stop_mutex_;  // a second stop() waits for the first

  std::mutex mutex_;
  std::condition_variable closed_;
  std::unordered_map<LinkHandle, std::shared_ptr<Link>> links_;
  std::unordered_map<const Channel*, std::shared_ptr<Channel>> channels_;
  // Links that others opened, by the peer's name; those with an id may get more channels.
  std::map<std::string, std::vector<std::shared_ptr<Link>>> incoming_links_;
  LinkHandle::value_type last_handle_ = 0;
  std::size_t next_queue_ = 0;
  std::size_t incoming_channels_ = 0;
  bool running_ = false;
};

}  // namespace square::rpc

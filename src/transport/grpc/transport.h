// The transport itself: a server, completion queues and the links on them.
#pragma once

#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/support/channel_arguments.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "square/grpc_transport.h"
#include "transport/grpc/address.h"
#include "transport/grpc/link.h"

namespace square::rpc {

class GrpcTransport final : public Transport, private LinkOwner {
 public:
  // Precondition: the options were checked.
  GrpcTransport(GrpcTransportOptions options, HostPort bind, std::string advertised);
  ~GrpcTransport() override;

  Status start(TransportHandler& handler) override;
  [[nodiscard]] std::string address() const override;
  LinkHandle open_link(std::string_view peer, std::string_view address) override;
  void send(LinkHandle link, Frame frame) override;
  void close_link(LinkHandle link) override;
  void stop() override;

 private:
  [[nodiscard]] TransportHandler& handler() override { return *handler_; }
  [[nodiscard]] const Identity& identity() const override { return identity_; }
  [[nodiscard]] const std::shared_ptr<PayloadLedger>& ledger() const override { return ledger_; }
  [[nodiscard]] bool is_stopping() const override { return stopping_; }
  void accept_next() override;
  bool admit_incoming() override;
  void dismiss_incoming() override;
  void retire(LinkHandle link) override;

  // Until the queue is shut down and empty.
  static void poll(grpc::CompletionQueue& queue);
  [[nodiscard]] std::shared_ptr<Link> find(LinkHandle link);
  void wait_until_no_link();

  const GrpcTransportOptions options_;
  const Identity identity_;
  const HostPort bind_;
  const std::string advertised_;
  const std::shared_ptr<PayloadLedger> ledger_;
  grpc::ChannelArguments dialling_;

  TransportHandler* handler_ = nullptr;
  std::string address_;  // set by start()
  grpc::AsyncGenericService service_;
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::thread> threads_;

  std::atomic<bool> stopping_ = false;
  std::mutex stop_mutex_;  // a second stop() waits for the first

  std::mutex mutex_;
  std::condition_variable links_changed_;
  std::unordered_map<LinkHandle, std::shared_ptr<Link>> links_;
  LinkHandle::value_type last_handle_ = 0;
  std::size_t next_queue_ = 0;
  std::size_t incoming_ = 0;
  bool running_ = false;
};

}  // namespace square::rpc

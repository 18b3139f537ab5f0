#include "transport/grpc/transport.h"

#include <fmt/format.h>
#include <grpc/grpc.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <pthread.h>

#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "transport/grpc/channel_settings.h"
#include "transport/grpc/head_link.h"
#include "transport/grpc/limits.h"
#include "transport/grpc/tail_link.h"

namespace square::rpc {
namespace {

// For the rest of the process. Received slices may outlive every transport and run code
// of gRPC when they are let go; and gRPC 1.51, when its last user goes soon after a
// stalled connection, waits up to ten seconds for a poller of its own.
void keep_grpc_initialised() {
  static const bool initialised = [] {
    grpc_init();
    return true;
  }();
  (void)initialised;
}

}  // namespace

GrpcTransport::GrpcTransport(GrpcTransportOptions options, HostPort bind, std::string advertised)
    : options_(std::move(options)),
      identity_{options_.node_name, options_.token},
      bind_(std::move(bind)),
      advertised_(std::move(advertised)),
      ledger_(std::make_shared<PayloadLedger>()),
      dialling_(dialling_arguments()) {}

GrpcTransport::~GrpcTransport() { stop(); }

Status GrpcTransport::start(TransportHandler& handler) {
  SQUARE_CHECK(handler_ == nullptr, "start() was called twice");
  SQUARE_RETURN_IF_ERROR(check_listenable(bind_));
  handler_ = &handler;
  keep_grpc_initialised();

  grpc::ResourceQuota quota("square");
  quota.Resize(options_.memory_quota_bytes);
  dialling_.SetResourceQuota(quota);
  grpc::ServerBuilder builder;
  apply_accepting_arguments(builder);
  builder.SetResourceQuota(quota);
  int port = 0;
  builder.AddListeningPort(bind_.to_string(), grpc::InsecureServerCredentials(), &port);
  builder.RegisterAsyncGenericService(&service_);
  for (int i = 0; i < options_.threads; ++i) queues_.push_back(builder.AddCompletionQueue());
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port == 0) {
    for (auto& queue : queues_) {
      queue->Shutdown();
      poll(*queue);
    }
    queues_.clear();
    server_.reset();
    return unavailable(fmt::format("cannot listen on {}; choose another address or port", bind_.to_string()));
  }
  const HostPort bound{bind_.host, static_cast<std::uint16_t>(port)};
  address_ = bound.to_string();
  if (!advertised_.empty()) {
    HostPort advertised = parse_host_port(advertised_).value();
    if (advertised.port == 0) advertised.port = bound.port;
    address_ = advertised.to_string();
  }
  {
    const std::lock_guard lock(mutex_);
    running_ = true;
  }
  accept_next();
  for (int i = 0; i < options_.threads; ++i) {
    threads_.emplace_back([queue = queues_[static_cast<std::size_t>(i)].get(), i] {
      pthread_setname_np(pthread_self(), fmt::format("square-grpc-{}", i).c_str());
      poll(*queue);
    });
  }
  return Status::ok();
}

std::string GrpcTransport::address() const { return address_; }

LinkHandle GrpcTransport::open_link(std::string_view peer, std::string_view address) {
  SQUARE_CHECK(handler_ != nullptr, "open_link() needs start() first");
  LinkOwner& owner = *this;
  std::shared_ptr<Link> link;
  LinkHandle handle;
  {
    const std::lock_guard lock(mutex_);
    handle = LinkHandle(++last_handle_);
    if (!running_) return handle;
    grpc::CompletionQueue& queue = *queues_[next_queue_++ % queues_.size()];
    link =
        std::make_shared<TailLink>(owner, handle, queue, std::string(peer), std::string(address), dialling_);
    links_.emplace(handle, link);
  }
  link->open();
  return handle;
}

void GrpcTransport::send(LinkHandle link, Frame frame) {
  if (const auto found = find(link)) found->send(std::move(frame));
}

void GrpcTransport::close_link(LinkHandle link) {
  if (const auto found = find(link)) found->close(cancelled("this node closed the link"));
}

void GrpcTransport::stop() {
  const std::lock_guard stopping(stop_mutex_);
  std::vector<std::shared_ptr<Link>> links;
  {
    const std::lock_guard lock(mutex_);
    if (!running_) return;
    running_ = false;
    stopping_ = true;
    for (const auto& [handle, link] : links_) links.push_back(link);
  }
  for (const std::thread& thread : threads_) {
    SQUARE_CHECK(thread.get_id() != std::this_thread::get_id(), "stop() was called by a handler");
  }
  for (const auto& link : links) link->close(cancelled("this node stopped"));
  links.clear();
  // The order matters: calls end and give their events while the queues are still polled;
  // a queue is shut down only when nothing can be put on it any more.
  server_->Shutdown(std::chrono::system_clock::now());
  wait_until_no_link();
  if (!ledger_->wait_until_empty(kReleaseDeadline)) {
    log(LogLevel::kError, "transport", "gRPC still reads payload {} ms after the last link ended",
        kReleaseDeadline.count());
  }
  for (auto& queue : queues_) queue->Shutdown();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  server_.reset();
  queues_.clear();
}

void GrpcTransport::accept_next() {
  LinkOwner& owner = *this;
  std::shared_ptr<HeadLink> link;
  {
    const std::lock_guard lock(mutex_);
    if (!running_) return;
    const LinkHandle handle(++last_handle_);
    link = std::make_shared<HeadLink>(owner, handle, *queues_[next_queue_++ % queues_.size()]);
    links_.emplace(handle, link);
  }
  link->listen(service_);
}

bool GrpcTransport::admit_incoming() {
  const std::lock_guard lock(mutex_);
  if (incoming_ >= kMaxIncomingLinks) return false;
  ++incoming_;
  return true;
}

void GrpcTransport::dismiss_incoming() {
  const std::lock_guard lock(mutex_);
  --incoming_;
}

void GrpcTransport::retire(LinkHandle link) {
  std::shared_ptr<Link> retired;  // destroyed outside the lock
  const std::lock_guard lock(mutex_);
  const auto found = links_.find(link);
  retired.swap(found->second);
  links_.erase(found);
  if (links_.empty()) links_changed_.notify_all();
}

void GrpcTransport::poll(grpc::CompletionQueue& queue) {
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) {
    const Link::Tag& event = *static_cast<const Link::Tag*>(tag);
    event.link->proceed(event.op, ok);
  }
}

std::shared_ptr<Link> GrpcTransport::find(LinkHandle link) {
  const std::lock_guard lock(mutex_);
  const auto found = links_.find(link);
  return found == links_.end() ? nullptr : found->second;
}

void GrpcTransport::wait_until_no_link() {
  std::unique_lock lock(mutex_);
  links_changed_.wait(lock, [this] { return links_.empty(); });
}

}  // namespace square::rpc

#include "transport/grpc/transport.h"

#include <fmt/format.h>
#include <grpc/grpc.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>
#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "transport/grpc/channel_settings.h"
#include "transport/grpc/head_channel.h"
#include "transport/grpc/limits.h"
#include "trust/grpc/credentials.h"
#include "trust/grpc/grpc_log.h"

namespace square::rpc {
namespace {

constexpr char kPollStrategy[] = "GRPC_POLL_STRATEGY";

// For the rest of the process. Received slices may outlive every transport and run code
// of gRPC when they are let go; and gRPC 1.51, when its last user goes soon after a
// stalled connection, waits up to ten seconds for a poller of its own.
void keep_grpc_initialised() {
  static const bool initialised = [] {
    trust::hear_grpc();
    // By default any thread that polls may read any socket, and hands the watch on to another when it
    // returns: one event wakes two or three of them. With this one each watches the sockets of its own queue.
    const bool is_chosen = std::getenv(kPollStrategy) != nullptr;
    if (!is_chosen) setenv(kPollStrategy, "poll", 0);
    grpc_init();
    if (!is_chosen) unsetenv(kPollStrategy);
    return true;
  }();
  (void)initialised;
}

// Names a link to its head, so that others cannot add channels to it.
std::string draw_link_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

}  // namespace

GrpcTransport::GrpcTransport(GrpcTransportOptions options, net::HostPort bind, std::string advertised)
    : options_(std::move(options)),
      self_{options_.node_name, options_.identity},
      bind_(std::move(bind)),
      advertised_(std::move(advertised)),
      ledger_(std::make_shared<PayloadLedger>()),
      dialling_(dialling_arguments(options_.silence_deadline)) {}

GrpcTransport::~GrpcTransport() { stop(); }

Status GrpcTransport::start(TransportHandler& handler) {
  SQUARE_CHECK(handler_ == nullptr, "start() was called twice");
  SQUARE_ASSIGN_OR_RETURN(net::Listener listener, net::listen_on(bind_, kListenBacklog));
  handler_ = &handler;
  acceptor_ =
      std::make_unique<Acceptor>(std::move(listener), options_.memory_quota_bytes, options_.silence_deadline);
  SQUARE_RETURN_IF_ERROR(start_server());
  const net::HostPort bound{bind_.host, acceptor_->port()};
  address_ = bound.to_string();
  if (!advertised_.empty()) {
    net::HostPort advertised = net::parse_host_port(advertised_).value();
    if (advertised.port == 0) advertised.port = bound.port;
    address_ = advertised.to_string();
  }
  {
    const std::lock_guard lock(mutex_);
    running_ = true;
  }
  accept_next();
  for (const auto& queue : queues_) {
    const std::size_t number = pollers_.size();
    pollers_.push_back(
        std::make_unique<Poller>(*queue, number == 0 ? options_.executor : nullptr, patience_));
    threads_.emplace_back([poller = pollers_.back().get(), number] {
      pthread_setname_np(pthread_self(), fmt::format("square-grpc-{}", number).c_str());
      poller->run();
    });
  }
  return Status::ok();
}

Status GrpcTransport::start_server() {
  keep_grpc_initialised();
  grpc::ResourceQuota quota("square");
  quota.Resize(options_.memory_quota_bytes);
  dialling_.SetResourceQuota(quota);
  grpc::ServerBuilder builder;
  apply_accepting_arguments(builder, options_.silence_deadline);
  builder.SetResourceQuota(quota);
  auto handover = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      trust::server_credentials(options_.identity, {{Role::kNode, Role::kServer, Role::kController}, 0}));
  builder.RegisterAsyncGenericService(&service_);
  for (int i = 0; i < options_.threads; ++i) queues_.push_back(builder.AddCompletionQueue());
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) {
    for (auto& queue : queues_) {
      queue->Shutdown();
      Poller(*queue, nullptr, patience_).run();
    }
    queues_.clear();
    acceptor_.reset();
    return unavailable(
        fmt::format("gRPC cannot serve on {}; the process's log says more", bind_.to_string()));
  }
  acceptor_->start(std::move(handover));
  return Status::ok();
}

std::string GrpcTransport::address() const { return address_; }

LinkHandle GrpcTransport::open_link(std::string_view peer, std::string_view address) {
  SQUARE_CHECK(handler_ != nullptr, "open_link() needs start() first");
  ChannelOwner& owner = *this;
  std::shared_ptr<Link> link;
  LinkHandle handle;
  {
    const std::lock_guard lock(mutex_);
    handle = LinkHandle(++last_handle_);
    if (!running_) return handle;
    grpc::CompletionQueue& queue = *queues_[next_queue_++ % queues_.size()];
    auto make = [this, handle, &queue, to = Destination{std::string(peer), std::string(address)}](
                    std::size_t number) { return make_channel(handle, number, to, queue); };
    link = std::make_shared<Link>(owner, handle, LinkEnd::kTail, draw_link_id(), std::move(make));
    links_.emplace(handle, link);
  }
  link->open();
  return handle;
}

std::shared_ptr<Channel> GrpcTransport::make_channel(LinkHandle link, std::size_t number,
                                                     const Destination& to, grpc::CompletionQueue& queue) {
  ChannelOwner& owner = *this;
  const std::lock_guard lock(mutex_);
  auto channel =
      std::make_shared<TailChannel>(owner, links_.at(link), number, queue, to,
                                    TailChannel::Settings{dialling_, dialler_, options_.silence_deadline});
  channels_.emplace(channel.get(), channel);
  return channel;
}

void GrpcTransport::send(LinkHandle link, Frame frame) {
  if (const auto found = find(link)) found->send(std::move(frame));
}

void GrpcTransport::set_channels(LinkHandle link, std::size_t channels) {
  if (const auto found = find(link)) found->set_channels(channels);
}

void GrpcTransport::set_patience(Duration patience) { patience_ = patience.count(); }

void GrpcTransport::recheck_peers() {
  if (!options_.identity) return;
  std::vector<std::shared_ptr<Link>> links;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [handle, link] : links_) links.push_back(link);
  }
  for (const auto& link : links) {
    const Status believed = link->evidence.check(*options_.identity);
    if (believed.is_ok()) continue;
    log(LogLevel::kWarning, "transport", "ends a link: {}", believed.message());
    link->close(believed);
  }
}

void GrpcTransport::probe(LinkHandle link) {
  if (const auto found = find(link)) found->probe();
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
    for (const auto& [handle, link] : links_) links.push_back(link);
  }
  for (const std::thread& thread : threads_) {
    SQUARE_CHECK(thread.get_id() != std::this_thread::get_id(), "stop() was called by a handler");
  }
  for (const auto& link : links) link->close(cancelled("this node stopped"));
  links.clear();
  // The order matters: calls end and give their events while the queues are still polled;
  // a queue is shut down only when nothing can be put on it any more. The server waits for connections in
  // which a write is stuck, and the acceptor closes those.
  acceptor_->stop_accepting();
  server_->Shutdown(std::chrono::system_clock::now());
  wait_until_nothing_is_open();
  if (!ledger_->wait_until_empty(kReleaseDeadline)) {
    log(LogLevel::kError, "transport", "gRPC still reads payload {} ms after the last link ended",
        kReleaseDeadline.count());
  }
  for (const auto& poller : pollers_) poller->give_back();
  for (auto& queue : queues_) queue->Shutdown();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  pollers_.clear();
  acceptor_->stop();
  server_.reset();
  acceptor_.reset();
  queues_.clear();
}

void GrpcTransport::accept_next() {
  ChannelOwner& owner = *this;
  std::shared_ptr<HeadChannel> channel;
  {
    const std::lock_guard lock(mutex_);
    if (!running_) return;
    channel = std::make_shared<HeadChannel>(owner, *queues_[next_queue_++ % queues_.size()]);
    channels_.emplace(channel.get(), channel);
  }
  channel->listen(service_);
}

std::shared_ptr<Connection> GrpcTransport::connection_of(std::string_view peer) {
  return acceptor_->find(peer);
}

Result<std::shared_ptr<Link>> GrpcTransport::admit(const Caller& caller) {
  ChannelOwner& owner = *this;
  const std::lock_guard lock(mutex_);
  if (incoming_channels_ >= kMaxIncomingChannels) {
    return resource_exhausted(
        fmt::format("node \"{}\" has {} incoming connections already", self_.name, kMaxIncomingChannels));
  }
  auto& links = incoming_links_[caller.name];
  const auto known =
      std::ranges::find_if(links, [&](const auto& link) { return link->id() == caller.link_id; });
  std::shared_ptr<Link> link;
  if (!caller.link_id.empty() && known != links.end()) {
    link = *known;
  } else if (caller.channel > 0) {
    if (links.empty()) incoming_links_.erase(caller.name);
    return not_found(fmt::format("there is no such link of node \"{}\" to add channel {} to", caller.name,
                                 caller.channel));
  } else if (links.size() >= kMaxLinksPerPeer) {
    return resource_exhausted(fmt::format("node \"{}\" has {} links of node \"{}\" already", self_.name,
                                          kMaxLinksPerPeer, caller.name));
  } else {
    link = std::make_shared<Link>(owner, LinkHandle(++last_handle_), LinkEnd::kHead, caller.link_id,
                                  Link::MakeChannel());
    links.push_back(link);
    links_.emplace(link->handle(), link);
  }
  ++incoming_channels_;
  return link;
}

void GrpcTransport::dismiss() {
  const std::lock_guard lock(mutex_);
  --incoming_channels_;
}

void GrpcTransport::retire(Channel& channel) {
  std::shared_ptr<Channel> retired;  // destroyed outside the lock
  const std::lock_guard lock(mutex_);
  const auto found = channels_.find(&channel);
  retired.swap(found->second);
  channels_.erase(found);
  if (links_.empty() && channels_.empty()) closed_.notify_all();
}

void GrpcTransport::retire(Link& link) {
  std::shared_ptr<Link> retired;  // destroyed outside the lock
  const std::lock_guard lock(mutex_);
  const auto found = links_.find(link.handle());
  retired.swap(found->second);
  links_.erase(found);
  for (auto peer = incoming_links_.begin(); peer != incoming_links_.end();) {
    std::erase(peer->second, retired);
    peer = peer->second.empty() ? incoming_links_.erase(peer) : std::next(peer);
  }
  if (links_.empty() && channels_.empty()) closed_.notify_all();
}

std::shared_ptr<Link> GrpcTransport::find(LinkHandle link) {
  const std::lock_guard lock(mutex_);
  const auto found = links_.find(link);
  return found == links_.end() ? nullptr : found->second;
}

void GrpcTransport::wait_until_nothing_is_open() {
  std::unique_lock lock(mutex_);
  closed_.wait(lock, [this] { return links_.empty() && channels_.empty(); });
}

}  // namespace square::rpc

// Messages over bare gRPC: what a node is compared with. One process is a source, a relay or a sink.
//
//   bare_grpc sink | bare_grpc relay ADDRESS... | bare_grpc source ADDRESS...
//
// With the folder of an identity in BARE_IDENTITY by mutual TLS, with a node's credentials.
// Generic asynchronous streams on one completion queue that one thread polls; a source sends static slices
// of a buffer, a relay forwards what it read by reference, over one stream for each address. A sink and a
// relay print the port that they listen on. Then each line on standard input is answered by one line:
//
//   usage                         -> CPU seconds of this process, messages received by it
//   send SIZE COUNT INTERVAL_US [BURST]
//                                 -> seconds it took; COUNT messages on each stream, one every INTERVAL_US
//                                    microseconds (0: as fast as they are taken), BURST of them at a time
//                                    (default 1), streams evenly shifted
//
// It ends with its standard input.
#include <fmt/format.h>
#include <grpc/grpc.h>
#include <grpcpp/alarm.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/server_builder.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <future>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "trust/grpc/credentials.h"

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr std::size_t kMaxMessageBytes = std::size_t{1} << 20U;
// A source goes through a buffer of so many messages again and again, as one does that has much to send.
constexpr std::size_t kMessagesInBuffer = 128;
// As far as a relay reads ahead of what it can write.
constexpr std::size_t kMaxForwarded = 64;

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// Null for one without TLS.
const std::shared_ptr<square::Identity>& identity() {
  static const auto opened = []() -> std::shared_ptr<square::Identity> {
    const char* const folder = std::getenv("BARE_IDENTITY");
    return folder == nullptr ? nullptr : square::Identity::open(folder).value();
  }();
  return opened;
}

// As a node sets them: large writes and reads, a connection for each stream.
template <typename Set>
void set_common(const Set& set) {
  set(GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, 4 << 20);
  set(GRPC_ARG_TCP_READ_CHUNK_SIZE, 1 << 20);
  set(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, 4 << 20);
}

// What the completion queue gives back.
class Event {
 public:
  virtual ~Event() = default;
  virtual void proceed(bool ok) = 0;
};

template <typename Owner, void (Owner::*kDone)(bool)>
class Step final : public Event {
 public:
  explicit Step(Owner& owner) : owner_(owner) {}
  void proceed(bool ok) override { (owner_.*kDone)(ok); }

 private:
  Owner& owner_;
};

// A stream that this process opens; the queue's thread only.
class Outgoing {
 public:
  Outgoing(const std::string& address, grpc::CompletionQueue& queue) {
    grpc::ChannelArguments arguments;
    set_common([&](const char* key, int value) { arguments.SetInt(key, value); });
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel_ = grpc::CreateCustomChannel(
        address, square::trust::channel_credentials(identity(), {{square::Role::kNode}, ""}), arguments);
    stream_ = grpc::GenericStub(channel_).PrepareCall(&context_, "/bare/messages", &queue);
    stream_->StartCall(&started_);
  }

  [[nodiscard]] bool has_room() const { return waiting_.size() < kMaxForwarded; }
  [[nodiscard]] bool is_idle() const { return is_up_ && !is_writing_ && waiting_.empty(); }

  void send(grpc::ByteBuffer message) {
    waiting_.push_back(std::move(message));
    pump();
  }

 private:
  void on_started(bool ok) {
    is_up_ = ok;
    pump();
  }
  void on_written(bool ok) {
    is_writing_ = false;
    if (ok) pump();
  }
  void pump() {
    if (!is_up_ || is_writing_ || waiting_.empty()) return;
    is_writing_ = true;
    stream_->Write(waiting_.front(), &written_);
    waiting_.pop_front();
  }

  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  std::deque<grpc::ByteBuffer> waiting_;
  bool is_up_ = false;
  bool is_writing_ = false;
  Step<Outgoing, &Outgoing::on_started> started_{*this};
  Step<Outgoing, &Outgoing::on_written> written_{*this};
};

// A stream that a peer opened. With an outgoing one what comes is passed on, no faster than it goes.
class Incoming {
 public:
  Incoming(grpc::AsyncGenericService& service, grpc::ServerCompletionQueue& queue,
           std::atomic<std::uint64_t>& messages, std::deque<std::unique_ptr<Outgoing>>& outgoing,
           std::vector<std::unique_ptr<Incoming>>& all)
      : service_(service),
        queue_(queue),
        messages_(messages),
        outgoing_(outgoing),
        all_(all),
        stream_(&context_) {
    service_.RequestCall(&context_, &stream_, &queue_, &queue_, &called_);
  }

  void go_on() {
    if (is_waiting_ && to_->has_room()) read();
  }

 private:
  void on_called(bool ok) {
    if (!ok) return;
    if (!outgoing_.empty()) to_ = outgoing_[(all_.size() - 1) % outgoing_.size()].get();
    all_.push_back(std::make_unique<Incoming>(service_, queue_, messages_, outgoing_, all_));
    stream_.SendInitialMetadata(&greeted_);
  }
  void on_greeted(bool ok) {
    if (ok) read();
  }
  void on_read(bool ok) {
    if (!ok) return;
    ++messages_;
    if (to_ != nullptr) to_->send(message_);
    message_.Clear();
    if (to_ == nullptr || to_->has_room()) return read();
    is_waiting_ = true;
  }
  void read() {
    is_waiting_ = false;
    stream_.Read(&message_, &read_);
  }

  grpc::AsyncGenericService& service_;
  grpc::ServerCompletionQueue& queue_;
  std::atomic<std::uint64_t>& messages_;
  std::deque<std::unique_ptr<Outgoing>>& outgoing_;
  std::vector<std::unique_ptr<Incoming>>& all_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_;
  grpc::ByteBuffer message_;
  Outgoing* to_ = nullptr;
  bool is_waiting_ = false;
  Step<Incoming, &Incoming::on_called> called_{*this};
  Step<Incoming, &Incoming::on_greeted> greeted_{*this};
  Step<Incoming, &Incoming::on_read> read_{*this};
};

struct Orders {
  std::size_t size_bytes = 0;
  std::uint64_t count = 0;
  microseconds interval{0};
  std::uint64_t burst = 1;
};

// Sends on all streams as ordered; the queue's thread only.
class Sending {
 public:
  Sending(Orders orders, const std::deque<std::unique_ptr<Outgoing>>& streams, const std::string& data)
      : orders_(orders), streams_(streams), data_(data), began_(Clock::now()), sent_(streams.size(), 0) {}

  // Sends what is due; when to come back.
  Clock::time_point go_on() {
    const auto now = Clock::now();
    auto next = Clock::time_point::max();
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      while (sent_[i] < orders_.count && due(i) <= now) {
        if (orders_.interval.count() == 0 && !streams_[i]->is_idle())
          break;  // its write's end comes by itself
        const char* from = data_.data() + sent_[i] % kMessagesInBuffer * orders_.size_bytes;
        const grpc::Slice slice(from, orders_.size_bytes, grpc::Slice::STATIC_SLICE);
        streams_[i]->send(grpc::ByteBuffer(&slice, 1));
        ++sent_[i];
      }
      if (sent_[i] < orders_.count && orders_.interval.count() > 0) next = std::min(next, due(i));
    }
    return next;
  }
  [[nodiscard]] bool is_done() const {
    return std::ranges::all_of(sent_, [this](std::uint64_t sent) { return sent == orders_.count; }) &&
           std::ranges::all_of(streams_, [](const auto& stream) { return stream->is_idle(); });
  }
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(Clock::now() - began_).count();
  }

 private:
  [[nodiscard]] Clock::time_point due(std::size_t stream) const {
    const auto shift =
        orders_.interval * static_cast<std::int64_t>(stream) / static_cast<std::int64_t>(streams_.size());
    const std::uint64_t first = sent_[stream] - sent_[stream] % orders_.burst;  // that goes with this one
    return began_ + shift + orders_.interval * static_cast<std::int64_t>(first);
  }

  const Orders orders_;
  const std::deque<std::unique_ptr<Outgoing>>& streams_;
  const std::string& data_;
  const Clock::time_point began_;
  std::vector<std::uint64_t> sent_;
};

class Peer {
 public:
  Peer(bool listens, const std::vector<std::string>& addresses) {
    if (listens) listen();
    // A server's queue serves streams of both directions; a source has one of its own.
    if (!listens) queue_ = std::make_unique<grpc::CompletionQueue>();
    grpc::CompletionQueue& queue = listens ? *server_queue_ : *queue_;
    for (const std::string& address : addresses)
      outgoing_.push_back(std::make_unique<Outgoing>(address, queue));
    thread_ = std::thread([this, &queue] { run(queue); });
    thread_.detach();  // it ends with the process
  }

  std::string obey(const std::string& line) {
    std::istringstream words(line);
    std::string what;
    words >> what;
    if (what == "usage") return fmt::format("{:.6f} {}", cpu_seconds(), messages_.load());
    Orders orders;
    std::int64_t interval = 0;
    words >> orders.size_bytes >> orders.count >> interval;
    if (what != "send" || !words || orders.size_bytes > kMaxMessageBytes) return "what?";
    if (!(words >> orders.burst)) orders.burst = 1;
    if (orders.burst == 0) return "what?";
    data_.resize(std::max(data_.size(), kMessagesInBuffer * orders.size_bytes), 'x');
    orders.interval = microseconds(interval);
    auto done = done_.emplace().get_future();
    {
      const std::lock_guard lock(mutex_);
      orders_ = orders;
    }
    wake_.Set(queue_.get(), gpr_time_0(GPR_CLOCK_MONOTONIC), nullptr);
    const double seconds = done.get();
    done_.reset();
    return fmt::format("{:.6f}", seconds);
  }

 private:
  void listen() {
    grpc::ServerBuilder builder;
    int port = 0;
    set_common([&](const char* key, int value) { builder.AddChannelArgument(key, value); });
    builder.SetMaxReceiveMessageSize(static_cast<int>(kMaxMessageBytes + 1024));
    builder.AddListeningPort("127.0.0.1:0", square::trust::server_credentials(identity(), {}), &port);
    builder.RegisterAsyncGenericService(&service_);
    server_queue_ = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    incoming_.push_back(
        std::make_unique<Incoming>(service_, *server_queue_, messages_, outgoing_, incoming_));
    std::cout << port << std::endl;
  }

  void run(grpc::CompletionQueue& queue) {
    auto next = Clock::time_point::max();
    while (true) {
      void* tag = nullptr;
      bool ok = false;
      const auto status =
          next == Clock::time_point::max()
              ? (queue.Next(&tag, &ok) ? grpc::CompletionQueue::GOT_EVENT : grpc::CompletionQueue::SHUTDOWN)
              : queue.AsyncNext(&tag, &ok, std::chrono::system_clock::now() + (next - Clock::now()));
      if (status == grpc::CompletionQueue::SHUTDOWN) return;
      if (status == grpc::CompletionQueue::GOT_EVENT && tag != nullptr) static_cast<Event*>(tag)->proceed(ok);
      for (std::size_t i = 0; !outgoing_.empty() && i < incoming_.size(); ++i) incoming_[i]->go_on();
      next = go_on();
    }
  }

  Clock::time_point go_on() {
    {
      const std::lock_guard lock(mutex_);
      if (orders_) sending_.emplace(*orders_, outgoing_, data_);
      orders_.reset();
    }
    if (!sending_) return Clock::time_point::max();
    const auto next = sending_->go_on();
    if (!sending_->is_done()) return next;
    const double seconds = sending_->seconds();
    sending_.reset();
    done_->set_value(seconds);
    return Clock::time_point::max();
  }

  std::string data_;  // grows between orders
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> server_queue_;
  std::unique_ptr<grpc::CompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::atomic<std::uint64_t> messages_ = 0;
  std::deque<std::unique_ptr<Outgoing>> outgoing_;
  std::vector<std::unique_ptr<Incoming>> incoming_;
  std::optional<Sending> sending_;
  std::mutex mutex_;
  std::optional<Orders> orders_;
  std::optional<std::promise<double>> done_;
  grpc::Alarm wake_;
  std::thread thread_;
};

}  // namespace

int main(int count, char** arguments) {
  const std::string what = count > 1 ? arguments[1] : "";
  const std::vector<std::string> addresses(arguments + std::min(count, 2), arguments + count);
  if ((what != "sink" && what != "relay" && what != "source") || (what == "sink") != addresses.empty()) {
    std::cerr << "usage: bare_grpc sink | bare_grpc relay ADDRESS... | bare_grpc source ADDRESS...\n";
    return 2;
  }
  Peer peer(what != "source", addresses);
  for (std::string line; std::getline(std::cin, line);) std::cout << peer.obey(line) << std::endl;
  std::_Exit(0);
}
